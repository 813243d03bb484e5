//! The net below every edit: the file is parsed again, and the lines that no edit is about are compared.

use serde_json::Value;

use super::lines::{self, Splice};
use super::{data, slices};
use crate::ids::TreePath;

/// Whether the document `index` of `edited` is exactly the intended one, and the others are those of `old`, byte for byte.
pub(super) fn documents(
    file: &TreePath,
    old: &str,
    edited: &str,
    index: usize,
    intended: &Value,
) -> Result<(), String> {
    let unreadable = |why: &str| format!("the edit would leave a file that cannot be read ({why}), so it was not made");
    let before = slices(file, old).map_err(|error| unreadable(&error.why))?;
    let after = slices(file, edited).map_err(|error| unreadable(&error.why))?;
    if before.len() != after.len() {
        return Err("the edit would also change the number of documents, so it was not made".to_owned());
    }
    for (number, (before, after)) in before.iter().zip(&after).enumerate() {
        if number != index && before.text != after.text {
            return Err("the edit would also change another document, so it was not made".to_owned());
        }
    }
    let text = after.get(index).map(|document| document.text).unwrap_or_default();
    let found = data::parse(text, &mut { data::MAX_NODES }).map_err(|error| unreadable(&error.why))?;
    let place = match &found[..] {
        [found] if found == intended => return Ok(()),
        [found] => first_difference(found, intended, ""),
        _ => None,
    };
    let place = place.unwrap_or_else(|| "the number of documents".to_owned());
    Err(format!("the edit would also change {place}, so it was not made"))
}

/// Whether every line that no splice touches is still there, byte for byte and in order.
pub(super) fn other_lines(old: &str, new: &str, splices: &[Splice]) -> Result<(), String> {
    let mut rest = new;
    let mut at = 0;
    while at < old.len() {
        let end = lines::line_end(old, at);
        let is_touched =
            splices.iter().any(|s| s.start < end && s.end > at || s.start == s.end && at < s.start && s.start < end);
        if !is_touched {
            let line = &old[at..end];
            // A line that keeps its text but gains a newline (something was added behind the last line) is
            // the one change that an untouched line may show.
            let Some(found) = find_line(rest, line.trim_end_matches(['\r', '\n'])) else {
                let number = lines::line_number(old, at);
                return Err(format!("the edit would also change line {number}, so it was not made"));
            };
            rest = &rest[found..];
        }
        at = end;
    }
    Ok(())
}

/// One behind the first line of `text` that reads `line`.
fn find_line(text: &str, line: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        let end = lines::line_end(text, at);
        if text[at..end].trim_end_matches(['\r', '\n']) == line {
            return Some(end);
        }
        at = end;
    }
    None
}

fn first_difference(found: &Value, intended: &Value, path: &str) -> Option<String> {
    match (found, intended) {
        _ if found == intended => None,
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).find_map(|key| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => first_difference(a, b, &path),
                _ => Some(path),
            }
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| first_difference(a, b, &format!("{path}[{i}]")))
        }
        _ => Some(path.to_owned()),
    }
}
