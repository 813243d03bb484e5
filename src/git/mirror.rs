//! A real repository, through a bare mirror on this machine.
//!
//! The mirror is a cache: everything in it can be fetched again, so one that was deleted or damaged is made
//! anew and costs one fetch. Calls that change it take turns; reads do not wait for them. libgit2 blocks: reads
//! run on the runtime's blocking threads, and what may wait for a network on a thread of its own, which a
//! runtime that shuts down does not wait for. A panic in either ends one call and not the daemon.
//!
//! The past of a remote branch is left out at first: a fresh mirror is as small as one checkout, however old the
//! repository is. Whether one commit follows another is usually known all the same, since whatever happens from then on is
//! here; where it is not, the rest of the past is fetched, once.
//!
//! What people may rely on:
//! * the mirror keeps the remote's branches under names of its own (`refs/serin/...`), so it needs no
//!   configuration, and a branch `a` that becomes `a/b` does not collide;
//! * a folder that is not empty and not a mirror of Serin is never touched;
//! * the file `<folder>.lock` beside it is held for as long as the mirror is open.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use git2::Oid;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::access::Access;
use super::address::{Address, Place};
use super::error::{self, Failure};
use super::folder::{self, Folder};
use super::housekeeping::Chores;
use super::kept::{full_name, keep, kept_branch, local_tip, one_component, remote_name};
use super::listing::{Endings, Listing, Seen};
use super::snapshot::{self, ReadFailure};
use super::transport::{self, Advertised, Depth, NetworkLimits, Stop};
use super::{
    CommitInfo, Publication, PublishOutcome, Repository, RepositoryError, Revision, Snapshot, commit, local, publish,
    watch,
};
use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// What a mirror is of, and where it lies. `Debug` leaves the URL out: it may hold a password.
#[derive(Clone)]
pub struct MirrorSettings {
    /// `https`, `http`, `ssh`, `git` or `file` URL, `user@host:path`, or a path. User name and password may be in it.
    pub url: String,
    /// What [`Repository::fetch`] follows.
    pub revision: Revision,
    /// The mirror's own folder; made if it is not there. Its parent must be writable too, for the lock.
    pub folder: PathBuf,
    /// How to get in. What it says wins over what is in the URL.
    pub access: Access,
}

impl fmt::Debug for MirrorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MirrorSettings");
        shown.field("revision", &self.revision).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A [`Repository`] that is a mirror of a real one. Needs a tokio runtime.
#[derive(Debug)]
pub struct Mirror {
    inner: Arc<Inner>,
}

