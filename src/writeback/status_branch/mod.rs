//! The files of the status branch: what is going on, what has happened, and a page for people.
//!
//! Files are rendered whole from plain values, and a file whose bytes are the same is not written, so nothing
//! is committed when nothing happened. Invariant: no file holds a time that moves without cause.
//!
//! | path | document | read by |
//! |---|---|---|
//! | `<namespace>/<agent>/status.yaml` | [`StatusDocument`], version 1 | a fresh cluster, to resume |
//! | `<namespace>/<agent>/history/<rollout>.yaml` | [`HistoryDocument`], version 1 | people and tools |
//! | `README.md` | rendered dashboard | people on a git host |
//!
//! Within a version, fields are only added, and a reader skips those that it does not know; a reader that
//! meets a later version says so and reads nothing.

mod dashboard;
mod document;
mod value;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::ids::{AgentKey, ClusterName, RolloutId, TreePath};

pub use self::dashboard::Overview;
pub use self::document::{
    DocumentError, HistoryDocument, StatusDocument, parse_history, parse_status, status_document,
};
pub use self::value::{
    AgentStatus, ConditionStatus, HistoryEvent, LastOutcome, RejectedCandidate, RolloutHistory, StepHistory,
    StepPosition,
};

/// Where the dashboard stands.
pub const DASHBOARD: &str = "README.md";

/// The files for these agents and rollouts, and the dashboard. Rollouts of earlier times need not be given, nor agents of
/// which nothing has changed: their files stay as they are.
pub fn render(
    cluster: &ClusterName,
    overview: &Overview,
    statuses: &[AgentStatus],
    histories: &[RolloutHistory],
) -> BTreeMap<TreePath, Vec<u8>> {
    let mut files = BTreeMap::new();
    for status in statuses {
        files.insert(status_path(&status.agent), document::render_status(status).into_bytes());
    }
    for history in histories {
        files.insert(history_path(&history.agent, &history.rollout), document::render_history(history).into_bytes());
    }
    files.insert(TreePath::new(DASHBOARD), dashboard::render(cluster, overview).into_bytes());
    files
}

/// What tells one content of a file from another: its SHA-256. What is on the branch is kept as this, not as the text: ten
/// thousand files of a kilobyte each are looked at only to see whether they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// That of these bytes.
    pub fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }
}

/// What to commit to get from the `old` files of the branch to the `new` ones: contents that differ, and
/// `None` for the status of an agent that is gone. History is never removed.
pub fn changed_files(
    old: &BTreeMap<TreePath, ContentDigest>,
    new: &BTreeMap<TreePath, Vec<u8>>,
) -> BTreeMap<TreePath, Option<Vec<u8>>> {
    let gone = old.keys().filter(|path| is_status_path(path) && !new.contains_key(path));
    changed_among(old, new, gone)
}

/// The same where `new` are not all files, but those that may have changed; the status paths at `gone` may be of agents that
/// are gone. What is in neither stays.
pub fn changed_among<'a>(
    old: &BTreeMap<TreePath, ContentDigest>,
    new: &BTreeMap<TreePath, Vec<u8>>,
    gone: impl IntoIterator<Item = &'a TreePath>,
) -> BTreeMap<TreePath, Option<Vec<u8>>> {
    let differs = |path: &TreePath, contents: &[u8]| old.get(path) != Some(&ContentDigest::of(contents));
    let changed = new.iter().filter(|(path, contents)| differs(path, contents));
    let changed = changed.map(|(path, contents)| (path.clone(), Some(contents.clone())));
    let gone = gone.into_iter().filter(|path| old.contains_key(path) && !new.contains_key(path));
    changed.chain(gone.map(|path| (path.clone(), None))).collect()
}

/// Where the status of `agent` stands.
pub fn status_path(agent: &AgentKey) -> TreePath {
    TreePath::new(format!("{}/status.yaml", folder(agent)))
}

/// Where the history of one rollout of `agent` stands.
pub fn history_path(agent: &AgentKey, rollout: &RolloutId) -> TreePath {
    TreePath::new(format!("{}/history/{}.yaml", folder(agent), segment(rollout.as_str())))
}

/// Where all files of an agent stand, with a slash at the end.
pub fn agent_folder(agent: &AgentKey) -> TreePath {
    TreePath::new(format!("{}/", folder(agent)))
}

fn folder(agent: &AgentKey) -> String {
    format!("{}/{}", segment(&agent.namespace), segment(&agent.name))
}

/// Whether the status of an agent stands there.
pub fn is_status_path(path: &TreePath) -> bool {
    matches!(path.as_str().split('/').collect::<Vec<_>>()[..], [_, _, "status.yaml"])
}

/// One part of a path. Names in a cluster are safe already; whatever else comes cannot leave the tree.
fn segment(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let safe: String = text.chars().map(|c| if is_safe(c) { c } else { '-' }).collect();
    match safe.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None if safe.is_empty() => "-".to_owned(),
        None => safe,
    }
}

#[cfg(test)]
mod tests;
