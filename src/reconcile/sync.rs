//! From git to the cluster: what is new is loaded, what differs is applied, what is gone is pruned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::SignedDuration;

use crate::apply::{Claimants, Prune, SyncPlan, additions, plan_sync};
use crate::cluster::{Apply, ClusterError, Expect, MergePatch};
use crate::ids::{AgentKey, CommitSha, SourceName};
use crate::manifest::Diagnostic;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::leader::Leading;
use crate::reconcile::source::{Asking, Loaded, Source};
use crate::reconcile::{Core, Key, Next, PassError, jittered};
use crate::telemetry::{SyncVerb, event};

/// How long until an object that the server refused is tried again, where nothing changes in git: the server may have
/// learned better (a CRD, a namespace, a right).
pub(super) const REFUSED_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// How long until objects are tried again about which the server did not answer, where agents were handed on meanwhile.
const SILENCE_RETRY: SignedDuration = SignedDuration::from_secs(5);

/// How many applies are under way at once: enough that the server and not the way to it is what is waited for, and well
/// below what one client may have in flight by its flow control.
const APPLIES_AT_ONCE: usize = 32;

/// How many objects are compared with git at once.
const PLANNED_AT_ONCE: usize = 500;

impl Core {
    /// Asks the remote where its branch is, and loads what is new.
    pub(super) async fn fetch(&self, source: &Source) -> Result<Next, PassError> {
        let name = &source.options.name;
        let asking = source.ask().await;
        let before = source.loaded().map(|loaded| loaded.commit.clone());
        let started = self.clock.now();
        let fetched = source.fetch(started).await;
        let now = self.clock.now();
        let took = now.duration_since(started).unsigned_abs();
        let commit = match fetched {
            Ok(commit) => commit,
            Err(error) => {
                let failed_before = source.fetch_failed(&error);
                event::SourceFetchFailed { source: name, error: &error, failed_before, took }.emit(&self.metrics);
                source.outbox().delay_pending(&error.to_string());
                return Err(error.into());
            }
        };
        source.fetch_succeeded(&commit);
        event::SourceFetched { source: name, commit: &commit, before: before.as_ref(), took, at: now }
            .emit(&self.metrics);
        let later = vec![(Key::Fetch(name.clone()), jittered(now, source.options.poll_interval))];
        let mut next = Next { now: Vec::new(), later };
        if before.as_ref() == Some(&commit) && !source.awaits_sync() {
            return Ok(next);
        }
        let loaded = self.load(source, &asking, &commit).await?;
        next.now.extend(self.after_load(source, &loaded));
        Ok(next)
    }

    /// Loads a commit and says what is wrong with it.
    pub(super) async fn load(
        &self,
        source: &Source,
        asking: &Asking<'_>,
        commit: &CommitSha,
    ) -> Result<Arc<Loaded>, PassError> {
        if let Some(loaded) = source.loaded()
            && loaded.commit == *commit
        {
            return Ok(loaded);
        }
        let name = &source.options.name;
        let loaded = source.load_answer(asking, commit).await?;
        let desired = &loaded.desired;
        event::ManifestsRead { source: name, commit, valid: desired.objects.len(), invalid: desired.held.len() }
            .emit(&self.metrics);
        let problems: Vec<String> = desired.problems.iter().map(Diagnostic::render).collect();
        event::ManifestProblems { source: name, commit, problems: &problems }.emit(&self.metrics);
        Ok(loaded)
    }

    /// What a new commit of a source makes necessary.
    pub(super) fn after_load(&self, source: &Source, loaded: &Loaded) -> Vec<Key> {
        let name = &source.options.name;
        let mut keys = vec![Key::Sync(name.clone())];
        keys.extend(self.contested_syncs(name));
        keys.extend(self.sibling_fetches(source, &loaded.commit));
        if source.outbox().has_decisions() {
            keys.push(Key::Publish(name.clone()));
        }
        keys.extend(self.agents_to_tell(name, loaded).into_iter().map(Key::Agent));
        keys
    }

    /// Applies all that is not an agent, prunes, and hands the agents that differ to their own passes.
    pub(super) async fn sync(&self, leading: &Leading, source: &Source) -> Result<Next, PassError> {
        let Some(loaded) = source.loaded() else { return Ok(Next::default()) };
        let syncing = source.sync_begins();
        // All that was there before is in the cluster and this source's own; another cannot take over what it still holds.
        let plan = match &syncing.before {
            Some(before) => self.plan_changes(source, before, &loaded).await?,
            None => self.plan_everything(source, &loaded).await?,
        };
        self.tell_owners(source, &plan);
        let is_first = !source.has_synced();
        let Performed { mut next, is_complete } = self.perform(leading, source, &loaded, plan).await?;
        source.sync_finished(&syncing, &loaded, is_complete);
        if is_first {
            next.now.extend(agents_of(&loaded));
        }
        Ok(next)
    }

