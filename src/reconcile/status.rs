//! How what is remembered about agents gets to the status branch.
//!
//! What a restart loses of the past (the history of a rollout in flight, the commits of decisions, since which commit an agent
//! is as it is) is read back from the branch, and nothing else ever is: the branch is never desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::git::{NewCommit, Publication, PublishOutcome, Snapshot};
use crate::ids::{AgentKey, BranchName, CommitSha, SourceName, TreePath};
use crate::object::{Kind, ObjectKey};
use crate::reconcile::leader::Leading;
use crate::reconcile::memory::{AgentMemory, commit_of};
use crate::reconcile::source::Source;
use crate::reconcile::{Core, Key, Next, PassError};
use crate::telemetry::event;
use crate::writeback::message::render_status;
use crate::writeback::status_branch::{
    AgentStatus, ContentDigest, DASHBOARD, LastOutcome, Overview, agent_folder, changed_among, changed_files,
    history_path, is_status_path, parse_history, parse_status, render, status_path,
};

/// How often the status branch is fetched and written again when somebody else wrote to it meanwhile.
const RACES: usize = 5;

/// How long the first status after a start waits at most for agents that are still to be looked at.
const AGENTS_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// How long until it looks again whether all have been.
const AGENTS_RECHECK: SignedDuration = SignedDuration::from_secs(1);

/// Files of the status branch that are larger are written anew instead of read: whoever can push to the branch can put
/// anything there.
const LARGEST_STATUS_FILE: u64 = 16 << 20;

/// What is on the status branches, as far as this process wrote or read it.
#[derive(Default)]
pub(super) struct StatusBranches {
    /// How often everything was forgotten: a pass that began before that must not say what is there now.
    term: u64,
    /// By [`Core::page_of`].
    published: BTreeMap<SourceName, Published>,
}

impl StatusBranches {
    /// Another Serin may have written since.
    pub(super) fn start_over(&mut self) {
        self.term += 1;
        self.published.clear();
    }
}

/// For each source the one that stands for its status branch.
pub(super) fn pages(sources: &[Arc<Source>]) -> BTreeMap<SourceName, SourceName> {
    let page = |source: &Arc<Source>| {
        let shares = |other: &&Arc<Source>| other.shares_status_with(source);
        let writes = |other: &&Arc<Source>| shares(other) && other.options.branch.is_some();
        sources.iter().find(writes).or_else(|| sources.iter().find(shares)).unwrap_or(source).options.name.clone()
    };
    sources.iter().map(|source| (source.options.name.clone(), page(source))).collect()
}

#[derive(Default)]
struct Published {
    /// Since when it has waited for agents that nobody has looked at.
    waiting_since: Option<Timestamp>,
    /// Whether all agents were looked at, so that a status whose agent is not known is that of one that is gone.
    knows_all: bool,
    tip: Option<CommitSha>,
    files: BTreeMap<TreePath, ContentDigest>,
    /// Whether `files` are those of all agents, but for what is noted as unpublished and for `left`.
    is_current: bool,
    /// The statuses of agents that are gone, or of another source.
    left: BTreeSet<TreePath>,
    at: Option<Timestamp>,
    failed_before: u32,
}

/// A status branch at work: of one source, or of several that write to the same.
struct Page<'a> {
    source: &'a Source,
    term: u64,
}

impl Core {
    fn status_branches(&self) -> std::sync::MutexGuard<'_, StatusBranches> {
        // What is in it is a cache of the branches.
        self.status_branches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Forgets what is on the status branches.
    pub(super) fn forget_status_branches(&self) {
        self.status_branches().start_over();
    }

    /// The source that stands for the status branch of a source: of those that write to the same, the first in the settings that
    /// commits decisions too, and so may push. What one of them says is beside what the others say, and not in its place.
    pub(super) fn page_of<'a>(&'a self, name: &'a SourceName) -> &'a SourceName {
        self.pages.get(name).unwrap_or(name)
    }

