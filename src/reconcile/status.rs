//! How what is remembered about agents gets to the status branch.
//!
//! What a restart loses of a rollout in flight is read back from the branch, and nothing else ever is: the branch is never
//! desired state.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::git::{NewCommit, Publication, PublishOutcome};
use crate::ids::{AgentKey, BranchName, CommitSha, SourceName, TreePath};
use crate::reconcile::leader::Leading;
use crate::reconcile::memory::commit_of;
use crate::reconcile::source::Source;
use crate::reconcile::{Core, Key, Next, PassError};
use crate::telemetry::event;
use crate::writeback::message::render_status;
use crate::writeback::status_branch::{
    AgentStatus, ContentDigest, LastOutcome, RolloutHistory, changed_files, history_path, parse_history, parse_status,
    render, status_path,
};

/// How often the status branch is fetched and written again when somebody else wrote to it meanwhile.
const RACES: usize = 5;

/// Files of the status branch that are larger are written anew instead of read: the dashboard of 10 000 agents has about
/// two megabytes, and whoever can push to the branch can put anything there.
const LARGEST_STATUS_FILE: u64 = 16 << 20;

/// What is on the status branch of a source, as far as this process wrote or read it.
#[derive(Default)]
pub(super) struct Published {
    tip: Option<CommitSha>,
    files: BTreeMap<TreePath, ContentDigest>,
    pub(super) at: Option<Timestamp>,
    failed_before: u32,
}

impl Core {
    pub(super) fn published(&self) -> std::sync::MutexGuard<'_, BTreeMap<SourceName, Published>> {
        // What is in it is a cache of the branch.
        self.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Brings the status of a source's agents to its status branch, if anything there would change.
    pub(super) async fn publish_status(&self, leading: &Leading, source: &Source) -> Result<Next, PassError> {
        let Some((branch, interval)) = &source.options.status else { return Ok(Next::default()) };
        let now = self.clock.now();
        let last = self.published().get(&source.options.name).and_then(|published| published.at);
        if let Some(due) = last.and_then(|last| last.saturating_add(*interval).ok()).filter(|due| *due > now) {
            return Ok(Next { now: Vec::new(), later: vec![(Key::Status(source.options.name.clone()), due)] });
        }
        let outcome = self.write_status_branch(leading, source, branch).await;
        let mut published = self.published();
        let entry = published.entry(source.options.name.clone()).or_default();
        match &outcome {
            Ok(()) => {
                entry.at = Some(now);
                entry.failed_before = 0;
            }
            // The time stays: a retry that finds itself too early would count as a success and end the growth of the
            // waits between retries.
            Err(error) => {
                let (repo, why) = (source.repository.address(), error.to_string());
                event::StatusNotPublished { branch, repo: &repo, why: &why, failed_before: entry.failed_before }
                    .emit(&self.metrics);
                entry.failed_before = entry.failed_before.saturating_add(1);
            }
        }
        drop(published);
        outcome.map(|()| Next::default())
    }

