//! Whose objects are: what the sources say and what the cluster says, put before [`Claimants`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::apply::{Claimant, Claimants, Owner, SyncPlan, tracked_by};
use crate::ids::{AgentKey, CommitSha, SourceName};
use crate::object::{Object, ObjectKey};
use crate::reconcile::source::{Loaded, Source};
use crate::reconcile::{Core, Key, PassError};
use crate::telemetry::event;

/// The sources as they are at one moment, in the order of the settings.
pub(super) struct Views<'a>(Vec<View<'a>>);

struct View<'a> {
    source: &'a Source,
    loaded: Option<Arc<Loaded>>,
    is_behind: bool,
}

impl Views<'_> {
    /// The same for the decision.
    pub(super) fn claimants(&self) -> Claimants<'_> {
        Claimants(self.0.iter().map(View::claimant).collect())
    }
}

impl View<'_> {
    fn claimant(&self) -> Claimant<'_> {
        Claimant {
            source: &self.source.options.name,
            adopts_from: &self.source.options.adopt_from,
            rules: &self.source.options.rules,
            desired: self.loaded.as_ref().map(|loaded| &loaded.desired),
            was_asked: self.source.was_asked(),
            is_behind: self.is_behind,
        }
    }
}

impl Core {
    /// The sources as they are now, where `about` is the one that is synced to a commit.
    pub(super) fn views(&self, about: &Source, commit: Option<&CommitSha>) -> Views<'_> {
        let view = |name: &SourceName| {
            let source = self.sources.get(name)?.as_ref();
            let loaded = source.loaded();
            let is_elsewhere =
                loaded.as_ref().is_some_and(|loaded| commit.is_some_and(|commit| loaded.commit != *commit));
            Some(View { source, is_behind: is_elsewhere && source.is_sibling_of(about), loaded })
        };
        Views(self.order.iter().filter_map(view).collect())
    }

    /// The fetches of the other sources of the same branch, which have something new too.
    pub(super) fn sibling_fetches(&self, source: &Source, commit: &CommitSha) -> Vec<Key> {
        let is_behind = |other: &&Arc<Source>| {
            other.is_sibling_of(source) && other.loaded().is_some_and(|loaded| loaded.commit != *commit)
        };
        self.sources.values().filter(is_behind).map(|other| Key::Fetch(other.options.name.clone())).collect()
    }

    /// The source that an agent comes from, by what is loaded and by what the cluster says: a copy elsewhere must not cut
    /// it off from its own repository. `None`: no source holds it, or the one that owns it does not.
    pub(super) async fn source_of(&self, agent: &AgentKey) -> Result<Option<(Arc<Source>, Arc<Loaded>)>, PassError> {
        let holds = |source: &Arc<Source>| {
            Some((Arc::clone(source), source.loaded()?)).filter(|(_, loaded)| loaded.holds(agent))
        };
        let holders: Vec<_> = self.sources.values().filter_map(holds).collect();
        if holders.is_empty() || self.sources.len() == 1 {
            return Ok(holders.into_iter().next());
        }
        let key = ObjectKey::agent(agent);
        let live = self.get(&key).await?;
        let views = self.views(&holders[0].0, None);
        let owner = views.claimants().owner(&key, live.as_deref().and_then(tracked_by));
        let Owner::Source(owner) = owner else { return Ok(None) };
        Ok(holders.into_iter().find(|(source, _)| source.options.name.as_str() == owner))
    }

    /// The source of ours that owns a live object.
    pub(super) fn owner_of(&self, live: &Object) -> Option<&Arc<Source>> {
        let owner = tracked_by(live)?;
        self.sources.values().find(|source| source.options.name.as_str() == owner)
    }

    /// The syncs of the other sources that depend on what this one says.
    pub(super) fn contested_syncs(&self, changed: &SourceName) -> impl Iterator<Item = Key> {
        let others =
            self.sources.values().filter(move |source| source.options.name != *changed && source.is_contested());
        others.map(|source| Key::Sync(source.options.name.clone())).collect::<Vec<_>>().into_iter()
    }

    /// Says what a sync of everything leaves to other sources, each thing once.
    pub(super) fn tell_owners(&self, source: &Source, plan: &SyncPlan) {
        let name = &source.options.name;
        for kept in source.note_contested(plan) {
            event::PruneWithheld { source: name, object: &kept.key, why: &kept.why }.emit(&self.metrics);
        }
        self.metrics.sync.set_objects(name, "not_owned", plan.refused.len());
    }

    /// Says which objects of sources that are gone stay, by source, whenever that changes.
    pub(super) fn tell_left_behind(&self, left: BTreeMap<String, BTreeSet<ObjectKey>>) {
        let mut told: std::sync::MutexGuard<'_, BTreeMap<String, BTreeSet<ObjectKey>>> =
            // What was told is a courtesy.
            self.left_behind.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (source, objects) in left.iter().filter(|(source, objects)| told.get(*source) != Some(objects)) {
            event::ObjectsLeftBehind { source, objects }.emit(&self.metrics);
        }
        *told = left;
    }
}
