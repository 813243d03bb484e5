//! Lines and splices of a text.

/// A piece of the old text that gives way to a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Splice {
    /// First byte of the old piece.
    pub(super) start: usize,
    /// One behind its last byte; equal to `start` where text is only added.
    pub(super) end: usize,
    /// What stands there afterwards.
    pub(super) text: String,
}

/// The text after all splices, which are in order and do not overlap.
pub(super) fn splice(text: &str, splices: &[Splice]) -> String {
    let mut result = String::with_capacity(text.len() + 256);
    let mut done = 0;
    for splice in splices {
        result.push_str(&text[done..splice.start]);
        result.push_str(&splice.text);
        done = splice.end;
    }
    result.push_str(&text[done..]);
    result
}

/// The first byte of the line that `at` is in. A byte order mark belongs to no line.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    if start == 0 && text.starts_with('\u{feff}') && at >= '\u{feff}'.len_utf8() {
        '\u{feff}'.len_utf8()
    } else {
        start
    }
}

/// One behind the newline of the line that `at` is in, or the end of the text.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// The number of the line that `at` is in, from 1.
pub(super) fn line_number(text: &str, at: usize) -> u64 {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The line break that ends the line before `at`; `None` where there is none.
pub(super) fn newline_before(text: &str, at: usize) -> Option<&'static str> {
    let before = &text[..at];
    let newline = if before.ends_with("\r\n") { "\r\n" } else { "\n" };
    before.ends_with('\n').then_some(newline)
}

/// Whether nothing but spaces and tabs stands before `at` in its line.
pub(super) fn is_first_in_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].chars().all(|c| c == ' ' || c == '\t')
}

/// How many characters stand before `at` in its line.
pub(super) fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

/// The end of a block that begins in `column` and whose last content ends at `end`: the end of that
/// line, or of the last comment below it that is indented deeper than the block and so belongs to it.
pub(super) fn block_end(text: &str, end: usize, column: usize) -> usize {
    let mut block_end = line_end(text, end);
    let mut next = block_end;
    while next < text.len() {
        let line_end = line_end(text, next);
        let line = text[next..line_end].trim_end_matches(['\r', '\n']);
        let content = line.trim_start_matches(' ');
        if content.starts_with('#') && line.len() - content.len() > column {
            block_end = line_end;
        } else if !content.trim().is_empty() {
            break;
        }
        next = line_end;
    }
    block_end
}

/// Skips white space, line breaks and comments from `at` on, but not beyond `limit`.
pub(super) fn skip_blank(text: &str, mut at: usize, limit: usize) -> usize {
    let bytes = text.as_bytes();
    while at < limit {
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at = line_end(text, at).min(limit),
            _ => break,
        }
    }
    at
}
