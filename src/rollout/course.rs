//! Where a rollout stands, and where it goes from here: the transitions, and nothing about pods or objects.
//!
//! Each transition rests on what is durable: the spec as git or a person wrote it, the record, the step in the
//! status, the Deployments. A crash between any two writes leads back into the same transition.

use jiff::{SignedDuration, Timestamp};

use crate::api::duration::render_duration;
use crate::api::{Pause, RollbackMode, Step, names};
use crate::ids::{RolloutId, Weight};
use crate::rollout::decision::RollbackReason;
use crate::rollout::health::{Health, Pods, elapsed, judge};
use crate::rollout::observed::StepProgress;
use crate::rollout::reasons::{Hold, Waiting, pods};
use crate::rollout::record::{Delivery, Ended, Flight, Heading, Record, Rejected};
use crate::rollout::references::References;
use crate::rollout::scene::{Scene, step_text, step_type, weight_at};
use crate::rollout::verdict::Fact;
use crate::rollout::world::{Origin, Publish};

/// How far ahead of the clock a time may lie without the clock having been set back.
const CLOCK_NOISE: SignedDuration = SignedDuration::from_secs(1);

/// When a rollout that waits for a watch looks again: that it works again changes no object, so nothing else may wake it.
const WATCH_RETRY: SignedDuration = SignedDuration::from_secs(3);

/// Where a rollout stands after everything observed was taken into account.
pub(crate) struct Course {
    /// The record as it should be.
    pub(crate) record: Record,
    /// Where it stands.
    pub(crate) standing: Standing,
    /// What happened on the way here.
    pub(crate) facts: Vec<Fact>,
    /// When time alone changes something.
    pub(crate) wake_at: Option<Timestamp>,
}

/// Where a rollout stands. The flight it speaks of is the record's.
pub(crate) enum Standing {
    /// No rollout: stable has all pods. Ends when a candidate differs and nothing holds it.
    Idle(Option<Hold>),
    /// At a step. Ends when the step is done, or the rollout turns back.
    Stepping(AtStep),
    /// All steps are done. Ends when the spec has become the candidate, or the rollout turns back.
    AwaitingPromotion(AtStep, Option<Waiting>),
    /// The spec is the candidate. Ends when stable is complete and the candidate gone.
    Promoting(Option<Waiting>),
    /// Everything goes back. Ends when the candidate is gone.
    RollingBack(RollbackReason),
}

/// A step, since when, and what it waits for.
pub(crate) struct AtStep {
    pub(crate) progress: StepProgress,
    pub(crate) weight: Weight,
    pub(crate) waiting: Option<Waiting>,
}

/// Decides where the rollout stands and goes.
pub(crate) fn decide(scene: &Scene<'_>) -> Course {
    let mut course = Course {
        record: scene.record.clone().into_owned(),
        standing: Standing::Idle(None),
        facts: Vec::new(),
        wake_at: None,
    };
    settle(scene, &mut course);
    match course.record.rollout.take() {
        None => idle(scene, &mut course),
        Some(flight) => match flight.heading {
            Heading::Steps => step(scene, &mut course, flight),
            Heading::Promotion => promote(scene, &mut course, flight),
            Heading::Rollback { reason, .. } => roll_back(scene, &mut course, flight, reason),
        },
    }
    course
}

