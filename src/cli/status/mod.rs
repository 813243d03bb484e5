//! `serin status`: all agents, where each one is and what it waits for; or one agent in full.
//!
//! It asks the cluster and not the daemon, so that it works while the daemon does not; or the status branch, so that it
//! works while the cluster does not.

mod from_git;
mod live;
mod page;
mod row;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod view_tests;
mod watch;

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{print_note, print_result};
use crate::cli::status::from_git::GitStatus;
use crate::cli::status::live::Live;
use crate::cli::status::page::render_page;
use crate::cli::table::render_table;
use crate::clock::{Clock, SystemClock};
use crate::ids::AgentKey;
use crate::manifest::nearest;
use crate::settings::{ClusterArgs, Environment, GitArgs, TypedAs};

pub use row::{AgentRow, agent_rows};
pub use view::{AgentView, DecisionView, Pods, StepState, StepView, Track};

/// Flags of `serin status`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StatusArgs {
    /// One agent to show in full: NAME or NAMESPACE/NAME [default: a list of all]
    #[arg(value_name = "AGENT")]
    pub agent: Option<String>,

    /// Only agents of this namespace
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Agents of all namespaces, which is the default
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Form of the output: table (a page for one agent), json or yaml
    #[arg(short, long, value_enum, default_value_t = OutputForm::Table, hide_possible_values = true, value_name = "FORM")]
    pub output: OutputForm,

    /// Follow what happens until Ctrl-C: redrawn on a terminal, a line for each change otherwise
    #[arg(short, long, conflicts_with = "from_git")]
    pub watch: bool,

    /// Read the status branch instead of the cluster
    #[arg(long)]
    pub from_git: bool,

    /// Repository, a URL or a clone: for --from-git [default: the clone of the working folder], and for the
    /// history of one agent
    #[arg(long, value_name = "URL", env = "SERIN_REPO", hide_env_values = true, help_heading = "Git")]
    pub repo: Option<String>,

    /// Branch with the decisions [default: main]
    #[arg(long, value_name = "NAME", env = "SERIN_BRANCH", help_heading = "Git")]
    pub branch: Option<String>,

    /// Branch with the observations
    #[arg(
        help = "Branch with the observations [default: serin/status/<cluster name>, or the only one there is]",
        long,
        value_name = "NAME",
        env = "SERIN_STATUS_BRANCH",
        help_heading = "Git"
    )]
    pub status_branch: Option<String>,

    /// Name of the cluster that the observations are of
    #[arg(long, value_name = "NAME", env = "SERIN_CLUSTER_NAME", help_heading = "Git")]
    pub cluster_name: Option<String>,

    #[command(flatten)]
    #[doc = "How the repository is reached."]
    pub git: GitArgs,

    #[command(flatten)]
    #[doc = "How the cluster is reached."]
    pub cluster: ClusterArgs,
}

/// `--output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For both
    Yaml,
}

/// Which agents are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// `None`: in all namespaces.
    pub(super) namespace: Option<String>,
    /// `None`: all.
    pub(super) name: Option<String>,
}

impl Selection {
    fn of(agent: Option<&str>, namespace: Option<&str>) -> Result<Self, Failure> {
        let usage = |message: String| Err(Failure::message(ExitStatus::Usage, message));
        let namespace = namespace.map(str::to_owned);
        let Some(agent) = agent else { return Ok(Self { namespace, name: None }) };
        let (inner, name) = match agent.split_once('/') {
            Some((inner, name)) => (Some(inner), name),
            None => (None, agent),
        };
        if name.is_empty() || name.contains('/') || inner == Some("") {
            return usage(format!("{agent:?} is neither NAME nor NAMESPACE/NAME"));
        }
        match (inner, namespace) {
            (Some(inner), Some(outer)) if inner != outer => {
                usage(format!("{agent} and --namespace {outer} name two namespaces: say one of them"))
            }
            (inner, outer) => Ok(Self { namespace: inner.map(str::to_owned).or(outer), name: Some(name.to_owned()) }),
        }
    }

    /// Whether the agent is in the namespace that is meant.
    pub(super) fn is_in_scope(&self, agent: &AgentKey) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == agent.namespace)
    }

    /// The one agent of `all` that is meant; `None`: no single one is.
    ///
    /// # Errors
    /// If there is none of this name, or there are several.
    pub(super) fn one<'a>(&self, all: &[&'a AgentKey]) -> Result<Option<&'a AgentKey>, Failure> {
        let Some(name) = &self.name else { return Ok(None) };
        let in_scope: Vec<&'a AgentKey> = all.iter().copied().filter(|agent| self.is_in_scope(agent)).collect();
        let found: Vec<&'a AgentKey> = in_scope.iter().copied().filter(|agent| agent.name == *name).collect();
        match &found[..] {
            [one] => Ok(Some(one)),
            [] => Err(self.not_found(name, all, &in_scope)),
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                let message = format!("there are several agents {name}: say which of {}", names.join(", "));
                Err(Failure::message(ExitStatus::Usage, message))
            }
        }
    }

    fn not_found(&self, name: &str, all: &[&AgentKey], in_scope: &[&AgentKey]) -> Failure {
        let place =
            self.namespace.as_ref().map(|namespace| format!(" in the namespace {namespace}")).unwrap_or_default();
        let elsewhere = all.iter().find(|agent| agent.name == name).map(ToString::to_string);
        let near = || nearest(name, in_scope.iter().map(|agent| agent.name.as_str())).map(str::to_owned);
        let hint = elsewhere.or_else(near).map(|near| format!("\n  hint: did you mean {near}?")).unwrap_or_default();
        Failure::message(ExitStatus::NotFound, format!("there is no agent {name}{place}{hint}"))
    }
}

