//! From the last step to the new version as stable.

use serde_json::{Value, json};

use super::Bench;
use crate::ids::RolloutId;
use crate::rollout::world::{Origin, Publish};
use crate::rollout::{Fact, Outcome, Phase};

fn at_the_end(steps: Value) -> Bench {
    let mut bench = Bench::with_candidate(json!({"steps": steps, "trafficRouting": {}}));
    bench.run();
    bench
}

#[test]
fn the_decision_is_due_when_all_steps_are_done_and_the_spec_stays_until_git_has_it() {
    let mut bench = at_the_end(json!([{"setWeight": 50}]));
    let verdict = bench.pass();
    assert_eq!(verdict.report.phase, Phase::AwaitingPromotion);
    let decision = verdict.decision.unwrap();
    assert_eq!(decision.outcome, Outcome::Promoted);
    assert_eq!(decision.title, "pack 2.0.0");
    assert_eq!(bench.pack_of("support"), "content-1.0.0");
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
    // It holds at the last step for as long as git does not answer, and says why.
    let rollout = decision.rollout.clone();
    for publish in [
        Publish::Pending { rollout: rollout.clone(), why: "git is down".into() },
        Publish::Pushing { rollout: rollout.clone(), why: "git is down".into() },
    ] {
        bench.publish(publish);
        bench.settle();
        assert!(bench.message().contains("git is down"), "{}", bench.message());
    }
    bench.publish(Publish::Pending { rollout, why: "git is down".into() });
    bench.advance(86_400);
    let verdict = bench.settle();
    assert!(verdict.decision.is_some());
    assert!(bench.message().contains("git is down"), "{}", bench.message());
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn no_candidate_is_promoted_whose_pods_are_not_available() {
    let mut bench = at_the_end(json!([{"setWeight": 50}]));
    bench.pods("support-canary", 2, 1);
    let verdict = bench.settle();
    assert_eq!(verdict.decision, None);
    assert!(bench.message().contains("waiting for 2 available pods"), "{}", bench.message());
    // Nor one that never had any.
    let mut bench = at_the_end(json!([{"setWeight": 50}, {"setWeight": 0}]));
    let verdict = bench.settle();
    assert_eq!(verdict.decision, None);
    assert!(bench.message().contains("nothing was tried"), "{}", bench.message());
}

#[test]
fn all_pods_are_the_candidates_while_stable_rolls_and_the_candidate_goes_when_stable_is_complete() {
    let mut bench = at_the_end(json!([{"setWeight": 50}]));
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    // 1. The candidate grows to the whole; stable gives way pod by pod and keeps its old template.
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(2), Some(4)), "content-1.0.0"));
    assert_eq!(bench.condition("RolloutActive"), ("True".into(), "Promoting".into()));
    assert_eq!(bench.status("/rollout/promoting"), true);
    bench.pods("support-canary", 4, 3);
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(1), Some(4)), "content-1.0.0"));
    bench.pods("support-canary", 4, 4);
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(0), Some(4)), "content-1.0.0"));
    // 2. Only when no pod of the old version is left does stable take on the new one.
    bench.pods("support", 0, 0);
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(4), Some(4)), "content-2.0.0"));
    // 3. The candidate stays until every pod of stable is available.
    bench.pods("support", 4, 3);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    bench.pods("support", 4, 4);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert_eq!(bench.message(), "promoted");
    assert_eq!(bench.condition("RolloutActive"), ("False".into(), "NoActiveRollout".into()));
    assert_eq!(bench.status("/activeVersion"), "2.0.0");
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Promoted { .. })), 1);
    assert_eq!(bench.count(|fact| matches!(fact, Fact::PromotionStarted { .. })), 1);
    assert!(bench.world.live.iter().all(|object| !object.name().contains("canary")));
}

#[test]
fn a_stale_deployment_status_is_never_taken_for_complete() {
    let mut bench = at_the_end(json!([{"setWeight": 100}]));
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    bench.settle();
    // Stable has the new template, and its status still speaks of the old one.
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(4), Some(4)), "content-2.0.0"));
    let stable =
        bench.world.live.iter_mut().find(|o| o.name() == "support" && o.at("/spec/replicas").is_some()).unwrap();
    let stale = json!({"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4});
    std::sync::Arc::make_mut(stable).fields_mut().insert("status".into(), stale);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Promoted { .. })), 0);
}

#[test]
fn a_spec_edited_to_the_candidates_values_promotes_at_once_by_the_same_path() {
    let mut bench = Bench::with_candidate(
        json!({"steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 100}], "trafficRouting": {}}),
    );
    bench.run();
    bench.push(|spec| spec["promptPackRef"]["version"] = "2.0.0".into());
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(3), Some(4)), "content-1.0.0"));
    bench.run();
    assert_eq!((bench.wanted(), bench.message().as_str()), ((Some(4), None), "promoted"));
}

#[test]
fn without_routing_stable_rolls_in_place_behind_the_candidate() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 20}]}));
    bench.run();
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    bench.settle();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(4), Some(4)), "content-2.0.0"));
    bench.run();
    assert_eq!((bench.wanted(), bench.message().as_str()), ((Some(4), None), "promoted"));
}

