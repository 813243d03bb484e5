//! From where a rollout stands to what is done about objects: rendered, compared with what lives, and written only
//! where something differs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::names;
use crate::apply::{Difference, difference, owned};
use crate::cluster::{Apply, Expect, FieldManager, Part};
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::course::{Course, Standing};
use crate::rollout::pods::{self, Track};
use crate::rollout::record::Flight;
use crate::rollout::references::{Checked, Missing, References};
use crate::rollout::scene::Scene;
use crate::rollout::status::Troubles;
use crate::rollout::variant::Variant;
use crate::rollout::verdict::Effect;
use crate::workload::{self, Inputs, ResolvedProvider};

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

    /// What comes before what goes: never fewer pods than there must be.
    pub(crate) fn into_effects(self) -> impl Iterator<Item = Effect> {
        self.up.into_iter().chain(self.down).chain(self.gone)
    }
}

/// Plans both tracks' objects.
pub(crate) fn plan(scene: &Scene<'_>, course: &Course) -> Workload {
    let flight = course.record.rollout.as_ref();
    let tracks = pods::plan(scene, flight, &course.standing);
    let mut workload = Workload { may_wait: tracks.stable_may_wait, ..Workload::default() };
    let kept = stable(scene, tracks.stable, &mut workload);
    workload.may_wait = false;
    let kept_by_candidate = candidate(scene, flight, &course.standing, tracks.candidate, &mut workload);
    leftovers(scene, &kept, &kept_by_candidate, &mut workload);
    workload
}

