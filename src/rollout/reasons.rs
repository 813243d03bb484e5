//! Why a rollout waits and why a candidate is held: each reason once, with its sentence.
//!
//! The same values feed status, events, log and status branch. No sentence holds a time that is left or a number of pods
//! that come one by one, so that waiting costs no writes.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::api::duration::render_duration;
use crate::api::names;
use crate::ids::RolloutId;
use crate::rollout::decision::RollbackReason;

/// What a rollout waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For pods of the candidate.
    CandidatePods { needed: u32 },
    /// As above, too long already, and nobody may roll back but a person.
    CandidatePodsOverdue { needed: u32, deadline: SignedDuration },
    /// For pods of stable to go.
    StablePods { left: u32 },
    /// For the watch of Deployments to work again: what is known of the pods is old.
    Deployments,
    /// For a person.
    Resume { token: String },
    /// The candidate has no pods at this weight, so nothing was tried.
    NothingTried,
    /// Something in the spec cannot be followed.
    Unsupported(String),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CandidatePods { needed } => write!(f, "waiting for {} of the candidate", pods(*needed)),
            Self::CandidatePodsOverdue { needed, deadline } => write!(
                f,
                "the candidate has not got {} within {}; rollback.mode is not automatic, so it stays: remove the candidate \
                 to roll back",
                pods(*needed),
                render_duration(*deadline)
            ),
            Self::StablePods { left } => write!(f, "waiting for stable to come down to {}", pods(*left)),
            Self::Deployments => f.write_str(
                "waiting for the watch of Deployments, which does not work: what has become of the pods is not known",
            ),
            Self::Resume { token } => write!(f, "to go on, set the annotation {} to {token}", names::RESUME_ANNOTATION),
            Self::NothingTried => f.write_str(
                "not promoted, because the candidate has no pods at this weight and nothing was tried: end the steps with \
                 a larger weight",
            ),
            Self::Unsupported(why) => f.write_str(why),
        }
    }
}

/// A number of available pods, in words.
pub(crate) fn pods(count: u32) -> String {
    if count == 1 { "1 available pod".to_owned() } else { format!("{count} available pods") }
}

/// Why a candidate that differs does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It was rolled back before.
    Rejected { rollout: RolloutId, title: String, reason: RollbackReason },
    /// A rollback was too short a time ago.
    Cooldown { until: Timestamp },
    /// Stable was never healthy yet.
    FirstDeployment,
    /// Something that it names is not there.
    Unresolved(String),
    /// A name that it needs is somebody else's.
    NameTaken(String),
    /// The spec asks for something that this version cannot do.
    Unsupported(String),
    /// The live spec is not what git says.
    NotSynced,
    /// Pods of an earlier candidate are still there.
    Leftover,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { rollout, title, reason } => write!(
                f,
                "{title} was rolled back by {rollout} ({reason}) and does not start again until somebody changes it or \
                 reverts the rollback commit"
            ),
            Self::Cooldown { until } => write!(f, "cooling down after a rollback until {until:.0}"),
            Self::FirstDeployment => {
                f.write_str("the first deployment is not a canary: waiting for stable to be healthy")
            }
            Self::Unresolved(why) => write!(f, "the candidate does not start: {why}"),
            Self::NameTaken(why) => write!(f, "the candidate does not start: {why}"),
            Self::Unsupported(why) => write!(f, "the candidate does not start: {why}"),
            Self::NotSynced => {
                f.write_str("the candidate does not start: the object in the cluster is not yet what git says")
            }
            Self::Leftover => f.write_str("waiting for the pods of an earlier candidate to go"),
        }
    }
}
