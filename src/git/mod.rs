//! The repository as the rest of Serin sees it: a snapshot in, commits out.
//!
//! [`mirror`] is a real one, [`checkout`] what lies on this machine already, [`simulated`] one in this process; one contract suite
//! (`tests/it/repository_contract.rs`) holds both to the same behaviour. Nothing outside this module names git2.

mod access;
mod address;
pub mod checkout;
mod commit;
mod error;
mod folder;
mod housekeeping;
mod kept;
mod listing;
mod local;
mod local_copy;
pub mod mirror;
mod publish;
mod revision;
pub mod simulated;
mod snapshot;
mod transport;
mod watch;
mod wire;
pub mod working_tree;

pub use access::{Access, Proxy, Secret, SecretPlace, TokenScheme};
pub(crate) use address::percent_decoded;
pub use revision::{NotFollowed, Revision, Snapshot};
pub use transport::{NetworkLimits, limit_network};
pub use wire::{HostKey, KnownHosts, Verdict};

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;

use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// Who made a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// Name.
    pub name: String,
    /// E-mail address.
    pub email: String,
}

/// What a commit says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// Its id.
    pub commit: CommitSha,
    /// The first line of its message.
    pub subject: String,
    /// The name of its author.
    pub author: String,
    /// When it was committed.
    pub at: Timestamp,
}

/// One commit to make: a message and whole new contents of the files it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommit {
    /// The message, trailers included.
    pub message: String,
    /// Author and committer.
    pub author: Author,
    /// When, for author and committer.
    pub at: Timestamp,
    /// New contents by path; `None` deletes the file.
    pub edits: BTreeMap<TreePath, Option<Vec<u8>>>,
}

/// Commits to put on top of a branch, if it is still where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The branch.
    pub branch: BranchName,
    /// The tip it was planned from; `None`: the branch must not exist, and the first commit is a root.
    pub parent: Option<CommitSha>,
    /// The commits, oldest first; never empty.
    pub commits: Vec<NewCommit>,
}

/// What became of a [`Publication`]. None of these is an error: each is an answer of the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The branch now ends in these commits, oldest first.
    Published(Vec<CommitSha>),
    /// Somebody else moved the branch: nothing was written. `found` is where it is now, where that is known.
    RemoteMoved {
        /// Where the branch is now.
        found: Option<CommitSha>,
    },
    /// The server refused the push (protected branch, hook, no right): nothing was written.
    Refused {
        /// The server's words.
        why: String,
    },
}

/// One repository, seen through one revision.
#[async_trait]
pub trait Repository: Send + Sync + 'static {
    /// Its address without credentials, for people.
    fn address(&self) -> String;

    /// Asks the remote where the followed revision is, brings the objects here, and returns the commit.
    /// Exactly one network round trip where nothing is new.
    async fn fetch(&self) -> Result<CommitSha, RepositoryError>;

    /// The tip of any branch of the remote, as of the last fetch or publication of it; fetches it first
    /// where `branch` is not the followed one. `None`: there is no such branch.
    async fn fetch_branch(&self, branch: &BranchName) -> Result<Option<CommitSha>, RepositoryError>;

    /// The regular files below `root` (empty: everything) at `commit`.
    async fn snapshot(&self, commit: &CommitSha, root: &TreePath) -> Result<Snapshot, RepositoryError>;

    /// The same without the files whose names end otherwise, in any case: of a repository with a hundred thousand files, a
    /// thousand may be of interest, and a push is then as little work as if the others were not there.
    ///
    /// # Errors
    /// As [`Self::snapshot`].
    async fn snapshot_of(
        &self,
        commit: &CommitSha,
        root: &TreePath,
        endings: &'static [&'static str],
    ) -> Result<Snapshot, RepositoryError> {
        let mut snapshot = self.snapshot(commit, root).await?;
        let is_wanted = |path: &TreePath| ends_in_one_of(path.as_str(), endings);
        if !snapshot.files.keys().all(is_wanted) {
            let wanted = snapshot.files.iter().filter(|(path, _)| is_wanted(path));
            snapshot.files = wanted.map(|(path, blob)| (path.clone(), blob.clone())).collect();
        }
        Ok(snapshot)
    }

    /// The contents of blobs, in the order asked for. One larger than `limit` bytes is `None`.
    async fn read(&self, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, RepositoryError>;

    /// Whether `commit` is `tip` or one of its ancestors. A commit that is not known is not.
    async fn contains(&self, tip: &CommitSha, commit: &CommitSha) -> Result<bool, RepositoryError>;

    /// Puts commits on top of a branch if it is still where it was read. Never a merge, never forced. After an error
    /// other than [`RepositoryError::Commit`] nobody knows whether the push arrived: the next fetch tells.
    async fn publish(&self, publication: &Publication) -> Result<PublishOutcome, RepositoryError>;

    /// Wakes the reader when the remote may have moved, where that can be noticed without asking it (a
    /// repository on this machine). Never ends; may never yield.
    fn changes(&self) -> BoxStream<'static, ()>;
}

