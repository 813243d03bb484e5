//! What one manager owns of a live object: exactly what it would apply to change nothing.
//!
//! It is how one field is changed without knowing what the others should be: the number of pods of a Deployment whose
//! template must stay as it is.

use serde_json::{Map, Value};

use crate::apply::fields::{FieldSet, PathElement};
use crate::cluster::{FieldManager, Part};
use crate::object::Object;

/// The fields of `live` that `manager` owns by server-side apply, with their live values.
pub fn owned(live: &Object, manager: FieldManager, part: Part) -> Object {
    let subresource = match part {
        Part::Main => None,
        Part::Status => Some("status"),
    };
    let entries = live.at("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let set = entries
        .iter()
        .filter(|entry| entry["manager"] == manager.as_str() && entry["operation"] == "Apply")
        .filter(|entry| entry.get("subresource").and_then(Value::as_str).filter(|text| !text.is_empty()) == subresource)
        .fold(FieldSet::default(), |set, entry| set.union(&FieldSet::parse(&entry["fieldsV1"])));
    let mut object = Object::bare(&live.key());
    for (element, below) in set.children() {
        let PathElement::Field(name) = element else { continue };
        let Some(value) = live.fields().get(name).and_then(|value| extract(value, below)) else { continue };
        match (object.fields_mut().get_mut(name), value) {
            // Name and namespace are nobody's, and every apply has them.
            (Some(Value::Object(metadata)), Value::Object(fields)) => metadata.extend(fields),
            (_, value) => {
                object.fields_mut().insert(name.clone(), value);
            }
        }
    }
    object
}

fn extract(value: &Value, set: &FieldSet) -> Option<Value> {
    if set.children().next().is_none() {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let fields: Map<String, Value> = set
                .children()
                .filter_map(|(element, below)| match element {
                    PathElement::Field(name) => Some((name.clone(), extract(map.get(name)?, below)?)),
                    PathElement::Key(_) | PathElement::Value(_) => None,
                })
                .collect();
            Some(Value::Object(fields))
        }
        Value::Array(items) => {
            let owned: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let (_, below) = set.children().find(|(element, _)| names(element, item))?;
                    extract(item, below)
                })
                .collect();
            Some(Value::Array(owned))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

/// Whether a step of a path means this item of a list.
fn names(element: &PathElement, item: &Value) -> bool {
    match element {
        PathElement::Key(keys) => serde_json::from_str::<Map<String, Value>>(keys)
            .is_ok_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value))),
        PathElement::Value(value) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        PathElement::Field(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_manager_owns_is_taken_and_lists_by_key_keep_their_order() {
        let live = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "labels": {"ours": "1", "theirs": "2"},
                "managedFields": [
                    {"manager": "serin-rollout", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:ours": {}}},
                        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                            "k:{\"name\":\"runtime\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}}
                        }}}}
                    }},
                    {"manager": "somebody", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                ],
            },
            "spec": {"replicas": 3, "paused": false, "template": {"spec": {"dnsPolicy": "ClusterFirst", "containers": [
                {"name": "injected", "image": "mesh"},
                {"name": "runtime", "image": "r:1", "args": ["-v"], "terminationMessagePath": "/dev/termination-log"},
            ]}}},
            "status": {"replicas": 3},
        }))
        .unwrap();
        assert_eq!(
            owned(&live, FieldManager::Rollout, Part::Main).into_value(),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "namespace": "n", "labels": {"ours": "1"}},
                "spec": {"replicas": 3, "template": {"spec": {"containers": [
                    {"name": "runtime", "image": "r:1", "args": ["-v"]},
                ]}}},
            })
        );
    }
}