    /// The sync of everything that a commit says. Piece by piece: all that lives at once would be far more than what differs.
    async fn plan_everything(&self, source: &Source, loaded: &Loaded) -> Result<SyncPlan, PassError> {
        let mut keys: BTreeSet<ObjectKey> = loaded.desired.objects.keys().cloned().collect();
        for kind in &synced_kinds(loaded) {
            keys.extend(self.keys(kind).await?);
        }
        let keys: Vec<ObjectKey> = keys.into_iter().collect();
        let (mut plans, mut left_behind) = (Vec::new(), BTreeMap::new());
        for piece in keys.chunks(PLANNED_AT_ONCE) {
            let mut live = Vec::new();
            for key in piece {
                live.extend(self.get(key).await?);
            }
            let views = self.views(source, Some(&loaded.commit));
            let claimants = views.claimants();
            for (source, objects) in claimants.left_behind(&live) {
                left_behind.entry(source).or_insert_with(BTreeSet::new).extend(objects);
            }
            let desired = piece.iter().filter_map(|key| Some((key, loaded.desired.objects.get(key)?.object())));
            let held = &loaded.desired.held;
            plans.push(plan_sync(desired, held, &prune(loaded), &live, &source.options.name, &claimants));
        }
        self.tell_left_behind(left_behind);
        Ok(SyncPlan::joined(plans))
    }

    /// The sync of what a commit says otherwise than the one before, all of which is in the cluster: the work of a push is
    /// that of its change. What changes in the cluster meanwhile wakes its own key.
    async fn plan_changes(&self, source: &Source, before: &Loaded, loaded: &Loaded) -> Result<SyncPlan, PassError> {
        let (changed, gone) = loaded.desired.changes_since(&before.desired);
        let mut live = Vec::new();
        for key in changed.iter().map(|(key, _)| *key).chain(gone) {
            live.extend(self.get(key).await?);
        }
        let desired = changed.into_iter().map(|(key, located)| (key, located.object()));
        let views = self.views(source, Some(&loaded.commit));
        let (held, claimants) = (&loaded.desired.held, views.claimants());
        Ok(plan_sync(desired, held, &prune(loaded), &live, &source.options.name, &claimants))
    }

    /// Looks at one object of git that is not an agent.
    pub(super) async fn sync_object(&self, leading: &Leading, key: &ObjectKey) -> Result<Next, PassError> {
        let mut next = Next::default();
        for source in self.sources.values() {
            let Some(loaded) = source.loaded() else { continue };
            if !loaded.desired.objects.contains_key(key) {
                continue;
            }
            let live = self.get(key).await?;
            let plan = self.plan_one(source, &loaded, key, live.as_slice());
            let Performed { next: follow, is_complete } = self.perform(leading, source, &loaded, plan).await?;
            if !is_complete {
                // No change in git leads back to it: the sync that tries it again has to look for it.
                source.sync_whole_next();
            }
            next.now.extend(follow.now);
            next.later.extend(follow.later);
        }
        Ok(next)
    }

    /// The sync of a single object, which is `live`.
    pub(super) fn plan_one(&self, source: &Source, loaded: &Loaded, key: &ObjectKey, live: &[Arc<Object>]) -> SyncPlan {
        let desired = loaded.desired.objects.get(key).map(|located| (key, located.object()));
        // What to prune is for the sync of the whole source to say.
        let prune = Prune::Suspended { why: "only this object is looked at".to_owned() };
        let views = self.views(source, Some(&loaded.commit));
        plan_sync(desired, &loaded.desired.held, &prune, live, &source.options.name, &views.claimants())
    }