impl Mirror {
    /// Takes the folder for itself. Touches no network: an unreachable remote is an error of the first fetch.
    ///
    /// Errors: an address of an unknown kind ([`RepositoryError::Unreachable`]); a folder that another mirror
    /// holds, that holds something else, or that cannot be written ([`RepositoryError::Mirror`]).
    pub fn open(settings: MirrorSettings) -> Result<Self, RepositoryError> {
        let MirrorSettings { url, revision, folder, access } = settings;
        let limits = transport::limit_network(NetworkLimits::default());
        let address = Address::parse(&url, access)?;
        let folder = Folder::take(&folder, &address)?;
        let inner = Inner {
            address,
            revision,
            folder,
            limits,
            turn: Arc::default(),
            incomplete: AtomicBool::new(false),
            is_tidying: Arc::default(),
            branches: Mutex::default(),
            seen: Seen::default(),
        };
        inner.open_or_make().map_err(|failure| inner.error(failure))?;
        // Nobody has been told anything yet that a new mirror would have to know.
        inner.incomplete.store(false, Ordering::Release);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The branches of the remote whose names begin with `folder`, a part that ends in a slash.
    ///
    /// # Errors
    /// If the remote does not answer.
    pub async fn branches(&self, folder: &str) -> Result<BTreeMap<BranchName, CommitSha>, RepositoryError> {
        let below = format!("refs/heads/{}/", folder.trim_end_matches('/'));
        let wanted = format!("{below}*");
        let refs = self.change(move |inner, stop| {
            inner.repairing(stop, |mirror| inner.advertised(mirror, &[&wanted], Depth::Since, stop))
        });
        // A server tells about all that it has.
        let found = refs.await?.into_iter().filter(|(name, _)| name.starts_with(&below));
        let branch = |(name, id): (String, Oid)| Some((BranchName::new(name.strip_prefix("refs/heads/")?), sha(id)));
        Ok(found.filter_map(branch).collect())
    }

    /// What a commit says of itself; `None`: there is no such commit. One of the past may have to be fetched first.
    ///
    /// # Errors
    /// If the mirror cannot be read, or the remote does not answer.
    pub async fn describe(&self, wanted: &CommitSha) -> Result<Option<CommitInfo>, RepositoryError> {
        let wanted = wanted.clone();
        let describe = move |mirror: &git2::Repository| Ok(commit::describe(mirror, &wanted));
        match self.read_deeper(describe, |found| !matches!(found, Ok(None))).await? {
            Ok(found) => Ok(found),
            Err(_) => Ok(None),
        }
    }

    /// Runs a call that changes the mirror, one at a time, within the total time limit. A caller that stops
    /// waiting does not stop the call: it ends in the background before the next one starts.
    async fn change<T, F>(&self, work: F) -> Result<T, RepositoryError>
    where
        T: Send + 'static,
        F: FnOnce(&Inner, &Stop) -> Result<T, Failure> + Send + 'static,
    {
        let stop = Stop::default();
        let (inner, told) = (self.inner.clone(), stop.clone());
        let call = async move {
            let turn = inner.turn.clone().lock_owned().await;
            on_a_thread(move || {
                let _turn = turn;
                work(&inner, &told).map_err(|failure| inner.error(failure))
            })
            .await
        };
        match tokio::time::timeout(self.inner.limits.total, call).await {
            Ok(Ok(result)) => result,
            Ok(Err(why)) => Err(self.broken(&why)),
            Err(_) => {
                stop.set();
                Err(RepositoryError::Unreachable {
                    address: self.address(),
                    why: format!("not done within {} s", self.inner.limits.total.as_secs()),
                })
            }
        }
    }

    /// Runs a read. Where the mirror turns out to be damaged, it is made anew once and the read repeated.
    async fn read_from<T, F>(&self, work: F) -> Result<Result<T, ReadFailure>, RepositoryError>
    where
        T: Send + 'static,
        F: Fn(&git2::Repository) -> Result<T, ReadFailure> + Clone + Send + 'static,
    {
        let (inner, first_work) = (self.inner.clone(), work.clone());
        let first = spawn_blocking(move || {
            let mirror = inner.folder.repository()?;
            match first_work(&mirror) {
                // A commit that a sound mirror does not know is the caller's affair.
                Err(ReadFailure::UnknownCommit) if !inner.is_whole(&mirror) => {
                    Err(ReadFailure::Damage("the mirror is not complete".to_owned()))
                }
                result => result,
            }
        });
        match first.await.map_err(|panic| self.broken(&panic.to_string()))? {
            Err(ReadFailure::Damage(_)) => self.change(move |inner, stop| inner.read_again(work, stop)).await,
            result => Ok(result),
        }
    }

    /// Runs a read, and where its answer may be another one with all of the past here, fetches that and repeats it.
    async fn read_deeper<T, F>(
        &self,
        work: F,
        is_certain: fn(&Result<T, ReadFailure>) -> bool,
    ) -> Result<Result<T, ReadFailure>, RepositoryError>
    where
        T: Send + 'static,
        F: Fn(&git2::Repository) -> Result<T, ReadFailure> + Clone + Send + 'static,
    {
        let found = self.read_from(work.clone()).await?;
        if is_certain(&found) || !self.inner.folder.is_cut_off() {
            return Ok(found);
        }
        self.change(move |inner, stop| {
            inner.repairing(stop, |mirror| inner.deepen(mirror, stop))?;
            inner.read_again(&work, stop)
        })
        .await
    }

    fn broken(&self, why: &str) -> RepositoryError {
        self.inner.error(Failure::Known(error::mirror_error(&self.inner.address, why)))
    }

    async fn list(&self, commit: &CommitSha, root: &TreePath, endings: Endings) -> Result<Snapshot, RepositoryError> {
        let (at, below, inner) = (commit.clone(), root.clone(), self.inner.clone());
        let list = move |mirror: &git2::Repository| inner.seen.list(mirror, &at, &below, endings);
        match self.read_deeper(list, |found| !matches!(found, Err(ReadFailure::UnknownCommit))).await? {
            Ok(Listing { files, not_followed }) => Ok(Snapshot { commit: commit.clone(), files, not_followed }),
            Err(ReadFailure::UnknownCommit) => Err(error::not_found(&self.inner.address, format!("commit {commit}"))),
            Err(ReadFailure::NoFolder) => {
                let folder = root.as_str().trim_matches('/');
                Err(error::not_found(&self.inner.address, format!("folder {folder}")))
            }
            Err(ReadFailure::TooLarge(why)) => Err(RepositoryError::TooLarge { address: self.address(), why }),
            Err(ReadFailure::Damage(why)) => Err(self.broken(&why)),
        }
    }
}

#[async_trait]
impl Repository for Mirror {
    fn address(&self) -> String {
        self.inner.address.display().to_owned()
    }

