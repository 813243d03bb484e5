//! What an operator of Serin can see: each event once, as a log line and in the metrics together.
//!
//! [`event`] lists everything that is ever logged at info or above, one struct each; reading that file
//! tells what to expect in the logs. Invariant: labels are bounded (names of agents, sources and results;
//! never messages, commits or pods), and the series of an agent end with the agent.

pub mod event;
pub mod logging;
pub mod metrics;
mod rollout_metrics;
mod sync_metrics;
#[cfg(test)]
mod tests;

pub use logging::{LogError, start_logging, start_logging_to};
pub use metrics::Metrics;
pub use rollout_metrics::{RolloutMetrics, StepType};
pub use sync_metrics::{HookResult, PassKind, SyncMetrics, SyncVerb};
