//! One agent in full, as plain values: from what lives in the cluster, and from what the status branch tells.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::api::duration::render_duration;
use crate::api::names::{RECORD_ANNOTATION, candidate_deployment};
use crate::api::{AgentRuntime, Pause, Step};
use crate::cli::status::row::delivered;
use crate::git::CommitInfo;
use crate::ids::{AgentKey, CommitSha, RolloutId, Weight};
use crate::object::{Kind, Object};
use crate::rollout::Record;
use crate::writeback::status_branch::{
    AgentStatus, ConditionStatus, LastOutcome, RejectedCandidate, RolloutHistory, StatusDocument, StepPosition,
    status_document,
};

/// One agent in full. What `-o json` and `-o yaml` print, a public interface: the document of the status branch with
/// more fields, of which each may be absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// As on the status branch.
    #[serde(flatten)]
    pub status: StatusDocument,
    /// When it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_until: Option<Timestamp>,
    /// The pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Pods>,
    /// The steps of the rollout in flight, or of the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// The last decisions, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionView>,
    /// What a person may want to look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The pods of both tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pods {
    /// Those of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<Track>,
    /// Those on trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Track>,
}

/// The pods of one Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Track {
    /// How many are wanted.
    pub wanted: i64,
    /// How many are ready.
    pub ready: i64,
    /// How many are available: ready for as long as the Deployment asks for.
    pub available: i64,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Done.
    Done,
    /// Under way.
    Current,
    /// Still to come.
    Pending,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// Its number, from 1.
    pub step: u32,
    /// What it does.
    pub what: String,
    /// How far it is.
    pub state: StepState,
    /// When it was entered, as far as that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entered_at: Option<Timestamp>,
    /// When it was done, as far as that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// About which rollout.
    pub rollout: RolloutId,
    /// `promoted` or `rolled-back`.
    pub outcome: String,
    /// The candidate, as people call it.
    pub candidate: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was decided.
    pub at: Timestamp,
    /// The commit that says so; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSha>,
    /// The first line of its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<Timestamp>,
}

impl AgentView {
    /// As the cluster says. `deployments` may hold others'.
    pub fn of_cluster(agent: &Object, deployments: &[Arc<Object>], now: Timestamp) -> Self {
        let key = AgentKey::new(agent.namespace(), agent.name());
        let record = Record::parse(agent.annotation(RECORD_ANNOTATION));
        let pods = pods(agent, deployments);
        let steps = steps(agent);
        let status = agent_status(&key, agent, &record, &steps, pods);
        let waiting_until = waiting_until(agent, &record, &steps).filter(|until| *until > now);
        Self {
            warnings: warnings(agent, &status.conditions),
            decisions: status.last_outcome.iter().map(decision_of_outcome).collect(),
            status: status_document(&status),
            waiting_until,
            pods: Some(pods),
            steps,
        }
    }

    /// As the status branch says.
    pub fn of_branch(status: &AgentStatus) -> Self {
        Self {
            status: status_document(status),
            waiting_until: None,
            pods: None,
            steps: Vec::new(),
            decisions: status.last_outcome.iter().map(decision_of_outcome).collect(),
            warnings: warnings_of_conditions(&status.conditions),
        }
    }

    /// The rollout in flight, or the last one.
    fn rollout(&self) -> Option<&RolloutId> {
        let in_flight = self.status.rollout.as_ref().and_then(|rollout| rollout.id.as_ref());
        in_flight.or_else(|| self.status.last_outcome.as_ref().map(|last| &last.rollout))
    }

    /// Adds what the status branch tells of the rollouts of this agent.
    pub fn add_histories(&mut self, histories: &[RolloutHistory]) {
        if let Some(history) = histories.iter().find(|history| Some(&history.rollout) == self.rollout()) {
            self.add_steps(history);
        }
        for history in histories {
            let (Some(outcome), Some(at)) = (&history.outcome, history.ended_at) else { continue };
            let known = self.decisions.iter_mut().find(|decision| decision.rollout == history.rollout);
            match known {
                Some(known) => known.commit = known.commit.take().or_else(|| history.decision_commit.clone()),
                None => self.decisions.push(DecisionView {
                    rollout: history.rollout.clone(),
                    outcome: outcome.clone(),
                    candidate: history.candidate.clone(),
                    reason: history.reason.clone(),
                    at,
                    commit: history.decision_commit.clone(),
                    subject: None,
                    committed_at: None,
                }),
            }
        }
        self.decisions.sort_by_key(|decision| std::cmp::Reverse(decision.at));
    }

