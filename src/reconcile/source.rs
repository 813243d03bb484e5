//! One source: a folder of a repository at a revision, what its files say, and what is to be written to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use jiff::{SignedDuration, Timestamp};

use crate::apply::{Refusal, SyncPlan};
use crate::git::{Author, Repository, RepositoryError, Snapshot};
use crate::ids::{AgentKey, BlobId, BranchName, CommitSha, SourceName, TreePath};
use crate::manifest::{
    Assembly, Desired, Diagnostic, LoadedFile, MANIFEST_ENDINGS, Rules, Schemas, is_manifest, load_file,
};
use crate::object::{Object, ObjectKey};
use crate::reconcile::outbox::Outbox;
use crate::rollout::{Decision, Publish};
use crate::settings::RepoAddress;

/// How many files are read from the mirror at once: at most 128 MiB where each has the largest size that is read.
const READ_BATCH: usize = 32;

/// How long after a push an answer from before it is taken for that of a replica that lags behind.
const REPLICA_LAG: SignedDuration = SignedDuration::from_secs(30);

/// What a source is, by the settings.
pub struct SourceOptions {
    /// Its name.
    pub name: SourceName,
    /// The folder; empty: the whole repository.
    pub root: TreePath,
    /// The branch that decisions are committed to; `None` where the source follows a tag or a commit.
    pub branch: Option<BranchName>,
    /// Who makes Serin's commits.
    pub author: Author,
    /// What may be applied.
    pub rules: Rules,
    /// The sources whose objects it takes over once they hold them no more.
    pub adopt_from: Vec<SourceName>,
    /// How often the remote is asked.
    pub poll_interval: SignedDuration,
    /// Where status goes, and at most how often; `None`: nowhere.
    pub status: Option<(BranchName, SignedDuration)>,
}

/// A source at work.
pub struct Source {
    /// What it is.
    pub options: SourceOptions,
    /// Its repository.
    pub repository: Arc<dyn Repository>,
    schemas: Arc<Schemas>,
    state: Mutex<State>,
    outbox: Mutex<Outbox>,
    /// Held from asking the remote to having loaded the answer.
    asking: tokio::sync::Mutex<()>,
    first_fetch: tokio::sync::watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    loaded: Option<Arc<Loaded>>,
    /// The commit that the last sync was about.
    synced: Option<CommitSha>,
    /// All that is in the cluster since the last sync; `None`: it is to be looked at as a whole.
    synced_whole: Option<Arc<Loaded>>,
    assembled: Arc<Assembled>,
    refused: BTreeMap<ObjectKey, String>,
    /// Objects that are gone from git and stay because of another source, with why.
    kept: BTreeMap<ObjectKey, String>,
    /// Whether what the last whole sync could do depends on other sources.
    is_contested: bool,
    failed_fetches: u32,
    /// Whether the repository, or a commit of it, could not be read since the start.
    has_failed: bool,
    published: Option<(CommitSha, Timestamp)>,
    /// How often it has started over: what began before that is of no account any more.
    era: u64,
    /// How often a sync of everything was asked for.
    whole_syncs_asked: u64,
}

/// What was loaded last, for the next load to go on from.
#[derive(Default)]
struct Assembled {
    /// What it was loaded from.
    files: OrdMap<TreePath, BlobId>,
    /// Those of them that were too much for one source.
    refused: BTreeSet<TreePath>,
    assembly: Assembly,
}

/// The manifests that differ from those loaded last.
struct Changed {
    gone: Vec<TreePath>,
    /// New, other than before, or to be read again: what could not be told of them because of others may be told now.
    unread: BTreeMap<TreePath, BlobId>,
}