/// Why the repository did not do what was asked.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RepositoryError {
    /// The remote did not answer in time, or the connection broke.
    #[error("{address} cannot be reached: {why}")]
    Unreachable {
        /// Address without credentials.
        address: String,
        /// What happened.
        why: String,
    },
    /// The remote refuses the credentials, or there are none.
    #[error("{address} refuses the credentials: {why}")]
    Unauthorized {
        /// Address without credentials.
        address: String,
        /// What happened.
        why: String,
    },
    /// What is given to get in cannot be used: a file that cannot be read, a key that is none.
    #[error("the credentials for {address} cannot be used: {why}")]
    Credentials {
        /// Address without credentials.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// The remote is not who it should be: its certificate or its host key is not good.
    #[error("{address} is not trusted: {why}")]
    Untrusted {
        /// Address without credentials.
        address: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
    /// There is no such repository, branch, tag, commit or folder.
    #[error("{what} is not there in {address}")]
    NotFound {
        /// What is missing, such as `branch main` or `folder clusters/prod`.
        what: String,
        /// Address without credentials.
        address: String,
    },
    /// What is there is more than Serin takes in.
    #[error("{address} cannot be used: {why}")]
    TooLarge {
        /// Address without credentials.
        address: String,
        /// What there is too much of, and how much may be.
        why: String,
    },
    /// Something on this machine: the mirror's disk, a corrupt object.
    #[error("the mirror of {address} failed: {why}")]
    Mirror {
        /// Address without credentials.
        address: String,
        /// In which folder, and what happened.
        why: String,
    },
    /// The commits to publish could not be made on this machine (its disk is full, say): nothing was sent.
    #[error("no commit for {address} can be made: {why}")]
    Commit {
        /// Address without credentials.
        address: String,
        /// In which folder, and what happened.
        why: String,
    },
}

impl RepositoryError {
    /// What happened, without the address.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Unreachable { why, .. }
            | Self::Unauthorized { why, .. }
            | Self::Credentials { why, .. }
            | Self::Untrusted { why, .. }
            | Self::TooLarge { why, .. }
            | Self::Mirror { why, .. }
            | Self::Commit { why, .. } => why.clone(),
            Self::NotFound { what, .. } => format!("{what} is not there"),
        }
    }

    /// A bounded name for metric labels.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Credentials { .. } => "credentials",
            Self::Untrusted { .. } => "untrusted",
            Self::NotFound { .. } => "not_found",
            Self::TooLarge { .. } => "too_large",
            Self::Mirror { .. } => "mirror",
            Self::Commit { .. } => "commit",
        }
    }
}

/// Whether a name ends in one of these, in any case.
fn ends_in_one_of(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| {
        let tail = name.len().checked_sub(ending.len()).and_then(|at| name.get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(ending))
    })
}