    async fn write_status_branch(
        &self,
        leading: &Leading,
        source: &Source,
        branch: &BranchName,
    ) -> Result<(), PassError> {
        for _ in 0..RACES {
            let tip = source.repository.fetch_branch(branch).await?;
            self.read_status_branch(source, tip.as_ref()).await?;
            let new = self.render_status(source);
            let edits = changed_files(&self.published().entry(source.options.name.clone()).or_default().files, &new);
            if edits.is_empty() {
                return Ok(());
            }
            let count = edits.len();
            let commit = NewCommit {
                message: render_status(&agents_of(&edits), &self.options.cluster_name),
                author: source.options.author.clone(),
                at: self.clock.now(),
                edits,
            };
            let publication = Publication { branch: branch.clone(), parent: tip, commits: vec![commit] };
            leading.check()?;
            match source.repository.publish(&publication).await? {
                PublishOutcome::Published(commits) => {
                    let repo = source.repository.address();
                    if let Some(commit) = commits.last() {
                        event::StatusPublished { branch, repo: &repo, commit, files: count }.emit(&self.metrics);
                    }
                    let mut published = self.published();
                    let entry = published.entry(source.options.name.clone()).or_default();
                    entry.tip = commits.last().cloned();
                    entry.files.retain(|path, _| !is_status_file(path));
                    entry.files.extend(new.into_iter().map(|(path, contents)| (path, ContentDigest::of(&contents))));
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
    /// known of a rollout before a restart.
    async fn read_status_branch(&self, source: &Source, tip: Option<&CommitSha>) -> Result<(), PassError> {
        let name = &source.options.name;
        let is_known = {
            let mut published = self.published();
            let entry = published.entry(name.clone()).or_default();
            entry.tip.as_ref() == tip
        };
        let Some(tip) = tip else {
            self.published().insert(name.clone(), Published::default());
            return Ok(());
        };
        if is_known {
            return Ok(());
        }
        let snapshot = source.repository.snapshot(tip, &TreePath::new("")).await?;
        let histories = self.wanted_histories(name);
        let wanted = |path: &TreePath| is_status_file(path) || path.as_str() == "README.md" || histories.contains(path);
        let files = snapshot.files.iter().filter(|(path, _)| wanted(path));
        let (paths, blobs): (Vec<_>, Vec<_>) = files.map(|(path, blob)| (path.clone(), blob.clone())).unzip();
        let contents = source.repository.read(&blobs, LARGEST_STATUS_FILE).await?;
        let contents: BTreeMap<TreePath, Vec<u8>> =
            paths.into_iter().zip(contents).filter_map(|(path, bytes)| Some((path, bytes?.to_vec()))).collect();
        self.take_back(&contents);
        let mut published = self.published();
        let entry = published.entry(name.clone()).or_default();
        entry.tip = Some(tip.clone());
        entry.files = contents.into_iter().map(|(path, contents)| (path, ContentDigest::of(&contents))).collect();
        Ok(())
    }

    fn wanted_histories(&self, source: &SourceName) -> Vec<TreePath> {
        let agents = self.agents();
        let own = agents.iter().filter(|(_, memory)| memory.source.as_ref() == Some(source));
        own.filter_map(|(agent, memory)| Some(history_path(agent, &memory.history.as_ref()?.rollout))).collect()
    }

    /// What a restart has lost comes back from the branch.
    fn take_back(&self, contents: &BTreeMap<TreePath, Vec<u8>>) {
        let mut agents = self.agents();
        for (agent, memory) in agents.iter_mut() {
            if let Some(status) = contents.get(&status_path(agent)).and_then(|bytes| parse_status(bytes).ok())
                && let Some(LastOutcome { rollout, decision_commit: Some(commit), .. }) = status.last_outcome
                && !memory.commits.iter().any(|(known, _)| *known == rollout)
            {
                memory.commits.insert(0, (rollout, commit));
            }
            let Some(history) = memory.history.as_mut().filter(|_| memory.is_partial) else { continue };
            let Some(bytes) = contents.get(&history_path(agent, &history.rollout)) else { continue };
            let Ok(mut before) = parse_history(bytes) else { continue };
            before.steps.retain(|old| !history.steps.iter().any(|new| new.entered_at == old.entered_at));
            before.events.retain(|old| !history.events.contains(old));
            history.steps.splice(0..0, before.steps);
            history.events.splice(0..0, before.events);
            history.started_at = before.started_at;
            memory.is_partial = false;
        }
        for memory in agents.values_mut() {
            if let Some(outcome) = memory.status.as_mut().and_then(|status| status.last_outcome.as_mut()) {
                outcome.decision_commit = commit_of(&memory.commits, &outcome.rollout);
            }
        }
    }

    fn render_status(&self, source: &Source) -> BTreeMap<TreePath, Vec<u8>> {
        let agents = self.agents();
        let own = || agents.values().filter(|memory| memory.source.as_ref() == Some(&source.options.name));
        let statuses: Vec<AgentStatus> = own().filter_map(|memory| memory.status.clone()).collect();
        let histories: Vec<RolloutHistory> = own().filter_map(|memory| memory.history.clone()).collect();
        render(&self.options.cluster_name, &statuses, &histories)
    }
}

fn is_status_file(path: &TreePath) -> bool {
    path.as_str().ends_with("/status.yaml")
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
