//! A real API server.
//!
//! Reads are answered from one watch per kind, shared by everybody, so that a quiet cluster sees no request from
//! Serin; what a write returns goes into the same store, so that no read is older than Serin's own writes. There is
//! no retry in here: whoever asked decides when to ask again, and an error says which of the few reasons it was.

mod connect;
mod creations;
mod discovery;
mod error;
mod events;
mod freshness;
mod others;
mod request;
mod settings;
mod shelf;
mod store;
mod watch;

pub use connect::{ConnectError, Connection};
pub use request::{ObserveRequests, RequestOutcome};
pub use settings::{LabelRule, Namespaces, Need, REQUEST_TIMEOUT, Settings, Watched};
pub use shelf::WatchState;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::{Apply, Cluster, ClusterError, EventRecord, Expect, FieldManager, MergePatch, Part, having};
use crate::clock::Clock;
use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};
use creations::Creations;
use discovery::{Discovery, Resource};
use events::Events;
use others::Others;
use request::{Http, Operation, Run, Target};
use shelf::Shelf;

/// Changes that a slow reader of [`Cluster::changes`] may lag behind before it gets all keys instead.
const CHANGES_KEPT: usize = 1024;

/// Objects per page of a list. Fewer than client-go asks for: a page is held as it came until it is packed, those of all
/// kinds at once when a daemon starts.
const PAGE: u32 = 250;

/// A real cluster, over kube's client.
pub struct ApiServer {
    http: Http,
    discovery: Arc<Discovery>,
    shelves: Arc<BTreeMap<Kind, Vec<Arc<Shelf>>>>,
    changes: broadcast::Sender<ObjectKey>,
    events: Events,
    others: Others,
    creations: Creations,
    /// The watches; dropping it ends them.
    _watches: JoinSet<()>,
}

