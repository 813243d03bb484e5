//! A document as a tree in which every key and value knows its place.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use super::diagnostic::Position;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
}

/// What a [`Node`] holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping with its value, in the order of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Position,
    /// Whether the key was written as something else than a text (`on`, `1`): kubectl reads its JSON form.
    pub(super) is_converted: bool,
    pub(super) value: Node,
}

/// One part of the path to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    Index(usize),
}

impl Node {
    /// The entry `key` of a mapping. The last one counts, as everywhere in Kubernetes; duplicates are
    /// reported when the document is parsed.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Map(entries) => entries.iter().rev().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text of `key`.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The place that a problem about `path` should point to: its value, or the key of the deepest field on the
    /// way to it that is there.
    pub(super) fn locate(&self, path: &str) -> Position {
        let mut node = self;
        let mut place = self.at;
        let parts = parse_path(path);
        for (i, part) in parts.iter().enumerate() {
            match (part, &node.content) {
                (Part::Key(key), _) => {
                    let Some(entry) = node.entry(key) else { return place };
                    let is_scalar = !matches!(entry.value.content, Content::List(_) | Content::Map(_) | Content::Null);
                    place = if i + 1 == parts.len() && is_scalar { entry.value.at } else { entry.key_at };
                    node = &entry.value;
                }
                (Part::Index(index), Content::List(items)) => {
                    let Some(item) = items.get(*index) else { return place };
                    place = item.at;
                    node = item;
                }
                (Part::Index(_), _) => return place,
            }
        }
        place
    }

    /// The plain value.
    pub(super) fn into_value(self) -> Value {
        match self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(value),
            Content::Number(value) => Value::Number(value),
            Content::Text(value) => Value::String(value),
            Content::List(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Content::Map(entries) => Value::Object(
                entries.into_iter().map(|entry| (entry.key, entry.value.into_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// What it is, in words.
    pub(super) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::Bool(value) => format!("the boolean {value}"),
            Content::Number(value) => format!("the number {value}"),
            Content::Text(value) => format!("the text {}", shorten(value)),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }

    /// How many nodes it has, itself included, and how many bytes of text.
    pub(super) fn size(&self) -> (usize, usize) {
        match &self.content {
            Content::Text(text) => (1, text.len()),
            Content::List(items) => {
                items.iter().map(Self::size).fold((1, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
            }
            Content::Map(entries) => entries.iter().fold((1, 0), |sum, entry| {
                let (nodes, bytes) = entry.value.size();
                (sum.0 + nodes + 1, sum.1 + bytes + entry.key.len())
            }),
            Content::Null | Content::Bool(_) | Content::Number(_) => (1, 0),
        }
    }
}

/// A text in quotes, cut where it is long.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        format!("{text:?}")
    } else {
        format!("{:?}...", text.chars().take(SHOWN).collect::<String>())
    }
}

/// Longer keys are cut in paths: a path is told with each problem below it, and a key may be as long as its file.
const LONGEST_KEY: usize = 100;

/// Adds a key to a path: `.key`, or `[key]` where it has characters that would be mistaken.
pub(super) fn path_part(key: &str, is_first: bool) -> String {
    // In bytes first: characters are not counted of what is short in any case.
    if key.len() > LONGEST_KEY && key.chars().count() > LONGEST_KEY {
        return format!("[{}...]", key.chars().take(LONGEST_KEY).collect::<String>());
    }
    let is_plain = key.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (is_plain, is_first) {
        (true, true) => key.to_owned(),
        (true, false) => format!(".{key}"),
        (false, _) => format!("[{key}]"),
    }
}

/// Takes a path such as `spec.rollout.steps[1].setWeight` apart.
fn parse_path(path: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((inner, tail)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            parts.push(inner.parse().map_or_else(|_| Part::Key(inner.to_owned()), Part::Index));
            rest = tail;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (key, tail) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            if key.is_empty() {
                // Not a path that this module makes; what is left of it cannot be followed.
                return parts;
            }
            parts.push(Part::Key(key.to_owned()));
            rest = tail;
        }
    }
    parts
}

/// Where a value is written, not where an alias or a merge key mentions it: that is where it can be changed.
fn position(location: Location) -> Position {
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    Position { line: number(location.line()), column: number(location.column()) }
}

/// Reads a tree; positions are those of the text that is parsed.
pub(super) fn from_spanned(spanned: Spanned<Tree>) -> Node {
    Node { at: position(spanned.defined), content: spanned.value.0 }
}

/// The content of a node, as the YAML reader builds it.
pub(super) struct Tree(Content);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree(Content::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree(Content::Number(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree(Content::Number(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        number_from_float(value)
            .map(|number| Tree(Content::Number(number)))
            .ok_or_else(|| E::custom("infinity and NaN have no place in JSON"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree(Content::Text(value.to_owned())))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Tree, E> {
        Ok(Tree(Content::Text(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree(Content::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(from_spanned(item));
        }
        Ok(Tree(Content::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<Key>, Spanned<Tree>>()? {
            map.push(Entry {
                key_at: position(key.defined),
                is_converted: key.value.is_converted,
                key: key.value.text,
                value: from_spanned(value),
            });
        }
        Ok(Tree(Content::Map(map)))
    }
}

/// kubectl turns whole floats into integers (`1e3` is 1000), because JSON has only numbers.
fn number_from_float(value: f64) -> Option<Number> {
    // Both ends are exact floats, and every float between them is a whole number of the type.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        let whole = value as i64;
        return Some(whole.into());
    }
    Number::from_f64(value)
}

/// A key, as the text that JSON has for it.
struct Key {
    text: String,
    is_converted: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

fn converted<E>(text: String) -> Result<Key, E> {
    Ok(Key { text, is_converted: true })
}

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text as key")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Key, E> {
        Ok(Key { text: value.to_owned(), is_converted: false })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Key, E> {
        converted(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Key, E> {
        converted(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Key, E> {
        converted(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Key, E> {
        converted(number_from_float(value).map_or_else(|| value.to_string(), |number| number.to_string()))
    }
}
