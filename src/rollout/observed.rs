//! What is read off live objects: plain numbers about a Deployment, and a rollout's progress off the status.

use jiff::Timestamp;
use serde_json::Value;

use crate::api::names;
use crate::ids::{Digest, Uid};
use crate::object::Object;

/// A Deployment as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    /// Which one.
    pub(crate) uid: Uid,
    /// The content that its pod template runs.
    pub(crate) variant: Option<Digest>,
    /// Pods wanted.
    pub(crate) wanted: u32,
    /// Pods there are, of any template.
    pub(crate) pods: u32,
    /// Available pods, of any template.
    pub(crate) available: u32,
    /// Ready pods, of any template.
    pub(crate) ready: u32,
    /// Pods of the newest template.
    pub(crate) updated: u32,
    /// Whether the counts are about the newest spec.
    pub(crate) is_observed: bool,
    /// Whether Kubernetes gave up waiting for it.
    pub(crate) has_exceeded_deadline: bool,
    /// When it was made.
    pub(crate) created_at: Option<Timestamp>,
    /// Whether its deletion has begun.
    pub(crate) is_terminating: bool,
}

impl Deployment {
    /// Reads a live Deployment.
    pub(crate) fn read(object: &Object) -> Self {
        // Never more than the API takes, so that sums of both tracks do not overflow.
        let pods =
            |pointer| object.integer(pointer).and_then(|n| i32::try_from(n).ok()).and_then(|n| u32::try_from(n).ok());
        let count = |pointer| pods(pointer).unwrap_or(0);
        let conditions =
            object.at("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self {
            uid: object.uid().unwrap_or_else(|| Uid::new("")),
            variant: object.annotation(names::VARIANT_ANNOTATION).map(Digest::new),
            wanted: pods("/spec/replicas").unwrap_or(1),
            pods: count("/status/replicas"),
            available: count("/status/availableReplicas"),
            ready: count("/status/readyReplicas"),
            updated: count("/status/updatedReplicas"),
            is_observed: object.integer("/status/observedGeneration").unwrap_or(0) >= object.generation(),
            has_exceeded_deadline: conditions.iter().any(|condition| {
                condition["type"] == "Progressing"
                    && condition["status"] == "False"
                    && condition["reason"] == "ProgressDeadlineExceeded"
            }),
            created_at: object.text("/metadata/creationTimestamp").and_then(|text| text.parse().ok()),
            is_terminating: object.is_terminating(),
        }
    }

    /// Available pods that surely run `variant`: while a rolling update is under way, pods of the old template may be
    /// among the available ones, so they are taken off.
    pub(crate) fn available_of(&self, variant: &Digest) -> u32 {
        if self.variant.as_ref() != Some(variant) || !self.is_observed {
            return 0;
        }
        self.available.saturating_sub(self.pods.saturating_sub(self.updated))
    }

    /// Whether it runs `variant`, and nothing else, with exactly the pods wanted, all available.
    pub(crate) fn is_complete(&self, variant: &Digest) -> bool {
        self.variant.as_ref() == Some(variant)
            && self.is_observed
            && self.updated == self.wanted
            && self.pods == self.wanted
            && self.available == self.wanted
    }
}

/// How far a rollout has come, as `status.rollout` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepProgress {
    /// The step to run; the number of steps once all are done.
    pub(crate) step: usize,
    /// When it was entered.
    pub(crate) entered_at: Timestamp,
}

impl StepProgress {
    /// Reads from a status the progress of the rollout that started at `started_at`. A status of another rollout says
    /// nothing: it is at its first step.
    pub(crate) fn read(status: &Value, started_at: Timestamp) -> Self {
        Self::told(status, started_at).unwrap_or(Self { step: 0, entered_at: started_at })
    }

    /// The same; `None`: the status says nothing about that rollout.
    pub(crate) fn told(status: &Value, started_at: Timestamp) -> Option<Self> {
        let rollout = status.get("rollout")?;
        let time = |field| rollout.get(field)?.as_str()?.parse::<Timestamp>().ok();
        if time("startedAt") != Some(started_at) {
            return None;
        }
        let step = rollout.get("currentStep").and_then(Value::as_i64).unwrap_or(0);
        Some(Self { step: usize::try_from(step).ok()?, entered_at: time("stepStartedAt")? })
    }
}
