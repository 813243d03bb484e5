//! How commands of a person reach a cluster and a repository: with patience for somebody who sits before the screen, and
//! with sentences that say what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::chain::Chain;
use crate::cli::exit::{ExitStatus, Failure};
use crate::cluster::ClusterError;
use crate::cluster::api_server::Connection;
use crate::git::RepositoryError;
use crate::git::mirror::Mirror;
use crate::reconcile::serve::open_mirror;
use crate::settings::{ClusterAccess, ClusterArgs, CredentialArgs, Environment, RepoAddress, SourceSettings, TypedAs};

/// How long to wait for the cluster in all: somebody sits before the screen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Which server the flags name.
pub(crate) fn connection(args: ClusterArgs, environment: &Environment) -> Connection {
    let ClusterArgs { context, kubeconfig } = args;
    // A variable that is set to nothing counts as not set, as everywhere.
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (given(kubeconfig), given(context)) {
        (None, None) => Connection::Infer,
        (path, context) => {
            Connection::Kubeconfig { path: path.map(|path| environment.current_dir.join(path)), context }
        }
    }
}

/// Which server the settings name.
pub(crate) fn connection_of(access: &ClusterAccess) -> Result<Connection, Failure> {
    match access {
        ClusterAccess::Simulated => {
            let message = "the settings name the simulated cluster, which is empty outside of `serin run`";
            Err(Failure::message(ExitStatus::Usage, message))
        }
        ClusterAccess::Kubernetes { kubeconfig: None, context: None, namespaces: _ } => Ok(Connection::Infer),
        ClusterAccess::Kubernetes { kubeconfig, context, namespaces: _ } => {
            Ok(Connection::Kubeconfig { path: kubeconfig.clone(), context: context.clone() })
        }
    }
}

/// Waits for the cluster, but not for ever.
pub(crate) async fn within_patience<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        let message = format!("the cluster did not answer within {} seconds", PATIENCE.as_secs());
        Err(Failure::message(ExitStatus::Unavailable, message))
    })
}

/// What a failed call means for the command.
pub(crate) fn explain(error: ClusterError) -> Failure {
    match error {
        ClusterError::NotServed { .. } => Failure::message(
            ExitStatus::NotFound,
            format!("{}\n  hint: serin crds | kubectl apply -f -", Chain(&error)),
        ),
        error => Failure::unavailable(error),
    }
}

/// What a repository that cannot be read means for the command.
pub(crate) fn explain_repository(error: RepositoryError) -> Failure {
    match error {
        RepositoryError::NotFound { .. } => Failure::new(ExitStatus::NotFound, error),
        error => Failure::unavailable(error),
    }
}

/// The credentials for `repo`: variables are often set for what the daemon follows, and are nothing to a repository on this
/// machine. Flags are meant, so that one that is of no use is told.
pub(crate) fn credentials_for(
    repo: Option<&str>,
    given: CredentialArgs,
    typed: &TypedAs,
    environment: &Environment,
) -> CredentialArgs {
    let address = repo.and_then(|repo| RepoAddress::parse(repo, &environment.current_dir).ok());
    let is_local = address.is_some_and(|address| address.local_path().is_some());
    if is_local && !CredentialArgs::are_typed(typed) { CredentialArgs::default() } else { given }
}

/// A mirror of a source for one command.
pub(crate) struct CommandMirror {
    /// It.
    pub(crate) mirror: Arc<Mirror>,
    _scratch: Option<Scratch>,
}

/// Opens a mirror that is kept for the next command, apart from the daemon's; where that folder is in use or cannot be
/// written, one that goes with the command.
pub(crate) fn command_mirror(source: &SourceSettings, mirror_dir: &Path) -> Result<CommandMirror, RepositoryError> {
    match open_mirror(source, &mirror_dir.join("commands").join(folder_name(source.repo.as_str()))) {
        Ok(mirror) => Ok(CommandMirror { mirror, _scratch: None }),
        Err(RepositoryError::Mirror { .. }) => {
            let scratch = Scratch(std::env::temp_dir().join(format!("serin-{}", std::process::id())));
            Ok(CommandMirror { mirror: open_mirror(source, &scratch.0)?, _scratch: Some(scratch) })
        }
        Err(error) => Err(error),
    }
}

/// An address as one folder name, different for each.
fn folder_name(address: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    address.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("_{:x}", u32::from(c)) }).collect()
}

/// A folder that goes with the command.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files, where it belongs.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_choose_the_connection_and_nothing_given_infers_it() {
        let environment = Environment { current_dir: "/here".into(), ..Environment::default() };
        let connect = |context: Option<&str>, kubeconfig: Option<&str>| {
            let args = ClusterArgs { context: context.map(str::to_owned), kubeconfig: kubeconfig.map(str::to_owned) };
            connection(args, &environment)
        };
        assert_eq!(connect(None, Some("")), Connection::Infer);
        assert_eq!(
            connect(Some("prod"), Some("k.yaml")),
            Connection::Kubeconfig { path: Some("/here/k.yaml".into()), context: Some("prod".into()) }
        );
    }

    #[test]
    fn settings_choose_the_connection_too_and_the_simulated_cluster_is_none() {
        use crate::manifest::Namespaces;
        let access = |context: Option<&str>| ClusterAccess::Kubernetes {
            kubeconfig: None,
            context: context.map(str::to_owned),
            namespaces: Namespaces::Any,
        };
        assert_eq!(connection_of(&access(None)).unwrap(), Connection::Infer);
        let named = Connection::Kubeconfig { path: None, context: Some("prod".into()) };
        assert_eq!(connection_of(&access(Some("prod"))).unwrap(), named);
        assert_eq!(connection_of(&ClusterAccess::Simulated).unwrap_err().status(), ExitStatus::Usage);
    }

    #[test]
    fn each_address_has_a_folder_of_its_own() {
        assert_eq!(folder_name("https://h/a.git"), "https_3a_2f_2fh_2fa.git");
        assert_ne!(folder_name("h/a_b"), folder_name("h/a/b"));
    }
}
