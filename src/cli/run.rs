//! `serin run`: the daemon.

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{print_note, print_result};
use crate::settings::{Environment, LogArgs, RunArgs, Settings, TypedAs, load, render_config};
use crate::telemetry::event::SettingsDoubtful;
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
    start(loaded.settings, metrics)
}

/// Hands over to the daemon.
fn start(settings: Settings, metrics: Metrics) -> Result<ExitStatus, Failure> {
    // SEAM: `crate::reconcile::daemon::run(settings, metrics)` stands here once the daemon is merged.
    let (_, _) = (settings, metrics);
    Err(Failure::message(ExitStatus::Internal, "the daemon is not part of this build"))
}
