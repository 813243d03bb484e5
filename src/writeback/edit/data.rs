//! The data of a file: what a reader of Kubernetes manifests understands, and the same changes made on it.
//!
//! It decides whether an edit was right, so it reads scalars as `kubectl` does and knows nothing of the
//! syntax tree that the edit was made on.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetReport;

use super::Change;

/// How deep values may be nested: readers descend by recursion, on the stack of a worker thread. As deep as a
/// manifest may be to be loaded.
const MAX_DEPTH: usize = 32;
/// How many values a file may hold, with every alias written out.
pub(super) const MAX_NODES: usize = 2_000_000;
/// How many values aliases may stand for: far above what people write, far below what hurts.
const MAX_REPLAYED: usize = 100_000;

/// Why a text is no stream of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseError {
    /// The line, from 1.
    pub(super) line: Option<u64>,
    /// A sentence.
    pub(super) why: String,
}

/// All documents of `text` that are not empty, in order; it is one document of a file, unless it was not told apart well. They
/// may have as many values as are `left` to the file, which is less by them then: many documents cannot do together what one
/// may not.
pub(super) fn parse(text: &str, left: &mut usize) -> Result<Vec<Value>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let spent = Rc::new(Cell::new(0));
    let report = Rc::clone(&spent);
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: MAX_NODES,
            max_nodes: *left,
            max_events: left.saturating_mul(2),
            // Charts render the same anchors over and over; the limits above bound what they can do.
            enforce_alias_anchor_ratio: false,
        },
    };
    let options = options.with_budget_report(move |spent: BudgetReport| report.set(report.get() + spent.nodes));
    let parsed = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    *left = left.saturating_sub(spent.get());
    match parsed {
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
            // Both ends are exact floats, and every float between them is a whole number of the type.
            const LIMIT: f64 = 9_223_372_036_854_775_808.0;
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0 && (-LIMIT..LIMIT).contains(n)) {
                *number = Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
