//! A memo never shows: with it and without it the answer is the same, whatever has changed since it was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Bench;
use crate::api::names;
use crate::ids::{Digest, RolloutId};
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::{Memo, Origin, Publish, Refused, World, evaluate, evaluate_with};
use crate::workload::{SessionApiToken, WorkloadSettings, Workspace, credential_secret};

/// Numbers that are the same in each run (a linear congruence).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(end).unwrap()).unwrap()
    }
}

fn object(kind: &Kind, namespace: &str, name: &str, spec: Value, status: Value) -> Arc<Object> {
    let mut object = Object::bare(&ObjectKey::new(kind.clone(), namespace, name));
    object.set(&["metadata", "generation"], 1);
    object.set(&["spec"], spec);
    object.set(&["status"], status);
    Arc::new(object)
}

/// An agent with all that can bear on what it runs as, its candidate on trial.
fn everything() -> Bench {
    let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}]}));
    let provider = |name: &str| {
        let spec =
            json!({"type": "claude", "model": "m", "credential": {"secretRef": {"name": format!("{name}-key")}}});
        object(&Kind::PROVIDER, "prod", name, spec, json!({"phase": "Ready"}))
    };
    bench.world.providers = Some(vec![provider("one"), provider("two")]);
    let secrets = bench.world.providers.iter().flatten().filter_map(|provider| credential_secret(provider));
    bench.world.credentials = secrets.map(|secret| (secret, Digest::new("content"))).collect();
    let tools = json!({"handlers": [{
        "name": "search", "type": "http", "selector": {},
        "httpConfig": {"endpoint": "https://example.com", "method": "POST"},
        "tool": {"name": "search", "description": "searches", "inputSchema": {"type": "object"}},
    }]});
    bench.world.tool_registries = Some(vec![object(&Kind::TOOL_REGISTRY, "prod", "tools", tools, json!({}))]);
    let peer = json!({"serviceEndpoint": "billing.prod.svc.cluster.local:8080"});
    bench.world.peers = vec![object(&Kind::AGENT_RUNTIME, "prod", "billing", json!({}), peer)];
    bench.push(|spec| {
        spec["facades"] = json!([{"type": "a2a", "port": 9999, "a2a": {"clients": [
            {"name": "billing", "agentRuntimeRef": {"name": "billing"}, "exposeAsTools": true},
        ]}}]);
        spec["providers"] = json!([{"name": "default", "providerRef": {"name": "one"}}]);
        spec["toolRegistryRef"] = json!({"name": "tools"});
        spec["runtime"]["resources"] = json!({"limits": {"cpu": "1"}});
    });
    bench.run();
    bench.push(|spec| {
        spec["rollout"] = json!({
            "steps": [{"setWeight": 50}, {"pause": {"duration": "1h"}}, {"setWeight": 100}],
            "trafficRouting": {"mode": "replicaWeighted"},
            "rollback": {"mode": "automatic", "cooldown": "5m"},
            "candidate": {
                "promptPackRef": {"name": "pack", "version": "2.0.0"},
                "providerRefs": [{"name": "default", "providerRef": {"name": "two"}}],
            },
        });
    });
    bench.run();
    assert_eq!(bench.wanted(), (Some(2), Some(2)), "{}", bench.message());
    bench
}

/// The answer with a memo, after it was compared with that without.
#[track_caller]
fn assert_same(memo: &mut Memo, world: &World, now: Timestamp, what: &str) -> crate::rollout::Verdict {
    let verdict = evaluate_with(memo, world, now);
    assert!(verdict == evaluate(world, now), "{what}: with a memo it is {verdict:#?}");
    verdict
}

/// All objects of a world.
fn objects(world: &mut World) -> Vec<&mut Arc<Object>> {
    let World { agent, packs, providers, peers, tool_registries, live, .. } = world;
    let lists = [packs, peers, live].into_iter().chain(providers).chain(tool_registries);
    std::iter::once(agent).chain(lists.flatten()).collect()
}

/// Every place in a value.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    if !path.is_empty() {
        found.push(path.to_owned());
    }
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (name, value) in below {
        places(value, &format!("{path}/{name}"), found);
    }
}

