//! An agent without what changes of itself while it is rolled out: its status, Serin's own record of it, and what the server
//! counts. What is worked out from the rest is worth keeping ([`Memo`](super::Memo)).

use serde_json::{Map, Value};

use crate::api::names;
use crate::object::{Object, all_but};

/// What the server writes into `metadata` with each change, and the annotations, of which only one is left out.
const METADATA: [&str; 4] = ["annotations", "generation", "managedFields", "resourceVersion"];

/// The essence of `agent`.
pub(crate) fn essence(agent: &Object) -> Object {
    let copy = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    let mut metadata: Map<String, Value> = metadata(agent).map(copy).collect();
    metadata.insert("annotations".into(), annotations(agent).map(copy).collect::<Map<_, _>>().into());
    let mut essence = Object::bare(&agent.key());
    essence.fields_mut().extend(fields(agent).map(copy));
    essence.fields_mut().insert("metadata".into(), metadata.into());
    essence
}

/// Whether two agents have the same essence.
pub(crate) fn is_same_essence(a: &Object, b: &Object) -> bool {
    fields(a).eq(fields(b)) && metadata(a).eq(metadata(b)) && annotations(a).eq(annotations(b))
}

fn fields(agent: &Object) -> impl Iterator<Item = (&String, &Value)> {
    all_but(Some(agent.fields()), &["metadata", "status"])
}

fn metadata(agent: &Object) -> impl Iterator<Item = (&String, &Value)> {
    all_but(agent.at("/metadata").and_then(Value::as_object), &METADATA)
}

fn annotations(agent: &Object) -> impl Iterator<Item = (&String, &Value)> {
    all_but(agent.at("/metadata/annotations").and_then(Value::as_object), &[names::RECORD_ANNOTATION])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent() -> Object {
        Object::from_value(json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "generation": 3, "resourceVersion": "7",
                "managedFields": [{"manager": "kubectl"}], "labels": {"team": "x"},
                "annotations": {names::RECORD_ANNOTATION: "{}", "note": "1"},
            },
            "spec": {"runtime": {"replicas": 4}},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    #[test]
    fn what_changes_by_itself_is_not_in_the_essence() {
        let essence = essence(&agent());
        assert_eq!(
            essence.into_value(),
            json!({
                "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
                "metadata": {
                    "name": "a", "namespace": "n", "uid": "u", "labels": {"team": "x"}, "annotations": {"note": "1"},
                },
                "spec": {"runtime": {"replicas": 4}},
            })
        );
    }

    #[test]
    fn two_agents_have_the_same_essence_exactly_if_nothing_but_that_differs() {
        let is_same = |path: &[&str], value: Value| {
            let mut other = agent();
            other.set(path, value);
            assert_eq!(is_same_essence(&agent(), &other), essence(&agent()) == essence(&other), "{path:?}");
            assert!(is_same_essence(&essence(&other), &other), "{path:?}");
            is_same_essence(&agent(), &other)
        };
        for path in [
            &["status"][..],
            &["metadata", "generation"],
            &["metadata", "resourceVersion"],
            &["metadata", "managedFields"],
            &["metadata", "annotations", names::RECORD_ANNOTATION],
        ] {
            assert!(is_same(path, json!("other")), "{path:?}");
        }
        for path in [
            &["spec", "runtime", "replicas"][..],
            &["spec", "mode"],
            &["spec"],
            &["metadata", "uid"],
            &["metadata", "name"],
            &["metadata", "labels", "team"],
            &["metadata", "annotations", "note"],
            &["metadata", "annotations", "other"],
            &["metadata", "deletionTimestamp"],
            &["apiVersion"],
            &["other"],
        ] {
            assert!(!is_same(path, json!("other")), "{path:?}");
        }
    }
}
