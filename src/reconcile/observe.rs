//! Everything about one agent that the engine wants to know, read from the shared watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::names;
use crate::cluster::ClusterError;
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::memory::Asked;
use crate::reconcile::references::{Referent, referents_of};
use crate::reconcile::{Core, PassError};
use crate::rollout::{Origin, World};
use crate::workload::{self, Track};

/// Where a PromptPack says of which pack it is a version.
pub(super) const PACK_NAME: &str = "/spec/packName";

impl Core {
    pub(super) async fn observe(
        &self,
        agent: &AgentKey,
        live: Arc<Object>,
        origin: Origin,
    ) -> Result<World, PassError> {
        let mut own = Vec::new();
        // Asked first: a watch that works again in between has not told everything yet when these are read.
        let deployments_are_current = self.cluster.is_current(&Kind::DEPLOYMENT, &agent.namespace);
        let names = [Track::Stable, Track::Candidate].into_iter().flat_map(|track| workload::keys(agent, track));
        // Another agent may be called as this one's candidate is.
        let namesake = ObjectKey::agent(&AgentKey::new(&agent.namespace, names::candidate_deployment(&agent.name)));
        for key in names.chain([namesake]) {
            own.extend(match self.get(&key).await? {
                None if is_needed(&key, agent, &live) => self.cluster.look(&key).await?,
                seen => seen,
            });
        }
        let named = referents_of(&live);
        let (packs, providers) = loop {
            let packs = self.packs(live.namespace(), &named.packs).await?;
            let providers = self.referenced(&Kind::PROVIDER, &named.providers).await?;
            let secrets = providers.iter().flatten().filter_map(|provider| workload::credential_secret(provider));
            let read = packs.iter().map(|pack| pack.key()).chain(secrets).map(Referent::Object);
            let referents = named.referents(live.namespace()).into_iter().chain(read).collect();
            // What is noted before it is read wakes this agent when it changes; of what is new, nobody knows that it has not
            // changed in between.
            if !self.note_references(agent, referents) {
                break (packs, providers);
            }
        };
        let known = providers.as_deref().unwrap_or_default();
        Ok(World {
            origin,
            packs,
            credentials: self.credentials(known).await?,
            providers,
            peers: self.all_of(&named.peers).await?,
            tool_registries: self.referenced(&Kind::TOOL_REGISTRY, &named.tool_registries).await?,
            live: own,
            deployments_are_current,
            refused: self.refused(agent, Asked::Apply),
            undeletable: self.refused(agent, Asked::Delete),
            story: self.story(agent),
            settings: Arc::clone(&self.options.workload),
            agent: live,
        })
    }

    /// All versions of the packs that an agent names, by their keys. Those of others are many, and nothing to it.
    async fn packs(&self, namespace: &str, names: &BTreeSet<String>) -> Result<Vec<Arc<Object>>, PassError> {
        let mut packs = Vec::new();
        for name in names {
            // Without its CRD nothing is known about packs, which is not the same as that there are none.
            packs.extend(self.cluster.list_where(&Kind::PROMPT_PACK, namespace, PACK_NAME, name).await?);
        }
        packs.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(packs)
    }

    pub(super) async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, PassError> {
        match self.cluster.get(key).await {
            Err(ClusterError::NotServed { .. }) => Ok(None),
            other => Ok(other?),
        }
    }

    /// Those of these objects that are there; `None` where their kind is not served.
    async fn referenced(&self, kind: &Kind, keys: &BTreeSet<ObjectKey>) -> Result<Option<Vec<Arc<Object>>>, PassError> {
        if !self.cluster.serves(kind).await? {
            return Ok(None);
        }
        self.all_of(keys).await.map(Some)
    }

    async fn all_of(&self, keys: &BTreeSet<ObjectKey>) -> Result<Vec<Arc<Object>>, PassError> {
        let mut found = Vec::new();
        for key in keys {
            found.extend(self.get(key).await?);
        }
        Ok(found)
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
