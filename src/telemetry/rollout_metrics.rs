//! The seven `omnia_rollout_*` families: names, types, labels and buckets as the reference operator has
//! them, so that its dashboards and alerts keep working.
//!
//! Where they differ from it, on purpose: step durations are observed; a promotion counts once, when it
//! is done; the series of a deleted agent end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::{Step, names};
use crate::ids::{AgentKey, Weight};

/// Upper bounds in seconds: from a step that only waits for a pod to one that bakes for an hour.
const STEP_DURATION_BUCKETS: [f64; 8] = [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// The values of the label `variant`; the reference operator's words.
const VARIANTS: [&str; 2] = ["stable", names::CANARY];

/// The label `step_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepType {
    /// `setWeight`.
    SetWeight,
    /// `pause`.
    Pause,
    /// `analysis`.
    Analysis,
}

impl StepType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SetWeight, Self::Pause, Self::Analysis];

    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SetWeight => "setWeight",
            Self::Pause => "pause",
            Self::Analysis => "analysis",
        }
    }
}

impl From<&Step> for StepType {
    fn from(step: &Step) -> Self {
        match step {
            Step::SetWeight(_) => Self::SetWeight,
            Step::Pause(_) => Self::Pause,
            Step::Analysis { .. } => Self::Analysis,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct AgentLabels {
    namespace: String,
    agentruntime: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    namespace: String,
    agentruntime: String,
    step_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct ReasonLabels {
    namespace: String,
    agentruntime: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VariantLabels {
    namespace: String,
    agentruntime: String,
    variant: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct AnalysisLabels {
    namespace: String,
    agentruntime: String,
    template: String,
    result: &'static str,
}

/// The families. Clones are the same metrics.
#[derive(Clone)]
pub struct RolloutMetrics {
    active: Family<AgentLabels, Gauge>,
    step_transitions: Family<StepLabels, Counter>,
    promotions: Family<AgentLabels, Counter>,
    rollbacks: Family<ReasonLabels, Counter>,
    step_duration: Family<StepLabels, Histogram>,
    traffic_weight: Family<VariantLabels, Gauge>,
    analysis_runs: Family<AnalysisLabels, Counter>,
    /// The series whose labels cannot be listed from the agent's name alone, to end them with the agent.
    open_ended: Arc<Mutex<OpenEnded>>,
}

#[derive(Default)]
struct OpenEnded {
    rollbacks: BTreeSet<ReasonLabels>,
    analysis_runs: BTreeSet<AnalysisLabels>,
}

impl RolloutMetrics {
    /// Registers the families; `registry` has the prefix `omnia_rollout`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            active: Family::default(),
            step_transitions: Family::default(),
            promotions: Family::default(),
            rollbacks: Family::default(),
            step_duration: Family::new_with_constructor(|| Histogram::new(STEP_DURATION_BUCKETS)),
            traffic_weight: Family::default(),
            analysis_runs: Family::default(),
            open_ended: Arc::default(),
        };
        // The library appends `_total` to counters itself.
        registry.register("active", "1 while a rollout is in flight, else 0", metrics.active.clone());
        registry.register("step_transitions", "Completed steps", metrics.step_transitions.clone());
        registry.register("promotions", "Finished promotions", metrics.promotions.clone());
        registry.register("rollbacks", "Rollbacks by reason", metrics.rollbacks.clone());
        registry.register(
            "step_duration_seconds",
            "How long completed steps took from when they were entered",
            metrics.step_duration.clone(),
        );
        registry.register("traffic_weight", "Delivered share of traffic in percent", metrics.traffic_weight.clone());
        registry.register("analysis_runs", "Completed analysis runs", metrics.analysis_runs.clone());
        metrics
    }

    /// Whether a rollout of the agent is in flight.
    pub fn set_active(&self, agent: &AgentKey, is_active: bool) {
        self.active.get_or_create(&labels(agent)).set(i64::from(is_active));
    }

    /// A step was completed, `took` after it was entered.
    pub fn step_completed(&self, agent: &AgentKey, step: StepType, took: Duration) {
        let labels = step_labels(agent, step);
        self.step_transitions.get_or_create(&labels).inc();
        self.step_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// This share of traffic reaches the candidate, the rest reaches stable.
    pub fn set_weight(&self, agent: &AgentKey, candidate: Weight) {
        let percent = i64::from(candidate.percent());
        let [stable, canary] = VARIANTS.map(|variant| variant_labels(agent, variant));
        self.traffic_weight.get_or_create(&stable).set(100 - percent);
        self.traffic_weight.get_or_create(&canary).set(percent);
    }

    /// A promotion is done.
    pub fn promoted(&self, agent: &AgentKey) {
        self.promotions.get_or_create(&labels(agent)).inc();
    }

    /// A rollout was rolled back; `reason` is one of a fixed set.
    pub fn rolled_back(&self, agent: &AgentKey, reason: &'static str) {
        let AgentLabels { namespace, agentruntime } = labels(agent);
        let labels = ReasonLabels { namespace, agentruntime, reason };
        self.rollbacks.get_or_create(&labels).inc();
        self.open_ended().rollbacks.insert(labels);
    }

    /// An analysis run was completed: passed or failed, never undecided.
    pub fn analysis_completed(&self, agent: &AgentKey, template: &str, has_passed: bool) {
        let AgentLabels { namespace, agentruntime } = labels(agent);
        let result = if has_passed { "pass" } else { "fail" };
        let labels = AnalysisLabels { namespace, agentruntime, template: template.to_owned(), result };
        self.analysis_runs.get_or_create(&labels).inc();
        self.open_ended().analysis_runs.insert(labels);
    }

    /// The agent is gone: so are its series.
    pub fn forget(&self, agent: &AgentKey) {
        let agent_labels = labels(agent);
        self.active.remove(&agent_labels);
        self.promotions.remove(&agent_labels);
        for step in StepType::ALL {
            self.step_transitions.remove(&step_labels(agent, step));
            self.step_duration.remove(&step_labels(agent, step));
        }
        for variant in VARIANTS {
            self.traffic_weight.remove(&variant_labels(agent, variant));
        }
        let is_its = |namespace: &str, name: &str| namespace == agent.namespace && name == agent.name;
        let mut open_ended = self.open_ended();
        let gone: Vec<_> =
            open_ended.rollbacks.extract_if(.., |labels| is_its(&labels.namespace, &labels.agentruntime)).collect();
        for labels in gone {
            self.rollbacks.remove(&labels);
        }
        let gone: Vec<_> =
            open_ended.analysis_runs.extract_if(.., |labels| is_its(&labels.namespace, &labels.agentruntime)).collect();
        for labels in gone {
            self.analysis_runs.remove(&labels);
        }
    }

    fn open_ended(&self) -> std::sync::MutexGuard<'_, OpenEnded> {
        self.open_ended.lock().expect("no holder of the label sets panics")
    }
}

fn labels(agent: &AgentKey) -> AgentLabels {
    AgentLabels { namespace: agent.namespace.clone(), agentruntime: agent.name.clone() }
}

fn step_labels(agent: &AgentKey, step: StepType) -> StepLabels {
    let AgentLabels { namespace, agentruntime } = labels(agent);
    StepLabels { namespace, agentruntime, step_type: step.as_str() }
}

fn variant_labels(agent: &AgentKey, variant: &'static str) -> VariantLabels {
    let AgentLabels { namespace, agentruntime } = labels(agent);
    VariantLabels { namespace, agentruntime, variant }
}
