//! Back to stable: by git, by the progress deadline; what is rejected stays rejected.

use serde_json::{Value, json};

use super::Bench;
use crate::api::names;
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::{Effect, Fact, Outcome, Refused, RollbackReason, Verdict};

fn automatic(cooldown: &str) -> Bench {
    Bench::with_candidate(json!({
        "steps": [{"setWeight": 50}, {"pause": {"duration": "1h"}}, {"setWeight": 100}],
        "trafficRouting": {},
        "rollback": {"mode": "automatic", "cooldown": cooldown},
    }))
}

fn reasons(bench: &Bench) -> Vec<RollbackReason> {
    let reason = |fact: &Fact| match fact {
        Fact::RolledBack { reason, .. } => Some(*reason),
        _ => None,
    };
    bench.facts.iter().filter_map(reason).collect()
}

#[test]
fn a_candidate_that_is_removed_in_flight_gives_its_pods_back_as_stable_replaces_them() {
    let mut bench = automatic("0s");
    bench.run();
    assert_eq!(bench.wanted(), (Some(2), Some(2)));
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    bench.pods("support", 4, 3);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(1)));
    bench.pods("support", 4, 4);
    let verdict = bench.settle();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert_eq!(reasons(&bench), [RollbackReason::Withdrawn]);
    assert_eq!(verdict.decision, None);
    assert_eq!(bench.message(), "rolled back: the candidate was withdrawn");
}

#[test]
fn a_candidate_edited_to_match_the_spec_or_a_removed_block_rolls_back_as_well() {
    for edit in
        [(|spec| spec["rollout"]["candidate"]["promptPackRef"]["version"] = "1.0.0".into()) as fn(&mut Value), |spec| {
            spec["rollout"] = Value::Null;
        }]
    {
        let mut bench = automatic("0s");
        bench.run();
        bench.push(edit);
        bench.run();
        assert_eq!((bench.wanted(), reasons(&bench)), ((Some(4), None), vec![RollbackReason::Withdrawn]));
    }
}

#[test]
fn pods_that_never_become_available_are_rolled_back_at_the_progress_deadline_under_automatic() {
    let mut bench = automatic("0s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(599);
    let verdict = bench.settle();
    assert_eq!((bench.wanted(), reasons(&bench).len()), ((Some(4), Some(2)), 0));
    assert!(verdict.wake_at.is_some());
    bench.advance(2);
    let verdict = bench.settle();
    // None of them served: they go at once, and then git is told.
    assert_eq!((bench.wanted(), reasons(&bench)), ((Some(4), None), vec![RollbackReason::PodUnhealthy]));
    let decision = verdict.decision.unwrap();
    assert_eq!(decision.outcome, Outcome::RolledBack(RollbackReason::PodUnhealthy));
    assert_eq!(decision.pinned_version.as_deref(), Some("2.0.0"));
    assert!(bench.message().starts_with("auto-rollback: pod unhealthy"), "{}", bench.message());
}

#[test]
fn the_progress_deadline_is_a_setting_of_the_agent() {
    let mut bench = automatic("0s");
    bench.annotate(names::PROGRESS_DEADLINE_ANNOTATION, "30s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(31);
    bench.settle();
    assert_eq!(reasons(&bench), [RollbackReason::PodUnhealthy]);
}

#[test]
fn pods_that_crash_during_a_long_pause_are_rolled_back_too() {
    let mut bench = automatic("0s");
    bench.run();
    bench.advance(1_800);
    bench.pods("support-canary", 2, 1);
    bench.settle();
    assert_eq!(bench.wanted(), (Some(3), Some(2)));
    bench.advance(600);
    bench.settle();
    assert_eq!(reasons(&bench), [RollbackReason::PodUnhealthy]);
}

#[test]
fn under_manual_disabled_and_unset_nothing_is_rolled_back_and_the_deadline_is_said() {
    for rollback in [json!({"mode": "manual"}), json!({"mode": "disabled"}), Value::Null] {
        let mut bench =
            Bench::with_candidate(json!({"steps": [{"setWeight": 50}], "trafficRouting": {}, "rollback": rollback}));
        bench.settle();
        bench.pods("support-canary", 2, 0);
        bench.advance(7_200);
        bench.settle();
        assert_eq!((bench.wanted(), reasons(&bench).len()), ((Some(4), Some(2)), 0));
        assert!(bench.message().contains("rollback.mode"), "{}", bench.message());
        assert_eq!(bench.condition("RolloutActive"), ("True".into(), "ProgressDeadlineExceeded".into()));
    }
}

#[test]
fn a_rejected_candidate_does_not_start_again_until_it_is_changed() {
    let mut bench = automatic("0s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(601);
    bench.settle();
    // Git does not answer for a day; the daemon restarts; the old commit is synced again and again.
    bench.advance(86_400);
    let verdict = bench.settle();
    assert!(verdict.decision.is_some());
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
    assert!(bench.message().contains("does not start again"), "{}", bench.message());
    bench.push(|spec| spec["rollout"]["candidate"]["promptPackRef"]["version"] = "3.0.0".into());
    let verdict = bench.settle();
    assert_eq!(verdict.decision, None);
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 2);
}

#[test]
fn reverting_the_rollback_commit_tries_the_candidate_again_and_an_older_commit_does_not() {
    let mut bench = automatic("0s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(601);
    let candidate = bench.world.agent.at("/spec/rollout/candidate").unwrap().clone();
    let decision = bench.settle().decision.unwrap();
    bench.land(&decision);
    let verdict = bench.settle();
    assert_eq!(verdict.decision, None);
    // The branch is forced back to a commit from before the rollback.
    let mut back = Bench { world: bench.world.clone(), facts: Vec::new(), ..bench };
    if let crate::rollout::Origin::Git(git) = &mut back.world.origin {
        git.synced = Some(crate::ids::CommitSha::new("c2"));
        git.contains.clear();
    }
    let old = candidate.clone();
    back.edit_spec(|spec| spec["rollout"]["candidate"] = old);
    let verdict = back.settle();
    assert_eq!(back.count(|fact| matches!(fact, Fact::Started { .. })), 0);
    assert!(verdict.decision.is_some());
    // The rollback commit is reverted on top of it.
    let mut again = Bench { world: back.world.clone(), facts: Vec::new(), ..back };
    if let crate::rollout::Origin::Git(git) = &mut again.world.origin {
        git.synced = Some(crate::ids::CommitSha::new("c4"));
        git.contains = ["c2", "c3"].map(crate::ids::CommitSha::new).into();
    }
    let verdict = again.settle();
    assert_eq!(again.count(|fact| matches!(fact, Fact::Started { .. })), 1);
    assert_eq!(verdict.decision, None);
}

#[test]
fn no_rollout_starts_within_the_cooldown_and_status_says_until_when() {
    let mut bench = automatic("10m");
    bench.run();
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    bench.run();
    bench.push(|spec| spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "3.0.0"}}));
    let verdict = bench.settle();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
    assert!(
        bench.message().contains("cooling down after a rollback until 2026-01-01T00:10:00Z"),
        "{}",
        bench.message()
    );
    assert_eq!(verdict.wake_at.unwrap().duration_since(bench.now).as_secs(), 600);
    bench.advance(600);
    bench.settle();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 2);
}

