//! The contract of [`Cluster`], held against a real API server with its controllers: what the simulated cluster
//! claims about Kubernetes is what Kubernetes does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Request;
use serde_json::Value;
use serin::clock::SystemClock;
use serin::cluster::Cluster;
use serin::cluster::api_server::{ApiServer, Connection, Namespaces, Settings, Watched};
use serin::object::{Kind, ObjectKey};
use tokio::time::Instant;

use crate::cluster_contract::{CASES, Fixture, KINDS};
use crate::support::LOOK_EVERY;
use crate::support::control_plane::{ControlPlane, User};

/// How long one case may take on a machine with two cores that runs all cases at once.
const PATIENCE: Duration = Duration::from_secs(120);

struct Real {
    cluster: ApiServer,
    namespace: String,
    client: kube::Client,
    started: Instant,
}

impl Real {
    async fn new(plane: &ControlPlane) -> Self {
        let namespace = plane.namespace().await;
        let watches = KINDS.into_iter().map(Watched::all).collect();
        let namespaces = Namespaces::These(vec![namespace.clone()]);
        let settings = Settings { namespaces, ..Settings::watching(watches) };
        let connection = Connection::Kubeconfig { path: Some(plane.kubeconfig(User::Admin)), context: None };
        let cluster = ApiServer::connect(&connection, settings, Arc::new(SystemClock)).await.expect("a kubeconfig");
        cluster.ready().await;
        Self { cluster, namespace, client: plane.client(User::Admin).await, started: Instant::now() }
    }
}

#[async_trait]
impl Fixture for Real {
    fn cluster(&self) -> &dyn Cluster {
        &self.cluster
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn unserved(&self) -> Kind {
        Kind::PROVIDER
    }

    async fn edit(&self, manager: &str, key: &ObjectKey, patch: Value) {
        let path = match key.kind.group.as_ref() {
            "" => format!("/api/v1/namespaces/{}", key.namespace),
            _ => format!("/apis/{}/namespaces/{}", key.kind.api_version(), key.namespace),
        };
        let path = format!("{path}/{}s", key.kind.kind.to_lowercase());
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        let patch = Request::new(path).patch(&key.name, &params, &Patch::Merge(patch)).expect("a request");
        self.client.request::<DynamicObject>(patch).await.expect("a person may edit");
    }

    async fn moment(&self) -> bool {
        tokio::time::sleep(LOOK_EVERY).await;
        self.started.elapsed() < PATIENCE
    }
}

#[tokio::test]
async fn the_real_cluster_keeps_the_contract() {
    let plane = ControlPlane::shared();
    plane.kubelet();
    plane.install_serin_crds().await;
    let mut running = Vec::new();
    for (name, case) in CASES {
        let fixture = Real::new(plane).await;
        running.push((name, tokio::spawn(async move { case(&fixture).await })));
    }
    let mut broken = Vec::new();
    for (name, case) in running {
        if case.await.is_err() {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "each says why above: {broken:?}");
}