/// The stable Deployment and everything beside it. Gives back the keys of what should live.
fn stable(scene: &Scene<'_>, track: Track, workload: &mut Workload) -> Vec<ObjectKey> {
    if let Some(why) = scene.squatter(&scene.key.name) {
        workload.troubles.deployment = Some(("NameTaken", why));
        return Vec::new();
    }
    let replicas = match track {
        Track::Render { replicas } | Track::Rescale { replicas } => replicas,
        Track::Remove => return Vec::new(),
    };
    let rendered = render(scene, workload::Track::Stable, &scene.stable, &scene.stable_references, replicas);
    let mut kept = Vec::new();
    match rendered {
        Ok(objects) => {
            for object in objects {
                kept.push(object.key());
                // Pods of the old template keep the tools that they were tried with, too.
                let is_of_variant = [Kind::DEPLOYMENT, Kind::CONFIG_MAP].contains(&object.key().kind);
                if is_of_variant && matches!(track, Track::Rescale { .. }) {
                    continue;
                }
                if let Some(Trouble { kind, is_refused, why }) = ensure(scene, object, workload) {
                    let (slot, failed) = if kind == Kind::SERVICE {
                        (&mut workload.troubles.service, "ServiceFailed")
                    } else {
                        (&mut workload.troubles.deployment, "DeploymentFailed")
                    };
                    *slot = Some((if is_refused { failed } else { "NameTaken" }, why));
                }
            }
            if matches!(track, Track::Rescale { .. }) {
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
            kept = workload::keys(&scene.key, workload::Track::Stable);
            rescale(scene, &scene.key.name, replicas, workload);
        }
    }
    kept
}

/// The candidate's Deployment and what belongs to it. Gives back the keys of what should live.
fn candidate(
    scene: &Scene<'_>,
    flight: Option<&Flight>,
    standing: &Standing,
    track: Track,
    workload: &mut Workload,
) -> Vec<ObjectKey> {
    let name = names::candidate_deployment(&scene.key.name);
    let key = ObjectKey::new(Kind::DEPLOYMENT, &scene.key.namespace, &name);
    match track {
        Track::Render { replicas } => {
            // While stable rolls to it, the spec itself is the candidate.
            let (variant, references) = match (standing, &scene.candidate, &scene.candidate_references) {
                (Standing::Promoting, _, _) => (&scene.stable, &scene.stable_references),
                (_, Some(variant), Some(references)) => (variant, references),
                _ => return Vec::new(),
            };
            if flight.is_none() || scene.squatter(&name).is_some() {
                return Vec::new();
            }
            match render(scene, workload::Track::Candidate, variant, references, replicas) {
                Ok(objects) => objects
                    .into_iter()
                    .map(|object| {
                        let key = object.key();
                        if let Some(trouble) = ensure(scene, object, workload) {
                            workload.troubles.candidate = Some(trouble.why);
                        }
                        key
                    })
                    .collect(),
                Err(_) => {
                    // Something that it names has gone: its pods stay, and the weight goes on following them.
                    rescale(scene, &name, replicas, workload);
                    candidate_objects(scene)
                }
            }
        }
        Track::Rescale { replicas } => {
            rescale(scene, &name, replicas, workload);
            candidate_objects(scene)
        }
        Track::Remove => {
            let Some(deployment) = &scene.candidate_deployment else { return Vec::new() };
            if !deployment.is_terminating {
                workload.down.push(Effect::Delete(key.clone(), deployment.uid.clone()));
            }
            // What its pods have mounted goes after them.
            candidate_objects(scene)
        }
    }
}

/// The objects of the candidate that live now.
fn candidate_objects(scene: &Scene<'_>) -> Vec<ObjectKey> {
    let own = workload::keys(&scene.key, workload::Track::Candidate);
    own.into_iter().filter(|key| scene.world.live_at(key).is_some()).collect()
}

/// Deletes what is ours and no track needs any more.
fn leftovers(scene: &Scene<'_>, stable: &[ObjectKey], candidate: &[ObjectKey], workload: &mut Workload) {
    for key in workload::keys(&scene.key, workload::Track::Candidate) {
        if key.kind == Kind::DEPLOYMENT || candidate.contains(&key) || stable.contains(&key) {
            continue;
        }
        if let Some(live) = scene.world.live_at(&key)
            && live.is_controlled_by(&scene.uid)
            && !live.is_terminating()
            && let Some(uid) = live.uid()
        {
            workload.gone.push(Effect::Delete(key, uid));
        }
    }
}

/// Why a track cannot be rendered: the condition that says so, its reason, and a sentence.
struct Obstacle {
    condition: &'static str,
    reason: &'static str,
    why: String,
}

impl From<&Missing> for Obstacle {
    fn from(missing: &Missing) -> Self {
        Self { condition: "DeploymentReady", reason: "DeploymentFailed", why: missing.message.clone() }
    }
}

fn render(
    scene: &Scene<'_>,
    track: workload::Track,
    variant: &Variant,
    references: &References,
    replicas: u32,
) -> Result<Vec<Object>, Obstacle> {
    let pack = references.pack.as_ref().map_err(Obstacle::from)?;
    let providers: Vec<ResolvedProvider<'_>> = match &references.providers {
        Checked::Found(found) => found
            .iter()
            .map(|(reference, provider)| ResolvedProvider {
                name: &reference.name,
                object: Some(provider),
                credential: workload::credential_secret(provider)
                    .and_then(|secret| scene.world.credentials.get(&secret)),
            })
            .collect(),
        Checked::NotServed => variant
            .providers
            .iter()
            .map(|reference| ResolvedProvider { name: &reference.name, object: None, credential: None })
            .collect(),
        Checked::Missing(missing) => return Err(missing.into()),
    };
    let registry = match &references.registry {
        Checked::Found(registry) => registry.as_deref(),
        // Stable goes on without its tools (reference 3.4); a candidate without its own never starts.
        Checked::NotServed | Checked::Missing(_) => None,
    };
    let url = |peer: AgentKey| workload::peer_url(scene.world.peer(&peer)?).map(|url| (peer, url));
    let a2a_peers: BTreeMap<AgentKey, String> = workload::peers(&scene.world.agent).filter_map(url).collect();
    // The API takes no more than an `int32`; beyond it, nobody waits for Kubernetes anyway.
    let deadline =
        i32::try_from(scene.progress_deadline().as_secs()).ok().and_then(|seconds| u32::try_from(seconds).ok());
    let deadline = deadline.filter(|seconds| *seconds > 0);
    let inputs = Inputs {
        agent: &scene.world.agent,
        track,
        pack,
        providers: &providers,
        tool_registry: registry,
        variant: &variant.digest,
        replicas: Some(replicas),
        progress_deadline_seconds: if track == workload::Track::Candidate { deadline } else { None },
        waypoint: None,
        a2a_peers: &a2a_peers,
        settings: &scene.world.settings,
    };
    workload::render(&inputs).map_err(|error| Obstacle {
        condition: error.condition(),
        reason: error.reason(),
        why: error.to_string(),
    })
}

