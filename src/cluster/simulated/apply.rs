//! What the API server does with a write: merge it, take away what its manager no longer names, and keep
//! the books of who owns which field.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::apply::{FieldSet, Form, PathElement, SERVER_METADATA, Shape, canonical_json, item_key};
use crate::cluster::Part;
use crate::object::Object;

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// By server-side apply: what it stops naming is taken away.
    Apply,
    /// By changing them.
    Update,
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) part: Part,
    pub(super) fields: FieldSet,
    pub(super) time: Timestamp,
}

impl Manager {
    fn is(&self, name: &str, operation: Operation, part: Part) -> bool {
        self.name == name && self.operation == operation && self.part == part
    }

    /// Whether the other entry says the same, times aside.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.is(&other.name, other.operation, other.part) && self.fields == other.fields
    }

    /// The entry as the API server writes it.
    pub(super) fn to_value(&self, api_version: &str) -> Value {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut entry = json!({
            "manager": self.name, "operation": operation, "apiVersion": api_version, "time": seconds(self.time),
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_value()
        });
        if self.part == Part::Status {
            entry["subresource"] = "status".into();
        }
        entry
    }
}

/// A time as the API writes it: whole seconds.
pub(super) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Forced server-side apply of `part` of `config` on `live`, which is bare where there is none yet.
pub(super) fn merge_apply(
    live: &Object,
    managers: &[Manager],
    config: &Object,
    name: &str,
    part: Part,
    now: Timestamp,
) -> (Object, Vec<Manager>) {
    let shape = Shape::of(&config.key().kind);
    let set = FieldSet::of_object(config, part);
    let mut object = live.clone();
    for (field, value) in config.fields() {
        match (part, field.as_str()) {
            (_, "apiVersion" | "kind") | (Part::Main, "status") => {}
            (Part::Main, "metadata") => {
                let (Some(config), Some(Value::Object(metadata))) =
                    (value.as_object(), object.fields_mut().get_mut("metadata"))
                else {
                    continue;
                };
                for (field, value) in config.iter().filter(|(field, _)| !SERVER_METADATA.contains(&field.as_str())) {
                    merge_field(metadata, field, value, shape.field("metadata"));
                }
            }
            (Part::Main, _) | (Part::Status, "status") => merge_field(object.fields_mut(), field, value, shape),
            (Part::Status, _) => {}
        }
    }
    if let Some(last) = managers.iter().find(|manager| manager.is(name, Operation::Apply, part)) {
        let others = managers.iter().filter(|manager| !manager.is(name, Operation::Apply, part));
        let keepers: Vec<&FieldSet> = others.map(|manager| &manager.fields).chain([&set]).collect();
        prune_map(object.fields_mut(), &last.fields, &keepers, shape);
    }
    drop_empty(&mut object);
    let changes = Changes::between(live, &object, shape);
    let mut books = changes.taken_from(managers, |manager| !manager.is(name, Operation::Apply, part));
    enter(&mut books, name, Operation::Apply, part, set, now);
    (object, books)
}

/// Takes away the maps and lists that the server does not keep empty, so that nobody owns one that is not there.
pub(super) fn drop_empty(object: &mut Object) {
    let is_empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if let Some(Value::Object(metadata)) = object.fields_mut().get_mut("metadata") {
        metadata.retain(|_, value| !is_empty(value));
    }
    if object.fields().get("data").is_some_and(is_empty) {
        object.fields_mut().remove("data");
    }
}

/// The books after `name` changed `live` to `object` by an update or a patch.
pub(super) fn books_of_update(
    live: &Object,
    object: &Object,
    managers: &[Manager],
    name: &str,
    part: Part,
    now: Timestamp,
) -> Vec<Manager> {
    let changes = Changes::between(live, object, Shape::of(&live.key().kind));
    let mut books = changes.taken_from(managers, |manager| !manager.is(name, Operation::Update, part));
    let own = books.iter().find(|manager| manager.is(name, Operation::Update, part));
    let own = own.map(|manager| manager.fields.clone()).unwrap_or_default();
    enter(&mut books, name, Operation::Update, part, own.union(&changes.written), now);
    books
}