impl Assembled {
    fn changes_to(&self, files: &OrdMap<TreePath, BlobId>) -> Changed {
        let mut changed = Changed { gone: Vec::new(), unread: BTreeMap::new() };
        for item in self.files.diff(files) {
            match item {
                DiffItem::Add(path, blob) | DiffItem::Update { new: (path, blob), .. } if is_manifest(path) => {
                    changed.unread.insert(path.clone(), blob.clone());
                }
                DiffItem::Remove(path, _) => changed.gone.push(path.clone()),
                DiffItem::Add(..) | DiffItem::Update { .. } => {}
            }
        }
        for path in self.refused.iter().chain(self.assembly.shortened()) {
            if let Some(blob) = files.get(path) {
                changed.unread.insert(path.clone(), blob.clone());
            }
        }
        changed
    }
}

/// The turn of whoever asks the remote and loads what it answers: of two who do so side by side, the one with the older
/// answer might be the last to load it, and its sync would take back what the other has just pushed.
pub(crate) struct Asking<'a> {
    _turn: tokio::sync::MutexGuard<'a, ()>,
    era: u64,
}

/// A sync under way.
pub(crate) struct Syncing {
    /// What was all in the cluster before it.
    pub(crate) before: Option<Arc<Loaded>>,
    era: u64,
    whole_syncs_asked: u64,
}

/// What the files of one commit say.
pub struct Loaded {
    /// The commit.
    pub commit: CommitSha,
    /// The files below the folder that may be manifests.
    pub snapshot: Snapshot,
    /// What they say.
    pub desired: Desired,
}

impl Loaded {
    /// The manifest of an agent, where it is in git and valid.
    pub fn manifest(&self, agent: &AgentKey) -> Option<Arc<Object>> {
        self.desired.objects.get(&ObjectKey::agent(agent)).map(|located| located.object())
    }

    /// Whether an agent is in git and valid.
    pub fn has_manifest(&self, agent: &AgentKey) -> bool {
        self.desired.objects.contains_key(&ObjectKey::agent(agent))
    }

    /// Whether the agent is in git, valid or not.
    pub fn holds(&self, agent: &AgentKey) -> bool {
        let key = ObjectKey::agent(agent);
        self.desired.objects.contains_key(&key) || self.desired.held.contains(&key)
    }

    /// Why the manifest of an agent cannot be used, with file and line; `None`: it can, or there is none.
    pub(crate) fn why_invalid(&self, agent: &AgentKey) -> Option<String> {
        let key = ObjectKey::agent(agent);
        if !self.desired.held.contains(&key) {
            return None;
        }
        let is_about = |problem: &&Diagnostic| problem.is_error() && problem.object.as_ref() == Some(&key);
        Some(in_short(self.desired.problems.iter().filter(is_about)))
    }

    /// Why it may be that an agent is not in git; `None`: everything there can be read.
    pub(crate) fn why_absent(&self) -> Option<String> {
        let Desired { unreadable, problems, .. } = &self.desired;
        let first = unreadable.first()?;
        let is_about = |problem: &&Diagnostic| problem.is_error() && unreadable.contains(&problem.file);
        let why = in_short(problems.iter().filter(is_about));
        let why = if why.is_empty() { first.to_string() } else { why };
        Some(format!("it is in no file that can be read, and may be in one that cannot: {why}"))
    }
}

/// The longest text about a problem: what it quotes may be long.
const MOST_CHARS: usize = 1_000;

/// The first problem, and how many more there are.
fn in_short<'a>(mut problems: impl Iterator<Item = &'a Diagnostic>) -> String {
    let Some(first) = problems.next() else { return String::new() };
    let text: String = first.to_string().chars().take(MOST_CHARS).collect();
    match problems.count() {
        0 => text,
        more => format!("{text} (and {more} more)"),
    }
}

