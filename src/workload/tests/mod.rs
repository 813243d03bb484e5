//! The rendering, by topic; `snapshots/` holds a full stable and a full candidate.

mod candidate;
mod hash;
mod pods;
mod shared;
mod tools;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::api::names;
use crate::ids::{AgentKey, Digest};
use crate::object::Object;

/// An agent and what it resolved to, to be changed by a test.
struct Fixture {
    agent: Value,
    pack: Value,
    registry: Option<Value>,
    providers: Vec<(&'static str, Option<Value>)>,
    credential: Option<Digest>,
    settings: WorkloadSettings,
    peers: BTreeMap<AgentKey, String>,
    replicas: Option<u32>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            agent: json!({
                "apiVersion": "omnia.altairalabs.ai/v1alpha1",
                "kind": "AgentRuntime",
                "metadata": {"name": "support", "namespace": "shop", "uid": "uid-1", "generation": 3},
                "spec": {
                    "facades": [{"type": "websocket"}],
                    "promptPackRef": {"name": "support-pack", "version": "1.0.0"},
                    "providers": [{"name": "default", "providerRef": {"name": "claude"}}],
                },
            }),
            pack: pack("pp-1", "1.0.0", "pack-1"),
            registry: None,
            providers: vec![("default", Some(provider("claude", "sonnet")))],
            credential: None,
            settings: WorkloadSettings::default(),
            peers: BTreeMap::new(),
            replicas: Some(1),
        }
    }

    fn with(mut self, path: &[&str], value: Value) -> Self {
        set(&mut self.agent, path, value);
        self
    }

    fn facades(self, facades: Value) -> Self {
        self.with(&["spec", "facades"], facades)
    }

    fn render(&self, track: Track) -> Result<Vec<Object>, RenderError> {
        self.inputs(track, render)
    }

    fn inputs<T>(&self, track: Track, then: impl FnOnce(&Inputs<'_>) -> T) -> T {
        let object = |value: &Value| Object::from_value(value.clone()).unwrap();
        let agent = object(&self.agent);
        let pack = object(&self.pack);
        let registry = self.registry.as_ref().map(object);
        let providers: Vec<(&str, Option<Object>)> =
            self.providers.iter().map(|(name, provider)| (*name, provider.as_ref().map(object))).collect();
        let providers: Vec<ResolvedProvider<'_>> = providers
            .iter()
            .map(|(name, object)| ResolvedProvider {
                name,
                object: object.as_ref(),
                credential: self.credential.as_ref(),
            })
            .collect();
        then(&Inputs {
            agent: &agent,
            track,
            pack: &pack,
            providers: &providers,
            tool_registry: registry.as_ref(),
            variant: &Digest::new("0123abcd"),
            replicas: self.replicas,
            progress_deadline_seconds: None,
            waypoint: None,
            a2a_peers: &self.peers,
            settings: &self.settings,
        })
    }

    #[track_caller]
    fn deployment(&self, track: Track) -> Object {
        self.render(track).unwrap().pop().unwrap()
    }

    #[track_caller]
    fn hash(&self, track: Track) -> String {
        let deployment = self.deployment(track);
        let annotations = deployment.at("/spec/template/metadata/annotations").unwrap();
        annotations["omnia.altairalabs.ai/config-hash"].as_str().unwrap().to_owned()
    }
}

fn pack(name: &str, version: &str, config_map: &str) -> Value {
    json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "PromptPack",
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {
            "packName": "support-pack",
            "version": version,
            "source": {"type": "configmap", "configMapRef": {"name": config_map}},
        },
    })
}

fn provider(name: &str, model: &str) -> Value {
    json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "Provider",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "claude", "model": model},
    })
}

fn registry(name: &str) -> Value {
    json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "ToolRegistry",
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"handlers": [{
            "name": "weather",
            "type": "http",
            "tool": {"name": "weather", "description": "Tells the weather.", "inputSchema": {"type": "object"}},
            "httpConfig": {"endpoint": "http://weather/now", "method": "POST"},
            "auth": {"type": "bearer", "secretRef": {"name": "weather-token", "key": "token"}},
        }]},
    })
}

fn set(value: &mut Value, path: &[&str], new: Value) {
    let mut at = value;
    for key in path {
        at = match key.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[*key],
        };
    }
    *at = new;
}

