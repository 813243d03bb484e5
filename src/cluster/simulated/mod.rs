//! A cluster inside this process: an API server with server-side apply and its controllers, for the demo,
//! the preview and the fault search.
//!
//! Why not a mock: what goes wrong in practice is ownership, defaults, stale reads and lost answers, and a
//! mock has none of them. `tests/it/cluster_contract.rs` holds this one to what a real API server does.
//! Deliberately absent: namespaces as objects (every namespace exists), admission beyond one hook, and
//! schemas of custom resources.

mod apply;
mod controllers;
mod defaults;
mod faults;
mod store;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::mpsc;
use futures::stream::{BoxStream, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use faults::{Call, Delivery, DeliveryOf, Fate, FateOf, Moment, OwnWrites, PartOf, Sequence, Verb};

use crate::clock::Clock;
use crate::cluster::secrecy::without_values;
use crate::cluster::{Apply, Cluster, ClusterError, EventRecord, Expect, FieldManager, MergePatch, Part};
use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};
pub(crate) use apply::merge_patch;
use store::{State, Writer};

/// Judges an object before it is stored, as a schema, a CEL rule or a webhook would.
pub type Admission = Box<dyn Fn(&Object) -> Result<(), String> + Send + Sync>;

/// Decides what becomes of the pods of a Deployment, from its key and the pod template.
pub type PodScript = Box<dyn Fn(&ObjectKey, &Value) -> PodBehaviour + Send>;

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodBehaviour {
    /// It is ready this long after it was made.
    ReadyAfter(SignedDuration),
    /// It crashes, or its image never comes.
    NeverReady,
}

/// Which pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All of them.
    All,
    /// So many, or all if there are fewer.
    AtMost(usize),
}

/// One pod, for invariants and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// The Deployment that it belongs to.
    pub deployment: ObjectKey,
    /// Its track label.
    pub track: Option<String>,
    /// The variant annotation of its template, else the one of its Deployment when the template came.
    pub variant: Option<String>,
    /// The revision of the Deployment that its template is from.
    pub template_revision: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it can serve.
    pub is_available: bool,
}

/// One write, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    /// When.
    pub time: Timestamp,
    /// By whom.
    pub manager: String,
    /// How.
    pub verb: Verb,
    /// To what.
    pub key: ObjectKey,
    /// Whether anything was different afterwards.
    pub effect: WriteEffect,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEffect {
    /// The object has a new version.
    Changed,
    /// Nothing was different: the object kept its version.
    Nothing,
}

/// An event with how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The event.
    pub event: EventRecord,
    /// How often.
    pub count: u32,
    /// When it came first.
    pub first: Timestamp,
    /// When it came last.
    pub last: Timestamp,
}

/// How long equal events are counted as one series, as the real recorder does.
const EVENT_SERIES: SignedDuration = SignedDuration::from_mins(6);

/// How long a pod takes where no script says otherwise.
const DEFAULT_READY: SignedDuration = SignedDuration::from_secs(2);

/// A Kubernetes cluster in memory. All methods complete at once.
pub struct SimulatedCluster {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl fmt::Debug for SimulatedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedCluster").field("objects", &self.lock().objects.len()).finish_non_exhaustive()
    }
}

