//! The objects, their versions, and who has seen what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::channel::mpsc::UnboundedSender;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::apply::{Manager, seconds};
use super::controllers::Workload;
use super::faults::{Delivery, DeliveryOf, FateOf, OwnWrites, Verb};
use super::{Admission, PodScript, RecordedEvent, WriteEffect, WriteRecord};
use crate::cluster::ClusterError;
use crate::object::{Kind, Object, ObjectKey};

/// One object with its books.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) object: Arc<Object>,
    pub(super) managers: Vec<Manager>,
}

/// Who writes: Serin, whose reads are never older than its writes, or somebody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Serin,
    Other,
}

/// A change that some reader has not seen yet.
struct Unseen {
    revision: u64,
    key: ObjectKey,
    before: Option<Arc<Object>>,
}

struct WakeUp {
    revision: u64,
    key: ObjectKey,
    is_own: bool,
}

/// Everything behind the lock.
pub(super) struct State {
    pub(super) objects: BTreeMap<ObjectKey, Stored>,
    pub(super) workloads: BTreeMap<ObjectKey, Workload>,
    /// Deployments that changed and that their controller has not looked at, with the time of the change.
    pub(super) dirty: BTreeMap<ObjectKey, Timestamp>,
    pub(super) is_garbage_due: bool,
    pub(super) not_served: BTreeSet<Kind>,
    pub(super) unwatched: BTreeSet<Kind>,
    pub(super) admission: Option<Admission>,
    pub(super) pod_script: PodScript,
    pub(super) events: Vec<RecordedEvent>,
    pub(super) log: VecDeque<WriteRecord>,
    pub(super) fate: Option<FateOf>,
    pub(super) delivery: Option<DeliveryOf>,
    pub(super) is_crashed: bool,
    pub(super) subscribers: Vec<UnboundedSender<ObjectKey>>,
    pub(super) revision: u64,
    uids: u64,
    lag: u64,
    own_writes: OwnWrites,
    view: u64,
    unseen: VecDeque<Unseen>,
    floors: BTreeMap<ObjectKey, u64>,
    wake_ups: VecDeque<WakeUp>,
}

impl State {
    pub(super) fn new(pod_script: PodScript) -> Self {
        Self {
            objects: BTreeMap::new(),
            workloads: BTreeMap::new(),
            dirty: BTreeMap::new(),
            is_garbage_due: false,
            not_served: BTreeSet::new(),
            unwatched: BTreeSet::new(),
            admission: None,
            pod_script,
            events: Vec::new(),
            log: VecDeque::new(),
            fate: None,
            delivery: None,
            is_crashed: false,
            subscribers: Vec::new(),
            // Like a real server, whose first objects are its own.
            revision: 100,
            uids: 0,
            lag: 0,
            own_writes: OwnWrites::Visible,
            view: 100,
            unseen: VecDeque::new(),
            floors: BTreeMap::new(),
            wake_ups: VecDeque::new(),
        }
    }

    /// Asks admission.
    pub(super) fn admit(&self, object: &Object) -> Result<(), ClusterError> {
        let Some(admission) = &self.admission else { return Ok(()) };
        admission(object).map_err(|why| ClusterError::Invalid { key: object.key(), why })
    }

