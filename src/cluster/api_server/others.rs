//! Names that a watch for labelled objects does not show, because somebody else's object has them.
//!
//! Before an object is made it must be known that its name is free, and a watch that sees only our own cannot tell. One
//! question is one read. Whoever installs a thousand agents asks five thousand, so after the first few within a moment one
//! list of the names that others have in that namespace answers the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::ListParams;
use tokio::time::Instant;

use super::PAGE;
use super::discovery::Resource;
use super::request::{Http, Operation, Target};
use crate::cluster::ClusterError;
use crate::object::{Kind, ObjectKey};

/// How long an answer counts. Whoever takes the name meanwhile loses nothing: a creation that meets an object which it does
/// not expect is withdrawn, as it is when the name is taken between a read and the creation.
const FRESH: Duration = Duration::from_secs(5);

/// How many single reads there are within that time before all names are listed.
const FEW: u32 = 2;

/// What was found out a moment ago.
#[derive(Default)]
pub(super) struct Others {
    /// By kind and namespace.
    places: Mutex<BTreeMap<(Kind, String), Place>>,
}

/// One question at a time: who asks while names are listed waits for the list.
type Place = Arc<tokio::sync::Mutex<Looked>>;

/// What was found out about one kind in one namespace.
struct Looked {
    since: Instant,
    reads: u32,
    free: BTreeSet<String>,
    taken: Taken,
}

enum Taken {
    /// Nobody has asked for the list yet.
    Unknown,
    /// All names that others have.
    Known(BTreeSet<String>),
    /// They are more than one page: a read each costs less.
    TooMany,
}

impl Looked {
    fn now() -> Self {
        Self { since: Instant::now(), reads: 0, free: BTreeSet::new(), taken: Taken::Unknown }
    }

    /// Forgets what was found out too long ago.
    fn renew(&mut self) {
        if self.since.elapsed() > FRESH {
            *self = Self::now();
        }
    }

    /// Whether the name is known to be free; `None`: it has to be looked up.
    fn is_free(&self, name: &str) -> Option<bool> {
        match &self.taken {
            Taken::Known(taken) => Some(!taken.contains(name)),
            Taken::Unknown | Taken::TooMany => self.free.contains(name).then_some(true),
        }
    }
}

impl Others {
    /// Whether the name of `key` is known to be free, without a request where it was looked up a moment ago or all names
    /// are worth a list. `None`: it has to be read, and [`Self::note_free`] to be told if it is.
    pub(super) async fn is_free(
        &self,
        http: &Http,
        resource: &Resource,
        selector: &str,
        key: &ObjectKey,
    ) -> Result<Option<bool>, ClusterError> {
        let place = self.place(key);
        let mut looked = place.lock().await;
        looked.renew();
        if let Some(is_free) = looked.is_free(&key.name) {
            return Ok(Some(is_free));
        }
        if looked.reads < FEW || matches!(looked.taken, Taken::TooMany) {
            looked.reads += 1;
            return Ok(None);
        }
        // Who asks meanwhile waits for this answer.
        let since = Instant::now();
        let params = ListParams::default().labels(selector).limit(PAGE);
        let target = Target::collection(&key.kind, Some(&key.namespace));
        let page = http.send(&target, resource, &Operation::ListNames(params)).await?.body;
        let is_more = page["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
        let names = page["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect();
        *looked = Looked { since, taken: if is_more { Taken::TooMany } else { Taken::Known(names) }, ..Looked::now() };
        Ok(looked.is_free(&key.name))
    }

    /// A read has just found nothing there.
    pub(super) async fn note_free(&self, key: &ObjectKey) {
        let place = self.place(key);
        let mut looked = place.lock().await;
        looked.renew();
        looked.free.insert(key.name.clone());
    }

    /// An object is there now under that name, whoever made it.
    pub(super) async fn note_taken(&self, key: &ObjectKey) {
        let place = self.place(key);
        let mut looked = place.lock().await;
        looked.free.remove(&key.name);
        if let Taken::Known(taken) = &mut looked.taken {
            taken.insert(key.name.clone());
        }
    }

    fn place(&self, key: &ObjectKey) -> Place {
        // Nothing is left half done under this lock.
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry((key.kind.clone(), key.namespace.clone()));
        Arc::clone(place.or_insert_with(|| Arc::new(tokio::sync::Mutex::new(Looked::now()))))
    }
}