    async fn perform(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        plan: SyncPlan,
    ) -> Result<Performed, PassError> {
        let name = &source.options.name;
        let mut next = Next::default();
        for refusal in &plan.refused {
            if source.note_refusal(&refusal.key, Some(refusal.why.clone())) {
                event::ObjectNotOwned { source: name, object: &refusal.key, why: &refusal.why }.emit(&self.metrics);
            }
        }
        let is_ours = plan.refused.is_empty() && plan.undecided.is_empty() && plan.kept.is_empty();
        let mut is_complete = is_ours && plan.terminating.is_empty();
        let mut silent: BTreeMap<(Kind, String), PassError> = BTreeMap::new();
        let (agents, others): (Vec<_>, Vec<_>) =
            plan.applies.iter().partition(|apply| apply.object.key().kind == Kind::AGENT_RUNTIME);
        for apply in agents {
            let key = apply.object.key();
            next.now.push(Key::Agent(AgentKey::new(&key.namespace, &key.name)));
        }
        // What others refer to is there before they are; within one kind nothing refers to anything.
        for of_a_kind in others.chunk_by(|a, b| a.object.key().kind == b.object.key().kind) {
            is_complete &= self.apply_side_by_side(leading, source, loaded, of_a_kind, &mut silent).await?;
        }
        if let Some((_, error)) = silent.pop_first() {
            return self.again_soon(name, next, error);
        }
        let (is_pruned, failure) = self.prune(leading, source, loaded, &plan).await?;
        is_complete &= is_pruned;
        if let Some(error) = failure {
            return self.again_soon(name, next, error);
        }
        if !is_complete {
            next.later.push(self.later(Key::Sync(name.clone()), REFUSED_RETRY));
        }
        Ok(Performed { next, is_complete })
    }

    /// A sync that did not come to its end for a reason that may be over in a moment. The agents that it has found are not to
    /// wait for it.
    fn again_soon(&self, source: &SourceName, mut next: Next, error: PassError) -> Result<Performed, PassError> {
        if next.now.is_empty() {
            return Err(error);
        }
        next.later.push(self.later(Key::Sync(source.clone()), SILENCE_RETRY));
        Ok(Performed { next, is_complete: false })
    }

    /// Deletes what git has dropped. Says whether all of it is gone, and the first failure that may be over in a moment. About
    /// a kind in a namespace about which the server does not answer nothing more is asked; the rest goes all the same.
    async fn prune(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        plan: &SyncPlan,
    ) -> Result<(bool, Option<PassError>), PassError> {
        let name = &source.options.name;
        let (mut is_complete, mut failure) = (true, None);
        let mut silent: BTreeSet<(Kind, String)> = BTreeSet::new();
        for (key, uid) in &plan.deletes {
            // Deletions take time, and a commit that brings the object back may have been loaded since.
            if !source.drops(key) || silent.contains(&(key.kind.clone(), key.namespace.clone())) {
                is_complete = false;
                continue;
            }
            let Err(error) = self.cluster.as_leader(leading)?.delete(key, uid).await else {
                event::ObjectApplied { source: name, object: key, verb: SyncVerb::Prune, commit: &loaded.commit }
                    .emit(&self.metrics);
                continue;
            };
            event::ApplyRefused { source: name, object: key, verb: SyncVerb::Prune, error: &error }.emit(&self.metrics);
            is_complete = false;
            let is_busy = matches!(error, ClusterError::TooManyRequests { .. });
            if matches!(error, ClusterError::Unavailable { .. }) {
                silent.insert((key.kind.clone(), key.namespace.clone()));
            }
            if is_transient(&error) {
                failure = failure.or(Some(error.into()));
            }
            if is_busy {
                break;
            }
        }
        Ok((is_complete, failure))
    }

