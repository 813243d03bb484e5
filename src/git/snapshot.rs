//! Reading at one commit: a folder of it, and the contents that are asked for.

use std::path::Path;
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use crate::ids::{BlobId, CommitSha};

/// Why a read did not give an answer.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The commit is not in the mirror.
    UnknownCommit,
    /// The commit has no such folder.
    NoFolder,
    /// There are more names, or deeper folders, than are walked through.
    TooLarge(String),
    /// An object that must be there is not, or cannot be read.
    Damage(String),
}

impl From<git2::Error> for ReadFailure {
    fn from(error: git2::Error) -> Self {
        Self::Damage(error.message().to_owned())
    }
}

/// The commit's id, if the text is one.
pub(super) fn oid(commit: &CommitSha) -> Option<Oid> {
    (commit.as_str().len() == 40).then(|| Oid::from_str(commit.as_str()).ok()).flatten()
}

/// The tree of a folder at a commit, and the tree of the whole commit.
pub(super) fn folder_of<'r>(
    repo: &'r Repository,
    commit: &CommitSha,
    folder: &str,
) -> Result<(Tree<'r>, Tree<'r>), ReadFailure> {
    let Some(id) = oid(commit) else { return Err(ReadFailure::UnknownCommit) };
    let root = match repo.find_commit(id) {
        Ok(commit) => commit.tree()?,
        Err(error) if error.code() == ErrorCode::NotFound => return Err(ReadFailure::UnknownCommit),
        Err(error) => return Err(error.into()),
    };
    if folder.is_empty() {
        return Ok((root.clone(), root));
    }
    match root.get_path(Path::new(folder)) {
        Ok(entry) if entry.kind() == Some(ObjectType::Tree) => Ok((repo.find_tree(entry.id())?, root)),
        Ok(_) => Err(ReadFailure::NoFolder),
        // A missing subtree object is damage, but then the commit above it has failed to be complete:
        // the name lookup alone cannot tell, so ask whether the name is there.
        Err(error) if error.code() == ErrorCode::NotFound => Err(missing_folder(repo, &root, folder)),
        Err(error) => Err(error.into()),
    }
}

/// The contents of blobs in the order asked for; `None` for those above `limit` bytes.
pub(super) fn contents(repo: &Repository, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, ReadFailure> {
    let odb = repo.odb()?;
    blobs
        .iter()
        .map(|blob| {
            let id = Oid::from_str(blob.as_str())?;
            let (size, kind) = odb.read_header(id)?;
            if kind != ObjectType::Blob {
                return Err(ReadFailure::Damage(format!("{blob} is not a file")));
            }
            if u64::try_from(size).is_ok_and(|size| size > limit) {
                return Ok(None);
            }
            Ok(Some(Arc::from(odb.read(id)?.data())))
        })
        .collect()
}

/// The path from the root of the repository that a link in the folder `prefix` names; `None` where it leads out of it.
pub(super) fn resolve_link(prefix: &str, target: &str) -> Option<String> {
    if target.starts_with('/') || target.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn missing_folder(repo: &Repository, root: &Tree<'_>, folder: &str) -> ReadFailure {
    let mut tree = root.clone();
    for part in folder.split('/') {
        let Some(id) = tree.get_name(part).filter(|entry| entry.kind() == Some(ObjectType::Tree)).map(|e| e.id())
        else {
            return ReadFailure::NoFolder;
        };
        tree = match repo.find_tree(id) {
            Ok(tree) => tree,
            Err(error) => return error.into(),
        };
    }
    ReadFailure::NoFolder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_resolved_within_the_repository_and_nowhere_else() {
        for (prefix, target, path) in [
            ("a/b/", "c.yaml", Some("a/b/c.yaml")),
            ("a/b/", "../../c", Some("c")),
            ("a/b/", "../..", Some("")),
            ("a/b/", "../../..", None),
            ("", "..", None),
            ("a/", "./x//y", Some("a/x/y")),
            ("a/", "/etc/passwd", None),
            ("a/", "", None),
        ] {
            assert_eq!(resolve_link(prefix, target).as_deref(), path, "{prefix} {target}");
        }
    }
}
