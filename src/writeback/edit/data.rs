//! The data of a file: what a reader of Kubernetes manifests understands, and the same changes made on it.
//!
//! It decides whether an edit was right, so it reads scalars as `kubectl` does and knows nothing of the
//! syntax tree that the edit was made on.

use serde_json::{Map, Number, Value};

use super::Change;

/// Why a text is no stream of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseError {
    /// The line, from 1.
    pub(super) line: Option<u64>,
    /// A sentence.
    pub(super) why: String,
}

/// All documents of `text` that are not empty, in order.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Default budgets are for one document; a file of a repository may hold thousands.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_documents: 100_000,
            max_nodes: 5_000_000,
            max_events: 10_000_000,
        },
    };
    match serde_saphyr::from_multiple_with_options::<Value>(text, options) {
        Ok(mut documents) => {
            documents.iter_mut().for_each(make_whole);
            Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
        }
        Err(error) => {
            let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
            if let Some(at) = text.find("{{") {
                let line = Some(super::lines::line_number(text, at));
                let why = "the file is a template ({{ ... }}) and no plain YAML; Serin edits only plain files";
                return Err(ParseError { line, why: why.to_owned() });
            }
            Err(ParseError { line, why: format!("the file cannot be parsed: {}", sentence(&error.to_string())) })
        }
    }
}

/// The parser's words on one line, without the place (it is told apart) and advice to programmers.
fn sentence(error: &str) -> String {
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
    match line.rfind(" at line ") {
        Some(at) if line[at..].contains(", column ") => line[..at].to_owned(),
        _ => line,
    }
}

/// Makes `change` in `object`.
pub(super) fn apply(change: &Change, object: &mut Value) {
    match change {
        Change::Set { path, value } => {
            let Some((last, parents)) = path.split_last() else {
                *object = value.clone();
                return;
            };
            let mut at = object;
            for key in parents {
                at = as_map(at).entry(key.clone()).or_insert(Value::Null);
            }
            as_map(at).insert(last.clone(), value.clone());
        }
        Change::Remove { path } => {
            let Some((last, parents)) = path.split_last() else { return };
            let mut at = object;
            for key in parents {
                let Some(next) = at.get_mut(key) else { return };
                at = next;
            }
            if let Value::Object(map) = at {
                map.remove(last);
            }
        }
    }
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made a map above")
}

/// Turns floats without a fraction into integers, as `kubectl` does on the way to JSON.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0);
            if let Some(whole) = whole {
                // Exact: below 2^53 in size and without a fraction.
                *number = Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
