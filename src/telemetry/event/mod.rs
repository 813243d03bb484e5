//! Everything that an operator can see happen: one struct per event, in the past tense. `emit` writes the
//! log line and the metric together, so that neither can be forgotten.
//!
//! Transitions are logged once, at info; what repeats while nothing changes is at debug; what a person
//! should look at is a warning; what Serin could not do although it should is an error. Events come after
//! the write that they tell of, so that a repeated pass counts nothing twice.

mod daemon;
mod hook;
mod leader;
mod publish;
mod rollout;
mod source;

pub use daemon::{
    DaemonStarted, DaemonStopping, PassFailed, PassFinished, PassPanicked, ServerFailed, SettingsDoubtful,
};
pub use hook::{HookReceived, HookSecretMissing};
pub use leader::{LeaseGivenBack, LeaseLost, LeaseNotGivenBack, LeaseOfAnother, LeaseTaken, LeaseUnusable};
pub use publish::{
    DecisionBlocked, DecisionVoided, PromotionPublished, PublishFailed, PublishRaced, PublishRefused,
    RollbackPublished, StatusNotPublished, StatusPublished,
};
pub use rollout::{
    AgentForgotten, AnalysisCompleted, CredentialUnreadable, EventLost, PromotionDecided, RolledBack, RolloutHeld,
    RolloutIdle, RolloutPromoted, RolloutStarted, RolloutWaiting, StepCompleted, StepEntered, WeightDelivered,
    WorkloadRefused,
};
pub use source::{
    ApplyRefused, ManifestProblems, ManifestsRead, ObjectApplied, ObjectNotOwned, ObjectsLeftBehind, PruneWithheld,
    SourceFetchFailed, SourceFetched,
};
