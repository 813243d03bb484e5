//! The rendered objects on a real API server: it takes them as they are, keeps every field as it was rendered, and a
//! second apply finds nothing to do.

use std::collections::BTreeMap;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use serin::ids::Digest;
use serin::object::{Kind, Object};
use serin::workload::{Inputs, ResolvedProvider, Track, WorkloadSettings, render};

use crate::crds::{assert_within, plane};
use crate::support::control_plane::{ControlPlane, User};
use crate::support::until;

fn path(kind: &Kind, namespace: &str) -> String {
    let group = match kind.group.as_ref() {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let plural = format!("{}s", kind.kind.to_lowercase());
    format!("{group}/namespaces/{namespace}/{plural}")
}

async fn apply(client: &kube::Client, object: &Object) -> Value {
    let key = object.key();
    let patch = Patch::Apply(object.clone().into_value());
    let params = PatchParams::apply("serin-rollout").force();
    let request = kube::core::Request::new(path(&key.kind, &key.namespace)).patch(&key.name, &params, &patch);
    client.request(request.expect("a request")).await.unwrap_or_else(|error| panic!("{key}: {error}"))
}

async fn agent(plane: &ControlPlane, namespace: &str) -> Object {
    let agent = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": {"name": "support"},
        "spec": {
            "facades": [
                {"type": "websocket", "drainTimeout": "1m", "extraEnv": [{"name": "LOG_LEVEL", "value": "debug"}]},
                {"type": "a2a", "a2a": {"taskStore": {"type": "memory"}}},
            ],
            "promptPackRef": {"name": "support-pack", "version": "1.0.0"},
            "providers": [{"name": "default", "providerRef": {"name": "claude"}}],
            "toolRegistryRef": {"name": "tools-v1"},
            "context": {"type": "redis", "storeRef": {"name": "redis"}},
            "runtime": {
                "replicas": 2,
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "volumes": [{"name": "mocks", "configMap": {"name": "mocks"}}],
                "volumeMounts": [{"name": "mocks", "mountPath": "/mocks"}],
            },
            "podOverrides": {
                "labels": {"team": "blue"},
                "extraEnv": [{"name": "LOG_LEVEL", "value": "trace"}],
                "extraEnvFrom": [{"configMapRef": {"name": "flags"}}],
                "imagePullSecrets": [{"name": "registry"}],
            },
            "rollout": {
                "candidate": {"toolRegistryRef": {"name": "tools-v2"}},
                "steps": [{"setWeight": 50}],
            },
        },
    });
    let client = plane.client(User::Admin).await;
    let body = serde_json::to_vec(&agent).expect("JSON");
    let request = kube::core::Request::new(path(&Kind::AGENT_RUNTIME, namespace)).create(&PostParams::default(), body);
    let created = client.request(request.expect("a request")).await.expect("a valid agent");
    Object::from_value(created).expect("an object")
}

fn pack(namespace: &str) -> Object {
    let pack = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "PromptPack",
        "metadata": {"name": "pp-1", "namespace": namespace, "generation": 1},
        "spec": {
            "packName": "support-pack", "version": "1.0.0",
            "source": {"type": "configmap", "configMapRef": {"name": "pack-1"}},
        },
    });
    Object::from_value(pack).expect("an object")
}

fn registry(namespace: &str) -> Object {
    let registry = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "ToolRegistry",
        "metadata": {"name": "tools-v2", "namespace": namespace, "generation": 1},
        "spec": {"handlers": [{
            "name": "weather",
            "type": "http",
            "tool": {"name": "weather", "description": "Tells the weather.", "inputSchema": {"type": "object"}},
            "httpConfig": {"endpoint": "http://weather/now"},
            "auth": {"type": "bearer", "secretRef": {"name": "weather-token", "key": "token"}},
        }]},
    });
    Object::from_value(registry).expect("an object")
}

fn rendered(agent: &Object, track: Track) -> Vec<Object> {
    let settings = WorkloadSettings { session_api_token: Some(Default::default()), ..WorkloadSettings::default() };
    let pack = pack(agent.namespace());
    let registry = registry(agent.namespace());
    let objects = render(&Inputs {
        agent,
        track,
        pack: &pack,
        providers: &[ResolvedProvider { name: "default", object: None, credential: None }],
        tool_registry: Some(&registry),
        variant: &Digest::new("0123abcd"),
        replicas: Some(1),
        progress_deadline_seconds: Some(300),
        waypoint: None,
        a2a_peers: &BTreeMap::new(),
        settings: &settings,
    });
    objects.expect("an agent that can run")
}

#[tokio::test]
async fn the_api_server_keeps_every_rendered_field_as_it_is() {
    let plane = plane().await;
    let namespace = plane.namespace().await;
    let client = plane.client(User::Admin).await;
    let agent = agent(plane, &namespace).await;
    for track in [Track::Stable, Track::Candidate] {
        for object in rendered(&agent, track) {
            let live = apply(&client, &object).await;
            assert_within(&object.clone().into_value(), &live);
        }
    }
}

#[tokio::test]
async fn a_second_apply_changes_nothing() {
    let plane = plane().await;
    let namespace = plane.namespace().await;
    let client = plane.client(User::Admin).await;
    let agent = agent(plane, &namespace).await;
    for track in [Track::Stable, Track::Candidate] {
        for object in rendered(&agent, track) {
            let first = apply(&client, &object).await;
            let second = apply(&client, &object).await;
            // Its status moves on; what was applied does not.
            assert_eq!(first["metadata"]["generation"], second["metadata"]["generation"], "{:?}", object.key());
            assert_eq!(first["spec"], second["spec"]);
        }
    }
}

#[tokio::test]
async fn the_service_finds_the_pods_of_both_tracks() {
    let plane = plane().await;
    let namespace = plane.namespace().await;
    let client = plane.client(User::Admin).await;
    let agent = agent(plane, &namespace).await;
    let mut selector = String::new();
    for track in [Track::Stable, Track::Candidate] {
        for object in rendered(&agent, track) {
            let live = apply(&client, &object).await;
            if let Some(labels) = live.pointer("/spec/selector").and_then(Value::as_object)
                && object.key().kind == Kind::SERVICE
            {
                let labels = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap()));
                selector = labels.collect::<Vec<_>>().join(",");
            }
        }
    }
    let list = ListParams::default().labels(&selector);
    until("a pod of each track is behind the Service", || async {
        let request = kube::core::Request::new(format!("/api/v1/namespaces/{namespace}/pods")).list(&list).unwrap();
        let pods: Value = client.request(request).await.unwrap();
        let mut tracks: Vec<Value> = pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["metadata"]["labels"]["omnia.altairalabs.ai/track"].clone())
            .collect();
        tracks.sort_by_key(Value::to_string);
        tracks == [json!("canary"), json!("stable")]
    })
    .await;
}
