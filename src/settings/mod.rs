//! What the user asked for: flags, environment variables and one file become validated [`Settings`].
//!
//! Two phases, so that the daemon never sees a half-understood value. First everything is taken as typed
//! ([`RunArgs`] and the file, texts with the place where each was written); then [`load`] decides which
//! one counts (flag, then variable, then file, then default), parses it and checks it against the
//! others. All problems are reported at once, each with its place.
//!
//! Invariant: a secret appears in none of what this module prints: not in `--print-config`, not in an
//! error, not in `Debug`.

mod args;
mod check;
mod credentials;
mod document;
mod effective;
mod environment;
mod file;
mod origin;
mod print;
mod problem;
mod repo;
mod resolve;
mod resolve_lease;
mod resolve_source;
#[cfg(test)]
mod tests;

pub use crate::git::Secret;
pub use args::{ClusterArgs, CredentialArgs, GitArgs, GrantArgs, LogArgs, RunArgs, TypedAs};
pub use effective::{
    ClusterAccess, ImageSettings, LeaseSettings, LogFormat, LogLevel, LogSettings, POLL_JITTER_PERCENT, Settings,
    SourceSettings, StatusBranch, WebhookSecret,
};
pub use environment::Environment;
pub use origin::{Origin, Setting};
pub use print::render_config;
pub use problem::{Problem, Problems};
pub use repo::{Credentials, RepoAddress};
pub use resolve::{Loaded, NO_CLUSTER_NAME, load, load_without_credentials, resolve_log};

/// Whether a text can be the name of a source.
pub(crate) fn is_source_name(text: &str) -> bool {
    check::parse_source_name(text).is_ok()
}
