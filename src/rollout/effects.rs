//! From where a rollout stands to what is done about objects: rendered, compared with what lives, and written only
//! where something differs.

use serde_json::Value;

use crate::api::names;
use crate::apply::{Difference, difference, owned};
use crate::cluster::{Apply, Expect, FieldManager, Part};
use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::course::{Course, Standing};
use crate::rollout::pods::{Track, Tracks};
use crate::rollout::record::Flight;
use crate::rollout::rendering::{Obstacle, Rendered, Rendering};
use crate::rollout::scene::Scene;
use crate::rollout::status::Troubles;
use crate::rollout::verdict::Effect;
use crate::workload;

/// Effects on the workload, in order, and what could not be done.
#[derive(Default)]
pub(crate) struct Workload {
    /// Pods that come, and what pods need.
    up: Vec<Effect>,
    /// Pods that go.
    down: Vec<Effect>,
    /// Objects that go when no pod needs them.
    gone: Vec<Effect>,
    /// Whether pods of the track that is planned may go a little later.
    may_wait: bool,
    pub(crate) troubles: Troubles,
}

impl Workload {
    /// Puts an apply that changes the number of pods from `before` to `after` where it belongs.
    fn push(&mut self, apply: Effect, before: Option<i64>, after: Option<i64>, only_pods: bool) {
        match (before, after) {
            (Some(before), Some(after)) if after < before => {
                self.down.push(if self.may_wait && only_pods { apply.deferred() } else { apply });
            }
            _ => self.up.push(apply),
        }
    }

    /// Whether objects are made or changed that pods need, so that the status is another one in a moment.
    pub(crate) fn sets_up(&self) -> bool {
        !self.up.is_empty()
    }

    /// What comes before what goes: never fewer pods than there must be.
    pub(crate) fn into_effects(self) -> impl Iterator<Item = Effect> {
        self.up.into_iter().chain(self.down).chain(self.gone)
    }
}

/// Plans both tracks' objects.
pub(crate) fn plan(rendering: &mut Rendering, scene: &Scene<'_>, course: &Course, tracks: &Tracks) -> Workload {
    let flight = course.record.rollout.as_ref();
    let mut workload = Workload { may_wait: tracks.stable_may_wait, ..Workload::default() };
    stable(rendering, scene, tracks.stable, &mut workload);
    workload.may_wait = false;
    let needed = candidate(rendering, scene, flight, &course.standing, tracks.candidate, &mut workload);
    leftovers(scene, &needed, &mut workload);
    workload
}

/// The stable Deployment and everything beside it.
fn stable(rendering: &mut Rendering, scene: &Scene<'_>, track: Track, workload: &mut Workload) {
    if let Some(why) = scene.squatter(&scene.key.name) {
        workload.troubles.deployment = Some(("NameTaken", why));
        return;
    }
    let (replicas, is_rescaled) = match track {
        Track::Render { replicas } => (replicas, false),
        Track::Rescale { replicas } => (replicas, true),
        Track::Remove => return,
    };
    match rendering.of(scene, workload::Track::Stable, scene.stable, scene.stable_references, replicas) {
        Ok(objects) => {
            // Pods of the old template keep the tools that they were tried with, too.
            for object in objects.iter_mut().filter(|object| !(is_rescaled && object.is_of_variant())) {
                let Some(Trouble { is_refused, why }) = ensure(scene, object, workload) else { continue };
                let (slot, failed) = if object.key.kind == Kind::SERVICE {
                    (&mut workload.troubles.service, "ServiceFailed")
                } else {
                    (&mut workload.troubles.deployment, "DeploymentFailed")
                };
                *slot = Some((if is_refused { failed } else { "NameTaken" }, why));
            }
            if is_rescaled {
                rescale(scene, &scene.key.name, replicas, workload);
            }
        }
        Err(Obstacle { condition, reason, why }) => {
            // What runs goes on, and pods still follow the weight.
            match condition {
                "FrameworkReady" => workload.troubles.framework = Some((reason, why)),
                "ToolRegistryReady" => workload.troubles.registry = Some((reason, why)),
                _ => workload.troubles.deployment = Some((reason, why)),
            }
            rescale(scene, &scene.key.name, replicas, workload);
        }
    }
}

