//! Weights and pauses.

use serde_json::{Value, json};

use super::Bench;
use crate::api::names;
use crate::rollout::{Fact, Phase};

fn weighted(steps: Value) -> Bench {
    Bench::with_candidate(json!({"steps": steps, "trafficRouting": {"mode": "replicaWeighted"}}))
}

#[test]
fn weight_moves_onto_pods_one_by_one_as_they_become_available() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.settle();
    // The candidate's pods come first; stable keeps all of its own.
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    bench.pods("support-canary", 2, 1);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(3), Some(2)));
    bench.pods("support-canary", 2, 2);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn a_weight_is_complete_only_when_it_is_delivered() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    let verdict = bench.settle();
    assert_eq!((verdict.report.step, verdict.report.phase), (Some((0, 2)), Phase::Stepping));
    assert_eq!(bench.message(), "step 0: setWeight 50: waiting for 2 available pods of the candidate");
    bench.pods("support-canary", 2, 2);
    let verdict = bench.settle();
    assert_eq!(verdict.report.step, Some((0, 2)));
    assert_eq!(bench.message(), "step 0: setWeight 50: waiting for stable to come down to 2 available pods");
    bench.all_ready();
    let verdict = bench.settle();
    assert_eq!(verdict.report.step, Some((1, 2)));
    assert_eq!((verdict.report.requested.percent(), verdict.report.delivered.percent()), (50, 50));
}

#[test]
fn the_weight_follows_at_once_when_pods_of_the_candidate_fail_and_comes_back_with_them() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.run();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
    bench.pods("support-canary", 2, 0);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    bench.pods("support-canary", 2, 2);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn a_pause_lasts_from_when_its_step_was_entered_and_its_end_changes_no_weight() {
    let mut bench = weighted(json!([{"setWeight": 25}, {"pause": {"duration": "5m"}}, {"pause": {}}]));
    let verdict = bench.run();
    assert_eq!(verdict.report.step, Some((1, 3)));
    let until = verdict.wake_at.unwrap();
    assert_eq!(until.duration_since(bench.now).as_secs(), 300);
    bench.advance(299);
    assert_eq!(bench.settle().report.step, Some((1, 3)));
    bench.advance(1);
    let verdict = bench.settle();
    assert_eq!(verdict.report.step, Some((2, 3)));
    assert_eq!(bench.wanted(), (Some(3), Some(1)));
    let took = bench.facts.iter().rev().find_map(|fact| match fact {
        Fact::StepCompleted { step: 1, took, step_type, .. } => Some((took.as_secs(), *step_type)),
        _ => None,
    });
    assert_eq!(took, Some((300, "pause")));
}

#[test]
fn an_indefinite_pause_ends_by_the_annotation_that_names_this_rollout_and_step_and_by_no_other() {
    let mut bench = weighted(json!([{"pause": {}}, {"pause": {}}]));
    bench.run();
    let id = bench.record().rollout.unwrap().id;
    assert!(bench.message().starts_with("step 0: paused indefinitely"), "{}", bench.message());
    for other in [format!("{id}@1"), "another@0".to_owned(), "yes".to_owned()] {
        bench.annotate(names::RESUME_ANNOTATION, &other);
        assert_eq!(bench.run().report.step, Some((0, 2)), "{other}");
    }
    bench.annotate(names::RESUME_ANNOTATION, &format!("{id}@0"));
    assert_eq!(bench.run().report.step, Some((1, 2)));
}

#[test]
fn before_the_first_weight_the_candidate_has_no_pods() {
    let mut bench = weighted(json!([{"pause": {}}, {"setWeight": 50}]));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(0)));
    let mut bench = weighted(json!([{"setWeight": 0}, {"pause": {}}]));
    let verdict = bench.run();
    assert_eq!(verdict.report.step, Some((1, 2)));
    assert_eq!(bench.status("/rollout/currentWeight"), 0);
}

#[test]
fn weight_zero_after_a_larger_one_is_reported_and_delivered_as_zero() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"setWeight": 0}, {"pause": {}}]));
    bench.run();
    assert_eq!(bench.status("/rollout/currentWeight"), 0);
    assert_eq!(bench.wanted(), (Some(4), Some(0)));
}

#[test]
fn a_shrinking_candidate_keeps_the_pods_that_stable_does_not_replace_yet() {
    let mut bench = weighted(json!([{"setWeight": 100}, {"setWeight": 25}, {"pause": {}}]));
    for _ in 0..10 {
        bench.settle();
        if bench.record().rollout.is_some() && bench.status("/rollout/currentStep") == 1 {
            break;
        }
        bench.all_ready();
    }
    // Stable gets its pods, none of which is available yet: all four of the candidate stay.
    assert_eq!(bench.wanted(), (Some(3), Some(4)));
    bench.pods("support", 3, 2);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(3), Some(2)));
    bench.pods("support", 3, 3);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(3), Some(1)));
}

#[test]
fn without_a_traffic_routing_block_no_weights_are_applied() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 20}, {"pause": {}}]}));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    assert_eq!(bench.status("/rollout/currentWeight"), 20);
    assert_eq!(bench.status("/rollout/trafficWeightEnforced"), false);
    assert_eq!(bench.status("/rollout/trafficRoutingMode"), Value::Null);
    assert_eq!(bench.status("/rollout/currentStep"), 1);
}

#[test]
fn the_number_of_replicas_may_change_in_flight() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.run();
    bench.push(|spec| spec["runtime"]["replicas"] = 10.into());
    bench.run();
    assert_eq!(bench.wanted(), (Some(5), Some(5)));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
}

#[test]
fn a_single_replica_goes_over_as_a_whole_from_fifty_percent_on() {
    let mut bench =
        weighted(json!([{"setWeight": 49}, {"pause": {"duration": "1m"}}, {"setWeight": 50}, {"pause": {}}]));
    bench.push(|spec| spec["runtime"]["replicas"] = 1.into());
    bench.run();
    assert_eq!(bench.wanted(), (Some(1), Some(0)));
    bench.advance(60);
    bench.run();
    assert_eq!(bench.wanted(), (Some(0), Some(1)));
    // Either track serves: the agent is ready although stable has no pods.
    assert_eq!(bench.condition("Ready").0, "True");
}

#[test]
fn an_autoscaled_agent_keeps_the_replicas_that_live() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}, {"pause": {}}], "trafficRouting": {}}));
    bench.push(|spec| {
        spec["runtime"]["autoscaling"] = json!({"enabled": true});
        spec["rollout"]["candidate"] = Value::Null;
    });
    bench.run();
    // The autoscaler goes to 8.
    let deployment =
        bench.world.live.iter_mut().find(|o| o.name() == "support" && o.at("/spec/replicas").is_some()).unwrap();
    std::sync::Arc::make_mut(deployment).set(&["spec", "replicas"], 8);
    bench.run();
    assert_eq!(bench.wanted(), (Some(8), None));
    // A rollout splits what it found.
    bench.push(|spec| spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}}));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
}