impl SimulatedCluster {
    /// An empty cluster that serves every kind and whose pods are ready after two seconds.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let script: PodScript = Box::new(|_, _| PodBehaviour::ReadyAfter(DEFAULT_READY));
        Self { clock, state: Mutex::new(State::new(script)) }
    }

    /// From now on the kind is unknown, as without its CRD. Objects of it are gone.
    pub fn stop_serving(&self, kind: &Kind) {
        let mut state = self.lock();
        state.not_served.insert(kind.clone());
        state.objects.retain(|key, _| key.kind != *kind);
    }

    /// From now on the kind is known again.
    pub fn start_serving(&self, kind: &Kind) {
        self.lock().not_served.remove(kind);
    }

    /// Sets what judges every object before it is stored.
    pub fn set_admission(&self, admission: Admission) {
        self.lock().admission = Some(admission);
    }

    /// Sets what becomes of pods that are made from now on.
    pub fn set_pod_script(&self, script: PodScript) {
        self.lock().pod_script = script;
    }

    /// Makes ready pods of a Deployment fail now and stay so; returns how many. The Deployment tells at the
    /// next [`Self::advance`].
    pub fn fail_pods(&self, deployment: &ObjectKey, pods: Pods) -> usize {
        let count = match pods {
            Pods::All => usize::MAX,
            Pods::AtMost(count) => count,
        };
        controllers::fail_pods(&mut self.lock(), deployment, count, self.clock.now())
    }

    /// Makes all present pods of a Deployment ready now, also those that never were.
    pub fn recover_pods(&self, deployment: &ObjectKey) {
        controllers::recover_pods(&mut self.lock(), deployment, self.clock.now());
    }

    /// Brings the controllers to the present and returns when they have something to do next, if nothing is
    /// written until then.
    pub fn advance(&self) -> Option<Timestamp> {
        controllers::advance(&mut self.lock(), self.clock.now())
    }

    /// Runs the controllers for ever by the clock of this machine. Needs a tokio runtime.
    pub async fn run_in_real_time(self: Arc<Self>) {
        let mut changes = self.changes();
        loop {
            let wait = self.advance().map_or(LONGEST_SLEEP, |next| {
                let left = next.duration_since(self.clock.now());
                Duration::try_from(left).unwrap_or(Duration::ZERO).min(LONGEST_SLEEP)
            });
            // Both outcomes mean the same: look again.
            let _ = tokio::time::timeout(wait, changes.next()).await;
        }
    }

    /// Decides the fate of every call through [`Cluster`] from now on.
    pub fn inject(&self, fate: FateOf) {
        self.lock().fate = Some(fate);
    }

    /// From now on every call is carried out, every wake-up arrives, and reads are fresh.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.fate = None;
        state.delivery = None;
        state.unwatched.clear();
        state.set_lag(0, OwnWrites::Visible);
    }

    /// Lets reads through [`Cluster`] lag so many writes behind, and wake-ups with them. Readers never go
    /// back in time.
    pub fn set_lag(&self, writes: u64, own_writes: OwnWrites) {
        self.lock().set_lag(writes, own_writes);
    }

    /// Shows readers everything that happened so far, as a watch that caught up.
    pub fn catch_up(&self) {
        self.lock().catch_up();
    }

    /// Decides which wake-ups arrive from now on.
    pub fn lose_wake_ups(&self, delivery: DeliveryOf) {
        self.lock().delivery = Some(delivery);
    }

    /// Wakes readers for every object of a kind, as a watch that was lost and begun anew.
    pub fn resync(&self, kind: &Kind) {
        let mut state = self.lock();
        let keys: Vec<ObjectKey> = state.objects.keys().filter(|key| key.kind == *kind).cloned().collect();
        for key in keys {
            state.wake(&key);
        }
    }

    /// From now on the watch of a kind does not work: no wake-up about it arrives, and [`Cluster::is_current`] says so. Reads
    /// go on.
    pub fn stop_watching(&self, kind: &Kind) {
        self.lock().unwatched.insert(kind.clone());
    }

    /// From now on the watch of a kind works again. What was missed wakes nobody: see [`Self::resync`].
    pub fn go_on_watching(&self, kind: &Kind) {
        self.lock().unwatched.remove(kind);
    }

    /// Whether the process that used this cluster has ended by [`Fate::Crash`].
    pub fn is_crashed(&self) -> bool {
        self.lock().is_crashed
    }

    /// A new process: calls are carried out again, reads are fresh, streams of the old process end.
    pub fn restart(&self) {
        self.lock().restart();
    }

    /// Changes an object as a person with `kubectl edit` would, under the name of a field manager.
    pub fn edit(
        &self,
        manager: &str,
        key: &ObjectKey,
        change: impl FnOnce(&mut Object),
    ) -> Result<Arc<Object>, ClusterError> {
        self.lock().update(manager, key, self.clock.now(), Verb::Update, Writer::Other, change)
    }

    /// Creates an object as a person with `kubectl create` would, under the name of a field manager.
    pub fn create(&self, manager: &str, object: &Object) -> Result<Arc<Object>, ClusterError> {
        let (now, key) = (self.clock.now(), object.key());
        let mut state = self.lock();
        state.check_served(&key.kind)?;
        if state.objects.contains_key(&key) {
            return Err(ClusterError::Exists { key });
        }
        let mut object = object.clone();
        object.fields_mut().remove("status");
        apply::drop_empty(&mut object);
        defaults::fill_in(&mut object, &key.kind);
        let bare = Object::bare(&key);
        let books = apply::books_of_update(&bare, &object, &[], manager, Part::Main, now);
        let (object, effect) = state.commit(&key, object, books, Writer::Other, now)?;
        state.write_down(now, manager, Verb::Update, &key, effect);
        Ok(object)
    }

    /// Deletes an object as a person would.
    pub fn delete_by_hand(&self, manager: &str, key: &ObjectKey) {
        let now = self.clock.now();
        let mut state = self.lock();
        let effect = state.remove(key, Writer::Other, now);
        state.write_down(now, manager, Verb::Delete, key, effect);
    }

    /// The object as the server has it at this moment, whatever faults are injected.
    pub fn live(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.lock().fresh(key)
    }

    /// All objects as the server has them at this moment, in the order of their keys.
    pub fn all_objects(&self) -> Vec<Arc<Object>> {
        self.lock().objects.values().map(|stored| Arc::clone(&stored.object)).collect()
    }

    /// How many writes there were so far, by whomever: what [`Self::set_lag`] counts.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// All pods at this moment, as of the last [`Self::advance`].
    pub fn pods(&self) -> Vec<PodView> {
        let now = self.clock.now();
        controllers::pods(&self.lock(), now)
    }

    /// All writes, the oldest first; only the last hundred thousand are kept.
    pub fn write_log(&self) -> Vec<WriteRecord> {
        self.lock().log.iter().cloned().collect()
    }

    /// All events, the oldest first.
    pub fn events(&self) -> Vec<RecordedEvent> {
        self.lock().events.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A callback of a test that panicked fails that test; the state is whole, since it is changed last.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Carries out a call as its fate is.
    fn call<T>(
        &self,
        verb: Verb,
        key: &ObjectKey,
        act: impl FnOnce(&mut State, Timestamp) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        let now = self.clock.now();
        let mut state = self.lock();
        if state.is_crashed {
            return Err(crashed());
        }
        let fate = state.fate.as_mut().map_or(Fate::Proceed, |decide| decide(&Call { verb, key }));
        let outcome = match fate {
            Fate::Proceed => act(&mut state, now),
            Fate::FailBefore(error) => Err(error),
            Fate::FailAfter(error) => {
                // Whatever came of it, the caller does not learn it.
                drop(act(&mut state, now));
                Err(error)
            }
            Fate::Crash(moment) => {
                if moment == Moment::After {
                    drop(act(&mut state, now));
                }
                state.is_crashed = true;
                Err(crashed())
            }
        };
        outcome.map_err(|error| without_values(&key.kind, error))
    }
}

