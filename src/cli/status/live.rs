//! The agents as the cluster has them now.

use std::sync::Arc;

use crate::chain::Chain;
use crate::cli::exit::Failure;
use crate::cli::output::print_note;
use crate::cli::reach::{connection, explain, within_patience};
use crate::cli::status::Selection;
use crate::cli::status::row::{AgentRow, agent_rows};
use crate::cli::status::view::AgentView;
use crate::clock::{Clock, SystemClock};
use crate::cluster::Cluster;
use crate::cluster::api_server::{ApiServer, Settings};
use crate::ids::AgentKey;
use crate::object::{Kind, Object};
use crate::settings::{ClusterArgs, Environment};

/// What was read at one moment.
pub(super) struct Live {
    agents: Vec<Arc<Object>>,
    deployments: Vec<Arc<Object>>,
}

impl Live {
    /// Asks the server, once.
    pub(super) async fn once(
        args: ClusterArgs,
        environment: &Environment,
        selection: &Selection,
    ) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let connection = connection(args, environment);
        within_patience(async {
            // No watches: each list goes to the server once.
            let cluster = ApiServer::connect(&connection, Settings::watching(Vec::new()), clock).await;
            Self::read(&cluster.map_err(Failure::unavailable)?, selection).await
        })
        .await
    }

    /// Reads what is to be shown.
    pub(super) async fn read(cluster: &dyn Cluster, selection: &Selection) -> Result<Self, Failure> {
        let namespace = selection.namespace.as_deref();
        let agents = cluster.list(&Kind::AGENT_RUNTIME, namespace).await.map_err(explain)?;
        let deployments = match cluster.list(&Kind::DEPLOYMENT, namespace).await {
            Ok(deployments) => deployments,
            Err(error) => {
                print_note(&format!("note: pods and delivered weights are not known: {}", Chain(&error)));
                Vec::new()
            }
        };
        Ok(Self { agents, deployments })
    }

    /// All agents.
    pub(super) fn rows(&self) -> Vec<AgentRow> {
        agent_rows(&self.agents, &self.deployments, SystemClock.now())
    }

    /// The one agent that is meant.
    pub(super) fn one(&self, selection: &Selection) -> Result<Option<AgentView>, Failure> {
        let keys: Vec<AgentKey> =
            self.agents.iter().map(|agent| AgentKey::new(agent.namespace(), agent.name())).collect();
        let Some(key) = selection.one(&keys.iter().collect::<Vec<_>>())? else { return Ok(None) };
        let is_meant = |agent: &&Arc<Object>| agent.namespace() == key.namespace && agent.name() == key.name;
        let Some(agent) = self.agents.iter().find(is_meant) else { return Ok(None) };
        Ok(Some(AgentView::of_cluster(agent, &self.deployments, SystemClock.now())))
    }
}
