//! From settings to a running daemon: which cluster, which repositories, which endpoints, until when.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::task::JoinSet;

use crate::api::names;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::api_server::{
    ApiServer, ConnectError, Connection, LabelRule, Namespaces as WatchedNamespaces, ObserveRequests, RequestOutcome,
    Settings as ClusterSettings, Watched,
};
use crate::cluster::simulated::SimulatedCluster;
use crate::git::mirror::{Mirror, MirrorSettings};
use crate::git::{NetworkLimits, RepositoryError, Revision, SecretPlace, limit_network};

use crate::ids::{SourceName, TreePath};
use crate::manifest::{Namespaces, Rules, Schemas};
use crate::object::{Kind, ObjectKey};
use crate::reconcile::daemon::Daemon;
use crate::reconcile::leader::{Elector, Identity, Leadership};
use crate::reconcile::observe::PACK_NAME;
use crate::reconcile::source::{Source, SourceOptions};
use crate::reconcile::{Core, CoreOptions};
use crate::settings::{ClusterAccess, Settings, SourceSettings};
use crate::telemetry::{Metrics, event};
use crate::web::{BindError, Health, HookTarget, HookedSource, Hooks, Server};
use crate::workload::WorkloadSettings;

/// The label that everything an agent runs as carries (reference 1c): what is watched is what can be ours.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "omnia-operator");

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no cluster to connect to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A mirror cannot be kept.
    #[error("the source {source_name} cannot be followed")]
    Mirror {
        /// The source.
        source_name: SourceName,
        /// Why.
        #[source]
        source: RepositoryError,
    },
    /// The address for metrics and health cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// A daemon that is ready to run.
pub struct Assembled {
    /// It.
    pub daemon: Arc<Daemon>,
    /// Its cluster, where that is the one inside the binary.
    pub simulated: Option<Arc<SimulatedCluster>>,
    /// Readiness of the process.
    pub health: Health,
    metrics: Metrics,
    cluster: AnyCluster,
    server: Option<Server>,
    workers: usize,
    hooks: Arc<Hooks>,
}

enum AnyCluster {
    Simulated(Arc<SimulatedCluster>),
    ApiServer(Arc<ApiServer>),
}

impl Assembled {
    /// Connects, opens the mirrors and binds the address; nothing runs yet. All that waits and decides goes by `clock`.
    ///
    /// # Errors
    /// If one of these cannot be had.
    pub async fn new(settings: &Settings, metrics: Metrics, clock: Arc<dyn Clock>) -> Result<Self, ServeError> {
        let server = match settings.listen {
            Some(address) => Some(Server::bind(address).await?),
            None => None,
        };
        let cluster = match &settings.cluster {
            ClusterAccess::Simulated => AnyCluster::Simulated(Arc::new(SimulatedCluster::new(Arc::clone(&clock)))),
            ClusterAccess::Kubernetes { kubeconfig, context, namespaces } => {
                let connection = match (kubeconfig, context) {
                    (None, None) => Connection::Infer,
                    (path, context) => Connection::Kubeconfig { path: path.clone(), context: context.clone() },
                };
                let mut watch = ClusterSettings::watching(watched());
                watch.observer = Some(Arc::new(CountRequests(metrics.clone())));
                watch.namespaces = match namespaces {
                    Namespaces::Any => WatchedNamespaces::All,
                    Namespaces::Only(names) => WatchedNamespaces::These(names.clone()),
                };
                AnyCluster::ApiServer(Arc::new(ApiServer::connect(&connection, watch, Arc::clone(&clock)).await?))
            }
        };
        let schemas = schemas();
        limit_network(NetworkLimits { silence: settings.git_timeout, ..NetworkLimits::default() });
        let mut sources = Vec::new();
        for source in &settings.sources {
            let repository = open_mirror(source, &settings.mirror_dir)
                .map_err(|error| ServeError::Mirror { source_name: source.name.clone(), source: error })?;
            sources.push(Arc::new(Source::new(source_options(source, settings), repository, Arc::clone(&schemas))));
        }
        let options = CoreOptions {
            cluster_name: settings.cluster_name.clone(),
            workload: Arc::new(WorkloadSettings {
                facade_image: settings.images.facade.clone(),
                framework_images: settings.images.frameworks.clone(),
                ..WorkloadSettings::default()
            }),
        };
        let shared: Arc<dyn Cluster> = match &cluster {
            AnyCluster::Simulated(simulated) => Arc::clone(simulated) as Arc<dyn Cluster>,
            AnyCluster::ApiServer(server) => Arc::clone(server) as Arc<dyn Cluster>,
        };
        let core = Core::new(options, Arc::clone(&shared), Arc::clone(&clock), sources, metrics.clone());
        let simulated = match &cluster {
            AnyCluster::Simulated(simulated) => Some(Arc::clone(simulated)),
            AnyCluster::ApiServer(_) => None,
        };
        let health = Health::new();
        let leadership = match (&cluster, &settings.lease) {
            (AnyCluster::ApiServer(server), Some(lease)) => {
                let namespace = lease.namespace.as_deref().unwrap_or_else(|| server.default_namespace());
                Leadership::Elected(Box::new(Elector::new(
                    Arc::clone(&shared),
                    ObjectKey::new(Kind::LEASE, namespace, &lease.name),
                    Identity::of(&settings.mirror_dir),
                    Arc::clone(&clock),
                    metrics.clone(),
                    health.check("lease", "the first look at the Lease"),
                )))
            }
            (AnyCluster::ApiServer(_) | AnyCluster::Simulated(_), _) => Leadership::Alone,
        };
        let daemon = Daemon::new(core, shared, Arc::clone(&clock), metrics.clone(), leadership);
        let target = Arc::clone(&daemon) as Arc<dyn HookTarget>;
        let hooks = Hooks::new(hooked_sources(settings), target, clock, metrics.clone());
        event::DaemonStarted { cluster: &settings.cluster_name, sources: settings.sources.len() }.emit(&metrics);
        Ok(Self { daemon, simulated, health, metrics, cluster, server, workers: settings.workers, hooks })
    }

