//! What lies on this machine already: a clone that somebody works in, or a plain folder of files.
//!
//! For commands of a person or a CI job, which look once and end: nothing is fetched, nothing is copied, and nothing can
//! be written. Files of a clone's working tree are taken as a commit of all of them would take them: what is ignored is
//! left out, links and submodules are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use git2::{ObjectType, Oid};
use imbl::OrdMap;

use super::listing::{Listing, Seen};
use super::snapshot::{self, ReadFailure};
use super::working_tree::{self, WorkingTree, WorkingTreeError};
use super::{CommitInfo, Publication, PublishOutcome, Repository, RepositoryError, Snapshot, commit};
use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// A clone or a folder, seen as its files are now or at one commit.
pub struct Checkout {
    root: PathBuf,
    /// `None`: a folder that is in no repository.
    git: Option<Mutex<git2::Repository>>,
    /// `None`: the files as they lie there.
    commit: Option<CommitSha>,
    /// Where the files are that a listing of the working tree has shown.
    files: Mutex<BTreeMap<BlobId, PathBuf>>,
}

impl Checkout {
    /// The clone that `path` lies in, or else the folder `path` itself, as its files are now.
    ///
    /// # Errors
    /// [`RepositoryError::NotFound`] where there is no such folder, [`RepositoryError::Unreachable`] where it or its
    /// repository cannot be read.
    pub fn find(path: &Path) -> Result<Self, RepositoryError> {
        let address = || path.display().to_string();
        let folder = path.canonicalize().ok().filter(|folder| folder.is_dir());
        let Some(folder) = folder else {
            return Err(RepositoryError::NotFound { what: "a folder".to_owned(), address: address() });
        };
        let found = working_tree::discover(&folder)
            .map_err(|error| RepositoryError::Unreachable { address: address(), why: error.to_string() })?;
        let (root, git) = match found {
            Some(git) => {
                let root = git.workdir().unwrap_or(git.path());
                (root.canonicalize().unwrap_or_else(|_| root.to_path_buf()), Some(Mutex::new(git)))
            }
            None => (folder, None),
        };
        Ok(Self { root, git, commit: None, files: Mutex::default() })
    }

    /// The same at a revision, as `git rev-parse` understands it: a branch, a tag, a commit in full or abbreviated. A
    /// branch that only the remote `origin` has is found as well.
    ///
    /// # Errors
    /// [`RepositoryError::NotFound`] where there is no such commit.
    pub fn at(mut self, revision: &str) -> Result<Self, RepositoryError> {
        let found = self.git.as_ref().and_then(|git| {
            let git = git.lock().unwrap_or_else(PoisonError::into_inner);
            resolve(&git, revision).or_else(|| resolve(&git, &format!("refs/remotes/origin/{revision}")))
        });
        self.commit = Some(found.ok_or_else(|| self.not_found(format!("revision {revision}")))?);
        Ok(self)
    }

    /// The top folder; absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there are files to look at, and not only commits.
    pub fn has_working_tree(&self) -> bool {
        self.git.as_ref().is_none_or(|git| !git.lock().unwrap_or_else(PoisonError::into_inner).is_bare())
    }

