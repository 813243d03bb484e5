//! The files of a working tree, as a commit of them would hold them.
//!
//! For `serin check`, and for `serin diff` before the commit: no mirror and no server. What git ignores is left out unless it is tracked or named
//! itself, links and submodules are not followed, and paths start at the root of the repository, so that what is said
//! about a file here is what the daemon says about it. Outside of a repository all files count.

use std::collections::BTreeMap;
use std::fs::{self, FileType, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};

use super::NotFollowed;
use super::snapshot::resolve_link;
use crate::ids::TreePath;

/// How deep folders are looked into: the same as in a commit.
const MAX_FOLDERS: usize = 256;

/// What was found.
#[derive(Debug, Default)]
pub struct Listing {
    /// Regular files and where they lie, by path from the root.
    pub files: BTreeMap<TreePath, PathBuf>,
    /// What else stands there, and is not read.
    pub not_followed: BTreeMap<TreePath, NotFollowed>,
}

/// Why a path cannot be looked into.
#[derive(Debug, thiserror::Error)]
pub enum WorkingTreeError {
    /// There is no such file or folder.
    #[error("{path} is not there")]
    Missing {
        /// The path.
        path: String,
    },
    /// It is a symbolic link.
    #[error("{path} is a symbolic link, and links are not followed\n  hint: name what it leads to")]
    Link {
        /// The path.
        path: String,
    },
    /// It is a device, a pipe or something else that git does not hold.
    #[error("{path} is neither a file nor a folder")]
    Special {
        /// The path.
        path: String,
    },
    /// Folders are nested too deep.
    #[error("{path} is nested deeper than {MAX_FOLDERS} folders")]
    TooDeep {
        /// The path.
        path: String,
    },
    /// There is a repository, and git does not open it.
    #[error("the repository at {path} cannot be opened: {why}")]
    Repository {
        /// Its folder.
        path: String,
        /// Why, and what to do about it.
        why: String,
    },
    /// It cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The path.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// What becomes of files that git ignores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ignored {
    LeftOut,
    Read,
}

/// A folder that paths start at: the root of a repository, or the working folder.
pub struct WorkingTree {
    root: PathBuf,
    repository: Option<Repository>,
}

impl WorkingTree {
    /// The working tree that `here` lies in; where there is none, `here` itself.
    ///
    /// # Errors
    /// If `here` lies in a repository that cannot be opened: without it other files would be looked at, under other names.
    pub fn around(here: &Path) -> Result<Self, WorkingTreeError> {
        let repository = discover(here)?.filter(|found| !found.is_bare());
        let root = repository.as_ref().and_then(Repository::workdir).map(Path::to_path_buf);
        let root = root.unwrap_or_else(|| here.to_path_buf());
        Ok(Self { root: fs::canonicalize(&root).unwrap_or(root), repository })
    }

    /// Where paths start.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Adds the regular files at and below `path` (absolute, or from the working folder of the process) to `listing`.
    ///
    /// # Errors
    /// If `path` is not there, or is a link or something special, or a folder of it cannot be read.
    pub fn list(&self, path: &Path, listing: &mut Listing) -> Result<(), WorkingTreeError> {
        let metadata = metadata(path)?;
        if metadata.is_symlink() {
            return Err(WorkingTreeError::Link { path: shown(path) });
        }
        let place = fs::canonicalize(path).map_err(|source| WorkingTreeError::Read { path: shown(path), source })?;
        if metadata.is_file() {
            listing.files.insert(self.name(&place), place);
            Ok(())
        } else if metadata.is_dir() {
            // Whoever names a folder that git ignores means what is in it.
            let ignored = if self.is_left_out(&place, metadata.file_type()) { Ignored::Read } else { Ignored::LeftOut };
            self.descend(&place, ignored, 0, listing)
        } else {
            Err(WorkingTreeError::Special { path: shown(path) })
        }
    }

    /// Adds what a commit of everything would hold below `folder` to `listing`. Other than in [`Self::list`], what git
    /// ignores is left out also where it is the folder itself.
    ///
    /// # Errors
    /// If `folder` is not there, or is a link, or a folder of it cannot be read.
    pub fn list_as_committed(&self, folder: &Path, listing: &mut Listing) -> Result<(), WorkingTreeError> {
        if metadata(folder)?.is_symlink() {
            return Err(WorkingTreeError::Link { path: shown(folder) });
        }
        let place =
            fs::canonicalize(folder).map_err(|source| WorkingTreeError::Read { path: shown(folder), source })?;
        self.descend(&place, Ignored::LeftOut, 0, listing)
    }

