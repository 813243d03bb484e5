//! The [`Repository`] side of the simulation: what a mirror of the simulated remote answers, and the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use imbl::OrdMap;

use super::history::{History, LoggedCommit};
use super::person::Person;
use crate::git::{Author, Publication, PublishOutcome, Repository, RepositoryError, Revision, Snapshot};
use crate::ids::{BlobId, BranchName, CommitSha, TreePath};

/// A call that a [`Fate`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Repository::fetch`].
    Fetch,
    /// [`Repository::fetch_branch`] of this branch.
    FetchBranch(BranchName),
    /// [`Repository::snapshot`] of this commit.
    Snapshot(CommitSha),
    /// [`Repository::read`].
    Read,
    /// [`Repository::contains`].
    Contains,
    /// [`Repository::publish`] to this branch.
    Publish(BranchName),
}

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What should.
    Proceed,
    /// It fails and nothing has happened.
    FailBefore(RepositoryError),
    /// It fails although all of it has happened: a push arrived and its answer was lost.
    FailAfter(RepositoryError),
    /// A rival pushes a commit first: to the branch of a publication or of a fetched branch, else to the
    /// followed one. A publication then loses the race.
    Moved,
    /// A fetch is answered by a server that lags this many commits behind, at most back to the first commit.
    /// Other calls proceed.
    Stale(usize),
}

type Fates = Box<dyn FnMut(&Call) -> Fate + Send>;

/// A repository inside this process, seen through one revision. Clones are the same view.
#[derive(Clone, Debug)]
pub struct SimulatedRepository {
    remote: Remote,
    view: Arc<View>,
}

impl SimulatedRepository {
    /// An empty repository, of which this view follows `revision`.
    pub fn new(address: impl Into<String>, revision: Revision) -> Self {
        let remote = Remote { address: Arc::from(address.into()), shared: Arc::default() };
        Self { remote, view: Arc::new(View::new(revision)) }
    }

    /// Another mirror of the same remote: it knows nothing until it fetches.
    pub fn following(&self, revision: Revision) -> Self {
        Self { remote: self.remote.clone(), view: Arc::new(View::new(revision)) }
    }

    /// Somebody who pushes to the remote.
    pub fn person(&self, name: &str) -> Person {
        let author = Author { name: name.to_owned(), email: format!("{}@example.com", name.replace(' ', ".")) };
        Person { remote: self.remote.clone(), author }
    }

    /// Decides from now on what happens to each call of this view. The callback may push as a person.
    pub fn decide_fates(&self, fates: impl FnMut(&Call) -> Fate + Send + 'static) {
        *locked(&self.view.fates) = Some(Box::new(fates));
    }

    /// Every call proceeds again.
    pub fn clear_fates(&self) {
        *locked(&self.view.fates) = None;
    }

    /// `Some`: the remote refuses every publication in these words, until `None`.
    pub fn refuse_pushes(&self, why: Option<&str>) {
        self.remote.state().refusal = why.map(str::to_owned);
    }

    /// The remote refuses every publication that changes this file, as a rule of a git host would.
    pub fn refuse_changes_of(&self, path: &str) {
        self.remote.state().guarded.insert(TreePath::new(path));
    }

    /// No file is guarded any more.
    pub fn allow_all_changes(&self) {
        self.remote.state().guarded.clear();
    }

    /// Takes the remote off the network, or puts it back. What was fetched can still be read.
    pub fn set_reachable(&self, reachable: bool) {
        self.remote.state().down = !reachable;
    }

    /// Where a branch of the remote is.
    pub fn tip(&self, branch: &BranchName) -> Option<CommitSha> {
        self.remote.state().history.tip(branch)
    }

    /// The commits of a branch, the newest first; empty if there is no such branch.
    pub fn log(&self, branch: &BranchName) -> Vec<LoggedCommit> {
        let state = self.remote.state();
        let Some(tip) = state.history.tip(branch) else { return Vec::new() };
        state.history.log(&tip).map(|commit| commit.logged.clone()).collect()
    }

    /// All files of a commit of the remote with their contents; empty if there is no such commit.
    pub fn files(&self, commit: &CommitSha) -> BTreeMap<TreePath, Arc<[u8]>> {
        let state = self.remote.state();
        let Some(commit) = state.history.commit(commit) else { return BTreeMap::new() };
        let contents = |blob: &BlobId| state.history.blob(blob).unwrap_or_default();
        commit.tree.iter().map(|(path, blob)| (path.clone(), contents(blob))).collect()
    }

    /// Runs a call under its fate.
    fn call<T>(
        &self,
        call: &Call,
        work: impl FnOnce(&Fate) -> Result<T, RepositoryError>,
    ) -> Result<T, RepositoryError> {
        let fate = self.fate(call);
        match &fate {
            Fate::FailBefore(error) => return Err(error.clone()),
            Fate::Moved => self.rival_pushes(call),
            Fate::Proceed | Fate::FailAfter(_) | Fate::Stale(_) => {}
        }
        let result = work(&fate);
        match fate {
            Fate::FailAfter(error) => Err(error),
            _ => result,
        }
    }

