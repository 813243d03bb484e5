//! What is remembered about agents for people: how each stands, and the history of its rollout.
//!
//! Nothing here decides anything: it may be lost at any time. Agents' series, log lines and the status branch come from it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::duration::render_duration;
use crate::cluster::ClusterError;
use crate::ids::{AgentKey, CommitSha, RolloutId, SourceName};
use crate::manifest::Desired;
use crate::object::{Object, ObjectKey};
use crate::reconcile::source::{Loaded, Source};
use crate::reconcile::sync::REFUSED_RETRY;
use crate::reconcile::{Core, Key, after};
use crate::rollout::verdict::PATIENCE;
use crate::rollout::{Decision, Fact, Phase, Record, Refused, Report, RollbackReason, SYNCED, Verdict};
use crate::telemetry::{StepType, event};
use crate::writeback::status_branch::{
    AgentStatus, ConditionStatus, HistoryEvent, LastOutcome, RejectedCandidate, RolloutHistory, StepHistory,
    StepPosition,
};

/// The phase of an agent without a rollout.
const IDLE: &str = "idle";

/// What is asked of the server about an object. Who may do the one may perhaps not do the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asked {
    /// To take it as it is now.
    Apply,
    /// To delete it.
    Delete,
}

/// What is remembered about one agent.
#[derive(Default)]
pub(super) struct AgentMemory {
    /// Whether its next move depends on git.
    pub(super) waits_for_git: bool,
    /// Since when there is something to do that may wait.
    deferred_since: Option<Timestamp>,
    pub(super) source: Option<SourceName>,
    report: Option<Report>,
    pub(super) status: Option<AgentStatus>,
    pub(super) history: Option<RolloutHistory>,
    /// Whether the status branch is to be told.
    pub(super) is_unpublished: bool,
    /// Whether the history began before this process did.
    pub(super) is_partial: bool,
    /// What the server refused about objects: its words, and when to try again.
    refused: BTreeMap<(ObjectKey, Asked), (String, Timestamp)>,
    /// The commits of its decisions, by rollout; the last few.
    pub(super) commits: Vec<(RolloutId, CommitSha)>,
}

impl AgentMemory {
    /// Whether its status says that it is not what git says.
    fn shows_trouble(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.conditions.iter().any(|condition| condition.kind == SYNCED))
    }
}

impl Core {
    /// The agents that look again at a new commit, whether or not their own manifest has changed: those that wait for
    /// something in git, those whose manifest cannot be used or may be in a file that cannot be read, and those that say so.
    pub(super) fn agents_to_tell(&self, source: &SourceName, loaded: &Loaded) -> Vec<AgentKey> {
        let Desired { held, .. } = &loaded.desired;
        let (has_held, may_hide) = (!held.is_empty(), !loaded.desired.allows_pruning());
        let is_told = |agent: &AgentKey, memory: &AgentMemory| {
            memory.shows_trouble()
                || memory.waits_for_git && loaded.holds(agent)
                || has_held && held.contains(&ObjectKey::agent(agent))
                || may_hide && memory.source.as_ref() == Some(source) && !loaded.holds(agent)
        };
        self.agents().iter().filter(|(agent, memory)| is_told(agent, memory)).map(|(agent, _)| agent.clone()).collect()
    }

    /// Until when what may wait does so; `None`: it has waited long enough, or there is no such thing.
    pub(super) fn deferred_until(&self, agent: &AgentKey, may_wait: bool) -> Option<Timestamp> {
        let now = self.clock.now();
        let mut agents = self.agents();
        let memory = agents.entry(agent.clone()).or_default();
        if !may_wait {
            memory.deferred_since = None;
            return None;
        }
        // A clock that was set back must not make it wait for long.
        let since = (*memory.deferred_since.get_or_insert(now)).min(now);
        let due = since.saturating_add(PATIENCE).unwrap_or(now);
        if due > now {
            return Some(due);
        }
        memory.deferred_since = None;
        None
    }

