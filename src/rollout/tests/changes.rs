//! What people change in flight.

use serde_json::{Value, json};

use super::Bench;
use crate::rollout::{Fact, RollbackReason};

fn paused() -> Bench {
    let mut bench = Bench::with_candidate(json!({
        "steps": [{"setWeight": 50}, {"pause": {}}, {"setWeight": 75}], "trafficRouting": {},
    }));
    bench.run();
    assert_eq!(bench.status("/rollout/currentStep"), 1);
    bench
}

fn starts(bench: &Bench) -> usize {
    bench.count(|fact| matches!(fact, Fact::Started { .. }))
}

#[test]
fn a_changed_candidate_starts_again_at_the_first_step_on_pods_of_its_own() {
    let mut bench = paused();
    bench.push(|spec| spec["rollout"]["candidate"]["promptPackRef"]["version"] = "3.0.0".into());
    bench.settle();
    // The old candidate's pods leave as in a rollback; nothing of the new one is there before.
    assert_eq!((bench.wanted(), bench.pack_of("support-canary").as_str()), ((Some(4), Some(2)), "content-2.0.0"));
    bench.pods("support", 4, 4);
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support-canary").as_str()), ((Some(4), Some(2)), "content-3.0.0"));
    assert_eq!(bench.status("/rollout/currentStep"), 0);
    assert_eq!(starts(&bench), 2);
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { reason: RollbackReason::Superseded, .. })), 1);
}

#[test]
fn steps_changed_up_to_the_current_one_start_again_and_later_ones_apply() {
    let mut bench = paused();
    bench.push(|spec| spec["rollout"]["steps"][2] = json!({"setWeight": 100}));
    bench.run();
    assert_eq!((starts(&bench), bench.status("/rollout/currentStep")), (1, json!(1)));
    bench.push(|spec| spec["rollout"]["steps"][0] = json!({"setWeight": 25}));
    bench.settle();
    assert_eq!(starts(&bench), 2);
    bench.run();
    assert_eq!((bench.wanted(), bench.status("/rollout/currentStep")), ((Some(3), Some(1)), json!(1)));
}

#[test]
fn a_step_removed_under_the_current_one_starts_again() {
    let mut bench = paused();
    bench.push(|spec| spec["rollout"]["steps"] = json!([{"setWeight": 50}]));
    bench.settle();
    assert_eq!(starts(&bench), 2);
}

#[test]
fn a_removed_traffic_routing_block_starts_again_without_weights() {
    let mut bench = paused();
    bench.push(|spec| spec["rollout"]["trafficRouting"] = Value::Null);
    bench.run();
    assert_eq!((starts(&bench), bench.wanted()), (2, (Some(4), Some(4))));
}

#[test]
fn a_field_that_the_candidate_does_not_override_changes_both_tracks_in_place() {
    let mut bench = paused();
    bench.push(|spec| spec["runtime"]["nodeSelector"] = json!({"pool": "agents"}));
    bench.run();
    assert_eq!((starts(&bench), bench.wanted()), (1, (Some(2), Some(2))));
    for name in ["support", "support-canary"] {
        let deployment = bench.world.live(&crate::object::Kind::DEPLOYMENT, name).unwrap();
        assert_eq!(deployment.text("/spec/template/spec/nodeSelector/pool"), Some("agents"), "{name}");
    }
}

#[test]
fn a_lost_status_starts_the_steps_again_and_never_skips_one() {
    let mut bench = paused();
    std::sync::Arc::make_mut(&mut bench.world.agent).fields_mut().remove("status");
    bench.settle();
    assert!(bench.status("/rollout/currentStep").as_u64().unwrap() <= 1);
    assert_eq!(starts(&bench), 1);
}

#[test]
fn a_lost_record_starts_the_rollout_again_on_the_pods_that_are_there() {
    let mut bench = paused();
    bench.annotate(crate::api::names::RECORD_ANNOTATION, "nonsense");
    bench.run();
    assert_eq!((starts(&bench), bench.wanted()), (2, (Some(2), Some(2))));
}

#[test]
fn a_deployment_that_somebody_deleted_comes_back() {
    let mut bench = paused();
    bench.world.live.retain(|object| object.name() != "support-canary");
    bench.settle();
    // No pod of the candidate is there, so stable has them all.
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    bench.run();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn a_clock_that_jumps_back_does_not_disturb() {
    let mut bench = paused();
    bench.advance(-86_400);
    let verdict = bench.settle();
    assert_eq!((verdict.report.step, bench.wanted()), (Some((1, 3)), (Some(2), Some(2))));
}

#[test]
fn every_pass_over_a_settled_world_has_no_effects() {
    let mut bench = paused();
    for _ in 0..3 {
        assert_eq!(bench.pass().effects, []);
    }
}
