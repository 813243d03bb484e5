//! Which agents may own an object, by its name. Over-waking costs a look, under-waking a stuck rollout.

use crate::api::names;
use crate::ids::AgentKey;
use crate::object::ObjectKey;

/// The agents that may run as `changed`.
///
/// The object may be gone, so its name says whose it was: every name that an agent uses is the agent's own with a known
/// ending.
pub(crate) fn owners_by_name(changed: &ObjectKey) -> Vec<AgentKey> {
    let mut owners = vec![AgentKey::new(&changed.namespace, &changed.name)];
    let endings = [
        format!("-{}", names::CANARY),
        format!("-{}-config", names::CANARY),
        format!("-{}-tools", names::CANARY),
        "-tools".to_owned(),
        "-facade".to_owned(),
    ];
    for ending in &endings {
        if let Some(agent) = changed.name.strip_suffix(ending.as_str()) {
            owners.push(AgentKey::new(&changed.namespace, agent));
        }
    }
    owners
}
