//! The objects of one watch, in the newest version that is known from the watch or from a write's answer.
//!
//! The two arrive in any order. Resource versions are ordered within a kind (Kubernetes promises since 1.35 what
//! was always so), hence one rule decides: what is older than what is known is ignored. For an object that is not
//! there, what is known is how far the watch has come: an answer from before that is of an object that has been
//! deleted since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};
use crate::packed::{Packed, Packer};

/// Objects of one kind by namespace and name.
#[derive(Debug)]
pub(super) struct Store {
    kind: Kind,
    objects: BTreeMap<Place, Kept>,
    packer: Packer,
    index: Option<Index>,
    /// The version up to which the watch has told everything.
    seen: Option<u64>,
    /// Deleted by us, and the watch has not said so yet.
    gone: HashSet<Uid>,
}

/// Namespace and name.
type Place = (String, String);

/// An object of a list, packed.
#[derive(Debug)]
pub(super) struct Listed {
    place: Place,
    version: Option<u64>,
    uid: Option<Uid>,
    /// What it is indexed by.
    text: Option<String>,
    object: Packed,
}

#[derive(Debug)]
struct Kept {
    version: Option<u64>,
    object: Packed,
}

/// Objects by the text of one field.
#[derive(Debug)]
struct Index {
    /// A JSON pointer.
    field: &'static str,
    /// By namespace and text.
    places: BTreeMap<Place, BTreeSet<String>>,
    /// The text of each.
    texts: BTreeMap<Place, String>,
}

impl Index {
    fn put(&mut self, place: &Place, text: Option<String>) {
        self.remove(place);
        if let Some(text) = text {
            let (namespace, name) = place;
            self.places.entry((namespace.clone(), text.clone())).or_default().insert(name.clone());
            self.texts.insert(place.clone(), text);
        }
    }

    fn remove(&mut self, place: &Place) {
        let Some(text) = self.texts.remove(place) else { return };
        let entry = (place.0.clone(), text);
        if let Some(names) = self.places.get_mut(&entry) {
            names.remove(&place.1);
            if names.is_empty() {
                self.places.remove(&entry);
            }
        }
    }
}

