//! Sets of field paths, as server-side apply records them in `metadata.managedFields[].fieldsV1`.
//!
//! The written form is a tree: `f:name` a field, `k:{…}` an item of a list by its keys, `v:…` an item of a
//! set, and `.` marks that an inner node is itself a member.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::apply::schema::{Form, Shape, canonical_json, item_key};
use crate::cluster::Part;
use crate::object::Object;

/// One step of a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of a map: `f:`.
    Field(String),
    /// The item of an associative list with these keys, as canonical JSON: `k:`.
    Key(String),
    /// The item of a set, as canonical JSON: `v:`.
    Value(String),
}

impl PathElement {
    /// Reads `f:…`, `k:…` or `v:…`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        let canonical =
            |rest: &str| serde_json::from_str(rest).map_or_else(|_| rest.to_owned(), |v| canonical_json(&v));
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => Some(Self::Key(canonical(rest))),
            "v" => Some(Self::Value(canonical(rest))),
            _ => None,
        }
    }

    /// The written form.
    pub fn to_text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
        }
    }
}

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    is_member: bool,
    children: BTreeMap<PathElement, Self>,
}

impl FieldSet {
    /// Reads a `fieldsV1`. Elements of unknown form are left out.
    pub fn parse(fields: &Value) -> Self {
        let Some(map) = fields.as_object() else { return Self::default() };
        let mut set = Self::default();
        for (name, below) in map {
            if name == "." {
                set.is_member = true;
                continue;
            }
            let Some(element) = PathElement::parse(name) else { continue };
            let mut child = Self::parse(below);
            if child.children.is_empty() {
                child.is_member = true;
            }
            set.children.insert(element, child);
        }
        set
    }

    /// The set as a `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.is_member && !self.children.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, below) in &self.children {
            map.insert(element.to_text(), below.to_value());
        }
        Value::Object(map)
    }

    /// The fields that an apply of `object` claims in `part`: all of them, but for what identifies an
    /// object or is the server's to write.
    pub fn of_object(object: &Object, part: Part) -> Self {
        let shape = Shape::of(&object.key().kind);
        let mut set = Self::default();
        for (name, value) in object.fields() {
            let is_in_part = match (part, name.as_str()) {
                (_, "apiVersion" | "kind") => false,
                (Part::Main, "status") => false,
                (Part::Main, _) => true,
                (Part::Status, name) => name == "status",
            };
            if !is_in_part {
                continue;
            }
            let mut below = Self::default();
            if name == "metadata" {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if !SERVER_METADATA.contains(&name.as_str()) {
                        below.add_field(name, value, shape.field("metadata").field(name));
                    }
                }
            } else {
                below.add(value, shape.field(name));
            }
            set.insert_child(PathElement::Field(name.clone()), below);
        }
        set
    }

    /// All fields at and below a value of this shape.
    pub fn of_value(value: &Value, shape: &Shape) -> Self {
        let mut set = Self::default();
        set.add(value, shape);
        set
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Whether the very path is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        self.at(path).is_some_and(|set| set.is_member)
    }

    /// The part of the set below a path, if there is one.
    pub fn at(&self, path: &[PathElement]) -> Option<&Self> {
        path.iter().try_fold(self, |set, element| set.children.get(element))
    }

    /// The part of the set below one step.
    pub fn child(&self, element: &PathElement) -> Option<&Self> {
        self.children.get(element)
    }

    /// The steps from here, in order.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.children.iter()
    }

    /// Whether the node itself is a member.
    pub fn is_member(&self) -> bool {
        self.is_member
    }

    /// Makes the node itself a member.
    pub fn insert_here(&mut self) {
        self.is_member = true;
    }

    /// Puts a subset below one step; an empty one is left out.
    pub fn insert_child(&mut self, element: PathElement, below: Self) {
        if !below.is_empty() {
            self.children.insert(element, below);
        }
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement]) {
        let mut set = self;
        for element in path {
            set = set.children.entry(element.clone()).or_default();
        }
        set.is_member = true;
    }

    /// All paths of both.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.is_member |= other.is_member;
        for (element, below) in &other.children {
            let mine = self.children.remove(element).unwrap_or_default();
            self.children.insert(element.clone(), mine.union(below));
        }
        self
    }

    /// The paths that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Self { is_member: self.is_member && !other.is_member, children: BTreeMap::new() };
        for (element, below) in &self.children {
            let rest = match other.children.get(element) {
                Some(theirs) => below.difference(theirs),
                None => below.clone(),
            };
            left.insert_child(element.clone(), rest);
        }
        left
    }

    /// Whether any path is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        (self.is_member && other.is_member)
            || self
                .children
                .iter()
                .any(|(element, below)| other.children.get(element).is_some_and(|theirs| below.intersects(theirs)))
    }

    /// Everything of `self` that is not at or below a member of `other`.
    #[must_use]
    pub fn without_below(&self, other: &Self) -> Self {
        if other.is_member {
            return Self::default();
        }
        let mut left = Self { is_member: self.is_member, children: BTreeMap::new() };
        for (element, below) in &self.children {
            let rest = match other.children.get(element) {
                Some(theirs) => below.without_below(theirs),
                None => below.clone(),
            };
            left.insert_child(element.clone(), rest);
        }
        left
    }

    fn add_field(&mut self, name: &str, value: &Value, shape: &Shape) {
        self.insert_child(PathElement::Field(name.to_owned()), Self::of_value(value, shape));
    }

    fn add(&mut self, value: &Value, shape: &Shape) {
        match (value, shape.form) {
            (Value::Object(map), form) if !form.is_atomic_map() && !map.is_empty() => {
                for (name, value) in map {
                    self.add_field(name, value, shape.field(name));
                }
            }
            // Nobody owns an empty associative list.
            (Value::Array(items), Form::MapList(keys)) => {
                for item in items {
                    let Some(key) = item_key(item, keys) else { continue };
                    let mut below = Self::default();
                    below.add(item, &shape.item());
                    below.is_member = true;
                    self.children.insert(PathElement::Key(key), below);
                }
            }
            (Value::Array(items), Form::SetList) => {
                for item in items {
                    let member = Self { is_member: true, children: BTreeMap::new() };
                    self.children.insert(PathElement::Value(canonical_json(item)), member);
                }
            }
            _ => self.is_member = true,
        }
    }
}