/// Without a next event something may still be written from elsewhere; the wake-up for it comes at once.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

fn crashed() -> ClusterError {
    ClusterError::Unavailable { why: "this process has ended".to_owned() }
}

#[async_trait]
impl Cluster for SimulatedCluster {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        self.call(Verb::Get, key, |state, _| {
            state.check_served(&key.kind)?;
            Ok(state.seen(key))
        })
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError> {
        let key = ObjectKey::new(kind.clone(), namespace.unwrap_or_default(), "");
        self.call(Verb::List, &key, |state, _| {
            state.check_served(kind)?;
            Ok(state.seen_all(kind, namespace))
        })
    }

    async fn serves(&self, kind: &Kind) -> Result<bool, ClusterError> {
        let key = ObjectKey::new(kind.clone(), "", "");
        self.call(Verb::Serves, &key, |state, _| Ok(state.check_served(kind).is_ok()))
    }

    fn is_current(&self, kind: &Kind, _namespace: &str) -> bool {
        !self.lock().unwatched.contains(kind)
    }

    async fn apply(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        let verb = Verb::Apply(write.manager, write.part.into());
        self.call(verb, &write.object.key(), |state, now| state.apply(write, verb, now))
    }

    async fn preview(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        self.call(Verb::Preview, &write.object.key(), |state, now| {
            let (object, _) = state.merge(write, now)?;
            state.admit(&object)?;
            Ok(Arc::new(object))
        })
    }

