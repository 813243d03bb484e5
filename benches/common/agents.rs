//! The agents of a namespace as a watch tells of them: lists in a loop would cost the API server more than what is measured.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use serin::clock::SystemClock;
use serin::cluster::Cluster as _;
use serin::cluster::api_server::{ApiServer, Connection, Namespaces, Settings, Watched};
use serin::object::{Kind, ObjectKey};

use crate::common::patiently;
use crate::support::control_plane::User;
use crate::support::site::Site;

/// A watch of all agents of a site.
pub(crate) struct Agents(ApiServer);

impl Agents {
    /// Begins to watch.
    pub(crate) async fn of(site: &Site) -> Self {
        Self(watching(site, Kind::AGENT_RUNTIME).await)
    }

    /// Waits until there are `count` agents for which `holds`, for as long as that may take on a slow machine.
    pub(crate) async fn until(&self, count: u64, what: &str, holds: impl Fn(&Value) -> bool) {
        let mut changes = self.0.changes();
        let mut holding: BTreeSet<ObjectKey> = BTreeSet::new();
        let all = self.0.keys(&Kind::AGENT_RUNTIME, None).await.expect("a watch");
        let looked = async {
            let mut waiting = all;
            loop {
                for key in waiting {
                    let live = self.0.get(&key).await.expect("a watch");
                    let is_so = live.is_some_and(|live| holds(&Value::Object(live.fields().clone())));
                    if is_so {
                        holding.insert(key)
                    } else {
                        holding.remove(&key)
                    };
                }
                if holding.len() as u64 == count {
                    return;
                }
                waiting = changes.next().await.into_iter().collect();
            }
        };
        let most = Duration::from_secs(300 + count);
        tokio::time::timeout(most, looked).await.unwrap_or_else(|_| panic!("{what} within {most:?}"));
    }
}

/// Waits until a commit that is pushed now is in the cluster, for as long as that may take beside `count` agents.
pub(crate) async fn until_looked_at(site: &Site, count: u64) {
    let mark = site.push_mark();
    patiently(count, "a mark is applied", || async { site.get("configmaps", &mark).await.is_some() }).await;
}

/// Watches a kind in the namespace of a site.
pub(crate) async fn watching(site: &Site, kind: Kind) -> ApiServer {
    let connection = Connection::Kubeconfig { path: Some(site.plane.kubeconfig(User::Admin)), context: None };
    let namespaces = Namespaces::These(vec![site.namespace.clone()]);
    let settings = Settings { namespaces, ..Settings::watching(vec![Watched::all(kind)]) };
    let cluster = ApiServer::connect(&connection, settings, Arc::new(SystemClock)).await.expect("a kubeconfig");
    cluster.ready().await;
    cluster
}
