//! What the engine answers: effects as data, when to look again, and the report that status, CLI and log render.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::{Apply, EventRecord, MergePatch};
use crate::ids::{RolloutId, Uid, Weight};
use crate::object::ObjectKey;
use crate::rollout::decision::{Decision, RollbackReason};

/// One answer. Performing the effects in order and evaluating again leads to a fixpoint without effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to do, in this order; after a failure the rest is not done, and the next pass starts afresh. Only an
    /// [`Effect::Event`] has a time of its own.
    pub effects: Vec<Effect>,
    /// The decision that is due as a commit on the config branch: a level, given as long as it is due. Its absence takes
    /// back one that is not pushed yet.
    pub decision: Option<Decision>,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
    /// How things stand, for people and metrics.
    pub report: Report,
}

/// How long an effect that may wait does so at most: people who look at numbers do not miss them for as long, pods come
/// within it most of the time, and a rollout that waits for it at each step is not noticeably longer.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

/// Something to do. Every effect is a level, safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Apply an object, or the status of the agent.
    Apply(Box<Apply>),
    /// The same, and it may wait for up to [`PATIENCE`]: what comes meanwhile most likely changes it once more, and nothing
    /// but people depends on it. Each write that is spared so is one that would be overwritten at once.
    Defer(Box<Apply>),
    /// Delete exactly this object.
    Delete(ObjectKey, Uid),
    /// Decide on an agent that somebody applied by hand.
    Patch(Box<MergePatch>),
    /// Tell people. It stands directly behind the write that makes it true, and no later pass gives it again. It is a
    /// request, and pods do not wait for it: it is made after everything else, and also where that has failed.
    Event(Box<EventRecord>),
    /// Count it. It stands directly behind the write that makes it true, and no later pass gives it again.
    Fact(Fact),
}

impl Effect {
    /// The same, where it may wait.
    pub(crate) fn deferred(self) -> Self {
        match self {
            Self::Apply(apply) => Self::Defer(apply),
            other => other,
        }
    }
}

/// Something that happened, for log, metrics and history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A rollout started.
    Started {
        /// Which.
        rollout: RolloutId,
        /// Of what.
        title: String,
    },
    /// A step is done.
    StepCompleted {
        /// Of which rollout.
        rollout: RolloutId,
        /// Its index.
        step: usize,
        /// `setWeight`, `pause` or `analysis`.
        step_type: &'static str,
        /// What it said.
        text: String,
        /// How long it took.
        took: SignedDuration,
        /// The weight that was asked for during it.
        weight: Weight,
    },
    /// The spec has become the candidate; stable rolls to it.
    PromotionStarted {
        /// Which rollout.
        rollout: RolloutId,
    },
    /// A rollout ended with the candidate as the new stable.
    Promoted {
        /// Which.
        rollout: RolloutId,
        /// Of what.
        title: String,
    },
    /// A rollout turned back.
    RolledBack {
        /// Which.
        rollout: RolloutId,
        /// Of what.
        title: String,
        /// Why.
        reason: RollbackReason,
    },
}

/// How an agent stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In which phase.
    pub phase: Phase,
    /// The rollout in flight.
    pub rollout: Option<RolloutId>,
    /// The step to run, and how many there are.
    pub step: Option<(usize, usize)>,
    /// The weight that the steps ask for.
    pub requested: Weight,
    /// The weight that available pods deliver.
    pub delivered: Weight,
    /// The version that stable runs.
    pub stable_version: String,
    /// The version on trial.
    pub candidate_version: String,
    /// One sentence: what is going on, and what it waits for.
    pub message: String,
    /// What it waits for, in words; `None`: nothing but time.
    pub waiting_for: Option<String>,
}

/// The phases, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No rollout.
    Idle,
    /// A rollout goes through its steps.
    Stepping,
    /// All steps are done; the decision is on its way to git.
    AwaitingPromotion,
    /// Stable rolls to the candidate.
    Promoting,
    /// Traffic and pods go back to stable.
    RollingBack,
    /// The spec cannot be used; nothing moves.
    Invalid,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "Idle",
            Self::Stepping => "Stepping",
            Self::AwaitingPromotion => "AwaitingPromotion",
            Self::Promoting => "Promoting",
            Self::RollingBack => "RollingBack",
            Self::Invalid => "Invalid",
        })
    }
}
