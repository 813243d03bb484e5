//! Values as text, in the style of the file that they go into.

use serde_json::{Map, Value};

use super::lines;
use super::scalar::{Quotes, render_double_quoted, render_scalar};
use super::tree::{Node, NodeKind};

/// How a file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Its line break.
    pub(super) newline: &'static str,
    /// What one level of a map is indented by.
    pub(super) step: String,
    /// How much deeper than its key the dashes of a list stand.
    pub(super) list_indent: usize,
    /// Whether it is JSON, where every text has double quotes.
    pub(super) is_json: bool,
    /// Whether flow style has no space behind colons and commas, as machines print JSON.
    pub(super) is_tight: bool,
}

impl Style {
    /// Finds out the style of the document below `root`.
    pub(super) fn of(text: &str, root: &Node) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let is_json = match &root.kind {
            NodeKind::Map { is_flow: true, entries } => {
                entries.first().is_some_and(|entry| text[entry.start..].starts_with('"'))
            }
            _ => false,
        };
        let mut found = Found::default();
        found.look(text, root);
        Self {
            newline,
            step: found.step.unwrap_or_else(|| "  ".to_owned()),
            list_indent: found.list_indent.unwrap_or(2),
            is_json,
            is_tight: is_json && found.is_tight.unwrap_or(false),
        }
    }

    /// What stands between two elements on one line.
    pub(super) fn comma(&self) -> &'static str {
        if self.is_tight { "," } else { ", " }
    }

    /// The lines of `key: value`; the first is not indented, the others are by `column` and more.
    pub(super) fn block_entry(&self, key: &str, value: &Value, column: usize) -> Vec<String> {
        let key = self.key(key);
        match value {
            Value::Object(map) if !map.is_empty() => {
                let column = column + self.step.len();
                let mut lines = vec![format!("{key}:")];
                lines.extend(indent_first(self.block(value, column), column));
                lines
            }
            Value::Array(items) if !items.is_empty() => {
                let column = column + self.list_indent;
                let mut lines = vec![format!("{key}:")];
                lines.extend(indent_first(self.block(value, column), column));
                lines
            }
            _ => vec![format!("{key}: {}", self.flow(value, false))],
        }
    }

    /// The lines of a value in block style that begins in `column`; the first is not indented.
    pub(super) fn block(&self, value: &Value, column: usize) -> Vec<String> {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let mut lines = Vec::new();
                for (key, value) in in_order(map) {
                    let entry = self.block_entry(key, value, column);
                    if lines.is_empty() { lines.extend(entry) } else { lines.extend(indent_first(entry, column)) }
                }
                lines
            }
            Value::Array(items) if !items.is_empty() => {
                let mut lines = Vec::new();
                for item in items {
                    let item = self.block_item(item, column);
                    if lines.is_empty() { lines.extend(item) } else { lines.extend(indent_first(item, column)) }
                }
                lines
            }
            _ => vec![self.flow(value, false)],
        }
    }

    /// The lines of one item of a list whose dash stands in `column`; the first is not indented.
    pub(super) fn block_item(&self, value: &Value, column: usize) -> Vec<String> {
        let mut lines = self.block(value, column + 2);
        if let Some(first) = lines.first_mut() {
            first.insert_str(0, "- ");
        }
        lines
    }

    /// A value on one line; `is_padded`: `{ a: 1 }` rather than `{a: 1}`.
    pub(super) fn flow(&self, value: &Value, is_padded: bool) -> String {
        let pad = if is_padded { " " } else { "" };
        match value {
            Value::Object(map) if map.is_empty() => "{}".to_owned(),
            Value::Array(items) if items.is_empty() => "[]".to_owned(),
            Value::Object(map) => {
                let entries: Vec<String> =
                    in_order(map).map(|(key, value)| self.flow_entry(key, value, is_padded)).collect();
                format!("{{{pad}{}{pad}}}", entries.join(self.comma()))
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item, is_padded)).collect();
                format!("[{}]", items.join(self.comma()))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => self.scalar(value, Quotes::Plain),
        }
    }

    /// `key: value` on one line.
    pub(super) fn flow_entry(&self, key: &str, value: &Value, is_padded: bool) -> String {
        let colon = if self.is_tight { ":" } else { ": " };
        format!("{}{colon}{}", self.key(key), self.flow(value, is_padded))
    }

    /// A value over several lines, as JSON is printed for people; `indent` stands before its last line.
    pub(super) fn spread(&self, value: &Value, indent: &str) -> String {
        let deeper = format!("{indent}{}", self.step);
        let newline = self.newline;
        let spread = |open: char, parts: Vec<String>, close: char| {
            let parts = parts.join(&format!(",{newline}{deeper}"));
            format!("{open}{newline}{deeper}{parts}{newline}{indent}{close}")
        };
        match value {
            Value::Object(map) if !map.is_empty() => {
                let entry =
                    |(key, value): (&String, &Value)| format!("{}: {}", self.key(key), self.spread(value, &deeper));
                spread('{', in_order(map).map(entry).collect(), '}')
            }
            Value::Array(items) if !items.is_empty() => {
                spread('[', items.iter().map(|item| self.spread(item, &deeper)).collect(), ']')
            }
            _ => self.flow(value, false),
        }
    }

    /// A scalar, with the quotes that were there before where they can hold it.
    pub(super) fn scalar(&self, value: &Value, quotes: Quotes) -> String {
        render_scalar(value, if self.is_json { Quotes::Double } else { quotes })
    }

    fn key(&self, key: &str) -> String {
        if self.is_json { render_double_quoted(key) } else { render_scalar(&key.into(), Quotes::Plain) }
    }
}

