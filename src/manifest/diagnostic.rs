//! Problems that people read: what is wrong, where, and what to do about it.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::ids::TreePath;
use crate::object::ObjectKey;

/// Longer source lines are cut in snippets: a line of minified JSON would bury the message.
const SNIPPET_CHARS: usize = 120;

/// Lines longer than this, which no person writes, are not shown: cutting them would take as long as reading them,
/// for each problem again.
const LONGEST_LINE: usize = 64 << 10;

/// A place in a text, as editors count: from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// Whether the object can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot: the object is not applied, and its live state is kept.
    Error,
    /// It is applied; but it is surely not what was meant.
    Warning,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What sort of problem it is: bounded, for metrics and for tools that read the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// The file cannot be taken as text: too large, not UTF-8, a pointer to a file kept elsewhere.
    File,
    /// The document is not YAML or JSON, or has a key twice.
    Syntax,
    /// The document is not a Kubernetes object.
    NotAnObject,
    /// The kind or the namespace is not granted by the settings.
    NotGranted,
    /// A field that the kind does not have.
    UnknownField,
    /// A field with a value that the kind does not allow.
    InvalidField,
    /// A field that is required is not there.
    MissingField,
    /// The same object in two places.
    Duplicate,
    /// Two objects that get in each other's way.
    Conflict,
    /// Something that this version of Serin does not do.
    Unsupported,
    /// Accepted, but surely not meant.
    Suspicious,
}

impl Problem {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::File,
        Self::Syntax,
        Self::NotAnObject,
        Self::NotGranted,
        Self::UnknownField,
        Self::InvalidField,
        Self::MissingField,
        Self::Duplicate,
        Self::Conflict,
        Self::Unsupported,
        Self::Suspicious,
    ];

    /// A sentence about all problems of this sort.
    pub fn summary(self) -> &'static str {
        match self {
            Self::File => "The file cannot be read as a manifest.",
            Self::Syntax => "The document is not YAML or JSON, or has a key twice.",
            Self::NotAnObject => "The document is not a Kubernetes object.",
            Self::NotGranted => "The settings of the source do not grant this kind or namespace.",
            Self::UnknownField => "The kind has no such field.",
            Self::InvalidField => "The kind does not allow this value.",
            Self::MissingField => "A required field is missing.",
            Self::Duplicate => "The same object is in two places.",
            Self::Conflict => "Two objects get in each other's way.",
            Self::Unsupported => "This version of Serin does not do this.",
            Self::Suspicious => "This is accepted, but surely not meant.",
        }
    }

    /// A bounded name, which stays the same from version to version: the rule of `serin check`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Syntax => "syntax",
            Self::NotAnObject => "not-an-object",
            Self::NotGranted => "not-granted",
            Self::UnknownField => "unknown-field",
            Self::InvalidField => "invalid-field",
            Self::MissingField => "missing-field",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Unsupported => "unsupported",
            Self::Suspicious => "suspicious",
        }
    }
}

/// The line of the source that a problem is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Snippet {
    /// The line, cut around the place if it is long; tabs are one blank each.
    pub text: String,
    /// Where in `text` the mark begins, in characters from 0.
    pub mark: usize,
    /// How long the mark is, in characters; at least 1.
    pub mark_len: usize,
}

impl Snippet {
    /// The snippet of `position` in `source`; `None` where the source has no such line.
    pub(super) fn of(source: &Lines<'_>, position: Position) -> Option<Self> {
        let line = source.line(position.line).filter(|line| line.len() <= LONGEST_LINE)?;
        let chars: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if chars.iter().all(|c| c.is_whitespace()) {
            return None;
        }
        let at = usize::try_from(position.column).unwrap_or(usize::MAX).saturating_sub(1).min(chars.len());
        let from = if chars.len() <= SNIPPET_CHARS { 0 } else { at.saturating_sub(SNIPPET_CHARS / 3) };
        let shown = &chars[from..chars.len().min(from + SNIPPET_CHARS)];
        let mark = (at - from).min(shown.len());
        let mark_len = token_len(&shown[mark..]).max(1);
        let text: String = shown.iter().collect();
        Some(Self { text: text.trim_end().to_owned(), mark, mark_len })
    }

    /// What the mark underlines.
    pub(super) fn marked(&self) -> String {
        self.text.chars().skip(self.mark).take(self.mark_len).collect()
    }
}

/// The length of the word, quoted text or rest that begins here: what the mark underlines.
fn token_len(rest: &[char]) -> usize {
    match rest.first() {
        Some(quote @ ('"' | '\'')) => rest[1..].iter().position(|c| c == quote).map_or(1, |end| end + 2),
        Some('{' | '[' | '|' | '>' | '*' | '&') => 1,
        _ => rest
            .iter()
            .enumerate()
            .position(|(i, c)| match c {
                ':' => rest.get(i + 1).is_none_or(|next| next.is_whitespace()),
                ',' | '}' | ']' => true,
                ' ' => rest.get(i + 1).is_none_or(|next| matches!(next, '#' | '}' | ']') || next.is_whitespace()),
                _ => false,
            })
            .unwrap_or(rest.len()),
    }
}