    async fn fetch(&self) -> Result<CommitSha, RepositoryError> {
        let fetch = self.change(|inner, stop| {
            inner.repairing(stop, |mirror| {
                let tip = inner.fetch_revision(mirror, stop)?;
                let only_written = inner.only_written();
                let Some(tidying) = Tidying::begin(&inner.is_tidying) else { return Ok((tip, None)) };
                // A mirror that cannot be tidied still works.
                let chores = Chores::look(mirror, &only_written).unwrap_or_default();
                Ok((tip, chores.map(|chores| (chores, tidying))))
            })
        });
        let (tip, chores) = fetch.await?;
        if let Some((chores, tidying)) = chores {
            tokio::spawn(tidy(self.inner.clone(), chores, tidying));
        }
        Ok(sha(tip))
    }

    async fn fetch_branch(&self, branch: &BranchName) -> Result<Option<CommitSha>, RepositoryError> {
        let branch = branch.clone();
        self.change(move |inner, stop| {
            inner.repairing(stop, |mirror| {
                let followed = inner.revision == Revision::Branch(branch.clone());
                match local_tip(mirror, &kept_branch(&branch)) {
                    Some(tip) if followed => Ok(Some(tip)),
                    _ => inner.fetch_branch(mirror, &branch, stop),
                }
            })
        })
        .await
        .map(|tip| tip.map(sha))
    }

    async fn snapshot(&self, commit: &CommitSha, root: &TreePath) -> Result<Snapshot, RepositoryError> {
        self.list(commit, root, None).await
    }

    async fn snapshot_of(
        &self,
        commit: &CommitSha,
        root: &TreePath,
        endings: &'static [&'static str],
    ) -> Result<Snapshot, RepositoryError> {
        self.list(commit, root, Some(endings)).await
    }

