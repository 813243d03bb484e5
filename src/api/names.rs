//! Labels, annotations and object names, each written once.
//!
//! Names of the group `omnia.altairalabs.ai` are the reference operator's and may not change, because
//! real facade and runtime images read them; names of `serin.dev` are ours.

/// Label on pods and in selectors: `stable` or `canary`.
pub const TRACK_LABEL: &str = "omnia.altairalabs.ai/track";
/// Label on PromptPacks: the logical pack name.
pub const PROMPT_PACK_LABEL: &str = "omnia.altairalabs.ai/promptpack";
/// Annotation on an AgentRuntime: the pack version that was rolled back last.
pub const LAST_ROLLED_BACK_ANNOTATION: &str = "omnia.altairalabs.ai/last-rolled-back-version";

/// Label of Secrets that hold credentials of Providers, and its value (reference 4: what is watched). A new credential in
/// a Secret without it is noticed at the next look at the agent.
pub const CREDENTIALS_LABEL: (&str, &str) = ("omnia.altairalabs.ai/type", "credentials");

/// Label on everything that sync applied: the name of its source.
pub const SOURCE_LABEL: &str = "serin.dev/source";
/// Annotation on everything that sync applied: the object that it was applied as, so that a copy of it
/// under another name is never taken for ours and pruned.
pub const TRACKING_ANNOTATION: &str = "serin.dev/tracking";
/// Annotation on an AgentRuntime: the engine's record, for which `status.rollout` has no field.
pub const RECORD_ANNOTATION: &str = "serin.dev/rollout";
/// Annotation on an AgentRuntime: how long candidate pods may take to become available, a Go duration.
pub const PROGRESS_DEADLINE_ANNOTATION: &str = "serin.dev/progress-deadline";
/// Annotation on an AgentRuntime: continues from one indefinite pause, `<rollout id>@<step>`.
pub const RESUME_ANNOTATION: &str = "serin.dev/resume";
/// Annotation on Deployments: the digest of the variant that their pods run.
pub const VARIANT_ANNOTATION: &str = "serin.dev/variant";

/// Name suffix of the candidate's objects and its value of [`TRACK_LABEL`]. The one place of the word:
/// everywhere else it is the candidate.
pub const CANARY: &str = "canary";

/// Name of the candidate's Deployment.
pub fn candidate_deployment(agent: &str) -> String {
    format!("{agent}-{CANARY}")
}

/// The agent whose candidate's Deployment is called `name`, if it is called like one.
pub fn candidate_of(name: &str) -> Option<&str> {
    name.strip_suffix(CANARY)?.strip_suffix('-')
}

/// Name of the ConfigMap with the candidate's provider references.
pub fn candidate_config(agent: &str) -> String {
    format!("{agent}-{CANARY}-config")
}

/// Name of the ConfigMap with the stable pods' tools.
pub fn tools_config(agent: &str) -> String {
    format!("{agent}-tools")
}

/// Name of the ConfigMap with the candidate pods' tools.
pub fn candidate_tools_config(agent: &str) -> String {
    format!("{agent}-{CANARY}-tools")
}

/// Name of the ServiceAccount that an agent's pods run as by default, and of its Role and RoleBinding.
pub fn facade_account(agent: &str) -> String {
    format!("{agent}-facade")
}