    /// Stores a new state of an object, unless nothing changed, and returns it as it is now.
    pub(super) fn commit(
        &mut self,
        key: &ObjectKey,
        mut object: Object,
        managers: Vec<Manager>,
        writer: Writer,
        now: Timestamp,
    ) -> Result<(Arc<Object>, WriteEffect), ClusterError> {
        let live = self.objects.get(key);
        let are_books_same = live.is_some_and(|live| {
            live.managers.len() == managers.len() && live.managers.iter().zip(&managers).all(|(a, b)| a.is_same(b))
        });
        if let Some(live) = live.filter(|live| are_books_same && *live.object == object) {
            return Ok((Arc::clone(&live.object), WriteEffect::Nothing));
        }
        self.admit(&object)?;
        let generation = match live {
            None => 1,
            Some(live) => live.object.generation() + i64::from(is_new_generation(&key.kind, &live.object, &object)),
        };
        if live.is_none() {
            self.uids += 1;
            object.set(&["metadata", "uid"], format!("00000000-0000-4000-8000-{:012x}", self.uids));
            object.set(&["metadata", "creationTimestamp"], seconds(now));
            self.is_garbage_due |= object.at("/metadata/ownerReferences").is_some();
        }
        if has_generation(&key.kind) {
            object.set(&["metadata", "generation"], generation);
        }
        if !are_books_same {
            let api_version = key.kind.api_version();
            let entries: Vec<Value> = managers.iter().map(|manager| manager.to_value(&api_version)).collect();
            match (entries.is_empty(), object.fields_mut().get_mut("metadata")) {
                (true, Some(Value::Object(metadata))) => drop(metadata.remove("managedFields")),
                _ => object.set(&["metadata", "managedFields"], entries),
            }
        }
        let is_gone = object.is_terminating()
            && object.at("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty);
        self.revision += 1;
        object.set(&["metadata", "resourceVersion"], self.revision.to_string());
        let object = Arc::new(object);
        let before = if is_gone {
            self.objects.remove(key)
        } else {
            self.objects.insert(key.clone(), Stored { object: Arc::clone(&object), managers })
        };
        self.is_garbage_due |= is_gone;
        self.changed(key, before.map(|stored| stored.object), writer, now);
        Ok((object, WriteEffect::Changed))
    }

    /// Deletes an object, or begins to where finalizers hold it.
    pub(super) fn remove(&mut self, key: &ObjectKey, writer: Writer, now: Timestamp) -> WriteEffect {
        let Some(stored) = self.objects.get(key).cloned() else { return WriteEffect::Nothing };
        let is_held = stored.object.at("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        if is_held {
            if stored.object.is_terminating() {
                return WriteEffect::Nothing;
            }
            let mut object = Object::clone(&stored.object);
            object.set(&["metadata", "deletionTimestamp"], seconds(now));
            object.set(&["metadata", "deletionGracePeriodSeconds"], 0);
            self.revision += 1;
            object.set(&["metadata", "resourceVersion"], self.revision.to_string());
            self.objects.insert(key.clone(), Stored { object: Arc::new(object), managers: stored.managers });
        } else {
            self.revision += 1;
            self.objects.remove(key);
            self.is_garbage_due = true;
        }
        self.changed(key, Some(stored.object), writer, now);
        WriteEffect::Changed
    }

    /// Removes what has owners and whose owners are all gone, at any depth.
    pub(super) fn collect_garbage(&mut self, now: Timestamp) {
        while self.is_garbage_due {
            self.is_garbage_due = false;
            let uids: BTreeSet<&str> = self.objects.values().filter_map(|s| s.object.text("/metadata/uid")).collect();
            let orphans: Vec<ObjectKey> = self
                .objects
                .iter()
                .filter(|(_, stored)| {
                    let owners = stored.object.at("/metadata/ownerReferences").and_then(Value::as_array);
                    owners.is_some_and(|owners| {
                        let is_live = |owner: &Value| {
                            owner.get("uid").and_then(Value::as_str).is_some_and(|uid| uids.contains(uid))
                        };
                        !owners.is_empty() && !owners.iter().any(is_live)
                    })
                })
                .map(|(key, _)| key.clone())
                .collect();
            for key in orphans {
                let effect = self.remove(&key, Writer::Other, now);
                self.write_down(now, "garbage-collector", Verb::Delete, &key, effect);
            }
        }
    }

    pub(super) fn write_down(
        &mut self,
        time: Timestamp,
        manager: &str,
        verb: Verb,
        key: &ObjectKey,
        effect: WriteEffect,
    ) {
        if self.log.len() == LOG_LENGTH {
            self.log.pop_front();
        }
        self.log.push_back(WriteRecord { time, manager: manager.to_owned(), verb, key: key.clone(), effect });
    }

    /// The object as the server has it.
    pub(super) fn fresh(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(key).map(|stored| Arc::clone(&stored.object))
    }

    /// The object as a watch that may lag behind shows it.
    pub(super) fn seen(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        match self.unseen.iter().find(|change| change.key == *key && change.revision > self.floor(key)) {
            Some(change) => change.before.clone(),
            None => self.fresh(key),
        }
    }

    /// All objects of a kind as a watch that may lag behind shows them, in the order of their keys.
    pub(super) fn seen_all(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let from = ObjectKey::new(kind.clone(), namespace.unwrap_or_default(), "");
        let is_meant = |key: &ObjectKey| key.kind == *kind && namespace.is_none_or(|name| key.namespace == name);
        let fresh = self.objects.range(from..).take_while(|(key, _)| is_meant(key));
        if self.unseen.is_empty() {
            return fresh.map(|(_, stored)| Arc::clone(&stored.object)).collect();
        }
        let mut all: BTreeMap<&ObjectKey, Option<Arc<Object>>> =
            fresh.map(|(key, stored)| (key, Some(Arc::clone(&stored.object)))).collect();
        // The oldest change that is not seen yet has what is still seen, so it is put last.
        for change in self.unseen.iter().rev() {
            if is_meant(&change.key) && change.revision > self.floor(&change.key) {
                all.insert(&change.key, change.before.clone());
            }
        }
        all.into_values().flatten().collect()
    }

    /// Lets reads lag `lag` writes behind from now on; they never go back in time.
    pub(super) fn set_lag(&mut self, lag: u64, own_writes: OwnWrites) {
        (self.lag, self.own_writes) = (lag, own_writes);
        self.move_view(self.revision.saturating_sub(lag));
    }

    /// Shows readers everything that happened so far.
    pub(super) fn catch_up(&mut self) {
        self.move_view(self.revision);
    }

    /// Forgets what belonged to the process that ended.
    pub(super) fn restart(&mut self) {
        self.is_crashed = false;
        self.wake_ups.clear();
        self.subscribers.clear();
        self.catch_up();
    }

    /// Wakes all readers for a key.
    pub(super) fn wake(&mut self, key: &ObjectKey) {
        self.subscribers.retain(|subscriber| subscriber.unbounded_send(key.clone()).is_ok());
    }

    fn changed(&mut self, key: &ObjectKey, before: Option<Arc<Object>>, writer: Writer, now: Timestamp) {
        if key.kind == Kind::DEPLOYMENT {
            self.dirty.entry(key.clone()).or_insert(now);
        }
        let is_own = writer == Writer::Serin && self.own_writes == OwnWrites::Visible;
        if self.lag > 0 {
            self.unseen.push_back(Unseen { revision: self.revision, key: key.clone(), before });
            if is_own {
                self.floors.insert(key.clone(), self.revision);
            }
        }
        self.wake_ups.push_back(WakeUp { revision: self.revision, key: key.clone(), is_own });
        self.move_view(self.revision.saturating_sub(self.lag));
    }

    fn move_view(&mut self, to: u64) {
        self.view = self.view.max(to);
        while self.unseen.front().is_some_and(|change| change.revision <= self.view) {
            self.unseen.pop_front();
        }
        let view = self.view;
        self.floors.retain(|_, floor| *floor > view);
        let mut waiting = std::mem::take(&mut self.wake_ups);
        waiting.retain(|wake_up| {
            if wake_up.revision > view && !wake_up.is_own {
                return true;
            }
            let delivery = self.delivery.as_mut().map_or(Delivery::Arrives, |decide| decide(&wake_up.key));
            let is_heard_of = wake_up.is_own || !self.unwatched.contains(&wake_up.key.kind);
            if delivery == Delivery::Arrives && is_heard_of {
                self.wake(&wake_up.key);
            }
            false
        });
        self.wake_ups = waiting;
    }

    fn floor(&self, key: &ObjectKey) -> u64 {
        self.floors.get(key).copied().unwrap_or(0).max(self.view)
    }
}

/// Enough for any test; a daemon that runs on a simulated cluster for weeks does not grow without end.
const LOG_LENGTH: usize = 100_000;

/// Whether the kind has a status that is written separately.
pub(super) fn has_status(kind: &Kind) -> bool {
    has_generation(kind) || *kind == Kind::SERVICE
}

fn has_generation(kind: &Kind) -> bool {
    *kind == Kind::DEPLOYMENT || kind.group == Kind::AGENT_RUNTIME.group
}

fn is_new_generation(kind: &Kind, old: &Object, new: &Object) -> bool {
    if !has_generation(kind) {
        return false;
    }
    let is_other = |name: &str| old.fields().get(name) != new.fields().get(name);
    if *kind == Kind::DEPLOYMENT {
        return is_other("spec") || is_deployment_annotated(old, new);
    }
    let names = old.fields().keys().chain(new.fields().keys());
    names.filter(|name| !matches!(name.as_str(), "metadata" | "status")).any(|name| is_other(name))
}

/// An annotation of a Deployment counts as a change, but for the one that its own controller writes with
/// the status.
fn is_deployment_annotated(old: &Object, new: &Object) -> bool {
    let annotations = |object: &Object| {
        let mut annotations = object.at("/metadata/annotations").cloned().unwrap_or_else(|| json!({}));
        if let Value::Object(annotations) = &mut annotations {
            annotations.remove(super::controllers::REVISION_ANNOTATION);
        }
        annotations
    };
    annotations(old) != annotations(new)
}