/// Fields of `metadata` that nobody owns: they identify the object, or the server writes them.
pub(crate) const SERVER_METADATA: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Object {
        Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n", "uid": "1", "labels": {"app": "a"}, "finalizers": ["x/y"]},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {"spec": {"containers": [
                {"name": "facade", "image": "i", "args": ["a"], "ports": [{"containerPort": 80}]}
            ]}}},
            "status": {"replicas": 1}
        }))
        .unwrap()
    }

    #[test]
    fn fields_are_written_as_the_api_server_writes_them() {
        let set = FieldSet::of_object(&deployment(), Part::Main);
        assert_eq!(
            set.to_value(),
            json!({
                "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
                "f:spec": {"f:selector": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"facade\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}
                }}}}}
            })
        );
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same_set() {
        let set = FieldSet::of_object(&deployment(), Part::Main);
        assert_eq!(FieldSet::parse(&set.to_value()), set);
    }

    #[test]
    fn the_status_part_holds_nothing_but_the_status() {
        let set = FieldSet::of_object(&deployment(), Part::Status);
        assert_eq!(set.to_value(), json!({"f:status": {"f:replicas": {}}}));
    }

    #[test]
    fn union_and_difference_are_those_of_sets() {
        let a = FieldSet::parse(&json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}));
        let b = FieldSet::parse(&json!({"f:b": {"f:c": {}, "f:d": {}}}));
        let both = a.clone().union(&b);
        assert_eq!(both.to_value(), json!({"f:a": {}, "f:b": {".": {}, "f:c": {}, "f:d": {}}}));
        assert_eq!(both.difference(&b).to_value(), json!({"f:a": {}, "f:b": {}}));
        assert!(both.difference(&both).is_empty());
        let c = [PathElement::Field("b".into()), PathElement::Field("c".into())];
        assert!(a.contains(&c) && !b.contains(&c[..1]));
    }
}
