//! The documents as they are kept: own types with a version, apart from the values that the daemon works on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentKey, CommitSha, Digest, RolloutId, Weight};

use super::value::{
    AgentStatus, ConditionStatus, HistoryEvent, LastOutcome, RejectedCandidate, RolloutHistory, StepHistory,
    StepPosition,
};

const VERSION: u32 = 1;
const HEADER: &str = "# Written by Serin. It is overwritten; to change what happens, change the config branch.\n";

/// `status.yaml`: version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// Always 1.
    pub version: u32,
    /// See [`AgentStatus::agent`].
    pub agent: AgentKey,
    /// See [`AgentStatus::config_commit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_commit: Option<CommitSha>,
    /// See [`AgentStatus::phase`].
    pub phase: String,
    /// The rollout in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutPart>,
    /// See [`AgentStatus::stable_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_version: Option<String>,
    /// See [`AgentStatus::waiting_for`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// See [`AgentStatus::conditions`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionPart>,
    /// See [`AgentStatus::last_outcome`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<OutcomePart>,
    /// See [`AgentStatus::rejected`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_candidates: Vec<RejectedPart>,
}

/// The rollout in flight, in a [`StatusDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPart {
    /// See [`AgentStatus::rollout`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RolloutId>,
    /// See [`AgentStatus::step`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// How many steps there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// See [`AgentStatus::requested_weight`], in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_weight: Option<u32>,
    /// See [`AgentStatus::delivered_weight`], in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_weight: Option<u32>,
    /// See [`AgentStatus::candidate_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_version: Option<String>,
    /// See [`AgentStatus::started_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// See [`AgentStatus::step_started_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_started_at: Option<Timestamp>,
}

/// A condition, in a [`StatusDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionPart {
    /// See [`ConditionStatus::kind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// See [`ConditionStatus::status`].
    pub status: String,
    /// See [`ConditionStatus::reason`].
    pub reason: String,
    /// See [`ConditionStatus::message`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// See [`ConditionStatus::last_transition`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition: Option<Timestamp>,
}

/// How a rollout ended, in a [`StatusDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomePart {
    /// See [`LastOutcome::rollout`].
    pub rollout: RolloutId,
    /// See [`LastOutcome::outcome`].
    pub outcome: String,
    /// See [`LastOutcome::reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// See [`LastOutcome::candidate`].
    pub candidate: String,
    /// See [`LastOutcome::at`].
    pub at: Timestamp,
    /// See [`LastOutcome::decision_commit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_commit: Option<CommitSha>,
}

/// A rejected candidate, in a [`StatusDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedPart {
    /// See [`RejectedCandidate::digest`].
    pub digest: Digest,
    /// See [`RejectedCandidate::title`].
    pub title: String,
    /// See [`RejectedCandidate::version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// See [`RejectedCandidate::reason`].
    pub reason: String,
    /// See [`RejectedCandidate::at`].
    pub at: Timestamp,
}

/// `history/<rollout>.yaml`: version 1. Measurements of analyses will be a field of their steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryDocument {
    /// Always 1.
    pub version: u32,
    /// See [`RolloutHistory::agent`].
    pub agent: AgentKey,
    /// See [`RolloutHistory::rollout`].
    pub rollout: RolloutId,
    /// See [`RolloutHistory::candidate`].
    pub candidate: String,
    /// See [`RolloutHistory::candidate_digest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_digest: Option<Digest>,
    /// See [`RolloutHistory::config_commit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_commit: Option<CommitSha>,
    /// See [`RolloutHistory::stable_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_version: Option<String>,
    /// See [`RolloutHistory::candidate_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_version: Option<String>,
    /// See [`RolloutHistory::started_at`].
    pub started_at: Timestamp,
    /// See [`RolloutHistory::ended_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// See [`RolloutHistory::outcome`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// See [`RolloutHistory::reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// See [`RolloutHistory::decision_commit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_commit: Option<CommitSha>,
    /// See [`RolloutHistory::steps`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepPart>,
    /// See [`RolloutHistory::events`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventPart>,
}

