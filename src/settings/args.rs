//! The flags of `serin run`, as typed.
//!
//! Everything is a text here, whatever it means: a problem with one is then reported together with all
//! the others, and a variable is understood exactly as the flag and the file are.

use std::collections::BTreeMap;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::settings::credentials::CredentialFields;
use crate::settings::origin::{Origin, Setting};

/// Flags of `serin run`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunArgs {
    /// Settings file in YAML, for several sources or instead of flags
    #[arg(long, value_name = "FILE", env = "SERIN_CONFIG")]
    pub config: Option<String>,

    /// Print the settings as understood, as a settings file, and end
    #[arg(long)]
    pub print_config: bool,

    /// Repository: an https, http, ssh or git URL, user@host:path, or a path
    #[arg(long, value_name = "URL", env = "SERIN_REPO", hide_env_values = true, help_heading = "Source")]
    pub repo: Option<String>,

    /// Branch to follow, and to commit decisions to [default: main]
    #[arg(long, value_name = "NAME", env = "SERIN_BRANCH", help_heading = "Source")]
    pub branch: Option<String>,

    /// Tag to follow instead of a branch; decisions are then only reported
    #[arg(long, value_name = "NAME", env = "SERIN_TAG", help_heading = "Source")]
    pub tag: Option<String>,

    /// Commit to apply instead of a branch; decisions are then only reported
    #[arg(long, value_name = "SHA", env = "SERIN_COMMIT", help_heading = "Source")]
    pub commit: Option<String>,

    /// Folder of the repository that holds the manifests [default: the whole repository]
    #[arg(long, value_name = "FOLDER", env = "SERIN_PATH", help_heading = "Source")]
    pub path: Option<String>,

    #[command(flatten)]
    #[doc = "What may be applied."]
    pub grants: GrantArgs,

    /// File with the secret of the webhook POST /hooks/default
    #[arg(long, value_name = "FILE", env = "SERIN_WEBHOOK_SECRET_FILE", help_heading = "Git")]
    pub webhook_secret_file: Option<String>,

    /// Name of the environment variable with that secret, instead of a file
    #[arg(long, value_name = "NAME", env = "SERIN_WEBHOOK_SECRET_ENV", help_heading = "Git")]
    pub webhook_secret_env: Option<String>,

    #[command(flatten)]
    #[doc = "How repositories are reached."]
    pub git: GitArgs,

    /// How often to ask the repository, give or take 10 % [default: 60s]
    #[arg(long, value_name = "DURATION", env = "SERIN_POLL_INTERVAL", help_heading = "Git")]
    pub poll_interval: Option<String>,

    /// Author of the commits [default: Serin]
    #[arg(long, value_name = "NAME", env = "SERIN_AUTHOR_NAME", help_heading = "Git")]
    pub author_name: Option<String>,

    /// E-mail address of the author
    #[arg(
        help = "E-mail address of the author [default: serin@<cluster name>.invalid]",
        long,
        value_name = "EMAIL",
        env = "SERIN_AUTHOR_EMAIL",
        help_heading = "Git"
    )]
    pub author_email: Option<String>,

    /// Branch for observations
    #[arg(
        help = "Branch for observations [default: serin/status/<cluster name>]",
        long,
        value_name = "NAME",
        env = "SERIN_STATUS_BRANCH",
        help_heading = "Git"
    )]
    pub status_branch: Option<String>,

    /// Write no observations to git
    #[arg(
        long,
        env = "SERIN_NO_STATUS_BRANCH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_name = "BOOL",
        help_heading = "Git"
    )]
    pub no_status_branch: Option<String>,

    /// At most one commit of observations per repository in this time [default: 10s]
    #[arg(long, value_name = "DURATION", env = "SERIN_STATUS_INTERVAL", help_heading = "Git")]
    pub status_interval: Option<String>,

    /// Name of this cluster, different for each cluster that shares a repository
    /// [default: simulated with --simulate, else required]
    #[arg(long, value_name = "NAME", env = "SERIN_CLUSTER_NAME", help_heading = "Cluster")]
    pub cluster_name: Option<String>,

    #[command(flatten)]
    #[doc = "How a real cluster is reached."]
    pub cluster: ClusterArgs,

    /// Namespace to watch and to roll out in, for credentials that may not look elsewhere; may be repeated
    /// [default: all]
    #[arg(long, value_name = "NAME", env = "SERIN_WATCH_NAMESPACE", value_delimiter = ',', help_heading = "Cluster")]
    pub watch_namespace: Vec<String>,

    /// Use the simulated cluster inside this program: no Kubernetes is needed
    #[arg(
        long,
        env = "SERIN_SIMULATE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "Cluster"
    )]
    pub simulate: Option<String>,

    /// Name of the Lease that keeps a second Serin of this cluster passive [default: serin]
    #[arg(long, value_name = "NAME", env = "SERIN_LEASE_NAME", help_heading = "Cluster")]
    pub lease_name: Option<String>,

    /// Namespace of the Lease [default: the first watched one, else that of the pod or of the kubeconfig's context]
    #[arg(long, value_name = "NAME", env = "SERIN_LEASE_NAMESPACE", help_heading = "Cluster")]
    pub lease_namespace: Option<String>,

    /// Take no Lease: somebody else makes sure that only one Serin runs
    #[arg(
        long,
        env = "SERIN_NO_LEASE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_name = "BOOL",
        help_heading = "Cluster"
    )]
    pub no_lease: Option<String>,

    /// How many agents to look at side by side [default: 32]
    #[arg(long, value_name = "N", env = "SERIN_WORKERS", help_heading = "Cluster")]
    pub workers: Option<String>,

    /// Image of the facade, for agents that name none
    #[arg(long, value_name = "IMAGE", env = "SERIN_FACADE_IMAGE", help_heading = "Workloads")]
    pub facade_image: Option<String>,

    /// Image of the runtime of a framework type, for agents that name none; may be repeated
    #[arg(
        long,
        value_name = "TYPE=IMAGE",
        env = "SERIN_FRAMEWORK_IMAGE",
        value_delimiter = ',',
        help_heading = "Workloads"
    )]
    pub framework_image: Vec<String>,

    /// Address of /metrics, /healthz and /readyz, or none [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDRESS", env = "SERIN_LISTEN", help_heading = "Observability")]
    pub listen: Option<String>,
}