    fn descend(
        &self,
        folder: &Path,
        ignored: Ignored,
        depth: usize,
        listing: &mut Listing,
    ) -> Result<(), WorkingTreeError> {
        if depth > MAX_FOLDERS {
            return Err(WorkingTreeError::TooDeep { path: shown(folder) });
        }
        let failed = |source| WorkingTreeError::Read { path: shown(folder), source };
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (place, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            let is_left_out = ignored == Ignored::LeftOut && self.is_left_out(&place, kind);
            if entry.file_name() == ".git" || is_left_out {
                continue;
            }
            let name = self.name(&place);
            if entry.file_name().to_str().is_none() {
                listing.not_followed.insert(name, NotFollowed::Name);
            } else if kind.is_symlink() {
                listing.not_followed.insert(name, self.link(&place));
            } else if kind.is_dir() && self.repository.is_some() && place.join(".git").exists() {
                listing.not_followed.insert(name, NotFollowed::Submodule);
            } else if kind.is_dir() {
                self.descend(&place, ignored, depth + 1, listing)?;
            } else if kind.is_file() {
                listing.files.insert(name, place);
            }
        }
        Ok(())
    }

    /// Whether git ignores it. A file that is tracked counts all the same, and so does its folder.
    fn is_left_out(&self, place: &Path, kind: FileType) -> bool {
        let (Some(repository), Ok(inner)) = (&self.repository, place.strip_prefix(&self.root)) else { return false };
        // A folder is asked for with its slash: patterns such as `build/` are about folders alone.
        let asked = if kind.is_dir() { inner.join("") } else { inner.to_path_buf() };
        if !repository.is_path_ignored(&asked).unwrap_or(false) {
            return false;
        }
        let Ok(index) = repository.index() else { return true };
        let is_tracked =
            if kind.is_dir() { index.find_prefix(&asked).is_ok() } else { index.get_path(inner, 0).is_some() };
        !is_tracked
    }

    /// Where a link leads.
    fn link(&self, place: &Path) -> NotFollowed {
        let prefix = place.parent().and_then(|folder| folder.strip_prefix(&self.root).ok()).and_then(Path::to_str);
        let target = fs::read_link(place).ok();
        let target = target.as_deref().and_then(Path::to_str);
        let inner = prefix.zip(target).and_then(|(prefix, target)| resolve_link(prefix, target));
        // A link to a link is none to a file: git's trees are asked in the same way.
        match inner.and_then(|inner| fs::symlink_metadata(self.root.join(inner)).ok()) {
            Some(found) if found.is_dir() => NotFollowed::FolderLink,
            Some(_) => NotFollowed::Link,
            None => NotFollowed::StrayLink,
        }
    }

    /// The path from the root; absolute where it lies elsewhere.
    fn name(&self, place: &Path) -> TreePath {
        TreePath::new(place.strip_prefix(&self.root).unwrap_or(place).to_string_lossy())
    }
}

/// The repository that `here` lies in; `None`: it lies in none.
///
/// One of another user is not opened, as git itself does not. libgit2 would run nothing of it (no hook, no filter, no monitor
/// of its config), but `core.worktree`, `core.excludesFile` and `info/exclude` decide which files there are: who can put a
/// `.git` into a folder above could make a check pass over what it should find. Only the person who runs it can say that the
/// owner is trusted, and `safe.directory` is where git has that said.
///
/// # Errors
/// If there is one that cannot be opened.
pub(super) fn discover(here: &Path) -> Result<Option<Repository>, WorkingTreeError> {
    match Repository::discover(here) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => {
            let found = Repository::discover_path(here, std::iter::empty::<&Path>());
            let found = found.unwrap_or_else(|_| here.to_path_buf());
            Err(not_opened(&found, &error))
        }
    }
}

/// Why a repository whose `.git` is `found` was not opened.
fn not_opened(found: &Path, error: &git2::Error) -> WorkingTreeError {
    let folder = if found.file_name().is_some_and(|name| name == ".git") { found.parent() } else { None };
    let path = shown(folder.unwrap_or(found));
    let why = match error.code() {
        ErrorCode::Owner => {
            format!(
                "it belongs to another user\n  hint: if you trust it: git config --global --add safe.directory {path}"
            )
        }
        _ => error.message().to_owned(),
    };
    WorkingTreeError::Repository { path, why }
}

/// Reads a file of at most `limit` bytes; `None`: it has more.
///
/// # Errors
/// If it cannot be read.
pub fn read_file(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, WorkingTreeError> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let failed = |source| WorkingTreeError::Read { path: shown(path), source };
    let file = fs::File::open(path).map_err(failed)?;
    // Asked first, so that nothing of a large file is read; and read with a limit, since it may grow meanwhile.
    if file.metadata().map_err(failed)?.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    Ok(u64::try_from(bytes.len()).is_ok_and(|length| length <= limit).then_some(bytes))
}

