//! `serin demo`: a whole rollout on this machine.

use std::path::PathBuf;

use crate::cli::exit::{ExitStatus, Failure};

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

/// Runs it.
///
/// # Errors
/// If the folder is not the demo's, or the demo does not come to its end.
pub fn run(args: &DemoArgs) -> Result<ExitStatus, Failure> {
    let DemoArgs { dir: _, keep_running: _ } = args;
    Err(Failure::message(ExitStatus::Internal, "the demo is not part of this build"))
}
