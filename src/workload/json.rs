//! Small readers of JSON fields, where `null`, an empty text and an absent field mean the same.

use serde_json::{Map, Value};

use crate::object::value_at;

/// The value at `pointer`, unless it is `null`.
pub(super) fn present<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value_at(value, pointer).filter(|value| !value.is_null())
}

/// The text at `pointer`, unless it is empty.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    present(value, pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The list at `pointer`; empty where there is none.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    present(value, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The map at `pointer`, unless it is empty.
pub(super) fn map<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    present(value, pointer).and_then(Value::as_object).filter(|map| !map.is_empty())
}

/// A map of the entries that are there.
pub(super) fn object<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<Map<_, _>>().into()
}