    async fn read(&self, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, RepositoryError> {
        let wanted: Arc<[BlobId]> = blobs.into();
        match self.read_from(move |mirror| snapshot::contents(mirror, &wanted, limit)).await? {
            Ok(contents) => Ok(contents),
            Err(ReadFailure::Damage(why)) => Err(self.broken(&why)),
            Err(ReadFailure::UnknownCommit | ReadFailure::NoFolder | ReadFailure::TooLarge(_)) => {
                Err(self.broken("a file is missing"))
            }
        }
    }

    async fn contains(&self, tip: &CommitSha, commit: &CommitSha) -> Result<bool, RepositoryError> {
        let (tip, commit) = (tip.clone(), commit.clone());
        let within = move |mirror: &git2::Repository| {
            let known = |sha: &CommitSha| snapshot::oid(sha).filter(|id| mirror.find_commit(*id).is_ok());
            let Some(tip) = known(&tip) else { return Err(ReadFailure::UnknownCommit) };
            let Some(commit) = known(&commit) else { return Ok(false) };
            Ok(tip == commit || mirror.graph_descendant_of(tip, commit)?)
        };
        let found = self.read_deeper(within, |found| !matches!(found, Ok(false))).await?;
        match found {
            Ok(contained) => Ok(contained),
            Err(ReadFailure::UnknownCommit | ReadFailure::NoFolder | ReadFailure::TooLarge(_)) => Ok(false),
            Err(ReadFailure::Damage(why)) => Err(self.broken(&why)),
        }
    }

    async fn publish(&self, publication: &Publication) -> Result<PublishOutcome, RepositoryError> {
        let publication = publication.clone();
        self.change(move |inner, stop| inner.repairing(stop, |mirror| inner.publish(mirror, &publication, stop))).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        match self.inner.address.place() {
            Place::Local(path) => watch::changes(path),
            Place::Git(_) | Place::Http | Place::Ssh(_) => stream::pending().boxed(),
        }
    }
}

#[derive(Debug)]
struct Inner {
    address: Address,
    revision: Revision,
    folder: Folder,
    limits: NetworkLimits,
    /// Held by whoever changes the mirror.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The mirror was made anew and lacks what callers have been told about.
    incomplete: AtomicBool,
    /// Its objects are being merged into one pack.
    is_tidying: Arc<AtomicBool>,
    /// Branches beside the followed revision that somebody asked for: a new mirror needs them too.
    branches: Mutex<BTreeSet<BranchName>>,
    /// What was listed last.
    seen: Seen,
}

impl Inner {
    /// The error that callers see.
    fn error(&self, failure: Failure) -> RepositoryError {
        match failure.into_error(&self.address) {
            RepositoryError::Mirror { address, why } => RepositoryError::Mirror { address, why: self.folder.name(why) },
            RepositoryError::Commit { address, why } => RepositoryError::Commit { address, why: self.folder.name(why) },
            error => error,
        }
    }

    /// Opens the mirror, or makes an empty one where there is none or what is there is damaged.
    fn open_or_make(&self) -> Result<git2::Repository, Failure> {
        match self.folder.open(&self.address)? {
            Some(mirror) => Ok(mirror),
            None => self.make(),
        }
    }

    fn make(&self) -> Result<git2::Repository, Failure> {
        self.incomplete.store(true, Ordering::Release);
        self.folder.make(&self.address)
    }

    /// Opens the mirror with all that callers have been told about in it.
    fn open_whole(&self, stop: &Stop) -> Result<git2::Repository, Failure> {
        let mirror = self.open_or_make()?;
        if self.incomplete.load(Ordering::Acquire) {
            self.refill(&mirror, stop)?;
        }
        Ok(mirror)
    }

    fn make_whole(&self, stop: &Stop) -> Result<git2::Repository, Failure> {
        let mirror = self.make()?;
        self.refill(&mirror, stop)?;
        Ok(mirror)
    }

    /// Fetches what was fetched before the mirror was lost.
    fn refill(&self, mirror: &git2::Repository, stop: &Stop) -> Result<(), Failure> {
        match self.fetch_revision(mirror, stop) {
            // A followed branch that is gone from the remote is no reason not to read other things.
            Ok(_) | Err(Failure::Known(RepositoryError::NotFound { .. })) => {}
            Err(failure) => return Err(failure),
        }
        let branches = self.branches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for branch in branches {
            self.fetch_branch(mirror, &branch, stop)?;
        }
        self.incomplete.store(false, Ordering::Release);
        Ok(())
    }

    fn is_whole(&self, mirror: &git2::Repository) -> bool {
        !self.incomplete.load(Ordering::Acquire) && folder::is_sound(mirror)
    }

