//! One watched kind in one scope: its objects, how far the watch has come, and who is told of changes.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::freshness::Freshness;
use super::settings::{Need, Watched};
use super::store::{Listed, Store};
use crate::cluster::ClusterError;
use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};

/// How far a watch has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// The first list has not come back yet.
    Starting,
    /// The server does not serve the kind; it is looked for again from time to time.
    NotServed,
    /// The objects are known and changes arrive.
    Listed,
    /// The objects were known when changes ceased to arrive, for this reason; it is tried again. Reads are answered
    /// with what was known: a rollout that waits is better than one that takes an outage for a deletion.
    Behind(ClusterError),
    /// They were never listed, for this reason; it is tried again.
    Failing(ClusterError),
}

/// The objects of one watch.
pub(super) struct Shelf {
    watched: Watched,
    namespace: Option<String>,
    store: RwLock<Store>,
    state: watch::Sender<WatchState>,
    freshness: Mutex<Freshness>,
    changes: broadcast::Sender<ObjectKey>,
}

impl Shelf {
    pub(super) fn new(watched: &Watched, namespace: Option<String>, changes: broadcast::Sender<ObjectKey>) -> Self {
        Self {
            watched: watched.clone(),
            namespace,
            store: RwLock::new(Store::new(watched.kind.clone(), watched.index)),
            state: watch::Sender::new(WatchState::Starting),
            freshness: Mutex::default(),
            changes,
        }
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.watched.kind
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn selector(&self) -> Option<String> {
        self.watched.selector()
    }

    /// The label selector of what the watch does not show; `None` while it does not work, or where no selector says so.
    pub(super) fn selector_of_others(&self) -> Option<String> {
        let works = *self.state.borrow() == WatchState::Listed;
        works.then(|| self.watched.selector_of_others()).flatten()
    }

    pub(super) fn state(&self) -> WatchState {
        self.state.borrow().clone()
    }

    /// Whether the objects are known as they are, and not only as they were when the watch ceased to work.
    pub(super) fn is_current(&self) -> bool {
        let is_known = matches!(*self.state.borrow(), WatchState::Listed | WatchState::Behind(_));
        is_known && self.freshness(|freshness| freshness.is_current(Instant::now()))
    }

    /// Waits until the objects are known, or it is known that they will not be: the kind is not served, or we may not see
    /// them and can do without.
    pub(super) async fn settled(&self) {
        let settled = |state: &WatchState| match state {
            WatchState::Starting => false,
            WatchState::Failing(error) => {
                self.watched.need == Need::Optional && matches!(error, ClusterError::Forbidden { .. })
            }
            WatchState::NotServed | WatchState::Listed | WatchState::Behind(_) => true,
        };
        let mut state = self.state.subscribe();
        state.wait_for(settled).await.expect("the sender lives as long as this shelf");
    }

    pub(super) async fn get(&self, key: &ObjectKey, patience: Duration) -> Result<Option<Arc<Object>>, ClusterError> {
        self.readable(patience).await?;
        Ok(self.read(|store| store.get(key)))
    }

    pub(super) async fn list(
        &self,
        namespace: Option<&str>,
        patience: Duration,
    ) -> Result<Vec<Arc<Object>>, ClusterError> {
        self.readable(patience).await?;
        Ok(self.read(|store| store.list(namespace)))
    }

    /// The keys of what [`Self::list`] lists.
    pub(super) async fn keys(
        &self,
        namespace: Option<&str>,
        patience: Duration,
    ) -> Result<Vec<ObjectKey>, ClusterError> {
        self.readable(patience).await?;
        Ok(self.known_keys(namespace))
    }

    /// Those of a namespace that have this text in the field by which they are indexed; `None`: they are not by that one.
    pub(super) async fn find(
        &self,
        namespace: &str,
        field: &str,
        text: &str,
        patience: Duration,
    ) -> Result<Option<Vec<Arc<Object>>>, ClusterError> {
        self.readable(patience).await?;
        Ok(self.read(|store| store.find(namespace, field, text)))
    }

    /// Whether the object is certainly not there, as far as a watch that works can tell. One that sees only some
    /// objects of the kind cannot.
    pub(super) fn is_absent(&self, key: &ObjectKey) -> bool {
        let works = *self.state.borrow() == WatchState::Listed;
        works && self.watched.labels.is_empty() && !self.read(|store| store.contains(key))
    }

    /// The keys of the objects that are known, whatever the state of the watch.
    pub(super) fn known_keys(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        self.read(|store| store.keys(namespace))
    }

    /// The answer of a write.
    pub(super) fn wrote(&self, object: &Arc<Object>) {
        let selected = self.watched.selects(object);
        self.change(|store| store.wrote(object, selected));
    }

    /// The answer of a deletion.
    pub(super) fn removed(&self, key: &ObjectKey, uid: &Uid) {
        self.change(|store| store.removed(key, uid));
    }

    /// Packs a page of a list by the watch.
    pub(super) fn pack(&self, page: Vec<Object>) -> Vec<Listed> {
        self.store.write().unwrap_or_else(PoisonError::into_inner).pack(page)
    }

    /// A list by the watch.
    pub(super) fn listed(&self, objects: Vec<Listed>, version: Option<u64>) {
        self.change(|store| store.replace(objects, version));
        self.freshness(Freshness::listed);
        self.set_state(WatchState::Listed);
    }

    /// An object told by the watch.
    pub(super) fn saw(&self, object: Object) {
        self.change(|store| store.saw(object));
    }

    /// A deletion told by the watch.
    pub(super) fn saw_deletion(&self, object: &Object) {
        self.change(|store| store.saw_deletion(object));
    }

    /// The watch has told everything up to `version`.
    pub(super) fn advance(&self, version: Option<u64>) {
        self.change(|store| {
            store.advance(version);
            None
        });
    }

    /// The server does not serve the kind, or does not any more.
    pub(super) fn not_served(&self) {
        self.change(Store::clear);
        self.set_state(WatchState::NotServed);
    }

    /// A watch is open that goes on where the last one, or the list, ended.
    pub(super) fn following(&self) {
        self.freshness(|freshness| freshness.resumed(Instant::now()));
        self.set_state(WatchState::Listed);
    }

    /// A list or watch failed. What was listed stays.
    pub(super) fn failing(&self, error: &ClusterError) {
        let was_listed = matches!(*self.state.borrow(), WatchState::Listed | WatchState::Behind(_));
        self.freshness(|freshness| freshness.failed(error, Instant::now()));
        let state = if was_listed { WatchState::Behind } else { WatchState::Failing };
        self.set_state(state(error.clone()));
    }

    async fn readable(&self, patience: Duration) -> Result<(), ClusterError> {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| *state != WatchState::Starting);
        let state = match tokio::time::timeout(patience, known).await {
            Ok(state) => state.expect("the sender lives as long as this shelf").clone(),
            Err(_) => WatchState::Starting,
        };
        match state {
            WatchState::Listed | WatchState::Behind(_) => Ok(()),
            WatchState::NotServed => Err(ClusterError::NotServed { kind: self.watched.kind.clone() }),
            WatchState::Failing(error) => Err(error),
            WatchState::Starting => {
                Err(ClusterError::Unavailable { why: format!("{} is not listed yet", self.watched.kind) })
            }
        }
    }

    fn set_state(&self, state: WatchState) {
        self.state.send_if_modified(|current| {
            let is_news = *current != state;
            *current = state;
            is_news
        });
    }

    fn freshness<T>(&self, look: impl FnOnce(&mut Freshness) -> T) -> T {
        look(&mut self.freshness.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        // No code that holds the lock panics between two states.
        look(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<C: IntoIterator<Item = ObjectKey>>(&self, change: impl FnOnce(&mut Store) -> C) {
        let changed = change(&mut self.store.write().unwrap_or_else(PoisonError::into_inner));
        for key in changed {
            // Nobody may be listening.
            let _listeners = self.changes.send(key);
        }
    }
}