    /// When the status of a source's agents may be written next, and what to wake for that.
    pub(super) fn status_due(&self, source: &Source) -> Option<(Key, Timestamp)> {
        let (_, interval) = source.options.status.as_ref()?;
        let (now, page) = (self.clock.now(), self.page_of(&source.options.name));
        let branches = self.status_branches();
        let published = branches.published.get(page);
        // Where it could not be written, it is tried again in a time that grows, whatever else is new.
        if published.is_some_and(|published| published.failed_before > 0) {
            return None;
        }
        let last = published.and_then(|published| published.at);
        let at = last.and_then(|last| last.min(now).saturating_add(*interval).ok()).unwrap_or(now);
        Some((Key::Status(page.clone()), at))
    }

    /// What is known of a page. `None`: everything was forgotten since, and this pass is of no account any more.
    fn on_page<T>(&self, page: &Page<'_>, work: impl FnOnce(&mut Published) -> T) -> Option<T> {
        let mut branches = self.status_branches();
        if branches.term != page.term {
            return None;
        }
        Some(work(branches.published.entry(page.source.options.name.clone()).or_default()))
    }

    /// Brings the status of the agents of a page to its branch, if anything there would change.
    pub(super) async fn publish_status(&self, leading: &Leading, source: &Source) -> Result<Next, PassError> {
        let Some((branch, interval)) = &source.options.status else { return Ok(Next::default()) };
        let key = self.page_of(&source.options.name);
        if *key != source.options.name {
            return Ok(Next { now: vec![Key::Status(key.clone())], later: Vec::new() });
        }
        let later = |due| Next { now: Vec::new(), later: vec![(Key::Status(key.clone()), due)] };
        let page = Page { source, term: self.status_branches().term };
        let now = self.clock.now();
        // A time that is to come is one of before the clock was set back.
        let last = self.on_page(&page, |published| published.at).flatten().filter(|last| *last <= now);
        if let Some(due) = last.and_then(|last| last.saturating_add(*interval).ok()).filter(|due| *due > now) {
            return Ok(later(due));
        }
        let unseen = self.unseen_agents(&page).await?;
        if let Some(due) = self.waits_for_agents(&page, &unseen) {
            return Ok(later(due));
        }
        let outcome = self.write_status_branch(leading, &page, branch, &unseen).await;
        self.on_page(&page, |published| match &outcome {
            Ok(()) => {
                published.at = Some(now);
                published.failed_before = 0;
            }
            // The time stays: a retry that finds itself too early would count as a success and end the growth of the
            // waits between retries.
            Err(error) => {
                let (repo, why) = (source.repository.address(), error.to_string());
                let failed_before = published.failed_before;
                event::StatusNotPublished { branch, repo: &repo, why: &why, failed_before }.emit(&self.metrics);
                published.failed_before = failed_before.saturating_add(1);
            }
        });
        outcome?;
        // One that began while the branch was read is read, and written, the next time.
        let is_complete = self.partial_histories(key).is_empty();
        Ok(if is_complete { Next::default() } else { later(now.saturating_add(*interval).unwrap_or(now)) })
    }

    /// The status branches that were not looked at since the start: what they say of agents that are gone may have to go.
    pub(super) fn first_statuses(&self) -> Vec<Key> {
        let pages: BTreeSet<&SourceName> = self.sources.keys().map(|source| self.page_of(source)).collect();
        let branches = self.status_branches();
        let is_new = |page: &&SourceName| branches.published.get(*page).is_none_or(|published| published.at.is_none());
        pages.into_iter().filter(is_new).cloned().map(Key::Status).collect()
    }

    /// An agent is no more one of this source.
    pub(super) fn note_left(&self, source: &SourceName, agent: &AgentKey) {
        let page = self.page_of(source);
        if let Some(published) = self.status_branches().published.get_mut(page) {
            published.left.insert(status_path(agent));
        }
    }

