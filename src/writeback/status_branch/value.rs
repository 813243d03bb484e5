//! What there is to say about agents and rollouts, as plain values.

use jiff::Timestamp;
use serde_json::Value;

use crate::ids::{AgentKey, CommitSha, Digest, RolloutId, Weight};
use crate::object::Object;

/// Everything that the status branch says about one agent at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStatus {
    /// The agent.
    pub agent: AgentKey,
    /// The commit of the config branch that this is about; `None` for an object that did not come from git. The
    /// one that changed the agent's manifest last: the branch's tip would change every status with every commit.
    pub config_commit: Option<CommitSha>,
    /// What goes on, in words: `idle`, `stepping`, `promoting`.
    pub phase: String,
    /// The rollout in flight.
    pub rollout: Option<RolloutId>,
    /// The step that it is at.
    pub step: Option<StepPosition>,
    /// The candidate's share that the last `setWeight` asked for.
    pub requested_weight: Option<Weight>,
    /// The candidate's share that is delivered.
    pub delivered_weight: Option<Weight>,
    /// The version that stable runs.
    pub stable_version: Option<String>,
    /// The version under trial.
    pub candidate_version: Option<String>,
    /// When the rollout in flight started.
    pub started_at: Option<Timestamp>,
    /// When its present step was entered.
    pub step_started_at: Option<Timestamp>,
    /// What it waits for, in words; until when rather than how long, so that it stays the same while waiting.
    pub waiting_for: Option<String>,
    /// The conditions of the agent's status.
    pub conditions: Vec<ConditionStatus>,
    /// How the last rollout ended.
    pub last_outcome: Option<LastOutcome>,
    /// Candidates that do not start again by themselves, oldest first.
    pub rejected: Vec<RejectedCandidate>,
}

/// A step among all steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPosition {
    /// Its number, from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// One condition, as in the `status` of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionStatus {
    /// Its type, such as `RolloutActive`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// When `status` changed last.
    pub last_transition: Option<Timestamp>,
}

impl ConditionStatus {
    /// All conditions in the status of `object`, in its order. A field that is missing is empty.
    pub fn all_of(object: &Object) -> Vec<Self> {
        let conditions = object.at("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        conditions
            .map(|condition| Self {
                kind: text(condition, "type"),
                status: text(condition, "status"),
                reason: text(condition, "reason"),
                message: text(condition, "message"),
                last_transition: text(condition, "lastTransitionTime").parse().ok(),
            })
            .collect()
    }
}

/// How a rollout ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOutcome {
    /// The rollout.
    pub rollout: RolloutId,
    /// `promoted` or `rolled-back`.
    pub outcome: String,
    /// Why, for people.
    pub reason: Option<String>,
    /// The candidate, as people call it.
    pub candidate: String,
    /// When it was decided.
    pub at: Timestamp,
    /// The commit that says so; `None` while it is not in git.
    pub decision_commit: Option<CommitSha>,
}

/// A candidate that was rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCandidate {
    /// Its content.
    pub digest: Digest,
    /// What people call it.
    pub title: String,
    /// Its pack version, where it pins one.
    pub version: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// One rollout from its start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutHistory {
    /// The agent.
    pub agent: AgentKey,
    /// The rollout.
    pub rollout: RolloutId,
    /// The candidate, as people call it.
    pub candidate: String,
    /// The candidate's content.
    pub candidate_digest: Option<Digest>,
    /// The commit of the config branch that started it.
    pub config_commit: Option<CommitSha>,
    /// The version that stable ran.
    pub stable_version: Option<String>,
    /// The version under trial.
    pub candidate_version: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is in flight.
    pub ended_at: Option<Timestamp>,
    /// The steps that were entered, in order. A step that was entered again after a restart is there again.
    pub steps: Vec<StepHistory>,
    /// `promoted` or `rolled-back`; `None` while it is in flight.
    pub outcome: Option<String>,
    /// Why, for people.
    pub reason: Option<String>,
    /// The commit that says so.
    pub decision_commit: Option<CommitSha>,
    /// What happened, in order.
    pub events: Vec<HistoryEvent>,
}

/// One step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepHistory {
    /// Which.
    pub position: StepPosition,
    /// What it does, such as `setWeight 20` or `pause 5m`.
    pub what: String,
    /// When it was entered.
    pub entered_at: Timestamp,
    /// When it was done; `None` while it is not.
    pub completed_at: Option<Timestamp>,
    /// The share that was asked for during it.
    pub requested_weight: Weight,
    /// The share that was delivered at its end, or is by now.
    pub delivered_weight: Weight,
}

/// Something that happened in a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// When.
    pub at: Timestamp,
    /// What, as one word, such as `RolloutStep`.
    pub reason: String,
    /// What, for people.
    pub message: String,
}
