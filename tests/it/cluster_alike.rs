//! The simulated cluster beside the real one: seeded sequences of applies and edits, after each of which both must
//! hold the same object with the same owners, and [`difference`] must have foretold what the real one did.
//!
//! The cases of the contract are those that somebody thought of; these are the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde_json::{Map, Value, json};
use serin::apply::{Difference, difference};
use serin::clock::{SimulatedClock, SystemClock};
use serin::cluster::api_server::{ApiServer, Settings};
use serin::cluster::simulated::{Sequence, SimulatedCluster};
use serin::cluster::{Apply, Cluster, ClusterError, Expect, FieldManager, Part};
use serin::object::{Kind, Object, ObjectKey};

use crate::support::control_plane::{ControlPlane, User};

const SEEDS: u64 = 12;
const WRITES: u64 = 25;

#[tokio::test]
async fn the_simulated_cluster_and_the_real_one_store_the_same() {
    let plane = ControlPlane::shared();
    plane.install_serin_crds().await;
    let client = plane.client(User::Admin).await;
    let real = ApiServer::with_client(client.clone(), Settings::watching(Vec::new()), Arc::new(SystemClock));
    let namespace = plane.namespace().await;
    let mut failures = BTreeMap::new();
    for seed in 0..SEEDS {
        for kind in [Kind::CONFIG_MAP, Kind::AGENT_RUNTIME, Kind::DEPLOYMENT, Kind::SERVICE] {
            let key = ObjectKey::new(kind, &namespace, format!("seed-{seed}"));
            if let Err(failure) = run(&real, &client, &key, seed).await {
                // One of each kind is enough to read.
                failures.entry(key.kind.clone()).or_insert(failure);
            }
        }
    }
    let failures: Vec<String> = failures.into_values().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Carries out the writes of one seed on both, until they differ.
async fn run(real: &ApiServer, client: &kube::Client, key: &ObjectKey, seed: u64) -> Result<(), String> {
    let simulated = SimulatedCluster::new(Arc::new(SimulatedClock::starting_at(Timestamp::UNIX_EPOCH)));
    let mut sequence = Sequence::of_seed(seed);
    let mut story = Vec::new();
    for _ in 0..WRITES {
        let live = real.get(key).await.expect("a read");
        if live.is_some() && sequence.is_in_percent(25) {
            let mut patch = json!({"metadata": labels(&mut sequence)});
            let fields = fields(key, &mut sequence);
            if fields.as_object().is_some_and(|fields| !fields.is_empty()) {
                patch[root(&key.kind)] = fields;
            }
            story.push(format!("a person patches {patch}"));
            edit(client, key, &patch).await.map_err(|error| format!("{error}\n{}", story.join("\n")))?;
            let result = simulated.edit("a-person", key, |object| merge(object.fields_mut(), &patch));
            result.map_err(|error| format!("{error}\n{}", story.join("\n")))?;
        } else {
            let manager = if sequence.is_in_percent(60) { FieldManager::Sync } else { FieldManager::Rollout };
            let mut desired = Object::bare(key);
            if let Value::Object(labels) = labels(&mut sequence) {
                labels.into_iter().for_each(|(name, value)| desired.set(&["metadata", &name], value));
            }
            if live.is_none() || sequence.is_in_percent(90) {
                let fields = fields(key, &mut sequence);
                if fields.as_object().is_some_and(|fields| !fields.is_empty()) {
                    desired.set(&[root(&key.kind)], fields);
                }
            }
            story.push(format!("{} applies {desired:?}", manager.as_str()));
            let foretold = difference(&desired, live.as_deref(), manager, Part::Main);
            let expect = |object: Option<&Object>| match object.and_then(Object::uid) {
                Some(uid) => Expect::Uid(uid),
                None => Expect::Absent,
            };
            let write = |expect| Apply { object: desired.clone(), manager, expect, part: Part::Main };
            let stored = real.apply(&write(expect(live.as_deref()))).await;
            let result = simulated.apply(&write(expect(simulated.live(key).as_deref()))).await;
            match (stored, live) {
                (Err(ClusterError::Invalid { why, .. }), _) => {
                    // Only the real one has a schema; what it refuses is no part of the comparison.
                    story.push(format!("refused: {why}"));
                    return Ok(());
                }
                (Err(error), _) => return Err(format!("{error}\n{}", story.join("\n"))),
                (Ok(stored), Some(live)) => {
                    let is_changed = content(&stored) != content(&live);
                    let is_foretold = matches!(foretold, Difference::Update { .. });
                    if is_foretold != is_changed {
                        let why = format!("foretold {foretold:?}, from {live:?} to {stored:?}");
                        return Err(format!("{why}\n{}", story.join("\n")));
                    }
                }
                (Ok(_), None) => assert_eq!(foretold, Difference::Create),
            }
            result.map_err(|error| format!("{error}\n{}", story.join("\n")))?;
        }
        let stored = real.get(key).await.expect("a read").expect("it was written");
        let result = simulated.live(key).expect("it was written");
        let story = story.join("\n");
        compare(&content(&result), &content(&stored), &story)?;
        compare(&owners(&result), &owners(&stored), &story)?;
    }
    Ok(())
}

/// Everything but the status, the books and what only one server can know.
fn content(object: &Object) -> Value {
    let mut object = object.clone();
    let fields = object.fields_mut();
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        for name in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
            metadata.remove(name);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove("deployment.kubernetes.io/revision");
        }
    }
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        spec.retain(|name, _| !name.starts_with("clusterIP"));
    }
    let mut content = object.into_value();
    drop_empty(&mut content);
    content
}