/// Shows the agents, or one of them.
///
/// # Errors
/// If what is asked cannot be reached or refuses, or if the agent is not there.
pub fn run(args: StatusArgs, typed: &TypedAs, environment: &Environment) -> Result<ExitStatus, Failure> {
    let selection = Selection::of(args.agent.as_deref(), args.namespace.as_deref())?;
    refuse_unused(&args, &selection, typed)?;
    let output = args.output;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        if args.watch {
            return watch::run(args.cluster, &selection, output, environment).await;
        }
        let has_repo = args.repo.as_ref().is_some_and(|repo| !repo.is_empty());
        if args.from_git {
            let git = GitStatus::open(&args, typed, environment).await?;
            return match git.one(&selection).await? {
                Some(view) => show_one(&view, output),
                None => show_all(&git.rows(&selection), output),
            };
        }
        let live = Live::once(args.cluster.clone(), environment, &selection).await?;
        let Some(mut view) = live.one(&selection)? else { return show_all(&live.rows(), output) };
        if has_repo {
            add_git(&mut view, &args, typed, environment).await;
        }
        show_one(&view, output)
    })
}

/// Refuses flags about a repository where none is looked at: who typed one waits for what does not come. Variables may be set for
/// another command.
fn refuse_unused(args: &StatusArgs, selection: &Selection, typed: &TypedAs) -> Result<(), Failure> {
    let has_repo = args.repo.as_ref().is_some_and(|repo| !repo.is_empty());
    let why = if args.from_git {
        return Ok(());
    } else if args.watch {
        "is about a repository, and --watch follows the cluster alone"
    } else if selection.name.is_none() {
        "is about a repository, and the list of all agents is that of the cluster\n  hint: add --from-git"
    } else if has_repo {
        return Ok(());
    } else {
        "is about a repository\n  hint: say which with --repo"
    };
    match typed.flag_of::<GitArgs>(&["repo", "branch", "status_branch", "cluster_name"]) {
        Some(flag) => Err(Failure::message(ExitStatus::Usage, format!("{flag} {why}"))),
        None => Ok(()),
    }
}

/// Adds the history from the repository. The cluster alone is an answer too.
async fn add_git(view: &mut AgentView, args: &StatusArgs, typed: &TypedAs, environment: &Environment) {
    let added = async {
        let git = GitStatus::open(args, typed, environment).await?;
        git.complete(view).await
    };
    if let Err(failure) = added.await {
        print_note(&format!("note: the history is not known: {}", failure.text()));
    }
}

fn show_one(view: &AgentView, output: OutputForm) -> Result<ExitStatus, Failure> {
    print_result(&render_one(view, output)?)?;
    Ok(ExitStatus::Ok)
}

fn show_all(rows: &[AgentRow], output: OutputForm) -> Result<ExitStatus, Failure> {
    if rows.is_empty() && output == OutputForm::Table {
        print_note("there are no agents");
        return Ok(ExitStatus::Ok);
    }
    print_result(&render(rows, output)?)?;
    Ok(ExitStatus::Ok)
}

fn render_one(view: &AgentView, output: OutputForm) -> Result<String, Failure> {
    match output {
        OutputForm::Table => Ok(render_page(view, SystemClock.now())),
        OutputForm::Json | OutputForm::Yaml => render_data(view, output),
    }
}

fn render(rows: &[AgentRow], output: OutputForm) -> Result<String, Failure> {
    match output {
        OutputForm::Table => {
            let headers =
                ["NAMESPACE", "NAME", "STEP", "WEIGHT", "DELIVERED", "STABLE", "CANDIDATE", "AGE", "WAITS FOR"];
            Ok(render_table(headers, &rows.iter().map(AgentRow::cells).collect::<Vec<_>>()))
        }
        OutputForm::Json | OutputForm::Yaml => render_data(rows, output),
    }
}

fn render_data<T: Serialize + ?Sized>(data: &T, output: OutputForm) -> Result<String, Failure> {
    match output {
        OutputForm::Yaml => {
            // By way of plain JSON, so that both forms say the same.
            let value = serde_json::to_value(data).map_err(Failure::internal)?;
            serde_saphyr::to_string(&value).map_err(Failure::internal)
        }
        OutputForm::Table | OutputForm::Json => serde_json::to_string_pretty(data).map_err(Failure::internal),
    }
}