/// A step, in a [`HistoryDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepPart {
    /// Its number, from 1.
    pub step: u32,
    /// How many there are.
    pub of: u32,
    /// See [`StepHistory::what`].
    pub what: String,
    /// See [`StepHistory::entered_at`].
    pub entered_at: Timestamp,
    /// See [`StepHistory::completed_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// See [`StepHistory::requested_weight`], in percent.
    pub requested_weight: u32,
    /// See [`StepHistory::delivered_weight`], in percent.
    pub delivered_weight: u32,
}

/// An event, in a [`HistoryDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPart {
    /// See [`HistoryEvent::at`].
    pub at: Timestamp,
    /// See [`HistoryEvent::reason`].
    pub reason: String,
    /// See [`HistoryEvent::message`].
    pub message: String,
}

/// Why a file of the status branch cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is no such document.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A later Serin wrote it.
    #[error("it has version {0}, and this Serin reads version 1")]
    LaterVersion(u64),
    /// A weight is above 100.
    #[error("{0} is no weight; one is 0 to 100")]
    NoWeight(u32),
}

/// Reads a `status.yaml`.
///
/// # Errors
/// It is not one, or one of a later version.
pub fn parse_status(contents: &[u8]) -> Result<AgentStatus, DocumentError> {
    let document: StatusDocument = parse(contents)?;
    let StatusDocument {
        version: _,
        agent,
        config_commit,
        phase,
        rollout,
        stable_version,
        waiting_for,
        conditions,
        last_outcome,
        rejected_candidates,
    } = document;
    let mut status = AgentStatus {
        agent,
        config_commit,
        phase,
        rollout: None,
        step: None,
        requested_weight: None,
        delivered_weight: None,
        stable_version,
        candidate_version: None,
        started_at: None,
        step_started_at: None,
        waiting_for,
        conditions: conditions.into_iter().map(ConditionPart::into_value).collect(),
        last_outcome: last_outcome.map(OutcomePart::into_value),
        rejected: rejected_candidates.into_iter().map(RejectedPart::into_value).collect(),
    };
    if let Some(part) = rollout {
        status.rollout = part.id;
        status.step = part.step.zip(part.steps).map(|(number, of)| StepPosition { number, of });
        status.requested_weight = part.requested_weight.map(weight).transpose()?;
        status.delivered_weight = part.delivered_weight.map(weight).transpose()?;
        status.candidate_version = part.candidate_version;
        status.started_at = part.started_at;
        status.step_started_at = part.step_started_at;
    }
    Ok(status)
}

/// Reads a file of `history/`.
///
/// # Errors
/// It is not one, or one of a later version.
pub fn parse_history(contents: &[u8]) -> Result<RolloutHistory, DocumentError> {
    let document: HistoryDocument = parse(contents)?;
    let HistoryDocument {
        version: _,
        agent,
        rollout,
        candidate,
        candidate_digest,
        config_commit,
        stable_version,
        candidate_version,
        started_at,
        ended_at,
        outcome,
        reason,
        decision_commit,
        steps,
        events,
    } = document;
    Ok(RolloutHistory {
        agent,
        rollout,
        candidate,
        candidate_digest,
        config_commit,
        stable_version,
        candidate_version,
        started_at,
        ended_at,
        steps: steps.into_iter().map(StepPart::into_value).collect::<Result<_, _>>()?,
        outcome,
        reason,
        decision_commit,
        events: events
            .into_iter()
            .map(|EventPart { at, reason, message }| HistoryEvent { at, reason, message })
            .collect(),
    })
}

pub(super) fn render_status(status: &AgentStatus) -> String {
    render(&status_document(status))
}

/// The document that says `status`.
pub fn status_document(status: &AgentStatus) -> StatusDocument {
    let status = status.clone();
    let rollout = RolloutPart {
        id: status.rollout,
        step: status.step.map(|step| step.number),
        steps: status.step.map(|step| step.of),
        requested_weight: status.requested_weight.map(Weight::percent),
        delivered_weight: status.delivered_weight.map(Weight::percent),
        candidate_version: status.candidate_version,
        started_at: status.started_at,
        step_started_at: status.step_started_at,
    };
    StatusDocument {
        version: VERSION,
        agent: status.agent,
        config_commit: status.config_commit,
        phase: status.phase,
        rollout: (rollout != RolloutPart::EMPTY).then_some(rollout),
        stable_version: status.stable_version,
        waiting_for: status.waiting_for,
        conditions: status.conditions.into_iter().map(ConditionPart::from_value).collect(),
        last_outcome: status.last_outcome.map(OutcomePart::from_value),
        rejected_candidates: status.rejected.into_iter().map(RejectedPart::from_value).collect(),
    }
}

