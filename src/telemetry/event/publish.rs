//! What is written to git: decisions on the config branch, observations on the status branch.

use tracing::{debug, error, info, warn};

use crate::git::RepositoryError;
use crate::ids::{AgentKey, BranchName, CommitSha, RolloutId, SourceName};
use crate::telemetry::Metrics;

/// A promotion is on the config branch.
pub struct PromotionPublished<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// The commit.
    pub commit: &'a CommitSha,
}

impl PromotionPublished<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, agent, rollout, commit } = self;
        metrics.sync.published(source, "published");
        info!(%source, %agent, %rollout, %commit, "the promotion is in git");
    }
}

/// A rollback is on the config branch.
pub struct RollbackPublished<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// The commit.
    pub commit: &'a CommitSha,
}

impl RollbackPublished<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, agent, rollout, commit } = self;
        metrics.sync.published(source, "published");
        info!(%source, %agent, %rollout, %commit, "the rollback is in git");
    }
}

/// Somebody else pushed first: the decisions are evaluated again on the new tip.
pub struct PublishRaced<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The branch.
    pub branch: &'a BranchName,
    /// What the decisions were made on.
    pub expected: &'a CommitSha,
    /// Where the branch is now, where that is known.
    pub found: Option<&'a CommitSha>,
}

impl PublishRaced<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, branch, expected, found } = self;
        metrics.sync.published(source, "raced");
        let found = found.map_or("unknown", CommitSha::as_str);
        info!(%source, %branch, %expected, found, "the branch moved, deciding again on its new tip");
    }
}

/// The git server refused the push. Rollouts wait, and it is tried again.
pub struct PublishRefused<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The branch.
    pub branch: &'a BranchName,
    /// The server's words.
    pub why: &'a str,
}

impl PublishRefused<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, branch, why } = self;
        metrics.sync.published(source, "refused");
        error!(%source, %branch, why, "the git server refuses the decisions; they wait");
    }
}

/// The git server could not be asked. It is tried again.
pub struct PublishFailed<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The branch.
    pub branch: &'a BranchName,
    /// Why.
    pub error: &'a RepositoryError,
}

impl PublishFailed<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, branch, error } = self;
        metrics.sync.published(source, error.kind());
        warn!(%source, %branch, %error, "decisions could not be pushed; they wait");
    }
}

/// A decision cannot be written to the manifest: a person must do it. Once per commit.
pub struct DecisionBlocked<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// `promoted` or `rolled-back`.
    pub outcome: &'static str,
    /// Why, with file and line.
    pub why: &'a str,
}

impl DecisionBlocked<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, rollout, outcome, why } = self;
        error!(%agent, %rollout, outcome, why, "the decision cannot be written to git");
    }
}

/// A decision was dropped: a person has changed what it was about.
pub struct DecisionVoided<'a> {
    /// The agent.
    pub agent: &'a AgentKey,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// `promoted` or `rolled-back`.
    pub outcome: &'static str,
    /// What has changed.
    pub why: &'a str,
}

impl DecisionVoided<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { agent, rollout, outcome, why } = self;
        info!(%agent, %rollout, outcome, why, "the decision was dropped");
    }
}

/// Observations are on the status branch.
pub struct StatusPublished<'a> {
    /// The branch.
    pub branch: &'a BranchName,
    /// The repository, without credentials.
    pub repo: &'a str,
    /// The commit.
    pub commit: &'a CommitSha,
    /// How many files changed.
    pub files: usize,
}

impl StatusPublished<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { branch, repo, commit, files } = self;
        debug!(%branch, repo, %commit, files, "observations are in git");
    }
}

/// Observations could not be written to the status branch. It is tried again; nothing else waits for it.
pub struct StatusNotPublished<'a> {
    /// The branch.
    pub branch: &'a BranchName,
    /// The repository, without credentials.
    pub repo: &'a str,
    /// Why.
    pub why: &'a str,
    /// How many attempts in a row failed before this one.
    pub failed_before: u32,
}

impl StatusNotPublished<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { branch, repo, why, failed_before } = self;
        if failed_before == 0 {
            warn!(%branch, repo, why, "observations could not be written to git");
        } else {
            debug!(%branch, repo, why, failed_before, "observations still cannot be written to git");
        }
    }
}
