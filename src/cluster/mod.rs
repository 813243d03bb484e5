//! The cluster as the rest of Serin sees it: objects in, objects out, and wake-ups without data.
//!
//! The seam is at the level of API objects, so that the very objects that production applies are what the
//! demo, the preview and the fault search apply too. [`api_server`] is a real API server,
//! [`simulated`] one in this process; one contract suite (`tests/it/cluster_contract.rs`) holds both to
//! the same behaviour.

pub mod api_server;
pub mod simulated;

mod secrecy;
mod write;

pub use write::{Apply, EventRecord, Expect, FieldManager, MergePatch, Part, Severity};

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::ids::Uid;
use crate::object::{Kind, Object, ObjectKey};

/// A Kubernetes cluster.
///
/// Reads come from shared watches: they may be older than the server, but never older than what this
/// very value wrote. Writes go to the server at once.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// The object as last seen, of a kind that is watched (see the implementation's settings).
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError>;

    /// The same, but an object that the watch does not show because it has not the labels that are watched is asked of
    /// the server: somebody else's under a name that we need.
    async fn look(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        self.get(key).await
    }

    /// All objects of a watched kind as last seen, in the order of their keys; in one namespace, or everywhere.
    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError>;

    /// The keys of what [`Self::list`] lists: for who does not want to hold all of it at once.
    async fn keys(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<ObjectKey>, ClusterError> {
        Ok(self.list(kind, namespace).await?.iter().map(|object| object.key()).collect())
    }

    /// Those of [`Self::list`] in a namespace that have `text` at `field`, a JSON pointer.
    async fn list_where(
        &self,
        kind: &Kind,
        namespace: &str,
        field: &str,
        text: &str,
    ) -> Result<Vec<Arc<Object>>, ClusterError> {
        Ok(having(self.list(kind, Some(namespace)).await?, field, text))
    }

    /// Whether reads of a watched kind in a namespace show what is there now; `false` while its watch is known not to work:
    /// then they show what was there when it ceased to, and that nothing has changed since means nothing. To be asked before
    /// what it is about is read.
    fn is_current(&self, kind: &Kind, namespace: &str) -> bool;

    /// Whether the server knows this kind. A missing CRD is an answer, not an error.
    async fn serves(&self, kind: &Kind) -> Result<bool, ClusterError>;

    /// Applies fields and returns the object as the server now has it.
    async fn apply(&self, write: &Apply) -> Result<Arc<Object>, ClusterError>;

    /// What the object would be after [`Self::apply`], with the server's defaults, or why the server would refuse it: a
    /// server-side dry run, which changes nothing.
    async fn preview(&self, write: &Apply) -> Result<Arc<Object>, ClusterError>;

    /// Patches an object and returns it as the server now has it.
    async fn patch(&self, write: &MergePatch) -> Result<Arc<Object>, ClusterError>;

    /// Deletes exactly the object with this uid, its dependants in the background. None, or another of that
    /// name, is success: the object that was meant is gone.
    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), ClusterError>;

    /// Records an event. Equal ones within some minutes are counted, not repeated.
    async fn record(&self, event: &EventRecord) -> Result<(), ClusterError>;

    /// The keys of objects that changed from now on. Wake-ups only: the reader looks again. Keys may repeat,
    /// and after a lost watch every key of that kind may come.
    fn changes(&self) -> BoxStream<'static, ObjectKey>;
}

/// Those of `objects` that have `text` at `field`, a JSON pointer.
fn having(mut objects: Vec<Arc<Object>>, field: &str, text: &str) -> Vec<Arc<Object>> {
    objects.retain(|object| object.text(field) == Some(text));
    objects
}

/// Why the cluster did not do what was asked.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ClusterError {
    /// The server does not serve this kind: its CRD is not installed.
    #[error("the cluster does not serve {kind}: is its CRD installed?")]
    NotServed {
        /// The kind.
        kind: Kind,
    },
    /// An object of that name is there that was not expected.
    #[error("{key} exists already and is not ours")]
    Exists {
        /// The object.
        key: ObjectKey,
    },
    /// The object is not the one, or not at the version, that the write was planned from.
    #[error("{key} changed since it was read: {why}")]
    Conflict {
        /// The object.
        key: ObjectKey,
        /// The server's words.
        why: String,
    },
    /// The object, its namespace or its parent is not there.
    #[error("{key} is not there: {why}")]
    NotFound {
        /// The object.
        key: ObjectKey,
        /// The server's words.
        why: String,
    },
    /// The server refuses the object: schema, CEL or an admission webhook.
    #[error("{key} is refused: {why}")]
    Invalid {
        /// The object.
        key: ObjectKey,
        /// The server's words, each cause with its field.
        why: String,
    },
    /// The credentials do not allow it.
    #[error("not allowed to {verb} {kind} in namespace {namespace:?}: {why}")]
    Forbidden {
        /// The RBAC verb.
        verb: &'static str,
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The server's words.
        why: String,
    },
    /// The server asks to come back later.
    #[error("the API server asks to slow down")]
    TooManyRequests {
        /// What `Retry-After` says.
        retry_after: Option<Duration>,
    },
    /// The server did not answer, or answered with an error of its own.
    #[error("the API server cannot be reached: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
}

impl ClusterError {
    /// A bounded name for metric labels.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotServed { .. } => "not_served",
            Self::Exists { .. } => "exists",
            Self::Conflict { .. } => "conflict",
            Self::NotFound { .. } => "not_found",
            Self::Invalid { .. } => "invalid",
            Self::Forbidden { .. } => "forbidden",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}