/// What the manifests of a source may be about; shared by all commands that read them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GrantArgs {
    /// Namespace of objects that name none [default: default]
    #[arg(long, value_name = "NAME", env = "SERIN_DEFAULT_NAMESPACE", help_heading = "Source")]
    pub default_namespace: Option<String>,

    /// Kind that may be applied: Kind, Kind.group, *.group or *; may be repeated
    /// [default: *.omnia.altairalabs.ai and ConfigMap]
    #[arg(
        long,
        alias = "kinds",
        value_name = "KIND",
        env = "SERIN_ALLOW_KIND",
        value_delimiter = ',',
        help_heading = "Source"
    )]
    pub allow_kind: Vec<String>,

    /// Namespace that may be applied to; may be repeated [default: any]
    #[arg(
        long,
        alias = "namespaces",
        value_name = "NAME",
        env = "SERIN_ALLOW_NAMESPACE",
        value_delimiter = ',',
        help_heading = "Source"
    )]
    pub allow_namespace: Vec<String>,
}

/// How repositories are reached and kept; shared by all commands that ask one.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GitArgs {
    /// How long a git server may keep silent [default: 30s]
    #[arg(long, value_name = "DURATION", env = "SERIN_GIT_TIMEOUT", help_heading = "Git")]
    pub git_timeout: Option<String>,

    /// Folder for mirrors of the repositories [default: serin in the user's cache folder, or /var/cache/serin]
    #[arg(long, value_name = "DIR", env = "SERIN_MIRROR_DIR", help_heading = "Git")]
    pub mirror_dir: Option<String>,

    #[command(flatten)]
    #[doc = "What opens the repository."]
    pub credentials: CredentialArgs,
}