/// The lines of a text, each with its end. As in YAML, a carriage return alone ends a line, too: the reader counts so.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = match rest.find(['\n', '\r']) {
            None if rest.is_empty() => return None,
            None => rest.len(),
            Some(end) if rest[end..].starts_with("\r\n") => end + 2,
            Some(end) => end + 1,
        };
        let (line, behind) = rest.split_at(length);
        rest = behind;
        Some(line)
    })
}

/// The place behind all of `text`.
pub(super) fn end_of(text: &str) -> Position {
    let (mut line, mut column) = (1_u32, 1);
    for piece in lines_of(text) {
        if piece.ends_with(['\n', '\r']) {
            line = line.saturating_add(1);
            column = 1;
        } else {
            column = u32::try_from(piece.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
        }
    }
    Position { line, column }
}

/// The lines of a text by number.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        let mut starts = vec![0];
        let mut offset = 0;
        for line in lines_of(text) {
            offset += line.len();
            if line.ends_with(['\n', '\r']) {
                starts.push(offset);
            }
        }
        Self { text, starts }
    }

    /// Line `number`, from 1, without its end.
    pub(super) fn line(&self, number: u32) -> Option<&'a str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end)?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some(line.strip_suffix('\r').unwrap_or(line))
    }
}

/// One problem of one file.
///
/// Ordered by file and place, so that the same input always gives the same report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnostic {
    /// The file.
    pub file: TreePath,
    /// Where in it.
    #[serde(flatten)]
    pub position: Position,
    /// Whether the object is refused for it.
    pub severity: Severity,
    /// What sort of problem it is.
    #[serde(serialize_with = "problem_name")]
    pub problem: Problem,
    /// The object, where its identity is known.
    #[serde(serialize_with = "object_name")]
    pub object: Option<ObjectKey>,
    /// The field, such as `spec.rollout.steps[1].setWieght`; empty where it is about the whole document.
    pub field: String,
    /// What is wrong, without the place.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The line of the source.
    pub snippet: Option<Snippet>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn problem_name<S: Serializer>(problem: &Problem, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(problem.as_str())
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn object_name<S: Serializer>(object: &Option<ObjectKey>, serializer: S) -> Result<S::Ok, S::Error> {
    match object {
        Some(key) => serializer.collect_str(key),
        None => serializer.serialize_none(),
    }
}

impl Diagnostic {
    /// Whether the object is refused for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Where the text that it is about ends, on the same line: the column behind its last character. `None` where the
    /// source is not shown.
    pub fn end_column(&self) -> Option<u32> {
        let length = u32::try_from(self.snippet.as_ref()?.mark_len).ok()?;
        Some(self.position.column.saturating_add(length))
    }

    /// The text for people: place and message, the source line with a mark, the hint.
    pub fn render(&self) -> String {
        use fmt::Write;
        let mut text = self.to_string();
        if let Some(snippet) = &self.snippet {
            let number = self.position.line.to_string();
            let margin = " ".repeat(number.len());
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n  {number} | {}\n  {margin} | {}{}",
                snippet.text,
                " ".repeat(snippet.mark),
                "^".repeat(snippet.mark_len)
            );
        }
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\n  hint: {hint}");
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    /// One line: `clusters/prod/agent.yaml:14:9: spec.rollout.steps[2]: message`; warnings say so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.position.line, self.position.column)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet(line: &str, column: u32) -> Snippet {
        Snippet::of(&Lines::new(line), Position { line: 1, column }).unwrap()
    }

    #[test]
    fn the_mark_underlines_the_word_that_is_meant() {
        for (line, column, marked) in [
            ("  setWieght: 50", 3, "setWieght"),
            ("  - setWeight: 101 # too much", 16, "101"),
            ("duration: 5 minutes", 11, "5 minutes"),
            ("duration: \"5 minutes\" # x", 11, "\"5 minutes\""),
            ("pause: { duration: 5x }", 20, "5x"),
            ("url: http://a:80/x", 6, "http://a:80/x"),
            ("a: {b: c}", 4, "{"),
            ("ä: ö", 4, "ö"),
        ] {
            let found = snippet(line, column);
            let text: String = found.text.chars().skip(found.mark).take(found.mark_len).collect();
            assert_eq!(text, marked, "{line}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}needle{}", "x, ".repeat(500), ", y".repeat(500));
        let found = snippet(&line, 1501);
        assert!(found.text.chars().count() <= SNIPPET_CHARS);
        assert_eq!(found.text.chars().skip(found.mark).take(6).collect::<String>(), "needle");
    }

    #[test]
    fn lines_are_found_with_any_line_end() {
        let lines = Lines::new("a\r\nb\n\nc\rd");
        let found: Vec<_> = (0..7).map(|n| lines.line(n)).collect();
        assert_eq!(found, [None, Some("a"), Some("b"), Some(""), Some("c"), Some("d"), None]);
        for (text, line, column) in [("", 1, 1), ("ab", 1, 3), ("a\r\n", 2, 1), ("a\r\u{e4}b", 2, 3)] {
            assert_eq!(end_of(text), Position { line, column }, "{text:?}");
        }
    }
}
