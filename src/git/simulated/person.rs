//! Somebody else who works on the repository: what people and other tools do with `git push`.

use std::collections::BTreeMap;

use super::repository::Remote;
use crate::git::{Author, NewCommit};
use crate::ids::{BranchName, CommitSha, TreePath};

/// A person with a clone. Their pushes always succeed: faults and refusals concern Serin only.
#[derive(Clone, Debug)]
pub struct Person {
    pub(super) remote: Remote,
    pub(super) author: Author,
}

/// A revert that git would stop with a conflict, or that makes no sense.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotRevertible {
    /// The branch does not exist.
    #[error("there is no branch {branch}")]
    NoBranch {
        /// The branch.
        branch: BranchName,
    },
    /// The commit does not exist.
    #[error("there is no commit {commit}")]
    NoCommit {
        /// The commit.
        commit: CommitSha,
    },
    /// A file of the commit was changed again by a later one.
    #[error("{path} was changed since {commit}")]
    Conflict {
        /// The file.
        path: TreePath,
        /// The commit that was to be reverted.
        commit: CommitSha,
    },
}

impl Person {
    /// Commits new contents (`None` deletes a file) on top of a branch and pushes; makes the branch if it is
    /// not there.
    pub fn commit(
        &self,
        branch: &BranchName,
        edits: BTreeMap<TreePath, Option<Vec<u8>>>,
        message: impl Into<String>,
    ) -> CommitSha {
        let message = message.into();
        self.remote.push(|history| {
            let at = history.next_time();
            let new = NewCommit { message, author: self.author.clone(), at, edits };
            let sha = history.add(history.tip(branch).as_ref(), &new);
            history.move_branch(branch, &sha);
            sha
        })
    }

    /// Writes one file: the short form of [`commit`](Self::commit).
    pub fn write(&self, branch: &BranchName, path: &str, text: &str) -> CommitSha {
        let edits = BTreeMap::from([(TreePath::new(path), Some(text.as_bytes().to_vec()))]);
        self.commit(branch, edits, format!("write {path}"))
    }

    /// `git revert`: a new commit that gives every file of `commit` the contents from before it.
    ///
    /// Errors: no such branch or commit; a file that was changed again since. Git merges such a file line by
    /// line and may succeed; here it is always a conflict.
    pub fn revert(&self, branch: &BranchName, commit: &CommitSha) -> Result<CommitSha, NotRevertible> {
        self.remote.push(|history| {
            let tip = history.tip(branch).ok_or_else(|| NotRevertible::NoBranch { branch: branch.clone() })?;
            let no_commit = || NotRevertible::NoCommit { commit: commit.clone() };
            let after = history.commit(commit).ok_or_else(no_commit)?;
            let now = history.commit(&tip).ok_or_else(no_commit)?;
            let before = after.logged.parent.as_ref().and_then(|parent| history.commit(parent));
            let before = before.map(|commit| commit.tree.clone()).unwrap_or_default();
            let mut edits = BTreeMap::new();
            for path in before.keys().chain(after.tree.keys()) {
                if before.get(path) == after.tree.get(path) {
                    continue;
                }
                if now.tree.get(path) != after.tree.get(path) {
                    return Err(NotRevertible::Conflict { path: path.clone(), commit: commit.clone() });
                }
                let contents = before.get(path).and_then(|blob| history.blob(blob)).map(|bytes| bytes.to_vec());
                edits.insert(path.clone(), contents);
            }
            let subject = after.logged.message.lines().next().unwrap_or_default();
            let message = format!("Revert \"{subject}\"\n\nThis reverts commit {commit}.\n");
            let new = NewCommit { message, author: self.author.clone(), at: history.next_time(), edits };
            let sha = history.add(Some(&tip), &new);
            history.move_branch(branch, &sha);
            Ok(sha)
        })
    }

    /// Moves a branch to any commit, whatever is lost by it.
    pub fn force_push(&self, branch: &BranchName, to: &CommitSha) {
        self.remote.push(|history| history.move_branch(branch, to));
    }

    /// Deletes a branch.
    pub fn delete_branch(&self, branch: &BranchName) {
        self.remote.push(|history| history.delete_branch(branch));
    }

    /// Makes or moves a tag.
    pub fn tag(&self, tag: &str, to: &CommitSha) {
        self.remote.push(|history| history.set_tag(tag, to));
    }
}
