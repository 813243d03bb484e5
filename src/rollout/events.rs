//! Facts as Kubernetes events (reference 2.6).
//!
//! Events are for people who look at the cluster with kubectl: that a promotion has begun, and how a rollout has ended. Each
//! is a write to etcd, so its start and its steps, for which the reference operator has `RolloutStep`, are told where they
//! cost nothing more: status, log, metrics, status branch.

use crate::cluster::{EventRecord, Severity};
use crate::object::ObjectKey;
use crate::rollout::scene::Scene;
use crate::rollout::verdict::{Effect, Fact};

/// The event that tells about a fact, if one does.
pub(crate) fn event(scene: &Scene<'_>, fact: &Fact) -> Option<Effect> {
    let (severity, reason, message) = match fact {
        Fact::Started { .. } | Fact::StepCompleted { .. } => return None,
        Fact::PromotionStarted { .. } => {
            (Severity::Normal, "RolloutPromoting", "the candidate serves while stable rolls to it".to_owned())
        }
        Fact::Promoted { rollout, title } => {
            (Severity::Normal, "RolloutPromoted", format!("rollout {rollout} of {title} is promoted"))
        }
        Fact::RolledBack { rollout, title, reason } => {
            (Severity::Warning, "RolloutRolledBack", format!("rollout {rollout} of {title} is rolled back: {reason}"))
        }
    };
    Some(Effect::Event(Box::new(EventRecord {
        about: ObjectKey::agent(scene.key),
        uid: scene.uid.clone(),
        severity,
        reason,
        message,
    })))
}
