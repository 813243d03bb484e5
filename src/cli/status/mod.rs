//! `serin status`: all agents of the cluster, where each one is and what it waits for.
//!
//! It asks the cluster and not the daemon, so that it works while the daemon does not.

mod row;

use std::sync::Arc;

use clap::ValueEnum;

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{print_note, print_result};
use crate::cli::reach::{connection, explain, within_patience};
use crate::cli::table::render_table;
use crate::clock::{Clock, SystemClock};
use crate::cluster::Cluster;
use crate::cluster::api_server::{ApiServer, Connection, Settings};
use crate::object::{Kind, Object};
use crate::settings::{ClusterArgs, Environment};
use crate::telemetry::Chain;

pub use row::{AgentRow, agent_rows};

/// Flags of `serin status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Only agents of this namespace
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Agents of all namespaces, which is the default
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Form of the output: table or json
    #[arg(short, long, value_enum, default_value_t = OutputForm::Table, hide_possible_values = true, value_name = "FORM")]
    pub output: OutputForm,

    #[command(flatten)]
    #[doc = "How the cluster is reached."]
    pub cluster: ClusterArgs,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people
    Table,
    /// A list of objects, for programs
    Json,
}

/// Lists the agents.
///
/// # Errors
/// If the cluster cannot be reached, refuses, or knows no agents.
pub fn run(args: StatusArgs) -> Result<ExitStatus, Failure> {
    let StatusArgs { namespace, all_namespaces: _, output, cluster } = args;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let connection = connection(cluster, &Environment::of_process());
    let (agents, deployments) = runtime.block_on(observe(&connection, namespace.as_deref()))?;
    let rows = agent_rows(&agents, &deployments, SystemClock.now());
    if rows.is_empty() && output == OutputForm::Table {
        print_note("there are no agents");
        return Ok(ExitStatus::Ok);
    }
    print_result(&render(&rows, output)?)?;
    Ok(ExitStatus::Ok)
}

async fn observe(
    connection: &Connection,
    namespace: Option<&str>,
) -> Result<(Vec<Arc<Object>>, Vec<Arc<Object>>), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let lists = async {
        // No watches: each list goes to the server once.
        let cluster = ApiServer::connect(connection, Settings::watching(Vec::new()), clock)
            .await
            .map_err(Failure::unavailable)?;
        let agents = cluster.list(&Kind::AGENT_RUNTIME, namespace).await.map_err(explain)?;
        let deployments = match cluster.list(&Kind::DEPLOYMENT, namespace).await {
            Ok(deployments) => deployments,
            Err(error) => {
                print_note(&format!("note: delivered weights are not known: {}", Chain(&error)));
                Vec::new()
            }
        };
        Ok((agents, deployments))
    };
    within_patience(lists).await
}

fn render(rows: &[AgentRow], output: OutputForm) -> Result<String, Failure> {
    match output {
        OutputForm::Json => serde_json::to_string_pretty(rows).map_err(Failure::internal),
        OutputForm::Table => {
            let headers =
                ["NAMESPACE", "NAME", "STEP", "WEIGHT", "DELIVERED", "STABLE", "CANDIDATE", "AGE", "WAITS FOR"];
            Ok(render_table(headers, &rows.iter().map(AgentRow::cells).collect::<Vec<_>>()))
        }
    }
}

#[cfg(test)]
mod tests;
