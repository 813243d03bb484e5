//! The API types of `omnia.altairalabs.ai/v1alpha1` as far as rollouts need them, read from plain objects.
//!
//! Invariant: these types are read-only views. What is written back is edited in place, so a field that
//! is not modelled here is never lost.

pub mod agent_runtime;
pub mod crds;
pub mod duration;
pub mod names;
pub mod prompt_pack;

pub use agent_runtime::{
    AgentRuntime, Candidate, FieldError, PackTrack, Pause, PromptPackRef, ProviderRef, Rollback, RollbackMode, Rollout,
    Step, ToolRegistryRef, TrafficMode, TrafficRouting,
};