/// Puts something else to a place.
fn spoil(object: &mut Arc<Object>, place: &str, dice: &mut Dice) {
    let mut value = object.as_ref().clone().into_value();
    let Some(at) = value.pointer_mut(place) else { return };
    *at = match (dice.below(4), &*at) {
        (0, _) => Value::Null,
        (1, Value::String(text)) => json!(format!("{text}-other")),
        (1, Value::Number(number)) => json!(number.as_i64().unwrap_or(0) + 1),
        (1, Value::Object(fields)) => {
            fields.iter().skip(1).map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        (1, Value::Array(items)) => items.iter().skip(1).cloned().collect(),
        (2, _) => json!({}),
        _ => json!("other"),
    };
    if let Ok(spoiled) = Object::from_value(value) {
        *object = Arc::new(spoiled);
    }
}

type Change = fn(&mut World);

/// Each input that is no object, changed so that the answer must be another one.
fn changes() -> Vec<(&'static str, Change)> {
    fn settings(world: &mut World) -> &mut WorkloadSettings {
        Arc::make_mut(&mut world.settings)
    }
    fn annotate(world: &mut World, name: &str, value: &str) {
        Arc::make_mut(&mut world.agent).set(&["metadata", "annotations", name], value);
    }
    vec![
        ("facade image", |world| settings(world).facade_image = Some("facade:2".into())),
        ("facade pull policy", |world| settings(world).facade_pull_policy = Some("Always".into())),
        ("tracing", |world| settings(world).tracing_endpoint = Some("otel:4317".into())),
        ("session token", |world| settings(world).session_api_token = Some(SessionApiToken::default())),
        ("workspace", |world| {
            let workspace = Workspace { service_account: Some("shop".into()), ..Workspace::default() };
            settings(world).workspaces = BTreeMap::from([("prod".to_owned(), workspace)]);
        }),
        ("one credential", |world| {
            world.credentials.values_mut().for_each(|digest| *digest = Digest::new("other"));
        }),
        ("no credential", |world| world.credentials.clear()),
        ("no providers", |world| world.providers = Some(Vec::new())),
        ("providers are not served", |world| world.providers = None),
        ("no registry", |world| world.tool_registries = Some(Vec::new())),
        ("registries are not served", |world| world.tool_registries = None),
        ("the watch of Deployments does not work", |world| world.deployments_are_current = false),
        ("no packs", |world| world.packs.clear()),
        ("no peers", |world| world.peers.clear()),
        ("nothing lives", |world| world.live.clear()),
        ("deadline", |world| annotate(world, names::PROGRESS_DEADLINE_ANNOTATION, "60s")),
        ("uid", |world| Arc::make_mut(&mut world.agent).set(&["metadata", "uid"], "another")),
        ("number of pods", |world| Arc::make_mut(&mut world.agent).set(&["spec", "runtime", "replicas"], 6)),
        ("mode", |world| Arc::make_mut(&mut world.agent).set(&["spec", "mode"], "function")),
        ("label", |world| {
            Arc::make_mut(&mut world.agent).set(&["spec", "podOverrides", "labels", "team"], "shop");
        }),
        ("record", |world| annotate(world, names::RECORD_ANNOTATION, "{}")),
        ("status", |world| {
            Arc::make_mut(&mut world.agent).fields_mut().remove("status");
        }),
        ("being deleted", |world| {
            Arc::make_mut(&mut world.agent).set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        }),
        ("by hand", |world| world.origin = Origin::ByHand),
        ("not synced", |world| {
            let Origin::Git(git) = &mut world.origin else { return };
            git.synced = None;
        }),
    ]
}

#[test]
fn whatever_input_changes_the_answer_with_a_memo_is_that_without() {
    let bench = everything();
    let (world, now) = (&bench.world, bench.now);
    let mut memo = Memo::default();
    let before = assert_same(&mut memo, world, now, "nothing");
    for (what, change) in changes() {
        let mut changed = world.clone();
        change(&mut changed);
        let after = assert_same(&mut memo, &changed, now, what);
        // These matter only to what is due.
        let is_quiet = ["by hand", "not synced", "the watch of Deployments does not work"].contains(&what);
        assert!(is_quiet || after != before, "{what} makes a difference");
        assert!(assert_same(&mut memo, world, now, what) == before, "{what}, and back");
    }
}

#[test]
fn whichever_field_of_an_object_changes_the_answer_with_a_memo_is_that_without() {
    let bench = everything();
    let mut dice = Dice(1);
    let mut memo = Memo::default();
    let mut world = bench.world.clone();
    for index in 0..objects(&mut world).len() {
        let original = Arc::clone(objects(&mut world)[index]);
        let mut found = Vec::new();
        places(&Value::Object(original.fields().clone()), "", &mut found);
        for place in found {
            spoil(objects(&mut world)[index], &place, &mut dice);
            assert_same(&mut memo, &world, bench.now, &format!("{place} of {}", original.key()));
            // Sometimes back to what it was, and sometimes from one change straight to the next.
            if dice.below(3) > 0 {
                *objects(&mut world)[index] = Arc::clone(&original);
                let _verdict = evaluate_with(&mut memo, &world, bench.now);
            }
        }
        *objects(&mut world)[index] = original;
    }
}

#[test]
fn whatever_happens_one_after_the_other_the_answer_with_a_memo_is_that_without() {
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let mut bench = everything();
        let origin = bench.world.clone();
        let mut memo = Memo::default();
        for turn in 0..60 {
            let mut what = String::new();
            let count = objects(&mut bench.world).len();
            match dice.below(8) {
                0 | 1 => {
                    let object = &mut objects(&mut bench.world)[dice.below(count)];
                    let mut found = Vec::new();
                    places(&Value::Object(object.fields().clone()), "", &mut found);
                    what = format!("{} of {}", found[dice.below(found.len())], object.key());
                    let place = what.split(' ').next().unwrap().to_owned();
                    spoil(object, &place, &mut dice);
                }
                // The same again, elsewhere in memory.
                2 => {
                    for object in objects(&mut bench.world) {
                        *object = Arc::new(object.as_ref().clone());
                    }
                }
                3 => {
                    let changes = changes();
                    let (name, change) = changes[dice.below(changes.len())];
                    name.clone_into(&mut what);
                    change(&mut bench.world);
                }
                4 => bench.now += SignedDuration::from_secs(i64::try_from(dice.below(1_000)).unwrap()),
                5 => {
                    let key = ObjectKey::new(Kind::DEPLOYMENT, "prod", ["support", "support-canary"][dice.below(2)]);
                    let refused = Refused { why: "no".into(), is_due: dice.below(2) == 0 };
                    bench.world.refused = BTreeMap::from([(key, refused)]);
                }
                6 => {
                    if let Origin::Git(git) = &mut bench.world.origin {
                        git.publish = Publish::Pushing { rollout: RolloutId::new("r"), why: String::new() };
                    }
                }
                _ => bench.world = origin.clone(),
            }
            let verdict = assert_same(&mut memo, &bench.world, bench.now, &format!("seed {seed}, turn {turn}: {what}"));
            if dice.below(2) == 0 && !bench.world.agent.is_terminating() {
                verdict.effects.iter().for_each(|effect| bench.perform(effect));
            }
        }
    }
}
