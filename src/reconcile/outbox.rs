//! The decisions that are on their way to the branch of a source, and how far each of them is.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::ids::{AgentKey, CommitSha};
use crate::rollout::{Decision, Publish};

/// Whether a decision could be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retraction {
    /// There is none any more.
    Done,
    /// It is being pushed.
    TooLate,
}

/// The decisions on their way to a branch, by agent: the last one of each.
#[derive(Default)]
pub(crate) struct Outbox(BTreeMap<AgentKey, Posted>);

/// A decision on its way to the branch.
#[derive(Clone)]
struct Posted {
    decision: Decision,
    state: PostState,
    /// When the server refused it although it was pushed alone: it is not to hold up the others.
    refused_at: Option<Timestamp>,
}

#[derive(Clone)]
enum PostState {
    /// To be written; the text says why it is not yet, empty before the first try.
    Pending(String),
    /// Being pushed, or pushed without an answer; the text says why there is none. Only a look at the remote can tell.
    Pushing(String),
    /// Cannot be written at this commit.
    Blocked { at: CommitSha, why: String },
    /// Did not apply to the manifest at this commit any more. If the engine decides the same again with that commit
    /// before it, something is wrong, and trying again and again would not mend it.
    Void { at: CommitSha, why: String },
}

impl Outbox {
    /// Takes a decision, where the branch ends in `tip`. One that is there already stays as it is. Says whether there is
    /// something new to publish: what is there already has a publication under way, or a time for the next try.
    #[must_use]
    pub(crate) fn post(&mut self, decision: &Decision, tip: Option<&CommitSha>) -> bool {
        if let Some(posted) = self.0.get_mut(&decision.agent) {
            let is_same = posted.decision == *decision;
            match &posted.state {
                PostState::Pushing(_) => return false,
                PostState::Void { at, why } if is_same && tip == Some(at) => {
                    posted.state = PostState::Blocked { at: at.clone(), why: why.clone() };
                    return false;
                }
                PostState::Pending(_) | PostState::Blocked { .. } if is_same => return false,
                PostState::Pending(_) | PostState::Blocked { .. } | PostState::Void { .. } => {}
            }
        }
        let posted = Posted { decision: decision.clone(), state: PostState::Pending(String::new()), refused_at: None };
        self.0.insert(decision.agent.clone(), posted);
        true
    }

    /// Takes back the decision about an agent, unless it is being pushed: then the answer of git comes first.
    pub(crate) fn retract(&mut self, agent: &AgentKey) -> Retraction {
        match self.0.get(agent).map(|posted| &posted.state) {
            Some(PostState::Pushing(_)) => Retraction::TooLate,
            Some(PostState::Pending(_) | PostState::Blocked { .. }) => {
                self.0.remove(agent);
                Retraction::Done
            }
            Some(PostState::Void { .. }) | None => Retraction::Done,
        }
    }

    /// What became of the decision about an agent that was posted last.
    pub(crate) fn publish_state(&self, agent: &AgentKey) -> Publish {
        let Some(posted) = self.0.get(agent) else { return Publish::Idle };
        let rollout = posted.decision.rollout.clone();
        match &posted.state {
            PostState::Pending(why) => Publish::Pending { rollout, why: why.clone() },
            PostState::Pushing(why) => Publish::Pushing { rollout, why: why.clone() },
            PostState::Blocked { why, .. } => Publish::Blocked { rollout, why: why.clone() },
            PostState::Void { .. } => Publish::Idle,
        }
    }

    /// The decisions that are to be written on top of `tip`, by agent, each with the time when the server refused it alone.
    /// What was blocked at another commit is tried again.
    pub(crate) fn pending(&mut self, tip: &CommitSha) -> Vec<(Decision, Option<Timestamp>)> {
        for posted in self.0.values_mut() {
            if matches!(&posted.state, PostState::Blocked { at, .. } if at != tip) {
                posted.state = PostState::Pending(String::new());
            }
        }
        let is_open = |posted: &&Posted| matches!(posted.state, PostState::Pending(_) | PostState::Pushing(_));
        self.0.values().filter(is_open).map(|posted| (posted.decision.clone(), posted.refused_at)).collect()
    }

    /// Those of `decisions` that nobody has taken back meanwhile; from now on nobody can.
    pub(crate) fn begin_push(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        let mut kept = Vec::new();
        for decision in decisions {
            if let Some(posted) = self.0.get_mut(&decision.agent)
                && posted.decision == decision
            {
                // What was the matter before is the last that is known until there is an answer.
                let why = match &posted.state {
                    PostState::Pending(why) | PostState::Pushing(why) => why.clone(),
                    PostState::Blocked { .. } | PostState::Void { .. } => String::new(),
                };
                posted.state = PostState::Pushing(why);
                kept.push(decision);
            }
        }
        kept
    }

    /// Whether any decision is still to reach the branch.
    pub(crate) fn has_decisions(&self) -> bool {
        self.0.values().any(|posted| !matches!(posted.state, PostState::Void { .. }))
    }

    /// The agents that have one.
    pub(crate) fn decided_agents(&self) -> Vec<AgentKey> {
        self.0.keys().cloned().collect()
    }

    /// The decision is in git, or git says so without it.
    pub(crate) fn settle(&mut self, decision: &Decision) {
        if self.0.get(&decision.agent).is_some_and(|posted| posted.decision == *decision) {
            self.0.remove(&decision.agent);
        }
    }

    /// Nothing of these reached the branch: they wait.
    pub(crate) fn delay(&mut self, decisions: &[Decision], why: &str) {
        for decision in decisions {
            self.mark(decision, PostState::Pending(why.to_owned()));
        }
    }

    /// The server does not take this decision, whatever else is in the push.
    pub(crate) fn refuse(&mut self, decision: &Decision, why: &str, now: Timestamp) {
        self.mark(decision, PostState::Pending(why.to_owned()));
        if let Some(posted) = self.0.get_mut(&decision.agent) {
            posted.refused_at = Some(now);
        }
    }

    /// Nobody can say whether these have reached the branch.
    pub(crate) fn doubt(&mut self, decisions: &[Decision], why: &str) {
        for decision in decisions {
            self.mark(decision, PostState::Pushing(why.to_owned()));
        }
    }

    /// The remote does not answer: what waits, waits for that. What was being pushed stays in doubt.
    pub(crate) fn delay_pending(&mut self, why: &str) {
        for posted in self.0.values_mut() {
            if let PostState::Pending(text) | PostState::Pushing(text) = &mut posted.state {
                why.clone_into(text);
            }
        }
    }

    /// The decision cannot be written at `at`.
    pub(crate) fn block(&mut self, decision: &Decision, at: &CommitSha, why: String) {
        self.mark(decision, PostState::Blocked { at: at.clone(), why });
    }

    /// The decision does not apply to the manifest at `at`.
    pub(crate) fn void(&mut self, decision: &Decision, at: &CommitSha, why: String) {
        self.mark(decision, PostState::Void { at: at.clone(), why });
    }

    fn mark(&mut self, decision: &Decision, to: PostState) {
        if let Some(posted) = self.0.get_mut(&decision.agent)
            && posted.decision == *decision
        {
            posted.state = to;
        }
    }
}
