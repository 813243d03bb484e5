//! One agent as `serin status` shows it: from objects to rows, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::api::names::candidate_deployment;
use crate::ids::Weight;
use crate::object::Object;
use crate::writeback::status_branch::AgentStatus;

/// One agent. The field names are those of `-o json`, a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether a rollout is in flight.
    pub active: bool,
    /// The step in progress, from 1; as many as there are steps while it promotes.
    pub step: Option<usize>,
    /// How many steps there are.
    pub steps: usize,
    /// The candidate's share of traffic that the step asks for, in percent.
    pub requested_weight: Option<i64>,
    /// The candidate's share of the pods that are available, in percent.
    pub delivered_weight: Option<i64>,
    /// The version that stable runs.
    pub stable_version: Option<String>,
    /// The version under trial.
    pub candidate_version: Option<String>,
    /// What it waits for.
    pub message: Option<String>,
    /// How old the agent is, in seconds.
    pub age_seconds: Option<i64>,
}

/// The rows of `agents` in the order of namespace and name. `deployments` may hold others'.
pub fn agent_rows(agents: &[Arc<Object>], deployments: &[Arc<Object>], now: Timestamp) -> Vec<AgentRow> {
    let deployments: BTreeMap<(&str, &str), &Object> =
        deployments.iter().map(|object| ((object.namespace(), object.name()), &**object)).collect();
    let mut rows: Vec<AgentRow> = agents.iter().map(|agent| agent_row(agent, &deployments, now)).collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    rows
}

fn agent_row(agent: &Object, deployments: &BTreeMap<(&str, &str), &Object>, now: Timestamp) -> AgentRow {
    let (namespace, name) = (agent.namespace(), agent.name());
    let text = |pointer| agent.text(pointer).filter(|text| !text.is_empty()).map(str::to_owned);
    let is_active = agent.at("/status/rollout/active").and_then(Value::as_bool).unwrap_or(false);
    let steps = agent.at("/spec/rollout/steps").and_then(Value::as_array).map_or(0, Vec::len);
    let current = agent.integer("/status/rollout/currentStep").and_then(|step| usize::try_from(step).ok());
    let candidate_name = candidate_deployment(name);
    // `<agent>-canary` may be another agent's stable Deployment: its owner tells.
    let is_ours = |object: &&&Object| agent.uid().is_none_or(|uid| object.is_controlled_by(&uid));
    let available = |deployment: &str| {
        let object = deployments.get(&(namespace, deployment)).filter(is_ours);
        object.map(|object| object.integer("/status/availableReplicas").unwrap_or(0))
    };
    let phase = text("/status/phase").filter(|phase| phase != "Running");
    AgentRow {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        active: is_active,
        step: current.filter(|_| is_active).map(|step| (step + 1).min(steps)),
        steps,
        requested_weight: agent.integer("/status/rollout/currentWeight").filter(|_| is_active),
        delivered_weight: delivered(available(name), available(&candidate_name)).filter(|_| is_active),
        stable_version: text("/status/rollout/stableVersion").or_else(|| text("/status/activeVersion")),
        candidate_version: text("/status/rollout/candidateVersion").filter(|_| is_active),
        message: text("/status/rollout/message").or(phase),
        age_seconds: agent
            .text("/metadata/creationTimestamp")
            .and_then(|created| created.parse::<Timestamp>().ok())
            .map(|created| now.duration_since(created).as_secs().max(0)),
    }
}

/// The row of an agent as the status branch tells of it. How old it is, the branch does not say.
pub(super) fn row_of_status(status: &AgentStatus) -> AgentRow {
    let percent = |weight: Option<Weight>| weight.map(|weight| i64::from(weight.percent()));
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let is_active = status.rollout.is_some();
    AgentRow {
        namespace: status.agent.namespace.clone(),
        name: status.agent.name.clone(),
        active: is_active,
        step: status.step.map(|step| number(step.number)),
        steps: status.step.map_or(0, |step| number(step.of)),
        requested_weight: percent(status.requested_weight),
        delivered_weight: percent(status.delivered_weight),
        stable_version: status.stable_version.clone(),
        candidate_version: status.candidate_version.clone(),
        message: status.waiting_for.clone().or_else(|| (status.phase != "idle").then(|| status.phase.clone())),
        age_seconds: None,
    }
}

/// The candidate's share of the available pods in percent, to the nearest whole one; `None` while there
/// are no pods to share.
pub(super) fn delivered(stable: Option<i64>, candidate: Option<i64>) -> Option<i64> {
    let candidate = candidate.unwrap_or(0);
    let all = stable? + candidate;
    (all > 0).then(|| (candidate * 200 + all) / (all * 2))
}

impl AgentRow {
    /// The cells of the table.
    pub(super) fn cells(&self) -> [String; 9] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let percent = |weight: Option<i64>| or_dash(weight.map(|weight| format!("{weight}%")));
        [
            self.namespace.clone(),
            self.name.clone(),
            or_dash(self.step.map(|step| format!("{step}/{}", self.steps))),
            percent(self.requested_weight),
            percent(self.delivered_weight),
            or_dash(self.stable_version.clone()),
            or_dash(self.candidate_version.clone()),
            or_dash(self.age_seconds.map(render_age)),
            self.message.clone().unwrap_or_default(),
        ]
    }
}

/// An age as kubectl shows it: the two largest units where the first is small.
pub(super) fn render_age(seconds: i64) -> String {
    let age = SignedDuration::from_secs(seconds);
    let (minutes, hours) = (age.as_mins(), age.as_hours());
    let days = hours / 24;
    match seconds {
        _ if days >= 8 => format!("{days}d"),
        _ if days >= 2 && hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        _ if days >= 2 => format!("{days}d"),
        _ if hours >= 8 => format!("{hours}h"),
        _ if hours >= 3 && minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        _ if hours >= 3 => format!("{hours}h"),
        _ if minutes >= 10 => format!("{minutes}m"),
        _ if minutes >= 2 && seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        _ if minutes >= 2 => format!("{minutes}m"),
        _ => format!("{seconds}s"),
    }
}
