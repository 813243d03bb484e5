//! Making commit objects without a checkout: a base tree and edits give a new tree, written straight into the
//! object database. Moves no refs.
//!
//! The same parent and the same [`NewCommit`] give the same id on every machine and at every attempt; a push
//! whose answer was lost is therefore recognised when it is tried again.

use std::collections::BTreeMap;

use git2::{Oid, Repository, Signature, Time, Tree};
use jiff::Timestamp;

use super::listing::{EXECUTABLE, FOLDER, REGULAR};
use super::{CommitInfo, NewCommit, snapshot};
use crate::ids::CommitSha;

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

/// The tree of a commit. Each folder in which something changes is read and written once, however much that is.
fn edited_tree<'r>(repo: &'r Repository, base: Tree<'r>, new: &NewCommit) -> Result<Tree<'r>, git2::Error> {
    let edits: Vec<Edit<'_>> = new.edits.iter().map(|(path, contents)| (path.as_str(), contents.as_deref())).collect();
    let edited = match edited_folder(repo, Some(&base), &edits)? {
        Some(tree) => tree,
        None => repo.treebuilder(None)?.write()?,
    };
    if edited == base.id() { Ok(base) } else { repo.find_tree(edited) }
}

/// A path below a folder, and what is to be there; `None`: nothing.
type Edit<'e> = (&'e str, Option<&'e [u8]>);

/// A folder with these changes; `None`: it is empty, so there is none.
fn edited_folder(repo: &Repository, base: Option<&Tree<'_>>, edits: &[Edit<'_>]) -> Result<Option<Oid>, git2::Error> {
    let mut folder = repo.treebuilder(base)?;
    let (mut below, mut files): (BTreeMap<&str, Vec<Edit<'_>>>, Vec<Edit<'_>>) = Default::default();
    for (path, contents) in edits {
        match path.split_once('/') {
            Some((name, rest)) => below.entry(name).or_default().push((rest, *contents)),
            None => files.push((path, *contents)),
        }
    }
    let mode_of = |folder: &git2::TreeBuilder<'_>, name: &str| -> Result<Option<i32>, git2::Error> {
        Ok(folder.get(name)?.map(|entry| entry.filemode()))
    };
    // A file that goes may make place for a folder of its name, and the other way round.
    for (name, _) in files.iter().filter(|(_, contents)| contents.is_none()) {
        if mode_of(&folder, name)?.is_some_and(|mode| mode != FOLDER) {
            folder.remove(name)?;
        }
    }
    for (name, edits) in below {
        let is_wanted = edits.iter().any(|(_, contents)| contents.is_some());
        let before = folder.get(name)?.map(|entry| (entry.id(), entry.filemode()));
        let inner = match before {
            Some((id, FOLDER)) => Some(repo.find_tree(id)?),
            Some(_) if is_wanted => return Err(in_the_way(name, "file")),
            Some(_) => continue,
            None if is_wanted => None,
            None => continue,
        };
        match edited_folder(repo, inner.as_ref(), &edits)? {
            Some(id) => drop(folder.insert(name, id, FOLDER)?),
            None => folder.remove(name)?,
        }
    }
    for (name, contents) in files {
        let Some(contents) = contents else { continue };
        let mode = match mode_of(&folder, name)? {
            Some(FOLDER) => return Err(in_the_way(name, "folder")),
            Some(EXECUTABLE) => EXECUTABLE,
            Some(_) | None => REGULAR,
        };
        folder.insert(name, repo.blob(contents)?, mode)?;
    }
    if folder.is_empty() { Ok(None) } else { folder.write().map(Some) }
}

fn in_the_way(name: &str, what: &str) -> git2::Error {
    git2::Error::from_str(&format!("there is a {what} at {name:?}"))
}
