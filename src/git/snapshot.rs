//! Reading at one commit: file names and ids below a folder, then the contents that are asked for.
//!
//! Listing reads trees only, and only those below the folder: a hundred thousand files cost the walk, not
//! their contents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use super::NotFollowed;
use crate::ids::{BlobId, CommitSha, TreePath};

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

/// How many names one source may have below its folder. Listing a million takes about a second and some 150 MB; and a
/// tree may name the same subtree many times, so that a commit of ten kilobytes can hold more names than memory has room
/// for.
const MAX_NAMES: usize = 1_000_000;

/// How deep folders may be nested. The walk descends by recursion; no checkout has paths of this many parts.
const MAX_FOLDERS: usize = 256;

/// What stands below a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Regular files.
    pub(super) files: BTreeMap<TreePath, BlobId>,
    /// What is not read.
    pub(super) not_followed: BTreeMap<TreePath, NotFollowed>,
}

/// What stands below `root`.
pub(super) fn files(repo: &Repository, commit: &CommitSha, root: &TreePath) -> Result<Listing, ReadFailure> {
    let Some(id) = oid(commit) else { return Err(ReadFailure::UnknownCommit) };
    let tree = match repo.find_commit(id) {
        Ok(commit) => commit.tree()?,
        Err(error) if error.code() == ErrorCode::NotFound => return Err(ReadFailure::UnknownCommit),
        Err(error) => return Err(error.into()),
    };
    let folder = root.as_str().trim_matches('/');
    let mut walk = Walk { repo, root: &tree, prefix: String::new(), found: Vec::new(), not_followed: BTreeMap::new() };
    if folder.is_empty() {
        walk.descend(&tree, 0)?;
    } else {
        let entry = match tree.get_path(Path::new(folder)) {
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => entry,
            Ok(_) => return Err(ReadFailure::NoFolder),
            // A missing subtree object is damage, but then the commit above it has failed to be complete:
            // the name lookup alone cannot tell, so ask whether the name is there.
            Err(error) if error.code() == ErrorCode::NotFound => return Err(missing_folder(repo, &tree, folder)),
            Err(error) => return Err(error.into()),
        };
        walk.prefix = format!("{folder}/");
        walk.descend(&repo.find_tree(entry.id())?, 0)?;
    }
    // Git sorts a folder as if its name ended in a slash, which is the order of whole paths: already sorted.
    Ok(Listing { files: walk.found.into_iter().collect(), not_followed: walk.not_followed })
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

struct Walk<'a> {
    repo: &'a Repository,
    /// The root of the whole commit: where links are looked up.
    root: &'a Tree<'a>,
    prefix: String,
    found: Vec<(TreePath, BlobId)>,
    not_followed: BTreeMap<TreePath, NotFollowed>,
}

