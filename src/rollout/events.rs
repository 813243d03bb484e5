//! Facts as Kubernetes events (reference 2.6).
//!
//! Events are for people who look at the cluster with kubectl: that a rollout has begun, and how it has ended. Each is a write
//! to etcd, so the steps between are told where they cost nothing more: status, log, metrics, status branch.

use crate::cluster::{EventRecord, Severity};
use crate::object::ObjectKey;
use crate::rollout::scene::Scene;
use crate::rollout::verdict::{Effect, Fact};

/// The event that tells about a fact, if one does.
pub(crate) fn event(scene: &Scene<'_>, fact: &Fact) -> Option<Effect> {
    let (severity, reason, message) = match fact {
        Fact::Started { rollout, title } => {
            (Severity::Normal, "RolloutStarted", format!("rollout {rollout} of {title} started"))
        }
        Fact::StepCompleted { .. } | Fact::PromotionStarted { .. } => return None,
        Fact::Promoted { rollout, title } => {
            (Severity::Normal, "RolloutPromoted", format!("rollout {rollout} of {title} is promoted"))
        }
        Fact::RolledBack { rollout, title, reason } => {
            (Severity::Warning, "RolloutRolledBack", format!("rollout {rollout} of {title} is rolled back: {reason}"))
        }
    };
    Some(Effect::Event(Box::new(EventRecord {
        about: ObjectKey::agent(&scene.key),
        uid: scene.uid.clone(),
        severity,
        reason,
        message,
    })))
}
