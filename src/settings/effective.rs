//! The validated settings: what the daemon sees, and all that it sees.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::git::{Access, Author, Revision};
use crate::ids::{BranchName, ClusterName, SourceName, TreePath};
use crate::manifest::{KindRule, Namespaces};
use crate::object::Kind;
use crate::settings::repo::RepoAddress;

/// How far a poll may be moved from its interval, in percent either way. Many daemons that start with the
/// same node then do not ask the same git host at the same second for ever.
pub const POLL_JITTER_PERCENT: u32 = 10;

/// Everything that `serin run` was told, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of this cluster: it names the status branch and stands in commit trailers.
    pub cluster_name: ClusterName,
    /// Which cluster.
    pub cluster: ClusterAccess,
    /// Where desired state comes from; at least one, names unique.
    pub sources: Vec<SourceSettings>,
    /// Where the bare mirrors of the repositories are kept. Absolute.
    pub mirror_dir: PathBuf,
    /// How long a git server may keep silent before a call to it fails.
    pub git_timeout: Duration,
    /// Where observations are written; `None`: nowhere.
    pub status_branch: Option<StatusBranch>,
    /// Address of `/metrics`, `/healthz` and `/readyz`; `None`: no server.
    pub listen: Option<SocketAddr>,
    /// How the log looks.
    pub log: LogSettings,
    /// Images of the pods, where the AgentRuntime names none.
    pub images: ImageSettings,
    /// How many agents are looked at side by side; 1 to 256.
    pub workers: usize,
    /// The Lease that one of several Serins holds; `None`: this one takes none and always writes.
    pub lease: Option<LeaseSettings>,
}

/// The Lease (`coordination.k8s.io/v1`) whose holder alone decides and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its name. It does not depend on the cluster's name: two daemons that were given different ones by mistake exclude
    /// each other too.
    pub name: String,
    /// Its namespace; `None`: that of the pod, or of the kubeconfig's context.
    pub namespace: Option<String>,
}

/// Which cluster Serin works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAccess {
    /// The one inside the binary.
    Simulated,
    /// A real one. With neither of the two set: `KUBECONFIG`, `~/.kube/config`, or from inside a pod.
    Kubernetes {
        /// The kubeconfig file; absolute.
        kubeconfig: Option<PathBuf>,
        /// The context in it; `None`: its current one.
        context: Option<String>,
        /// The namespaces that are watched; agents elsewhere are not seen and not rolled out.
        namespaces: Namespaces,
    },
}

/// One repository, revision and folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSettings {
    /// Its name: stands in the label of everything that was applied from it.
    pub name: SourceName,
    /// The repository.
    pub repo: RepoAddress,
    /// What opens it, beside what is in its address.
    pub access: Access,
    /// What is followed. Only a branch can be written to.
    pub revision: Revision,
    /// The folder with the manifests, without `.` and `..`; empty: the whole repository.
    pub path: TreePath,
    /// The namespace of objects that name none.
    pub default_namespace: String,
    /// The kinds that may be applied; never empty.
    pub kinds: Vec<KindRule>,
    /// The namespaces that may be applied to.
    pub namespaces: Namespaces,
    /// How often the repository is asked, give or take [`POLL_JITTER_PERCENT`].
    pub poll_interval: Duration,
    /// Who the commits are by.
    pub author: Author,
    /// Where the secret of its webhook is; `None`: there is no webhook.
    pub webhook: Option<WebhookSecret>,
    /// The sources, of these settings or of earlier ones, whose objects this one takes over once they hold them no more.
    pub adopt_from: Vec<SourceName>,
}

/// Where the secret of a webhook is. Never the secret itself: it is read when it is needed, so a changed one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookSecret {
    /// In a file; absolute.
    File(PathBuf),
    /// In the environment variable of this name.
    Variable(String),
}

impl SourceSettings {
    /// Whether decisions can be committed: a tag or a commit can only be read.
    pub fn is_writable(&self) -> bool {
        matches!(self.revision, Revision::Branch(_))
    }

    /// Whether an object of this kind may be applied.
    pub fn permits_kind(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|rule| rule.matches(kind))
    }
}

/// The branch that observations are written to, in every repository that is a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusBranch {
    /// Its name; never a branch that a source follows.
    pub name: BranchName,
    /// At most one commit per repository in this time.
    pub interval: Duration,
}

/// How the log looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Text or JSON.
    pub format: LogFormat,
    /// How much is said.
    pub level: LogLevel,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `--log-level`, or `RUST_LOG`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what Serin could not do.
    Error,
    /// And what a person should look at.
    Warn,
    /// And each transition, once.
    #[default]
    Info,
    /// And the steady state.
    Debug,
    /// And everything else.
    Trace,
    /// Directives as `RUST_LOG` takes them, such as `serin=debug,kube=info`.
    Directives(String),
}

/// Images of an agent's pods, for agents that name none themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSettings {
    /// The facade; `None`: the built-in one.
    pub facade: Option<String>,
    /// The runtime by framework type, such as `promptkit` or `langchain`.
    pub frameworks: BTreeMap<String, String>,
}
