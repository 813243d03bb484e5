//! The watch of Deployments does not work: nothing goes forward on what was known of the pods, and what goes back may.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Bench;
use crate::rollout::{Fact, Phase, RollbackReason};

const WORDS: &str = "waiting for the watch of Deployments, which does not work";

fn bench(steps: Value) -> Bench {
    Bench::with_candidate(json!({
        "steps": steps, "trafficRouting": {}, "rollback": {"mode": "automatic", "cooldown": "0s"},
    }))
}

fn completed(bench: &Bench) -> usize {
    bench.count(|fact| matches!(fact, Fact::StepCompleted { .. }))
}

#[test]
fn a_pause_that_elapses_while_the_pods_are_not_seen_ends_when_they_are_seen_again() {
    let mut bench = bench(json!([{"setWeight": 50}, {"pause": {"duration": "10m"}}]));
    bench.run();
    assert_eq!(completed(&bench), 1);
    bench.world.deployments_are_current = false;
    bench.advance(599);
    let verdict = bench.settle();
    // Time has not come: there is nothing to say, and no need to look again before.
    assert_eq!(bench.message(), "step 1: pause 10m");
    assert_eq!(verdict.wake_at, Some(bench.now + SignedDuration::from_secs(1)));
    bench.advance(1);
    let verdict = bench.settle();
    assert!(bench.message().contains(WORDS), "{}", bench.message());
    assert!(verdict.report.waiting_for.unwrap().starts_with(WORDS));
    assert_eq!((completed(&bench), verdict.decision), (1, None));
    // Nothing else may come that would wake it.
    assert_eq!(verdict.wake_at, Some(bench.now + SignedDuration::from_secs(3)));
    bench.advance(3_600);
    assert_eq!(bench.settle().decision, None);
    bench.world.deployments_are_current = true;
    assert!(bench.settle().decision.is_some());
    assert_eq!(completed(&bench), 2);
}

#[test]
fn pods_that_have_crashed_unseen_are_rolled_back_and_not_promoted() {
    let mut bench = bench(json!([{"setWeight": 50}, {"pause": {"duration": "10m"}}]));
    bench.run();
    bench.world.deployments_are_current = false;
    bench.advance(601);
    assert_eq!(bench.settle().decision, None);
    bench.world.deployments_are_current = true;
    bench.pods("support-canary", 2, 0);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    bench.advance(601);
    bench.settle();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 1);
}

#[test]
fn a_decision_that_is_due_is_taken_back_while_the_pods_are_not_seen() {
    let mut bench = bench(json!([{"setWeight": 100}]));
    assert!(bench.run().decision.is_some());
    bench.world.deployments_are_current = false;
    let verdict = bench.settle();
    assert_eq!((verdict.decision, verdict.report.phase), (None, Phase::AwaitingPromotion));
    assert!(bench.message().contains(WORDS), "{}", bench.message());
    assert!(verdict.wake_at.is_some());
    bench.world.deployments_are_current = true;
    assert!(bench.settle().decision.is_some());
}

#[test]
fn a_candidate_that_is_promoted_keeps_its_pods_while_those_of_stable_are_not_seen() {
    let mut bench = bench(json!([{"setWeight": 100}]));
    let decision = bench.run().decision.unwrap();
    bench.land(&decision);
    while bench.record().rollout.is_some() && bench.pack_of("support") != "content-2.0.0" {
        bench.settle();
        bench.all_ready();
    }
    bench.all_ready();
    bench.world.deployments_are_current = false;
    let verdict = bench.settle();
    assert_eq!((bench.wanted(), verdict.report.phase), ((Some(4), Some(4)), Phase::Promoting));
    assert!(bench.message().contains(WORDS), "{}", bench.message());
    assert!(verdict.wake_at.is_some());
    bench.world.deployments_are_current = true;
    bench.run();
    assert_eq!((bench.wanted(), bench.message().as_str()), ((Some(4), None), "promoted"));
}

#[test]
fn a_candidate_that_is_taken_back_goes_whether_or_not_the_pods_are_seen() {
    let mut bench = bench(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.run();
    bench.world.deployments_are_current = false;
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
    let is_it = |fact: &Fact| matches!(fact, Fact::RolledBack { reason: RollbackReason::Withdrawn, .. });
    assert_eq!(bench.count(is_it), 1);
}
