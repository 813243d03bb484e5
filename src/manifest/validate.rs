//! Holds a document to a schema and finds everything that is wrong with it.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::diagnostic::{Position, Problem};
use super::near::nearest;
use super::node::{Content, Node, path_part, shorten};
use super::schema::{Format, Schema, Type};

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) at: Position,
    pub(super) problem: Problem,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// How many problems of one object are looked for: more than anybody reads, and a bound for what a hostile
/// file may cost.
pub(super) const MAX_FINDINGS: usize = 200;

/// Where the validator is: the path for messages, and the schemas above for hints about indentation.
struct Walk<'s> {
    path: Vec<String>,
    above: Vec<&'s Schema>,
    findings: Vec<Finding>,
}

/// Everything that is wrong with `node`, which stands at `path`. `key_at` is where a field that is missing is reported.
pub(super) fn validate(node: &Node, schema: &Schema, path: &[&str], key_at: Position) -> Vec<Finding> {
    let mut walk = Walk { path: Vec::new(), above: Vec::new(), findings: Vec::new() };
    for part in path {
        walk.enter_key(part);
    }
    walk.check(node, schema, key_at);
    walk.findings
}

/// Takes out what the API server takes out: fields that are null and may not be.
pub(super) fn prune_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let known = schema.properties.get(key).or(schema.additional.as_deref());
                !(value.is_null() && known.is_some_and(|schema| !schema.is_nullable))
            });
            for (key, value) in map {
                if let Some(schema) = schema.properties.get(key).or(schema.additional.as_deref()) {
                    prune_nulls(value, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| prune_nulls(item, schema));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl<'s> Walk<'s> {
    fn enter_key(&mut self, key: &str) {
        self.path.push(path_part(key, self.path.is_empty()));
    }

    fn report(&mut self, at: Position, problem: Problem, message: String, hint: Option<String>) {
        if self.findings.len() >= MAX_FINDINGS {
            return;
        }
        self.findings.push(Finding { at, problem, field: self.path.concat(), message, hint });
    }

    fn invalid(&mut self, at: Position, message: String) {
        self.report(at, Problem::InvalidField, message, None);
    }

    fn check(&mut self, node: &Node, schema: &'s Schema, key_at: Position) {
        if matches!(node.content, Content::Null) && schema.is_nullable {
            return;
        }
        if !self.check_type(node, schema) {
            return;
        }
        if !schema.choices.is_empty() {
            self.check_choices(node, schema);
        }
        match &node.content {
            Content::Map(_) => self.check_map(node, schema, key_at),
            Content::List(items) => self.check_list(items, schema, key_at),
            Content::Text(text) => self.check_text(node.at, text, schema),
            Content::Number(number) => self.check_number(node.at, number, schema),
            Content::Null | Content::Bool(_) => {}
        }
    }

    fn check_type(&mut self, node: &Node, schema: &Schema) -> bool {
        let Some(kind) = schema.kind else { return true };
        let is_right = match (&node.content, kind) {
            (Content::Map(_), Type::Object)
            | (Content::List(_), Type::Array)
            | (Content::Text(_), Type::Text | Type::IntegerOrText)
            | (Content::Number(_), Type::Number)
            | (Content::Bool(_), Type::Boolean) => true,
            (Content::Number(number), Type::Integer | Type::IntegerOrText) => !number.is_f64(),
            _ => false,
        };
        if !is_right {
            let expected = match kind {
                Type::Object => "a mapping",
                Type::Array => "a list",
                Type::Text => "a text",
                Type::Integer => "a whole number",
                Type::Number => "a number",
                Type::Boolean => "true or false",
                Type::IntegerOrText => "a whole number or a text",
            };
            let hint = match (&node.content, kind) {
                (Content::Bool(_) | Content::Number(_), Type::Text) => Some(QUOTE_IT.to_owned()),
                (Content::Text(text), Type::Integer | Type::Number) if text.trim().parse::<i64>().is_ok() => {
                    Some(format!("write {} without quotes", text.trim()))
                }
                (Content::Text(text), Type::Boolean) if matches!(text.as_str(), "true" | "false") => {
                    Some(format!("write {text} without quotes"))
                }
                (Content::Map(_), Type::Array) => Some("begin each item with `- `".to_owned()),
                (Content::List(_), Type::Object) => Some("it is one mapping: leave the `- ` out".to_owned()),
                _ => None,
            };
            let found = node.describe();
            self.report(node.at, Problem::InvalidField, format!("expected {expected}, found {found}"), hint);
        }
        is_right
    }

    fn check_choices(&mut self, node: &Node, schema: &Schema) {
        let is_chosen = schema.choices.iter().any(|choice| match (&node.content, choice) {
            (Content::Text(text), Value::String(choice)) => text == choice,
            (Content::Number(number), Value::Number(choice)) => number == choice,
            (Content::Bool(value), Value::Bool(choice)) => value == choice,
            _ => false,
        });
        if is_chosen {
            return;
        }
        let known: Vec<&str> = schema.choices.iter().filter_map(Value::as_str).collect();
        let hint = match &node.content {
            Content::Text(text) => nearest(text, known.iter().copied()).map(did_you_mean),
            _ => None,
        };
        let found = match &node.content {
            Content::Text(text) => shorten(text),
            _ => node.describe(),
        };
        let known = if known.is_empty() {
            schema.choices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        } else {
            known.join(", ")
        };
        self.report(node.at, Problem::InvalidField, format!("{found} is none of {known}"), hint);
    }

    fn check_map(&mut self, node: &Node, schema: &'s Schema, key_at: Position) {
        let Content::Map(entries) = &node.content else { return };
        for name in &schema.required {
            if node.get(name).is_none_or(|value| matches!(value.content, Content::Null)) {
                let place = node.entry(name).map_or(key_at, |entry| entry.key_at);
                self.enter_key(name);
                self.report(place, Problem::MissingField, "this field is required".to_owned(), None);
                self.path.pop();
            }
        }
        let present: HashSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        self.above.push(schema);
        for entry in entries {
            self.enter_key(&entry.key);
            match schema.properties.get(&entry.key).or(schema.additional.as_deref()) {
                // As the API server does, a field that is null counts as not being there.
                Some(_) if matches!(entry.value.content, Content::Null) => {}
                Some(known) => self.check(&entry.value, known, entry.key_at),
                None => self.check_unknown(entry.key_at, &entry.key, &present, schema),
            }
            self.path.pop();
        }
        self.above.pop();
    }

    fn check_unknown(&mut self, at: Position, key: &str, present: &HashSet<&str>, schema: &Schema) {
        let free = schema.properties.keys().map(String::as_str).filter(|name| !present.contains(name));
        let meant = nearest(key, free);
        // Where the schema is open, a field that is one slip away from a known one is taken for that slip; any
        // other is one that Serin only passes through.
        if schema.is_open() && meant.is_none() {
            return;
        }
        let hint = meant.map(did_you_mean).or_else(|| self.hint_of_place(key, schema)).or_else(|| {
            let names: Vec<String> = schema.properties.keys().map(|name| format!("`{name}`")).collect();
            (1..=8).contains(&names.len()).then(|| format!("the fields here are {}", names.join(", ")))
        });
        self.report(at, Problem::UnknownField, format!("unknown field `{key}`"), hint);
    }

    /// The field is known elsewhere: most likely it is indented too far, or not far enough.
    fn hint_of_place(&self, key: &str, schema: &Schema) -> Option<String> {
        let inner = schema.properties.iter().find(|(_, inner)| inner.properties.contains_key(key));
        if let Some((name, _)) = inner {
            return Some(format!("`{key}` is a field of `{name}`: is it indented far enough?"));
        }
        let outer = self.above.iter().rev().skip(1).any(|outer| outer.properties.contains_key(key));
        outer.then(|| format!("`{key}` is a field further out: is it indented too far?"))
    }

    fn check_list(&mut self, items: &[Node], schema: &'s Schema, key_at: Position) {
        if let Some(min) = schema.min_items.filter(|min| items.len() < *min) {
            let message = if items.is_empty() && min == 1 {
                "it needs at least one item".to_owned()
            } else {
                format!("it needs at least {min} items and has {}", items.len())
            };
            self.invalid(key_at, message);
        }
        if let Some(max) = schema.max_items.filter(|max| items.len() > *max) {
            self.invalid(key_at, format!("it may have at most {max} items and has {}", items.len()));
        }
        let mut seen: HashMap<String, u32> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            self.path.push(format!("[{i}]"));
            if let Some(identity) = identity(item, schema)
                && let Some(first) = seen.insert(identity.clone(), item.at.line)
            {
                self.invalid(item.at, format!("{identity} is in this list twice, first in line {first}"));
            }
            if let Some(schema) = &schema.items {
                self.check(item, schema, item.at);
            }
            self.path.pop();
        }
    }

    fn check_text(&mut self, at: Position, text: &str, schema: &Schema) {
        let length = text.chars().count();
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            if min == 1 {
                self.invalid(at, "it must not be empty".to_owned());
            } else {
                self.invalid(at, format!("it needs at least {min} characters and has {length}"));
            }
            return;
        }
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            self.invalid(at, format!("it may have at most {max} characters and has {length}"));
        }
        if let Some((pattern, regex)) = &schema.pattern
            && !regex.is_match(text)
        {
            self.invalid(at, sentence_of_pattern(pattern, text));
        }
        if schema.format == Some(Format::DateTime) && text.parse::<jiff::Timestamp>().is_err() {
            self.invalid(at, format!("{} is no time such as 2026-01-31T12:00:00Z", shorten(text)));
        }
    }

    fn check_number(&mut self, at: Position, number: &serde_json::Number, schema: &Schema) {
        let is_in_format = match schema.format {
            Some(Format::Int32) => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Some(Format::Int64) => number.as_i64().is_some(),
            _ => true,
        };
        let value = number.as_f64().unwrap_or_default();
        let is_too_small = schema.minimum.is_some_and(|min| value < min);
        let is_too_large = schema.maximum.is_some_and(|max| value > max);
        if is_too_small || is_too_large {
            let range = match (schema.minimum, schema.maximum) {
                (Some(min), Some(max)) => format!("{min} to {max}"),
                (Some(min), None) => format!("at least {min}"),
                (None, Some(max)) => format!("at most {max}"),
                (None, None) => String::new(),
            };
            self.invalid(at, format!("it must be {range}, got {number}"));
        } else if !is_in_format {
            self.invalid(at, format!("{number} is too large here"));
        }
    }
}

