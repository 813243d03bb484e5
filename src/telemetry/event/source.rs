//! From the repository to the cluster: fetches, manifests, writes.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, error, info, warn};

use crate::cluster::ClusterError;
use crate::git::RepositoryError;
use crate::ids::{CommitSha, SourceName};
use crate::object::ObjectKey;
use crate::telemetry::{Metrics, SyncVerb};

/// A fetch succeeded.
pub struct SourceFetched<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// Where its revision is now.
    pub commit: &'a CommitSha,
    /// Where it was before; `None` at the first fetch of this process.
    pub before: Option<&'a CommitSha>,
    /// How long it took.
    pub took: Duration,
    /// When it ended.
    pub at: Timestamp,
}

impl SourceFetched<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, commit, before, took, at } = self;
        let result = if before == Some(commit) { "unchanged" } else { "changed" };
        metrics.sync.fetched(source, result, took);
        metrics.sync.set_last_success(source, at.as_second());
        match before {
            Some(before) if before == commit => debug!(%source, %commit, ?took, "nothing new"),
            Some(before) => info!(%source, %commit, %before, "a new commit is there"),
            None => info!(%source, %commit, "the repository is fetched"),
        }
    }
}

/// A fetch failed. Repeats are at debug: the first one has said it.
pub struct SourceFetchFailed<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// Why.
    pub error: &'a RepositoryError,
    /// How many fetches in a row failed before this one.
    pub failed_before: u32,
    /// How long it took.
    pub took: Duration,
}

impl SourceFetchFailed<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, error, failed_before, took } = self;
        metrics.sync.fetched(source, error.kind(), took);
        if failed_before == 0 {
            warn!(%source, %error, "the repository cannot be fetched; what was read last stays in force");
        } else {
            debug!(%source, %error, failed_before, "the repository still cannot be fetched");
        }
    }
}

/// The manifests of a commit were read.
pub struct ManifestsRead<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The commit.
    pub commit: &'a CommitSha,
    /// Objects that can be applied.
    pub valid: usize,
    /// Objects that cannot: they keep their live state.
    pub invalid: usize,
}

impl ManifestsRead<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, commit, valid, invalid } = self;
        metrics.sync.set_objects(source, "valid", valid);
        metrics.sync.set_objects(source, "invalid", invalid);
        info!(%source, %commit, valid, invalid, "the manifests are read");
    }
}

/// A commit holds manifests that cannot be used. Once per commit.
pub struct ManifestProblems<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The commit.
    pub commit: &'a CommitSha,
    /// Each with file, line and column.
    pub problems: &'a [String],
}

impl ManifestProblems<'_> {
    /// Logs it, a line for each problem.
    pub fn emit(self, _: &Metrics) {
        let Self { source, commit, problems } = self;
        for problem in problems {
            warn!(%source, %commit, problem, "a manifest cannot be used; what it is about keeps its live state");
        }
    }
}

/// An object of git was created, updated or pruned.
pub struct ObjectApplied<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The object.
    pub object: &'a ObjectKey,
    /// What was done.
    pub verb: SyncVerb,
    /// The commit that says so.
    pub commit: &'a CommitSha,
}

impl ObjectApplied<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, object, verb, commit } = self;
        metrics.sync.wrote(source, verb, "ok");
        info!(%source, %object, %commit, "{}", verb.past());
    }
}

/// The cluster did not take a write of sync. The next pass tries again.
pub struct ApplyRefused<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// The object.
    pub object: &'a ObjectKey,
    /// What should have been done.
    pub verb: SyncVerb,
    /// Why not.
    pub error: &'a ClusterError,
}

impl ApplyRefused<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, object, verb, error } = self;
        metrics.sync.wrote(source, verb, error.kind());
        match error {
            ClusterError::Conflict { .. } | ClusterError::TooManyRequests { .. } => {
                debug!(%source, %object, %error, "could not be {} yet", verb.past());
            }
            ClusterError::Unavailable { .. } => warn!(%source, %object, %error, "could not be {}", verb.past()),
            ClusterError::NotServed { .. }
            | ClusterError::Exists { .. }
            | ClusterError::NotFound { .. }
            | ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. } => error!(%source, %object, %error, "could not be {}", verb.past()),
        }
    }
}

/// An object of git is not applied, because it belongs to another source. Once, until it changes.
pub struct ObjectNotOwned<'a> {
    /// The source that holds it.
    pub source: &'a SourceName,
    /// The object.
    pub object: &'a ObjectKey,
    /// Whose it is, and what to do.
    pub why: &'a str,
}

impl ObjectNotOwned<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { source, object, why } = self;
        warn!(%source, %object, why, "another source has this object; everything else is applied");
    }
}

/// An object is gone from git and is not deleted, because of another source. Once, until it changes.
pub struct PruneWithheld<'a> {
    /// The source that it belongs to.
    pub source: &'a SourceName,
    /// The object.
    pub object: &'a ObjectKey,
    /// Why it stays.
    pub why: &'a str,
}

impl PruneWithheld<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { source, object, why } = self;
        info!(%source, %object, why, "the object is gone from git and stays in the cluster");
    }
}

/// How many names a line of the log holds.
const MOST_NAMES: usize = 10;

/// Objects of a source that is not in the settings stay. Once, until there are others.
pub struct ObjectsLeftBehind<'a> {
    /// The source that is gone.
    pub source: &'a str,
    /// Its objects.
    pub objects: &'a BTreeSet<ObjectKey>,
}

impl ObjectsLeftBehind<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { source, objects } = self;
        let count = objects.len();
        let names: Vec<String> = objects.iter().take(MOST_NAMES).map(ToString::to_string).collect();
        let (names, more) = (names.join(", "), if count > MOST_NAMES { ", ..." } else { "" });
        info!(source, count, "the source is not in the settings, and its objects stay as they are: {names}{more}");
    }
}