    /// Applies objects of one kind, several at a time. `false`: the server refuses some.
    ///
    /// After a failure nothing new is begun, and what is under way comes to its end. About a kind in a namespace about which
    /// the server does not answer, which admission can cause, nothing more is asked, and everything else goes on: those are
    /// noted in `silent`.
    async fn apply_side_by_side(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        applies: &[&Apply],
        silent: &mut BTreeMap<(Kind, String), PassError>,
    ) -> Result<bool, PassError> {
        let mut waiting = applies.iter();
        let mut under_way = FuturesUnordered::new();
        let (mut is_complete, mut failure) = (true, None);
        loop {
            while under_way.len() < APPLIES_AT_ONCE && failure.is_none() {
                let Some(apply) = waiting.next() else { break };
                let key = apply.object.key();
                let place = (key.kind, key.namespace);
                if !silent.contains_key(&place) {
                    let outcome = self.apply_manifest(leading, source, loaded, apply);
                    under_way.push(async move { (place, outcome.await) });
                }
            }
            match under_way.next().await {
                None => break,
                Some((_, Ok(taken))) => is_complete &= taken.is_some(),
                Some((place, Err(error @ PassError::Cluster(ClusterError::Unavailable { .. })))) => {
                    silent.entry(place).or_insert(error);
                }
                Some((_, Err(error))) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(is_complete), Err)
    }

    /// Applies an object of git, and gives back what it is then. `None`: the server refuses it, which is noted; everything else
    /// goes on.
    pub(super) async fn apply_manifest(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        apply: &Apply,
    ) -> Result<Option<Arc<Object>>, PassError> {
        let key = apply.object.key();
        let verb = if apply.expect == Expect::Absent { SyncVerb::Create } else { SyncVerb::Update };
        let answer = self.cluster.as_leader(leading)?.apply(apply).await;
        if answer.is_ok() {
            source.note_refusal(&key, None);
        }
        self.take_answer(source, loaded, &key, verb, answer)
    }

    /// Removes from an agent, which is `live`, what others added where git alone decides. Gives back what it is then; `None`: the
    /// server refuses it.
    pub(super) async fn take_back_additions(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        agent: &AgentKey,
        live: Arc<Object>,
    ) -> Result<Option<Arc<Object>>, PassError> {
        let Some(manifest) = loaded.manifest(agent) else { return Ok(Some(live)) };
        let (Some(patch), Some(uid), Some(version)) =
            (additions(&live, &manifest), live.uid(), live.resource_version())
        else {
            return Ok(Some(live));
        };
        let key = ObjectKey::agent(agent);
        let write = MergePatch { key: key.clone(), uid, resource_version: version.to_owned(), patch };
        let answer = self.cluster.as_leader(leading)?.patch(&write).await;
        self.take_answer(source, loaded, &key, SyncVerb::Update, answer)
    }

    /// Tells what the server has answered to a write that brings an object to what git says; `None`: it refuses it.
    fn take_answer(
        &self,
        source: &Source,
        loaded: &Loaded,
        key: &ObjectKey,
        verb: SyncVerb,
        answer: Result<Arc<Object>, ClusterError>,
    ) -> Result<Option<Arc<Object>>, PassError> {
        let name = &source.options.name;
        match answer {
            Ok(object) => {
                event::ObjectApplied { source: name, object: key, verb, commit: &loaded.commit }.emit(&self.metrics);
                Ok(Some(object))
            }
            Err(error) if is_transient(&error) => Err(error.into()),
            Err(error) => {
                if source.note_refusal(key, Some(error.to_string())) {
                    event::ApplyRefused { source: name, object: key, verb, error: &error }.emit(&self.metrics);
                }
                Ok(None)
            }
        }
    }
}

/// The agents that a commit holds. They may have been looked at before it was loaded: then they wait for what git says, and
/// where the cluster says the same already, a sync hands none of them on. It is no use to look again before the first sync:
/// what they refer to may not be there.
pub(super) fn agents_of(loaded: &Loaded) -> impl Iterator<Item = Key> {
    let agents = loaded.desired.objects.keys().filter(|key| key.kind == Kind::AGENT_RUNTIME);
    agents.map(|key| Key::Agent(AgentKey::new(&key.namespace, &key.name)))
}

/// The kinds that a sync looks through: those that are in git, and those of which something may be to prune.
pub(crate) fn synced_kinds(loaded: &Loaded) -> BTreeSet<Kind> {
    SYNCED_KINDS.iter().cloned().chain(loaded.desired.objects.keys().map(|key| key.kind.clone())).collect()
}

/// The sync of all that a source says. `live` are the objects of the [`synced_kinds`].
pub(crate) fn plan_whole(
    loaded: &Loaded,
    live: &[Arc<Object>],
    source: &SourceName,
    claimants: &Claimants<'_>,
) -> SyncPlan {
    let desired = loaded.desired.objects.iter().map(|(key, located)| (key, located.object()));
    plan_sync(desired, &loaded.desired.held, &prune(loaded), live, source, claimants)
}

/// Why nothing is pruned.
pub(crate) const UNREADABLE: &str = "a file cannot be read, so what is in it is not known";

/// What a sync has come to.
struct Performed {
    next: Next,
    /// Whether all of it is in the cluster now, but for the agents, which see to that themselves.
    is_complete: bool,
}

fn prune(loaded: &Loaded) -> Prune {
    if loaded.desired.allows_pruning() { Prune::Allowed } else { Prune::Suspended { why: UNREADABLE.to_owned() } }
}

/// Whether the same write may succeed in a moment; the others wait for a person.
fn is_transient(error: &ClusterError) -> bool {
    match error {
        ClusterError::Conflict { .. } | ClusterError::TooManyRequests { .. } | ClusterError::Unavailable { .. } => true,
        ClusterError::NotServed { .. }
        | ClusterError::Exists { .. }
        | ClusterError::NotFound { .. }
        | ClusterError::Invalid { .. }
        | ClusterError::Forbidden { .. } => false,
    }
}

/// The kinds that are looked through for what is to be pruned, besides those that are in git now.
pub(crate) const SYNCED_KINDS: [Kind; 6] = [
    Kind::CONFIG_MAP,
    Kind::PROMPT_PACK,
    Kind::PROVIDER,
    Kind::TOOL_REGISTRY,
    Kind::ROLLOUT_ANALYSIS,
    Kind::AGENT_RUNTIME,
];
