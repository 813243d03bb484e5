//! What survives a restart and has no field in the seeds' `status.rollout`: one annotation on the
//! AgentRuntime, so that a cluster whose CRD comes from the reference operator prunes nothing.
//!
//! Which step a rollout is at, that its promotion has begun and that it is over lives in `status.rollout`, and counts only
//! if `startedAt` there is the record's: a status of an earlier rollout never counts for this one. So the two together are
//! the memory ([`Record::read`]), and what the status says in any case costs no second write. A status that is lost leads
//! back to the first step, or to the end once more, both of which are safe.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::names;
use crate::ids::{CommitSha, Digest, RolloutId};
use crate::object::Object;
use crate::rollout::decision::RollbackReason;

/// The version of the format that this release writes. It reads every one up to it.
const VERSION: u32 = 1;

/// How many rejected candidates are remembered; the oldest goes first. One agent rarely has more than a few, and
/// an annotation has 256 KiB for everything.
const REJECTED_LIMIT: usize = 20;

/// The engine's memory about one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Format version.
    #[serde(default)]
    version: u32,
    /// How many rollouts there were; makes ids unique.
    #[serde(default)]
    pub sequence: u64,
    /// The rollout in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Flight>,
    /// Candidates that do not start by themselves, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// The last promotion, as long as its revert would bring its candidate back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<Promoted>,
    /// No rollout starts before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// How the last rollout ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
}

/// A rollout in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flight {
    /// Its name for ever.
    pub id: RolloutId,
    /// When it started; ties `status.rollout` to it.
    pub started_at: Timestamp,
    /// The content on trial.
    pub candidate: Digest,
    /// The content it was tried against.
    pub base: Digest,
    /// What the candidate is, for people.
    pub title: String,
    /// The version label of the candidate (reference 2.2).
    pub candidate_version: String,
    /// The candidate's pinned pack version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_version: Option<String>,
    /// `spec.rollout.steps` as they are obeyed.
    pub steps: Value,
    /// How weight reaches the pods.
    pub delivery: Delivery,
    /// Pods in all, where an autoscaler and not the manifest says how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaled_total: Option<u32>,
    /// Where it is going.
    pub heading: Heading,
    /// Whether all steps were done once and others were added since, or the status was lost that would say whether they
    /// were: its promotion may then be in git, even if nobody has seen it yet. As long as all steps are done, the status
    /// says it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_decided: bool,
    /// The step at which the candidate has had all pods that it waits for, where that did not end the step: pods that
    /// fail after that have a deadline of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<usize>,
    /// When the candidate last made progress towards the pods it needs, where that was neither at the beginning of
    /// the step nor is it the case now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl Flight {
    /// The spec is the candidate from now on.
    pub(crate) fn begin_promotion(&mut self) {
        self.heading = Heading::Promotion;
        self.progress = None;
    }
}

/// How weight reaches the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// By the ratio of pods.
    ReplicaWeighted,
    /// Not at all: there is no `trafficRouting` block, and the Service spreads over both tracks at full size.
    Unrouted,
}

/// Where a rollout is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "to")]
pub enum Heading {
    /// Through its steps. Ends when all are done and the spec has become the candidate, or in a rollback.
    Steps,
    /// The spec is the candidate: stable rolls to it behind the candidate's pods. Ends when stable is complete and the
    /// candidate gone, or in a rollback when the spec is changed again.
    Promotion,
    /// Back to the spec. Ends when stable has all its pods and the candidate is gone.
    Rollback {
        /// Why.
        reason: RollbackReason,
        /// When it was decided.
        at: Timestamp,
    },
}

/// A number of available candidate pods, and when it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Available pods of the candidate.
    pub available: u32,
    /// Since when.
    pub since: Timestamp,
}

/// A candidate that was rolled back and does not start again by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Its content.
    pub candidate: Digest,
    /// The rollout that rejected it.
    pub rollout: RolloutId,
    /// Its name, for people.
    pub title: String,
    /// The pack version it pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_version: Option<String>,
    /// Why.
    pub reason: RollbackReason,
    /// What was seen, a sentence for the commit that removes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// When.
    pub at: Timestamp,
    /// The first commit seen without it. If it is there again in a commit that has this one behind it, a person has
    /// put it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_by: Option<CommitSha>,
}

