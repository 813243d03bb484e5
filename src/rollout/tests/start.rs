//! When a rollout starts, and what holds it.

use serde_json::json;

use super::Bench;
use crate::api::names;
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::Fact;

#[test]
fn an_agent_without_a_rollout_block_gets_its_pods_and_nothing_else() {
    let mut bench = Bench::new(json!(null));
    bench.run();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert_eq!(bench.status("/rollout"), json!(null));
    assert_eq!(bench.condition("RolloutActive"), ("False".into(), "NoActiveRollout".into()));
    assert_eq!(bench.condition("Ready").0, "True");
    assert_eq!(bench.status("/activeVersion"), "1.0.0");
}

#[test]
fn a_candidate_that_says_nothing_or_what_the_spec_says_starts_nothing() {
    for candidate in
        [json!({}), json!({"promptPackRef": {"name": "pack", "version": "v1.0.0"}}), json!({"providerRefs": []})]
    {
        let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}], "candidate": candidate}));
        bench.run();
        assert_eq!((bench.wanted(), bench.facts.len()), ((Some(4), None), 0), "{candidate}");
    }
}

#[test]
fn the_first_deployment_is_not_a_canary() {
    let candidate = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}], "candidate": candidate}));
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert!(bench.message().contains("first deployment"), "{}", bench.message());
    bench.all_ready();
    bench.settle();
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
}

#[test]
fn a_candidate_whose_pack_is_not_there_waits_and_says_so() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
    bench.push(|spec| spec["rollout"]["candidate"]["promptPackRef"]["version"] = "9.9.9".into());
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), None));
    assert!(bench.message().contains("9.9.9"), "{}", bench.message());
    assert_eq!(bench.condition("RolloutActive").0, "False");
}

#[test]
fn a_candidate_whose_provider_is_not_there_waits_and_says_so() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
    bench.push(|spec| {
        spec["rollout"]["candidate"]["providerRefs"] = json!([{"name": "default", "providerRef": {"name": "missing"}}]);
    });
    bench.settle();
    assert!(bench.message().contains("Provider prod/missing"), "{}", bench.message());
    assert_eq!(bench.wanted(), (Some(4), None));
}

#[test]
fn references_are_passed_through_where_the_cluster_has_no_such_kind() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
    bench.world.providers = None;
    bench.push(|spec| {
        spec["rollout"]["candidate"]["providerRefs"] = json!([{"name": "default", "providerRef": {"name": "unseen"}}]);
    });
    bench.settle();
    assert_eq!(bench.wanted(), (Some(4), Some(4)));
    assert_eq!(bench.condition("ProviderReady"), ("Unknown".into(), "NotChecked".into()));
}

#[test]
fn another_agent_of_the_candidates_name_is_never_touched() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
    let mut namesake = Object::bare(&ObjectKey::new(Kind::AGENT_RUNTIME, "prod", "support-canary"));
    namesake.set(&["metadata", "uid"], "other");
    let mut theirs = Object::bare(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "support-canary"));
    theirs.set(&["metadata", "uid"], "other-deployment");
    bench.world.live.extend([namesake.into(), theirs.into()]);
    let verdict = bench.settle();
    assert!(verdict.effects.is_empty());
    assert!(bench.message().contains("support-canary"), "{}", bench.message());
    assert!(bench.world.live(&Kind::DEPLOYMENT, "support-canary").is_some());
}

#[test]
fn a_deployment_of_the_agents_name_that_is_somebody_elses_is_never_touched() {
    let mut bench = Bench::new(json!(null));
    let mut theirs = Object::bare(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "support"));
    theirs.set(&["metadata", "uid"], "theirs");
    theirs.set(&["spec", "replicas"], 1);
    bench.world.live.push(theirs.into());
    bench.settle();
    assert_eq!(bench.wanted(), (Some(1), None));
    assert_eq!(bench.condition("DeploymentReady"), ("False".into(), "NameTaken".into()));
    assert_eq!(bench.status("/phase"), "Failed");
}

#[test]
fn what_this_version_cannot_do_is_said_and_nothing_starts() {
    for (field, value, word) in [
        ("trafficRouting", json!({"mode": "mesh"}), "mesh"),
        ("trafficRouting", json!({"istio": {}}), "external"),
        ("steps", json!([{"analysis": {"templateName": "quality"}}]), "analysis"),
    ] {
        let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
        bench.push(|spec| spec["rollout"][field] = value);
        bench.settle();
        assert_eq!(bench.wanted(), (Some(4), None));
        assert!(bench.message().contains(word), "{}", bench.message());
    }
}

#[test]
fn a_spec_that_cannot_be_used_moves_nothing_and_names_the_field() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}, {"pause": {}}], "trafficRouting": {}}));
    bench.run();
    let before = bench.wanted();
    bench.edit_spec(|spec| spec["rollout"]["steps"] = json!([{"setWeight": 50, "pause": {}}, {}]));
    bench.settle();
    assert_eq!(bench.wanted(), before);
    let (status, reason) = bench.condition("RolloutActive");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidSpec"));
    let text = bench.status("/conditions").to_string();
    assert!(text.contains("spec.rollout.steps[0]") && text.contains("spec.rollout.steps[1]"), "{text}");
}

#[test]
fn the_candidates_pods_run_the_candidates_pack_and_stable_keeps_its_own() {
    let mut bench = Bench::with_candidate(json!({"steps": [{"setWeight": 50}]}));
    bench.settle();
    assert_eq!(bench.pack_of("support"), "content-1.0.0");
    assert_eq!(bench.pack_of("support-canary"), "content-2.0.0");
    let canary = bench.world.live(&Kind::DEPLOYMENT, "support-canary").unwrap();
    assert_eq!(canary.text("/spec/template/metadata/labels/omnia.altairalabs.ai~1track"), Some(names::CANARY));
}
