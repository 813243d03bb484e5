//! `serin diff`: what a sync would change, before anybody pushes it.
//!
//! The files are read as the daemon reads them, the plan is the daemon's own ([`crate::apply::plan_sync`]), and each write
//! of it is tried on the server without being stored: so defaults, CEL rules and admission are seen as they would be.
//!
//! Invariant: nothing is ever written, neither to the cluster nor to git, and no value of a Secret is printed.

mod entry;
mod outlook;
mod render;
mod shown;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::ValueEnum;

use crate::cli::diff::entry::{Action, Entry, entries};
use crate::cli::diff::outlook::{Around, commits_in_question};
use crate::cli::diff::render::{Paint, Report};
use crate::cli::diff::wanted::Wanted;
use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{has_color_on_stdout, print_note, print_result};
use crate::cli::reach::{connection_of, explain, within_patience};
use crate::clock::{Clock, SystemClock};
use crate::cluster::api_server::{ApiServer, Settings as ClusterSettings};
use crate::cluster::{Cluster, ClusterError};
use crate::manifest::{Diagnostic, Namespaces};
use crate::object::{Kind, Object};
use crate::reconcile::sync::{UNREADABLE, plan_whole, synced_kinds};
use crate::settings::{ClusterArgs, Environment, GitArgs, GrantArgs, TypedAs};
use crate::workload::WorkloadSettings;

/// Flags of `serin diff`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DiffArgs {
    /// Clone or folder whose files are compared, uncommitted changes included [default: . unless --repo or
    /// --config says where]
    #[arg(value_name = "PATH")]
    pub folder: Option<String>,

    /// Branch, tag or commit to compare instead [default: the files as they are, or what the source follows]
    #[arg(long, value_name = "REV")]
    pub revision: Option<String>,

    /// Form of the output: text or json
    #[arg(short, long, value_enum, default_value_t = OutputForm::Text, hide_possible_values = true, value_name = "FORM")]
    pub output: OutputForm,

    /// Settings file of the daemon, for what its sources may apply
    #[arg(long, value_name = "FILE", env = "SERIN_CONFIG", help_heading = "Source")]
    pub config: Option<String>,

    /// Source that the files belong to [default: the only one of the file, or default]
    #[arg(long, value_name = "NAME", env = "SERIN_SOURCE", help_heading = "Source")]
    pub source: Option<String>,

    /// Repository to compare instead of files on this machine: a URL or a path
    #[arg(long, value_name = "URL", env = "SERIN_REPO", hide_env_values = true, help_heading = "Source")]
    pub repo: Option<String>,

    /// Folder of the repository that holds the manifests [default: PATH, or the whole repository]
    #[arg(long, value_name = "FOLDER", env = "SERIN_PATH", help_heading = "Source")]
    pub path: Option<String>,

    #[command(flatten)]
    #[doc = "What may be applied."]
    pub grants: GrantArgs,

    #[command(flatten)]
    #[doc = "How the repository is reached."]
    pub git: GitArgs,

    #[command(flatten)]
    #[doc = "How the cluster is reached."]
    pub cluster: ClusterArgs,
}

/// What the help says below the flags.
pub(crate) const HELP: &str = "\
In a clone, `serin diff --path clusters/prod` compares the files as they are now with the cluster of the current
context. What the API server refuses is shown with file and line. Nothing is written; the rights to list the kinds
and to patch them are needed, since a dry run needs the rights of the write.";

/// `--output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Compares, and says whether there is a difference.
///
/// # Errors
/// If the settings are wrong, the files cannot be read, or the cluster does not answer.
pub fn run(args: DiffArgs, typed: &TypedAs, environment: &Environment) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let output = args.output;
    let report = runtime.block_on(async {
        let wanted = Wanted::read(args, typed, environment).await?;
        let problems = &wanted.loaded.desired.problems;
        problems.iter().for_each(|problem| print_note(&told(problem)));
        print_note(&format!("comparing {} as source {}", wanted.place, wanted.source.name));
        let connection = connection_of(&wanted.settings.cluster)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // No watches: each list goes to the server once.
        let cluster = ApiServer::connect(&connection, ClusterSettings::watching(Vec::new()), Arc::clone(&clock));
        let cluster = cluster.await.map_err(Failure::unavailable)?;
        compare(&cluster, &wanted, clock.as_ref()).await
    })?;
    match output {
        OutputForm::Text => {
            let paint = if has_color_on_stdout() { Paint::Colors } else { Paint::Plain };
            print_result(&report.text(paint))?;
        }
        OutputForm::Json => print_result(&report.json()?)?,
    }
    Ok(report.status())
}

/// A problem of the manifests. The loader gives no line of a file that may hold a Secret; of a Secret the hint is not shown
/// either.
fn told(problem: &Diagnostic) -> String {
    match &problem.object {
        Some(key) if key.kind.is_secret() => problem.to_string(),
        _ => problem.render(),
    }
}

