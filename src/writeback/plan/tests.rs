use serde_json::json;

use crate::ids::{AgentKey, RolloutId};

use super::*;

const MANIFEST: &str = "\
apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata:
  name: support-agent
spec:
  promptPackRef:
    name: support-pack
    version: 1.0.0
  rollout:
    candidate:
      promptPackRef:
        name: support-pack
        version: 2.0.0
    steps:
      - setWeight: 20
";
const CANDIDATE: &str = "    candidate:\n      promptPackRef:\n        name: support-pack\n        version: 2.0.0\n";

fn decision(outcome: Outcome) -> Decision {
    Decision {
        agent: AgentKey::new("production", "support-agent"),
        rollout: RolloutId::new("r-1"),
        outcome,
        candidate: json!({"promptPackRef": {"name": "support-pack", "version": "2.0.0"}}),
        base: json!({"promptPackRef": {"name": "support-pack", "version": "1.0.0"}}),
        trial: json!({"steps": [{"setWeight": 20}]}),
        title: "support-pack 2.0.0".to_owned(),
        story: Vec::new(),
        pinned_version: Some("2.0.0".to_owned()),
    }
}

fn rolled_back() -> Decision {
    decision(Outcome::RolledBack(RollbackReason::PodUnhealthy))
}

fn run(decision: &Decision, text: &str) -> Planned {
    plan(decision, &TreePath::new("agent.yaml"), text.as_bytes(), "production")
}

#[track_caller]
fn edited(decision: &Decision, text: &str) -> String {
    match run(decision, text) {
        Planned::Edit { contents, .. } => String::from_utf8(contents).unwrap(),
        planned => panic!("{planned:?}"),
    }
}

#[track_caller]
fn void(decision: &Decision, text: &str) -> String {
    match run(decision, text) {
        Planned::Void { why } => why,
        planned => panic!("{planned:?}"),
    }
}

#[test]
fn a_promotion_changes_only_the_version_line_and_the_candidate() {
    let expected = MANIFEST.replace(CANDIDATE, "").replace("1.0.0", "2.0.0");
    assert_eq!(edited(&decision(Outcome::Promoted), MANIFEST), expected);
}

#[test]
fn an_automatic_rollback_marks_the_version_and_others_do_not() {
    let without = MANIFEST.replace(CANDIDATE, "");
    let mark = "agent\n  annotations:\n    omnia.altairalabs.ai/last-rolled-back-version: 2.0.0\nspec";
    assert_eq!(edited(&rolled_back(), MANIFEST), without.replace("agent\nspec", mark));
    for reason in [RollbackReason::Withdrawn, RollbackReason::PromotionReverted] {
        assert_eq!(edited(&decision(Outcome::RolledBack(reason)), MANIFEST), without);
    }
    let unpinned = Decision { pinned_version: None, ..rolled_back() };
    assert_eq!(edited(&unpinned, MANIFEST), without);
}

#[test]
fn what_the_manifest_says_already_is_no_commit() {
    let promoted = MANIFEST.replace(CANDIDATE, "").replace("1.0.0", "2.0.0");
    assert_eq!(run(&decision(Outcome::Promoted), &promoted), Planned::AlreadyTrue);
    assert_eq!(run(&rolled_back(), &MANIFEST.replace(CANDIDATE, "")), Planned::AlreadyTrue);
    assert_eq!(run(&rolled_back(), &MANIFEST.replace(CANDIDATE, "    candidate: null\n")), Planned::AlreadyTrue);
    assert_eq!(run(&rolled_back(), &MANIFEST.replace(CANDIDATE, "    candidate:\n")), Planned::AlreadyTrue);
}

#[test]
fn another_candidate_voids_the_decision() {
    let other = MANIFEST.replace("2.0.0", "3.0.0");
    let why = "production/support-agent: the manifest holds another candidate than the one that was decided about";
    assert_eq!(void(&decision(Outcome::Promoted), &other), why);
    assert_eq!(void(&rolled_back(), &other), why);
    assert_eq!(void(&rolled_back(), &MANIFEST.replace(CANDIDATE, "    candidate: {}\n")), why);
}

#[test]
fn a_withdrawn_candidate_is_never_promoted() {
    let withdrawn = MANIFEST.replace(CANDIDATE, "");
    assert!(void(&decision(Outcome::Promoted), &withdrawn).contains("was removed"));
}