/// What must not go of the candidate's objects beside its Deployment.
enum Needed<'a> {
    /// All that is there.
    Everything,
    /// What was rendered.
    Rendered(&'a [Rendered]),
}

/// The candidate's Deployment and what belongs to it.
fn candidate<'a>(
    rendering: &'a mut Rendering,
    scene: &Scene<'_>,
    flight: Option<&Flight>,
    standing: &Standing,
    track: Track,
    workload: &mut Workload,
) -> Needed<'a> {
    let nothing = Needed::Rendered(&[]);
    let name = names::candidate_deployment(&scene.key.name);
    match track {
        Track::Render { replicas } => {
            // While stable rolls to it, the spec itself is the candidate.
            let (variant, references) = match (standing, scene.candidate, scene.candidate_references) {
                (Standing::Promoting(_), _, _) => (scene.stable, scene.stable_references),
                (_, Some(variant), Some(references)) => (variant, references),
                _ => return nothing,
            };
            if flight.is_none() || scene.squatter(&name).is_some() {
                return nothing;
            }
            match rendering.of(scene, workload::Track::Candidate, variant, references, replicas) {
                Ok(objects) => {
                    for object in &mut *objects {
                        if let Some(trouble) = ensure(scene, object, workload) {
                            workload.troubles.candidate = Some(trouble.why);
                        }
                    }
                    Needed::Rendered(objects)
                }
                Err(_) => {
                    // Something that it names has gone: its pods stay, and the weight goes on following them.
                    rescale(scene, &name, replicas, workload);
                    Needed::Everything
                }
            }
        }
        Track::Rescale { replicas } => {
            rescale(scene, &name, replicas, workload);
            Needed::Everything
        }
        Track::Remove => {
            let Some(deployment) = &scene.candidate_deployment else { return nothing };
            if !deployment.is_terminating {
                let key = ObjectKey::new(Kind::DEPLOYMENT, &scene.key.namespace, &name);
                if scene.world.undeletable.contains_key(&key) {
                    // It stays, and its pods go all the same.
                    rescale(scene, &name, 0, workload);
                }
                delete(scene, key, deployment.uid.clone(), workload);
            }
            // What its pods have mounted goes after them.
            Needed::Everything
        }
    }
}

/// Deletes what is ours of the candidate and not needed any more. Nothing of stable has a name of these.
fn leftovers(scene: &Scene<'_>, needed: &Needed<'_>, workload: &mut Workload) {
    let Needed::Rendered(needed) = needed else { return };
    let beside = scene.candidate_keys.iter().filter(|key| key.kind != Kind::DEPLOYMENT);
    for key in beside.filter(|key| needed.iter().all(|needed| needed.key != **key)) {
        if let Some(live) = scene.live_at(key)
            && live.is_controlled_by(scene.uid)
            && !live.is_terminating()
            && let Some(uid) = live.uid()
        {
            delete(scene, key.clone(), uid, workload);
        }
    }
}

/// Deletes an object. One whose deletion the server refuses is tried again when it is time, and said until then.
fn delete(scene: &Scene<'_>, key: ObjectKey, uid: Uid, workload: &mut Workload) {
    let refused = scene.world.undeletable.get(&key);
    if let Some(refused) = refused {
        workload.troubles.candidate.get_or_insert_with(|| format!("{key} cannot be deleted: {}", refused.why));
    }
    if refused.is_none_or(|refused| refused.is_due) {
        let is_deployment = key.kind == Kind::DEPLOYMENT;
        let goes = if is_deployment { &mut workload.down } else { &mut workload.gone };
        goes.push(Effect::Delete(key, uid));
    }
}

