//! Who leads: the Lease.

use tracing::{info, warn};

use crate::object::ObjectKey;
use crate::telemetry::Metrics;

/// This process has the Lease, and decides and writes from now on.
pub struct LeaseTaken<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
    /// What this process is called in it.
    pub identity: &'a str,
    /// How often it has changed hands.
    pub transitions: u32,
}

impl LeaseTaken<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { lease, identity, transitions } = self;
        info!(%lease, identity, transitions, "this Serin leads");
    }
}

/// Another process has the Lease, and this one is passive: it watches, and does nothing else.
pub struct LeaseOfAnother<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
    /// Who has it.
    pub holder: &'a str,
}

impl LeaseOfAnother<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { lease, holder } = self;
        info!(%lease, holder, "another Serin leads; this one is passive and watches");
    }
}

/// This process does not lead any more.
pub struct LeaseLost<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
    /// Why.
    pub why: &'a str,
}

impl LeaseLost<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { lease, why } = self;
        warn!(%lease, why, "this Serin does not lead any more; it stops writing and watches");
    }
}

/// The Lease cannot be read or written. Told once for each reason.
pub struct LeaseUnusable<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
    /// Why.
    pub error: &'a str,
}

impl LeaseUnusable<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { lease, error } = self;
        warn!(%lease, error, "the Lease cannot be had; nothing is decided without it");
    }
}

/// The Lease was given back: another process may take it at once.
pub struct LeaseGivenBack<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
}

impl LeaseGivenBack<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        info!(lease = %self.lease, "the Lease is given back");
    }
}

/// The Lease could not be given back: others wait until it runs out.
pub struct LeaseNotGivenBack<'a> {
    /// The Lease.
    pub lease: &'a ObjectKey,
    /// Why.
    pub error: &'a str,
}

impl LeaseNotGivenBack<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { lease, error } = self;
        warn!(%lease, error, "the Lease could not be given back; others wait until it runs out");
    }
}
