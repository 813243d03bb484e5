//! The world, read: variants, references and Deployments of one agent as the decisions need them.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::duration::parse_duration;
use crate::api::{AgentRuntime, FieldError, Pause, Rollout, Step, TrafficMode, names};
use crate::ids::{AgentKey, Digest, Uid, Weight};
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::observed::Deployment;
use crate::rollout::reading::{Reading, Said};
use crate::rollout::record::{Delivery, Flight, Record};
use crate::rollout::references::References;
use crate::rollout::split::{Split, delivered, split};
use crate::rollout::variant::Variant;
use crate::rollout::world::{GitView, Origin, World};
use crate::writeback::plan::{base, trial};

/// Kubernetes' own default of `progressDeadlineSeconds`.
const DEFAULT_PROGRESS_DEADLINE: SignedDuration = SignedDuration::from_secs(600);

/// A readable agent with everything around it.
pub struct Scene<'a> {
    pub(crate) world: &'a World,
    pub(crate) now: Timestamp,
    /// The agent without its status and record.
    pub(crate) essence: &'a Arc<Object>,
    pub(crate) key: &'a AgentKey,
    pub(crate) uid: &'a Uid,
    /// The objects that a candidate may have.
    pub(crate) candidate_keys: &'a [ObjectKey],
    /// The other agents that it calls.
    pub(crate) peers: &'a [AgentKey],
    pub(crate) spec: &'a AgentRuntime,
    /// What the spec says, without the candidate.
    pub(crate) stable: &'a Variant,
    pub(crate) stable_references: &'a References,
    /// What the candidate in the spec says; `None` where there is none.
    pub(crate) candidate: Option<&'a Variant>,
    pub(crate) candidate_references: Option<&'a References>,
    /// The stable Deployment, if it is ours.
    pub(crate) stable_deployment: Option<Deployment>,
    /// The candidate's Deployment, if it is ours.
    pub(crate) candidate_deployment: Option<Deployment>,
    /// What the annotation says.
    pub(crate) written: &'a Record,
    /// What annotation and status say together.
    pub(crate) record: Cow<'a, Record>,
    /// What lives, with its names: they are looked up for each object.
    live: Vec<(&'a str, &'a Arc<Object>)>,
}

impl<'a> Scene<'a> {
    /// Reads a world. What `reading` knows of the one before is not read again.
    ///
    /// # Errors
    /// All fields of the spec that cannot be used.
    pub fn read(reading: &'a mut Reading, world: &'a World, now: Timestamp) -> Result<Self, Vec<FieldError>> {
        let (said, written) = reading.of(world)?;
        let Said { agent: essence, key, uid, candidate_keys, peers, spec, .. } = said;
        let mut scene = Self {
            world,
            now,
            essence,
            key,
            uid,
            candidate_keys,
            peers,
            spec,
            stable: &said.stable,
            stable_references: &said.stable_references,
            candidate: said.candidate.as_ref(),
            candidate_references: said.candidate_references.as_ref(),
            stable_deployment: None,
            candidate_deployment: None,
            written,
            record: written.with_status(world.agent.at("/status").unwrap_or(&Value::Null)),
            live: world.live.iter().map(|object| (object.name(), object)).collect(),
        };
        let own = |name: &str| {
            let live = scene.live(&Kind::DEPLOYMENT, name).filter(|live| live.is_controlled_by(uid));
            live.map(|live| Deployment::read(live))
        };
        let (stable, candidate) = (own(&key.name), own(&names::candidate_deployment(&key.name)));
        (scene.stable_deployment, scene.candidate_deployment) = (stable, candidate);
        Ok(scene)
    }