    fn add_steps(&mut self, history: &RolloutHistory) {
        for step in &history.steps {
            let found = self.steps.iter_mut().find(|known| known.step == step.position.number);
            let entry = StepView {
                step: step.position.number,
                what: step.what.clone(),
                state: if step.completed_at.is_some() { StepState::Done } else { StepState::Current },
                entered_at: Some(step.entered_at),
                completed_at: step.completed_at,
            };
            match found {
                // What the cluster says is newer: of the history only times count.
                Some(known) if known.state == StepState::Done => {
                    known.entered_at = entry.entered_at;
                    known.completed_at = entry.completed_at;
                }
                Some(_) => {}
                None => self.steps.push(entry),
            }
        }
        self.steps.sort_by_key(|step| step.step);
        let Some(rollout) = &self.status.rollout else { return };
        // The branch tells of steps that are done, and where the rollout stands.
        if let (Some(step), None) = (rollout.step, self.pods)
            && self.steps.last().is_none_or(|last| last.step < step)
        {
            self.steps.push(StepView {
                step,
                what: String::new(),
                state: StepState::Current,
                entered_at: rollout.step_started_at,
                completed_at: None,
            });
        }
    }

    /// Adds what the commits of the decisions say of themselves.
    pub fn add_commits(&mut self, commits: &[CommitInfo]) {
        for decision in &mut self.decisions {
            let info = commits.iter().find(|info| Some(&info.commit) == decision.commit.as_ref());
            decision.subject = info.map(|info| info.subject.clone());
            decision.committed_at = info.map(|info| info.at);
        }
    }
}

fn decision_of_outcome(last: &LastOutcome) -> DecisionView {
    DecisionView {
        rollout: last.rollout.clone(),
        outcome: last.outcome.clone(),
        candidate: last.candidate.clone(),
        reason: last.reason.clone(),
        at: last.at,
        commit: last.decision_commit.clone(),
        subject: None,
        committed_at: None,
    }
}

fn pods(agent: &Object, deployments: &[Arc<Object>]) -> Pods {
    let track = |name: &str| {
        let is_ours = |object: &&Arc<Object>| {
            let is_named = object.namespace() == agent.namespace() && object.name() == name;
            is_named
                && object.key().kind == Kind::DEPLOYMENT
                && agent.uid().is_none_or(|uid| object.is_controlled_by(&uid))
        };
        let object = deployments.iter().find(is_ours)?;
        let count = |pointer| object.integer(pointer);
        Some(Track {
            wanted: count("/spec/replicas").unwrap_or(1),
            ready: count("/status/readyReplicas").unwrap_or(0),
            available: count("/status/availableReplicas").unwrap_or(0),
        })
    };
    Pods { stable: track(agent.name()), candidate: track(&candidate_deployment(agent.name())) }
}

fn time(object: &Object, pointer: &str) -> Option<Timestamp> {
    object.text(pointer).and_then(|text| text.parse().ok())
}

fn some_text(object: &Object, pointer: &str) -> Option<String> {
    object.text(pointer).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is_active(agent: &Object) -> bool {
    agent.at("/status/rollout/active").and_then(Value::as_bool).unwrap_or(false)
}

fn agent_status(key: &AgentKey, agent: &Object, record: &Record, steps: &[StepView], pods: Pods) -> AgentStatus {
    let is_active = is_active(agent);
    let current = agent.integer("/status/rollout/currentStep").filter(|_| is_active);
    let of = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let conditions = ConditionStatus::all_of(agent);
    let weight = |percent: i64| u64::try_from(percent).ok().and_then(Weight::new);
    let available = |track: Option<Track>| track.map(|track| track.available);
    AgentStatus {
        agent: key.clone(),
        config_commit: None,
        phase: phase(agent, &conditions, steps.len()).to_owned(),
        rollout: record.rollout.as_ref().filter(|_| is_active).map(|flight| flight.id.clone()),
        step: current
            .and_then(|step| u32::try_from(step).ok())
            .map(|step| StepPosition { number: step.saturating_add(1).min(of), of }),
        requested_weight: agent.integer("/status/rollout/currentWeight").filter(|_| is_active).and_then(weight),
        delivered_weight: delivered(available(pods.stable), available(pods.candidate))
            .filter(|_| is_active)
            .and_then(weight),
        stable_version: some_text(agent, "/status/rollout/stableVersion")
            .or_else(|| some_text(agent, "/status/activeVersion")),
        candidate_version: some_text(agent, "/status/rollout/candidateVersion").filter(|_| is_active),
        started_at: time(agent, "/status/rollout/startedAt").filter(|_| is_active),
        step_started_at: time(agent, "/status/rollout/stepStartedAt").filter(|_| is_active),
        waiting_for: waiting_for(agent, record),
        conditions,
        last_outcome: record.last.as_ref().map(|last| LastOutcome {
            rollout: last.rollout.clone(),
            outcome: if last.rolled_back.is_some() { "rolled-back" } else { "promoted" }.to_owned(),
            reason: last.rolled_back.map(|reason| reason.to_string()),
            candidate: last.title.clone(),
            at: last.at,
            decision_commit: None,
        }),
        rejected: record
            .rejected
            .iter()
            .map(|entry| RejectedCandidate {
                digest: entry.candidate.clone(),
                title: entry.title.clone(),
                version: entry.pinned_version.clone(),
                reason: entry.reason.to_string(),
                at: entry.at,
            })
            .collect(),
    }
}

/// The word of the status branch for where it stands.
fn phase(agent: &Object, conditions: &[ConditionStatus], steps: usize) -> &'static str {
    let reason = conditions.iter().find(|condition| condition.kind == "RolloutActive").map(|c| c.reason.as_str());
    let current = agent.integer("/status/rollout/currentStep").and_then(|step| usize::try_from(step).ok());
    match reason {
        Some("InvalidSpec") => "invalid",
        _ if !is_active(agent) => "idle",
        Some("Promoting") => "promoting",
        Some("RollingBack") => "rolling back",
        _ if current.is_some_and(|step| step >= steps) => "awaiting promotion",
        _ => "stepping",
    }
}