/// Most fields of built-in kinds lose an empty map or list on the way, custom resources keep it; it means the same.
fn drop_empty(value: &mut Value) {
    let is_full = |value: &Value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty);
            map.retain(|_, value| is_full(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// Who owns what, without times; controllers come and go as they like.
fn owners(object: &Object) -> Value {
    let entries = object.at("/metadata/managedFields").and_then(Value::as_array);
    let mut owners = BTreeMap::new();
    for entry in entries.into_iter().flatten().filter(|entry| entry["manager"] != "kube-controller-manager") {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let name = format!("{} {} {}", text("manager"), text("operation"), text("subresource"));
        let mut fields = entry["fieldsV1"].clone();
        drop_markers(&mut fields);
        if fields.as_object().is_some_and(|fields| !fields.is_empty()) {
            owners.insert(name, fields);
        }
    }
    json!(owners)
}

/// Fields of what is written here that are maps, or lists that are merged.
const MAPS: [&str; 24] = [
    "annotations",
    "capabilities",
    "configMap",
    "data",
    "env",
    "httpGet",
    "labels",
    "limits",
    "metadata",
    "nodeSelector",
    "ports",
    "providerRef",
    "providers",
    "readinessProbe",
    "resources",
    "rollingUpdate",
    "rollout",
    "runtime",
    "securityContext",
    "spec",
    "strategy",
    "template",
    "valueFrom",
    "volumes",
];

/// Which inner nodes count as members themselves depends on schemas, and decides nothing.
fn drop_markers(fields: &mut Value) {
    let Value::Object(map) = fields else { return };
    map.remove(".");
    map.retain(|name, below| {
        // A marker that is left alone is written like a leaf.
        let is_marker = name.strip_prefix("f:").is_some_and(|name| MAPS.contains(&name));
        let was_leaf = below.as_object().is_some_and(Map::is_empty) && !is_marker;
        drop_markers(below);
        was_leaf || below.as_object().is_some_and(|below| !below.is_empty())
    });
}

fn compare(simulated: &Value, real: &Value, story: &str) -> Result<(), String> {
    if simulated == real {
        return Ok(());
    }
    let text = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
    let (simulated, real) = (text(simulated), text(real));
    let diff = similar::TextDiff::from_lines(&simulated, &real);
    Err(format!("simulated < > real\n{}\n{story}", diff.unified_diff()))
}

fn root(kind: &Kind) -> &'static str {
    if *kind == Kind::CONFIG_MAP { "data" } else { "spec" }
}

fn labels(sequence: &mut Sequence) -> Value {
    let mut labels = Map::new();
    for name in ["a", "b.c/d"] {
        if sequence.is_in_percent(30) {
            labels.insert(name.to_owned(), number(sequence).to_string().into());
        }
    }
    if labels.is_empty() { json!({}) } else { json!({"labels": labels}) }
}

fn number(sequence: &mut Sequence) -> u64 {
    sequence.below(3)
}

/// Makes the value of a field.
type Maker<'a> = &'a mut dyn FnMut(&mut Sequence) -> Value;

/// Each of the fields, sometimes.
fn some(sequence: &mut Sequence, fields: &mut [(&str, Maker<'_>)]) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in fields {
        if sequence.is_in_percent(55) {
            map.insert((*name).to_owned(), value(sequence));
        }
    }
    map
}

/// Some of the items, at least one, in one order or the other.
fn items(sequence: &mut Sequence, mut all: Vec<Value>) -> Value {
    let sure = sequence.below(all.len() as u64) as usize;
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at - 1 == sure || sequence.is_in_percent(60)
    });
    if sequence.is_in_percent(30) {
        all.reverse();
    }
    all.into()
}

