//! What the simulated remote holds: blobs, commits with whole trees, branches, tags.
//!
//! Trees are maps shared between commits; a commit costs its own edits and one copy of the map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::git::{Author, NewCommit};
use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// The files of a commit.
pub(super) type Tree = Arc<BTreeMap<TreePath, BlobId>>;

/// A commit, as `git log` would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommit {
    /// Its id.
    pub sha: CommitSha,
    /// Its parent; `None` for a root commit.
    pub parent: Option<CommitSha>,
    /// The message.
    pub message: String,
    /// Author and committer.
    pub author: Author,
    /// When, in whole seconds.
    pub at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) logged: LoggedCommit,
    pub(super) tree: Tree,
}

/// The whole remote.
#[derive(Debug, Default)]
pub(super) struct History {
    blobs: BTreeMap<BlobId, Arc<[u8]>>,
    commits: BTreeMap<CommitSha, Arc<Commit>>,
    branches: BTreeMap<BranchName, CommitSha>,
    tags: BTreeMap<String, CommitSha>,
    /// Seconds since the start of the story, for commits of people.
    seconds: i64,
}

impl History {
    pub(super) fn tip(&self, branch: &BranchName) -> Option<CommitSha> {
        self.branches.get(branch).cloned()
    }

    pub(super) fn tag(&self, tag: &str) -> Option<CommitSha> {
        self.tags.get(tag).cloned()
    }

    pub(super) fn commit(&self, sha: &CommitSha) -> Option<Arc<Commit>> {
        self.commits.get(sha).cloned()
    }

    pub(super) fn blob(&self, id: &BlobId) -> Option<Arc<[u8]>> {
        self.blobs.get(id).cloned()
    }

    pub(super) fn move_branch(&mut self, branch: &BranchName, to: &CommitSha) {
        self.branches.insert(branch.clone(), to.clone());
    }

    pub(super) fn delete_branch(&mut self, branch: &BranchName) {
        self.branches.remove(branch);
    }

    pub(super) fn set_tag(&mut self, tag: &str, to: &CommitSha) {
        self.tags.insert(tag.to_owned(), to.clone());
    }

    /// The commit and all its ancestors, the newest first.
    pub(super) fn log(&self, from: &CommitSha) -> impl Iterator<Item = Arc<Commit>> {
        std::iter::successors(self.commit(from), |commit| self.commit(commit.logged.parent.as_ref()?))
    }

    /// Adds what `from` reaches to `known`, stopping where it is known already.
    pub(super) fn learn(&self, from: &CommitSha, known: &mut BTreeSet<CommitSha>) {
        for commit in self.log(from) {
            if !known.insert(commit.logged.sha.clone()) {
                break;
            }
        }
    }

    /// The time of a person's next commit: a minute after the one before, whatever the daemon's clock does.
    pub(super) fn next_time(&mut self) -> Timestamp {
        self.seconds += 60;
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(STORY_STARTS + self.seconds)
    }

    /// Makes a commit; moves no branch. The same parent and the same contents give the same id.
    pub(super) fn add(&mut self, parent: Option<&CommitSha>, new: &NewCommit) -> CommitSha {
        let mut tree = parent.and_then(|sha| self.commit(sha)).map(|commit| commit.tree.clone()).unwrap_or_default();
        let mut id = Sha256::new();
        let mut feed = |bytes: &[u8]| {
            id.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            id.update(bytes);
        };
        // Git keeps whole seconds, and so do ids and logs here.
        let at = Timestamp::from_second(new.at.as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
        feed(parent.map_or("", CommitSha::as_str).as_bytes());
        feed(new.author.name.as_bytes());
        feed(new.author.email.as_bytes());
        feed(&at.as_second().to_be_bytes());
        feed(new.message.as_bytes());
        for (path, contents) in &new.edits {
            feed(path.as_str().as_bytes());
            let files = Arc::make_mut(&mut tree);
            match contents {
                Some(contents) => {
                    let blob = BlobId::new(hex(&Sha256::digest(contents)));
                    feed(blob.as_str().as_bytes());
                    self.blobs.entry(blob.clone()).or_insert_with(|| Arc::from(contents.as_slice()));
                    files.insert(path.clone(), blob);
                }
                None => {
                    feed(b"");
                    files.remove(path);
                }
            }
        }
        let sha = CommitSha::new(hex(&id.finalize()));
        let logged = LoggedCommit {
            sha: sha.clone(),
            parent: parent.cloned(),
            message: new.message.clone(),
            author: new.author.clone(),
            at,
        };
        self.commits.insert(sha.clone(), Arc::new(Commit { logged, tree }));
        sha
    }
}

/// 2026-01-01T00:00:00Z, in seconds since 1970: an arbitrary moment that reads like one.
const STORY_STARTS: i64 = 1_767_225_600;

/// Ids look like git's: 40 hex digits.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}
