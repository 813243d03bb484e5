//! The daemon itself: its start, its end, its passes.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::ids::ClusterName;
use crate::telemetry::{Metrics, PassKind};

/// The daemon started.
pub struct DaemonStarted<'a> {
    /// The cluster's name.
    pub cluster: &'a ClusterName,
    /// How many sources it follows.
    pub sources: usize,
}

impl DaemonStarted<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { cluster, sources } = self;
        info!(version = env!("CARGO_PKG_VERSION"), %cluster, sources, "Serin started");
    }
}

/// The daemon was told to end, and finishes what it is doing.
pub struct DaemonStopping<'a> {
    /// What told it.
    pub signal: &'a str,
}

impl DaemonStopping<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        info!(signal = self.signal, "Serin ends after the passes in flight; a second signal ends it at once");
    }
}

/// The settings are allowed but may not be meant.
pub struct SettingsDoubtful<'a> {
    /// A sentence.
    pub warning: &'a str,
}

impl SettingsDoubtful<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        warn!("{}", self.warning);
    }
}

/// A pass ended well.
pub struct PassFinished<'a> {
    /// What kind.
    pub kind: PassKind,
    /// What it was about.
    pub key: &'a str,
    /// How long it took.
    pub took: Duration,
}

impl PassFinished<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { kind, key, took } = self;
        metrics.sync.pass_ended(kind, "ok", took);
        debug!(kind = kind.as_str(), key, ?took, "the pass ended");
    }
}

/// A pass ended early. It is tried again.
pub struct PassFailed<'a> {
    /// What kind.
    pub kind: PassKind,
    /// What it was about.
    pub key: &'a str,
    /// The error's bounded name.
    pub error_kind: &'static str,
    /// The error with its causes.
    pub error: &'a str,
    /// When it is tried again.
    pub retry_in: Duration,
    /// How long it took.
    pub took: Duration,
}

impl PassFailed<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { kind, key, error_kind, error, retry_in, took } = self;
        metrics.sync.pass_ended(kind, error_kind, took);
        if ["conflict", "not_leading"].contains(&error_kind) {
            // Somebody wrote between our read and our write, or leads now: the normal course of things.
            debug!(kind = kind.as_str(), key, error, ?retry_in, "the pass ended early");
        } else {
            warn!(kind = kind.as_str(), key, error, ?retry_in, "the pass ended early");
        }
    }
}

/// A pass panicked: a bug. The others go on, and this one is tried again.
pub struct PassPanicked<'a> {
    /// What kind.
    pub kind: PassKind,
    /// What it was about.
    pub key: &'a str,
    /// The panic's words.
    pub message: &'a str,
    /// When it is tried again.
    pub retry_in: Duration,
    /// How long it took.
    pub took: Duration,
}

impl PassPanicked<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { kind, key, message, retry_in, took } = self;
        metrics.sync.pass_ended(kind, "panic", took);
        error!(kind = kind.as_str(), key, message, ?retry_in, "the pass panicked; this is a bug, please report it");
    }
}

/// The server for metrics and health broke. Rollouts go on without it.
pub struct ServerFailed<'a> {
    /// Why.
    pub error: &'a str,
}

impl ServerFailed<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        error!(error = self.error, "metrics and health are not served any more");
    }
}