/// Keeps what is known of rejected and promoted candidates in step with what git says by now.
fn settle(scene: &Scene<'_>, course: &mut Course) {
    let record = &mut course.record;
    let present = scene.candidate.map(|candidate| &candidate.digest);
    if let Origin::Git(git) = &scene.world.origin
        && let Some(synced) = &git.synced
    {
        record.rejected.retain_mut(|entry| {
            if present == Some(&entry.candidate) {
                // Back again on top of a commit that did not have it: a person put it there.
                return !entry
                    .cleared_by
                    .as_ref()
                    .is_some_and(|cleared| cleared != synced && git.contains.contains(cleared));
            }
            if !entry.cleared_by.as_ref().is_some_and(|cleared| git.contains.contains(cleared)) {
                entry.cleared_by = Some(synced.clone());
            }
            true
        });
    }
    if record.rollout.is_some() {
        return;
    }
    if let Some(promoted) = record.promoted.take_if(|promoted| promoted.to != scene.stable.digest)
        && promoted.from == scene.stable.digest
        && present == Some(&promoted.to)
    {
        // The commit that promoted it was reverted: stable is rolled back by the spec itself, and the candidate that
        // came back with it is settled.
        let (rollout, reason) = (promoted.rollout, RollbackReason::PromotionReverted);
        let title = scene.candidate.map(|candidate| candidate.title()).unwrap_or_default();
        record.reject(Rejected {
            candidate: promoted.to,
            rollout: rollout.clone(),
            title: title.clone(),
            pinned_version: None,
            reason,
            detail: "It was promoted, and the commit that promoted it was reverted.".to_owned(),
            at: scene.now,
            cleared_by: None,
        });
        record.last =
            Some(Ended { rollout: rollout.clone(), title: title.clone(), rolled_back: Some(reason), at: scene.now });
        cool_down(scene, record);
        course.facts.push(Fact::RolledBack { rollout, title, reason });
    }
}

fn cool_down(scene: &Scene<'_>, record: &mut Record) {
    let cooldown = scene.rollout().map(|rollout| rollout.rollback.cooldown).unwrap_or_default();
    record.cooldown_until =
        if cooldown.is_zero() { None } else { Some(scene.now.saturating_add(cooldown).unwrap_or(Timestamp::MAX)) };
}

/// No rollout is in flight: starts one, or says why not.
fn idle(scene: &Scene<'_>, course: &mut Course) {
    if let Some(until) = course.record.cooldown_until {
        // Neither a clock that was set back nor a cooldown that was shortened prolongs it beyond its length from now.
        let longest = scene.rollout().map(|rollout| rollout.rollback.cooldown).unwrap_or_default();
        let latest = scene.now.saturating_add(longest).unwrap_or(Timestamp::MAX);
        course.record.cooldown_until =
            (until > scene.now).then_some(until.min(latest)).filter(|until| *until > scene.now);
    }
    let Some(candidate) = scene.candidate else { return };
    if candidate.digest == scene.stable.digest {
        return;
    }
    match obstacle(scene, &course.record) {
        Some(hold) => {
            if let Hold::Cooldown { until } = hold {
                course.wake_at = Some(until);
            }
            course.standing = Standing::Idle(Some(hold));
        }
        None => launch(scene, course, scene.total(None)),
    }
}

/// The gates before a rollout starts, each a reason to hold it.
fn obstacle(scene: &Scene<'_>, record: &Record) -> Option<Hold> {
    let candidate = scene.candidate?;
    // 1. What runs is what git says.
    if matches!(&scene.world.origin, Origin::Git(git) if git.synced.is_none()) {
        return Some(Hold::NotSynced);
    }
    // 2. The candidate was not rejected.
    if let Some(entry) = record.rejection(&candidate.digest) {
        let Rejected { rollout, title, reason, .. } = entry.clone();
        return Some(Hold::Rejected { rollout, title, reason });
    }
    // 3. The spec asks for nothing that is not understood.
    if let Err(why) = scene.delivery() {
        return Some(Hold::Unsupported(why));
    }
    if scene.steps().iter().any(|step| matches!(step, Step::Analysis { .. })) {
        return Some(Hold::Unsupported("analysis steps are not supported by this version of Serin".into()));
    }
    // 4. The names are free.
    if let Some(why) = scene.squatter(&names::candidate_deployment(&scene.key.name)) {
        return Some(Hold::NameTaken(why));
    }
    // 5. All that the candidate names is there.
    if let Some(missing) = scene.candidate_references.and_then(References::obstacle) {
        return Some(Hold::Unresolved(missing.message.clone()));
    }
    // 6. Stable has been healthy at least once.
    if scene.active_version().is_empty() && !scene.is_stable_complete() {
        return Some(Hold::FirstDeployment);
    }
    // 7. No pods of another candidate are left.
    let leftover = scene.candidate_deployment.as_ref();
    if leftover
        .is_some_and(|deployment| deployment.is_terminating || deployment.variant.as_ref() != Some(&candidate.digest))
    {
        return Some(Hold::Leftover);
    }
    // 8. The last rollback is long enough ago.
    record.cooldown_until.filter(|until| *until > scene.now).map(|until| Hold::Cooldown { until })
}