/// The entries of a map as people write them: the name first, the others by the alphabet.
fn in_order(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let name = map.get_key_value("name");
    let mut others: Vec<_> = map.iter().filter(|(key, _)| *key != "name").collect();
    others.sort_by_key(|(key, _)| *key);
    name.into_iter().chain(others)
}

/// The same lines with the first one indented too.
pub(super) fn indent_first(mut lines: Vec<String>, column: usize) -> Vec<String> {
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, &" ".repeat(column));
    }
    // The others carry their whole indentation already.
    lines
}

/// What the first places in a document tell about its style.
#[derive(Default)]
struct Found {
    step: Option<String>,
    list_indent: Option<usize>,
    is_tight: Option<bool>,
}

impl Found {
    fn look(&mut self, text: &str, node: &Node) {
        if self.step.is_some() && self.list_indent.is_some() {
            return;
        }
        match &node.kind {
            NodeKind::Scalar | NodeKind::Alias | NodeKind::Tagged => {}
            NodeKind::Map { is_flow, entries } => {
                if *is_flow && self.step.is_none() {
                    self.step = flow_step(text, node);
                }
                for entry in entries {
                    if *is_flow {
                        self.is_tight.get_or_insert(entry.value.start == entry.colon && entry.value.end > entry.colon);
                    }
                    let column = lines::column(text, entry.start);
                    let child = lines::column(text, entry.value.start);
                    let is_below = lines::is_first_in_line(text, entry.value.start) && child >= column;
                    match &entry.value.kind {
                        NodeKind::Map { is_flow: false, .. } if is_below && child > column => {
                            self.step.get_or_insert_with(|| " ".repeat(child - column));
                        }
                        NodeKind::Seq { is_flow: false, .. } if is_below => {
                            self.list_indent.get_or_insert(child - column);
                        }
                        NodeKind::Scalar
                        | NodeKind::Alias
                        | NodeKind::Tagged
                        | NodeKind::Map { .. }
                        | NodeKind::Seq { .. } => {}
                    }
                    self.look(text, &entry.value);
                }
            }
            NodeKind::Seq { items, .. } => items.iter().for_each(|item| self.look(text, &item.value)),
        }
    }
}

/// What the first entry of a flow map over several lines is indented by, beyond the map's own line.
fn flow_step(text: &str, node: &Node) -> Option<String> {
    let NodeKind::Map { entries, .. } = &node.kind else { return None };
    let first = entries.first().filter(|entry| lines::is_first_in_line(text, entry.start))?;
    let inner = indentation(text, first.start);
    let outer = indentation(text, node.start);
    inner.strip_prefix(outer).filter(|step| !step.is_empty()).map(str::to_owned)
}

/// The spaces and tabs that the line of `at` begins with.
pub(super) fn indentation(text: &str, at: usize) -> &str {
    let line = &text[lines::line_start(text, at)..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}