fn fields(key: &ObjectKey, sequence: &mut Sequence) -> Value {
    if key.kind == Kind::CONFIG_MAP {
        return some(
            sequence,
            &mut [("x", &mut |s| number(s).to_string().into()), ("y", &mut |s| number(s).to_string().into())],
        )
        .into();
    }
    if key.kind == Kind::SERVICE {
        let mut spec = some(
            sequence,
            &mut [
                ("selector", &mut |s| json!({"app": number(s).to_string()})),
                ("sessionAffinity", &mut |_| "None".into()),
                ("publishNotReadyAddresses", &mut |_| true.into()),
            ],
        );
        let target = number(sequence) + 1;
        let extra = json!({"name": "b", "port": 81, "targetPort": "facade", "appProtocol": "http"});
        let ports = items(sequence, vec![extra]);
        let first = json!({"name": "a", "port": 80, "targetPort": target});
        spec.insert("ports".into(), ports.as_array().cloned().into_iter().flatten().chain([first]).collect());
        return spec.into();
    }
    if key.kind == Kind::AGENT_RUNTIME {
        let mut spec = some(
            sequence,
            &mut [
                ("runtime", &mut |s| {
                    some(
                        s,
                        &mut [
                            ("replicas", &mut |s| number(s).into()),
                            ("extraEnv", &mut |s| {
                                items(s, vec![json!({"name": "X", "value": "1"}), json!({"name": "Y"})])
                            }),
                            // Not a map of texts: of one that is taken away the real server keeps a null.
                            ("terminationGracePeriodSeconds", &mut |s| number(s).into()),
                        ],
                    )
                    .into()
                }),
                ("providers", &mut |s| {
                    let names = [number(s).to_string(), number(s).to_string()];
                    items(
                        s,
                        vec![
                            json!({"name": "a", "providerRef": {"name": names[0]}}),
                            json!({"name": "b", "providerRef": {"name": names[1]}, "role": "embedding"}),
                        ],
                    )
                }),
                ("rollout", &mut |s| {
                    let pause = if s.is_in_percent(50) { json!({"duration": "5s"}) } else { json!({}) };
                    let weight = number(s);
                    let mut steps = items(s, vec![json!({"setWeight": weight})]);
                    steps.as_array_mut().into_iter().for_each(|steps| steps.push(json!({"pause": pause})));
                    json!({"steps": steps})
                }),
            ],
        );
        spec.insert("promptPackRef".into(), json!({"name": "pack", "version": format!("{}.0.0", number(sequence))}));
        spec.insert("facades".into(), json!([{"type": "websocket", "port": 8080 + number(sequence)}]));
        return spec.into();
    }
    let labels = json!({"app": key.name});
    let mut container = some(
        sequence,
        &mut [
            ("env", &mut |s| {
                let value = number(s).to_string();
                items(
                    s,
                    vec![
                        json!({"name": "X", "value": value}),
                        json!({"name": "Y", "value": "1"}),
                        json!({"name": "Z", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
                    ],
                )
            }),
            ("ports", &mut |s| {
                items(
                    s,
                    vec![json!({"containerPort": 80, "name": "a"}), json!({"containerPort": 81, "protocol": "UDP"})],
                )
            }),
            ("args", &mut |s| json!([number(s).to_string()])),
            ("resources", &mut |s| json!({"limits": {"cpu": number(s).to_string()}})),
            ("readinessProbe", &mut |s| json!({"httpGet": {"port": 80 + number(s)}})),
            ("imagePullPolicy", &mut |_| "Never".into()),
            ("securityContext", &mut |s| json!({"runAsUser": number(s), "capabilities": {"drop": ["ALL"]}})),
        ],
    );
    container.insert("name".into(), "main".into());
    container.insert("image".into(), format!("example.com/i:{}", number(sequence)).into());
    let mut pod = some(
        sequence,
        &mut [
            ("nodeSelector", &mut |s| json!({"a": number(s).to_string()})),
            ("tolerations", &mut |s| items(s, vec![json!({"key": "gpu", "operator": "Exists"})])),
            ("volumes", &mut |s| {
                items(s, vec![json!({"name": "a", "emptyDir": {}}), json!({"name": "b", "configMap": {"name": "c"}})])
            }),
            ("terminationGracePeriodSeconds", &mut |s| number(s).into()),
            ("serviceAccountName", &mut |_| "default".into()),
        ],
    );
    pod.insert("containers".into(), json!([container]));
    let mut spec = some(
        sequence,
        &mut [
            ("strategy", &mut |s| json!({"rollingUpdate": {"maxSurge": number(s) + 1}})),
            ("progressDeadlineSeconds", &mut |s| (number(s) + 100).into()),
        ],
    );
    let annotations = some(sequence, &mut [("x", &mut |s| number(s).to_string().into()), ("y/z", &mut |_| "1".into())]);
    let mut metadata = json!({"labels": labels});
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    spec.insert("replicas".into(), 0.into());
    spec.insert("selector".into(), json!({"matchLabels": labels}));
    spec.insert("template".into(), json!({"metadata": metadata, "spec": pod}));
    spec.into()
}

/// Patches as a person with a client of their own.
async fn edit(client: &kube::Client, key: &ObjectKey, patch: &Value) -> Result<Value, kube::Error> {
    let base = if key.kind.group.is_empty() { "/api".to_owned() } else { "/apis".to_owned() };
    let plural = format!("{}s", key.kind.kind.to_lowercase());
    let path = format!("{base}/{}/namespaces/{}/{plural}", key.kind.api_version(), key.namespace);
    let params = PatchParams { field_manager: Some("a-person".to_owned()), ..PatchParams::default() };
    let request = Request::new(path).patch(&key.name, &params, &Patch::Merge(patch)).expect("a request");
    client.request(request).await
}

/// JSON merge patch.
fn merge(target: &mut Map<String, Value>, patch: &Value) {
    for (name, value) in patch.as_object().into_iter().flatten() {
        match target.get_mut(name) {
            Some(Value::Object(target)) if value.is_object() => merge(target, value),
            _ => drop(target.insert(name.clone(), value.clone())),
        }
    }
}