/// Starts a rollout of the candidate in the spec at its first step. `total` is how many pods there are in all, where an
/// autoscaler says it.
fn launch(scene: &Scene<'_>, course: &mut Course, total: u32) {
    let Some(candidate) = scene.candidate else { return };
    let Ok(delivery) = scene.delivery() else { return };
    course.record.sequence = course.record.sequence.saturating_add(1);
    let sequence = course.record.sequence;
    let started_at = started_at(scene.now, sequence);
    let id = RolloutId::new(format!(
        "{}-{}-{sequence}",
        started_at.strftime("%Y%m%dt%H%M%S"),
        candidate.digest.as_str().get(..8).unwrap_or_default()
    ));
    course.facts.push(Fact::Started { rollout: id.clone(), title: candidate.title() });
    let flight = Flight {
        id,
        started_at,
        candidate: candidate.digest.clone(),
        base: scene.stable.digest.clone(),
        title: candidate.title(),
        candidate_version: scene.candidate_version(),
        pinned_version: candidate.pack.version.clone(),
        steps: scene.steps_spec().clone(),
        delivery,
        autoscaled_total: scene.spec.is_autoscaled.then_some(total),
        heading: Heading::Steps,
        is_decided: false,
        reached: None,
        progress: None,
    };
    enter(scene, course, flight, StepProgress { step: 0, entered_at: started_at });
}

/// Ties the status to one rollout: to the microsecond, and in the last three digits the rollout's number, so that two
/// rollouts differ even if the clock is set back.
fn started_at(now: Timestamp, sequence: u64) -> Timestamp {
    let nanos = i128::from(now.as_microsecond()) * 1_000 + i128::from(sequence % 1_000);
    Timestamp::from_nanosecond(nanos).unwrap_or(now)
}

/// Stands at a step from now on. The next pass looks whether it is done; what it will most likely wait for is said at
/// once, so that the status is written once.
fn enter(scene: &Scene<'_>, course: &mut Course, flight: Flight, progress: StepProgress) {
    let weight = weight_at(scene.steps(), progress.step);
    let needed = scene.split(&flight, weight).candidate;
    let waiting = match scene.steps().get(progress.step) {
        Some(_) if scene.candidate_available() < needed => Some(Waiting::CandidatePods { needed }),
        Some(step) => completion(scene, &flight, step, progress, weight).err().and_then(|(waiting, _)| waiting),
        None => None,
    };
    let at = AtStep { progress, weight, waiting };
    course.standing = if progress.step >= scene.steps().len() {
        Standing::AwaitingPromotion(at, None)
    } else {
        Standing::Stepping(at)
    };
    course.record.rollout = Some(flight);
    course.wake_at = Some(scene.now);
}

