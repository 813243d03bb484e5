//! Labels, and the pod template of a track.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::container::render_containers;
use super::json::{list, map, object, present, text};
use super::volumes::Volumes;
use super::{Effective, Facades, Inputs, RenderError, Track, config_hash};
use crate::api::names;
use crate::object::Object;

/// User and group of the stock images. Named, so that admission can see that it is not root, and so that volumes
/// belong to it.
const USER: u32 = 65532;

/// Ports that scrapers reach without the mesh's sidecar: metrics of the facade, the runtime and the policy broker.
const METRICS_PORTS: &str = "8081,9001,8091";

/// The labels by which an agent's Service finds the pods of both its tracks.
pub(super) fn agent_labels(agent: &str) -> Map<String, Value> {
    let mut labels = owned_labels(agent);
    labels.insert("omnia.altairalabs.ai/component".into(), "agent".into());
    labels
}

/// The labels of everything that belongs to an agent.
pub(super) fn owned_labels(agent: &str) -> Map<String, Value> {
    let labels = [
        ("app.kubernetes.io/name", "omnia-agent"),
        ("app.kubernetes.io/instance", agent),
        ("app.kubernetes.io/managed-by", "omnia-operator"),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// The labels by which a Deployment finds its pods. They can never change, so nothing of the spec is in them.
pub(super) fn selector_labels(agent: &str, track: Track) -> Map<String, Value> {
    let mut labels = agent_labels(agent);
    labels.insert(names::TRACK_LABEL.into(), track.label().into());
    labels
}

/// The labels of the pods and of their Deployment: ours win over the user's, because Services depend on them.
pub(super) fn pod_labels(inputs: &Inputs<'_>) -> Map<String, Value> {
    let mut labels = Map::new();
    if let Some(workspace) = inputs.workspace() {
        add(&mut labels, &workspace.pod_labels);
    }
    labels.extend(map(inputs.spec(), "/podOverrides/labels").cloned().unwrap_or_default());
    let mode = text(inputs.spec(), "/mode").unwrap_or("agent");
    labels.insert("omnia.altairalabs.ai/mode".into(), mode.into());
    labels.extend(selector_labels(inputs.agent.name(), inputs.track));
    labels
}

/// The ServiceAccount that the pods run as.
pub(super) fn service_account(agent: &Object, workspace: Option<&super::Workspace>) -> String {
    agent
        .text("/spec/podOverrides/serviceAccountName")
        .or(workspace.and_then(|workspace| workspace.service_account.as_deref()))
        .filter(|name| !name.is_empty())
        .map_or_else(|| names::facade_account(agent.name()), str::to_owned)
}

/// The pod template.
pub(super) fn render_template(inputs: &Inputs<'_>, labels: Map<String, Value>) -> Result<Value, RenderError> {
    let spec = inputs.spec();
    let facades = Facades::of(inputs.agent).ok_or(RenderError::NoFacade)?;
    let mut volumes = Volumes::of(inputs);
    let containers = render_containers(inputs, &facades, &volumes)?;
    let pod = object([
        ("serviceAccountName", Some(service_account(inputs.agent, inputs.workspace()).into())),
        ("securityContext", Some(security_context())),
        ("terminationGracePeriodSeconds", Some(facades.grace_period_seconds().into())),
        ("containers", Some(containers.into())),
        ("volumes", Some(std::mem::take(&mut volumes.volumes)).filter(|all| !all.is_empty()).map(Value::from)),
        ("nodeSelector", merged(spec, "/runtime/nodeSelector", "/podOverrides/nodeSelector")),
        ("tolerations", joined(spec, "/runtime/tolerations", "/podOverrides/tolerations")),
        ("affinity", map(spec, "/runtime/affinity").cloned().map(Value::Object)),
        ("topologySpreadConstraints", topology_spread(inputs)),
        ("priorityClassName", text(spec, "/podOverrides/priorityClassName").map(Value::from)),
        ("imagePullSecrets", joined(spec, "/podOverrides/imagePullSecrets", "")),
    ]);
    // Moved and not by `json!`, which copies what is put into it.
    let metadata = object([("labels", Some(labels.into())), ("annotations", Some(annotations(inputs).into()))]);
    Ok(object([("metadata", Some(metadata)), ("spec", Some(pod))]))
}

fn annotations(inputs: &Inputs<'_>) -> Map<String, Value> {
    let spec = inputs.spec();
    let mut annotations = Map::new();
    annotations.insert("traffic.sidecar.istio.io/excludeInboundPorts".into(), METRICS_PORTS.into());
    let hash = config_hash(
        inputs.agent.namespace(),
        Some(inputs.pack),
        &Effective::of(inputs.agent, inputs.track),
        inputs.tool_registry,
        inputs.providers,
    );
    if let Some(hash) = hash {
        annotations.insert("omnia.altairalabs.ai/config-hash".into(), hash.into());
    }
    annotations.extend(map(spec, "/extraPodAnnotations").cloned().unwrap_or_default());
    if let Some(workspace) = inputs.workspace() {
        add(&mut annotations, &workspace.pod_annotations);
    }
    annotations.extend(map(spec, "/podOverrides/annotations").cloned().unwrap_or_default());
    annotations
}

fn security_context() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// By the agent's size and not by this Deployment's: a weight moves pods from one to the other, and must not
/// change their template.
fn topology_spread(inputs: &Inputs<'_>) -> Option<Value> {
    let spec = inputs.spec();
    let replicas = present(spec, "/runtime/replicas").and_then(Value::as_u64).unwrap_or(1);
    (replicas > 1 && present(spec, "/runtime/affinity").is_none()).then(|| {
        json!([{
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector_labels(inputs.agent.name(), inputs.track)},
        }])
    })
}

fn merged(spec: &Value, base: &str, over: &str) -> Option<Value> {
    let mut all = map(spec, base).cloned().unwrap_or_default();
    all.extend(map(spec, over).cloned().unwrap_or_default());
    (!all.is_empty()).then(|| all.into())
}

fn joined(spec: &Value, first: &str, second: &str) -> Option<Value> {
    let all: Vec<Value> = list(spec, first).iter().chain(list(spec, second)).cloned().collect();
    (!all.is_empty()).then(|| all.into())
}

fn add(map: &mut Map<String, Value>, entries: &BTreeMap<String, String>) {
    map.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone().into())));
}