    fn fate(&self, call: &Call) -> Fate {
        // Taken out while it runs: it may use this repository.
        let fates = locked(&self.view.fates).take();
        let Some(mut fates) = fates else { return Fate::Proceed };
        let fate = fates(call);
        locked(&self.view.fates).get_or_insert(fates);
        fate
    }

    fn rival_pushes(&self, call: &Call) {
        // A tag or a commit has no rivals.
        let ((Call::Publish(branch) | Call::FetchBranch(branch), _) | (_, Revision::Branch(branch))) =
            (call, &self.view.revision)
        else {
            return;
        };
        let rival = self.person("rival");
        let count = self.log(branch).len();
        rival.write(branch, &format!("rival/{count}"), "first\n");
    }

    fn reachable(&self) -> Result<MutexGuard<'_, State>, RepositoryError> {
        let state = self.remote.state();
        if state.down {
            return Err(RepositoryError::Unreachable { address: self.address(), why: "connection refused".to_owned() });
        }
        Ok(state)
    }

    fn not_found(&self, what: String) -> RepositoryError {
        RepositoryError::NotFound { what, address: self.address() }
    }

    fn fetch_now(&self, fate: &Fate) -> Result<CommitSha, RepositoryError> {
        let state = self.reachable_unless_here()?;
        let (found, what) = match &self.view.revision {
            Revision::Branch(branch) => (state.history.tip(branch), format!("branch {branch}")),
            Revision::Tag(tag) => (state.history.tag(tag), format!("tag {tag}")),
            Revision::Commit(sha) => (state.history.commit(sha).map(|_| sha.clone()), format!("commit {sha}")),
        };
        let mut seen = locked(&self.view.seen);
        let Some(found) = found else {
            if let Revision::Branch(branch) = &self.view.revision {
                seen.tips.remove(branch);
            }
            return Err(self.not_found(what));
        };
        let found = lagging(&state.history, found, fate);
        state.history.learn(&found, &mut seen.known);
        if let Revision::Branch(branch) = &self.view.revision {
            seen.tips.insert(branch.clone(), found.clone());
        }
        Ok(found)
    }

    /// A commit that is here already needs no network.
    fn reachable_unless_here(&self) -> Result<MutexGuard<'_, State>, RepositoryError> {
        if let Revision::Commit(sha) = &self.view.revision
            && locked(&self.view.seen).known.contains(sha)
        {
            return Ok(self.remote.state());
        }
        self.reachable()
    }

    fn fetch_branch_now(&self, branch: &BranchName, fate: &Fate) -> Result<Option<CommitSha>, RepositoryError> {
        let followed = matches!(&self.view.revision, Revision::Branch(followed) if followed == branch);
        if let (true, Some(tip)) = (followed, locked(&self.view.seen).tips.get(branch)) {
            return Ok(Some(tip.clone()));
        }
        let state = self.reachable()?;
        let mut seen = locked(&self.view.seen);
        let Some(found) = state.history.tip(branch) else {
            seen.tips.remove(branch);
            return Ok(None);
        };
        let found = lagging(&state.history, found, fate);
        state.history.learn(&found, &mut seen.known);
        seen.tips.insert(branch.clone(), found.clone());
        Ok(Some(found))
    }

    fn snapshot_now(&self, commit: &CommitSha, root: &TreePath) -> Result<Snapshot, RepositoryError> {
        let state = self.remote.state();
        let known = locked(&self.view.seen).known.contains(commit);
        let found = state.history.commit(commit).filter(|_| known);
        let found = found.ok_or_else(|| self.not_found(format!("commit {commit}")))?;
        let folder = root.as_str().trim_matches('/');
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = found.tree.range(TreePath::new(prefix.clone())..);
        let files: OrdMap<TreePath, BlobId> = below
            .take_while(|(path, _)| path.as_str().starts_with(&prefix))
            .map(|(path, blob)| (path.clone(), blob.clone()))
            .collect();
        if files.is_empty() && !folder.is_empty() {
            return Err(self.not_found(format!("folder {folder}")));
        }
        Ok(Snapshot { commit: commit.clone(), files, not_followed: BTreeMap::new() })
    }

    fn read_now(&self, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, RepositoryError> {
        let state = self.remote.state();
        blobs
            .iter()
            .map(|id| match state.history.blob(id) {
                Some(contents) => Ok(u64::try_from(contents.len()).is_ok_and(|size| size <= limit).then_some(contents)),
                None => Err(RepositoryError::Mirror { address: self.address(), why: format!("there is no file {id}") }),
            })
            .collect()
    }

    fn contains_now(&self, tip: &CommitSha, commit: &CommitSha) -> bool {
        let state = self.remote.state();
        let seen = locked(&self.view.seen);
        seen.known.contains(tip)
            && seen.known.contains(commit)
            && state.history.log(tip).any(|ancestor| ancestor.logged.sha == *commit)
    }

    fn publish_now(&self, publication: &Publication) -> Result<PublishOutcome, RepositoryError> {
        let Publication { branch, parent, commits } = publication;
        let mut state = self.reachable()?;
        let mut seen = locked(&self.view.seen);
        let now = state.history.tip(branch);
        if let Some(sha) = parent
            && state.history.commit(sha).is_none()
        {
            return Ok(PublishOutcome::RemoteMoved { found: now });
        }
        let mut ids: Vec<CommitSha> = Vec::with_capacity(commits.len());
        for new in commits {
            let below = ids.last().or(parent.as_ref()).cloned();
            ids.push(state.history.add(below.as_ref(), new));
        }
        let Some(new) = ids.last().cloned() else { return Ok(PublishOutcome::Published(ids)) };
        // As a real mirror finds out when it asks where the branch is: an earlier attempt may have arrived.
        let arrived = now.as_ref().is_some_and(|now| state.history.log(now).any(|c| c.logged.sha == new));
        if !arrived {
            if now != *parent {
                if let Some(now) = &now {
                    state.history.learn(now, &mut seen.known);
                }
                return Ok(PublishOutcome::RemoteMoved { found: now });
            }
            if let Some(why) = state.refusal.clone() {
                return Ok(PublishOutcome::Refused { why });
            }
            let mut changed = publication.commits.iter().flat_map(|commit| commit.edits.keys());
            if let Some(path) = changed.find(|path| state.guarded.contains(*path)) {
                return Ok(PublishOutcome::Refused { why: format!("{path} is protected") });
            }
            state.history.move_branch(branch, &new);
            state.wake();
        }
        state.history.learn(&new, &mut seen.known);
        seen.tips.insert(branch.clone(), new);
        Ok(PublishOutcome::Published(ids))
    }
}