#[track_caller]
fn container<'a>(deployment: &'a Object, name: &str) -> &'a Value {
    let containers = deployment.at("/spec/template/spec/containers").unwrap().as_array().unwrap();
    containers.iter().find(|container| container["name"] == name).unwrap()
}

/// Name and value of the variables, those from elsewhere as `<JSON>`.
#[track_caller]
fn env(deployment: &Object, name: &str) -> Vec<(String, String)> {
    let entries = container(deployment, name)["env"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| {
            let value = entry["value"].as_str().map_or_else(|| entry["valueFrom"].to_string(), str::to_owned);
            (entry["name"].as_str().unwrap().to_owned(), value)
        })
        .collect()
}

#[track_caller]
fn variable(deployment: &Object, container: &str, name: &str) -> Option<String> {
    let mut values = env(deployment, container).into_iter().filter(|(other, _)| other == name).map(|(_, value)| value);
    let value = values.next();
    assert_eq!(values.next(), None, "{name} is there twice");
    value
}

fn names_of(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| object.key().to_string()).collect()
}

fn mounts(deployment: &Object, name: &str) -> Vec<String> {
    let mounts = container(deployment, name)["volumeMounts"].as_array().cloned().unwrap_or_default();
    mounts.iter().map(|mount| mount["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_stable_agent_with_everything_is_rendered_as_the_images_expect_it() {
    let deployment = full().deployment(Track::Stable);
    insta::assert_snapshot!("stable", serde_saphyr::to_string(&deployment.into_value()).unwrap());
}

#[test]
fn a_candidate_with_everything_is_rendered_as_the_images_expect_it() {
    let objects = full().render(Track::Candidate).unwrap();
    let all: Vec<Value> = objects.into_iter().map(Object::into_value).collect();
    insta::assert_snapshot!("candidate", serde_saphyr::to_string(&all).unwrap());
}

/// An agent that uses everything at once.
fn full() -> Fixture {
    let mut fixture = Fixture {
        registry: Some(registry("tools-v2")),
        credential: Some(Digest::new("secret-digest")),
        replicas: Some(3),
        ..Fixture::new()
    };
    fixture.pack["spec"]["skills"] = json!([{"source": "skills"}]);
    fixture.settings.tracing_endpoint = Some("http://tempo:4317".into());
    fixture.settings.management_jwks_url = Some("http://dashboard/jwks".into());
    fixture.settings.session_api_token =
        Some(SessionApiToken { audience: "session-api".into(), ..SessionApiToken::default() });
    fixture.settings.workspace_content = true;
    let workspace = Workspace {
        name: "shop-workspace".into(),
        uid: Some("workspace-uid".into()),
        pod_labels: BTreeMap::from([("azure.workload.identity/use".into(), "true".into())]),
        ..Workspace::default()
    };
    fixture.settings.workspaces.insert("shop".into(), workspace);
    fixture.agent["metadata"]["annotations"] = json!({"omnia.altairalabs.ai/mock-provider": "true"});
    let spec = &mut fixture.agent["spec"];
    spec["mode"] = "agent".into();
    spec["facades"] = json!([{
        "type": "websocket", "port": 8443, "drainTimeout": "2m", "extraEnv": [{"name": "LOG_LEVEL", "value": "debug"}],
    }]);
    spec["toolRegistryRef"] = json!({"name": "tools-v1"});
    spec["context"] = json!({"type": "redis", "storeRef": {"name": "redis"}});
    spec["memory"] = json!({"enabled": true});
    spec["media"] = json!({"storage": {"type": "local", "local": {"basePath": "/media", "volumeClaim": "media"}}});
    spec["runtime"] = json!({
        "replicas": 3,
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "volumes": [{"name": "mocks", "configMap": {"name": "mocks"}}],
        "volumeMounts": [{"name": "mocks", "mountPath": "/mocks"}],
        "extraEnv": [{"name": "MODEL_CACHE", "value": "/mocks"}],
    });
    spec["podOverrides"] = json!({
        "labels": {"team": "blue"},
        "annotations": {"note": "kept"},
        "nodeSelector": {"arch": "arm64"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraEnvFrom": [{"configMapRef": {"name": "flags"}}],
        "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": true}],
    });
    spec["rollout"] = json!({
        "candidate": {
            "promptPackRef": {"name": "support-pack", "version": "2.0.0"},
            "toolRegistryRef": {"name": "tools-v2"},
        },
        "steps": [{"setWeight": 100}],
    });
    fixture
}