/// Times are written to the microsecond.
fn to_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// The end of a rollout is the transition of a condition, and those have whole seconds.
fn to_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// A rollout on its way through the steps.
fn step(scene: &Scene<'_>, course: &mut Course, mut flight: Flight) {
    if scene.stable.digest == flight.candidate {
        // The spec has become the candidate: by our commit, or because a person wrote it there.
        flight.begin_promotion();
        course.facts.push(Fact::PromotionStarted { rollout: flight.id.clone() });
        return promote(scene, course, flight);
    }
    match scene.candidate {
        Some(candidate) if candidate.digest == flight.candidate => {}
        Some(candidate) if candidate.digest != scene.stable.digest => {
            return turn_back(scene, course, flight, RollbackReason::Superseded);
        }
        Some(_) | None => return turn_back(scene, course, flight, RollbackReason::Withdrawn),
    }
    let progress = StepProgress::read(scene.live_status(), flight.started_at);
    // A status that was lost leads back to the first step. Whether the last one was over is not known any more: the promotion
    // may be in git.
    flight.is_decided |= matches!(scene.world.origin, Origin::Git(_))
        && StepProgress::told(scene.live_status(), flight.started_at).is_none();
    let progress = StepProgress {
        step: progress.step.min(scene.steps().len()),
        // A clock that was set back does not prolong a pause beyond its length from now.
        entered_at: if elapsed(scene.now, progress.entered_at) > CLOCK_NOISE {
            to_micros(scene.now)
        } else {
            progress.entered_at
        },
    };
    let weight = weight_at(scene.steps(), progress.step);
    let unsupported = scene.delivery().err();
    if let Some(why) = unsupported {
        let at = AtStep { progress, weight, waiting: Some(Waiting::Unsupported(why)) };
        course.standing = Standing::Stepping(at);
        course.record.rollout = Some(flight);
        return;
    }
    // Weights may be delivered otherwise from now on, or the steps up to here are no longer those that were passed.
    let steps = scene.steps_spec();
    if scene.delivery() != Ok(flight.delivery) || is_changed_up_to(&flight.steps, steps, progress.step) {
        // Stable has given up pods: how many there are in all is what it was when this began.
        return launch(scene, course, scene.total(Some(&flight)));
    }
    let were_done = flight.steps.as_array().is_some_and(|old| old.len() <= progress.step);
    if flight.steps != *steps {
        flight.steps = steps.clone();
    }
    // What it is tried against follows the spec, so that a revert of its promotion is recognized.
    flight.base = scene.stable.digest.clone();
    if were_done && progress.step < scene.steps().len() {
        // Steps were added when all were done: the first of them begins now, not when the last one ended. The promotion
        // without them may be in git.
        (flight.reached, flight.progress) = (None, None);
        flight.is_decided |= matches!(scene.world.origin, Origin::Git(_));
        return enter(scene, course, flight, StepProgress { entered_at: to_micros(scene.now), ..progress });
    }
    let health = health(scene, &flight, progress, weight);
    flight.progress = match health {
        Health::Lacking { progress, .. } => progress,
        Health::Sufficient => None,
        Health::Exceeded => flight.progress,
    };
    let needed = scene.split(&flight, weight).candidate;
    let waiting = match health {
        // A promotion that may be in git by now is not taken back before git has answered: the pods have their say
        // about the weight all the same.
        Health::Exceeded if is_automatic(scene) && !may_be_promoted(scene, &flight, progress) => {
            return turn_back(scene, course, flight, RollbackReason::PodUnhealthy);
        }
        Health::Exceeded => Some(Waiting::CandidatePodsOverdue { needed, deadline: scene.progress_deadline() }),
        Health::Lacking { deadline, .. } => {
            course.wake_at = Some(deadline);
            Some(Waiting::CandidatePods { needed })
        }
        Health::Sufficient => None,
    };
    if waiting.is_some() {
        return stand(scene, course, flight, AtStep { progress, weight, waiting });
    }
    if progress.step == 0 && needed > 0 && matches!(scene.steps().first(), Some(Step::Pause(_))) {
        flight.reached = Some(0);
    }
    let Some(current) = scene.steps().get(progress.step) else {
        let waiting = if needed == 0 { Some(Waiting::NothingTried) } else { unseen(scene, course) };
        return stand(scene, course, flight, AtStep { progress, weight, waiting });
    };
    match completion(scene, &flight, current, progress, weight) {
        Ok(()) if !scene.world.deployments_are_current => {
            let waiting = unseen(scene, course);
            stand(scene, course, flight, AtStep { progress, weight, waiting });
        }
        Ok(()) => {
            course.facts.push(Fact::StepCompleted {
                rollout: flight.id.clone(),
                step: progress.step,
                step_type: step_type(current),
                text: step_text(current),
                took: elapsed(progress.entered_at, scene.now),
                weight,
            });
            let entered_at = to_micros(scene.now);
            enter(scene, course, flight, StepProgress { step: progress.step + 1, entered_at });
        }
        Err((waiting, until)) => {
            course.wake_at = until;
            stand(scene, course, flight, AtStep { progress, weight, waiting });
        }
    }
}

