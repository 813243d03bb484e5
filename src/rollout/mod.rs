//! The engine: from everything observed and the time to what is done next.
//!
//! Pure and total: no IO, no clock, no randomness, no `Result`. What is observed badly is data, what is specified badly
//! is reported and moves nothing. [`evaluate`] reads as the list of its questions: where does the rollout stand
//! (`course`), how many pods does each track get (`pods`), what differs from what lives (`effects`), is a decision
//! due (`decide`), and how does it look to people (`status`).
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
mod events;
mod health;
mod observed;
mod pods;
mod reasons;
mod scene;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::api::AgentRuntime;
use crate::cluster::Part;
use crate::ids::Weight;

pub use decision::{Decision, Outcome, RollbackReason};
pub use record::Record;
pub(crate) use status::SYNCED;
pub use verdict::{Effect, Fact, Phase, Report, Verdict};
pub use world::{GitView, ManifestStanding, Origin, Publish, Refused, World};

/// Answers what is to be done about one agent, given everything observed and the time.
#[must_use]
pub fn evaluate(world: &World, now: Timestamp) -> Verdict {
    if world.agent.is_terminating() {
        // What belongs to it goes with it, by its owner references.
        return Verdict {
            effects: Vec::new(),
            decision: None,
            wake_at: None,
            report: blank(Phase::Idle, "being deleted".to_owned()),
        };
    }
    let spec = match AgentRuntime::read(&world.agent) {
        Ok(spec) => spec,
        Err(errors) => {
            let (status, message) = status::render_invalid(world, &errors, now);
            let effects = effects::apply(status, Some(&world.agent), Part::Status).into_iter().collect();
            return Verdict { effects, decision: None, wake_at: None, report: blank(Phase::Invalid, message) };
        }
    };
    let scene = scene::Scene::read(world, spec, now);
    let course = course::decide(&scene);
    let workload = effects::plan(&scene, &course);
    let mut report = status::report(&scene, &course);
    if let Some(why) = &workload.troubles.candidate {
        report.message = format!("{}: {why}", report.message);
        report.waiting_for = Some(why.clone());
    }
    let status = status::render(&scene, &course, &report, &workload.troubles);

    // What is durable comes first: a decision is written down before anything moves because of it.
    let mut effects = Vec::new();
    let is_urgent = status::is_urgent(&scene, &course, &status);
    effects.extend(
        effects::record_object(&scene, &course, &status)
            .and_then(|record| effects::apply(record, Some(&world.agent), Part::Main)),
    );
    let status = effects::apply(status, Some(&world.agent), Part::Status);
    effects.extend(if is_urgent { status } else { status.map(Effect::deferred) });
    effects.extend(workload.into_effects());
    let (decision, patch) = decide::decide(&scene, &course);
    effects.extend(patch);
    effects.extend(course.facts.iter().filter_map(|fact| events::event(&scene, fact)));
    effects.extend(course.facts.into_iter().map(Effect::Fact));
    Verdict { effects, decision, wake_at: course.wake_at, report }
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
