//! The engine: from everything observed and the time to what is done next.
//!
//! Pure and total: no IO, no clock, no randomness, no `Result`. What is observed badly is data, what is specified badly
//! is reported and moves nothing. [`evaluate`] is three steps: what was observed is read ([`Scene`]); from that alone is decided
//! ([`decide()`]) where the rollout stands (`course`), how many pods each track gets (`pods`) and whether a decision is due; and
//! that is written out as objects, of which those are effects that differ from what lives (`effects`, `status`).
//!
//! What was worked out in the pass before from the same inputs may be handed in as a [`Memo`]. It changes how long an answer
//! takes, and never the answer.
//!
//! Invariant: performing the effects and evaluating again leads to an answer without effects.

pub mod decision;
pub mod record;
pub mod references;
pub mod split;
pub mod variant;
pub mod verdict;
pub mod world;

mod course;
mod decide;
mod effects;
mod endpoints;
mod essence;
mod events;
mod health;
mod memo;
mod observed;
mod pods;
mod reading;
mod reasons;
mod rendering;
mod scene;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::api::FieldError;
use crate::cluster::Part;
use crate::ids::Weight;

use course::Course;
use pods::Tracks;
use rendering::Rendering;

pub use decision::{Decision, Outcome, RollbackReason};
pub use memo::Memo;
pub use reading::Reading;
pub use record::Record;
pub use scene::Scene;
pub(crate) use status::SYNCED;
pub use verdict::{Effect, Fact, Phase, Report, Verdict};
pub use world::{GitView, ManifestStanding, Origin, Publish, Refused, World};

/// Answers what is to be done about one agent, given everything observed and the time.
#[must_use]
pub fn evaluate(world: &World, now: Timestamp) -> Verdict {
    evaluate_with(&mut Memo::default(), world, now)
}

/// The same answer as [`evaluate`]'s, sooner: `memo` is what evaluating an earlier world of this agent has left.
#[must_use]
pub fn evaluate_with(memo: &mut Memo, world: &World, now: Timestamp) -> Verdict {
    if world.agent.is_terminating() {
        // What belongs to it goes with it, by its owner references.
        let report = blank(Phase::Idle, "being deleted".to_owned());
        return Verdict { effects: Vec::new(), decision: None, wake_at: None, report };
    }
    let Memo { reading, rendering } = memo;
    match Scene::read(reading, world, now) {
        Ok(scene) => write_out(rendering, &scene, decide(&scene)),
        Err(errors) => refuse(world, &errors, now),
    }
}

/// All that is decided about an agent.
pub struct Decided {
    course: Course,
    tracks: Tracks,
    decision: Option<Decision>,
}

/// Decides about an agent: where its rollout stands and goes, how many pods each track gets, and whether a decision is due.
#[must_use]
pub fn decide(scene: &Scene<'_>) -> Decided {
    let course = course::decide(scene);
    let tracks = pods::plan(scene, course.record.rollout.as_ref(), &course.standing);
    let decision = decide::due(scene, &course);
    Decided { course, tracks, decision }
}

/// What was decided, as what is to be done.
fn write_out(rendering: &mut Rendering, scene: &Scene<'_>, decided: Decided) -> Verdict {
    let Decided { course, tracks, decision } = decided;
    let agent = Some(scene.world.agent.as_ref());
    let workload = effects::plan(rendering, scene, &course, &tracks);
    let mut report = status::report(scene, &course);
    if let Some(why) = &workload.troubles.candidate {
        let colon = if report.message.is_empty() { "" } else { ": " };
        report.message = format!("{}{colon}{why}", report.message);
        report.waiting_for = Some(why.clone());
    }
    let status = status::render(scene, &course, &report, &workload.troubles);
    // The first status of an agent tells what it has, when it has it.
    let is_new = scene.live_status().is_null() && course.record.rollout.is_none();
    let may_wait = !status::is_urgent(scene, &course, &status) || (is_new && workload.sets_up());

    // What is durable comes first: a decision is written down before anything moves because of it. What has happened is told
    // directly behind the write that makes it true: not before, because it would be told again if that failed; and not behind
    // the workload, because once it is written down no later pass comes upon it, and it would never be told if that failed.
    let mut effects = Vec::new();
    let record =
        effects::record_object(scene, &course, &status).and_then(|record| effects::apply(record, agent, Part::Main));
    // The record has all of it but the step.
    let is_recorded = |fact: &Fact| record.is_some() && !matches!(fact, Fact::StepCompleted { .. });
    let (recorded, told): (Vec<_>, Vec<_>) = course.facts.into_iter().partition(is_recorded);
    effects.extend(record);
    effects.extend(tell(scene, recorded));
    if effects::differs(&status, agent, Part::Status) {
        let apply = effects::write(status, agent, Part::Status);
        effects.push(if may_wait { apply.deferred() } else { apply });
    }
    effects.extend(tell(scene, told));
    effects.extend(workload.into_effects());
    let (decision, patch) = decision.map(|decision| decide::hand_over(scene, decision)).unwrap_or_default();
    effects.extend(patch);
    Verdict { effects, decision, wake_at: course.wake_at, report }
}

/// What has happened, told: counted first, which asks nothing of anybody.
fn tell(scene: &Scene<'_>, facts: Vec<Fact>) -> impl Iterator<Item = Effect> {
    let events: Vec<_> = facts.iter().filter_map(|fact| events::event(scene, fact)).collect();
    facts.into_iter().map(Effect::Fact).chain(events)
}

/// Nothing moves, and the status says which fields cannot be used.
fn refuse(world: &World, errors: &[FieldError], now: Timestamp) -> Verdict {
    let (status, message) = status::render_invalid(world, errors, now);
    let effects = effects::apply(status, Some(&world.agent), Part::Status).into_iter().collect();
    Verdict { effects, decision: None, wake_at: None, report: blank(Phase::Invalid, message) }
}

fn blank(phase: Phase, message: String) -> Report {
    Report {
        phase,
        rollout: None,
        step: None,
        requested: Weight::ZERO,
        delivered: Weight::ZERO,
        stable_version: String::new(),
        candidate_version: String::new(),
        message,
        waiting_for: None,
    }
}