/// Nothing goes forward because nothing was heard of the pods, if nothing could be heard. What goes back may: it is safe.
fn unseen(scene: &Scene<'_>, course: &mut Course) -> Option<Waiting> {
    if scene.world.deployments_are_current {
        return None;
    }
    course.wake_at = Some(scene.now.saturating_add(WATCH_RETRY).unwrap_or(Timestamp::MAX));
    Some(Waiting::Deployments)
}

/// Stays where it is.
fn stand(scene: &Scene<'_>, course: &mut Course, flight: Flight, at: AtStep) {
    course.record.rollout = Some(flight);
    course.standing = if at.progress.step >= scene.steps().len() {
        let waiting = at.waiting.clone();
        Standing::AwaitingPromotion(at, waiting)
    } else {
        Standing::Stepping(at)
    };
}

/// Whether the promotion of this rollout may have been handed to git, and git's answer is not known.
///
/// What is being pushed about a rollout in flight is its promotion, whatever the status says by now. All else that the outbox
/// says (it waits, it is blocked, there is nothing) is that git does not have it, or that what git says is loaded: then it is
/// the spec that was synced. Where that is not known either, it depends on whether all steps were done.
fn may_be_promoted(scene: &Scene<'_>, flight: &Flight, progress: StepProgress) -> bool {
    let Origin::Git(git) = &scene.world.origin else { return false };
    let is_decided = flight.is_decided || progress.step >= scene.steps().len();
    match &git.publish {
        Publish::Pushing { rollout, .. } if *rollout == flight.id => true,
        Publish::Pushing { .. }
        | Publish::Idle
        | Publish::ReadOnly
        | Publish::Pending { .. }
        | Publish::Blocked { .. } => is_decided && git.synced.is_none(),
    }
}

fn is_automatic(scene: &Scene<'_>) -> bool {
    scene.rollout().is_some_and(|rollout| rollout.rollback.mode == RollbackMode::Automatic)
}

/// Whether the steps from the first to the current one are not what they were.
fn is_changed_up_to(old: &serde_json::Value, new: &serde_json::Value, current: usize) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return old != new };
    let passed = (current + 1).min(old.len());
    new.len() < passed || old[..passed] != new[..passed]
}

fn health(scene: &Scene<'_>, flight: &Flight, progress: StepProgress, weight: Weight) -> Health {
    let deployment = scene.candidate_deployment.as_ref().filter(|d| d.variant.as_ref() == Some(&flight.candidate));
    let pods = Pods {
        needed: scene.split(flight, weight).candidate,
        available: deployment.map_or(0, |deployment| deployment.available),
        has_exceeded_deadline: deployment.is_some_and(|deployment| deployment.has_exceeded_deadline),
    };
    // The first step of every kind, and each weight, asks for pods that may not be there yet.
    let is_asked_here = progress.step == 0 || matches!(scene.steps().get(progress.step), Some(Step::SetWeight(_)));
    let is_awaited = is_asked_here && flight.reached != Some(progress.step);
    let asked_at = is_awaited.then(|| {
        let created_at = deployment.and_then(|deployment| deployment.created_at);
        created_at.map_or(progress.entered_at, |created_at| created_at.max(progress.entered_at))
    });
    judge(&pods, asked_at, flight.progress, scene.progress_deadline(), scene.now)
}

/// Whether the current step is done; otherwise what it waits for, and until when.
fn completion(
    scene: &Scene<'_>,
    flight: &Flight,
    step: &Step,
    progress: StepProgress,
    weight: Weight,
) -> Result<(), (Option<Waiting>, Option<Timestamp>)> {
    match step {
        Step::SetWeight(_) => {
            let split = scene.split(flight, weight);
            let candidate = scene.candidate_deployment.as_ref().map_or(0, |deployment| deployment.pods);
            let stable = scene.stable_deployment.as_ref().map_or(0, |deployment| deployment.pods);
            if flight.delivery == Delivery::ReplicaWeighted && stable > split.stable {
                return Err((Some(Waiting::StablePods { left: split.stable }), None));
            }
            if candidate != split.candidate {
                return Err((Some(Waiting::CandidatePods { needed: split.candidate }), None));
            }
            Ok(())
        }
        Step::Pause(Pause::For(duration)) => {
            if elapsed(progress.entered_at, scene.now) >= *duration {
                return Ok(());
            }
            Err((None, Some(progress.entered_at.saturating_add(*duration).unwrap_or(Timestamp::MAX))))
        }
        Step::Pause(Pause::Indefinite) => {
            let token = format!("{}@{}", flight.id, progress.step);
            if scene.world.agent.annotation(names::RESUME_ANNOTATION) == Some(&token) {
                return Ok(());
            }
            Err((Some(Waiting::Resume { token }), None))
        }
        Step::Analysis { .. } => {
            Err((Some(Waiting::Unsupported("analysis steps are not supported by this version of Serin".into())), None))
        }
    }
}

