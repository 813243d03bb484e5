//! The command line: one file per command, each with its `Args` and its `run`.
//!
//! stdout holds results and nothing else (see [`output`]); what is told on the way goes to stderr.

pub mod check;
pub mod crds;
pub mod demo;
pub mod diff;
pub mod exit;
pub mod output;
mod reach;
pub mod run;
pub mod status;
mod table;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cli::exit::{ExitStatus, Failure};
use crate::settings::{Environment, LogArgs, TypedAs, resolve_log};
use crate::telemetry::start_logging;

/// GitOps rollouts for AI agents on Kubernetes: every promotion and every rollback is a commit
#[derive(Debug, Parser)]
#[command(name = "serin", version, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    #[doc = "What to do."]
    pub command: Command,

    #[command(flatten)]
    #[doc = "How the log looks."]
    pub log: LogArgs,
}

const SETTINGS_HELP: &str = "\
Every flag is also a variable: --poll-interval is SERIN_POLL_INTERVAL, and what may be repeated is
separated by commas there. A flag wins over its variable, a variable over the settings file.
Durations are written 90s, 5m or 1h30m.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Follow repositories and roll out what they say
    #[command(after_help = SETTINGS_HELP)]
    Run(Box<crate::settings::RunArgs>),
    /// Show a whole rollout on this machine: no cluster and no network needed
    Demo(demo::DemoArgs),
    /// Show what a sync would change, by a dry run on the API server
    #[command(after_help = diff::HELP)]
    Diff(Box<diff::DiffArgs>),
    /// Show all agents, or one in full: step, weights, versions, and what each waits for
    Status(Box<status::StatusArgs>),
    /// Check manifests as the daemon does, without a cluster: for editors and pull requests
    Check(check::CheckArgs),
    /// Print the CustomResourceDefinitions, for kubectl apply -f -
    Crds(crds::CrdsArgs),
}

/// The whole command line, as the help shows it.
fn command() -> clap::Command {
    // One sentence below each help tells the name of every variable; 30 repetitions would hide the rest.
    let hide = |arg: clap::Arg| arg.hide_env(true);
    Cli::command().mut_args(hide).mut_subcommands(|command| command.mut_args(hide))
}

/// Runs the command that the process was started with, and says how it ended.
pub fn main() -> ExitStatus {
    match run_command() {
        Ok(status) => status,
        Err(failure) => {
            output::print_failure(&failure);
            failure.status()
        }
    }
}

fn run_command() -> Result<ExitStatus, Failure> {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return output::print_usage(&error),
    };
    let Cli { command, log } = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return output::print_usage(&error),
    };
    let typed = matches.subcommand().map(|(_, matches)| TypedAs::from_matches(matches)).unwrap_or_default();
    let environment = Environment::of_process();
    // `run` has its own, since the settings file speaks about the log too.
    if let Command::Run(args) = command {
        return run::run(*args, log, &typed, &environment);
    }
    let log = resolve_log(log, &typed, &environment).map_err(Failure::usage)?;
    // `demo` has its own in its folder, since its screen is for the story.
    if let Command::Demo(args) = &command {
        return demo::run(args, &log);
    }
    start_logging(&log).map_err(Failure::internal)?;
    match command {
        Command::Run(_) | Command::Demo(_) => unreachable!("they were handled above"),
        Command::Diff(args) => diff::run(*args, &typed, &environment),
        Command::Status(args) => status::run(*args, &typed, &environment),
        Command::Check(args) => check::run(args, &typed, &environment),
        Command::Crds(args) => crds::run(&args),
    }
}
