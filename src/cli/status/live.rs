//! The agents as the cluster has them now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
use crate::telemetry::Chain;

/// Where the events of a rollout are.
fn event_kind() -> Kind {
    Kind::from_api_version("events.k8s.io/v1", "Event")
}

/// What was read at one moment.
pub(super) struct Live {
    cluster: Arc<dyn Cluster>,
    agents: Vec<Arc<Object>>,
    deployments: Vec<Arc<Object>>,
    events: Arc<Events>,
}

/// The events about agents, asked for again only when a rollout has moved on.
#[derive(Default)]
pub(super) struct Events {
    known: Mutex<BTreeMap<AgentKey, Known>>,
}

/// When they were asked for, and the answer.
type Known = (Moment, Vec<Arc<Object>>);

/// Which step of which rollout an agent is at.
type Moment = (Option<String>, Option<i64>);

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
            Self::read(Arc::new(cluster.map_err(Failure::unavailable)?), selection, Arc::default()).await
        })
        .await
    }

    /// Reads what is to be shown.
    pub(super) async fn read(
        cluster: Arc<dyn Cluster>,
        selection: &Selection,
        events: Arc<Events>,
    ) -> Result<Self, Failure> {
        let namespace = selection.namespace.as_deref();
        let agents = cluster.list(&Kind::AGENT_RUNTIME, namespace).await.map_err(explain)?;
        let deployments = match cluster.list(&Kind::DEPLOYMENT, namespace).await {
            Ok(deployments) => deployments,
            Err(error) => {
                print_note(&format!("note: pods and delivered weights are not known: {}", Chain(&error)));
                Vec::new()
            }
        };
        Ok(Self { cluster, agents, deployments, events })
    }

    /// All agents.
    pub(super) fn rows(&self) -> Vec<AgentRow> {
        agent_rows(&self.agents, &self.deployments, SystemClock.now())
    }

    /// The one agent that is meant.
    pub(super) async fn one(&self, selection: &Selection) -> Result<Option<AgentView>, Failure> {
        let keys: Vec<AgentKey> =
            self.agents.iter().map(|agent| AgentKey::new(agent.namespace(), agent.name())).collect();
        let Some(key) = selection.one(&keys.iter().collect::<Vec<_>>())? else { return Ok(None) };
        let is_meant = |agent: &&Arc<Object>| agent.namespace() == key.namespace && agent.name() == key.name;
        let Some(agent) = self.agents.iter().find(is_meant) else { return Ok(None) };
        let events = self.events_about(key, agent).await;
        Ok(Some(AgentView::of_cluster(agent, &self.deployments, &events, SystemClock.now())))
    }

    /// They only tell when earlier steps were done: without them, these times are left out.
    async fn events_about(&self, key: &AgentKey, agent: &Object) -> Vec<Arc<Object>> {
        let started = agent.text("/status/rollout/startedAt").map(str::to_owned);
        let moment = (started, agent.integer("/status/rollout/currentStep"));
        // In the first step nothing is done yet.
        if moment.1.is_none_or(|step| step < 2) {
            return Vec::new();
        }
        let known = |events: &Events| events.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some((_, events)) = known(&self.events).filter(|(at, _)| *at == moment) {
            return events;
        }
        let events = match self.cluster.list(&event_kind(), Some(&key.namespace)).await {
            Ok(mut events) => {
                events.retain(|event| event.text("/regarding/uid") == agent.text("/metadata/uid"));
                events
            }
            Err(error) => {
                print_note(&format!("note: when earlier steps were done is not known: {}", Chain(&error)));
                Vec::new()
            }
        };
        let mut all = self.events.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), (moment, events.clone()));
        events
    }
}