    /// Runs `work` on the mirror; where it meets damage, once more on a new one.
    fn repairing<T>(&self, stop: &Stop, work: impl Fn(&git2::Repository) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.open_whole(stop).and_then(|mirror| work(&mirror)) {
            Err(failure) if failure.is_damage() => work(&self.make_whole(stop)?),
            result => result,
        }
    }

    /// Repeats a read that met damage, alone with the mirror; on a new one if it meets damage again.
    fn read_again<T>(
        &self,
        work: impl Fn(&git2::Repository) -> Result<T, ReadFailure>,
        stop: &Stop,
    ) -> Result<Result<T, ReadFailure>, Failure> {
        match work(&self.open_whole(stop)?) {
            Err(ReadFailure::Damage(_)) => Ok(work(&self.make_whole(stop)?)),
            result => Ok(result),
        }
    }

    fn fetch_revision(&self, mirror: &git2::Repository, stop: &Stop) -> Result<Oid, Failure> {
        let missing = |what: String| Failure::Known(error::not_found(&self.address, what));
        match &self.revision {
            Revision::Branch(branch) => {
                self.fetch_branch(mirror, branch, stop)?.ok_or_else(|| missing(format!("branch {branch}")))
            }
            Revision::Tag(tag) => {
                let name = format!("refs/tags/{tag}");
                let kept = format!("refs/serin/tags/{}", one_component(tag));
                let refs = self.advertised(mirror, &[&name], self.depth_for(mirror, &kept), stop)?;
                let found = refs.get(&format!("{name}^{{}}")).or_else(|| refs.get(&name)).copied();
                let commit = found.filter(|id| mirror.find_commit(*id).is_ok());
                let commit = commit.ok_or_else(|| missing(format!("tag {tag}")))?;
                keep(mirror, &kept, Some(commit))?;
                Ok(commit)
            }
            Revision::Commit(sha) => {
                let gone = || missing(format!("commit {sha}"));
                let id = snapshot::oid(sha).ok_or_else(gone)?;
                let known = || mirror.find_commit(id).is_ok();
                if !known() {
                    self.advertised(mirror, &["refs/heads/*", "refs/tags/*"], Depth::Since, stop)?;
                }
                if !known() {
                    // Some servers give a commit that no branch reaches; most say no, which is an answer.
                    let asked = self.advertised(mirror, &[&id.to_string()], Depth::Since, stop);
                    if let Err(failure) = asked
                        && let error @ RepositoryError::Unauthorized { .. } = failure.into_error(&self.address)
                    {
                        return Err(Failure::Known(error));
                    }
                }
                if !known() {
                    return Err(gone());
                }
                keep(mirror, &format!("refs/serin/commits/{sha}"), Some(id))?;
                Ok(id)
            }
        }
    }

    /// The tip of a branch of the remote, with its objects; the mirror's own ref follows.
    fn fetch_branch(
        &self,
        mirror: &git2::Repository,
        branch: &BranchName,
        stop: &Stop,
    ) -> Result<Option<Oid>, Failure> {
        self.remember(branch);
        let (name, kept) = (full_name(branch), kept_branch(branch));
        let tip = self.advertised(mirror, &[&name], self.depth_for(mirror, &kept), stop)?.get(&name).copied();
        if let Some(tip) = tip {
            mirror.find_commit(tip).map_err(Failure::Mirror)?;
        }
        keep(mirror, &kept, tip)?;
        Ok(tip)
    }