/// What opens the repository. Files are read again at every call.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CredentialArgs {
    /// Folder as a mounted Secret is one: username, password, bearerToken, ca.crt; identity, known_hosts
    #[arg(long, value_name = "DIR", env = "SERIN_CREDENTIALS_DIR", help_heading = "Credentials")]
    pub credentials_dir: Option<String>,

    /// User for https [default: git, or x-access-token with a token]
    #[arg(long, value_name = "NAME", env = "SERIN_USERNAME", help_heading = "Credentials")]
    pub username: Option<String>,

    /// File with the password
    #[arg(long, value_name = "FILE", env = "SERIN_PASSWORD_FILE", help_heading = "Credentials")]
    pub password_file: Option<String>,

    /// Name of an environment variable with the password
    #[arg(long, value_name = "NAME", env = "SERIN_PASSWORD_ENV", help_heading = "Credentials")]
    pub password_env: Option<String>,

    /// File with a token
    #[arg(long, value_name = "FILE", env = "SERIN_TOKEN_FILE", help_heading = "Credentials")]
    pub token_file: Option<String>,

    /// Name of an environment variable with a token
    #[arg(long, value_name = "NAME", env = "SERIN_TOKEN_ENV", help_heading = "Credentials")]
    pub token_env: Option<String>,

    /// How the token is sent: basic (as a password) or bearer [default: basic]
    #[arg(long, value_name = "FORM", env = "SERIN_TOKEN_AS", help_heading = "Credentials")]
    pub token_as: Option<String>,

    /// Certificate authorities in PEM, trusted beside those of the system
    #[arg(long, value_name = "FILE", env = "SERIN_CA_FILE", help_heading = "Credentials")]
    pub ca_file: Option<String>,

    /// Proxy for https and http, or none [default: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY]
    #[arg(long, value_name = "URL", env = "SERIN_PROXY", hide_env_values = true, help_heading = "Credentials")]
    pub proxy: Option<String>,

    /// Private key for ssh
    #[arg(long, value_name = "FILE", env = "SERIN_PRIVATE_KEY_FILE", help_heading = "Credentials")]
    pub private_key_file: Option<String>,

    /// File with the passphrase of the private key
    #[arg(long, value_name = "FILE", env = "SERIN_PASSPHRASE_FILE", help_heading = "Credentials")]
    pub passphrase_file: Option<String>,

    /// Host keys that are trusted [default: ~/.ssh/known_hosts]
    #[arg(long, value_name = "FILE", env = "SERIN_KNOWN_HOSTS_FILE", help_heading = "Credentials")]
    pub known_hosts_file: Option<String>,
}

impl CredentialArgs {
    /// Whether any of them is a flag, and not only a variable that may be set for somebody else.
    pub(crate) fn are_typed(typed: &TypedAs) -> bool {
        typed.flag_of::<Self>(&[]).is_some()
    }

    pub(crate) fn fields(self, typed: &TypedAs) -> CredentialFields {
        let Self {
            credentials_dir,
            username,
            password_file,
            password_env,
            token_file,
            token_env,
            token_as,
            ca_file,
            proxy,
            private_key_file,
            passphrase_file,
            known_hosts_file,
        } = self;
        CredentialFields {
            dir: typed.text("credentials_dir", credentials_dir),
            username: typed.text("username", username),
            password_file: typed.text("password_file", password_file),
            password_env: typed.text("password_env", password_env),
            token_file: typed.text("token_file", token_file),
            token_env: typed.text("token_env", token_env),
            token_as: typed.text("token_as", token_as),
            ca_file: typed.text("ca_file", ca_file),
            proxy: typed.text("proxy", proxy),
            private_key_file: typed.text("private_key_file", private_key_file),
            passphrase_file: typed.text("passphrase_file", passphrase_file),
            known_hosts_file: typed.text("known_hosts_file", known_hosts_file),
        }
    }
}

/// How a real cluster is reached; shared by all commands that talk to one.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Context of the kubeconfig [default: its current one, or from inside a pod]
    #[arg(long, value_name = "NAME", env = "SERIN_CONTEXT", help_heading = "Cluster")]
    pub context: Option<String>,

    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", env = "SERIN_KUBECONFIG", help_heading = "Cluster")]
    pub kubeconfig: Option<String>,
}

