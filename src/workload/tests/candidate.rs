//! What makes the candidate another variant.

use super::*;

#[test]
fn a_candidate_is_named_after_its_agent() {
    assert_eq!(names::candidate_deployment("x"), "x-canary");
    assert_eq!(names::candidate_deployment("customer-support"), "customer-support-canary");
}

#[test]
fn a_candidate_overrides_what_it_sets_and_inherits_the_rest() {
    let base = || Fixture::new().with(&["spec", "toolRegistryRef"], json!({"name": "tools-v1"}));
    let effective = |fixture: Fixture| {
        let agent = Object::from_value(fixture.agent).unwrap();
        let effective = Effective::of(&agent, Track::Candidate);
        let provider = effective.providers[0].pointer("/providerRef/name").unwrap().as_str().unwrap().to_owned();
        let version = effective.prompt_pack_ref["version"].as_str().unwrap_or("none").to_owned();
        (version, provider, effective.tool_registry().unwrap().to_owned())
    };
    let spec = ("1.0.0".to_owned(), "claude".to_owned(), "tools-v1".to_owned());
    assert_eq!(effective(base()), spec);
    assert_eq!(effective(base().with(&["spec", "rollout"], json!({"candidate": {}}))), spec);
    assert_eq!(effective(base().with(&["spec", "rollout"], json!({"candidate": {"providerRefs": []}}))), spec);

    let candidate = json!({"candidate": {"providerRefs": [{"name": "default", "providerRef": {"name": "openai"}}]}});
    let overridden = effective(base().with(&["spec", "rollout"], candidate));
    assert_eq!(overridden, ("1.0.0".to_owned(), "openai".to_owned(), "tools-v1".to_owned()));

    let candidate = json!({"candidate": {"toolRegistryRef": {"name": "tools-v2"}}});
    let overridden = effective(base().with(&["spec", "rollout"], candidate));
    assert_eq!(overridden, ("1.0.0".to_owned(), "claude".to_owned(), "tools-v2".to_owned()));

    let candidate = json!({"candidate": {"promptPackRef": {"name": "support-pack", "track": "prerelease"}}});
    let overridden = effective(base().with(&["spec", "rollout"], candidate));
    assert_eq!(overridden.0, "none", "the pack reference is replaced as a whole");
}

#[test]
fn a_candidate_mounts_its_own_pack() {
    let fixture = Fixture { pack: pack("pp-2", "2.0.0", "pack-2"), ..Fixture::new() };
    let deployment = fixture.deployment(Track::Candidate);
    let volumes = deployment.at("/spec/template/spec/volumes").unwrap().as_array().unwrap();
    let pack = volumes.iter().find(|volume| volume["name"] == "promptpack-config").unwrap();
    assert_eq!(pack["configMap"]["name"], "pack-2");
    assert_eq!(variable(&deployment, "facade", "OMNIA_PROMPTPACK_VERSION").as_deref(), Some("2.0.0"));
    assert_eq!(variable(&deployment, "runtime", "OMNIA_PROMPTPACK_VERSION").as_deref(), Some("2.0.0"));
}

#[test]
fn the_tracks_differ_in_the_track_label_of_selector_and_pods_and_in_the_variant() {
    for (track, label, variant) in [(Track::Stable, "stable", "stable"), (Track::Candidate, "canary", "candidate")] {
        let deployment = Fixture::new().deployment(track);
        let selector = deployment.at("/spec/selector/matchLabels").unwrap().as_object().unwrap();
        let pods = deployment.at("/spec/template/metadata/labels").unwrap().as_object().unwrap();
        assert_eq!(selector[names::TRACK_LABEL], label);
        assert_eq!(selector.len(), 5);
        assert_eq!(selector["app.kubernetes.io/instance"], "support");
        assert!(selector.iter().all(|(key, value)| pods.get(key) == Some(value)));
        assert_eq!(pods["omnia.altairalabs.ai/mode"], "agent");
        assert!(!selector.contains_key("omnia.altairalabs.ai/mode"), "the mode may change, a selector may not");
        assert_eq!(variable(&deployment, "facade", "OMNIA_VARIANT").as_deref(), Some(variant));
        assert_eq!(deployment.annotation(names::VARIANT_ANNOTATION), Some("0123abcd"));
    }
}

