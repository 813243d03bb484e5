//! When a decision is due, and what it says.
//!
//! A decision is a level, like every effect: it is due as long as the spec does not say it yet. So it survives a crash at
//! any point without being stored anywhere but in the record that led to it.

use serde_json::Value;

use crate::cluster::MergePatch;
use crate::object::ObjectKey;
use crate::rollout::course::{Course, Standing};
use crate::rollout::decision::{Decision, Outcome};
use crate::rollout::scene::Scene;
use crate::rollout::verdict::Effect;
use crate::rollout::world::Origin;
use crate::writeback::plan::{PlannedChanges, merge_patch, plan_changes};

/// A decision that is due on its way: for git to have, or as a patch of an object that somebody applied by hand.
pub(crate) fn hand_over(scene: &Scene<'_>, decision: Decision) -> (Option<Decision>, Option<Effect>) {
    match &scene.world.origin {
        Origin::Git(_) => (Some(decision), None),
        Origin::ByHand => (None, patch(scene, &decision).map(|patch| Effect::Patch(Box::new(patch)))),
    }
}

/// The decision that is due.
///
/// A promotion, when: 1. all steps are done; 2. the candidate has available pods at the last weight; 3. nothing else is
/// waited for. A rollback, when: 1. nothing of the candidate runs in the cluster; 2. the spec still names a candidate
/// that was rejected.
///
/// Neither in a pass in which something has just happened: a decision rests on what is written down, and that is only
/// being written.
pub(crate) fn due(scene: &Scene<'_>, course: &Course) -> Option<Decision> {
    if !course.facts.is_empty() {
        return None;
    }
    match (&course.standing, &course.record.rollout) {
        (Standing::AwaitingPromotion(_, None), Some(flight)) => Some(Decision {
            agent: scene.key.clone(),
            rollout: flight.id.clone(),
            outcome: Outcome::Promoted,
            candidate: scene.decided_candidate(),
            base: scene.decided_base(),
            trial: scene.decided_trial(),
            title: flight.title.clone(),
            story: scene.world.story.clone(),
            pinned_version: flight.pinned_version.clone(),
        }),
        (Standing::Idle(_), None) => {
            let present = scene.candidate?;
            let entry = course.record.rejection(&present.digest)?;
            let mut story = scene.world.story.clone();
            story.extend(Some(entry.detail.clone()).filter(|detail| !detail.is_empty()));
            Some(Decision {
                agent: scene.key.clone(),
                rollout: entry.rollout.clone(),
                outcome: Outcome::RolledBack(entry.reason),
                candidate: scene.decided_candidate(),
                base: scene.decided_base(),
                trial: scene.decided_trial(),
                title: entry.title.clone(),
                story,
                pinned_version: entry.pinned_version.clone(),
            })
        }
        _ => None,
    }
}

/// The decision as a patch of an object that somebody applied by hand.
fn patch(scene: &Scene<'_>, decision: &Decision) -> Option<MergePatch> {
    let agent = &scene.world.agent;
    let before = Value::Object(agent.fields().clone());
    let PlannedChanges::Changes(changes) = plan_changes(decision, &before) else { return None };
    Some(MergePatch {
        key: ObjectKey::agent(scene.key),
        uid: scene.uid.clone(),
        resource_version: agent.resource_version()?.to_owned(),
        patch: merge_patch(&before, &changes),
    })
}