    /// Takes in how an agent stands after a pass. Gives back when which status branch is due.
    pub(super) fn remember(
        &self,
        agent: &AgentKey,
        source: Option<&Source>,
        config_commit: Option<&CommitSha>,
        live: &Object,
        verdict: &Verdict,
    ) -> Vec<(Key, Timestamp)> {
        let mut agents = self.agents();
        let memory = agents.entry(agent.clone()).or_default();
        let name = source.map(|source| &source.options.name);
        // The status branch of a source that an agent was taken over from says nothing about it any more.
        let is_elsewhere = memory.source.as_ref() != name;
        let left = memory.source.take().filter(|before| Some(before) != name);
        memory.waits_for_git = verdict.decision.is_some();
        memory.source = source.map(|source| source.options.name.clone());
        self.tell_transitions(agent, memory.report.as_ref(), verdict);
        memory.report = Some(verdict.report.clone());
        let status = agent_status(agent, config_commit, live, verdict, memory);
        // What was found before its source was read is still to be told there.
        let is_news = is_elsewhere || memory.status.as_ref() != Some(&status);
        memory.status = Some(status);
        memory.is_unpublished |= is_news;
        drop(agents);
        let mut due = Vec::new();
        if let Some(left) = left {
            // On a page that both are on, it stays where it is.
            if name.is_none_or(|name| self.page_of(name) != self.page_of(&left)) {
                self.note_left(&left, agent);
                due.push((Key::Status(left), self.clock.now()));
            }
        }
        due.extend(source.filter(|_| is_news).and_then(|source| self.status_due(source)));
        due
    }

    /// Whether a rollout of the agent was under way when it was last looked at.
    pub fn is_in_flight(&self, agent: &AgentKey) -> bool {
        let agents = self.agents();
        let report = agents.get(agent).and_then(|memory| memory.report.as_ref());
        report.is_some_and(|report| report.rollout.is_some())
    }

    /// The agent is gone.
    pub(super) fn forget(&self, agent: &AgentKey) -> Option<(Key, Timestamp)> {
        self.forget_references(agent);
        self.memos.forget(agent);
        let memory = self.agents().remove(agent)?;
        event::AgentForgotten { agent }.emit(&self.metrics);
        let source = memory.source?;
        self.note_left(&source, agent);
        Some((Key::Status(source), self.clock.now()))
    }

    fn tell_transitions(&self, agent: &AgentKey, before: Option<&Report>, verdict: &Verdict) {
        let report = &verdict.report;
        let Some(rollout) = &report.rollout else {
            if before.is_none_or(|before| before.rollout.is_some()) {
                event::RolloutIdle { agent }.emit(&self.metrics);
            }
            if !report.message.is_empty() && before.is_none_or(|before| before.message != report.message) {
                event::RolloutHeld { agent, message: &report.message }.emit(&self.metrics);
            }
            return;
        };
        if let Some((step, steps)) = report.step
            && before.and_then(|before| before.step) != report.step
            && report.phase == Phase::Stepping
        {
            event::StepEntered { agent, rollout, step, steps, title: &report.message }.emit(&self.metrics);
        }
        if before.is_none_or(|before| (before.delivered, before.requested) != (report.delivered, report.requested)) {
            let (delivered, requested) = (report.delivered, report.requested);
            event::WeightDelivered { agent, rollout, delivered, requested }.emit(&self.metrics);
        }
        if report.phase == Phase::AwaitingPromotion
            && verdict.decision.is_some()
            && before.is_none_or(|before| before.phase != Phase::AwaitingPromotion)
        {
            event::PromotionDecided { agent, rollout, candidate: &report.candidate_version }.emit(&self.metrics);
        }
        if before.is_none_or(|before| before.message != report.message) {
            event::RolloutWaiting { agent, rollout, message: &report.message }.emit(&self.metrics);
        }
    }

    /// Counts and logs a fact, and puts it into the history of its rollout.
    pub(super) fn tell(&self, agent: &AgentKey, fact: &Fact, config_commit: Option<&CommitSha>, report: &Report) {
        let now = self.clock.now();
        match fact {
            Fact::Started { rollout, title } => {
                event::RolloutStarted { agent, rollout, candidate: title, stable: &report.stable_version }
                    .emit(&self.metrics);
            }
            Fact::StepCompleted { rollout, step, step_type, took, .. } => {
                let Some(step_type) = StepType::ALL.into_iter().find(|known| known.as_str() == *step_type) else {
                    return;
                };
                let took = took.unsigned_abs();
                event::StepCompleted { agent, rollout, step: *step, step_type, took }.emit(&self.metrics);
            }
            Fact::PromotionStarted { .. } => {}
            Fact::Promoted { rollout, title } => {
                event::RolloutPromoted { agent, rollout, candidate: title }.emit(&self.metrics);
            }
            Fact::RolledBack { rollout, title, reason } => {
                event::RolledBack { agent, rollout, candidate: title, reason: *reason }.emit(&self.metrics);
            }
        }
        write_history(self.agents().entry(agent.clone()).or_default(), agent, fact, config_commit, report, now);
    }

