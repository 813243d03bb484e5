//! `serin demo`: three rollouts on this machine, told while they happen.
//!
//! Nothing is played: a real repository, the git command line as a person uses it, and the daemon of `serin run` with
//! the simulated cluster inside this program. The only thing that is arranged is which pods never become ready.
//!
//! Invariant: every wait has a deadline and ends with a sentence; the demo never hangs.

mod daemon;
mod folder;
mod person;
mod sight;
mod stage;
mod story;

use std::path::PathBuf;

use crate::cli::demo::daemon::RunningDaemon;
use crate::cli::demo::folder::DemoFolder;
use crate::cli::demo::person::{Person, require_git};
use crate::cli::demo::stage::Stage;
use crate::cli::exit::{ExitStatus, Failure};
use crate::settings::LogSettings;
use crate::telemetry::start_logging_to;

/// Flags of `serin demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Folder for the repository and its clone; one that the demo did not make is never touched
    #[arg(long, value_name = "DIR", default_value = "./serin-demo")]
    pub dir: PathBuf,

    /// Keep the daemon running at the end, to push from the clone by hand
    #[arg(long)]
    pub keep_running: bool,
}

/// Runs it. The log goes to a file in the folder.
///
/// # Errors
/// If git is not installed, the folder is not the demo's or cannot be written, or the demo does not come to its end.
pub fn run(args: &DemoArgs, log: &LogSettings) -> Result<ExitStatus, Failure> {
    let DemoArgs { dir, keep_running } = args;
    require_git()?;
    let folder = DemoFolder::claim(dir)?;
    let person = Person::with_clone_in(&folder)?;
    start_logging_to(log, folder.create_log()?).map_err(Failure::internal)?;
    let mut stage = Stage::new(&folder, &person, story::agent());
    story::introduce(&stage)?;
    story::push_examples(&mut stage)?;
    let daemon = RunningDaemon::start(&folder)?;
    stage.raise(&daemon);
    let told = perform(&mut stage, &daemon, *keep_running);
    drop(stage);
    // Also after a failure: a daemon that is not stopped could keep the process.
    let stopped = daemon.stop();
    told.and(stopped)?;
    Ok(ExitStatus::Ok)
}

fn perform(stage: &mut Stage<'_>, daemon: &RunningDaemon, keeps_running: bool) -> Result<(), Failure> {
    story::tell(stage)?;
    if keeps_running {
        let is_over = daemon.stop_at_signal()?;
        story::hand_over(stage, &is_over)
    } else {
        story::close(stage)
    }
}
