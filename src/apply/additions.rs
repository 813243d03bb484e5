//! Fields that others added where git alone decides.
//!
//! An apply takes back what somebody changed, and leaves what somebody added: that is how tools share an object. But what
//! runs and what is tried is for git to say, also by saying nothing: a candidate that another tool adds from an old
//! manifest would be rolled out although no commit asks for it.

use serde_json::{Map, Value};

use crate::object::Object;

/// Where nobody but git may add fields: what runs, and what is tried.
const DECIDED_BY_GIT: [&[&str]; 4] = [
    &["spec", "promptPackRef"],
    &["spec", "providers"],
    &["spec", "toolRegistryRef"],
    &["spec", "rollout", "candidate"],
];

/// The merge patch that removes from an AgentRuntime what its manifest does not say there; `None`: there is nothing.
///
/// Lists are not looked into: those in question are replaced as a whole by an apply, and their items get defaults.
pub fn additions(live: &Object, manifest: &Object) -> Option<Value> {
    let mut patch = Value::Null;
    for path in DECIDED_BY_GIT {
        let pointer = format!("/{}", path.join("/"));
        let desired = manifest.at(&pointer).filter(|value| !value.is_null());
        if let Some(removal) = removal(live.at(&pointer), desired) {
            put(&mut patch, path, removal);
        }
    }
    (!patch.is_null()).then_some(patch)
}

/// The merge patch that takes out of `live` what `desired` has not.
fn removal(live: Option<&Value>, desired: Option<&Value>) -> Option<Value> {
    match (live?, desired) {
        (_, None) => Some(Value::Null),
        (Value::Object(live), Some(Value::Object(desired))) => {
            let fields: Map<String, Value> = live
                .iter()
                .filter_map(|(name, value)| {
                    let desired = desired.get(name).filter(|value| !value.is_null());
                    Some((name.clone(), removal(Some(value), desired)?))
                })
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        (_, Some(_)) => None,
    }
}

fn put(patch: &mut Value, path: &[&str], value: Value) {
    match path {
        [] => *patch = value,
        [name, rest @ ..] => {
            if !patch.is_object() {
                *patch = Value::Object(Map::new());
            }
            if let Value::Object(fields) = patch {
                put(fields.entry((*name).to_owned()).or_insert(Value::Null), rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(spec: Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1",
            "kind": "AgentRuntime",
            "metadata": {"name": "a", "namespace": "n"},
            "spec": spec,
        }))
        .expect("an object")
    }

    #[test]
    fn a_candidate_that_git_does_not_have_is_removed() {
        let manifest = agent(json!({"promptPackRef": {"name": "p"}, "rollout": {"steps": []}}));
        let live = agent(json!({
            "promptPackRef": {"name": "p"},
            "rollout": {"steps": [], "candidate": {"promptPackRef": {"name": "q"}}},
        }));
        assert_eq!(additions(&live, &manifest), Some(json!({"spec": {"rollout": {"candidate": null}}})));
    }

    #[test]
    fn what_is_added_to_the_variants_is_removed_and_the_rest_of_the_spec_is_shared() {
        let manifest = agent(json!({
            "promptPackRef": {"name": "p"},
            "rollout": {"candidate": {"promptPackRef": {"name": "p", "version": "2"}, "toolRegistryRef": null}},
        }));
        let live = agent(json!({
            "promptPackRef": {"name": "p", "version": "1"},
            "toolRegistryRef": {"name": "t"},
            "runtime": {"replicas": 3},
            "rollout": {
                "candidate": {"promptPackRef": {"name": "p", "version": "2"}, "toolRegistryRef": {"name": "u"}},
                "rollback": {"mode": "manual"},
            },
        }));
        let patch = json!({"spec": {
            "promptPackRef": {"version": null},
            "toolRegistryRef": null,
            "rollout": {"candidate": {"toolRegistryRef": null}},
        }});
        assert_eq!(additions(&live, &manifest), Some(patch));
    }

    #[test]
    fn defaults_in_items_of_lists_are_not_additions() {
        let providers = |role: Option<&str>| {
            let mut item = json!({"name": "main", "providerRef": {"name": "x"}});
            if let Some(role) = role {
                item["role"] = role.into();
            }
            agent(json!({"promptPackRef": {"name": "p"}, "providers": [item]}))
        };
        assert_eq!(additions(&providers(Some("llm")), &providers(None)), None);
    }
}
