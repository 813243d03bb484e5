//! Reading at one commit: file names and ids below a folder, then the contents that are asked for.
//!
//! Listing reads trees only, and only those below the folder: a hundred thousand files cost the walk, not
//! their contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use crate::ids::{BlobId, CommitSha, TreePath};

/// Why a read did not give an answer.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The commit is not in the mirror.
    UnknownCommit,
    /// The commit has no such folder.
    NoFolder,
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

/// The regular files below `root` in path order. Links, submodules and names that are not UTF-8 are left out.
pub(super) fn files(
    repo: &Repository,
    commit: &CommitSha,
    root: &TreePath,
) -> Result<BTreeMap<TreePath, BlobId>, ReadFailure> {
    let Some(id) = oid(commit) else { return Err(ReadFailure::UnknownCommit) };
    let tree = match repo.find_commit(id) {
        Ok(commit) => commit.tree()?,
        Err(error) if error.code() == ErrorCode::NotFound => return Err(ReadFailure::UnknownCommit),
        Err(error) => return Err(error.into()),
    };
    let folder = root.as_str().trim_matches('/');
    let mut found = Vec::new();
    if folder.is_empty() {
        walk(repo, &tree, &mut String::new(), &mut found)?;
    } else {
        let entry = match tree.get_path(std::path::Path::new(folder)) {
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => entry,
            Ok(_) => return Err(ReadFailure::NoFolder),
            // A missing subtree object is damage, but then the commit above it has failed to be complete:
            // the name lookup alone cannot tell, so ask whether the name is there.
            Err(error) if error.code() == ErrorCode::NotFound => return Err(missing_folder(repo, &tree, folder)),
            Err(error) => return Err(error.into()),
        };
        let mut prefix = format!("{folder}/");
        walk(repo, &repo.find_tree(entry.id())?, &mut prefix, &mut found)?;
    }
    // Git sorts a folder as if its name ended in a slash, which is the order of whole paths: already sorted.
    Ok(found.into_iter().collect())
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

fn walk(
    repo: &Repository,
    tree: &Tree<'_>,
    prefix: &mut String,
    found: &mut Vec<(TreePath, BlobId)>,
) -> Result<(), ReadFailure> {
    for entry in tree {
        let Ok(name) = entry.name() else { continue };
        match entry.filemode() {
            REGULAR | REGULAR_GROUP_WRITABLE | EXECUTABLE => {
                found.push((TreePath::new(format!("{prefix}{name}")), BlobId::new(entry.id().to_string())));
            }
            FOLDER => {
                let length = prefix.len();
                prefix.push_str(name);
                prefix.push('/');
                walk(repo, &repo.find_tree(entry.id())?, prefix, found)?;
                prefix.truncate(length);
            }
            _ => {}
        }
    }
    Ok(())
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

const REGULAR: i32 = 0o100_644;
/// Written by very old versions of git.
const REGULAR_GROUP_WRITABLE: i32 = 0o100_664;
const EXECUTABLE: i32 = 0o100_755;
const FOLDER: i32 = 0o040_000;