impl ApiServer {
    /// Connects and starts the watches, without waiting for either: see [`Self::ready`].
    ///
    /// # Errors
    /// When there is no usable configuration. A server that does not answer is no error: it may come back.
    pub async fn connect(
        connection: &Connection,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConnectError> {
        Ok(Self::with_client(connect::client(connection).await?, settings, clock))
    }

    /// Starts the watches on an existing client. Must be called within a tokio runtime.
    pub fn with_client(client: kube::Client, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let http = Http::new(client, settings.request_timeout, settings.observer.clone());
        let discovery = Arc::new(Discovery::new(http.clone(), settings.recheck));
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        let mut shelves = BTreeMap::new();
        let mut watches = JoinSet::new();
        for watched in &settings.watches {
            let of_kind: Vec<_> = match &settings.namespaces {
                Namespaces::All => vec![Arc::new(Shelf::new(watched, None, changes.clone()))],
                Namespaces::These(names) => {
                    let shelf = |name: &String| Arc::new(Shelf::new(watched, Some(name.clone()), changes.clone()));
                    names.iter().map(shelf).collect()
                }
            };
            for shelf in &of_kind {
                watches.spawn(watch::run(shelf.clone(), http.clone(), discovery.clone(), settings.recheck));
            }
            shelves.insert(watched.kind.clone(), of_kind);
        }
        let events = Events::new(settings.instance, clock);
        Self {
            http,
            discovery,
            shelves: Arc::new(shelves),
            changes,
            events,
            others: Others::default(),
            creations: Creations::default(),
            _watches: watches,
        }
    }

    /// The namespace of whoever connects: the pod's, or the one of the kubeconfig's context; else `default`.
    pub fn default_namespace(&self) -> &str {
        self.http.client().default_namespace()
    }

    /// Waits until each watched kind is listed or known not to be served. Never ends while the server does not
    /// answer or refuses a list: [`Self::watches`] tells which and why.
    pub async fn ready(&self) {
        for shelf in self.shelves.values().flatten() {
            shelf.settled().await;
        }
    }

    /// The state of each watch: kind, namespace (`None` is all of them), state.
    pub fn watches(&self) -> Vec<(Kind, Option<String>, WatchState)> {
        let shelves = self.shelves.values().flatten();
        shelves.map(|shelf| (shelf.kind().clone(), shelf.namespace().map(str::to_owned), shelf.state())).collect()
    }

    /// The shelf where an object of `kind` in `namespace` stands, where it is watched at all.
    fn shelf(&self, kind: &Kind, namespace: &str) -> Option<&Arc<Shelf>> {
        self.shelves.get(kind)?.iter().find(|shelf| shelf.namespace().is_none_or(|name| name == namespace))
    }

    async fn resource(&self, kind: &Kind) -> Result<Arc<Resource>, ClusterError> {
        self.discovery.resource(kind).await?.ok_or_else(|| ClusterError::NotServed { kind: kind.clone() })
    }

    /// Asks the server itself.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Object>, ClusterError> {
        let resource = self.resource(&key.kind).await?;
        match self.http.send(&Target::of(key), &resource, &Operation::Get).await {
            Ok(answer) => object_in(&key.kind, answer.body).map(Some),
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An object that the watch of its kind does not show. `None`: its name is free.
    async fn read_unseen(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        let Some(selector) = self.shelf(&key.kind, &key.namespace).and_then(|shelf| shelf.selector_of_others()) else {
            return Ok(self.read(key).await?.map(Arc::new));
        };
        let resource = self.resource(&key.kind).await?;
        if self.others.is_free(&self.http, &resource, &selector, key).await? == Some(true) {
            return Ok(None);
        }
        let found = self.read(key).await?;
        if found.is_none() {
            self.others.note_free(key).await;
        }
        Ok(found.map(Arc::new))
    }

    async fn list_unwatched(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError> {
        let resource = self.resource(kind).await?;
        let mut objects = Vec::new();
        let take = |page: Vec<Object>| objects.extend(page.into_iter().map(Arc::new));
        watch::list(&self.http, &resource, namespace, ListParams::default().limit(PAGE), take).await?;
        objects.sort_by(|one, other| (one.namespace(), one.name()).cmp(&(other.namespace(), other.name())));
        Ok(objects)
    }

    /// Puts what a write returned where reads find it.
    fn keep(&self, kind: &Kind, body: Value) -> Result<Arc<Object>, ClusterError> {
        let object = Arc::new(object_in(kind, body)?);
        if let Some(shelf) = self.shelf(kind, object.namespace()) {
            shelf.wrote(&object);
        }
        Ok(object)
    }

    async fn write(&self, key: &ObjectKey, operation: &Operation<'_>) -> Result<request::Answer, ClusterError> {
        let resource = self.resource(&key.kind).await?;
        let result = self.http.send(&Target::of(key), &resource, operation).await;
        if let Err(ClusterError::NotServed { .. }) = result {
            // The CRD was removed since it was looked up.
            self.discovery.forget(&key.kind).await;
        }
        result
    }

    /// Creates an object by server-side apply. The API has no precondition for that, so three things stand in for
    /// it: a look before, which costs a request only where the watch cannot tell; no force, so that fields of another
    /// manager are refused; and the answer, which tells creation from change. What a lost race left behind on
    /// somebody else's object is withdrawn. Fields of our own would not be refused: the caller has the [`creations::Turn`].
    async fn create(&self, key: &ObjectKey, write: &Apply) -> Result<request::Answer, ClusterError> {
        let exists = || ClusterError::Exists { key: key.clone() };
        let watch_says_absent = self.shelf(&key.kind, &key.namespace).is_some_and(|shelf| shelf.is_absent(key));
        if !watch_says_absent && self.read_unseen(key).await?.is_some() {
            return Err(exists());
        }
        let answer = self.try_create(key, write, Run::Real).await;
        self.others.note_taken(key).await;
        let answer = answer?;
        if answer.created || write.part == Part::Status {
            return Ok(answer);
        }
        if belongs_to_others(&answer.body, write.manager) {
            self.withdraw(key, write.manager, &answer.body).await;
        }
        Err(exists())
    }

    /// Applies without force, so that fields of others are refused: then somebody has made the object already.
    async fn try_create(&self, key: &ObjectKey, write: &Apply, run: Run) -> Result<request::Answer, ClusterError> {
        let Apply { object, manager, part, expect: _ } = write;
        let operation = Operation::Apply { manager: *manager, force: false, part: *part, body: object.fields(), run };
        self.write(key, &operation).await.map_err(|error| match error {
            ClusterError::Conflict { .. } => ClusterError::Exists { key: key.clone() },
            error => error,
        })
    }

    /// Applies to the object with this uid. The server refuses one that is not the live object's, either as a conflict
    /// or, where there is another object of that name, as a change of a field that cannot change.
    async fn update(
        &self,
        key: &ObjectKey,
        write: &Apply,
        uid: &Uid,
        run: Run,
    ) -> Result<request::Answer, ClusterError> {
        let mut object = write.object.clone();
        object.set(&["metadata", "uid"], uid.as_str());
        let operation =
            Operation::Apply { manager: write.manager, force: true, part: write.part, body: object.fields(), run };
        self.write(key, &operation).await.map_err(|error| match error {
            ClusterError::Invalid { key, why } if why.contains("metadata.uid: ") => ClusterError::Conflict { key, why },
            error => error,
        })
    }

    /// Gives up all fields of `manager`; those that nobody else wants go.
    async fn withdraw(&self, key: &ObjectKey, manager: FieldManager, live: &Value) {
        let mut nothing = Object::bare(key);
        nothing.set(&["metadata", "uid"], live["metadata"]["uid"].clone());
        let operation =
            Operation::Apply { manager, force: false, part: Part::Main, body: nothing.fields(), run: Run::Real };
        if let Err(error) = self.write(key, &operation).await {
            tracing::warn!(object = %key, %error, "fields applied to an object that appeared meanwhile remain there");
        }
    }
}

#[async_trait]
impl Cluster for ApiServer {
    /// From the watch. A kind that is not watched, or a namespace outside the watched ones, is asked of the server.
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        match self.shelf(&key.kind, &key.namespace) {
            Some(shelf) => shelf.get(key, self.http.timeout()).await,
            None => Ok(self.read(key).await?.map(Arc::new)),
        }
    }

    async fn look(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        match (self.get(key).await, self.shelf(&key.kind, &key.namespace)) {
            (Ok(None), Some(shelf)) if !shelf.is_absent(key) => self.read_unseen(key).await,
            // Who may not list may still be allowed to read the one.
            (Err(ClusterError::Forbidden { .. }), Some(_)) => Ok(self.read(key).await?.map(Arc::new)),
            (seen, _) => seen,
        }
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError> {
        let Some(shelves) = self.shelves.get(kind) else {
            return self.list_unwatched(kind, namespace).await;
        };
        if let Some(namespace) = namespace {
            return match self.shelf(kind, namespace) {
                Some(shelf) => shelf.list(Some(namespace), self.http.timeout()).await,
                None => self.list_unwatched(kind, Some(namespace)).await,
            };
        }
        let mut objects = Vec::new();
        for shelf in shelves {
            objects.extend(shelf.list(None, self.http.timeout()).await?);
        }
        objects.sort_by(|one, other| (one.namespace(), one.name()).cmp(&(other.namespace(), other.name())));
        Ok(objects)
    }

    async fn keys(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<ObjectKey>, ClusterError> {
        let is_watched = |namespace: &str| self.shelf(kind, namespace).is_some();
        let shelves = self.shelves.get(kind).filter(|_| namespace.is_none_or(is_watched));
        let Some(shelves) = shelves else {
            return Ok(self.list_unwatched(kind, namespace).await?.iter().map(|object| object.key()).collect());
        };
        let mut keys = Vec::new();
        for shelf in shelves {
            keys.extend(shelf.keys(namespace, self.http.timeout()).await?);
        }
        keys.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        Ok(keys)
    }

    async fn list_where(
        &self,
        kind: &Kind,
        namespace: &str,
        field: &str,
        text: &str,
    ) -> Result<Vec<Arc<Object>>, ClusterError> {
        if let Some(shelf) = self.shelf(kind, namespace)
            && let Some(found) = shelf.find(namespace, field, text, self.http.timeout()).await?
        {
            return Ok(found);
        }
        Ok(having(self.list(kind, Some(namespace)).await?, field, text))
    }

    async fn serves(&self, kind: &Kind) -> Result<bool, ClusterError> {
        Ok(self.discovery.resource(kind).await?.is_some())
    }

    async fn apply(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        let key = write.object.key();
        match &write.expect {
            Expect::Absent => {
                let _turn = self.creations.turn(&key).await;
                let answer = self.create(&key, write).await?;
                self.keep(&key.kind, answer.body)
            }
            Expect::Uid(uid) => {
                let answer = self.update(&key, write, uid, Run::Real).await?;
                self.keep(&key.kind, answer.body)
            }
        }
    }

    async fn preview(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        let key = write.object.key();
        let answer = match &write.expect {
            Expect::Absent => match self.try_create(&key, write, Run::Dry).await? {
                answer if answer.created || write.part == Part::Status => answer,
                _ => return Err(ClusterError::Exists { key }),
            },
            Expect::Uid(uid) => self.update(&key, write, uid, Run::Dry).await?,
        };
        object_in(&key.kind, answer.body).map(Arc::new)
    }

    async fn patch(&self, write: &MergePatch) -> Result<Arc<Object>, ClusterError> {
        let mut patch = write.patch.clone();
        let Some(fields) = patch.as_object_mut() else {
            return Err(ClusterError::Invalid { key: write.key.clone(), why: "the patch is not a mapping".into() });
        };
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".into(), write.uid.as_str().into());
            metadata.insert("resourceVersion".into(), write.resource_version.as_str().into());
        }
        let answer = self.write(&write.key, &Operation::Merge { patch: &patch, part: Part::Main }).await?;
        self.keep(&write.key.kind, answer.body)
    }

    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), ClusterError> {
        match self.write(key, &Operation::Delete { uid }).await {
            // It has finalizers: it is still there, with a deletion timestamp.
            Ok(answer) if answer.body["metadata"]["uid"].is_string() => {
                self.keep(&key.kind, answer.body)?;
                return Ok(());
            }
            Ok(_) | Err(ClusterError::NotFound { .. }) => {}
            Err(error @ ClusterError::Conflict { .. }) => {
                // Most likely because it is another object: then the one that was meant is gone.
                if self.read(key).await?.is_some_and(|live| live.uid().as_ref() == Some(uid)) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        if let Some(shelf) = self.shelf(&key.kind, &key.namespace) {
            shelf.removed(key, uid);
        }
        Ok(())
    }

    async fn record(&self, event: &EventRecord) -> Result<(), ClusterError> {
        self.events.record(&self.http, event).await
    }

    /// What is not watched is asked of the server each time.
    fn is_current(&self, kind: &Kind, namespace: &str) -> bool {
        self.shelf(kind, namespace).is_none_or(|shelf| shelf.is_current())
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let keys = stream::unfold((self.changes.subscribe(), self.shelves.clone()), |(mut inbox, shelves)| async {
            let keys = match inbox.recv().await {
                Ok(key) => vec![key],
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    shelves.values().flatten().flat_map(|shelf| shelf.known_keys(None)).collect()
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            Some((stream::iter(keys), (inbox, shelves)))
        });
        keys.flatten().boxed()
    }
}

/// Whether anybody but `manager` set fields of `live`, apart from its status. If not, another Serin won the race,
/// and its fields are not ours to withdraw.
fn belongs_to_others(live: &Value, manager: FieldManager) -> bool {
    let entries = live["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().any(|entry| entry["manager"] != manager.as_str() && entry["subresource"].is_null())
}

/// The object in an answer. Items of a list do not say what they are.
fn object_in(kind: &Kind, mut body: Value) -> Result<Object, ClusterError> {
    if let Some(fields) = body.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| kind.api_version().into());
        fields.entry("kind").or_insert_with(|| kind.kind.as_ref().into());
    }
    Object::from_value(body).map_err(|why| ClusterError::Unavailable { why: format!("its answer has {why}") })
}