#[test]
fn an_agent_applied_by_hand_loses_its_rejected_candidate_by_a_patch() {
    let mut bench = automatic("0s").by_hand();
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(601);
    bench.run();
    assert_eq!(bench.world.agent.at("/spec/rollout/candidate"), None);
    assert_eq!(bench.world.agent.text("/spec/promptPackRef/version"), Some("1.0.0"));
    assert_eq!(bench.wanted(), (Some(4), None));
}

#[test]
fn reverting_a_promotion_goes_back_and_clears_the_candidate_that_reappears() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 100}], "trafficRouting": {}}));
    bench.run();
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    bench.run();
    assert_eq!(bench.message(), "promoted");
    bench.push(|spec| {
        spec["promptPackRef"]["version"] = "1.0.0".into();
        spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    });
    let verdict = bench.run();
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(4), None), "content-1.0.0"));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
    let decision = verdict.decision.unwrap();
    assert_eq!(decision.outcome, Outcome::RolledBack(RollbackReason::PromotionReverted));
    bench.land(&decision);
    assert_eq!(bench.run().decision, None);
}

#[test]
fn reverting_a_promotion_while_stable_rolls_turns_back_behind_the_candidates_pods() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 100}], "trafficRouting": {}}));
    bench.run();
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    bench.settle();
    bench.pods("support", 4, 1);
    bench.settle();
    bench.push(|spec| {
        spec["promptPackRef"]["version"] = "1.0.0".into();
        spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    });
    bench.settle();
    // Stable has the old template again, none of its pods is known to run it: the candidate keeps serving.
    assert_eq!((bench.wanted(), bench.pack_of("support").as_str()), ((Some(4), Some(4)), "content-1.0.0"));
    let verdict = bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert_eq!(verdict.decision.unwrap().outcome, Outcome::RolledBack(RollbackReason::PromotionReverted));
}