    /// The live agents that nobody has looked at since the start: what the branch says about them is not to go.
    async fn unseen_agents(&self, page: &Page<'_>) -> Result<BTreeSet<TreePath>, PassError> {
        if self.on_page(page, |published| published.knows_all) == Some(true) {
            return Ok(BTreeSet::new());
        }
        let live = self.keys(&Kind::AGENT_RUNTIME).await?;
        let missing: Vec<AgentKey> = {
            let agents = self.agents();
            let is_missing = |agent: &AgentKey| agents.get(agent).is_none_or(|memory| memory.status.is_none());
            live.iter().map(|key| AgentKey::new(&key.namespace, &key.name)).filter(is_missing).collect()
        };
        let mut unseen = BTreeSet::new();
        for agent in missing {
            // Those of another Serin are none of ours.
            let live = self.cluster.get(&ObjectKey::agent(&agent)).await?;
            if live.is_some_and(|live| !self.is_foreign(&live)) {
                unseen.insert(status_path(&agent));
            }
        }
        Ok(unseen)
    }

    /// Until when the first status waits for agents that are still to be looked at: a page that lacks most of them helps
    /// nobody. `None`: it has waited long enough.
    fn waits_for_agents(&self, page: &Page<'_>, unseen: &BTreeSet<TreePath>) -> Option<Timestamp> {
        let now = self.clock.now();
        let wait = |published: &mut Published| {
            if unseen.is_empty() && !published.knows_all {
                published.knows_all = true;
                // From now on it can be told what of the branch is about agents that are gone.
                published.is_current = false;
            }
            if published.knows_all {
                return None;
            }
            // A clock that was set back must not make it wait for long.
            let since = (*published.waiting_since.get_or_insert(now)).min(now);
            let until = since.saturating_add(AGENTS_PATIENCE).unwrap_or(now);
            (until > now).then(|| now.saturating_add(AGENTS_RECHECK).unwrap_or(until).min(until))
        };
        self.on_page(page, wait).flatten()
    }

    async fn write_status_branch(
        &self,
        leading: &Leading,
        page: &Page<'_>,
        branch: &BranchName,
        unseen: &BTreeSet<TreePath>,
    ) -> Result<(), PassError> {
        let repository = &page.source.repository;
        for _ in 0..RACES {
            let tip = repository.fetch_branch(branch).await?;
            self.read_status_branch(page, tip.as_ref()).await?;
            // What is taken up here is not noted any more: where it does not get to the branch, the next time is about all.
            let taken = self.on_page(page, |published| {
                (std::mem::take(&mut published.is_current), std::mem::take(&mut published.left))
            });
            let Some((was_current, left)) = taken else { return Ok(()) };
            let Rendered { agents, files: new } = self.render_status(page, was_current);
            let edits = self.on_page(page, |published| {
                let mut edits = if was_current {
                    changed_among(&published.files, &new, &left)
                } else {
                    changed_files(&published.files, &new)
                };
                edits.retain(|path, contents| contents.is_some() || !unseen.contains(path));
                published.is_current = edits.is_empty();
                edits
            });
            let Some(edits) = edits.filter(|edits| !edits.is_empty()) else { return Ok(()) };
            let count = edits.len();
            let is_gone = |(_, contents): &(&TreePath, &Option<Vec<u8>>)| contents.is_none();
            let gone: Vec<TreePath> = edits.iter().filter(is_gone).map(|(path, _)| path.clone()).collect();
            let commit = NewCommit {
                message: render_status(&agents_of(&edits), &self.options.cluster_name),
                author: page.source.options.author.clone(),
                at: self.clock.now(),
                edits,
            };
            let publication = Publication { branch: branch.clone(), parent: tip, commits: vec![commit] };
            leading.check()?;
            match repository.publish(&publication).await? {
                PublishOutcome::Published(commits) => {
                    let repo = repository.address();
                    if let Some(commit) = commits.last() {
                        event::StatusPublished { branch, repo: &repo, commit, files: count }.emit(&self.metrics);
                    }
                    let _kept = self.on_page(page, |published| {
                        published.tip = commits.last().cloned();
                        for path in &gone {
                            published.files.remove(path);
                        }
                        // Of earlier rollouts nothing changes any more.
                        agents.iter().for_each(|agent| drop_below(&agent_folder(agent), &mut published.files));
                        let new = new.into_iter().map(|(path, contents)| (path, ContentDigest::of(&contents)));
                        published.files.extend(new);
                        published.is_current = true;
                    });
                    return Ok(());
                }
                PublishOutcome::RemoteMoved { .. } => {}
                PublishOutcome::Refused { why } => {
                    return Err(PassError::Refused { branch: branch.clone(), why });
                }
            }
        }
        Err(PassError::Refused { branch: branch.clone(), why: "somebody else keeps writing to it".to_owned() })
    }