#[test]
fn an_agent_applied_by_hand_is_promoted_by_a_patch() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}], "trafficRouting": {}})).by_hand();
    let verdict = bench.run();
    assert_eq!(verdict.decision, None);
    assert_eq!(bench.world.agent.text("/spec/promptPackRef/version"), Some("2.0.0"));
    assert_eq!(bench.world.agent.at("/spec/rollout/candidate"), None);
    assert_eq!((bench.wanted(), bench.message().as_str()), ((Some(4), None), "promoted"));
}

#[test]
fn a_promotion_that_may_be_in_git_is_not_taken_back_by_failing_pods_but_the_weight_follows_them() {
    let mut bench = Bench::with_candidate(json!({
        "steps": [{"setWeight": 50}], "trafficRouting": {}, "rollback": {"mode": "automatic"},
    }));
    bench.run();
    let rollout = bench.pass().decision.unwrap().rollout;
    bench.publish(Publish::Pushing { rollout: rollout.clone(), why: String::new() });
    bench.pods("support-canary", 2, 0);
    bench.settle();
    bench.advance(3_600);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 0);
    // The push did not arrive: now it is rolled back.
    bench.publish(Publish::Pending { rollout, why: "refused".into() });
    bench.run();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 1);
    assert_eq!(bench.wanted(), (Some(4), None));
}

/// All steps are done, the promotion has been handed to git, and then the pods fail and somebody wipes the status.
fn wiped_amid_a_promotion(publish: impl Fn(RolloutId) -> Publish) -> Bench {
    let mut bench = Bench::with_candidate(json!({
        "steps": [{"setWeight": 25}, {"setWeight": 50}], "trafficRouting": {}, "rollback": {"mode": "automatic"},
    }));
    bench.run();
    let rollout = bench.pass().decision.unwrap().rollout;
    bench.publish(publish(rollout));
    bench.pods("support-canary", 2, 0);
    bench.wipe_status();
    bench
}

fn fail_for_an_hour(bench: &mut Bench) -> usize {
    bench.settle();
    bench.advance(3_600);
    bench.settle();
    bench.count(|fact| matches!(fact, Fact::RolledBack { .. }))
}

#[test]
fn a_promotion_that_is_being_pushed_is_not_taken_back_where_the_status_is_lost() {
    let mut bench = wiped_amid_a_promotion(|rollout| Publish::Pushing { rollout, why: String::new() });
    assert_eq!(fail_for_an_hour(&mut bench), 0);
    assert_eq!(bench.status("/rollout/currentStep"), 0);
    // The push did not arrive.
    bench.publish(Publish::Idle);
    bench.run();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 1);
}

#[test]
fn a_status_that_is_lost_while_git_is_not_known_takes_no_promotion_back() {
    let mut bench = wiped_amid_a_promotion(|_| Publish::Idle);
    let Origin::Git(git) = &mut bench.world.origin else { panic!("not from git") };
    let synced = git.synced.take();
    assert_eq!(fail_for_an_hour(&mut bench), 0, "also not once the status is there again");
    let Origin::Git(git) = &mut bench.world.origin else { panic!("not from git") };
    git.synced = synced;
    bench.run();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::RolledBack { .. })), 1, "git says that it is not there");
}

#[test]
fn what_git_surely_does_not_have_is_rolled_back_also_where_the_status_is_lost() {
    let states: [fn(RolloutId) -> Publish; 5] = [
        |_| Publish::Idle,
        |_| Publish::ReadOnly,
        |rollout| Publish::Pending { rollout, why: "refused".into() },
        |rollout| Publish::Blocked { rollout, why: "a.yaml:1".into() },
        |_| Publish::Pushing { rollout: RolloutId::new("another"), why: String::new() },
    ];
    for publish in states {
        let mut bench = wiped_amid_a_promotion(publish);
        assert_eq!(fail_for_an_hour(&mut bench), 1, "{:?}", bench.world.origin);
    }
}

#[test]
fn where_nobody_can_commit_the_decision_is_said_and_the_rollout_holds() {
    let mut bench = at_the_end(json!([{"setWeight": 50}]));
    bench.publish(Publish::ReadOnly);
    bench.settle();
    assert!(bench.message().contains("a person has to write it down"), "{}", bench.message());
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
}

#[test]
fn pods_of_the_old_version_keep_their_tools_while_a_promotion_is_under_way() {
    let registry = |name: &str| {
        let handler = json!({
            "name": name, "type": "http", "tool": {"name": "t", "description": "it does", "inputSchema": {}},
            "httpConfig": {"endpoint": "http://web", "method": "GET"},
        });
        let object = json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "ToolRegistry",
            "metadata": {"name": name, "namespace": "prod"}, "spec": {"handlers": [handler]},
        });
        std::sync::Arc::new(crate::object::Object::from_value(object).unwrap())
    };
    let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}], "trafficRouting": {}}));
    bench.world.tool_registries = Some(vec![registry("old"), registry("new")]);
    bench.push(|spec| spec["toolRegistryRef"] = json!({"name": "old"}));
    bench.run();
    bench.push(|spec| spec["rollout"]["candidate"] = json!({"toolRegistryRef": {"name": "new"}}));
    let decision = bench.run().decision.unwrap();
    let tools = |bench: &Bench| {
        let found = bench.world.live.iter().find(|object| object.name() == "support-tools").unwrap();
        found.at("/data").unwrap().to_string()
    };
    let before = tools(&bench);
    bench.land(&decision);
    bench.settle();
    assert_eq!((bench.wanted(), tools(&bench)), ((Some(2), Some(4)), before.clone()));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert_ne!(tools(&bench), before);
}