impl Walk<'_> {
    fn descend(&mut self, tree: &Tree<'_>, depth: usize) -> Result<(), ReadFailure> {
        if depth > MAX_FOLDERS {
            return Err(ReadFailure::TooLarge(format!("folders are nested deeper than {MAX_FOLDERS} levels")));
        }
        for entry in tree {
            if self.found.len() + self.not_followed.len() >= MAX_NAMES {
                return Err(ReadFailure::TooLarge(format!("there are more than {MAX_NAMES} files")));
            }
            let prefix = &self.prefix;
            let Ok(name) = entry.name() else {
                let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
                self.not_followed.insert(TreePath::new(path), NotFollowed::Name);
                continue;
            };
            let path = || TreePath::new(format!("{prefix}{name}"));
            match entry.filemode() {
                REGULAR | REGULAR_GROUP_WRITABLE | EXECUTABLE => {
                    self.found.push((path(), BlobId::new(entry.id().to_string())));
                }
                FOLDER => {
                    let length = prefix.len();
                    let folder = self.repo.find_tree(entry.id())?;
                    self.prefix.push_str(name);
                    self.prefix.push('/');
                    self.descend(&folder, depth + 1)?;
                    self.prefix.truncate(length);
                }
                SUBMODULE => {
                    self.not_followed.insert(path(), NotFollowed::Submodule);
                }
                _ => {
                    let link = self.link(entry.id())?;
                    self.not_followed.insert(path(), link);
                }
            }
        }
        Ok(())
    }

    /// Where the link leads whose text is the blob `id`, and that stands in the folder `prefix`.
    fn link(&self, id: Oid) -> Result<NotFollowed, ReadFailure> {
        let odb = self.repo.odb()?;
        if odb.read_header(id)?.0 > LONGEST_LINK {
            return Ok(NotFollowed::StrayLink);
        }
        let object = odb.read(id)?;
        let target = std::str::from_utf8(object.data()).ok().and_then(|text| resolve_link(&self.prefix, text));
        let kind = match target.as_deref() {
            None => None,
            Some("") => Some(ObjectType::Tree),
            Some(target) => self.root.get_path(Path::new(target)).ok().and_then(|entry| entry.kind()),
        };
        Ok(match kind {
            Some(ObjectType::Tree) => NotFollowed::FolderLink,
            Some(ObjectType::Blob) => NotFollowed::Link,
            _ => NotFollowed::StrayLink,
        })
    }
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

const REGULAR: i32 = 0o100_644;
/// Written by very old versions of git.
const REGULAR_GROUP_WRITABLE: i32 = 0o100_664;
const EXECUTABLE: i32 = 0o100_755;
const FOLDER: i32 = 0o040_000;
const SUBMODULE: i32 = 0o160_000;

/// The longest path that Linux follows.
const LONGEST_LINK: usize = 4_096;

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

    /// A bare repository in a folder of its own, with a commit of the tree that `make` returns.
    fn repository(make: impl FnOnce(&Repository) -> Oid) -> (tempfile::TempDir, Repository, CommitSha) {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let tree = make(&repository);
        let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let commit = repository.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        drop(tree);
        (folder, repository, CommitSha::new(commit.to_string()))
    }

    fn tree(repository: &Repository, entries: &[(&str, Oid, i32)]) -> Oid {
        let mut builder = repository.treebuilder(None).unwrap();
        for (name, id, mode) in entries {
            builder.insert(name, *id, *mode).unwrap();
        }
        builder.write().unwrap()
    }

    #[test]
    fn a_small_commit_of_more_names_than_memory_has_room_for_is_refused() {
        let (_folder, repository, commit) = repository(|repository| {
            let blob = repository.blob(b"x").unwrap();
            let names: Vec<String> = (0..100).map(|i| format!("f{i}")).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), blob, REGULAR)).collect();
            // Ten to the tenth files in six small trees.
            (0..4).fold(tree(repository, &files), |below, _| {
                let folders: Vec<_> = names.iter().map(|name| (name.as_str(), below, FOLDER)).collect();
                tree(repository, &folders)
            })
        });
        let failure = files(&repository, &commit, &TreePath::new("")).unwrap_err();
        assert!(
            matches!(&failure, ReadFailure::TooLarge(why) if why == "there are more than 1000000 files"),
            "{failure:?}"
        );
        // What is small enough below it can be read.
        assert_eq!(files(&repository, &commit, &TreePath::new("f1/f2/f3")).unwrap().files.len(), 10_000);
    }

    #[test]
    fn folders_that_are_nested_too_deep_are_refused() {
        let (_folder, repository, commit) = repository(|repository| {
            let blob = repository.blob(b"x").unwrap();
            (0..5_000)
                .fold(tree(repository, &[("f", blob, REGULAR)]), |below, _| tree(repository, &[("d", below, FOLDER)]))
        });
        let failure = files(&repository, &commit, &TreePath::new("")).unwrap_err();
        assert!(matches!(&failure, ReadFailure::TooLarge(why) if why.contains("deeper than 256")), "{failure:?}");
    }
}