/// Turns a rollout back. What is rejected is recorded in the same write, before any traffic moves.
fn turn_back(scene: &Scene<'_>, course: &mut Course, mut flight: Flight, reason: RollbackReason) {
    let is_present = scene.candidate.is_some_and(|candidate| candidate.digest == flight.candidate);
    let is_rejected = match reason {
        RollbackReason::PodUnhealthy => true,
        RollbackReason::PromotionReverted => is_present,
        RollbackReason::Withdrawn | RollbackReason::Superseded => false,
    };
    if is_rejected {
        course.record.reject(Rejected {
            candidate: flight.candidate.clone(),
            rollout: flight.id.clone(),
            title: flight.title.clone(),
            pinned_version: flight.pinned_version.clone(),
            reason,
            detail: detail(scene, &flight, reason),
            at: scene.now,
            cleared_by: None,
        });
    }
    if reason != RollbackReason::Superseded {
        cool_down(scene, &mut course.record);
    }
    course.facts.push(Fact::RolledBack { rollout: flight.id.clone(), title: flight.title.clone(), reason });
    flight.heading = Heading::Rollback { reason, at: scene.now };
    flight.progress = None;
    roll_back(scene, course, flight, reason);
}

/// What was seen when a rollout was turned back: what a person who reads the commit wants to know.
fn detail(scene: &Scene<'_>, flight: &Flight, reason: RollbackReason) -> String {
    if reason != RollbackReason::PodUnhealthy {
        return String::new();
    }
    let step = StepProgress::read(scene.live_status(), flight.started_at).step;
    let needed = scene.split(flight, weight_at(scene.steps(), step)).candidate;
    let place = match scene.steps().get(step) {
        Some(current) => format!("Step {} of {}: {}", step + 1, scene.steps().len(), step_text(current)),
        None => "All steps were done".to_owned(),
    };
    let (available, deadline) = (scene.candidate_available(), render_duration(scene.progress_deadline()));
    format!("{place}: {available} of {} of the candidate, without progress for {deadline}.", pods(needed))
}

/// A rollout on its way back: over when nothing of the candidate runs any more.
fn roll_back(scene: &Scene<'_>, course: &mut Course, flight: Flight, reason: RollbackReason) {
    // Once this is over, the pods of an autoscaled agent are as many as stable has.
    let total = scene.total(Some(&flight));
    let is_short = scene.spec.is_autoscaled && scene.stable_deployment.as_ref().is_some_and(|d| d.wanted < total);
    if !scene.is_candidate_gone() || is_short {
        course.record.rollout = Some(flight);
        course.standing = Standing::RollingBack(reason);
        return;
    }
    course.record.end(flight, to_seconds(scene.now));
    idle(scene, course);
}

/// A rollout whose spec is the candidate: over when stable is complete and nothing of the candidate runs any more.
fn promote(scene: &Scene<'_>, course: &mut Course, flight: Flight) {
    if scene.stable.digest != flight.candidate {
        let is_revert = scene.stable.digest == flight.base;
        let reason = if is_revert { RollbackReason::PromotionReverted } else { RollbackReason::Superseded };
        return turn_back(scene, course, flight, reason);
    }
    if !scene.is_stable_complete() || !scene.is_candidate_gone() {
        course.record.rollout = Some(flight);
        course.standing = Standing::Promoting(unseen(scene, course));
        return;
    }
    course.facts.push(Fact::Promoted { rollout: flight.id.clone(), title: flight.title.clone() });
    course.record.end(flight, to_seconds(scene.now));
    idle(scene, course);
}