    /// The commit that is looked at, or that the working tree is based on; `None`: there is none.
    pub fn head(&self) -> Option<CommitSha> {
        let head = || resolve(&self.git.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner), "HEAD");
        self.commit.clone().or_else(head)
    }

    /// The branches whose names begin with `prefix`, as the last fetch from their remotes has left them, or else as they
    /// are here.
    ///
    /// # Errors
    /// [`RepositoryError::Unreachable`] where the references cannot be read.
    pub fn branches(&self, prefix: &str) -> Result<BTreeMap<BranchName, CommitSha>, RepositoryError> {
        let Some(git) = &self.git else { return Ok(BTreeMap::new()) };
        let git = git.lock().unwrap_or_else(PoisonError::into_inner);
        branches(&git, prefix).map_err(|error| self.unreadable(error.message()))
    }

    /// What a commit says of itself; `None`: it is not here.
    pub fn describe(&self, commit: &CommitSha) -> Option<CommitInfo> {
        commit::describe(&self.git.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner), commit)
    }

    fn unreadable(&self, why: impl ToString) -> RepositoryError {
        RepositoryError::Unreachable { address: self.address(), why: why.to_string() }
    }

    fn not_found(&self, what: String) -> RepositoryError {
        RepositoryError::NotFound { what, address: self.address() }
    }

    /// Runs a read at a commit.
    fn read_git<T>(
        &self,
        what: impl FnOnce() -> String,
        work: impl FnOnce(&git2::Repository) -> Result<T, ReadFailure>,
    ) -> Result<T, RepositoryError> {
        let Some(git) = &self.git else { return Err(self.not_found(what())) };
        work(&git.lock().unwrap_or_else(PoisonError::into_inner)).map_err(|failure| match failure {
            ReadFailure::UnknownCommit | ReadFailure::NoFolder => self.not_found(what()),
            ReadFailure::TooLarge(why) => RepositoryError::TooLarge { address: self.address(), why },
            ReadFailure::Damage(why) => self.unreadable(why),
        })
    }

    fn list_files(&self, folder: &TreePath) -> Result<Listing, RepositoryError> {
        let folder = folder.as_str().trim_matches('/');
        if !self.root.join(folder).is_dir() {
            return Err(self.not_found(format!("folder {folder}")));
        }
        let mut found = working_tree::Listing::default();
        let tree = WorkingTree::around(&self.root).map_err(|error| self.unreadable(error))?;
        tree.list_as_committed(&self.root.join(folder), &mut found).map_err(|error| match error {
            WorkingTreeError::Read { path, source } => self.unreadable(format!("{path}: {source}")),
            other => self.unreadable(other),
        })?;
        let mut listed = OrdMap::new();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, file) in found.files {
            let id = Oid::hash_file(ObjectType::Blob, &file)
                .map_err(|error| self.unreadable(format!("{path}: {}", error.message())))?;
            let id = BlobId::new(id.to_string());
            files.insert(id.clone(), file);
            listed.insert(path, id);
        }
        Ok(Listing { files: listed, not_followed: found.not_followed })
    }

    fn read_file(&self, blob: &BlobId, limit: u64) -> Result<Option<Arc<[u8]>>, RepositoryError> {
        let file = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(blob).cloned();
        let file = file.ok_or_else(|| self.not_found(format!("file {blob}")))?;
        let read = || -> io::Result<Option<Arc<[u8]>>> {
            if fs::metadata(&file)?.len() > limit {
                return Ok(None);
            }
            Ok(Some(fs::read(&file)?.into()))
        };
        read().map_err(|error| self.unreadable(format!("{}: {error}", file.display())))
    }
}

/// Reads are short and are made where they are asked for: a command has nothing else to do meanwhile.
#[async_trait]
impl Repository for Checkout {
    fn address(&self) -> String {
        self.root.display().to_string()
    }

    /// The commit that is looked at. For the working tree, the one that it is based on, or zeros where there is none.
    async fn fetch(&self) -> Result<CommitSha, RepositoryError> {
        Ok(self.head().unwrap_or_else(|| CommitSha::new("0".repeat(40))))
    }

    async fn fetch_branch(&self, branch: &BranchName) -> Result<Option<CommitSha>, RepositoryError> {
        Ok(self.branches(branch.as_str())?.remove(branch))
    }

    /// At the commit that [`Self::at`] has chosen, or of the working tree, whatever `commit` says then.
    async fn snapshot(&self, commit: &CommitSha, root: &TreePath) -> Result<Snapshot, RepositoryError> {
        let Listing { files, not_followed } = if self.commit.is_none() && self.is_head(commit) {
            self.list_files(root)?
        } else {
            let what = || format!("folder {} at {}", root.as_str(), commit.short());
            self.read_git(what, |git| Seen::default().list(git, commit, root, None))?
        };
        Ok(Snapshot { commit: commit.clone(), files, not_followed })
    }