#[async_trait]
impl Repository for SimulatedRepository {
    fn address(&self) -> String {
        self.remote.address.to_string()
    }

    async fn fetch(&self) -> Result<CommitSha, RepositoryError> {
        self.call(&Call::Fetch, |fate| self.fetch_now(fate))
    }

    async fn fetch_branch(&self, branch: &BranchName) -> Result<Option<CommitSha>, RepositoryError> {
        self.call(&Call::FetchBranch(branch.clone()), |fate| self.fetch_branch_now(branch, fate))
    }

    async fn snapshot(&self, commit: &CommitSha, root: &TreePath) -> Result<Snapshot, RepositoryError> {
        self.call(&Call::Snapshot(commit.clone()), |_| self.snapshot_now(commit, root))
    }

    async fn read(&self, blobs: &[BlobId], limit: u64) -> Result<Vec<Option<Arc<[u8]>>>, RepositoryError> {
        self.call(&Call::Read, |_| self.read_now(blobs, limit))
    }

    async fn contains(&self, tip: &CommitSha, commit: &CommitSha) -> Result<bool, RepositoryError> {
        self.call(&Call::Contains, |_| Ok(self.contains_now(tip, commit)))
    }

    async fn publish(&self, publication: &Publication) -> Result<PublishOutcome, RepositoryError> {
        self.call(&Call::Publish(publication.branch.clone()), |_| self.publish_now(publication))
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        // One place is enough: a reader that has not woken yet sees everything when it does.
        let (sender, receiver) = mpsc::channel(0);
        self.remote.state().readers.push(sender);
        receiver.chain(stream::pending()).boxed()
    }
}

/// What one mirror knows.
struct View {
    revision: Revision,
    seen: Mutex<Seen>,
    fates: Mutex<Option<Fates>>,
}

#[derive(Debug, Default)]
struct Seen {
    known: BTreeSet<CommitSha>,
    tips: BTreeMap<BranchName, CommitSha>,
}

impl View {
    fn new(revision: Revision) -> Self {
        Self { revision, seen: Mutex::default(), fates: Mutex::default() }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// A handle to the remote that views and people share.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    address: Arc<str>,
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    refusal: Option<String>,
    guarded: BTreeSet<TreePath>,
    down: bool,
    readers: Vec<mpsc::Sender<()>>,
}

impl State {
    /// Wakes the readers that are still there.
    fn wake(&mut self) {
        self.readers.retain_mut(|reader| match reader.try_send(()) {
            Ok(()) => true,
            Err(error) => error.is_full(),
        });
    }
}

impl Remote {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.shared)
    }

    /// A push by a person.
    pub(super) fn push<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state.history);
        state.wake();
        result
    }
}

/// The commit that a server which lags behind answers with.
fn lagging(history: &History, tip: CommitSha, fate: &Fate) -> CommitSha {
    let Fate::Stale(behind) = fate else { return tip };
    let oldest = history.log(&tip).take(behind.saturating_add(1)).last();
    oldest.map_or(tip, |commit| commit.logged.sha.clone())
}

/// A panic elsewhere must not turn every later call of a test into another panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
