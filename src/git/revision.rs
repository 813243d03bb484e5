//! What is followed of a repository and what is there, as plain data: names and ids, no contents.

use std::collections::BTreeMap;

use imbl::OrdMap;

use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// What a source follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revision {
    /// A branch. The only one of the three that decisions can be committed to.
    Branch(BranchName),
    /// A tag, by its short name.
    Tag(String),
    /// One commit, for ever.
    Commit(CommitSha),
}

/// The files below one folder, at one commit: names and ids, no contents yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit.
    pub commit: CommitSha,
    /// Regular files by path from the root of the repository, in order. Links and submodules are not
    /// in it. Shares with the one of another commit what is the same there.
    pub files: OrdMap<TreePath, BlobId>,
    /// What else stands there, by path, and is not read.
    pub not_followed: BTreeMap<TreePath, NotFollowed>,
}

/// Something in a tree that is neither a folder nor a file that can be read. Nothing behind it is: what lies outside the
/// repository is nobody's commit, and what lies inside is read where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotFollowed {
    /// A symbolic link to a file of the repository.
    Link,
    /// A symbolic link to a folder of the repository.
    FolderLink,
    /// A symbolic link out of the repository, or to nothing.
    StrayLink,
    /// A submodule: a commit of another repository.
    Submodule,
    /// A file or folder whose name is not UTF-8; its path is given as well as it can be.
    Name,
}
