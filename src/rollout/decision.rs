//! A decision about a rollout: what becomes a commit on the config branch, or a patch of an object that
//! somebody applied by hand.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{AgentKey, RolloutId};

/// One decision about one rollout of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The agent.
    pub agent: AgentKey,
    /// The rollout that is decided.
    pub rollout: RolloutId,
    /// What is decided.
    pub outcome: Outcome,
    /// `spec.rollout.candidate` as it was when this was decided. If the manifest holds another one by now,
    /// the decision is void: a person has changed it.
    pub candidate: Value,
    /// `promptPackRef`, `providers` and `toolRegistryRef` of the `spec` that the candidate was tried
    /// against, as a map of those that are set. A promotion is void if the manifest's differ by now.
    pub base: Value,
    /// How the candidate was tried: `steps` and `trafficRouting` of `spec.rollout`, as a map of those that are set. A
    /// promotion is void if the manifest's differ by now: a person may have added a pause.
    pub trial: Value,
    /// What the candidate is, for people: `support-pack 2.0.0`.
    pub title: String,
    /// How it came to this, a line each: steps with their times, and what went wrong.
    pub story: Vec<String>,
    /// The candidate's pack version, where it pins one: kept in the manifest after an automatic rollback.
    pub pinned_version: Option<String>,
}

/// What a decision says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The candidate's values become the spec's, and the candidate goes.
    Promoted,
    /// The candidate goes.
    RolledBack(RollbackReason),
}

impl Outcome {
    /// The value of the trailer `Rollout-Outcome`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::RolledBack(_) => "rolled-back",
        }
    }
}

/// Why a rollout was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RollbackReason {
    /// The candidate's pods did not become available, or stopped being so, for longer than the progress
    /// deadline.
    PodUnhealthy,
    /// The candidate was removed from the manifest, or edited to match the spec.
    Withdrawn,
    /// Another candidate took its place in the manifest.
    Superseded,
    /// The commit that promoted it was reverted.
    PromotionReverted,
}

impl RollbackReason {
    /// The value of the metric label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodUnhealthy => "pod_unhealthy",
            Self::Withdrawn => "withdrawn",
            Self::Superseded => "superseded",
            Self::PromotionReverted => "promotion_reverted",
        }
    }
}

impl fmt::Display for RollbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodUnhealthy => "pod unhealthy",
            Self::Withdrawn => "the candidate was withdrawn",
            Self::Superseded => "another candidate took its place",
            Self::PromotionReverted => "its promotion was reverted",
        })
    }
}
