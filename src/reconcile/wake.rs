//! Which agents a change of an object bears on. Over-waking costs a look, under-waking a stuck rollout.

use std::sync::Arc;

use serde_json::Value;

use crate::api::names;
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};

/// The agents that have to be looked at again because `changed` did change, out of `agents` (all that live).
///
/// The object may be gone, so its name says whose it was: every name that an agent uses is the agent's own with a known
/// ending.
pub(crate) fn agents_touched(changed: &ObjectKey, agents: &[Arc<Object>], pack_name: Option<&str>) -> Vec<AgentKey> {
    if changed.kind == Kind::PROMPT_PACK {
        let is_concerned = |agent: &Object| match pack_name {
            Some(pack) => names_in(agent, "promptPackRef", "promptPackRef").any(|name| name == pack),
            None => true,
        };
        return agents
            .iter()
            .filter(|agent| agent.namespace() == changed.namespace && is_concerned(agent))
            .map(|agent| AgentKey::new(agent.namespace(), agent.name()))
            .collect();
    }
    if changed.kind == Kind::PROVIDER || changed.kind == Kind::TOOL_REGISTRY {
        return agents
            .iter()
            .filter(|agent| mentions(agent.at("/spec"), &changed.name))
            .map(|agent| AgentKey::new(agent.namespace(), agent.name()))
            .collect();
    }
    let mut touched = vec![AgentKey::new(&changed.namespace, &changed.name)];
    let endings = [
        format!("-{}", names::CANARY),
        format!("-{}-config", names::CANARY),
        format!("-{}-tools", names::CANARY),
        "-tools".to_owned(),
        "-facade".to_owned(),
    ];
    for ending in &endings {
        if let Some(agent) = changed.name.strip_suffix(ending.as_str()) {
            touched.push(AgentKey::new(&changed.namespace, agent));
        }
    }
    touched
}

fn names_in<'a>(agent: &'a Object, spec: &'a str, candidate: &'a str) -> impl Iterator<Item = &'a str> {
    let of_spec = agent.at("/spec").and_then(move |value| value.get(spec));
    let of_candidate = agent.at("/spec/rollout/candidate").and_then(move |value| value.get(candidate));
    [of_spec, of_candidate].into_iter().flatten().filter_map(|reference| reference.get("name")?.as_str())
}

/// Whether a text stands anywhere in a value.
fn mentions(value: Option<&Value>, text: &str) -> bool {
    match value {
        Some(Value::String(found)) => found == text,
        Some(Value::Array(items)) => items.iter().any(|item| mentions(Some(item), text)),
        Some(Value::Object(fields)) => fields.values().any(|field| mentions(Some(field), text)),
        _ => false,
    }
}
