//! The objects that an agent runs as: rendered once, and again when what they are made from changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::apply::{Difference, difference, is_same_but_status};
use crate::cluster::{FieldManager, Part};
use crate::ids::{AgentKey, Digest};
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::references::{Checked, Missing, References};
use crate::rollout::scene::Scene;
use crate::rollout::variant::Variant;
use crate::workload::{self, Inputs, ResolvedProvider, Track, WorkloadSettings};

/// What both tracks were rendered to last.
#[derive(Debug, Default)]
pub(crate) struct Rendering {
    stable: Option<Batch>,
    candidate: Option<Batch>,
}

/// The objects of a track, beside everything that they were made from.
#[derive(Debug)]
struct Batch {
    ingredients: Ingredients,
    rendered: Result<Vec<Rendered>, Obstacle>,
}

/// Everything that the objects of a track are made from, but for the number of pods.
#[derive(Debug, PartialEq, Eq)]
struct Ingredients {
    /// Without status and record.
    agent: Arc<Object>,
    track: Track,
    pack: Arc<Object>,
    providers: Vec<Provider>,
    tool_registry: Option<Arc<Object>>,
    variant: Digest,
    progress_deadline_seconds: Option<u32>,
    peers: BTreeMap<AgentKey, String>,
    settings: Arc<WorkloadSettings>,
}

#[derive(Debug, PartialEq, Eq)]
struct Provider {
    name: String,
    object: Option<Arc<Object>>,
    credential: Option<Digest>,
}

/// Why a track cannot be rendered: the condition that says so, its reason, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) why: String,
}

impl From<&Missing> for Obstacle {
    fn from(missing: &Missing) -> Self {
        Self { condition: "DeploymentReady", reason: "DeploymentFailed", why: missing.message.clone() }
    }
}

/// A rendered object.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) key: ObjectKey,
    pub(crate) object: Object,
    /// The live object that said all that this one does.
    same_as: Option<Arc<Object>>,
}

impl Rendering {
    /// The objects of `track` with these pods, in the order in which they are to be applied.
    pub(crate) fn of(
        &mut self,
        scene: &Scene<'_>,
        track: Track,
        variant: &Variant,
        references: &References,
        replicas: u32,
    ) -> Result<&mut [Rendered], Obstacle> {
        let ingredients = Ingredients::of(scene, track, variant, references)?;
        let slot = match track {
            Track::Stable => &mut self.stable,
            Track::Candidate => &mut self.candidate,
        };
        let batch = slot.take().filter(|batch| batch.ingredients == ingredients);
        let batch = slot.insert(batch.unwrap_or_else(|| Batch { rendered: ingredients.render(), ingredients }));
        let rendered = batch.rendered.as_mut().map_err(|obstacle| obstacle.clone())?;
        rendered.iter_mut().for_each(|rendered| rendered.scale(replicas));
        Ok(rendered)
    }
}

impl Ingredients {
    fn of(scene: &Scene<'_>, track: Track, variant: &Variant, references: &References) -> Result<Self, Obstacle> {
        let pack = references.pack.as_ref().map_err(Obstacle::from)?;
        let providers = match &references.providers {
            Checked::Found(found) => found
                .iter()
                .map(|(reference, provider)| Provider {
                    name: reference.name.clone(),
                    object: Some(Arc::clone(provider)),
                    credential: workload::credential_secret(provider)
                        .and_then(|secret| scene.world.credentials.get(&secret).cloned()),
                })
                .collect(),
            Checked::NotServed => variant
                .providers
                .iter()
                .map(|reference| Provider { name: reference.name.clone(), object: None, credential: None })
                .collect(),
            Checked::Missing(missing) => return Err(missing.into()),
        };
        let url = |peer: &AgentKey| workload::peer_url(scene.world.peer(peer)?).map(|url| (peer.clone(), url));
        // The API takes no more than an `int32`; beyond it, nobody waits for Kubernetes anyway.
        let deadline =
            i32::try_from(scene.progress_deadline().as_secs()).ok().and_then(|seconds| u32::try_from(seconds).ok());
        Ok(Self {
            agent: Arc::clone(scene.essence),
            track,
            pack: Arc::clone(pack),
            providers,
            tool_registry: match &references.registry {
                Checked::Found(registry) => registry.clone(),
                // Stable goes on without its tools (reference 3.4); a candidate without its own never starts.
                Checked::NotServed | Checked::Missing(_) => None,
            },
            variant: variant.digest.clone(),
            progress_deadline_seconds: deadline.filter(|seconds| *seconds > 0 && track == Track::Candidate),
            peers: scene.peers.iter().filter_map(url).collect(),
            settings: Arc::clone(&scene.world.settings),
        })
    }

    /// Renders the objects. How many pods there are is said afterwards ([`Rendered::scale`]).
    fn render(&self) -> Result<Vec<Rendered>, Obstacle> {
        let providers: Vec<ResolvedProvider<'_>> = self
            .providers
            .iter()
            .map(|Provider { name, object, credential }| ResolvedProvider {
                name,
                object: object.as_deref(),
                credential: credential.as_ref(),
            })
            .collect();
        let rendered = workload::render(&Inputs {
            agent: &self.agent,
            track: self.track,
            pack: &self.pack,
            providers: &providers,
            tool_registry: self.tool_registry.as_deref(),
            variant: &self.variant,
            replicas: None,
            progress_deadline_seconds: self.progress_deadline_seconds,
            waypoint: None,
            a2a_peers: &self.peers,
            settings: &self.settings,
        });
        let objects = rendered.map_err(|error| Obstacle {
            condition: error.condition(),
            reason: error.reason(),
            why: error.to_string(),
        })?;
        Ok(objects.into_iter().map(|object| Rendered { key: object.key(), object, same_as: None }).collect())
    }
}

impl Rendered {
    /// Whether it, or what it names, is different from one variant of the agent to the other.
    pub(crate) fn is_of_variant(&self) -> bool {
        [Kind::DEPLOYMENT, Kind::CONFIG_MAP].contains(&self.key.kind)
    }

    /// What an apply would change in what lives.
    pub(crate) fn difference(&mut self, live: Option<&Arc<Object>>) -> Difference {
        let is_known = |known: &Arc<Object>, live| Arc::ptr_eq(known, live) || is_same_but_status(known, live);
        let found = match (&self.same_as, live) {
            (Some(known), Some(live)) if is_known(known, live) => Difference::None,
            _ => difference(&self.object, live.map(AsRef::as_ref), FieldManager::Rollout, Part::Main),
        };
        self.same_as = live.filter(|_| found == Difference::None).cloned();
        found
    }

    fn scale(&mut self, replicas: u32) {
        if self.key.kind == Kind::DEPLOYMENT && self.object.integer("/spec/replicas") != Some(replicas.into()) {
            self.object.set(&["spec", "replicas"], replicas);
            self.same_as = None;
        }
    }
}