    /// Remembers which commit says a decision.
    pub(super) fn note_commit(&self, decision: &Decision, commit: &CommitSha) {
        let mut agents = self.agents();
        let memory = agents.entry(decision.agent.clone()).or_default();
        memory.commits.retain(|(rollout, _)| *rollout != decision.rollout);
        memory.commits.push((decision.rollout.clone(), commit.clone()));
        let surplus = memory.commits.len().saturating_sub(4);
        memory.commits.drain(..surplus);
        if let Some(history) = memory.history.as_mut().filter(|history| history.rollout == decision.rollout) {
            history.decision_commit = Some(commit.clone());
            memory.is_unpublished = true;
        }
    }

    /// Remembers that the server refuses a write. Gives back whom to wake, where that is news.
    pub(super) fn note_refused(
        &self,
        agent: &AgentKey,
        write: Option<(ObjectKey, Asked)>,
        error: &ClusterError,
    ) -> Option<Key> {
        let retry = after(self.clock.now(), REFUSED_RETRY);
        let why = error.to_string();
        let before = self.agents().entry(agent.clone()).or_default().refused.insert(write?, (why.clone(), retry));
        let is_news = before.is_none_or(|(before, _)| before != why);
        is_news.then(|| {
            event::WorkloadRefused { agent, why: &why }.emit(&self.metrics);
            Key::Agent(agent.clone())
        })
    }

    /// The server has taken a write. Gives back whom to wake, where it had refused it before.
    pub(super) fn note_accepted(&self, agent: &AgentKey, write: Option<(ObjectKey, Asked)>) -> Option<Key> {
        self.agents().get_mut(agent)?.refused.remove(&write?).map(|_| Key::Agent(agent.clone()))
    }

    /// When the next refused object is tried again. One whose time has come and that nobody wanted any more is forgotten.
    pub(super) fn refusal_retry(&self, agent: &AgentKey) -> Option<(Key, Timestamp)> {
        let now = self.clock.now();
        let mut agents = self.agents();
        let refused = &mut agents.get_mut(agent)?.refused;
        refused.retain(|_, (_, at)| *at > now);
        let at = refused.values().map(|(_, at)| *at).min()?.min(after(now, REFUSED_RETRY));
        Some((Key::Agent(agent.clone()), at))
    }

    /// The objects about which the server refuses what is asked.
    pub(super) fn refused(&self, agent: &AgentKey, asked: Asked) -> BTreeMap<ObjectKey, Refused> {
        let now = self.clock.now();
        let agents = self.agents();
        let Some(memory) = agents.get(agent) else { return BTreeMap::new() };
        // A time that is farther away than it can be is one of before the clock was set back.
        let is_due = |at: Timestamp| at <= now || at > after(now, REFUSED_RETRY);
        let refused = |(why, at): &(String, Timestamp)| Refused { why: why.clone(), is_due: is_due(*at) };
        let of_it = memory.refused.iter().filter(|((_, other), _)| *other == asked);
        of_it.map(|((key, _), entry)| (key.clone(), refused(entry))).collect()
    }

    /// The course of the rollout that is remembered of an agent, a line each.
    pub(super) fn story(&self, agent: &AgentKey) -> Vec<String> {
        let agents = self.agents();
        let Some(history) = agents.get(agent).and_then(|memory| memory.history.as_ref()) else { return Vec::new() };
        history
            .steps
            .iter()
            .map(|step| {
                let took = step
                    .completed_at
                    .map(|done| render_duration(done.duration_since(step.entered_at)))
                    .unwrap_or_default();
                let StepPosition { number, of } = step.position;
                let (what, delivered) = (&step.what, step.delivered_weight);
                format!("Step {number} of {of}: {what}, done after {took} with {delivered} % delivered.")
            })
            .collect()
    }
}

/// The commit that says the decision about a rollout.
pub(super) fn commit_of(commits: &[(RolloutId, CommitSha)], rollout: &RolloutId) -> Option<CommitSha> {
    commits.iter().find(|(known, _)| known == rollout).map(|(_, commit)| commit.clone())
}