    /// Reads what is on the branch where this process did not write it itself: to know what differs, and what was
    /// known before a restart.
    async fn read_status_branch(&self, page: &Page<'_>, tip: Option<&CommitSha>) -> Result<(), PassError> {
        let name = &page.source.options.name;
        let partial = self.partial_histories(name);
        let Some(tip) = tip else {
            let _forgotten = self.on_page(page, |published| {
                (published.tip, published.is_current) = (None, false);
                published.files.clear();
            });
            // Nobody knows more of them.
            self.take_back(name, &BTreeMap::new(), &partial);
            return Ok(());
        };
        let is_known = self.on_page(page, |published| published.tip.as_ref() == Some(tip)) == Some(true);
        if is_known && partial.is_empty() {
            return Ok(());
        }
        let snapshot = page.source.repository.snapshot(tip, &TreePath::new("")).await?;
        if is_known {
            // Of a rollout that was under way at the restart nothing was known when the branch was read.
            let contents = self.read_files(page, &snapshot, |path| partial.contains(path)).await?;
            self.take_back(name, &contents, &partial);
            return Ok(());
        }
        let histories = self.wanted_histories(name);
        let wanted = |path: &TreePath| is_status_path(path) || path.as_str() == DASHBOARD || histories.contains(path);
        let contents = self.read_files(page, &snapshot, wanted).await?;
        self.take_back(name, &contents, &histories);
        let _kept = self.on_page(page, |published| {
            published.tip = Some(tip.clone());
            published.is_current = false;
            published.files =
                contents.into_iter().map(|(path, contents)| (path, ContentDigest::of(&contents))).collect();
        });
        Ok(())
    }

    async fn read_files(
        &self,
        page: &Page<'_>,
        snapshot: &Snapshot,
        wanted: impl Fn(&TreePath) -> bool,
    ) -> Result<BTreeMap<TreePath, Vec<u8>>, PassError> {
        let files = snapshot.files.iter().filter(|(path, _)| wanted(path));
        let (paths, blobs): (Vec<_>, Vec<_>) = files.map(|(path, blob)| (path.clone(), blob.clone())).unzip();
        let contents = page.source.repository.read(&blobs, LARGEST_STATUS_FILE).await?;
        Ok(paths.into_iter().zip(contents).filter_map(|(path, bytes)| Some((path, bytes?.to_vec()))).collect())
    }

    /// The test of whether what is remembered of an agent goes to a page.
    fn belonging_to(&self, page: &SourceName) -> impl Fn(&AgentMemory) -> bool + use<> {
        let sources: BTreeSet<SourceName> =
            self.sources.keys().filter(|source| self.page_of(source) == page).cloned().collect();
        move |memory| memory.source.as_ref().is_some_and(|source| sources.contains(source))
    }

    fn wanted_histories(&self, page: &SourceName) -> BTreeSet<TreePath> {
        self.histories_of(page, |_| true)
    }

    /// Those that began before this process did and were not completed from the branch yet.
    fn partial_histories(&self, page: &SourceName) -> BTreeSet<TreePath> {
        self.histories_of(page, |memory| memory.is_partial)
    }

    fn histories_of(&self, page: &SourceName, wanted: impl Fn(&AgentMemory) -> bool) -> BTreeSet<TreePath> {
        let agents = self.agents();
        let is_own = self.belonging_to(page);
        let own = agents.iter().filter(|(_, memory)| wanted(memory) && is_own(memory));
        own.filter_map(|(agent, memory)| Some(history_path(agent, &memory.history.as_ref()?.rollout))).collect()
    }