    async fn patch(&self, write: &MergePatch) -> Result<Arc<Object>, ClusterError> {
        self.call(Verb::Patch, &write.key, |state, now| state.patch(write, now))
    }

    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), ClusterError> {
        self.call(Verb::Delete, key, |state, now| {
            state.check_served(&key.kind)?;
            let is_meant = state.fresh(key).is_some_and(|live| live.uid().as_ref() == Some(uid));
            let effect = if is_meant { state.remove(key, Writer::Serin, now) } else { WriteEffect::Nothing };
            state.write_down(now, SERIN, Verb::Delete, key, effect);
            Ok(())
        })
    }

    async fn record(&self, event: &EventRecord) -> Result<(), ClusterError> {
        self.call(Verb::Record, &event.about, |state, now| {
            let series = state
                .events
                .iter_mut()
                .rev()
                .find(|recorded| recorded.event == *event && now.duration_since(recorded.last) <= EVENT_SERIES);
            match series {
                Some(recorded) => {
                    recorded.count += 1;
                    recorded.last = now;
                }
                None => {
                    let event = event.clone();
                    state.events.push(RecordedEvent { event, count: 1, first: now, last: now });
                }
            }
            Ok(())
        })
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let (sender, receiver) = mpsc::unbounded();
        self.lock().subscribers.push(sender);
        receiver.boxed()
    }
}

/// Who deletes and patches, in the log and in the books.
const SERIN: &str = "serin-rollout";

impl State {
    fn check_served(&self, kind: &Kind) -> Result<(), ClusterError> {
        if self.not_served.contains(kind) {
            return Err(ClusterError::NotServed { kind: kind.clone() });
        }
        Ok(())
    }

    fn apply(&mut self, write: &Apply, verb: Verb, now: Timestamp) -> Result<Arc<Object>, ClusterError> {
        let key = write.object.key();
        let (object, books) = self.merge(write, now)?;
        let (object, effect) = self.commit(&key, object, books, Writer::Serin, now)?;
        self.write_down(now, write.manager.as_str(), verb, &key, effect);
        Ok(object)
    }

