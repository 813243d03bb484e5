//! The daemon of `serin run` beside the story, in threads of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::demo::folder::DemoFolder;
use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::run::{serve_failure, stop_signal};
use crate::clock::SystemClock;
use crate::cluster::simulated::{PodBehaviour, SimulatedCluster};
use crate::object::Object;
use crate::reconcile::serve::Assembled;
use crate::settings::{Environment, LogArgs, RunArgs, TypedAs, load};
use crate::telemetry::Metrics;

/// The version whose pods never become ready.
pub(super) const BROKEN_VERSION: &str = "1.3.0";

/// How long other pods take to become ready: as long as a person needs to see them start.
const READY_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// How long the daemon may take to come to its end.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A daemon at work.
pub(super) struct RunningDaemon {
    runtime: Runtime,
    cluster: Arc<SimulatedCluster>,
    metrics: Metrics,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunningDaemon {
    /// Starts it with the settings file of the folder.
    ///
    /// # Errors
    /// If the settings are wrong or the daemon does not start, as `serin run` would.
    pub(super) fn start(folder: &DemoFolder) -> Result<Self, Failure> {
        let config = folder.settings().to_string_lossy().into_owned();
        let args = RunArgs { config: Some(config), ..RunArgs::default() };
        let environment = Environment::of_process();
        let loaded = load(args, LogArgs::default(), &TypedAs::default(), &environment).map_err(Failure::usage)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::internal)?;
        let metrics = Metrics::new();
        let assembled = Assembled::new(&loaded.settings, metrics.clone(), Arc::new(SystemClock));
        let assembled = runtime.block_on(assembled).map_err(serve_failure)?;
        let Some(cluster) = assembled.simulated.clone() else {
            return Err(Failure::message(ExitStatus::Internal, "the settings of the demo ask for a real cluster"));
        };
        cluster.set_pod_script(Box::new(|_, template| match version_of(template) {
            Some(BROKEN_VERSION) => PodBehaviour::NeverReady,
            _ => PodBehaviour::ReadyAfter(READY_AFTER),
        }));
        let (stop, stopped) = oneshot::channel();
        let task = runtime.spawn(async move {
            let until = async {
                // A sender that is gone means the end as well.
                let _ = stopped.await;
            };
            assembled.run(until).await;
        });
        Ok(Self { runtime, cluster, metrics, stop, task })
    }

    /// The cluster that it works on.
    pub(super) fn cluster(&self) -> &SimulatedCluster {
        &self.cluster
    }

    /// Whether it has ended, which nobody asked for.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// From now on SIGINT and SIGTERM set the flag that is given back; a second one ends the process at once.
    ///
    /// # Errors
    /// If signals cannot be listened for.
    pub(super) fn stop_at_signal(&self) -> Result<Arc<AtomicBool>, Failure> {
        let _context = self.runtime.enter();
        let signal = stop_signal(self.metrics.clone()).map_err(Failure::internal)?;
        let flag = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&flag);
        self.runtime.spawn(async move {
            signal.await;
            told.store(true, Ordering::Relaxed);
        });
        Ok(flag)
    }

    /// Lets it come to its end.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn stop(self) -> Result<(), Failure> {
        let Self { runtime, cluster: _, metrics: _, stop, task } = self;
        // A receiver that is gone means that it has ended.
        let _ = stop.send(());
        let ended = runtime.block_on(async { tokio::time::timeout(STOP_PATIENCE, task).await });
        runtime.shutdown_background();
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::internal(error)),
            Err(_) => Err(Failure::message(ExitStatus::Internal, "the daemon did not come to its end")),
        }
    }
}

/// The version of the prompt pack that the pods of a template run.
pub(super) fn version_of(template: &Value) -> Option<&str> {
    let containers = template.pointer("/spec/containers")?.as_array()?;
    let variables = containers.iter().filter_map(|container| container["env"].as_array()).flatten();
    variables.filter(|variable| variable["name"] == "OMNIA_PROMPTPACK_VERSION").find_map(|v| v["value"].as_str())
}

/// The same of a Deployment.
pub(super) fn deployed_version(deployment: &Object) -> Option<&str> {
    version_of(deployment.at("/spec/template")?)
}