    async fn read(&self, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, RepositoryError> {
        let is_listed = |blob| self.files.lock().unwrap_or_else(PoisonError::into_inner).contains_key(blob);
        if blobs.iter().all(is_listed) {
            return blobs.iter().map(|blob| self.read_file(blob, limit)).collect();
        }
        self.read_git(|| "a file".to_owned(), |git| snapshot::contents(git, blobs, limit))
    }

    async fn contains(&self, tip: &CommitSha, commit: &CommitSha) -> Result<bool, RepositoryError> {
        let within = |git: &git2::Repository| {
            let (Some(tip), Some(commit)) = (snapshot::oid(tip), snapshot::oid(commit)) else { return Ok(false) };
            Ok(tip == commit || git.graph_descendant_of(tip, commit).unwrap_or(false))
        };
        if self.git.is_none() { Ok(false) } else { self.read_git(String::new, within) }
    }

    async fn publish(&self, _: &Publication) -> Result<PublishOutcome, RepositoryError> {
        Ok(PublishOutcome::Refused { why: "a clone that somebody works in is only read".to_owned() })
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}

impl Checkout {
    fn is_head(&self, commit: &CommitSha) -> bool {
        self.head().is_none_or(|head| head == *commit)
    }
}

fn resolve(git: &git2::Repository, revision: &str) -> Option<CommitSha> {
    let commit = git.revparse_single(revision).ok()?.peel_to_commit().ok()?;
    Some(CommitSha::new(commit.id().to_string()))
}

fn branches(git: &git2::Repository, prefix: &str) -> Result<BTreeMap<BranchName, CommitSha>, git2::Error> {
    let mut found = BTreeMap::new();
    // Later ones win: what a remote had at the last fetch is newer than a branch that somebody made here of it.
    for folder in ["refs/heads/", "refs/remotes/"] {
        for reference in git.references_glob(&format!("{folder}*"))? {
            let reference = reference?;
            let (Ok(name), Some(tip)) = (reference.name(), reference.resolve().ok().and_then(|found| found.target()))
            else {
                continue;
            };
            let name = name.strip_prefix(folder).unwrap_or(name);
            let name = match folder {
                "refs/heads/" => Some(name),
                // Without the name of the remote.
                _ => name.split_once('/').map(|(_, name)| name),
            };
            if let Some(name) = name.filter(|name| name.starts_with(prefix)) {
                found.insert(BranchName::new(name), CommitSha::new(tip.to_string()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn commit_all(git: &git2::Repository, force: &[&str]) -> CommitSha {
        let mut index = git.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        force.iter().for_each(|path| index.add_path(Path::new(path)).unwrap());
        index.write().unwrap();
        let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::new("Ann", "ann@example.com", &git2::Time::new(60, 0)).unwrap();
        let parent = git.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        CommitSha::new(git.commit(Some("HEAD"), &who, &who, "all of it\n\nbody", &tree, &parents).unwrap().to_string())
    }

    async fn files(checkout: &Checkout, folder: &str) -> Result<BTreeMap<String, String>, RepositoryError> {
        let commit = checkout.fetch().await?;
        let snapshot = checkout.snapshot(&commit, &TreePath::new(folder)).await?;
        let blobs: Vec<BlobId> = snapshot.files.values().cloned().collect();
        let texts = checkout.read(&blobs, 10).await?;
        let text = |text: Option<Arc<[u8]>>| text.map_or("-".to_owned(), |t| String::from_utf8_lossy(&t).into_owned());
        Ok(snapshot.files.keys().map(|path| path.as_str().to_owned()).zip(texts.into_iter().map(text)).collect())
    }

    fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[tokio::test]
    async fn the_working_tree_is_what_a_commit_of_everything_would_hold() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let git = git2::Repository::init(root).unwrap();
        put(root, ".gitignore", "out/\n*.tmp");
        put(root, "a/b.yaml", "old");
        put(root, "a/gone.yaml", "old");
        put(root, "out/kept.yaml", "tracked");
        commit_all(&git, &["out/kept.yaml"]);
        put(root, "a/b.yaml", "new");
        put(root, "a/c.yaml", "a text of more than ten bytes");
        put(root, "a/d.tmp", "x");
        put(root, "out/built.yaml", "x");
        fs::remove_file(root.join("a/gone.yaml")).unwrap();
        std::os::unix::fs::symlink("b.yaml", root.join("a/link.yaml")).unwrap();
        git2::Repository::init(root.join("a/module")).unwrap();
        put(root, "a/module/x.yaml", "x");
        let checkout = Checkout::find(&root.join("a")).unwrap();
        assert_eq!(checkout.root(), root.canonicalize().unwrap());
        assert_eq!(files(&checkout, "a").await.unwrap(), expected(&[("a/b.yaml", "new"), ("a/c.yaml", "-")]));
        assert!(files(&checkout, "").await.unwrap().contains_key("out/kept.yaml"));
        assert!(!files(&checkout, "").await.unwrap().contains_key("out/built.yaml"));
        let missing = files(&checkout, "nowhere").await.unwrap_err();
        assert!(matches!(missing, RepositoryError::NotFound { .. }), "{missing}");
    }

    #[tokio::test]
    async fn a_revision_is_found_by_branch_abbreviation_and_remote_branch() {
        let dir = tempfile::tempdir().unwrap();
        let git = git2::Repository::init(dir.path()).unwrap();
        put(dir.path(), "a.yaml", "one");
        let first = commit_all(&git, &[]);
        put(dir.path(), "a.yaml", "two");
        let second = commit_all(&git, &[]);
        let id = Oid::from_str(first.as_str()).unwrap();
        git.reference("refs/remotes/origin/feature", id, true, "").unwrap();
        git.reference("refs/remotes/origin/serin/status/prod", id, true, "").unwrap();
        git.reference("refs/heads/serin/status/prod", Oid::from_str(second.as_str()).unwrap(), true, "").unwrap();
        put(dir.path(), "a.yaml", "three");
        let at = |revision: &str| Checkout::find(dir.path()).unwrap().at(revision);
        for revision in [first.as_str(), first.short(), "HEAD~1", "feature"] {
            assert_eq!(files(&at(revision).unwrap(), "").await.unwrap(), expected(&[("a.yaml", "one")]), "{revision}");
        }
        assert_eq!(files(&at("HEAD").unwrap(), "").await.unwrap(), expected(&[("a.yaml", "two")]));
        let unknown = at("nothing").err().unwrap();
        assert!(unknown.to_string().starts_with("revision nothing is not there in "), "{unknown}");

        let checkout = Checkout::find(dir.path()).unwrap();
        // What was fetched last counts, and not what somebody made of it here.
        let status = BranchName::new("serin/status/prod");
        assert_eq!(checkout.branches("serin/status/").unwrap(), BTreeMap::from([(status.clone(), first.clone())]));
        assert_eq!(checkout.fetch_branch(&status).await.unwrap(), Some(first.clone()));
        assert_eq!(checkout.head(), Some(second.clone()));
        assert!(checkout.contains(&second, &first).await.unwrap());
        assert!(!checkout.contains(&first, &second).await.unwrap());
        let info = checkout.describe(&first).unwrap();
        assert_eq!((info.subject.as_str(), info.author.as_str()), ("all of it", "Ann"));
        assert_eq!(info.at.as_second(), 60);
        assert_eq!(checkout.describe(&CommitSha::new("0".repeat(40))), None);
    }

    #[tokio::test]
    async fn a_folder_without_git_is_taken_as_it_is_and_nothing_is_ever_written() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "a/b.yaml", "x");
        let checkout = Checkout::find(&dir.path().join("a")).unwrap();
        assert!(checkout.has_working_tree());
        assert_eq!(files(&checkout, "").await.unwrap(), expected(&[("b.yaml", "x")]));
        assert!(checkout.branches("").unwrap().is_empty());
        assert!(Checkout::find(dir.path()).unwrap().at("main").is_err());
        let publication = Publication { branch: BranchName::new("main"), parent: None, commits: Vec::new() };
        let outcome = checkout.publish(&publication).await.unwrap();
        assert!(matches!(outcome, PublishOutcome::Refused { .. }), "{outcome:?}");
        let missing = Checkout::find(&dir.path().join("c")).err().unwrap();
        assert!(missing.to_string().starts_with("a folder is not there in "), "{missing}");
    }
}