/// Replaces the entry of a manager; its time moves only when its fields do.
fn enter(books: &mut Vec<Manager>, name: &str, operation: Operation, part: Part, fields: FieldSet, now: Timestamp) {
    match books.iter_mut().find(|manager| manager.is(name, operation, part)) {
        Some(entry) if entry.fields == fields => {}
        Some(entry) => (entry.fields, entry.time) = (fields, now),
        None => books.push(Manager { name: name.to_owned(), operation, part, fields, time: now }),
    }
    books.retain(|manager| !manager.fields.is_empty());
}

/// What differs between two states of an object, as field sets.
struct Changes {
    written: FieldSet,
    removed: FieldSet,
}

impl Changes {
    fn between(old: &Object, new: &Object, shape: &Shape) -> Self {
        let mut changes = Self { written: FieldSet::default(), removed: FieldSet::default() };
        let names: BTreeSet<&String> = old.fields().keys().chain(new.fields().keys()).collect();
        for name in names.into_iter().filter(|name| *name != "metadata") {
            let below = Self::of_values(old.fields().get(name), new.fields().get(name), shape.field(name));
            changes.put(PathElement::Field(name.clone()), below);
        }
        let metadata = |object: &Object| {
            let mut metadata = object.fields().get("metadata").cloned().unwrap_or_default();
            if let Value::Object(metadata) = &mut metadata {
                metadata.retain(|name, _| !SERVER_METADATA.contains(&name.as_str()));
            }
            metadata
        };
        let below = Self::of_values(Some(&metadata(old)), Some(&metadata(new)), shape.field("metadata"));
        changes.put(PathElement::Field("metadata".into()), below);
        changes
    }