#[test]
fn a_pod_that_fails_late_in_the_first_step_has_the_whole_deadline_to_come_back() {
    let mut bench = Bench::with_candidate(json!({
        "steps": [{"pause": {}}], "rollback": {"mode": "automatic", "cooldown": "0s"},
    }));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    bench.advance(3_600);
    bench.settle();
    bench.pods("support-canary", 4, 3);
    bench.settle();
    assert_eq!(reasons(&bench), []);
    bench.advance(599);
    bench.settle();
    assert_eq!(reasons(&bench), []);
    bench.advance(2);
    bench.settle();
    assert_eq!(reasons(&bench), [RollbackReason::PodUnhealthy]);
}

#[test]
fn pods_follow_the_weight_while_the_server_refuses_a_new_template() {
    let mut bench = automatic("0s");
    bench.run();
    let refused = crate::rollout::Refused { why: "a webhook says no".into(), is_due: false };
    let stable = bench.world.live(&crate::object::Kind::DEPLOYMENT, "support").unwrap().key();
    bench.world.refused.insert(stable, refused);
    bench.push(|spec| {
        spec["rollout"]["candidate"] = Value::Null;
        spec["runtime"]["nodeSelector"] = json!({"pool": "forbidden"});
    });
    bench.settle();
    // Stable cannot have the new template, and gets its pods back all the same.
    assert_eq!(bench.wanted(), (Some(4), Some(2)));
    assert_eq!(bench.condition("DeploymentReady"), ("False".into(), "DeploymentFailed".into()));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
}

fn undeletable(bench: &mut Bench, kind: &Kind, name: &str, is_due: bool) {
    let refused = Refused { why: "a policy says no".into(), is_due };
    bench.world.undeletable.insert(ObjectKey::new(kind.clone(), "prod", name), refused);
}

fn deletes(verdict: &Verdict) -> usize {
    verdict.effects.iter().filter(|effect| matches!(effect, Effect::Delete(..))).count()
}

#[test]
fn a_candidate_whose_deployment_may_not_be_deleted_loses_its_pods_and_git_is_told() {
    let mut bench = automatic("0s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(601);
    undeletable(&mut bench, &Kind::DEPLOYMENT, "support-canary", false);
    let verdict = bench.settle();
    // It is not asked again before it is time, and its pods are on their way.
    assert_eq!((bench.wanted(), verdict.decision), ((Some(4), Some(0)), None));
    assert!(bench.message().contains("prod/support-canary cannot be deleted: a policy says no"), "{}", bench.message());
    bench.pods("support-canary", 0, 0);
    let decision = bench.settle().decision.unwrap();
    assert_eq!(decision.outcome, Outcome::RolledBack(RollbackReason::PodUnhealthy));
    bench.land(&decision);
    let verdict = bench.settle();
    assert_eq!((verdict.decision, bench.wanted(), reasons(&bench).len()), (None, (Some(4), Some(0)), 1));
    assert!(bench.message().contains("cannot be deleted"), "{}", bench.message());
    undeletable(&mut bench, &Kind::DEPLOYMENT, "support-canary", true);
    let verdict = bench.pass();
    assert_eq!((deletes(&verdict), bench.wanted()), (1, (Some(4), None)));
    bench.world.undeletable.clear();
    bench.settle();
    assert_eq!(bench.message(), "auto-rollback: pod unhealthy");
}

#[test]
fn a_promotion_ends_beside_a_candidate_whose_deployment_may_not_be_deleted() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 100}], "trafficRouting": {}}));
    let decision = bench.run().decision.unwrap();
    bench.land(&decision);
    undeletable(&mut bench, &Kind::DEPLOYMENT, "support-canary", false);
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), Some(0)));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Promoted { .. })), 1);
    // The next one does not start in its Deployment, and it is said why.
    bench.push(|spec| spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "3.0.0"}}));
    bench.run();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
    assert!(bench.message().contains("cannot be deleted: a policy says no"), "{}", bench.message());
}

#[test]
fn what_belongs_to_a_candidate_and_may_not_be_deleted_is_said_and_keeps_nothing_back() {
    let mut bench = automatic("0s");
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.advance(601);
    let beside = ObjectKey::new(Kind::CONFIG_MAP, "prod", "support-canary-config");
    let mut object = Object::bare(&beside);
    object.set(&["metadata", "uid"], "left");
    let owner = json!([{"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime", "name": "support",
        "uid": "agent-uid", "controller": true}]);
    object.set(&["metadata", "ownerReferences"], owner);
    bench.world.live.push(std::sync::Arc::new(object));
    undeletable(&mut bench, &Kind::CONFIG_MAP, "support-canary-config", false);
    let verdict = bench.settle();
    assert_eq!((bench.wanted(), deletes(&verdict)), ((Some(4), None), 0));
    assert!(verdict.decision.is_some() && verdict.report.message.contains("cannot be deleted"), "{:?}", verdict.report);
    undeletable(&mut bench, &Kind::CONFIG_MAP, "support-canary-config", true);
    assert_eq!(deletes(&bench.pass()), 1);
}
