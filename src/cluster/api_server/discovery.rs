//! Which kinds the server serves, and under which path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::request::{Http, Operation, Target};
use crate::cluster::ClusterError;
use crate::object::Kind;

/// Where the objects of a kind are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    plural: String,
    is_namespaced: bool,
}

impl Resource {
    /// The path of the collection, in one namespace or across all.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let root = root(&self.kind);
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

/// What the server serves, looked up per group and version, once for what is there and seldom for what is not.
pub(super) struct Discovery {
    http: Http,
    recheck: Duration,
    groups: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Group>>>>,
}

#[derive(Default)]
struct Group {
    looked: Option<Instant>,
    resources: HashMap<String, Arc<Resource>>,
}

impl Discovery {
    pub(super) fn new(http: Http, recheck: Duration) -> Self {
        Self { http, recheck, groups: Mutex::default() }
    }

    /// Where the objects of `kind` are; `None` if the server does not serve it.
    pub(super) async fn resource(&self, kind: &Kind) -> Result<Option<Arc<Resource>>, ClusterError> {
        let group = self.group(kind);
        // Held while asking, so that many who miss one kind ask once.
        let mut group = group.lock().await;
        if let Some(resource) = group.resources.get(kind.kind.as_ref()) {
            return Ok(Some(resource.clone()));
        }
        if group.looked.is_none_or(|looked| looked.elapsed() >= self.recheck) {
            group.resources = self.look(kind).await?;
            group.looked = Some(Instant::now());
        }
        Ok(group.resources.get(kind.kind.as_ref()).cloned())
    }

    /// Forgets what is known of the group of `kind`: a path that was known is not served any more.
    pub(super) async fn forget(&self, kind: &Kind) {
        *self.group(kind).lock().await = Group::default();
    }

    fn group(&self, kind: &Kind) -> Arc<tokio::sync::Mutex<Group>> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.entry(kind.api_version()).or_default().clone()
    }

    async fn look(&self, kind: &Kind) -> Result<HashMap<String, Arc<Resource>>, ClusterError> {
        let (above, last) = split(&root(kind));
        let target = Target { kind, namespace: "", name: &last };
        let body = match self.http.send_to(above, &target, &Operation::Get).await {
            Ok(answer) => answer.body,
            // The whole group or version is missing.
            Err(ClusterError::NotServed { .. } | ClusterError::NotFound { .. }) => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        };
        Ok(resources_in(kind, &body))
    }
}

/// Reads an `APIResourceList`.
fn resources_in(kind: &Kind, body: &Value) -> HashMap<String, Arc<Resource>> {
    let listed = body["resources"].as_array().into_iter().flatten();
    let resources = listed.filter_map(|entry| {
        let (plural, name) = (entry["name"].as_str()?, entry["kind"].as_str()?);
        // Subresources are listed too, as `deployments/status`.
        (!plural.contains('/')).then(|| {
            let kind = Kind { kind: name.to_owned().into(), ..kind.clone() };
            let is_namespaced = entry["namespaced"].as_bool().unwrap_or(false);
            (name.to_owned(), Arc::new(Resource { kind, plural: plural.to_owned(), is_namespaced }))
        })
    });
    resources.collect()
}

/// The path of a group and version.
fn root(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    }
}

fn split(path: &str) -> (String, String) {
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    (above.to_owned(), last.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_list_gives_paths_and_leaves_out_subresources() {
        let body = json!({"resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": true},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
        ]});
        let resources = resources_in(&Kind::DEPLOYMENT, &body);
        assert_eq!(resources.len(), 1);
        let deployments = &resources["Deployment"];
        assert_eq!(deployments.path(None), "/apis/apps/v1/deployments");
        assert_eq!(deployments.path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
    }

    #[test]
    fn the_core_group_has_a_path_of_its_own_and_cluster_objects_no_namespace() {
        let body = json!({"resources": [{"name": "nodes", "kind": "Node", "namespaced": false}]});
        let nodes = &resources_in(&Kind::SERVICE, &body)["Node"];
        assert_eq!(nodes.path(Some("shop")), "/api/v1/nodes");
    }
}