    /// What an apply makes of an object, before admission.
    fn merge(&self, write: &Apply, now: Timestamp) -> Result<(Object, Vec<apply::Manager>), ClusterError> {
        let key = write.object.key();
        self.check_served(&key.kind)?;
        let live = self.objects.get(&key).cloned();
        match (&write.expect, &live) {
            (Expect::Absent, Some(_)) => return Err(ClusterError::Exists { key }),
            (Expect::Absent, None) if write.part == Part::Status => {
                return Err(ClusterError::NotFound { why: "a status needs its object".to_owned(), key });
            }
            (Expect::Uid(uid), Some(live)) if live.object.uid().as_ref() != Some(uid) => {
                let why =
                    format!("expected uid {uid}, found {}", live.object.text("/metadata/uid").unwrap_or_default());
                return Err(ClusterError::Conflict { key, why });
            }
            (Expect::Uid(uid), None) => {
                return Err(ClusterError::Conflict { key, why: format!("expected uid {uid}, found no object") });
            }
            (Expect::Absent, None) | (Expect::Uid(_), Some(_)) => {}
        }
        if write.part == Part::Status && !store::has_status(&key.kind) {
            return Err(ClusterError::NotFound { why: format!("{} has no status", key.kind), key });
        }
        let manager = write.manager.as_str();
        let bare;
        let (live, managers) = match &live {
            Some(stored) => (stored.object.as_ref(), stored.managers.as_slice()),
            None => {
                bare = Object::bare(&key);
                (&bare, &[][..])
            }
        };
        let (mut object, books) = apply::merge_apply(live, managers, &write.object, manager, write.part, now);
        if write.part == Part::Main {
            defaults::fill_in(&mut object, &key.kind);
        }
        Ok((object, books))
    }

    fn patch(&mut self, write: &MergePatch, now: Timestamp) -> Result<Arc<Object>, ClusterError> {
        let key = &write.key;
        self.check_served(&key.kind)?;
        let Some(live) = self.fresh(key) else {
            return Err(ClusterError::NotFound { key: key.clone(), why: "there is no such object".to_owned() });
        };
        let conflict = |why: String| ClusterError::Conflict { key: key.clone(), why };
        if live.uid().as_ref() != Some(&write.uid) {
            return Err(conflict(format!("expected uid {}", write.uid)));
        }
        if live.resource_version() != Some(&write.resource_version) {
            let found = live.resource_version().unwrap_or_default();
            return Err(conflict(format!("expected version {}, found {found}", write.resource_version)));
        }
        self.update(FieldManager::Rollout.as_str(), key, now, Verb::Patch, Writer::Serin, |object| {
            let mut value = object.clone().into_value();
            apply::merge_patch(&mut value, &write.patch);
            if let Ok(patched) = Object::from_value(value) {
                *object = patched;
            }
        })
    }

    /// A change of everything but the status and what the server itself writes.
    fn update(
        &mut self,
        manager: &str,
        key: &ObjectKey,
        now: Timestamp,
        verb: Verb,
        writer: Writer,
        change: impl FnOnce(&mut Object),
    ) -> Result<Arc<Object>, ClusterError> {
        self.check_served(&key.kind)?;
        let Some(stored) = self.objects.get(key).cloned() else {
            return Err(ClusterError::NotFound { key: key.clone(), why: "there is no such object".to_owned() });
        };
        let live = stored.object.as_ref();
        let mut object = live.clone();
        change(&mut object);
        if store::has_status(&key.kind) {
            match live.fields().get("status") {
                Some(status) => object.set(&["status"], status.clone()),
                None => drop(object.fields_mut().remove("status")),
            }
        }
        let bare = Object::bare(key);
        for name in crate::apply::SERVER_METADATA {
            match live.at("/metadata").and_then(|metadata| metadata.get(name)) {
                Some(value) => object.set(&["metadata", name], value.clone()),
                None => {
                    if let Some(Value::Object(metadata)) = object.fields_mut().get_mut("metadata") {
                        metadata.remove(name);
                    }
                }
            }
        }
        for name in ["apiVersion", "kind"] {
            object.set(&[name], bare.fields()[name].clone());
        }
        apply::drop_empty(&mut object);
        defaults::fill_in(&mut object, &key.kind);
        let books = apply::books_of_update(live, &object, &stored.managers, manager, Part::Main, now);
        let (object, effect) = self.commit(key, object, books, writer, now)?;
        self.write_down(now, manager, verb, key, effect);
        Ok(object)
    }
}

#[cfg(test)]
mod tests;
