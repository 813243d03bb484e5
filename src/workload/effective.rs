//! What a track runs: the spec, and for the candidate what `spec.rollout.candidate` overrides.

use serde_json::Value;

use super::Track;
use super::json::{list, present, text};
use crate::object::Object;

/// The three references that a candidate can override, as one track has them. Each is the manifest's JSON, so that
/// nothing in it is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effective<'a> {
    /// `promptPackRef`; the candidate's replaces the spec's as a whole.
    pub prompt_pack_ref: &'a Value,
    /// The provider references; the candidate's, unless empty, replace the spec's as a whole.
    pub providers: &'a [Value],
    /// `toolRegistryRef`; the candidate's replaces the spec's as a whole.
    pub tool_registry_ref: Option<&'a Value>,
}

impl<'a> Effective<'a> {
    /// What `track` of `agent` runs.
    pub fn of(agent: &'a Object, track: Track) -> Self {
        let spec = agent.at("/spec").unwrap_or(&Value::Null);
        let mut effective = Self {
            prompt_pack_ref: spec.get("promptPackRef").unwrap_or(&Value::Null),
            providers: list(spec, "/providers"),
            tool_registry_ref: present(spec, "/toolRegistryRef"),
        };
        let candidate = present(spec, "/rollout/candidate").filter(|_| track == Track::Candidate);
        if let Some(candidate) = candidate {
            effective.prompt_pack_ref = present(candidate, "/promptPackRef").unwrap_or(effective.prompt_pack_ref);
            effective.tool_registry_ref = present(candidate, "/toolRegistryRef").or(effective.tool_registry_ref);
            let providers = list(candidate, "/providerRefs");
            if !providers.is_empty() {
                effective.providers = providers;
            }
        }
        effective
    }

    /// Name of the tool registry.
    pub fn tool_registry(&self) -> Option<&'a str> {
        text(self.tool_registry_ref?, "/name")
    }
}