/// What it waits for, without what the rest of the view says already.
fn waiting_for(agent: &Object, record: &Record) -> Option<String> {
    let message = some_text(agent, "/status/rollout/message")?;
    let waits = if is_active(agent) {
        // "step 0: setWeight 25: <why>", "all steps completed, <why>", "promoting: <why>", "rolling back: <reason>".
        match message.split_once(": ") {
            Some((step, rest)) if step.starts_with("step ") => rest.split_once(": ").map(|(_, why)| why),
            Some(("promoting", why)) => Some(why),
            Some(("rolling back", reason)) => Some(reason),
            _ => Some(message.strip_prefix("all steps completed, ").unwrap_or(&message)),
        }
    } else if record.last.is_some() {
        message.split_once("; ").map(|(_, why)| why)
    } else {
        Some(message.as_str())
    };
    waits.filter(|why| !why.is_empty()).map(str::to_owned)
}

/// When time alone changes something: the end of a pause, or of the wait after a rollback.
fn waiting_until(agent: &Object, record: &Record, steps: &[StepView]) -> Option<Timestamp> {
    if !is_active(agent) {
        return record.cooldown_until.filter(|_| agent.at("/spec/rollout/candidate").is_some());
    }
    let current = steps.iter().find(|step| step.state == StepState::Current)?;
    let spec = AgentRuntime::read(agent).ok()?.rollout?;
    match spec.steps.get(usize::try_from(current.step).ok()?.checked_sub(1)?)? {
        Step::Pause(Pause::For(duration)) => current.entered_at?.checked_add(*duration).ok(),
        Step::Pause(Pause::Indefinite) | Step::SetWeight(_) | Step::Analysis { .. } => None,
    }
}

fn step_text(step: &Step) -> String {
    match step {
        Step::SetWeight(weight) => format!("setWeight {weight}"),
        Step::Pause(Pause::For(duration)) => format!("pause {}", render_duration(*duration)),
        Step::Pause(Pause::Indefinite) => "pause until resumed".to_owned(),
        Step::Analysis { template, .. } => format!("analysis {template}"),
    }
}

/// The steps of the rollout in flight. The status knows when the first and the present one were entered; the times between
/// are on the status branch.
fn steps(agent: &Object) -> Vec<StepView> {
    if !is_active(agent) {
        return Vec::new();
    }
    let steps = AgentRuntime::read(agent).ok().and_then(|spec| spec.rollout).map(|rollout| rollout.steps);
    let current = agent.integer("/status/rollout/currentStep").and_then(|step| usize::try_from(step).ok());
    let started = time(agent, "/status/rollout/startedAt");
    let entered = time(agent, "/status/rollout/stepStartedAt");
    let steps = steps.unwrap_or_default();
    let view = |(index, step): (usize, &Step)| {
        let state = match current {
            Some(current) if index < current => StepState::Done,
            Some(current) if index == current => StepState::Current,
            // Without a step it turns back: what was entered is over.
            _ => StepState::Pending,
        };
        StepView {
            step: u32::try_from(index + 1).unwrap_or(u32::MAX),
            what: step_text(step),
            state,
            entered_at: match state {
                StepState::Done => started.filter(|_| index == 0),
                StepState::Current => entered,
                StepState::Pending => None,
            },
            completed_at: match state {
                StepState::Done => entered.filter(|_| Some(index + 1) == current),
                StepState::Current | StepState::Pending => None,
            },
        }
    };
    steps.iter().enumerate().map(view).collect()
}

fn warnings(agent: &Object, conditions: &[ConditionStatus]) -> Vec<String> {
    let observed = agent.integer("/status/observedGeneration").unwrap_or(0);
    let stale = (observed < agent.generation()).then(|| {
        format!(
            "the status is about generation {observed} and the object is at {}: Serin has not looked at it yet",
            agent.generation()
        )
    });
    stale.into_iter().chain(warnings_of_conditions(conditions)).collect()
}

fn warnings_of_conditions(conditions: &[ConditionStatus]) -> Vec<String> {
    let is_bad = |condition: &&ConditionStatus| match condition.kind.as_str() {
        "RolloutActive" => ["InvalidSpec", "ProgressDeadlineExceeded"].contains(&condition.reason.as_str()),
        _ => condition.status == "False",
    };
    conditions.iter().filter(is_bad).map(|bad| format!("{}: {}", bad.reason, bad.message)).collect()
}