pub(super) fn render_history(history: &RolloutHistory) -> String {
    let history = history.clone();
    render(&HistoryDocument {
        version: VERSION,
        agent: history.agent,
        rollout: history.rollout,
        candidate: history.candidate,
        candidate_digest: history.candidate_digest,
        config_commit: history.config_commit,
        stable_version: history.stable_version,
        candidate_version: history.candidate_version,
        started_at: history.started_at,
        ended_at: history.ended_at,
        outcome: history.outcome,
        reason: history.reason,
        decision_commit: history.decision_commit,
        steps: history.steps.into_iter().map(StepPart::from_value).collect(),
        events: history
            .events
            .into_iter()
            .map(|HistoryEvent { at, reason, message }| EventPart { at, reason, message })
            .collect(),
    })
}

fn render<T: Serialize>(document: &T) -> String {
    let yaml = serde_saphyr::to_string(document).expect("these documents hold only texts, numbers, lists and maps");
    format!("{HEADER}{yaml}")
}

/// Only the version, which is read before anything else is expected of a document.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

fn parse<T: serde::de::DeserializeOwned>(contents: &[u8]) -> Result<T, DocumentError> {
    let unreadable = |error: serde_saphyr::Error| {
        DocumentError::Unreadable(error.without_snippet().to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let versioned: Versioned = serde_saphyr::from_slice(contents).map_err(unreadable)?;
    if versioned.version > u64::from(VERSION) {
        return Err(DocumentError::LaterVersion(versioned.version));
    }
    serde_saphyr::from_slice(contents).map_err(unreadable)
}

fn weight(percent: u32) -> Result<Weight, DocumentError> {
    Weight::new(u64::from(percent)).ok_or(DocumentError::NoWeight(percent))
}

impl RolloutPart {
    const EMPTY: Self = Self {
        id: None,
        step: None,
        steps: None,
        requested_weight: None,
        delivered_weight: None,
        candidate_version: None,
        started_at: None,
        step_started_at: None,
    };
}

impl ConditionPart {
    fn from_value(value: ConditionStatus) -> Self {
        let ConditionStatus { kind, status, reason, message, last_transition } = value;
        Self { kind, status, reason, message, last_transition }
    }

    fn into_value(self) -> ConditionStatus {
        let Self { kind, status, reason, message, last_transition } = self;
        ConditionStatus { kind, status, reason, message, last_transition }
    }
}

impl OutcomePart {
    fn from_value(value: LastOutcome) -> Self {
        let LastOutcome { rollout, outcome, reason, candidate, at, decision_commit } = value;
        Self { rollout, outcome, reason, candidate, at, decision_commit }
    }

    fn into_value(self) -> LastOutcome {
        let Self { rollout, outcome, reason, candidate, at, decision_commit } = self;
        LastOutcome { rollout, outcome, reason, candidate, at, decision_commit }
    }
}

impl RejectedPart {
    fn from_value(value: RejectedCandidate) -> Self {
        let RejectedCandidate { digest, title, version, reason, at } = value;
        Self { digest, title, version, reason, at }
    }

    fn into_value(self) -> RejectedCandidate {
        let Self { digest, title, version, reason, at } = self;
        RejectedCandidate { digest, title, version, reason, at }
    }
}

impl StepPart {
    fn from_value(value: StepHistory) -> Self {
        let StepHistory { position, what, entered_at, completed_at, requested_weight, delivered_weight } = value;
        Self {
            step: position.number,
            of: position.of,
            what,
            entered_at,
            completed_at,
            requested_weight: requested_weight.percent(),
            delivered_weight: delivered_weight.percent(),
        }
    }

    fn into_value(self) -> Result<StepHistory, DocumentError> {
        let Self { step, of, what, entered_at, completed_at, requested_weight, delivered_weight } = self;
        Ok(StepHistory {
            position: StepPosition { number: step, of },
            what,
            entered_at,
            completed_at,
            requested_weight: weight(requested_weight)?,
            delivered_weight: weight(delivered_weight)?,
        })
    }
}
