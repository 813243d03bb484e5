//! All metrics of the process under one registry.
//!
//! A value that is handed down, not a global: a test makes a fresh one and reads it.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::telemetry::rollout_metrics::RolloutMetrics;
use crate::telemetry::sync_metrics::SyncMetrics;

/// Everything that can be counted. Clones are the same metrics.
#[derive(Clone)]
pub struct Metrics {
    /// The families that dashboards of the reference operator know.
    pub rollout: RolloutMetrics,
    /// Serin's own: git, the cluster, passes.
    pub sync: SyncMetrics,
    registry: Arc<Registry>,
}

/// The content type of [`Metrics::render`].
pub const OPENMETRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: String,
}

impl Metrics {
    /// A fresh set, all zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let rollout = RolloutMetrics::register(registry.sub_registry_with_prefix("omnia_rollout"));
        let own = registry.sub_registry_with_prefix("serin");
        let sync = SyncMetrics::register(own);
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION").to_owned() }).set(1);
        own.register("build_info", "The version of Serin, always 1", build);
        Self { rollout, sync, registry: Arc::new(registry) }
    }

    /// All metrics in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
