//! What the sync of one source has to write and to delete.
//!
//! Invariant: what cannot be read in git is never touched in the cluster, and what this source did not
//! apply is never deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdSet;
use serde_json::Value;

use crate::api::names::{RECORD_ANNOTATION, SOURCE_LABEL, TRACKING_ANNOTATION};
use crate::apply::difference::{Difference, difference};
use crate::apply::ownership::{Claimants, Owner, tracked_by, tracking_id};
use crate::cluster::{Apply, Expect, FieldManager, Part};
use crate::ids::{SourceName, Uid};
use crate::object::{Kind, Object, ObjectKey};

/// Whether objects that are gone from git are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prune {
    /// They are.
    Allowed,
    /// They are not now.
    Suspended {
        /// A sentence for people.
        why: String,
    },
}

/// An object that is not made what git says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The object.
    pub key: ObjectKey,
    /// A sentence for people.
    pub why: String,
}

/// What a sync does, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SyncPlan {
    /// What is written: first what others refer to, AgentRuntimes last.
    pub applies: Vec<Apply>,
    /// What is deleted: AgentRuntimes first.
    pub deletes: Vec<(ObjectKey, Uid)>,
    /// What git says and this sync does not do, because it belongs to another source.
    pub refused: Vec<Refusal>,
    /// What is not there yet and may belong to a source that comes first and was not asked yet.
    pub undecided: Vec<ObjectKey>,
    /// What is gone from git and is not deleted, because another source holds it or may hold it.
    pub kept: Vec<Refusal>,
    /// What would be deleted if pruning were not suspended.
    pub unpruned: Vec<ObjectKey>,
    /// What is being deleted at this moment, and is written again when it is gone.
    pub terminating: Vec<ObjectKey>,
    /// How many objects are as git says.
    pub unchanged: usize,
}

impl SyncPlan {
    /// The plans of different objects as one.
    pub fn joined(pieces: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for piece in pieces {
            let Self { applies, deletes, refused, undecided, kept, unpruned, terminating, unchanged } = piece;
            all.applies.extend(applies);
            all.deletes.extend(deletes);
            all.refused.extend(refused);
            all.undecided.extend(undecided);
            all.kept.extend(kept);
            all.unpruned.extend(unpruned);
            all.terminating.extend(terminating);
            all.unchanged += unchanged;
        }
        all.put_in_order();
        all
    }

    fn put_in_order(&mut self) {
        self.applies.sort_by_cached_key(|apply| {
            let key = apply.object.key();
            (rank(&key.kind), key)
        });
        self.deletes.sort_by(|(a, _), (b, _)| rank(&b.kind).cmp(&rank(&a.kind)).then_with(|| b.cmp(a)));
    }
}

/// Plans the sync of one source.
///
/// `desired` are its valid objects, `held` those that are in git but cannot be read or are invalid: they
/// keep their live state. `live` are the live objects of all kinds that sources hold. `claimants` are all
/// sources, this one among them; without any, it is the only one.
pub fn plan_sync<'a>(
    desired: impl IntoIterator<Item = (&'a ObjectKey, Arc<Object>)>,
    held: &OrdSet<ObjectKey>,
    prune: &Prune,
    live: &[Arc<Object>],
    source: &SourceName,
    claimants: &Claimants<'_>,
) -> SyncPlan {
    let live: BTreeMap<ObjectKey, &Arc<Object>> = live.iter().map(|object| (object.key(), object)).collect();
    let desired: BTreeMap<&ObjectKey, Arc<Object>> = desired.into_iter().collect();
    let mut plan = SyncPlan::default();
    for (key, object) in desired.iter().filter(|(key, _)| !held.contains(**key)) {
        let live = live.get(key).map(|live| live.as_ref());
        if live.is_some_and(Object::is_terminating) {
            plan.terminating.push((*key).clone());
            continue;
        }
        let tracked = live.and_then(tracked_by);
        if let Owner::Undecided(_) = claimants.owner(key, tracked) {
            plan.undecided.push((*key).clone());
            continue;
        }
        if let Some(why) = claimants.refusal(key, tracked, source) {
            plan.refused.push(Refusal { key: (*key).clone(), why });
            continue;
        }
        let object = as_applied(object, key, source);
        let expect = match (difference(&object, live, FieldManager::Sync, Part::Main), live.and_then(Object::uid)) {
            (Difference::None, _) => {
                plan.unchanged += 1;
                continue;
            }
            (_, Some(uid)) => Expect::Uid(uid),
            (_, None) => Expect::Absent,
        };
        plan.applies.push(Apply { object, manager: FieldManager::Sync, expect, part: Part::Main });
    }
    let mut orphans: Vec<(&ObjectKey, Uid)> = live
        .iter()
        .filter(|(key, object)| {
            let is_in_git = desired.contains_key(key) || held.contains(*key);
            !is_in_git && !object.is_terminating() && is_of_source(object, key, source)
        })
        .filter_map(|(key, object)| Some((key, object.uid()?)))
        .collect();
    orphans.retain(|(key, _)| match claimants.keeps(key, source) {
        Some(why) => {
            plan.kept.push(Refusal { key: (*key).clone(), why });
            false
        }
        None => true,
    });
    match prune {
        Prune::Allowed => plan.deletes = orphans.into_iter().map(|(key, uid)| (key.clone(), uid)).collect(),
        Prune::Suspended { why: _ } => plan.unpruned = orphans.into_iter().map(|(key, _)| key.clone()).collect(),
    }
    plan.put_in_order();
    plan
}

/// Whether the source applied this very object, and may delete it. A copy that somebody made of it under another name
/// carries the label too, but its annotation names the original.
pub fn is_of_source(live: &Object, key: &ObjectKey, source: &SourceName) -> bool {
    live.label(SOURCE_LABEL) == Some(source.as_str())
        && live.annotation(TRACKING_ANNOTATION) == Some(tracking_id(source, key).as_str())
}

/// Referred-to objects come before those that refer to them.
fn rank(kind: &Kind) -> u8 {
    if *kind == Kind::AGENT_RUNTIME {
        3
    } else if *kind == Kind::ROLLOUT_ANALYSIS {
        2
    } else {
        u8::from(*kind == Kind::PROMPT_PACK)
    }
}

/// The object as sync applies it: without what is not git's to say, with the marks of its source.
fn as_applied(object: &Object, key: &ObjectKey, source: &SourceName) -> Object {
    let mut object = object.clone();
    let fields = object.fields_mut();
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        for name in ["uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "selfLink"] {
            metadata.remove(name);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(RECORD_ANNOTATION);
        }
    }
    fields.values_mut().for_each(strip_nulls);
    fields.retain(|_, value| !value.is_null());
    object.set(&["metadata", "labels", SOURCE_LABEL], source.as_str());
    object.set(&["metadata", "annotations", TRACKING_ANNOTATION], tracking_id(source, key));
    object
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
