//! Values that nobody would write: the engine says what it makes of them, and does not panic.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Bench;
use crate::api::names;
use crate::object::{Kind, Object};
use crate::rollout::{Memo, World, evaluate, evaluate_with};

/// Every place in a value.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            // How fields are managed, and what pods run, is for other modules to read.
            for (name, value) in
                fields.iter().filter(|(name, _)| !["managedFields", "template"].contains(&name.as_str()))
            {
                places(value, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn nonsense() -> [Value; 5] {
    [Value::Null, json!(u32::MAX), json!(u64::MAX), json!("9999-12-30T22:00:00.999999999Z"), json!([null, {}])]
}

/// The value with each place replaced by each kind of nonsense.
fn spoiled(value: &Value) -> impl Iterator<Item = (String, Value)> {
    let mut found = Vec::new();
    places(value, "", &mut found);
    let whole = value.clone();
    found.into_iter().filter(|place| !place.is_empty()).flat_map(move |place| {
        let whole = whole.clone();
        nonsense().into_iter().map(move |value| {
            let mut spoiled = whole.clone();
            let text = format!("{place} = {value}");
            *spoiled.pointer_mut(&place).unwrap() = value;
            (text, spoiled)
        })
    })
}

fn in_each_phase() -> [Bench; 3] {
    let paused = || {
        let mut bench = Bench::with_candidate(json!({
            "steps": [{"setWeight": 50}, {"pause": {"duration": "1h"}}, {"setWeight": 100}],
            "trafficRouting": {},
            "rollback": {"mode": "automatic", "cooldown": "5m"},
        }));
        bench.run();
        bench
    };
    let mut promoting = paused();
    promoting.advance(3_600);
    let decision = promoting.run().decision.unwrap();
    promoting.land(&decision);
    promoting.settle();
    let mut back = paused();
    back.pods("support-canary", 2, 1);
    back.settle();
    back.advance(601);
    back.settle();
    [paused(), promoting, back]
}

#[test]
fn no_nonsense_in_the_record_makes_the_engine_panic() {
    for bench in in_each_phase() {
        let record = bench.world.agent.annotation(names::RECORD_ANNOTATION).unwrap();
        let mut memo = Memo::default();
        for (text, record) in spoiled(&serde_json::from_str(record).unwrap()) {
            let mut world = bench.world.clone();
            Arc::make_mut(&mut world.agent)
                .set(&["metadata", "annotations", names::RECORD_ANNOTATION], record.to_string());
            assert_no_panic(&mut memo, &world, &bench, &text);
        }
    }
}

#[test]
fn no_nonsense_in_the_spec_the_status_or_the_deployments_makes_the_engine_panic() {
    let [bench, ..] = in_each_phase();
    let mut memo = Memo::default();
    for part in ["spec", "status"] {
        for (text, value) in spoiled(bench.world.agent.at(&format!("/{part}")).unwrap()) {
            let mut world = bench.world.clone();
            Arc::make_mut(&mut world.agent).set(&[part], value);
            assert_no_panic(&mut memo, &world, &bench, &text);
        }
    }
    let deployments = bench.world.live.iter().enumerate().filter(|(_, live)| live.key().kind == Kind::DEPLOYMENT);
    for (index, live) in deployments {
        for (text, live) in spoiled(&Value::Object(live.fields().clone())) {
            let Ok(object) = Object::from_value(live) else { continue };
            let mut world = bench.world.clone();
            world.live[index] = Arc::new(object);
            assert_no_panic(&mut memo, &world, &bench, &text);
        }
    }
}

/// It does not panic either with what it remembers of other nonsense, and says the same then.
fn assert_no_panic(memo: &mut Memo, world: &World, bench: &Bench, what: &str) {
    let both = || (evaluate(world, bench.now), evaluate_with(memo, world, bench.now));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(both));
    assert!(outcome.is_ok_and(|(without, with)| without == with), "{what}");
}