impl Source {
    /// A source that has not looked at its repository yet.
    pub fn new(options: SourceOptions, repository: Arc<dyn Repository>, schemas: Arc<Schemas>) -> Self {
        Self {
            options,
            repository,
            schemas,
            state: Mutex::default(),
            outbox: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            first_fetch: tokio::sync::watch::Sender::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A pass that panicked may have held the lock; each change of the state is whole in itself.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What was loaded last.
    pub fn loaded(&self) -> Option<Arc<Loaded>> {
        self.state().loaded.clone()
    }

    /// Loads the files at `commit`; those whose content was seen before are not read again.
    ///
    /// # Errors
    /// If the repository cannot give them.
    pub async fn load(&self, commit: &CommitSha) -> Result<Arc<Loaded>, RepositoryError> {
        let asking = self.ask().await;
        self.load_answer(&asking, commit).await
    }

    /// Waits for the turn to ask the remote.
    pub(crate) async fn ask(&self) -> Asking<'_> {
        let turn = self.asking.lock().await;
        Asking { _turn: turn, era: self.state().era }
    }

    /// Loads what the remote has answered to `asking`. Where the source has started over since, nobody else gets to see it.
    ///
    /// # Errors
    /// If the repository cannot give it.
    pub(crate) async fn load_answer(
        &self,
        asking: &Asking<'_>,
        commit: &CommitSha,
    ) -> Result<Arc<Loaded>, RepositoryError> {
        let answer = self.read_answer(asking, commit).await;
        if answer.is_err() {
            self.state().has_failed = true;
        }
        answer
    }

    async fn read_answer(&self, asking: &Asking<'_>, commit: &CommitSha) -> Result<Arc<Loaded>, RepositoryError> {
        if let Some(loaded) = self.loaded()
            && loaded.commit == *commit
        {
            return Ok(loaded);
        }
        let snapshot = self.repository.snapshot_of(commit, &self.options.root, MANIFEST_ENDINGS).await?;
        let before = Arc::clone(&self.state().assembled);
        let Changed { mut gone, unread } = before.changes_to(&snapshot.files);
        let mut intake = before.assembly.intake_without(gone.iter().chain(unread.keys()));
        let (mut read, mut refused) = (Vec::new(), BTreeSet::new());
        let limit = self.options.rules.max_file_bytes;
        let unread: Vec<(TreePath, BlobId)> = unread.into_iter().collect();
        for batch in unread.chunks(READ_BATCH) {
            let blobs: Vec<BlobId> = batch.iter().map(|(_, blob)| blob.clone()).collect();
            let contents = self.repository.read(&blobs, u64::try_from(limit).unwrap_or(u64::MAX)).await?;
            for ((path, _), content) in batch.iter().zip(contents) {
                let file = match content {
                    Some(bytes) if !intake.admits(path, bytes.len()) => {
                        refused.insert(path.clone());
                        continue;
                    }
                    Some(bytes) => load_file(path, &bytes, &self.options.rules, &self.schemas),
                    None => LoadedFile::too_large(path, limit),
                };
                read.push(intake.take(file));
            }
        }
        let mut others: Vec<LoadedFile> = snapshot
            .not_followed
            .iter()
            .filter_map(|(path, what)| LoadedFile::not_followed(path, *what))
            .map(|file| intake.take(file))
            .collect();
        others.extend(intake.rest());
        gone.extend(refused.iter().cloned());
        let mut assembly = before.assembly.clone();
        assembly.update(&gone, read, others);
        let desired = assembly.desired().clone();
        let assembled = Arc::new(Assembled { files: snapshot.files.clone(), refused, assembly });
        let loaded = Arc::new(Loaded { commit: commit.clone(), snapshot, desired });
        let mut state = self.state();
        state.assembled = assembled;
        if state.era == asking.era {
            state.loaded = Some(Arc::clone(&loaded));
        }
        Ok(loaded)
    }

    /// Forgets what was to be written, what was, and where the branch is: another Serin may have written since, and what
    /// was loaded may be from before. Syncing that would take back what people have pushed meanwhile. The files that were
    /// read stay.
    pub(crate) fn start_over(&self) {
        let mut state = self.state();
        state.era += 1;
        state.loaded = None;
        state.synced = None;
        state.synced_whole = None;
        state.refused.clear();
        state.published = None;
        state.has_failed = false;
        drop(state);
        *self.outbox() = Outbox::default();
        self.first_fetch.send_replace(None);
    }

    /// A sync begins. Until it has come to its end it is not known what is in the cluster: what it has written of a commit
    /// before it failed may be gone again from the next.
    pub(crate) fn sync_begins(&self) -> Syncing {
        let mut state = self.state();
        Syncing { before: state.synced_whole.take(), era: state.era, whole_syncs_asked: state.whole_syncs_asked }
    }

    /// A sync came to its end; all that `loaded` says is in the cluster, if it is complete.
    pub(crate) fn sync_finished(&self, syncing: &Syncing, loaded: &Arc<Loaded>, is_complete: bool) {
        let mut state = self.state();
        if state.era != syncing.era {
            return;
        }
        state.synced = Some(loaded.commit.clone());
        let is_whole =
            is_complete && loaded.desired.allows_pruning() && state.whole_syncs_asked == syncing.whole_syncs_asked;
        state.synced_whole = is_whole.then(|| Arc::clone(loaded));
    }

    /// The next sync that begins looks at everything again. Says whether it would not have.
    pub(crate) fn sync_whole_next(&self) -> bool {
        let mut state = self.state();
        state.whole_syncs_asked += 1;
        state.synced_whole.take().is_some()
    }

    /// Whether an object that this source has applied is to go, because it is gone from git.
    pub(crate) fn drops(&self, key: &ObjectKey) -> bool {
        let state = self.state();
        let Some(loaded) = &state.loaded else { return false };
        let Desired { objects, held, .. } = &loaded.desired;
        !objects.contains_key(key)
            && !held.contains(key)
            && loaded.desired.allows_pruning()
            && !state.kept.contains_key(key)
    }

    /// Whether it is known what it holds, or that this cannot be known for now. A commit that is fetched and not loaded yet
    /// is no answer.
    pub(crate) fn was_asked(&self) -> bool {
        let state = self.state();
        state.loaded.is_some() || state.has_failed
    }

    /// Takes in what a sync of everything has found about other sources. Gives back what stays since now although it is
    /// gone from git.
    pub(crate) fn note_contested(&self, plan: &SyncPlan) -> Vec<Refusal> {
        let SyncPlan { refused, undecided, kept, .. } = plan;
        let mut state = self.state();
        state.is_contested = !refused.is_empty() || !undecided.is_empty() || !kept.is_empty();
        let before = std::mem::take(&mut state.kept);
        state.kept = kept.iter().map(|kept| (kept.key.clone(), kept.why.clone())).collect();
        // What is not in git any more is not refused any more.
        let loaded = state.loaded.clone();
        state.refused.retain(|key, _| loaded.as_ref().is_some_and(|loaded| loaded.desired.objects.contains_key(key)));
        kept.iter().filter(|kept| before.get(&kept.key) != Some(&kept.why)).cloned().collect()
    }

    /// Whether another source follows the same branch of the same repository.
    pub(crate) fn is_sibling_of(&self, other: &Self) -> bool {
        self.options.name != other.options.name
            && self.options.branch.is_some()
            && self.options.branch == other.options.branch
            && self.is_of_repository_of(other)
    }

    /// Whether the other is of the same repository, however its address is spelt.
    fn is_of_repository_of(&self, other: &Self) -> bool {
        let (one, another) = (self.repository.address(), other.repository.address());
        let parsed = |address: &str| RepoAddress::parse(address, Path::new("/")).ok();
        one == another
            || parsed(&one).zip(parsed(&another)).is_some_and(|(one, another)| one.is_same_repository(&another))
    }

    /// Whether both write their status to the same branch.
    pub(crate) fn shares_status_with(&self, other: &Self) -> bool {
        let branch = |source: &Self| source.options.status.as_ref().map(|(branch, _)| branch.clone());
        branch(self) == branch(other) && self.is_of_repository_of(other)
    }

    /// Whether what it can do depends on other sources.
    pub(crate) fn is_contested(&self) -> bool {
        self.state().is_contested
    }

    /// Whether a whole sync has come to its end since the start.
    pub(crate) fn has_synced(&self) -> bool {
        self.state().synced.is_some()
    }

    /// Whether what is loaded is still to be synced: whoever has loaded it may have failed before anybody was told.
    pub(crate) fn awaits_sync(&self) -> bool {
        let state = self.state();
        state.loaded.as_ref().is_some_and(|loaded| state.synced.as_ref() != Some(&loaded.commit))
    }

    /// What is on its way to the branch.
    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Each change of it is whole in itself.
        self.outbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes a decision on its way to the branch, as [`Outbox::post`] does.
    #[must_use]
    pub(crate) fn post(&self, decision: &Decision) -> bool {
        let tip = self.loaded().map(|loaded| loaded.commit.clone());
        self.outbox().post(decision, tip.as_ref())
    }

    /// What became of the decision about an agent that was posted last.
    pub(crate) fn publish_state(&self, agent: &AgentKey) -> Publish {
        if self.options.branch.is_none() { Publish::ReadOnly } else { self.outbox().publish_state(agent) }
    }

    /// Waits until the remote was asked for the first time, and says what it answered.
    pub async fn first_fetch(&self) -> String {
        let mut answer = self.first_fetch.subscribe();
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Remembers that the branch ends in a commit of ours since `now`.
    pub(crate) fn note_published(&self, tip: &CommitSha, now: Timestamp) {
        self.state().published = Some((tip.clone(), now));
    }

    /// Asks the remote where its branch is.
    ///
    /// Right after our own push, an answer from before it comes from a replica that lags: git hosts answer from several.
    /// Taken for true, it would look like a revert of what was just promoted. Whoever really forces the branch back has it
    /// his way when [`REPLICA_LAG`] is over.
    ///
    /// # Errors
    /// If the remote does not answer.
    pub(crate) async fn fetch(&self, now: Timestamp) -> Result<CommitSha, RepositoryError> {
        let commit = self.repository.fetch().await?;
        let ours = self.state().published.clone();
        if let Some((ours, at)) = ours
            && ours != commit
            && now.duration_since(at).abs() < REPLICA_LAG
            && self.repository.contains(&ours, &commit).await?
        {
            return Ok(ours);
        }
        Ok(commit)
    }

    /// Counts a failed fetch; how many in a row failed before it.
    pub(crate) fn fetch_failed(&self, error: &RepositoryError) -> u32 {
        self.first_fetch.send_if_modified(|answer| answer.is_none() && answer.replace(error.to_string()).is_none());
        let mut state = self.state();
        state.has_failed = true;
        let before = state.failed_fetches;
        state.failed_fetches = before.saturating_add(1);
        before
    }

    /// Ends the row of failed fetches.
    pub(crate) fn fetch_succeeded(&self, commit: &CommitSha) {
        self.first_fetch
            .send_if_modified(|answer| answer.is_none() && answer.replace(format!("at {}", commit.short())).is_none());
        let mut state = self.state();
        (state.failed_fetches, state.has_failed) = (0, false);
    }

    /// Notes that an object of git was refused, or that it no longer is. Says whether that is news.
    pub(crate) fn note_refusal(&self, key: &ObjectKey, why: Option<String>) -> bool {
        let mut state = self.state();
        match why {
            Some(why) => state.refused.insert(key.clone(), why.clone()) != Some(why),
            None => state.refused.remove(key).is_some(),
        }
    }

    /// Why an object of git is refused.
    pub(crate) fn refusal(&self, key: &ObjectKey) -> Option<String> {
        self.state().refused.get(key).cloned()
    }

    /// The objects of git that are refused, with why.
    pub fn refused(&self) -> BTreeMap<ObjectKey, String> {
        self.state().refused.clone()
    }
}