    /// Runs until `stop` says so, and lets the passes under way come to their end.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { daemon, simulated: _, health, metrics, cluster, server, workers, hooks } = self;
        let (tell_end, end) = tokio::sync::watch::channel(false);
        let mut beside = JoinSet::new();
        let lists = health.check("cluster", "the first lists of all kinds");
        for source in daemon.core().sources() {
            let check = health.check(format!("source {}", source.options.name), "the first fetch");
            let source = Arc::clone(source);
            beside.spawn(async move { check.ready(source.first_fetch().await) });
        }
        if let Some(server) = server {
            let (health, metrics, mut end) = (health.clone(), metrics, end.clone());
            beside.spawn(async move {
                let until_end = async move {
                    // A sender that is gone means the end as well.
                    let _ = end.wait_for(|is_over| *is_over).await;
                };
                if let Err(error) = server.serve(metrics.clone(), health, hooks, until_end).await {
                    event::ServerFailed { error: &error.to_string() }.emit(&metrics);
                }
            });
        }
        match cluster {
            AnyCluster::Simulated(simulated) => {
                lists.ready("the cluster inside the binary");
                beside.spawn(simulated.run_in_real_time());
                daemon.run(workers, stop).await;
            }
            AnyCluster::ApiServer(server) => {
                // Deciding on half of what there is would take missing objects for deleted ones.
                let mut stop = std::pin::pin!(stop);
                let is_ready = tokio::select! {
                    () = server.ready() => true,
                    () = stop.as_mut() => false,
                };
                if is_ready {
                    lists.ready("all kinds are listed");
                    daemon.run(workers, stop).await;
                }
            }
        }
        let _ = tell_end.send(true);
        health.stop();
        let drain = async { while beside.join_next().await.is_some() {} };
        // The simulated cluster never ends by itself, and a scraper that does not read must not keep the process.
        let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
    }
}

/// The kinds that are watched: those that sync applies whole, of the workload kinds what can be an agent's, and the
/// credentials of Providers.
fn watched() -> Vec<Watched> {
    let all = [Kind::AGENT_RUNTIME, Kind::ROLLOUT_ANALYSIS, Kind::PROVIDER, Kind::TOOL_REGISTRY, Kind::CONFIG_MAP];
    let labelled = [Kind::DEPLOYMENT, Kind::SERVICE, Kind::SERVICE_ACCOUNT, Kind::ROLE, Kind::ROLE_BINDING];
    let (label, value) = MANAGED_BY;
    let ours = |kind| Watched::labelled(kind, LabelRule::Is(label.to_owned(), value.to_owned()));
    let (label, value) = names::CREDENTIALS_LABEL;
    let credentials = Watched::labelled(Kind::SECRET, LabelRule::Is(label.to_owned(), value.to_owned())).optional();
    let packs = Watched::all(Kind::PROMPT_PACK).indexed_by(PACK_NAME);
    all.into_iter().map(Watched::all).chain(labelled.into_iter().map(ours)).chain([packs, credentials]).collect()
}

struct CountRequests(Metrics);

impl ObserveRequests for CountRequests {
    fn observe(&self, outcome: &RequestOutcome<'_>) {
        self.0.sync.cluster_request(outcome.verb, outcome.kind, outcome.result);
    }
}

/// The schemas that manifests are held to.
pub(crate) fn schemas() -> Arc<Schemas> {
    Arc::new(Schemas::embedded())
}

/// Opens the mirror of a source, in a folder of its own below `folder`.
pub(crate) fn open_mirror(source: &SourceSettings, folder: &Path) -> Result<Arc<Mirror>, RepositoryError> {
    let mut access = source.access.clone();
    if let Some(known) = source.repo.credentials() {
        access.username = Some(known.user.clone());
        access.password = known.password.clone().map(SecretPlace::Address);
    }
    let mirror = Mirror::open(MirrorSettings {
        url: source.repo.as_str().to_owned(),
        revision: source.revision.clone(),
        folder: folder.join(source.name.as_str()),
        access,
    })?;
    Ok(Arc::new(mirror))
}

fn hooked_sources(settings: &Settings) -> Vec<HookedSource> {
    let hooked = |source: &SourceSettings| {
        let secret = source.webhook.clone()?;
        Some(HookedSource { name: source.name.clone(), followed: source.revision.clone(), secret })
    };
    settings.sources.iter().filter_map(hooked).collect()
}

/// A source as the settings describe it.
pub(crate) fn source_options(source: &SourceSettings, settings: &Settings) -> SourceOptions {
    let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    SourceOptions {
        name: source.name.clone(),
        root: TreePath::new(source.path.as_str()),
        branch: match &source.revision {
            Revision::Branch(branch) => Some(branch.clone()),
            Revision::Tag(_) | Revision::Commit(_) => None,
        },
        author: source.author.clone(),
        rules: rules(source),
        adopt_from: source.adopt_from.clone(),
        poll_interval: signed(source.poll_interval),
        status: settings.status_branch.as_ref().map(|status| (status.name.clone(), signed(status.interval))),
    }
}

/// What the settings grant to a source.
pub(crate) fn rules(source: &SourceSettings) -> Rules {
    Rules {
        kinds: source.kinds.clone(),
        namespaces: source.namespaces.clone(),
        default_namespace: source.default_namespace.clone(),
        ..Rules::default()
    }
}