/// A promotion whose revert would bring its candidate back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promoted {
    /// What ran before.
    pub from: Digest,
    /// What was promoted.
    pub to: Digest,
    /// The rollout.
    pub rollout: RolloutId,
}

/// How a rollout ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The rollout.
    pub rollout: RolloutId,
    /// What it was about, for people.
    pub title: String,
    /// `None`: promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RollbackReason>,
    /// When.
    pub at: Timestamp,
}

impl Record {
    /// Reads the annotation. One that is not there, or that somebody edited to nonsense, is an empty record: the
    /// rollout then starts from its first step, which is safe.
    pub fn parse(annotation: Option<&str>) -> Self {
        annotation
            .and_then(|text| serde_json::from_str::<Self>(text).ok())
            .filter(|record| record.version <= VERSION)
            .unwrap_or_default()
    }

    /// The memory about an agent: its annotation, and what its status says beyond that.
    pub fn read(agent: &Object) -> Self {
        let written = Self::parse(agent.annotation(names::RECORD_ANNOTATION));
        let told = match written.with_status(agent.at("/status").unwrap_or(&Value::Null)) {
            Cow::Owned(told) => Some(told),
            Cow::Borrowed(_) => None,
        };
        told.unwrap_or(written)
    }

    /// The record with what a status says of the rollout in flight: that its promotion has begun, or that it is over.
    pub(crate) fn with_status(&self, status: &Value) -> Cow<'_, Self> {
        let Some(flight) = &self.rollout else { return Cow::Borrowed(self) };
        let text = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let rollout = &status["rollout"];
        if text(&rollout["startedAt"]) != Some(flight.started_at) {
            return Cow::Borrowed(self);
        }
        if rollout["active"] == false {
            let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ended = conditions.iter().find(|condition| condition["type"] == "RolloutActive");
            let at = ended.and_then(|condition| text(&condition["lastTransitionTime"])).unwrap_or(flight.started_at);
            let mut record = Self { rollout: None, ..self.clone() };
            record.end(flight.clone(), at);
            return Cow::Owned(record);
        }
        if rollout["promoting"] == true && flight.heading == Heading::Steps {
            let mut flight = flight.clone();
            flight.begin_promotion();
            return Cow::Owned(Self { rollout: Some(flight), ..self.clone() });
        }
        Cow::Borrowed(self)
    }

    /// Takes in that a rollout has ended where it was heading.
    pub(crate) fn end(&mut self, flight: Flight, at: Timestamp) {
        let rolled_back = match flight.heading {
            Heading::Rollback { reason, .. } => Some(reason),
            Heading::Steps | Heading::Promotion => {
                self.promoted = Some(Promoted { from: flight.base, to: flight.candidate, rollout: flight.id.clone() });
                None
            }
        };
        self.last = Some(Ended { rollout: flight.id, title: flight.title, rolled_back, at });
    }

    /// The text of the annotation.
    pub fn render(&self) -> String {
        let record = Self { version: VERSION, ..self.clone() };
        serde_json::to_string(&record).expect("a record has only string keys")
    }

    /// Whether both say the same, in whichever version of the format.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let Self { version: _, sequence, rollout, rejected, promoted, cooldown_until, last } = self;
        (sequence, rollout, rejected, promoted, cooldown_until, last)
            == (&other.sequence, &other.rollout, &other.rejected, &other.promoted, &other.cooldown_until, &other.last)
    }

    /// The entry about a rejected candidate.
    pub fn rejection(&self, candidate: &Digest) -> Option<&Rejected> {
        self.rejected.iter().rev().find(|entry| entry.candidate == *candidate)
    }

    /// Adds a rejected candidate in place of an older entry about the same content.
    pub(crate) fn reject(&mut self, entry: Rejected) {
        self.rejected.retain(|other| other.candidate != entry.candidate);
        self.rejected.push(entry);
        let surplus = self.rejected.len().saturating_sub(REJECTED_LIMIT);
        self.rejected.drain(..surplus);
    }
}
