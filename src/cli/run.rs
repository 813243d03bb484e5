//! `serin run`: the daemon.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{print_note, print_result};
use crate::clock::SystemClock;
use crate::reconcile::daemon::Daemon;
use crate::reconcile::serve::{Assembled, ServeError};
use crate::settings::{Environment, LogArgs, RunArgs, Settings, TypedAs, load, render_config};
use crate::telemetry::event::{DaemonStopping, SettingsDoubtful};
use crate::telemetry::{Metrics, start_logging};

/// Understands the settings, then runs the daemon until a signal ends it; with `--print-config` only
/// prints them.
///
/// # Errors
/// If the settings are wrong, or the daemon cannot start.
pub fn run(args: RunArgs, log: LogArgs, typed: &TypedAs, environment: &Environment) -> Result<ExitStatus, Failure> {
    let is_print = args.print_config;
    let loaded = load(args, log, typed, environment).map_err(Failure::usage)?;
    if is_print {
        print_result(&render_config(&loaded))?;
        loaded.warnings.iter().for_each(|warning| print_note(&format!("warning: {warning}")));
        return Ok(ExitStatus::Ok);
    }
    start_logging(&loaded.settings.log).map_err(Failure::internal)?;
    let metrics = Metrics::new();
    loaded.warnings.iter().for_each(|warning| SettingsDoubtful { warning }.emit(&metrics));
    start(&loaded.settings, metrics)
}

/// Runs the daemon until SIGTERM or SIGINT; a second one ends the process at once.
fn start(settings: &Settings, metrics: Metrics) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        // Heard from the first moment on: one that nobody listens to ends the process.
        let hangup = signal(SignalKind::hangup()).map_err(Failure::internal)?;
        let assembled =
            Assembled::new(settings, metrics.clone(), Arc::new(SystemClock)).await.map_err(serve_failure)?;
        let stop = stop_signal(metrics.clone()).map_err(Failure::internal)?;
        fetch_on_hangup(hangup, Arc::clone(&assembled.daemon));
        assembled.run(stop).await;
        Ok(ExitStatus::Ok)
    })
}

/// How a daemon that does not start ends the command.
pub(crate) fn serve_failure(error: ServeError) -> Failure {
    match error {
        ServeError::Connect(_) => Failure::unavailable(error),
        ServeError::Mirror { .. } | ServeError::Bind(_) => Failure::internal(error),
    }
}

/// Resolves at the first SIGTERM or SIGINT; from then on a second one ends the process at once.
pub(crate) fn stop_signal(metrics: Metrics) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let first = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        DaemonStopping { signal: first }.emit(&metrics);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            end_at_once();
        });
    })
}

/// Every effect is safe to be cut off: the next start goes on where the cluster and git stand.
#[expect(clippy::exit, reason = "the second signal asks for exactly this")]
fn end_at_once() -> ! {
    std::process::exit(130)
}

/// Asks all remotes at each SIGHUP.
fn fetch_on_hangup(mut hangup: Signal, daemon: Arc<Daemon>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            daemon.fetch_all();
        }
    });
}
