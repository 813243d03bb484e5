//! Everything about one agent that the engine wants to know, read from the shared watches.

use std::sync::Arc;

use crate::api::names;
use crate::cluster::ClusterError;
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::{Core, PassError};
use crate::rollout::{Origin, World};
use crate::workload::{self, Track};

impl Core {
    pub(super) async fn observe(
        &self,
        agent: &AgentKey,
        live: Arc<Object>,
        origin: Origin,
    ) -> Result<World, PassError> {
        let mut own = Vec::new();
        let names = [Track::Stable, Track::Candidate].into_iter().flat_map(|track| workload::keys(agent, track));
        // Another agent may be called as this one's candidate is.
        let namesake = ObjectKey::agent(&AgentKey::new(&agent.namespace, names::candidate_deployment(&agent.name)));
        for key in names.chain([namesake]) {
            own.extend(match self.get(&key).await? {
                None if is_needed(&key, agent, &live) => self.cluster.look(&key).await?,
                seen => seen,
            });
        }
        let providers = self
            .referenced(&live, &Kind::PROVIDER, &["/spec/providers", "/spec/rollout/candidate/providerRefs"])
            .await?;
        Ok(World {
            origin,
            // Without its CRD nothing is known about packs, which is not the same as that there are none.
            packs: self.packs(&live).await?,
            credentials: self.credentials(providers.as_deref().unwrap_or_default()).await?,
            providers,
            peers: self.peers(agent, &live).await?,
            tool_registries: self
                .referenced(
                    &live,
                    &Kind::TOOL_REGISTRY,
                    &["/spec/toolRegistryRef", "/spec/rollout/candidate/toolRegistryRef"],
                )
                .await?,
            live: own,
            refused: self.refused(agent),
            story: self.story(agent),
            settings: Arc::clone(&self.options.workload),
            agent: live,
        })
    }

    /// All versions of the packs that the agent names. Those of others are many, and nothing to it.
    async fn packs(&self, agent: &Object) -> Result<Vec<Arc<Object>>, PassError> {
        let places = ["/spec/promptPackRef/name", "/spec/rollout/candidate/promptPackRef/name"];
        let names = places.map(|place| agent.text(place));
        let mut packs = self.cluster.list(&Kind::PROMPT_PACK, Some(agent.namespace())).await?;
        packs.retain(|pack| pack.text("/spec/packName").is_some_and(|name| names.contains(&Some(name))));
        Ok(packs)
    }

    pub(super) async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, PassError> {
        match self.cluster.get(key).await {
            Err(ClusterError::NotServed { .. }) => Ok(None),
            other => Ok(other?),
        }
    }

    /// The objects of a kind that the agent refers to at these places; `None` where the kind is not served.
    async fn referenced(
        &self,
        agent: &Object,
        kind: &Kind,
        places: &[&str],
    ) -> Result<Option<Vec<Arc<Object>>>, PassError> {
        if !self.cluster.serves(kind).await? {
            return Ok(None);
        }
        let mut found = Vec::new();
        for value in places.iter().filter_map(|place| agent.at(place)) {
            let references = match value.as_array() {
                Some(items) => items.iter().filter_map(|item| item.get("providerRef")).collect(),
                None => vec![value],
            };
            for reference in references {
                let text =
                    |field| reference.get(field).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty());
                let Some(name) = text("name") else { continue };
                let key = ObjectKey::new(kind.clone(), text("namespace").unwrap_or_else(|| agent.namespace()), name);
                found.extend(self.get(&key).await?);
            }
        }
        Ok(Some(found))
    }
}

/// Whether the agent needs an object of this name now: then it matters whether it is really absent, or there and somebody
/// else's, so that watches for our label do not show it. Once the agent has it, no request is spent on it.
fn is_needed(key: &ObjectKey, agent: &AgentKey, live: &Object) -> bool {
    if key.kind == Kind::CONFIG_MAP || key.kind == Kind::AGENT_RUNTIME {
        // All of them are watched.
        return false;
    }
    let is_candidates = key.kind == Kind::DEPLOYMENT && key.name == names::candidate_deployment(&agent.name);
    !is_candidates || live.at("/spec/rollout/candidate").is_some()
}