fn time(live: &Object, pointer: &str) -> Option<Timestamp> {
    live.text(pointer).and_then(|text| text.parse().ok())
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// What the status branch says about an agent.
fn agent_status(
    agent: &AgentKey,
    config_commit: Option<&CommitSha>,
    live: &Object,
    verdict: &Verdict,
    memory: &AgentMemory,
) -> AgentStatus {
    let report = &verdict.report;
    let record = Record::read(live);
    let is_active = report.rollout.is_some();
    AgentStatus {
        agent: agent.clone(),
        // A commit that says nothing new about an agent that rests is no news about it.
        config_commit: config_commit.cloned().filter(|_| is_active).or_else(|| {
            let before = memory.status.as_ref().filter(|before| before.phase == IDLE)?.config_commit.clone();
            before.or_else(|| config_commit.cloned())
        }),
        phase: match report.phase {
            Phase::Idle => IDLE.to_owned(),
            Phase::Stepping => "stepping".to_owned(),
            Phase::AwaitingPromotion => "awaiting promotion".to_owned(),
            Phase::Promoting => "promoting".to_owned(),
            Phase::RollingBack => "rolling back".to_owned(),
            Phase::Invalid => "invalid".to_owned(),
        },
        rollout: report.rollout.clone(),
        step: report.step.map(|(step, of)| position(step, of)),
        requested_weight: is_active.then_some(report.requested),
        delivered_weight: is_active.then_some(report.delivered),
        stable_version: some_text(&report.stable_version),
        candidate_version: some_text(&report.candidate_version),
        started_at: time(live, "/status/rollout/startedAt"),
        step_started_at: time(live, "/status/rollout/stepStartedAt"),
        waiting_for: report.waiting_for.clone(),
        conditions: ConditionStatus::all_of(live),
        last_outcome: record.last.as_ref().map(|last| LastOutcome {
            rollout: last.rollout.clone(),
            outcome: if last.rolled_back.is_some() { "rolled-back" } else { "promoted" }.to_owned(),
            reason: last.rolled_back.map(|reason| reason.to_string()),
            candidate: last.title.clone(),
            at: last.at,
            decision_commit: commit_of(&memory.commits, &last.rollout),
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

/// People count steps from 1.
fn position(step: usize, of: usize) -> StepPosition {
    let of = u32::try_from(of).unwrap_or(u32::MAX);
    StepPosition { number: u32::try_from(step + 1).unwrap_or(u32::MAX).min(of), of }
}

fn write_history(
    memory: &mut AgentMemory,
    agent: &AgentKey,
    fact: &Fact,
    config_commit: Option<&CommitSha>,
    report: &Report,
    now: Timestamp,
) {
    let (Fact::Started { rollout, .. }
    | Fact::StepCompleted { rollout, .. }
    | Fact::PromotionStarted { rollout }
    | Fact::Promoted { rollout, .. }
    | Fact::RolledBack { rollout, .. }) = fact;
    if memory.history.as_ref().is_none_or(|history| history.rollout != *rollout) {
        memory.is_partial = !matches!(fact, Fact::Started { .. });
        memory.history = Some(RolloutHistory {
            agent: agent.clone(),
            rollout: rollout.clone(),
            candidate: match fact {
                Fact::Started { title, .. } | Fact::Promoted { title, .. } | Fact::RolledBack { title, .. } => {
                    title.clone()
                }
                Fact::StepCompleted { .. } | Fact::PromotionStarted { .. } => report.candidate_version.clone(),
            },
            candidate_digest: None,
            config_commit: config_commit.cloned(),
            stable_version: some_text(&report.stable_version),
            candidate_version: some_text(&report.candidate_version),
            started_at: now,
            ended_at: None,
            steps: Vec::new(),
            outcome: None,
            reason: None,
            decision_commit: None,
            events: Vec::new(),
        });
    }
    let decision_commit = commit_of(&memory.commits, rollout);
    memory.is_unpublished = true;
    let Some(history) = &mut memory.history else { return };
    let mut happened = |reason: &str, message: String| {
        history.events.push(HistoryEvent { at: now, reason: reason.to_owned(), message });
    };
    match fact {
        Fact::Started { title, .. } => happened("RolloutStarted", format!("the rollout of {title} started")),
        Fact::StepCompleted { step, text, took, weight, .. } => {
            happened("RolloutStep", format!("{text} completed"));
            history.steps.push(StepHistory {
                position: position(*step, report.step.map_or(0, |(_, of)| of)),
                what: text.clone(),
                entered_at: now.saturating_sub(*took).unwrap_or(now),
                completed_at: Some(now),
                requested_weight: *weight,
                delivered_weight: report.delivered,
            });
        }
        Fact::PromotionStarted { .. } => happened("RolloutPromoting", "stable rolls to the new version".to_owned()),
        Fact::Promoted { .. } => {
            happened("RolloutPromoted", "promoted".to_owned());
            history.outcome = Some("promoted".to_owned());
            history.ended_at = Some(now);
            history.decision_commit = decision_commit;
        }
        Fact::RolledBack { reason, .. } => {
            happened("RolloutRolledBack", format!("rolled back: {reason}"));
            history.outcome = Some("rolled-back".to_owned());
            history.reason = Some(reason.to_string());
            history.ended_at = Some(now);
            if *reason == RollbackReason::PodUnhealthy {
                history.decision_commit = decision_commit;
            }
        }
    }
}
