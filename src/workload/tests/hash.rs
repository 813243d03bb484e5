//! What replaces pods: the config hash.

use super::*;

#[test]
fn the_hash_is_sixteen_digits_and_never_changes_for_the_same_inputs() {
    // Another value here replaces the pods of every agent when Serin is upgraded.
    assert_eq!(Fixture::new().hash(Track::Stable), "803a62b20e7e2ace");
    let agent = Object::from_value(json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}})).unwrap();
    let nothing = config_hash("shop", None, &Effective::of(&agent, Track::Stable), None, &[]);
    assert_eq!(nothing, None);
}

#[test]
fn the_hash_changes_with_every_input_that_pods_read_when_they_start() {
    let base = || {
        let mut fixture = Fixture { registry: Some(registry("tools-v1")), ..Fixture::new() };
        fixture.agent["spec"]["toolRegistryRef"] = json!({"name": "tools-v1"});
        fixture
    };
    let before = base().hash(Track::Stable);
    let mut seen = vec![before.clone()];
    let mut differs = |what: &str, change: &dyn Fn(&mut Fixture)| {
        let mut fixture = base();
        change(&mut fixture);
        let hash = fixture.hash(Track::Stable);
        assert_eq!(hash.len(), 16);
        assert!(!seen.contains(&hash), "{what}");
        seen.push(hash);
    };
    differs("pack object", &|f| f.pack["metadata"]["name"] = "pp-2".into());
    differs("pack generation", &|f| f.pack["metadata"]["generation"] = 2.into());
    differs("registry generation", &|f| f.registry.as_mut().unwrap()["metadata"]["generation"] = 2.into());
    differs("registry", &|f| f.registry.as_mut().unwrap()["metadata"]["name"] = "tools-v2".into());
    differs("no registry object", &|f| f.registry = None);
    differs("credential", &|f| f.credential = Some(Digest::new("d1")));
    differs("another credential", &|f| f.credential = Some(Digest::new("d2")));
    differs("provider object", &|f| f.agent["spec"]["providers"][0]["providerRef"]["name"] = "other".into());
    differs("provider namespace", &|f| f.agent["spec"]["providers"][0]["providerRef"]["namespace"] = "models".into());
    differs("role", &|f| f.agent["spec"]["providers"][0]["role"] = "tts".into());
    differs("capabilities", &|f| f.agent["spec"]["providers"][0]["requiredCapabilities"] = json!(["tools"]));
    for (field, value) in [
        ("type", json!("openai")),
        ("model", json!("opus")),
        ("baseURL", json!("http://proxy")),
        ("defaults", json!({"temperature": "0.2"})),
        ("defaults", json!({"topP": "0.2"})),
        ("defaults", json!({"maxTokens": 100})),
        ("defaults", json!({"contextWindow": 100})),
        ("pricing", json!({"inputCostPer1K": "1"})),
        ("pricing", json!({"outputCostPer1K": "1"})),
        ("pricing", json!({"cachedCostPer1K": "1"})),
    ] {
        differs(&format!("{field} {value}"), &|f| f.providers[0].1.as_mut().unwrap()["spec"][field] = value.clone());
    }
    let candidate = json!({"candidate": {"providerRefs": [{"name": "default", "providerRef": {"name": "openai"}}]}});
    let fixture = base().with(&["spec", "rollout"], candidate);
    assert_eq!(fixture.hash(Track::Stable), before);
    assert_ne!(fixture.hash(Track::Candidate), before, "the candidate's providers are in the candidate's hash");
}

#[test]
fn the_hash_does_not_see_order_or_what_the_api_server_fills_in() {
    let two = |first: usize| {
        let mut fixture = Fixture::new();
        fixture.providers.push(("judge", Some(provider("gpt", "o9"))));
        let mut references = [
            json!({"name": "default", "providerRef": {"name": "claude"}}),
            json!({"name": "judge", "providerRef": {"name": "gpt"}, "requiredCapabilities": ["tools", "json"]}),
        ];
        references.rotate_left(first);
        fixture.providers.rotate_left(first);
        fixture.with(&["spec", "providers"], json!(references))
    };
    let before = two(0).hash(Track::Stable);
    assert_eq!(two(1).hash(Track::Stable), before);
    let mut defaulted = two(0);
    defaulted.agent["spec"]["providers"][0]["role"] = "llm".into();
    defaulted.agent["spec"]["providers"][0]["providerRef"]["namespace"] = "shop".into();
    defaulted.agent["spec"]["providers"][1]["requiredCapabilities"] = json!(["json", "tools"]);
    assert_eq!(defaulted.hash(Track::Stable), before);
}

#[test]
fn the_hash_of_providers_that_could_not_be_read_still_knows_the_references() {
    let unread = |name: &str| {
        let mut fixture = Fixture { providers: vec![("default", None)], ..Fixture::new() };
        fixture.agent["spec"]["providers"][0]["providerRef"]["name"] = name.into();
        fixture.hash(Track::Stable)
    };
    assert_ne!(unread("claude"), unread("openai"));
}