/// Why a rendered object does not live as it should.
struct Trouble {
    /// Refused by the server; otherwise the name is somebody else's.
    is_refused: bool,
    why: String,
}

/// Applies a rendered object if it differs from what lives. Gives back why it cannot live.
fn ensure(scene: &Scene<'_>, rendered: &mut Rendered, workload: &mut Workload) -> Option<Trouble> {
    let live = scene.live_at(&rendered.key);
    if live.is_some_and(|live| !live.is_controlled_by(scene.uid)) {
        let why = format!("a {} is there that does not belong to this agent", rendered.key);
        return Some(Trouble { is_refused: false, why });
    }
    if live.is_some_and(|live| live.is_terminating()) {
        return None;
    }
    let difference = rendered.difference(live);
    if difference == Difference::None {
        return None;
    }
    let after = rendered.object.integer("/spec/replicas");
    let refused = scene.world.refused.get(&rendered.key);
    if refused.is_none_or(|refused| refused.is_due) {
        let before = live.and_then(|live| live.integer("/spec/replicas"));
        let apply = write(rendered.object.clone(), live.map(AsRef::as_ref), Part::Main);
        workload.push(apply, before, after, is_about_pods_only(&difference));
    } else if let Some(replicas) = after.and_then(|after| u32::try_from(after).ok()) {
        // What the server refuses keeps the template that it has; pods still follow the weight.
        rescale(scene, &rendered.key.name, replicas, workload);
    }
    refused.map(|refused| Trouble { is_refused: true, why: refused.why.clone() })
}

/// Changes the number of pods and nothing else, whatever the template: all other fields that are ours are applied as
/// they live.
fn rescale(scene: &Scene<'_>, name: &str, replicas: u32, workload: &mut Workload) {
    let Some(live) = scene.live(&Kind::DEPLOYMENT, name).filter(|live| live.is_controlled_by(scene.uid)) else {
        return;
    };
    let before = live.integer("/spec/replicas").unwrap_or(1);
    if before == i64::from(replicas) || live.is_terminating() {
        return;
    }
    let mut object = owned(live, FieldManager::Rollout, Part::Main);
    object.set(&["spec", "replicas"], replicas);
    if let Some(apply) = apply(object, Some(live), Part::Main) {
        workload.push(apply, Some(before), Some(i64::from(replicas)), true);
    }
}

fn is_about_pods_only(difference: &Difference) -> bool {
    matches!(difference, Difference::Update { changes } if changes.iter().all(|change| change.path == "spec.replicas"))
}

/// The apply that makes `live` say what `desired` says; `None` if it does already.
pub(crate) fn apply(desired: Object, live: Option<&Object>, part: Part) -> Option<Effect> {
    differs(&desired, live, part).then(|| write(desired, live, part))
}

/// Whether an apply would change anything.
pub(crate) fn differs(desired: &Object, live: Option<&Object>, part: Part) -> bool {
    difference(desired, live, FieldManager::Rollout, part) != Difference::None
}

/// The apply.
pub(crate) fn write(object: Object, live: Option<&Object>, part: Part) -> Effect {
    let expect = live.and_then(Object::uid).map_or(Expect::Absent, Expect::Uid);
    Effect::Apply(Box::new(Apply { object, manager: FieldManager::Rollout, expect, part }))
}

/// The agent with its record annotation and nothing else; `None` if the annotation as it lives and the status as it will be
/// say as much together.
pub(crate) fn record_object(scene: &Scene<'_>, course: &Course, status: &Object) -> Option<Object> {
    let status = status.at("/status").unwrap_or(&Value::Null);
    if scene.written.with_status(status).says_the_same(&course.record) {
        return None;
    }
    let mut object = Object::bare(&ObjectKey::agent(scene.key));
    object.set(&["metadata", "annotations", names::RECORD_ANNOTATION], Value::from(course.record.render()));
    Some(object)
}