/// Why a rendered object does not live as it should.
struct Trouble {
    kind: Kind,
    /// Refused by the server; otherwise the name is somebody else's.
    is_refused: bool,
    why: String,
}

/// Applies a rendered object if it differs from what lives. Gives back why it cannot live.
fn ensure(scene: &Scene<'_>, object: Object, workload: &mut Workload) -> Option<Trouble> {
    let key = object.key();
    let kind = key.kind.clone();
    if scene.is_foreign(&key) {
        let why = format!("a {key} is there that does not belong to this agent");
        return Some(Trouble { kind, is_refused: false, why });
    }
    let live = scene.world.live_at(&key);
    if live.is_some_and(|live| live.is_terminating()) {
        return None;
    }
    let before = live.and_then(|live| live.integer("/spec/replicas"));
    let after = object.integer("/spec/replicas");
    let only_pods = workload.may_wait && differs_in_pods_only(&object, live.map(AsRef::as_ref));
    let apply = apply(object, live.map(AsRef::as_ref), Part::Main)?;
    let refused = scene.world.refused.get(&key);
    if refused.is_none_or(|refused| refused.is_due) {
        workload.push(apply, before, after, only_pods);
    } else if let Some(replicas) = after.and_then(|after| u32::try_from(after).ok()) {
        // What the server refuses keeps the template that it has; pods still follow the weight.
        rescale(scene, &key.name, replicas, workload);
    }
    refused.map(|refused| Trouble { kind, is_refused: true, why: refused.why.clone() })
}

/// Changes the number of pods and nothing else, whatever the template: all other fields that are ours are applied as
/// they live.
fn rescale(scene: &Scene<'_>, name: &str, replicas: u32, workload: &mut Workload) {
    let Some(live) = scene.world.live(&Kind::DEPLOYMENT, name).filter(|live| live.is_controlled_by(&scene.uid)) else {
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

fn differs_in_pods_only(object: &Object, live: Option<&Object>) -> bool {
    let Some(live) = live else { return false };
    let mut same = object.clone();
    same.set(&["spec", "replicas"], live.at("/spec/replicas").cloned().unwrap_or(Value::Null));
    difference(&same, Some(live), FieldManager::Rollout, Part::Main) == Difference::None
}

/// The apply that makes `live` say what `desired` says; `None` if it does already.
pub(crate) fn apply(desired: Object, live: Option<&Object>, part: Part) -> Option<Effect> {
    if difference(&desired, live, FieldManager::Rollout, part) == Difference::None {
        return None;
    }
    let expect = live.and_then(Object::uid).map_or(Expect::Absent, Expect::Uid);
    Some(Effect::Apply(Box::new(Apply { object: desired, manager: FieldManager::Rollout, expect, part })))
}

/// The agent with its record annotation and nothing else; `None` if the annotation as it lives and the status as it will be
/// say as much together.
pub(crate) fn record_object(scene: &Scene<'_>, course: &Course, status: &Object) -> Option<Object> {
    let status = status.at("/status").unwrap_or(&Value::Null);
    if scene.written.clone().with_status(status).says_the_same(&course.record) {
        return None;
    }
    let mut object = Object::bare(&ObjectKey::agent(&scene.key));
    object.set(&["metadata", "annotations", names::RECORD_ANNOTATION], Value::from(course.record.render()));
    Some(object)
}
