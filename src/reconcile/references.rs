//! Who refers to what: which agents have to be looked at again when something changes that is not their own.
//!
//! Each agent is looked at after a start, and its look notes what it refers to, so this fills itself. It takes a change to
//! the agents that it bears on without a look at all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::observe::PACK_NAME;
use crate::reconcile::{Core, PassError};
use crate::workload;

/// What an agent refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Referent {
    /// All versions of a prompt pack: namespace and `spec.packName`.
    Pack(String, String),
    /// One object: another agent that it calls, a Provider, a credential, a ToolRegistry.
    Object(ObjectKey),
}

/// Who refers to what.
#[derive(Default)]
pub(super) struct References {
    /// Almost always few, each once, so a list takes the least room.
    referrers: BTreeMap<Arc<Referent>, Vec<AgentKey>>,
    referents: BTreeMap<AgentKey, Vec<Arc<Referent>>>,
}

impl References {
    /// From now on, `agent` refers to these, whatever it referred to before. Says whether any of them is new.
    fn note(&mut self, agent: &AgentKey, referents: BTreeSet<Referent>) -> bool {
        let mut is_more = false;
        let before = self.referents.remove(agent).unwrap_or_default();
        for gone in before.iter().filter(|before| !referents.contains(before.as_ref())) {
            if let Some(known) = self.referrers.get_mut(gone) {
                known.retain(|referrer| referrer != agent);
                if known.is_empty() {
                    self.referrers.remove(gone);
                }
            }
        }
        let mut noted = Vec::with_capacity(referents.len());
        for referent in referents {
            let referent = match before.iter().find(|before| ***before == referent) {
                Some(known) => Arc::clone(known),
                None => {
                    is_more = true;
                    let referent = Arc::new(referent);
                    let referrers = self.referrers.entry(Arc::clone(&referent)).or_default();
                    referrers.reserve_exact(1);
                    referrers.push(agent.clone());
                    referent
                }
            };
            noted.push(referent);
        }
        if !noted.is_empty() {
            self.referents.insert(agent.clone(), noted);
        }
        is_more
    }

    fn to(&self, referent: &Referent) -> BTreeSet<AgentKey> {
        self.referrers.get(referent).into_iter().flatten().cloned().collect()
    }
}

impl Core {
    /// Notes what an agent refers to, and no more what it referred to before. Says whether any of it is new: what changed
    /// there before it was noted has not woken the agent.
    pub(super) fn note_references(&self, agent: &AgentKey, referents: BTreeSet<Referent>) -> bool {
        self.references().note(agent, referents)
    }

    /// `agent` is gone: it refers to nothing.
    pub(super) fn forget_references(&self, agent: &AgentKey) {
        let _ = self.note_references(agent, BTreeSet::new());
    }

    /// The agents that refer to an object.
    pub(super) fn referrers_of(&self, object: &ObjectKey) -> BTreeSet<AgentKey> {
        self.references().to(&Referent::Object(object.clone()))
    }

    /// The agents that refer to the pack which has `changed` as one of its versions, or did so when they were looked at.
    pub(super) async fn referrers_of_pack(&self, changed: &ObjectKey) -> Result<BTreeSet<AgentKey>, PassError> {
        let pack = self.get(changed).await?;
        let name = pack.as_ref().and_then(|pack| pack.text(PACK_NAME));
        let references = self.references();
        let mut agents = references.to(&Referent::Object(changed.clone()));
        if let Some(name) = name {
            agents.extend(references.to(&Referent::Pack(changed.namespace.clone(), name.to_owned())));
        }
        Ok(agents)
    }

    fn references(&self) -> MutexGuard<'_, References> {
        // A pass that panicked holds it no longer than an insertion.
        self.references.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names by which an agent refers to others, each once. What they lead to (the versions of a pack, the credential of a
/// Provider) is not read for that.
pub(super) fn referents_of(agent: &Object) -> Named {
    let mut named = Named::default();
    let namespace = agent.namespace();
    for place in ["/spec/promptPackRef/name", "/spec/rollout/candidate/promptPackRef/name"] {
        named.packs.extend(agent.text(place).map(str::to_owned));
    }
    let lists = ["/spec/providers", "/spec/rollout/candidate/providerRefs"];
    let items = lists.iter().filter_map(|place| agent.at(place)?.as_array()).flatten();
    let providers = items.filter_map(|item| item.get("providerRef"));
    let registries = ["/spec/toolRegistryRef", "/spec/rollout/candidate/toolRegistryRef"];
    let registries = registries.iter().filter_map(|place| agent.at(place));
    let key = |kind: Kind, reference: &serde_json::Value| {
        let text = |field| reference.get(field).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty());
        Some(ObjectKey::new(kind, text("namespace").unwrap_or(namespace), text("name")?))
    };
    named.providers = providers.filter_map(|reference| key(Kind::PROVIDER, reference)).collect();
    named.tool_registries = registries.filter_map(|reference| key(Kind::TOOL_REGISTRY, reference)).collect();
    named.peers = workload::peers(agent).map(|peer| ObjectKey::agent(&peer)).collect();
    named
}

/// What an agent names.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// `spec.packName` of packs in its own namespace.
    pub(super) packs: BTreeSet<String>,
    pub(super) providers: BTreeSet<ObjectKey>,
    pub(super) tool_registries: BTreeSet<ObjectKey>,
    /// The agents that it calls.
    pub(super) peers: BTreeSet<ObjectKey>,
}

impl Named {
    /// All of it, for an agent of `namespace`.
    pub(super) fn referents(&self, namespace: &str) -> BTreeSet<Referent> {
        let packs = self.packs.iter().map(|name| Referent::Pack(namespace.to_owned(), name.clone()));
        let objects = self.providers.iter().chain(&self.tool_registries).chain(&self.peers);
        packs.chain(objects.cloned().map(Referent::Object)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentKey {
        AgentKey::new("shop", name)
    }

    fn pack(name: &str) -> Referent {
        Referent::Pack("shop".to_owned(), name.to_owned())
    }

    fn provider(name: &str) -> Referent {
        Referent::Object(ObjectKey::new(Kind::PROVIDER, "models", name))
    }

    fn names(agents: BTreeSet<AgentKey>) -> Vec<String> {
        agents.into_iter().map(|agent| agent.name).collect()
    }

    #[test]
    fn a_change_leads_to_those_who_refer_to_it_now() {
        let mut references = References::default();
        assert!(references.note(&agent("a"), [pack("one"), provider("big")].into()));
        assert!(references.note(&agent("b"), [pack("one")].into()));
        assert!(!references.note(&agent("b"), [pack("one")].into()));
        assert_eq!(names(references.to(&pack("one"))), ["a", "b"]);
        assert_eq!(names(references.to(&provider("big"))), ["a"]);
        references.note(&agent("a"), [pack("two"), provider("big")].into());
        assert_eq!(names(references.to(&pack("one"))), ["b"]);
        assert_eq!(names(references.to(&pack("two"))), ["a"]);
        references.note(&agent("a"), BTreeSet::new());
        references.note(&agent("b"), BTreeSet::new());
        assert!(references.referrers.is_empty() && references.referents.is_empty(), "nothing is kept of who is gone");
    }
}