    /// The live object under `name` in the agent's namespace.
    pub(crate) fn live(&self, kind: &Kind, name: &str) -> Option<&'a Arc<Object>> {
        self.live.iter().find(|(other, object)| *other == name && object.is_of(kind)).map(|(_, object)| *object)
    }

    /// The live object that `key` names.
    pub(crate) fn live_at(&self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.live.iter().find(|(name, object)| *name == key.name && object.is_named_by(key)).map(|(_, object)| *object)
    }

    /// Who sits on one of the agent's Deployment names without being this agent's: a name is checked before anything
    /// under it is written or deleted.
    pub(crate) fn squatter(&self, deployment: &str) -> Option<String> {
        let other = AgentKey::new(&self.key.namespace, deployment);
        if other != *self.key && self.live_at(&ObjectKey::agent(&other)).is_some() {
            return Some(format!("the name {deployment} belongs to the AgentRuntime {other}"));
        }
        let is_foreign = self.live(&Kind::DEPLOYMENT, deployment).is_some_and(|live| !live.is_controlled_by(self.uid));
        is_foreign.then(|| format!("a Deployment {deployment} is there that does not belong to this agent"))
    }

    /// `status` as it lives.
    pub(crate) fn live_status(&self) -> &'a Value {
        self.world.agent.at("/status").unwrap_or(&Value::Null)
    }

    pub(crate) fn rollout(&self) -> Option<&'a Rollout> {
        self.spec.rollout.as_ref()
    }

    pub(crate) fn steps(&self) -> &'a [Step] {
        self.rollout().map(|rollout| rollout.steps.as_slice()).unwrap_or_default()
    }

    /// `spec.rollout.steps` as it stands in the object.
    pub(crate) fn steps_spec(&self) -> &'a Value {
        self.world.agent.at("/spec/rollout/steps").unwrap_or(&Value::Null)
    }

    /// The object that a decision is about: the manifest where there is one.
    fn decided_object(&self) -> &Object {
        match &self.world.origin {
            // What is in git and not applied was never tried: a decision is never about that.
            Origin::Git(GitView { synced: Some(_), manifest: Some(manifest), .. }) => manifest,
            Origin::Git(_) | Origin::ByHand => &self.world.agent,
        }
    }

    /// `spec.rollout.candidate` as a decision names it.
    pub(crate) fn decided_candidate(&self) -> Value {
        self.decided_object().at("/spec/rollout/candidate").cloned().unwrap_or(Value::Null)
    }

    /// The overridable fields of the spec as a decision names them, those that are set.
    pub(crate) fn decided_base(&self) -> Value {
        base(self.decided_object().at("/spec").unwrap_or(&Value::Null))
    }

    /// How the candidate is tried, as a decision names it.
    pub(crate) fn decided_trial(&self) -> Value {
        trial(self.decided_object().at("/spec").unwrap_or(&Value::Null))
    }

    /// How weight reaches the pods, or why it cannot.
    pub(crate) fn delivery(&self) -> Result<Delivery, String> {
        let Some(routing) = self.rollout().and_then(|rollout| rollout.traffic_routing.as_ref()) else {
            return Ok(Delivery::Unrouted);
        };
        match (routing.mode, routing.has_istio) {
            (Some(TrafficMode::Mesh), _) => {
                Err("trafficRouting.mode mesh is not supported by this version of Serin".into())
            }
            (Some(TrafficMode::External), _) | (None, true) => {
                Err("trafficRouting.mode external is not supported by this version of Serin".into())
            }
            (Some(TrafficMode::ReplicaWeighted) | None, _) => Ok(Delivery::ReplicaWeighted),
        }
    }

    /// The pods that the agent is meant to have in all.
    pub(crate) fn total(&self, flight: Option<&Flight>) -> u32 {
        if !self.spec.is_autoscaled {
            return self.spec.total_replicas();
        }
        let known = match flight {
            // What stable has in flight is what is left to it. Where the autoscaler came later, the spec said it before.
            Some(flight) => flight.autoscaled_total,
            None => match (&self.stable_deployment, &self.candidate_deployment) {
                (Some(stable), Some(candidate)) => Some(self.total_of_a_lost_record(stable.wanted, candidate.wanted)),
                (stable, _) => stable.as_ref().map(|stable| stable.wanted),
            },
        };
        known.unwrap_or_else(|| self.spec.total_replicas())
    }

    /// The pods in all of a candidate without a rollout, which is one whose record was lost.
    ///
    /// From the two Deployments alone it cannot be told: one that gave pods to the other has both together, and unrouted, or
    /// with stable on its way to be promoted or to come back, each has all of them. It is as many as the larger one has at
    /// least, and as both have at most; between those, `status.replicas.desired` says it, which outlives the record. Without
    /// it, the larger one: too few pods are what the autoscaler mends by itself, and too many would grow from pass to pass.
    fn total_of_a_lost_record(&self, stable: u32, candidate: u32) -> u32 {
        let told = self.live_status()["replicas"]["desired"].as_u64().and_then(|desired| u32::try_from(desired).ok());
        let least = stable.max(candidate);
        told.map_or(least, |told| told.clamp(least, stable.saturating_add(candidate)))
    }

    /// The pods that a weight asks for. An agent that is scaled to zero is tried with one pod of the candidate, and gets
    /// none of stable.
    pub(crate) fn split(&self, flight: &Flight, weight: Weight) -> Split {
        let total = self.total(Some(flight));
        match flight.delivery {
            Delivery::ReplicaWeighted => {
                let split = split(total.max(1), weight);
                Split { stable: split.stable.min(total), ..split }
            }
            Delivery::Unrouted => Split { candidate: total.max(1), stable: total },
        }
    }

    /// Available pods of the candidate on trial.
    pub(crate) fn candidate_available(&self) -> u32 {
        self.candidate_deployment.as_ref().map_or(0, |deployment| deployment.available)
    }

    /// Whether nothing of the candidate runs any more: its Deployment is gone, or it has no pods and may not be deleted.
    pub(crate) fn is_candidate_gone(&self) -> bool {
        let Some(deployment) = &self.candidate_deployment else { return true };
        let name = names::candidate_deployment(&self.key.name);
        let has_no_pods = deployment.is_observed && deployment.wanted == 0 && deployment.pods == 0;
        has_no_pods && self.world.undeletable.contains_key(&ObjectKey::new(Kind::DEPLOYMENT, &self.key.namespace, name))
    }

    /// The weight that available pods deliver now: of all those that run `candidate`, whichever track they are on.
    pub(crate) fn delivered(&self, candidate: Option<&Digest>) -> Weight {
        let Some(candidate) = candidate else { return Weight::ZERO };
        let stable = self.stable_deployment.as_ref();
        let promoted = stable.map_or(0, |stable| stable.available_of(candidate));
        let others = stable.map_or(0, |stable| stable.available) - promoted;
        delivered(self.candidate_available() + promoted, others)
    }

    /// How long the candidate may make no progress towards its pods.
    pub(crate) fn progress_deadline(&self) -> SignedDuration {
        self.world
            .agent
            .annotation(names::PROGRESS_DEADLINE_ANNOTATION)
            .and_then(|text| parse_duration(text).ok())
            .filter(|deadline| !deadline.is_zero())
            .unwrap_or(DEFAULT_PROGRESS_DEADLINE)
    }

    /// The version label of the candidate (reference 2.2).
    pub(crate) fn candidate_version(&self) -> String {
        let Some(candidate) = &self.candidate else { return self.stable.version.clone().unwrap_or_default() };
        let reference = &candidate.pack;
        reference
            .version
            .clone()
            .or_else(|| reference.track.map(|track| track.as_str().to_owned()))
            .unwrap_or_else(|| reference.name.clone())
    }

    /// The version that stable runs and has been healthy with; empty before the first time.
    pub(crate) fn active_version(&self) -> &str {
        self.world.agent.text("/status/activeVersion").unwrap_or_default()
    }

    /// Whether stable runs the spec with all its pods.
    pub(crate) fn is_stable_complete(&self) -> bool {
        self.stable_deployment.as_ref().is_some_and(|deployment| deployment.is_complete(&self.stable.digest))
    }
}

/// The weight in effect at `step`: of the last `setWeight` up to it, 0 before the first.
///
/// A function of the step alone, so that neither a pause that ends nor an analysis can change it.
pub(crate) fn weight_at(steps: &[Step], step: usize) -> Weight {
    steps
        .iter()
        .take(step + 1)
        .rev()
        .find_map(|step| match step {
            Step::SetWeight(weight) => Some(*weight),
            Step::Pause(_) | Step::Analysis { .. } => None,
        })
        .unwrap_or(Weight::ZERO)
}

/// The metric label of a step.
pub(crate) fn step_type(step: &Step) -> &'static str {
    match step {
        Step::SetWeight(_) => "setWeight",
        Step::Pause(_) => "pause",
        Step::Analysis { .. } => "analysis",
    }
}

/// What a step says, for people: `setWeight 50`.
pub(crate) fn step_text(step: &Step) -> String {
    match step {
        Step::SetWeight(weight) => format!("setWeight {weight}"),
        Step::Pause(Pause::For(duration)) => format!("pause {}", crate::api::duration::render_duration(*duration)),
        Step::Pause(Pause::Indefinite) => "paused indefinitely".to_owned(),
        Step::Analysis { template, .. } => format!("analysis {template}"),
    }
}