fn metadata(path: &Path) -> Result<Metadata, WorkingTreeError> {
    fs::symlink_metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => WorkingTreeError::Missing { path: shown(path) },
        _ => WorkingTreeError::Read { path: shown(path), source },
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "a: 1\n").unwrap();
    }

    fn listed(tree: &WorkingTree, path: &Path) -> (Vec<String>, Vec<(String, NotFollowed)>) {
        let mut listing = Listing::default();
        tree.list(path, &mut listing).unwrap();
        let others = listing.not_followed.iter().map(|(path, what)| (path.to_string(), *what));
        (listing.files.keys().map(ToString::to_string).collect(), others.collect())
    }

    #[test]
    fn the_files_are_those_that_a_commit_would_hold() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let repository = Repository::init(root).unwrap();
        for path in ["a/x.yaml", "a/b/y.yaml", "build/out.yaml", "kept/z.yaml", "secret.yaml", "sub/.git", "sub/s.yaml"]
        {
            write(root, path);
        }
        fs::write(root.join(".gitignore"), "build/\nkept/\nsecret.yaml\n").unwrap();
        let mut index = repository.index().unwrap();
        index.add_path(Path::new("kept/z.yaml")).unwrap();
        index.write().unwrap();
        for (link, target) in [
            ("a/in.yaml", "x.yaml"),
            ("a/up.yaml", "../a/b/y.yaml"),
            ("a/folder", "b"),
            ("a/out.yaml", "../../outside.yaml"),
            ("a/passwd", "/etc/passwd"),
            ("a/loop", "loop"),
            ("a/nothing", "gone"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let tree = WorkingTree::around(&root.join("a")).unwrap();
        assert_eq!(tree.root(), fs::canonicalize(root).unwrap());
        let (files, others) = listed(&tree, root);
        assert_eq!(files, [".gitignore", "a/b/y.yaml", "a/x.yaml", "kept/z.yaml"]);
        let others: Vec<(&str, NotFollowed)> = others.iter().map(|(path, what)| (path.as_str(), *what)).collect();
        assert_eq!(
            others,
            [
                ("a/folder", NotFollowed::FolderLink),
                ("a/in.yaml", NotFollowed::Link),
                ("a/loop", NotFollowed::Link),
                ("a/nothing", NotFollowed::StrayLink),
                ("a/out.yaml", NotFollowed::StrayLink),
                ("a/passwd", NotFollowed::StrayLink),
                ("a/up.yaml", NotFollowed::Link),
                ("sub", NotFollowed::Submodule),
            ]
        );
        // What is named itself is looked at, whether git ignores it or not.
        assert_eq!(listed(&tree, &root.join("secret.yaml")).0, ["secret.yaml"]);
        assert_eq!(listed(&tree, &root.join("build")).0, ["build/out.yaml"]);
    }

    #[test]
    fn what_cannot_be_looked_into_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        symlink("elsewhere", root.join("link")).unwrap();
        write(&root, "file.yaml");
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let tree = WorkingTree::around(&root).unwrap();
        let said = |path: &str| {
            let error = tree.list(&root.join(path), &mut Listing::default()).unwrap_err();
            error.to_string().replace(&root.display().to_string(), "")
        };
        assert_eq!(said("gone"), "/gone is not there");
        assert_eq!(said("file.yaml/x"), "/file.yaml/x is not there");
        assert_eq!(said("link"), "/link is a symbolic link, and links are not followed\n  hint: name what it leads to");
        assert_eq!(said("socket"), "/socket is neither a file nor a folder");
        let mut deep = root.clone();
        for _ in 0..300 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        assert!(said("d").ends_with(" is nested deeper than 256 folders"));
    }

    #[test]
    fn a_repository_that_git_does_not_open_is_not_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        Repository::init(&root).unwrap();
        fs::write(root.join(".git/config"), "[core\n").unwrap();
        write(&root, "a/x.yaml");
        let said = WorkingTree::around(&root.join("a")).err().unwrap().to_string();
        assert!(said.starts_with(&format!("the repository at {} cannot be opened: ", root.display())), "{said}");
        let owner = git2::Error::new(ErrorCode::Owner, git2::ErrorClass::Config, "not owned by current user");
        assert_eq!(
            not_opened(Path::new("/src/.git/"), &owner).to_string(),
            "the repository at /src cannot be opened: it belongs to another user\n  \
             hint: if you trust it: git config --global --add safe.directory /src"
        );
    }

    #[test]
    fn a_file_above_the_limit_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.yaml");
        // A terabyte of holes: to read it would end the test.
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read_file(&path, 1_000).unwrap(), None);
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), Some(b"12345".to_vec()));
        assert_eq!(read_file(&path, 4).unwrap(), None);
        assert!(read_file(&folder.path().join("gone"), 4).unwrap_err().to_string().ends_with("gone cannot be read"));
    }
}