/// What was read of the cluster.
#[derive(Default)]
struct Live {
    objects: Vec<Arc<Object>>,
    served: BTreeSet<Kind>,
    notes: Vec<String>,
}

async fn compare(cluster: &dyn Cluster, wanted: &Wanted, clock: &dyn Clock) -> Result<Report, Failure> {
    let (loaded, source) = (&wanted.loaded, &wanted.source.name);
    let mut live = within_patience(read_live(cluster, wanted)).await?;
    let plan = plan_whole(loaded, &live.objects, source, &wanted.claimants());
    live.notes.extend(wanted.others().map(|others| {
        format!(
            "the other sources of the settings ({others}) were not read: an object that one of them holds too may stay"
        )
    }));
    let (mut entries, unchanged) = entries(cluster, loaded, &plan, &live.objects).await;
    if !plan.refused.is_empty() {
        live.notes.push("the files of another source are compared as that one with --source NAME".to_owned());
    }
    for key in &plan.terminating {
        live.notes.push(format!("{key} is being deleted, and is created again when it is gone"));
    }
    for key in &plan.unpruned {
        live.notes.push(format!("{key} is not in the files and is not pruned now: {UNREADABLE}"));
    }
    add_outlooks(cluster, wanted, &mut entries, &mut live, clock).await;
    let problems = loaded.desired.problems.iter().filter(|problem| problem.is_error()).count();
    Ok(Report::new(entries, unchanged, problems, live.notes))
}

async fn read_live(cluster: &dyn Cluster, wanted: &Wanted) -> Result<Live, Failure> {
    let mut live = Live::default();
    for kind in synced_kinds(&wanted.loaded) {
        let listed = match &wanted.source.namespaces {
            Namespaces::Only(names) => list_in(cluster, &kind, names).await,
            Namespaces::Any => match cluster.list(&kind, None).await {
                Err(ClusterError::Forbidden { verb, .. }) => {
                    live.notes.push(format!(
                        "you may not {verb} {kind} in all namespaces, so only those of the manifests were looked through: what \
                         would be pruned elsewhere is not known"
                    ));
                    let keys = wanted.loaded.desired.objects.keys();
                    let names: BTreeSet<String> = keys.map(|key| key.namespace.clone()).collect();
                    list_in(cluster, &kind, &names).await
                }
                listed => listed,
            },
        };
        match listed {
            Ok(objects) => {
                live.objects.extend(objects);
                live.served.insert(kind);
            }
            Err(ClusterError::NotServed { .. }) => {}
            Err(error) => return Err(explain(error)),
        }
    }
    Ok(live)
}

async fn list_in(
    cluster: &dyn Cluster,
    kind: &Kind,
    namespaces: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<Arc<Object>>, ClusterError> {
    let mut objects = Vec::new();
    for namespace in namespaces {
        objects.extend(cluster.list(kind, Some(namespace.as_ref())).await?);
    }
    Ok(objects)
}

/// Adds to each agent that changes what Serin does about it.
async fn add_outlooks(
    cluster: &dyn Cluster,
    wanted: &Wanted,
    entries: &mut [Entry],
    live: &mut Live,
    clock: &dyn Clock,
) {
    let is_changed = |entry: &&mut Entry| entry.object.kind == Kind::AGENT_RUNTIME && entry.foreseen.is_some();
    let namespaces: BTreeSet<String> =
        entries.iter_mut().filter(is_changed).map(|entry| entry.object.namespace.clone()).collect();
    match list_in(cluster, &Kind::DEPLOYMENT, &namespaces).await {
        Ok(deployments) => live.objects.extend(deployments),
        Err(error) => {
            live.notes.push(format!("what happens to agents is not known: {error}"));
            return;
        }
    }
    let settings = WorkloadSettings {
        facade_image: wanted.settings.images.facade.clone(),
        framework_images: wanted.settings.images.frameworks.clone(),
        ..WorkloadSettings::default()
    };
    let around = Around::new(&live.objects, &live.served, &wanted.loaded, &wanted.source.name, Arc::new(settings));
    for entry in entries.iter_mut().filter(is_changed) {
        let Some(foreseen) = entry.foreseen.clone() else { continue };
        let mut contains = BTreeSet::new();
        for commit in commits_in_question(&foreseen) {
            if wanted.contains(&commit).await {
                contains.insert(commit);
            }
        }
        entry.rollout = Some(around.outlook(&foreseen, contains, clock.now()));
    }
    for entry in entries.iter_mut().filter(|entry| entry.action == Action::Prune) {
        if entry.object.kind == Kind::AGENT_RUNTIME {
            entry.rollout = Some("deletes everything that it runs as".to_owned());
        }
    }
}
