//! What an agent's spec says, with what it names, and what its record says: read once, and again when it changes.

use std::sync::Arc;

use crate::api::{AgentRuntime, FieldError, names};
use crate::ids::{AgentKey, Uid};
use crate::object::{Object, ObjectKey};
use crate::rollout::essence::{essence, is_same_essence};
use crate::rollout::record::Record;
use crate::rollout::references::{Catalog, References};
use crate::rollout::variant::Variant;
use crate::rollout::world::World;
use crate::workload::{self, Track};

/// What was read last.
#[derive(Debug, Default)]
pub struct Reading {
    agent: Option<Arc<Object>>,
    said: Option<Said>,
    record: Option<Written>,
}

/// What a spec says, beside everything that it was read from.
#[derive(Debug)]
pub(crate) struct Said {
    /// The agent's essence.
    pub(crate) agent: Arc<Object>,
    /// What there is to be named.
    catalog: Catalog,
    pub(crate) key: AgentKey,
    pub(crate) uid: Uid,
    /// The objects that a candidate of it may have.
    pub(crate) candidate_keys: Vec<ObjectKey>,
    /// The other agents that it calls.
    pub(crate) peers: Vec<AgentKey>,
    pub(crate) spec: AgentRuntime,
    pub(crate) stable: Variant,
    pub(crate) stable_references: References,
    pub(crate) candidate: Option<Variant>,
    pub(crate) candidate_references: Option<References>,
}

/// A record, beside the annotation that it was read from.
#[derive(Debug)]
struct Written {
    annotation: Option<String>,
    record: Record,
}

impl Reading {
    /// What the spec of `world` says, and what its record does.
    ///
    /// # Errors
    /// All fields of the spec that cannot be used.
    pub(crate) fn of(&mut self, world: &World) -> Result<(&Said, &Record), Vec<FieldError>> {
        let agent = match self.agent.take() {
            Some(known) if is_same_essence(&known, &world.agent) => known,
            _ => Arc::new(essence(&world.agent)),
        };
        let said = match self.said.take() {
            Some(said) if said.agent == agent && said.catalog.is_of(world) => said,
            _ => Said::read(Arc::clone(&agent), Catalog::of(world))?,
        };
        let annotation = world.agent.annotation(names::RECORD_ANNOTATION);
        let written = match self.record.take() {
            Some(written) if written.annotation.as_deref() == annotation => written,
            _ => Written { annotation: annotation.map(str::to_owned), record: Record::parse(annotation) },
        };
        self.agent = Some(agent);
        Ok((self.said.insert(said), &self.record.insert(written).record))
    }
}

impl Said {
    fn read(agent: Arc<Object>, catalog: Catalog) -> Result<Self, Vec<FieldError>> {
        let spec = AgentRuntime::read(&agent)?;
        let namespace = agent.namespace();
        let packs: Vec<&Object> = catalog.packs.iter().map(AsRef::as_ref).collect();
        let stable = Variant::of_spec(&spec, namespace, &packs);
        let candidate = spec
            .rollout
            .as_ref()
            .and_then(|rollout| rollout.candidate.as_ref())
            .map(|candidate| Variant::of_candidate(&spec, candidate, namespace, &packs));
        let key = AgentKey::new(namespace, agent.name());
        Ok(Self {
            stable_references: References::resolve(&catalog, namespace, &stable),
            candidate_references: candidate.as_ref().map(|variant| References::resolve(&catalog, namespace, variant)),
            candidate_keys: workload::keys(&key, Track::Candidate),
            peers: workload::peers(&agent).collect(),
            uid: agent.uid().unwrap_or_else(|| Uid::new("")),
            key,
            spec,
            stable,
            candidate,
            catalog,
            agent,
        })
    }
}
