//! Facts as Kubernetes events (reference 2.6).

use crate::cluster::{EventRecord, Severity};
use crate::object::ObjectKey;
use crate::rollout::scene::Scene;
use crate::rollout::verdict::{Effect, Fact};

/// The event that tells about a fact.
pub(crate) fn event(scene: &Scene<'_>, fact: &Fact) -> Effect {
    let (severity, reason, message) = match fact {
        Fact::Started { rollout, title } => {
            (Severity::Normal, "RolloutStarted", format!("rollout {rollout} of {title} started"))
        }
        Fact::StepCompleted { step, text, .. } => {
            (Severity::Normal, "RolloutStep", format!("step {step}: {text} completed"))
        }
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
    Effect::Event(Box::new(EventRecord {
        about: ObjectKey::agent(&scene.key),
        uid: scene.uid.clone(),
        severity,
        reason,
        message,
    }))
}