    fn of_values(old: Option<&Value>, new: Option<&Value>, shape: &Shape) -> Self {
        let mut changes = Self { written: FieldSet::default(), removed: FieldSet::default() };
        match (old, new) {
            (old, new) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) if !shape.form.is_atomic_map() => {
                let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for name in names {
                    let below = Self::of_values(old.get(name), new.get(name), shape.field(name));
                    changes.put(PathElement::Field(name.clone()), below);
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) if matches!(shape.form, Form::MapList(_)) => {
                let Form::MapList(keys) = shape.form else { return changes };
                let find = |items: &[Value], key: &String| {
                    items.iter().find(|item| item_key(item, keys).as_ref() == Some(key)).cloned()
                };
                let all: BTreeSet<String> = old.iter().chain(new).filter_map(|item| item_key(item, keys)).collect();
                for key in all {
                    let below = Self::of_values(find(old, &key).as_ref(), find(new, &key).as_ref(), &shape.item());
                    changes.put(PathElement::Key(key), below);
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) if shape.form == Form::SetList => {
                let mut member = FieldSet::default();
                member.insert_here();
                for item in new.iter().filter(|item| !old.contains(item)) {
                    changes.written.insert_child(PathElement::Value(canonical_json(item)), member.clone());
                }
                for item in old.iter().filter(|item| !new.contains(item)) {
                    changes.removed.insert_child(PathElement::Value(canonical_json(item)), member.clone());
                }
            }
            (_, Some(new)) => {
                changes.written = FieldSet::of_value(new, shape);
                changes.written.insert_here();
            }
            (_, None) => changes.removed.insert_here(),
        }
        changes
    }

    fn put(&mut self, element: PathElement, below: Self) {
        self.written.insert_child(element.clone(), below.written);
        self.removed.insert_child(element, below.removed);
    }

    /// The entries, without what changed where `loses` says so, and without what is gone.
    fn taken_from(&self, managers: &[Manager], loses: impl Fn(&Manager) -> bool) -> Vec<Manager> {
        managers
            .iter()
            .map(|manager| {
                let is_touched = loses(manager) && manager.fields.intersects(&self.written);
                let kept = if is_touched { manager.fields.difference(&self.written) } else { manager.fields.clone() };
                let kept = if self.removed.is_empty() { kept } else { kept.without_below(&self.removed) };
                Manager { fields: kept, ..manager.clone() }
            })
            .collect()
    }
}

fn merge_field(map: &mut Map<String, Value>, name: &str, config: &Value, shape: &Shape) {
    let shape = shape.field(name);
    match map.get_mut(name) {
        Some(live) => merge(live, config, shape),
        None => {
            map.insert(name.to_owned(), config.clone());
        }
    }
}

fn merge(live: &mut Value, config: &Value, shape: &Shape) {
    match (live, config, shape.form) {
        (Value::Object(live), Value::Object(config), form) if !form.is_atomic_map() => {
            for (name, value) in config {
                merge_field(live, name, value, shape);
            }
        }
        (Value::Array(live), Value::Array(config), Form::MapList(keys)) => merge_items(live, config, keys, shape),
        (Value::Array(live), Value::Array(config), Form::SetList) => {
            for item in config {
                if !live.contains(item) {
                    live.push(item.clone());
                }
            }
        }
        (live, config, _) => *live = config.clone(),
    }
}

/// The configured items in their order; items of others keep their places among the live ones as far as that goes.
fn merge_items(live: &mut Vec<Value>, config: &[Value], keys: &[&str], shape: &Shape) {
    let old: Vec<(Option<String>, Value)> =
        std::mem::take(live).into_iter().map(|item| (item_key(&item, keys), item)).collect();
    let new: Vec<Option<String>> = config.iter().map(|item| item_key(item, keys)).collect();
    let find_old = |key: &Option<String>| old.iter().find(|(other, _)| other == key).map(|(_, item)| item);
    let merged = |at: usize| match find_old(&new[at]) {
        Some(item) => {
            let mut item = item.clone();
            merge(&mut item, &config[at], &shape.item());
            item
        }
        None => config[at].clone(),
    };
    // Which of the items that both have is due next, in the order of the configuration.
    let mut due = new.iter().filter(|key| find_old(key).is_some()).peekable();
    let (mut from_old, mut from_new) = (0, 0);
    while from_old < old.len() || from_new < new.len() {
        if let Some((key, item)) = old.get(from_old) {
            let place = new.iter().position(|other| other == key);
            let is_passed = match place {
                // Nobody configures it.
                None => {
                    live.push(item.clone());
                    true
                }
                Some(place) if place < from_new => true,
                Some(place) => place != from_new && from_new < new.len() && due.peek().is_some_and(|due| *due != key),
            };
            if is_passed {
                from_old += 1;
                continue;
            }
            from_old += usize::from(place == Some(from_new));
        }
        if from_new < new.len() {
            live.push(merged(from_new));
            due.next_if(|due| **due == new[from_new]);
            from_new += 1;
        }
    }
}

/// Takes away what is in `last` and that nobody of `keepers` owns, at any depth.
fn prune_map(map: &mut Map<String, Value>, last: &FieldSet, keepers: &[&FieldSet], shape: &Shape) {
    for (element, below) in last.children() {
        let PathElement::Field(name) = element else { continue };
        let keepers: Vec<&FieldSet> = keepers.iter().filter_map(|set| set.child(element)).collect();
        if keepers.is_empty() && name != "metadata" {
            map.remove(name);
        } else if let Some(value) = map.get_mut(name) {
            prune(value, below, &keepers, shape.field(name));
        }
    }
}

fn prune(value: &mut Value, last: &FieldSet, keepers: &[&FieldSet], shape: &Shape) {
    match value {
        Value::Object(map) => prune_map(map, last, keepers, shape),
        Value::Array(items) => {
            for (element, below) in last.children() {
                let keepers: Vec<&FieldSet> = keepers.iter().filter_map(|set| set.child(element)).collect();
                let is_meant = |item: &Value| match (element, shape.form) {
                    (PathElement::Key(key), Form::MapList(keys)) => item_key(item, keys).as_ref() == Some(key),
                    (PathElement::Value(text), _) => canonical_json(item) == *text,
                    _ => false,
                };
                // Who owns a field of an item without the item itself does not keep it.
                if !keepers.iter().any(|set| set.is_member()) {
                    items.retain(|item| !is_meant(item));
                } else if let Some(item) = items.iter_mut().find(|item| is_meant(item)) {
                    prune(item, below, &keepers, &shape.item());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// JSON merge patch, RFC 7386.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge_patch(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
