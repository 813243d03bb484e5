//! What happens to a rollout.

use std::time::Duration;

use tracing::{debug, info, warn};

use crate::cluster::ClusterError;
use crate::ids::{AgentKey, RolloutId, Weight};
use crate::object::ObjectKey;
use crate::rollout::RollbackReason;
use crate::telemetry::{Metrics, StepType};

/// A rollout began at its first step.
pub struct RolloutStarted<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// What is tried, for people.
    pub candidate: &'a str,
    /// What it is tried against, for people.
    pub stable: &'a str,
}

impl RolloutStarted<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, candidate, stable } = self;
        metrics.rollout.set_active(agent, true);
        metrics.rollout.set_weight(agent, Weight::ZERO);
        info!(%agent, %rollout, candidate, stable, "the rollout started");
    }
}

/// A step was entered.
pub struct StepEntered<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// Which step, from 0.
    pub step: usize,
    /// How many there are.
    pub steps: usize,
    /// What it is, for people: `setWeight 20`.
    pub title: &'a str,
}

impl StepEntered<'_> {
    /// Logs it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, step, steps, title } = self;
        // Also after a restart of Serin, whose gauges begin empty.
        metrics.rollout.set_active(agent, true);
        info!(%agent, %rollout, step, steps, title, "the step was entered");
    }
}

/// A step was completed.
pub struct StepCompleted<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// Which step, from 0.
    pub step: usize,
    /// What it was.
    pub step_type: StepType,
    /// How long after it was entered.
    pub took: Duration,
}

impl StepCompleted<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, step, step_type, took } = self;
        metrics.rollout.step_completed(agent, step_type, took);
        debug!(%agent, %rollout, step, step_type = step_type.as_str(), ?took, "the step was completed");
    }
}

/// What the rollout waits for has changed.
pub struct RolloutWaiting<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// A sentence, as in the status.
    pub message: &'a str,
}

impl RolloutWaiting<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, rollout, message } = self;
        info!(%agent, %rollout, message, "the rollout waits");
    }
}

/// The candidate's share of traffic, as delivered, has changed.
pub struct WeightDelivered<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// The share that reaches the candidate.
    pub delivered: Weight,
    /// The share that the step asks for.
    pub requested: Weight,
}

impl WeightDelivered<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, delivered, requested } = self;
        metrics.rollout.set_weight(agent, delivered);
        info!(%agent, %rollout, %delivered, %requested, "traffic moved");
    }
}

/// All steps are done: the promotion goes to git now.
pub struct PromotionDecided<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// What is promoted, for people.
    pub candidate: &'a str,
}

impl PromotionDecided<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, rollout, candidate } = self;
        info!(%agent, %rollout, candidate, "all steps are done, promoting");
    }
}

/// A promotion is done: stable runs what was the candidate, and all traffic is on it.
pub struct RolloutPromoted<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// What was promoted, for people.
    pub candidate: &'a str,
}

impl RolloutPromoted<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, candidate } = self;
        metrics.rollout.promoted(agent);
        metrics.rollout.set_active(agent, false);
        metrics.rollout.set_weight(agent, Weight::ZERO);
        info!(%agent, %rollout, candidate, "promoted");
    }
}

/// A rollout was rolled back: no traffic reaches the candidate any more.
pub struct RolledBack<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// What was rolled back, for people.
    pub candidate: &'a str,
    /// Why.
    pub reason: RollbackReason,
}

impl RolledBack<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, candidate, reason } = self;
        metrics.rollout.rolled_back(agent, reason.as_str());
        metrics.rollout.set_active(agent, false);
        metrics.rollout.set_weight(agent, Weight::ZERO);
        warn!(%agent, %rollout, candidate, reason = reason.as_str(), "rolled back: {reason}");
    }
}

/// Nothing is rolled out, and there is something to say about it: how the last rollout ended, or why the candidate does not
/// start.
pub struct RolloutHeld<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The message of the status.
    pub message: &'a str,
}

impl RolloutHeld<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, message } = self;
        info!(%agent, message, "no rollout");
    }
}

/// An analysis run was completed.
pub struct AnalysisCompleted<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// The template.
    pub template: &'a str,
    /// Whether it passed.
    pub has_passed: bool,
}

impl AnalysisCompleted<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { agent, rollout, template, has_passed } = self;
        metrics.rollout.analysis_completed(agent, template, has_passed);
        info!(%agent, %rollout, template, has_passed, "the analysis was completed");
    }
}

/// An agent without a rollout in flight was seen for the first time: its gauges begin at rest.
pub struct RolloutIdle<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
}

impl RolloutIdle<'_> {
    /// Sets its gauges.
    pub fn emit(self, metrics: &Metrics) {
        metrics.rollout.set_active(self.agent, false);
        metrics.rollout.set_weight(self.agent, Weight::ZERO);
        debug!(agent = %self.agent, "no rollout is in flight");
    }
}

/// An agent is gone.
pub struct AgentForgotten<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
}

impl AgentForgotten<'_> {
    /// Logs it and ends its series.
    pub fn emit(self, metrics: &Metrics) {
        metrics.rollout.forget(self.agent);
        info!(agent = %self.agent, "the agent is gone");
    }
}

/// An event could not be recorded. The rollout goes on without it.
pub struct EventLost<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// Why.
    pub error: &'a ClusterError,
}

impl EventLost<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, error } = self;
        warn!(%agent, %error, "an event could not be recorded");
    }
}

/// Serin may not read the credential of a Provider: a new one will not replace the pods that use it.
pub struct CredentialUnreadable<'a> {
    /// The Secret.
    pub secret: &'a ObjectKey,
    /// Why.
    pub error: &'a ClusterError,
}

impl CredentialUnreadable<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { secret, error } = self;
        warn!(%secret, %error, "the credential of a Provider cannot be read, so a new one will not replace pods");
    }
}

/// The server refuses an object that the agent runs as. What runs goes on, and it is tried again.
pub struct WorkloadRefused<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The server's words.
    pub why: &'a str,
}

impl WorkloadRefused<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, why } = self;
        warn!(%agent, why, "the cluster refuses an object that the agent runs as");
    }
}