#[test]
fn another_spec_voids_the_promotion_and_not_the_rollback() {
    let other = MANIFEST.replace("1.0.0", "1.5.0");
    assert!(void(&decision(Outcome::Promoted), &other).contains("the spec was changed"));
    edited(&rolled_back(), &other);
    let providers = MANIFEST.replace("  rollout:", "  providers: [{name: a, providerRef: {name: a}}]\n  rollout:");
    assert!(void(&decision(Outcome::Promoted), &providers).contains("the spec was changed"));
}

#[test]
fn a_spec_that_was_set_to_the_candidate_by_hand_only_loses_it() {
    let by_hand = MANIFEST.replace("1.0.0", "2.0.0");
    assert_eq!(edited(&decision(Outcome::Promoted), &by_hand), by_hand.replace(CANDIDATE, ""));
}

#[test]
fn defaults_of_the_api_server_make_no_other_candidate() {
    let provider = json!({"name": "a", "providerRef": {"name": "a"}, "role": "llm", "requiredCapabilities": []});
    let filled_in = json!({"providerRefs": [provider], "promptPackRef": null, "toolRegistryRef": null});
    assert!(is_same(&filled_in, &json!({"providerRefs": [{"name": "a", "providerRef": {"name": "a"}}]})));
    assert!(!is_same(&filled_in, &json!({"providerRefs": [{"name": "a", "providerRef": {"name": "b"}}]})));
    assert!(!is_same(&json!({"role": "tts"}), &json!({})));
}

#[test]
fn decisions_about_one_file_build_on_each_other() {
    let sales = MANIFEST.replace("support-agent", "sales-agent");
    let file = format!("{MANIFEST}---\n# sales\n{sales}");
    let support_decision = decision(Outcome::Promoted);
    let sales_decision = Decision { agent: AgentKey::new("production", "sales-agent"), ..rolled_back() };
    let first = edited(&support_decision, &file);
    let both = edited(&sales_decision, &first);
    let other_way = edited(&support_decision, &edited(&sales_decision, &file));
    assert_eq!(both, other_way);
    assert_eq!(run(&support_decision, &both), Planned::AlreadyTrue);
    assert_eq!(run(&sales_decision, &both), Planned::AlreadyTrue);
    assert_eq!(first, format!("{}---\n# sales\n{sales}", MANIFEST.replace(CANDIDATE, "").replace("1.0.0", "2.0.0")));
}

#[test]
fn a_patch_of_an_object_says_the_same() {
    let object: Value = serde_saphyr::from_str(MANIFEST).unwrap();
    let PlannedChanges::Changes(changes) = plan_changes(&decision(Outcome::Promoted), &object) else { panic!() };
    assert_eq!(
        merge_patch(&object, &changes),
        json!({"spec": {"promptPackRef": {"version": "2.0.0"}, "rollout": {"candidate": null}}})
    );
    // A version gives way to a track: a merge patch has to say so.
    let candidate = json!({"promptPackRef": {"name": "support-pack", "track": "prerelease"}});
    let mut tracked = object;
    tracked["spec"]["rollout"]["candidate"] = candidate.clone();
    let decision = Decision { candidate, ..decision(Outcome::Promoted) };
    let PlannedChanges::Changes(changes) = plan_changes(&decision, &tracked) else { panic!() };
    assert_eq!(
        merge_patch(&tracked, &changes),
        json!({"spec": {"promptPackRef": {"version": null, "track": "prerelease"}, "rollout": {"candidate": null}}})
    );
}

#[test]
fn the_base_is_what_is_set_of_the_three() {
    let spec = json!({"promptPackRef": {"name": "a"}, "providers": null, "replicas": 2});
    assert_eq!(base(&spec), json!({"promptPackRef": {"name": "a"}}));
}

#[test]
fn a_promotion_is_void_when_steps_were_added_or_the_routing_was_changed() {
    let paused = MANIFEST.replace("      - setWeight: 20\n", "      - setWeight: 20\n      - pause: {}\n");
    let routed = MANIFEST.replace("    steps:\n", "    trafficRouting: {mode: replicaWeighted}\n    steps:\n");
    for text in [paused, routed] {
        assert!(void(&decision(Outcome::Promoted), &text).contains("were changed since"));
    }
}