    /// Fetches the past that was left out so far, once: from then on nothing is missing.
    fn deepen(&self, mirror: &git2::Repository, stop: &Stop) -> Result<(), Failure> {
        let kept = mirror.references_glob("refs/serin/*").map_err(Failure::Mirror)?;
        let names: Vec<String> = kept.flatten().filter_map(|kept| remote_name(kept.name().ok()?)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.advertised(mirror, &names, Depth::Whole, stop).map(|_| ())
    }

    fn publish(
        &self,
        mirror: &git2::Repository,
        publication: &Publication,
        stop: &Stop,
    ) -> Result<PublishOutcome, Failure> {
        let Publication { branch, parent, commits } = publication;
        let parent = match parent {
            None => None,
            Some(sha) => {
                let known = snapshot::oid(sha).filter(|id| mirror.find_commit(*id).is_ok());
                if known.is_none() {
                    // A new mirror, or a commit that was never fetched.
                    let found = self.fetch_branch(mirror, branch, stop)?;
                    if found.map(|id| id.to_string()).as_deref() != Some(sha.as_str()) {
                        return Ok(PublishOutcome::RemoteMoved { found: found.map(self::sha) });
                    }
                }
                snapshot::oid(sha)
            }
        };
        let landing = publish::publish(mirror, &self.address, &full_name(branch), parent, commits, stop)?;
        if let publish::Landing::Published(ids) = &landing
            && let Some(tip) = ids.last()
        {
            self.remember(branch);
            // The commits are on the remote: a mirror that cannot note it must not turn that into an error.
            // The next fetch brings the note.
            let _noted = keep(mirror, &kept_branch(branch), Some(*tip));
        }
        Ok(landing.into_outcome())
    }

    fn advertised(
        &self,
        mirror: &git2::Repository,
        refs: &[&str],
        depth: Depth,
        stop: &Stop,
    ) -> Result<Advertised, Failure> {
        match self.address.place() {
            Place::Local(path) => local::fetch(mirror, path, refs, stop),
            _ => transport::fetch(mirror, &self.address, refs, depth, stop),
        }
    }

    /// What is fetched for the first time comes without its past, where the server can do that; from then on, with all
    /// that has happened since, so that what follows what is known.
    fn depth_for(&self, mirror: &git2::Repository, kept: &str) -> Depth {
        if local_tip(mirror, kept).is_none() && self.folder.may_be_cut_off() { Depth::Tip } else { Depth::Since }
    }

    /// Where the branches are kept that are not followed: Serin writes them and reads what it wrote last.
    fn only_written(&self) -> BTreeSet<String> {
        if matches!(self.address.place(), Place::Local(_)) || !self.folder.knows_ends() {
            return BTreeSet::new();
        }
        let branches = self.branches.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = |branch: &&BranchName| self.revision != Revision::Branch((*branch).clone());
        branches.iter().filter(is_other).map(kept_branch).collect()
    }

    fn remember(&self, branch: &BranchName) {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner).insert(branch.clone());
    }
}

/// The one tidying of a mirror at a time; it ends when this is dropped.
struct Tidying(Arc<AtomicBool>);

impl Tidying {
    fn begin(is_under_way: &Arc<AtomicBool>) -> Option<Self> {
        let was_under_way = is_under_way.swap(true, Ordering::AcqRel);
        (!was_under_way).then(|| Self(Arc::clone(is_under_way)))
    }
}

impl Drop for Tidying {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs blocking work on a new thread. The error says why there is no result: no thread, or a panic.
/// Makes one pack of many. Nobody waits for it.
async fn tidy(inner: Arc<Inner>, chores: Chores, tidying: Tidying) {
    let folder = inner.clone();
    let written = on_a_thread(move || {
        let mirror = folder.folder.repository().ok()?;
        Some((chores.write(&mirror).ok()?, chores))
    });
    if let Ok(Some((new, chores))) = written.await {
        let turn = inner.turn.clone().lock_owned().await;
        let folder = inner.clone();
        let _finished = on_a_thread(move || {
            let _turn = turn;
            chores.finish(&folder.folder.repository().ok()?, &new).ok()
        })
        .await;
    }
    drop(tidying);
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (sender, result) = oneshot::channel();
    let run = move || {
        // Nobody may be waiting any more.
        let _sent = sender.send(work());
    };
    let started = thread::Builder::new().name("serin-git".to_owned()).spawn(run);
    started.map_err(|error| format!("no thread: {error}"))?;
    // A panic drops the sender; what it says went to the log by the panic hook.
    result.await.map_err(|_| "the call panicked".to_owned())
}

fn sha(id: Oid) -> CommitSha {
    CommitSha::new(id.to_string())
}
