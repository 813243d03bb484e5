//! Finds the documents of a file.
//!
//! Done before parsing, and not by the YAML reader, so that a document that is broken leaves the others
//! readable, and so that documents have a number. It is exact: YAML allows `---` and `...` at the beginning of
//! a line nowhere but between documents, not even inside texts.

use serde::de::IgnoredAny;

use super::diagnostic::{Position, end_of, lines_of};
use crate::ids::TreePath;

/// One document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Document<'a> {
    /// Its text, with the `---` line that opens it.
    pub(crate) text: &'a str,
    /// How many bytes of the file come before it.
    pub(crate) start: usize,
    /// How many lines of the file come before it.
    pub(super) lines_before: u32,
    /// How many characters of its first line come before it; only JSON values may share a line.
    pub(super) columns_before: u32,
    /// Its number in the file, from 0; empty documents count.
    pub(crate) index: usize,
}

impl Document<'_> {
    /// The place in the file of a place in the document.
    pub(super) fn place(&self, inner: Position) -> Position {
        let columns = if inner.line == 1 { self.columns_before } else { 0 };
        Position { line: inner.line.saturating_add(self.lines_before), column: inner.column.saturating_add(columns) }
    }
}

/// Why the documents of a file cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotJson {
    /// Where the reader stopped.
    pub(crate) at: Position,
    /// What it said.
    pub(crate) why: String,
}

/// The documents of a file without its byte order mark. JSON files may hold several values one after the other, as kubectl
/// allows.
///
/// # Errors
/// If a JSON file is not JSON.
pub(crate) fn documents<'a>(path: &TreePath, text: &'a str) -> Result<Vec<Document<'a>>, NotJson> {
    let is_json = path.as_str().to_ascii_lowercase().ends_with(".json") && text.trim_start().starts_with('{');
    if !is_json {
        return Ok(split(text));
    }
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut start = 0;
    let (mut lines_before, mut columns_before) = (0, 0);
    while let Some(value) = values.next() {
        if let Err(error) = value {
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            return Err(NotJson { at: place_of(&error, text), why: format!("this is not JSON: {said}") });
        }
        let piece = &text[start..values.byte_offset()];
        documents.push(Document { text: piece, start, lines_before, columns_before, index: documents.len() });
        let end = end_of(piece);
        columns_before = end.column - 1 + if end.line == 1 { columns_before } else { 0 };
        lines_before += end.line - 1;
        start = values.byte_offset();
    }
    Ok(documents)
}

/// Where the JSON reader stopped. It counts lines by line feeds and columns in bytes, up to and with the character.
fn place_of(error: &serde_json::Error, text: &str) -> Position {
    let lines_before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let mut offset = (lines_before + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    end_of(&text[..offset])
}

/// The documents of `text` in order. Comments and directives before the first `---` belong to its document.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let mut open = Open::default();
    let mut offset = 0;
    for (number, line) in (0_u32..).zip(lines_of(text)) {
        if is_marker(line, "---") {
            if open.has_begun {
                open.close(text, offset, &mut documents);
                open = Open { offset, lines_before: number, has_begun: false };
            }
            open.has_begun = true;
        } else if is_marker(line, "...") {
            if open.has_begun {
                open.close(text, offset, &mut documents);
            }
            open = Open { offset: offset + line.len(), lines_before: number + 1, has_begun: false };
        } else if !open.has_begun {
            let first = line.trim_start().chars().next();
            open.has_begun = first.is_some_and(|c| c != '#') && !line.starts_with('%');
        }
        offset += line.len();
    }
    if open.has_begun {
        open.close(text, text.len(), &mut documents);
    }
    documents
}

#[derive(Default)]
struct Open {
    offset: usize,
    lines_before: u32,
    has_begun: bool,
}

impl Open {
    fn close<'a>(&self, text: &'a str, end: usize, documents: &mut Vec<Document<'a>>) {
        let index = documents.len();
        documents.push(Document {
            text: &text[self.offset..end],
            start: self.offset,
            lines_before: self.lines_before,
            columns_before: 0,
            index,
        });
    }
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(&str, u32)> {
        split(text).into_iter().map(|document| (document.text, document.lines_before)).collect()
    }

    #[test]
    fn documents_are_split_where_yaml_ends_them() {
        assert_eq!(texts("a: 1\n"), [("a: 1\n", 0)]);
        assert_eq!(texts("a: 1\n---\nb: 2\n"), [("a: 1\n", 0), ("---\nb: 2\n", 1)]);
        assert_eq!(texts("a: 1\r\n--- # next\r\nb: 2"), [("a: 1\r\n", 0), ("--- # next\r\nb: 2", 1)]);
        assert_eq!(texts("---\n---\na: 1\n"), [("---\n", 0), ("---\na: 1\n", 1)]);
        assert_eq!(texts("a: 1\n...\nb: 2\n...\n"), [("a: 1\n", 0), ("b: 2\n", 2)]);
        assert_eq!(texts("a: |\n  ---\n  x\n"), [("a: |\n  ---\n  x\n", 0)]);
        assert_eq!(texts("---x: 1\n"), [("---x: 1\n", 0)]);
        assert_eq!(texts("a: 1\r---\rb: 2\r"), [("a: 1\r", 0), ("---\rb: 2\r", 1)]);
    }

    #[test]
    fn comments_and_directives_before_a_document_belong_to_it() {
        assert_eq!(texts("# c\n%YAML 1.2\n\n---\na: 1\n"), [("# c\n%YAML 1.2\n\n---\na: 1\n", 0)]);
        assert_eq!(texts(""), []);
        assert_eq!(texts("# only\n\n"), []);
    }
}
