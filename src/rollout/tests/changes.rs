//! What people change in flight.

use serde_json::{Value, json};

use super::Bench;
use crate::ids::CommitSha;
use crate::rollout::world::{ManifestStanding, Origin};
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

#[test]
fn a_decision_is_about_what_was_tried_and_not_about_what_git_says_and_the_server_refuses() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 100}], "trafficRouting": {}}));
    bench.run();
    let tried = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    let untried = json!({"promptPackRef": {"name": "pack", "version": "3.0.0"}});
    let Origin::Git(git) = &mut bench.world.origin else { panic!("not from git") };
    let mut manifest = git.manifest.as_deref().unwrap().clone();
    manifest.set(&["spec", "rollout", "candidate"], untried);
    git.manifest = Some(std::sync::Arc::new(manifest));
    git.synced = None;
    let verdict = bench.settle();
    assert_eq!(verdict.decision.unwrap().candidate, tried);
}

#[test]
fn what_git_says_and_the_server_refuses_is_told_and_no_longer_when_it_is_taken() {
    let mut bench = paused();
    let git = |bench: &mut Bench, synced, standing| {
        let Origin::Git(git) = &mut bench.world.origin else { panic!("not from git") };
        (git.synced, git.standing) = (synced, standing);
    };
    let why = "AgentRuntime prod/support is refused: not today";
    git(&mut bench, None, ManifestStanding::Refused(why.to_owned()));
    bench.settle();
    let told = "the spec is not what git says: AgentRuntime prod/support is refused: not today";
    assert!(bench.message().ends_with(told), "{}", bench.message());
    assert!(bench.condition("RolloutActive").1.ends_with("InProgress"), "it goes on");
    git(&mut bench, Some(CommitSha::new("c1")), ManifestStanding::Fine);
    bench.settle();
    assert!(!bench.message().contains("not today"), "{}", bench.message());
}

#[test]
fn steps_that_are_added_when_all_are_done_begin_when_they_are_added() {
    let rollout = json!({
        "steps": [{"setWeight": 10}], "trafficRouting": {}, "rollback": {"mode": "automatic", "cooldown": "0s"},
    });
    for added in [json!({"setWeight": 50}), json!({"pause": {"duration": "30m"}})] {
        let mut bench = Bench::with_candidate(rollout.clone());
        bench.run();
        assert!(bench.message().contains("nothing was tried"), "{}", bench.message());
        bench.advance(3_600);
        bench.push(|spec| spec["rollout"]["steps"].as_array_mut().unwrap().push(added));
        bench.settle();
        assert_eq!(bench.status("/rollout/currentStep"), 1, "{}", bench.message());
        assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 0);
    }
}

/// An agent whose pods an autoscaler counts, with 4 of them, halfway through a rollout.
fn autoscaled(weight: u32) -> Bench {
    let steps = json!([{"setWeight": weight}, {"pause": {}}]);
    let mut bench = Bench::new(json!({"steps": steps, "trafficRouting": {}}));
    bench.push(|spec| spec["runtime"]["autoscaling"] = json!({"enabled": true}));
    bench.run();
    bench.push(|spec| {
        spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    });
    bench.run();
    bench
}

#[test]
fn a_rollout_that_begins_again_does_not_take_the_pods_left_to_stable_for_all_pods() {
    let mut bench = autoscaled(50);
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
    bench.push(|spec| spec["rollout"]["steps"] = json!([{"setWeight": 25}, {"pause": {}}]));
    bench.run();
    assert_eq!(bench.wanted(), (Some(3), Some(1)));
}

#[test]
fn stable_gets_all_its_pods_back_also_where_the_candidate_vanishes_at_once() {
    let mut bench = autoscaled(100);
    assert_eq!(bench.wanted(), (Some(0), Some(4)));
    bench.world.live.retain(|object| object.name() != "support-canary");
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
}

#[test]
fn an_autoscaled_agent_whose_record_is_lost_keeps_pods() {
    let mut bench = autoscaled(100);
    bench.annotate(crate::api::names::RECORD_ANNOTATION, "edited to nonsense");
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
}

#[test]
fn an_autoscaled_agent_whose_record_is_lost_halfway_keeps_all_its_pods() {
    for ends in [true, false] {
        let mut bench = autoscaled(50);
        assert_eq!(bench.wanted(), (Some(2), Some(2)));
        bench.annotate(crate::api::names::RECORD_ANNOTATION, "edited to nonsense");
        if ends {
            bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
        }
        bench.run();
        let (stable, candidate) = bench.wanted();
        assert_eq!(stable.unwrap() + candidate.unwrap_or(0), 4, "ends: {ends}");
    }
}

#[test]
fn a_lost_record_never_makes_an_autoscaled_agent_larger_than_both_its_tracks() {
    let (mut bench, mut forged) = (autoscaled(50), autoscaled(50));
    // Without a word in the status it is the larger track, also on the way back.
    bench.wipe_status();
    for (bench, desired) in [(&mut bench, Value::Null), (&mut forged, json!(4_000_000_000_u32))] {
        let agent = std::sync::Arc::make_mut(&mut bench.world.agent);
        agent.set(&["status", "replicas", "desired"], desired);
        bench.annotate(crate::api::names::RECORD_ANNOTATION, "edited to nonsense");
        bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
        bench.run();
    }
    assert_eq!((bench.wanted(), forged.wanted()), ((Some(2), None), (Some(4), None)));
}

#[test]
fn an_unrouted_agent_whose_record_is_lost_keeps_its_size() {
    let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}, {"pause": {}}]}));
    bench.push(|spec| spec["runtime"]["autoscaling"] = json!({"enabled": true}));
    bench.run();
    bench.push(|spec| {
        spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    });
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    bench.annotate(crate::api::names::RECORD_ANNOTATION, "edited to nonsense");
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
}

#[test]
fn autoscaling_that_is_turned_on_in_flight_does_not_lose_pods() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}, {"pause": {}}], "trafficRouting": {}}));
    bench.run();
    bench.push(|spec| spec["runtime"]["autoscaling"] = json!({"enabled": true}));
    bench.run();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn a_promotion_is_reverted_also_to_a_spec_that_was_changed_in_flight() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}, {"pause": {"duration": "1h"}}]}));
    bench.run();
    bench.push(|spec| spec["promptPackRef"]["version"] = "3.0.0".into());
    bench.run();
    bench.advance(3_600);
    let decision = bench.run().decision.unwrap();
    let Origin::Git(git) = &bench.world.origin else { panic!("not from git") };
    let before = git.manifest.as_ref().unwrap().at("/spec").unwrap().clone();
    bench.land(&decision);
    bench.run();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Promoted { .. })), 1);
    bench.push(|spec| *spec = before);
    bench.run();
    assert_eq!(bench.record().rejected.len(), 1, "{}", bench.message());
    assert_eq!(bench.wanted(), (Some(4), None));
}
