//! The containers of a pod: facade and runtime, or one that is both.

use serde_json::{Value, json};

use super::environment::{self, FACADE_HEALTH_PORT, GRPC_PORT, RUNTIME_HEALTH_PORT};
use super::json::{list, map, object, text};
use super::volumes::Volumes;
use super::{Facades, Inputs, RenderError};

/// The facade image where nothing names one.
const DEFAULT_FACADE_IMAGE: &str = "ghcr.io/altairalabs/omnia-facade:latest";
/// The runtime image of `promptkit`, the only framework with one, where nothing names one.
const DEFAULT_RUNTIME_IMAGE: &str = "ghcr.io/altairalabs/omnia-runtime:latest";
const DEFAULT_FRAMEWORK: &str = "promptkit";

/// How long a pod that is to end keeps serving: until all routers have heard of it. The images get SIGTERM after it.
const PRE_STOP_SECONDS: u32 = 5;

/// The containers of the pod.
pub(super) fn render_containers(
    inputs: &Inputs<'_>,
    facades: &Facades<'_>,
    volumes: &Volumes,
) -> Result<Vec<Value>, RenderError> {
    if facades.is_standalone_a2a() {
        return Ok(vec![standalone_a2a(inputs, facades, volumes)]);
    }
    Ok(vec![facade(inputs, facades, volumes), runtime(inputs, facades, volumes)?])
}

fn facade(inputs: &Inputs<'_>, facades: &Facades<'_>, volumes: &Volumes) -> Value {
    let mut ports = vec![port("facade", facades.port()), port("metrics", FACADE_HEALTH_PORT)];
    ports.extend(facades.second_a2a_port().map(|number| port("a2a", number)));
    ports.extend(facades.mcp_port().map(|number| port("mcp", number)));
    object([
        ("name", Some("facade".into())),
        ("image", Some(facade_image(inputs, facades).into())),
        ("imagePullPolicy", Some(pull_policy(inputs.settings.facade_pull_policy.as_deref()).into())),
        ("ports", Some(ports.into())),
        ("env", Some(environment::facade(inputs, facades).into())),
        ("envFrom", env_from(inputs)),
        ("volumeMounts", non_empty(&volumes.facade)),
        ("readinessProbe", Some(readiness("/readyz", FACADE_HEALTH_PORT))),
        ("livenessProbe", Some(liveness(FACADE_HEALTH_PORT))),
        ("lifecycle", Some(pre_stop())),
        ("securityContext", Some(security_context())),
    ])
}

fn runtime(inputs: &Inputs<'_>, facades: &Facades<'_>, volumes: &Volumes) -> Result<Value, RenderError> {
    Ok(object([
        ("name", Some("runtime".into())),
        ("image", Some(runtime_image(inputs)?.into())),
        ("imagePullPolicy", Some(pull_policy(inputs.settings.framework_pull_policy.as_deref()).into())),
        ("ports", Some(json!([port("grpc", GRPC_PORT), port("metrics", RUNTIME_HEALTH_PORT)]))),
        ("env", Some(environment::runtime(inputs, facades).into())),
        ("envFrom", env_from(inputs)),
        ("volumeMounts", non_empty(&volumes.runtime)),
        ("readinessProbe", Some(readiness("/healthz", RUNTIME_HEALTH_PORT))),
        ("livenessProbe", Some(liveness(RUNTIME_HEALTH_PORT))),
        ("resources", resources(inputs)),
        ("securityContext", Some(security_context())),
    ]))
}

fn standalone_a2a(inputs: &Inputs<'_>, facades: &Facades<'_>, volumes: &Volumes) -> Value {
    object([
        ("name", Some("facade".into())),
        ("image", Some(facade_image(inputs, facades).into())),
        ("imagePullPolicy", Some(pull_policy(inputs.settings.facade_pull_policy.as_deref()).into())),
        ("ports", Some(json!([port("facade", facades.port())]))),
        ("env", Some(environment::standalone_a2a(inputs, facades).into())),
        ("envFrom", env_from(inputs)),
        ("volumeMounts", non_empty(&volumes.runtime)),
        ("readinessProbe", Some(readiness("/readyz", facades.port()))),
        ("livenessProbe", Some(liveness(facades.port()))),
        ("lifecycle", Some(pre_stop())),
        ("resources", resources(inputs)),
        ("securityContext", Some(security_context())),
    ])
}

fn facade_image<'a>(inputs: &'a Inputs<'_>, facades: &'a Facades<'_>) -> &'a str {
    text(facades.primary(), "/image")
        .or(inputs.settings.facade_image.as_deref().filter(|image| !image.is_empty()))
        .unwrap_or(DEFAULT_FACADE_IMAGE)
}

/// Never the image of another framework: an agent would run, and be another one.
fn runtime_image<'a>(inputs: &'a Inputs<'_>) -> Result<&'a str, RenderError> {
    let spec = inputs.spec();
    let framework = text(spec, "/framework/type").unwrap_or(DEFAULT_FRAMEWORK);
    text(spec, "/framework/image")
        .or(inputs.settings.framework_images.get(framework).map(String::as_str).filter(|image| !image.is_empty()))
        .or((framework == DEFAULT_FRAMEWORK).then_some(DEFAULT_RUNTIME_IMAGE))
        .ok_or_else(|| RenderError::FrameworkImageUnavailable { framework: framework.to_owned() })
}

fn pull_policy(setting: Option<&str>) -> &str {
    setting.filter(|policy| !policy.is_empty()).unwrap_or("IfNotPresent")
}

fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "containerPort": number, "protocol": "TCP"})
}

fn readiness(path: &str, port: u16) -> Value {
    json!({"httpGet": {"path": path, "port": port}, "initialDelaySeconds": 5, "periodSeconds": 10})
}

fn liveness(port: u16) -> Value {
    json!({"httpGet": {"path": "/healthz", "port": port}, "initialDelaySeconds": 15, "periodSeconds": 20})
}

fn pre_stop() -> Value {
    json!({"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}})
}

fn security_context() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn resources(inputs: &Inputs<'_>) -> Option<Value> {
    map(inputs.spec(), "/runtime/resources").cloned().map(Value::Object)
}

fn env_from(inputs: &Inputs<'_>) -> Option<Value> {
    non_empty(list(inputs.spec(), "/podOverrides/extraEnvFrom"))
}

fn non_empty(values: &[Value]) -> Option<Value> {
    (!values.is_empty()).then(|| values.to_vec().into())
}