/// How the log looks; known to all commands.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LogArgs {
    /// Form of the log: text, json or auto (text on a terminal) [default: auto]
    #[arg(long, global = true, value_name = "FORM", env = "SERIN_LOG_FORMAT", help_heading = "Log")]
    pub log_format: Option<String>,

    /// How much is logged: error, warn, info, debug, trace, or directives as RUST_LOG takes them
    /// [default: RUST_LOG, or info]
    #[arg(long, global = true, value_name = "LEVEL", env = "SERIN_LOG_LEVEL", help_heading = "Log")]
    pub log_level: Option<String>,
}

/// Which arguments were flags and which were variables: clap's values alone do not tell.
#[derive(Clone, Debug, Default)]
pub struct TypedAs(BTreeMap<String, ValueSource>);

impl TypedAs {
    /// What `matches` of a subcommand knows about its arguments.
    pub fn from_matches(matches: &ArgMatches) -> Self {
        let source = |id: &clap::Id| Some((id.as_str().to_owned(), matches.value_source(id.as_str())?));
        // An id of a flattened group has no source that could be asked for.
        let ids = matches.ids().filter(|id| matches.try_contains_id(id.as_str()).is_ok());
        Self::from_map(ids.filter_map(source).collect())
    }

    /// The first of the arguments `ids`, and then of those in `A`, that was typed as a flag, by its name. A variable may be set
    /// for another command.
    pub(crate) fn flag_of<A: clap::Args>(&self, ids: &[&str]) -> Option<String> {
        let command = A::augment_args(clap::Command::new("arguments"));
        let more = command.get_arguments().map(|arg| arg.get_id().as_str());
        let typed = ids.iter().copied().chain(more).find(|id| self.0.get(*id) == Some(&ValueSource::CommandLine));
        typed.map(|id| self.origin(id).to_string())
    }

    /// As told: argument id to source.
    pub(crate) fn from_map(sources: BTreeMap<String, ValueSource>) -> Self {
        Self(sources)
    }

    /// `text` of the argument `id` with its origin. A variable that is set to nothing counts as not set,
    /// since manifests have no other way to say that.
    pub(crate) fn text(&self, id: &str, text: Option<String>) -> Option<Setting<String>> {
        let origin = self.origin(id);
        let is_blank = matches!(origin, Origin::Variable(_)) && text.as_deref() == Some("");
        text.filter(|_| !is_blank).map(|text| Setting::new(text, origin))
    }

    /// The texts of the repeatable argument `id`; `None`: it was not given.
    pub(crate) fn texts(&self, id: &str, texts: Vec<String>) -> Option<Setting<Vec<Setting<String>>>> {
        let origin = self.origin(id);
        let texts: Vec<_> = texts
            .into_iter()
            .map(|text| text.trim().to_owned())
            .filter(|text| !(text.is_empty() && matches!(origin, Origin::Variable(_))))
            .map(|text| Setting::new(text, origin.clone()))
            .collect();
        (!texts.is_empty()).then(|| Setting::new(texts, origin))
    }

    fn origin(&self, id: &str) -> Origin {
        match self.0.get(id) {
            Some(ValueSource::EnvVariable) => Origin::Variable(format!("SERIN_{}", id.to_uppercase())),
            _ => Origin::Flag(format!("--{}", id.replace('_', "-"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_flag_and_a_variable_of_one_name() {
        let command = RunArgs::augment_args_for_test();
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            assert_eq!(arg.get_long(), Some(id.replace('_', "-").as_str()));
            if id == "print_config" {
                continue;
            }
            let variable = arg.get_env().and_then(std::ffi::OsStr::to_str);
            assert_eq!(variable, Some(format!("SERIN_{}", id.to_uppercase()).as_str()));
        }
    }

    #[test]
    fn every_setting_is_in_the_readme() {
        let readme = include_str!("../../README.md");
        for arg in RunArgs::augment_args_for_test().get_arguments() {
            let flag = format!("`--{}`", arg.get_long().unwrap());
            let is_row = |line: &str| line.starts_with(&format!("| {flag} |"));
            assert!(flag == "`--print-config`" || readme.lines().any(is_row), "{flag} is not in the table");
        }
    }

    impl RunArgs {
        fn augment_args_for_test() -> clap::Command {
            use clap::Args;
            LogArgs::augment_args(Self::augment_args(clap::Command::new("run")))
        }
    }
}