impl Schema {
    /// Whether fields that it does not name may be there.
    fn is_open(&self) -> bool {
        self.preserves_unknown
            || (self.properties.is_empty() && self.additional.is_none() && self.kind != Some(Type::Object))
    }
}

/// What tells this item from the others of its list, in words.
fn identity(item: &Node, schema: &Schema) -> Option<String> {
    if schema.is_set {
        return match &item.content {
            Content::Text(text) => Some(shorten(text)),
            Content::Number(number) => Some(number.to_string()),
            _ => None,
        };
    }
    if schema.list_keys.is_empty() {
        return None;
    }
    let parts: Option<Vec<String>> =
        schema.list_keys.iter().map(|key| item.text(key).map(|value| format!("{key} {value:?}"))).collect();
    parts.map(|parts| parts.join(", "))
}

/// The patterns that occur in the CRDs, in words.
fn sentence_of_pattern(pattern: &str, text: &str) -> String {
    let text = shorten(text);
    match pattern {
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" | r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" => {
            format!("{text} may have only lower-case letters, digits and -, and begins and ends with a letter or digit")
        }
        _ if pattern.starts_with(r"^v?(\d+)\.(\d+)\.(\d+)") => {
            format!("{text} is no version such as 1.2.3, v1.2.3 or 1.2.3-rc.1")
        }
        _ => format!("{text} does not match the pattern {pattern}"),
    }
}

/// The hint for a text that YAML reads as something else; the loader adds what the text is.
pub(super) const QUOTE_IT: &str = "write it in quotes";

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}