impl Store {
    /// An empty store of a kind. `index` is a JSON pointer by which [`Self::find`] finds objects.
    pub(super) fn new(kind: Kind, index: Option<&'static str>) -> Self {
        Self {
            kind,
            objects: BTreeMap::new(),
            packer: Packer::default(),
            index: index.map(|field| Index { field, places: BTreeMap::new(), texts: BTreeMap::new() }),
            seen: None,
            gone: HashSet::new(),
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(&(key.namespace.clone(), key.name.clone())).map(|kept| kept.object.open())
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(&(key.namespace.clone(), key.name.clone()))
    }

    /// The objects in the order of their keys; of one namespace, or all.
    pub(super) fn list(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        self.within(namespace).map(|(_, kept)| kept.object.open()).collect()
    }

    /// Their keys.
    pub(super) fn keys(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        self.within(namespace).map(|(place, _)| self.key(place)).collect()
    }

    /// The objects of a namespace with this text in the field by which they are indexed; `None`: they are not by that one.
    pub(super) fn find(&self, namespace: &str, field: &str, text: &str) -> Option<Vec<Arc<Object>>> {
        let index = self.index.as_ref().filter(|index| index.field == field)?;
        let names = index.places.get(&(namespace.to_owned(), text.to_owned())).into_iter().flatten();
        let kept = names.filter_map(|name| self.objects.get(&(namespace.to_owned(), name.clone())));
        Some(kept.map(|kept| kept.object.open()).collect())
    }

    fn within<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = (&'a Place, &'a Kept)> {
        let from = (namespace.unwrap_or_default().to_owned(), String::new());
        self.objects.range(from..).take_while(move |((of, _), _)| namespace.is_none_or(|namespace| of == namespace))
    }

    fn key(&self, (namespace, name): &Place) -> ObjectKey {
        ObjectKey::new(self.kind.clone(), namespace, name)
    }

    fn version(&self, place: &Place) -> Option<Option<u64>> {
        self.objects.get(place).map(|kept| kept.version)
    }

    fn remove(&mut self, place: &Place) -> Option<ObjectKey> {
        self.objects.remove(place)?;
        if let Some(index) = &mut self.index {
            index.remove(place);
        }
        Some(self.key(place))
    }

    /// Packs a page of a list, to be taken in when all of it is there: a list of thousands is never held whole as it came.
    pub(super) fn pack(&mut self, page: Vec<Object>) -> Vec<Listed> {
        page.into_iter().map(|object| self.pack_one(&Arc::new(object))).collect()
    }

    fn pack_one(&mut self, object: &Arc<Object>) -> Listed {
        Listed {
            place: place(object),
            version: resource_version(object),
            uid: object.uid(),
            text: self.index.as_ref().and_then(|index| object.text(index.field)).map(str::to_owned),
            object: self.packer.pack(object),
        }
    }

    /// Takes in a whole list of `version`. Returns what changed.
    pub(super) fn replace(&mut self, listed: Vec<Listed>, version: Option<u64>) -> Vec<ObjectKey> {
        self.seen = version;
        let mut changed = Vec::new();
        let mut here = HashSet::new();
        let mut still_gone = HashSet::new();
        for object in listed {
            here.insert(object.place.clone());
            match object.uid.clone().filter(|uid| self.gone.contains(uid)) {
                Some(uid) => {
                    still_gone.insert(uid);
                }
                None => changed.extend(self.put(object)),
            }
        }
        // A write may have made an object after the list was taken.
        let is_gone = |(place, kept): &(&Place, &Kept)| !here.contains(*place) && !is_after(kept.version, version);
        let gone: Vec<Place> = self.objects.iter().filter(is_gone).map(|(place, _)| place.clone()).collect();
        changed.extend(gone.iter().filter_map(|place| self.remove(place)));
        self.gone = still_gone;
        changed
    }

    /// Takes in an object from the watch. Returns whether it is news.
    pub(super) fn saw(&mut self, object: Object) -> Option<ObjectKey> {
        self.advance(resource_version(&object));
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        self.put_open(&Arc::new(object))
    }

    /// Takes in a deletion from the watch; `object` carries the version of the deletion.
    pub(super) fn saw_deletion(&mut self, object: &Object) -> Option<ObjectKey> {
        self.advance(resource_version(object));
        let uid = object.uid();
        if let Some(uid) = &uid {
            self.gone.remove(uid);
        }
        let place = place(object);
        let known = self.objects.get(&place)?;
        if !is_after(known.version, resource_version(object)) || known.object.open().uid() == uid {
            return self.remove(&place);
        }
        None
    }

    /// Notes that the watch has told everything up to `version`.
    pub(super) fn advance(&mut self, version: Option<u64>) {
        self.seen = self.seen.max(version);
    }

    /// Takes in what a write returned; `selected` is whether the watch would ever tell of it.
    pub(super) fn wrote(&mut self, object: &Arc<Object>, selected: bool) -> Option<ObjectKey> {
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        let place = place(object);
        match self.version(&place) {
            Some(known) if !is_after(resource_version(object), known) => None,
            Some(_) if !selected => self.remove(&place),
            Some(_) => self.put_open(object),
            None if selected && is_after(resource_version(object), self.seen) => self.put_open(object),
            None => None,
        }
    }

    /// Notes that the object `uid` is deleted, by a write of ours.
    pub(super) fn removed(&mut self, key: &ObjectKey, uid: &Uid) -> Option<ObjectKey> {
        let place = (key.namespace.clone(), key.name.clone());
        // Not there: the watch was faster, or never told of it.
        if self.objects.get(&place)?.object.open().uid().as_ref() != Some(uid) {
            return None;
        }
        self.gone.insert(uid.clone());
        self.remove(&place)
    }

    /// Forgets everything. Returns what was there.
    pub(super) fn clear(&mut self) -> Vec<ObjectKey> {
        let keys = self.keys(None);
        *self = Self::new(self.kind.clone(), self.index.as_ref().map(|index| index.field));
        keys
    }

    fn put_open(&mut self, object: &Arc<Object>) -> Option<ObjectKey> {
        // What is known already is not packed.
        if self.is_known(&place(object), resource_version(object)) {
            return None;
        }
        let packed = self.pack_one(object);
        self.put(packed)
    }

    fn put(&mut self, listed: Listed) -> Option<ObjectKey> {
        let Listed { place, version, uid: _, text, object } = listed;
        if self.is_known(&place, version) {
            return None;
        }
        if let Some(index) = &mut self.index {
            index.put(&place, text);
        }
        let key = self.key(&place);
        self.objects.insert(place, Kept { version, object });
        Some(key)
    }

    /// Whether what is kept is as new as `version`.
    fn is_known(&self, place: &Place, version: Option<u64>) -> bool {
        self.version(place).is_some_and(|known| !is_after(version, known))
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

fn place(object: &Object) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let mut store = Store::new(Kind::CONFIG_MAP, Some("/data/pack"));
        replace(&mut store, objects, version);
        store
    }

    fn replace(store: &mut Store, objects: Vec<Object>, version: u64) -> Vec<ObjectKey> {
        let listed = store.pack(objects);
        store.replace(listed, Some(version))
    }

    fn version_of(store: &Store, name: &str) -> Option<u64> {
        store.get(&key(name)).and_then(|object| resource_version(&object))
    }

    #[test]
    fn an_event_older_than_our_write_is_ignored() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.wrote(&Arc::new(object("a", "1", 20)), true), Some(key("a")));
        assert_eq!(store.saw(object("a", "1", 15)), None);
        assert_eq!(store.saw(object("a", "1", 20)), None, "our own write is no news");
        assert_eq!(version_of(&store, "a"), Some(20));
        assert_eq!(store.saw(object("a", "1", 21)), Some(key("a")));
    }

    #[test]
    fn an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.saw_deletion(&object("a", "1", 30)), Some(key("a")));
        assert_eq!(store.wrote(&Arc::new(object("a", "1", 20)), true), None);
        assert_eq!(version_of(&store, "a"), None);
        assert_eq!(store.wrote(&Arc::new(object("a", "2", 31)), true), Some(key("a")), "a new object is news");
    }

    #[test]
    fn what_we_deleted_stays_deleted_when_older_events_arrive() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.removed(&key("a"), &Uid::new("1")), Some(key("a")));
        assert_eq!(store.saw(object("a", "1", 12)), None);
        assert!(replace(&mut store, vec![object("a", "1", 12)], 13).is_empty(), "a list taken before");
        assert_eq!(version_of(&store, "a"), None);
        assert_eq!(store.saw_deletion(&object("a", "1", 14)), None);
        assert!(store.gone.is_empty());
    }

    #[test]
    fn the_deletion_of_an_earlier_object_leaves_the_later_one() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        store.wrote(&Arc::new(object("a", "2", 20)), true);
        assert_eq!(store.saw_deletion(&object("a", "1", 15)), None);
        assert_eq!(version_of(&store, "a"), Some(20));
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_was_written_after_it() {
        let mut store = listed(vec![object("a", "1", 5), object("b", "2", 6)], 10);
        store.wrote(&Arc::new(object("c", "3", 25)), true);
        assert_eq!(replace(&mut store, vec![object("a", "1", 5)], 20), [key("b")]);
        assert_eq!((version_of(&store, "b"), version_of(&store, "c")), (None, Some(25)));
    }

    #[test]
    fn a_namespace_is_listed_without_its_neighbours() {
        let mut store = listed(vec![object("a", "1", 5), object("b", "2", 6)], 10);
        for (i, namespace) in ["sho", "shop-2", "a"].into_iter().enumerate() {
            let mut other = object("a", "9", 11 + i as u64);
            other.set(&["metadata", "namespace"], namespace);
            store.saw(other);
        }
        assert_eq!(store.keys(Some("shop")), [key("a"), key("b")]);
        assert_eq!(
            store.list(Some("shop")).iter().map(|object| object.key()).collect::<Vec<_>>(),
            [key("a"), key("b")]
        );
        assert_eq!(store.keys(None).len(), 5);
        assert!(store.keys(Some("none")).is_empty());
    }

    #[test]
    fn objects_are_found_by_the_text_of_a_field_as_it_is_now() {
        let of_pack = |name: &str, version: u64, pack: &str| {
            let mut object = object(name, name, version);
            object.set(&["data", "pack"], pack);
            object
        };
        let found = |store: &Store, pack: &str| -> Vec<String> {
            let found = store.find("shop", "/data/pack", pack).expect("it is indexed");
            found.iter().map(|object| object.name().to_owned()).collect()
        };
        let mut store = listed(vec![of_pack("a", 1, "one"), of_pack("b", 2, "one"), object("c", "3", 3)], 10);
        assert_eq!((found(&store, "one"), found(&store, "two")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        store.saw(of_pack("a", 11, "two"));
        assert_eq!((found(&store, "one"), found(&store, "two")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        store.saw_deletion(&of_pack("b", 12, "one"));
        assert!(found(&store, "one").is_empty());
        store.clear();
        assert!(found(&store, "two").is_empty());
        assert!(store.find("shop", "/data/other", "one").is_none(), "it is not indexed");
        assert!(store.find("elsewhere", "/data/pack", "two").is_some_and(|found| found.is_empty()));
    }

    #[test]
    fn an_object_that_the_watch_does_not_select_is_not_kept() {
        let mut store = listed(vec![object("a", "1", 5)], 10);
        assert_eq!(store.wrote(&Arc::new(object("b", "2", 20)), false), None);
        assert_eq!(store.wrote(&Arc::new(object("a", "1", 21)), false), Some(key("a")));
        assert!(store.list(None).is_empty());
    }
}
