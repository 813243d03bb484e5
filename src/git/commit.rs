//! Making commit objects without a checkout: a base tree and edits give a new tree, written straight into the
//! object database. Moves no refs.
//!
//! The same parent and the same [`NewCommit`] give the same id on every machine and at every attempt; a push
//! whose answer was lost is therefore recognised when it is tried again.

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, ObjectType, Oid, Repository, Signature, Time, Tree};

use jiff::Timestamp;

use super::{CommitInfo, NewCommit, snapshot};
use crate::ids::{CommitSha, TreePath};

/// Writes the commits on top of `parent`, oldest first (`None`: the first one is a root commit with an empty
/// tree below it), and returns their ids.
///
/// A commit whose edits change nothing is made all the same: whether that is wanted is the caller's decision.
/// A file that is there keeps its mode; a new one is a regular file; deleting what is not there changes
/// nothing. A folder that becomes empty disappears.
pub(super) fn create(repo: &Repository, parent: Option<Oid>, commits: &[NewCommit]) -> Result<Vec<Oid>, git2::Error> {
    let mut ids = Vec::with_capacity(commits.len());
    let mut parent = parent.map(|id| repo.find_commit(id)).transpose()?;
    for new in commits {
        let base = match &parent {
            Some(parent) => parent.tree()?,
            None => repo.find_tree(repo.treebuilder(None)?.write()?)?,
        };
        let tree = edited_tree(repo, base, new)?;
        // Git stores whole seconds; the zone is UTC.
        let at = Time::new(new.at.as_second(), 0);
        let who = Signature::new(&new.author.name, &new.author.email, &at)?;
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        let id = repo.commit(None, &who, &who, &new.message, &tree, &parents)?;
        ids.push(id);
        parent = Some(repo.find_commit(id)?);
    }
    Ok(ids)
}

/// What a commit says of itself; `None`: it is not here.
pub(super) fn describe(repo: &Repository, commit: &CommitSha) -> Option<CommitInfo> {
    let found = repo.find_commit(snapshot::oid(commit)?).ok()?;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(CommitInfo {
        commit: commit.clone(),
        subject: lossy(found.message_bytes()).lines().next().unwrap_or_default().to_owned(),
        author: lossy(found.author().name_bytes()),
        at: Timestamp::from_second(found.time().seconds()).ok()?,
    })
}

fn edited_tree<'r>(repo: &'r Repository, base: Tree<'r>, new: &NewCommit) -> Result<Tree<'r>, git2::Error> {
    // Deletions first, so that a file may make place for a folder of the same name in one commit.
    let mut deletions = TreeUpdateBuilder::new();
    let mut deletes = false;
    for path in new.edits.iter().filter(|(_, contents)| contents.is_none()).map(|(path, _)| path) {
        if entry_mode(&base, path).is_some() {
            deletions.remove(path.as_str());
            deletes = true;
        }
    }
    let base = if deletes { repo.find_tree(deletions.create_updated(repo, &base)?)? } else { base };

    let mut writes = TreeUpdateBuilder::new();
    let mut any = false;
    for (path, contents) in &new.edits {
        let Some(contents) = contents else { continue };
        let mode = match entry_mode(&base, path) {
            Some(EXECUTABLE) => FileMode::BlobExecutable,
            _ => FileMode::Blob,
        };
        writes.upsert(path.as_str(), repo.blob(contents)?, mode);
        any = true;
    }
    if any { repo.find_tree(writes.create_updated(repo, &base)?) } else { Ok(base) }
}

/// The mode of what is at `path`, if it is not a folder.
fn entry_mode(tree: &Tree<'_>, path: &TreePath) -> Option<i32> {
    let entry = tree.get_path(std::path::Path::new(path.as_str())).ok()?;
    (entry.kind() != Some(ObjectType::Tree)).then(|| entry.filemode())
}

const EXECUTABLE: i32 = 0o100_755;