    /// What a restart has lost comes back from the branch. A history that was `wanted` and is not there is not
    /// asked for again.
    fn take_back(&self, page: &SourceName, contents: &BTreeMap<TreePath, Vec<u8>>, wanted: &BTreeSet<TreePath>) {
        let mut agents = self.agents();
        let mut told = BTreeMap::new();
        let is_own = self.belonging_to(page);
        for (agent, memory) in agents.iter_mut().filter(|(_, memory)| is_own(memory)) {
            if let Some(status) = contents.get(&status_path(agent)).and_then(|bytes| parse_status(bytes).ok()) {
                if let Some(LastOutcome { rollout, decision_commit: Some(commit), .. }) = &status.last_outcome
                    && !memory.commits.iter().any(|(known, _)| known == rollout)
                {
                    memory.commits.insert(0, (rollout.clone(), commit.clone()));
                }
                told.insert(agent.clone(), status);
            }
            let Some(history) = memory.history.as_mut().filter(|_| memory.is_partial) else { continue };
            let path = history_path(agent, &history.rollout);
            if !wanted.contains(&path) {
                continue;
            }
            memory.is_partial = false;
            memory.is_unpublished = true;
            let Some(bytes) = contents.get(&path) else { continue };
            let Ok(mut before) = parse_history(bytes) else { continue };
            before.steps.retain(|old| !history.steps.iter().any(|new| new.entered_at == old.entered_at));
            before.events.retain(|old| !history.events.contains(old));
            history.steps.splice(0..0, before.steps);
            history.events.splice(0..0, before.events);
            history.started_at = before.started_at;
        }
        for memory in agents.values_mut() {
            if let Some(outcome) = memory.status.as_mut().and_then(|status| status.last_outcome.as_mut()) {
                outcome.decision_commit = commit_of(&memory.commits, &outcome.rollout);
            }
        }
        // Since which commit an agent is as it is. After a restart only the branch tells, if nothing else is new about it.
        for (agent, told) in told {
            if let Some(status) = agents.get_mut(&agent).and_then(|memory| memory.status.as_mut())
                && status.rollout.is_none()
                && *status == (AgentStatus { config_commit: status.config_commit.clone(), ..told.clone() })
            {
                status.config_commit = told.config_commit;
            }
        }
    }

    /// The files of the agents of a page: of all, or of those that are noted as unpublished, which they are no more then.
    fn render_status(&self, page: &Page<'_>, only_unpublished: bool) -> Rendered {
        let (mut names, mut statuses, mut histories) = (Vec::new(), Vec::new(), Vec::new());
        let overview = {
            let mut agents = self.agents();
            let is_own = self.belonging_to(&page.source.options.name);
            for (agent, memory) in agents.iter_mut().filter(|(_, memory)| is_own(memory)) {
                if !std::mem::take(&mut memory.is_unpublished) && only_unpublished {
                    continue;
                }
                if let Some(status) = &memory.status {
                    names.push(agent.clone());
                    statuses.push(status.clone());
                }
                // Of one that is not whole yet the branch knows more.
                memory.is_unpublished = memory.is_partial;
                histories.extend(memory.history.clone().filter(|_| !memory.is_partial));
            }
            Overview::of(agents.values().filter(|memory| is_own(memory)).filter_map(|memory| memory.status.as_ref()))
        };
        // Nobody waits for the agents while text is made of ten thousand.
        Rendered { agents: names, files: render(&self.options.cluster_name, &overview, &statuses, &histories) }
    }
}

/// What may have changed, as files.
struct Rendered {
    agents: Vec<AgentKey>,
    files: BTreeMap<TreePath, Vec<u8>>,
}

fn drop_below(folder: &TreePath, files: &mut BTreeMap<TreePath, ContentDigest>) {
    let below = files.range(folder.clone()..).map(|(path, _)| path.clone());
    let below: Vec<TreePath> = below.take_while(|path| path.as_str().starts_with(folder.as_str())).collect();
    for path in below {
        files.remove(&path);
    }
}

/// The agents that a commit on the status branch is about.
fn agents_of(edits: &BTreeMap<TreePath, Option<Vec<u8>>>) -> Vec<AgentKey> {
    let mut agents: Vec<AgentKey> = edits
        .keys()
        .filter_map(|path| {
            let mut parts = path.as_str().split('/');
            let (namespace, name) = (parts.next()?, parts.next()?);
            parts.next().map(|_| AgentKey::new(namespace, name))
        })
        .collect();
    agents.dedup();
    agents
}