#[test]
fn the_override_holds_the_candidates_providers_and_no_others() {
    let candidate = json!({"candidate": {"providerRefs": [
        {"name": "default", "providerRef": {"name": "openai", "namespace": "models"}, "role": "llm",
         "requiredCapabilities": ["tools"], "comment": "of the user"},
    ]}});
    let content = |fixture: Fixture| {
        let config = fixture.render(Track::Candidate).unwrap().remove(0);
        serde_json::from_str::<Value>(config.text("/data/override.json").unwrap()).unwrap()
    };
    assert_eq!(
        content(Fixture::new().with(&["spec", "rollout"], candidate)),
        json!({"providerRefs": [
            {"name": "default", "providerRef": {"name": "openai", "namespace": "models"}, "role": "llm",
             "requiredCapabilities": ["tools"]},
        ]})
    );
    assert_eq!(
        content(Fixture::new()),
        json!({"providerRefs": [{"name": "default", "providerRef": {"name": "claude"}}]})
    );
}

#[test]
fn a_candidate_without_providers_has_no_override() {
    let fixture = Fixture::new().with(&["spec", "providers"], Value::Null);
    let objects = fixture.render(Track::Candidate).unwrap();
    assert!(objects.iter().all(|object| object.name() != names::candidate_config("support")));
    assert!(!mounts(&fixture.deployment(Track::Candidate), "facade").contains(&"canary-override".to_owned()));
}

#[test]
fn the_override_is_mounted_by_all_containers_of_the_candidate_alone() {
    for name in ["facade", "runtime"] {
        assert!(!mounts(&Fixture::new().deployment(Track::Stable), name).contains(&"canary-override".to_owned()));
        assert!(mounts(&Fixture::new().deployment(Track::Candidate), name).contains(&"canary-override".to_owned()));
    }
}

#[test]
fn a_promotion_does_not_change_the_candidates_pods() {
    let mut fixture = Fixture { registry: Some(registry("tools-v2")), ..Fixture::new() }
        .with(&["spec", "toolRegistryRef"], json!({"name": "tools-v1"}))
        .with(
            &["spec", "rollout"],
            json!({"candidate": {
                "promptPackRef": {"name": "support-pack", "version": "2.0.0"},
                "providerRefs": [{"name": "default", "providerRef": {"name": "openai"}}],
                "toolRegistryRef": {"name": "tools-v2"},
            }}),
        );
    let before = fixture.render(Track::Candidate).unwrap();
    fixture.agent["spec"]["promptPackRef"]["version"] = "2.0.0".into();
    fixture.agent["spec"]["providers"][0]["providerRef"]["name"] = "openai".into();
    fixture.agent["spec"]["toolRegistryRef"]["name"] = "tools-v2".into();
    assert_eq!(fixture.render(Track::Candidate).unwrap(), before);
    fixture.agent["spec"]["rollout"]["candidate"] = Value::Null;
    assert_eq!(fixture.render(Track::Candidate).unwrap(), before);
}

#[test]
fn a_registry_of_another_namespace_is_refused_for_both_tracks() {
    let fixture = Fixture::new()
        .with(&["spec", "toolRegistryRef"], json!({"name": "tools", "namespace": "shop"}))
        .with(&["spec", "rollout"], json!({"candidate": {"toolRegistryRef": {"name": "t", "namespace": "other"}}}));
    assert!(fixture.render(Track::Stable).is_ok());
    assert_eq!(fixture.render(Track::Candidate).unwrap_err().reason(), "ToolRegistryCrossNamespace");
    let fixture = fixture.with(&["spec", "toolRegistryRef", "namespace"], json!("other"));
    assert_eq!(fixture.render(Track::Stable).unwrap_err().condition(), "ToolRegistryReady");
}
