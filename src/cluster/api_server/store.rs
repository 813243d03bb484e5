//! The objects of one watch, in the newest version that is known from the watch or from a write's answer.
//!
//! The two arrive in any order. Resource versions are ordered within a kind (Kubernetes promises since 1.35 what
//! was always so), hence one rule decides: what is older than what is known is ignored. For an object that is not
//! there, what is known is how far the watch has come: an answer from before that is of an object that has been
//! deleted since.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::ids::Uid;
use crate::object::{Object, ObjectKey};

/// Objects by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<(String, String), Arc<Object>>,
    /// The version up to which the watch has told everything.
    seen: Option<u64>,
    /// Deleted by us, and the watch has not said so yet.
    gone: HashSet<Uid>,
}

impl Store {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// The objects in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// Takes in a whole list of `version`. Returns what changed.
    pub(super) fn replace(&mut self, listed: Vec<Object>, version: Option<u64>) -> Vec<ObjectKey> {
        self.seen = version;
        let mut changed = Vec::new();
        let mut here = HashSet::new();
        let mut still_gone = HashSet::new();
        for object in listed {
            here.insert(place(&object));
            match object.uid().filter(|uid| self.gone.contains(uid)) {
                Some(uid) => {
                    still_gone.insert(uid);
                }
                None => changed.extend(self.put(Arc::new(object))),
            }
        }
        // A write may have made an object after the list was taken.
        let vanished = |place: &(String, String), object: &Arc<Object>| {
            !here.contains(place) && !is_after(resource_version(object), version)
        };
        self.objects.retain(|place, object| {
            let keep = !vanished(place, object);
            if !keep {
                changed.push(object.key());
            }
            keep
        });
        self.gone = still_gone;
        changed
    }

    /// Takes in an object from the watch. Returns whether it is news.
    pub(super) fn saw(&mut self, object: Object) -> Option<ObjectKey> {
        self.advance(resource_version(&object));
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        self.put(Arc::new(object))
    }

    /// Takes in a deletion from the watch; `object` carries the version of the deletion.
    pub(super) fn saw_deletion(&mut self, object: &Object) -> Option<ObjectKey> {
        self.advance(resource_version(object));
        let uid = object.uid();
        if let Some(uid) = &uid {
            self.gone.remove(uid);
        }
        let known = self.objects.get(&place(object))?;
        let is_same = known.uid() == uid;
        if is_same || !is_after(resource_version(known), resource_version(object)) {
            return self.objects.remove(&place(object)).map(|object| object.key());
        }
        None
    }

    /// Notes that the watch has told everything up to `version`.
    pub(super) fn advance(&mut self, version: Option<u64>) {
        self.seen = self.seen.max(version);
    }

    /// Takes in what a write returned; `selected` is whether the watch would ever tell of it.
    pub(super) fn wrote(&mut self, object: Arc<Object>, selected: bool) -> Option<ObjectKey> {
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        match self.objects.get(&place(&object)) {
            Some(known) if !is_after(resource_version(&object), resource_version(known)) => None,
            Some(_) if !selected => self.objects.remove(&place(&object)).map(|object| object.key()),
            Some(_) => self.put(object),
            None if selected && is_after(resource_version(&object), self.seen) => self.put(object),
            None => None,
        }
    }

    /// Notes that the object `uid` is deleted, by a write of ours.
    pub(super) fn removed(&mut self, key: &ObjectKey, uid: &Uid) -> Option<ObjectKey> {
        let place = (key.namespace.clone(), key.name.clone());
        // Not there: the watch was faster, or never told of it.
        if self.objects.get(&place)?.uid().as_ref() != Some(uid) {
            return None;
        }
        self.gone.insert(uid.clone());
        self.objects.remove(&place).map(|object| object.key())
    }

    /// Forgets everything. Returns what was there.
    pub(super) fn clear(&mut self) -> Vec<ObjectKey> {
        let keys = self.objects.values().map(|object| object.key()).collect();
        *self = Self::default();
        keys
    }

    fn put(&mut self, object: Arc<Object>) -> Option<ObjectKey> {
        let place = place(&object);
        if let Some(known) = self.objects.get(&place)
            && !is_after(resource_version(&object), resource_version(known))
        {
            return None;
        }
        let key = object.key();
        self.objects.insert(place, object);
        Some(key)
    }
}

/// The version of an object as a number.
pub(super) fn resource_version(object: &Object) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

/// Whether `version` is after `other`. A version that is not a number, from a server that keeps no order, counts
/// as new: to be wrong for a moment is better than to stand still.
fn is_after(version: Option<u64>, other: Option<u64>) -> bool {
    match (version, other) {
        (Some(version), Some(other)) => version > other,
        _ => true,
    }
}

fn place(object: &Object) -> (String, String) {
    (object.namespace().to_owned(), object.name().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Kind;

    fn object(name: &str, uid: &str, version: u64) -> Object {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version.to_string()},
        });
        Object::from_value(value).expect("an object")
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::CONFIG_MAP, "shop", name)
    }

    fn listed(objects: Vec<Object>, version: u64) -> Store {
        let mut store = Store::default();
        store.replace(objects, Some(version));
        store
    }

    fn version_of(store: &Store, name: &str) -> Option<u64> {
        store.get(&key(name)).and_then(|object| resource_version(object))
    }

    #[test]
    fn an_event_older_than_our_write_is_ignored() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.wrote(Arc::new(object("a", "1", 20)), true), Some(key("a")));
        assert_eq!(store.saw(object("a", "1", 15)), None);
        assert_eq!(store.saw(object("a", "1", 20)), None, "our own write is no news");
        assert_eq!(version_of(&store, "a"), Some(20));
        assert_eq!(store.saw(object("a", "1", 21)), Some(key("a")));
    }

    #[test]
    fn an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.saw_deletion(&object("a", "1", 30)), Some(key("a")));
        assert_eq!(store.wrote(Arc::new(object("a", "1", 20)), true), None);
        assert_eq!(version_of(&store, "a"), None);
        assert_eq!(store.wrote(Arc::new(object("a", "2", 31)), true), Some(key("a")), "a new object is news");
    }

    #[test]
    fn what_we_deleted_stays_deleted_when_older_events_arrive() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.removed(&key("a"), &Uid::new("1")), Some(key("a")));
        assert_eq!(store.saw(object("a", "1", 12)), None);
        assert!(store.replace(vec![object("a", "1", 12)], Some(13)).is_empty(), "a list taken before");
        assert_eq!(version_of(&store, "a"), None);
        assert_eq!(store.saw_deletion(&object("a", "1", 14)), None);
        assert!(store.gone.is_empty());
    }

    #[test]
    fn the_deletion_of_an_earlier_object_leaves_the_later_one() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        store.wrote(Arc::new(object("a", "2", 20)), true);
        assert_eq!(store.saw_deletion(&object("a", "1", 15)), None);
        assert_eq!(version_of(&store, "a"), Some(20));
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_was_written_after_it() {
        let mut store = listed(vec![object("a", "1", 5), object("b", "2", 6)], 10);
        store.wrote(Arc::new(object("c", "3", 25)), true);
        assert_eq!(store.replace(vec![object("a", "1", 5)], Some(20)), [key("b")]);
        assert_eq!((version_of(&store, "b"), version_of(&store, "c")), (None, Some(25)));
    }

    #[test]
    fn an_object_that_the_watch_does_not_select_is_not_kept() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.wrote(Arc::new(object("b", "2", 20)), false), None);
        assert_eq!(store.wrote(Arc::new(object("a", "1", 21)), false), Some(key("a")));
        assert_eq!(store.iter().count(), 0);
    }
}
