//! The cluster with its writes behind the proof of leadership.

use std::sync::Arc;

use super::term::{Leading, NotLeading};
use crate::cluster::{Cluster, ClusterError};
use crate::object::{Kind, Object, ObjectKey};

/// A cluster that everybody may read, and that is written to with a [`Leading`] only.
pub struct Guarded(Arc<dyn Cluster>);

impl Guarded {
    /// Puts `cluster` behind the guard.
    pub fn new(cluster: Arc<dyn Cluster>) -> Self {
        Self(cluster)
    }

    /// As [`Cluster::get`].
    ///
    /// # Errors
    /// As there.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        self.0.get(key).await
    }

    /// As [`Cluster::look`].
    ///
    /// # Errors
    /// As there.
    pub async fn look(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        self.0.look(key).await
    }

    /// As [`Cluster::list`].
    ///
    /// # Errors
    /// As there.
    pub async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError> {
        self.0.list(kind, namespace).await
    }

    /// As [`Cluster::keys`].
    ///
    /// # Errors
    /// As there.
    pub async fn keys(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<ObjectKey>, ClusterError> {
        self.0.keys(kind, namespace).await
    }

    /// As [`Cluster::list_where`].
    ///
    /// # Errors
    /// As there.
    pub async fn list_where(
        &self,
        kind: &Kind,
        namespace: &str,
        field: &str,
        text: &str,
    ) -> Result<Vec<Arc<Object>>, ClusterError> {
        self.0.list_where(kind, namespace, field, text).await
    }

    /// As [`Cluster::is_current`].
    pub fn is_current(&self, kind: &Kind, namespace: &str) -> bool {
        self.0.is_current(kind, namespace)
    }

    /// As [`Cluster::serves`].
    ///
    /// # Errors
    /// As there.
    pub async fn serves(&self, kind: &Kind) -> Result<bool, ClusterError> {
        self.0.serves(kind).await
    }

    /// The cluster for one write. Not to be kept: the next write asks again.
    ///
    /// # Errors
    /// If the proof does not hold any more.
    pub fn as_leader(&self, leading: &Leading) -> Result<&dyn Cluster, NotLeading> {
        leading.check()?;
        Ok(self.0.as_ref())
    }
}
