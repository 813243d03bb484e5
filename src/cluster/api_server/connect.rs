//! From settings to a client: which server, with which credentials.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// Which server to talk to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// What `KUBECONFIG` or `~/.kube/config` names, and inside a pod, where there is neither, its service account.
    #[default]
    Infer,
    /// A context of a kubeconfig.
    Kubeconfig {
        /// The file; `None` is `KUBECONFIG` or `~/.kube/config`.
        path: Option<PathBuf>,
        /// The context; `None` is the current one.
        context: Option<String>,
    },
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account is there.
    #[error("found no cluster to connect to")]
    Infer {
        /// What was tried.
        #[source]
        source: kube::config::InferConfigError,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig {} cannot be used", path.as_ref().map_or("(KUBECONFIG or ~/.kube/config)".into(), |path| path.display().to_string()))]
    Kubeconfig {
        /// The file that was asked for.
        path: Option<PathBuf>,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Certificates, keys or the proxy cannot be used.
    #[error("no connection can be made from the cluster's configuration")]
    Client {
        /// What is wrong.
        #[source]
        source: kube::Error,
    },
}

/// A client that names itself `serin/<version>` and does not retry: the next pass does.
pub(super) async fn client(connection: &Connection) -> Result<kube::Client, ConnectError> {
    let mut config = match connection {
        Connection::Infer => kube::Config::infer().await.map_err(|source| ConnectError::Infer { source })?,
        Connection::Kubeconfig { path, context } => {
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            let config = match path {
                Some(file) => match Kubeconfig::read_from(file) {
                    Ok(kubeconfig) => kube::Config::from_custom_kubeconfig(kubeconfig, &options).await,
                    Err(error) => Err(error),
                },
                None => kube::Config::from_kubeconfig(&options).await,
            };
            config.map_err(|source| ConnectError::Kubeconfig { path: path.clone(), source })?
        }
    };
    config.default_retry = false;
    let agent = concat!("serin/", env!("CARGO_PKG_VERSION"));
    config.headers.push((
        "user-agent".parse().expect("a header name"),
        agent.parse().expect("a version has only visible characters"),
    ));
    kube::Client::try_from(config).map_err(|source| ConnectError::Client { source })
}
