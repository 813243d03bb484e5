//! What agents depend on beside their own objects: the credentials of Providers, and other agents.

use serde_json::{Value, json};

use super::*;

const SECRET: &str = "provider-key";

fn manifest(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn secret_key() -> ObjectKey {
    ObjectKey::new(Kind::SECRET, "prod", SECRET)
}

/// A bench whose agent has a provider with a credential in a Secret.
fn bench_with_credential(labels: &Value) -> Bench {
    let mut bench = Bench::new("[{setWeight: 100}]");
    let provider = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider",
        "metadata": {"name": "openai", "namespace": "prod"},
        "spec": {"type": "openai", "credential": {"secretRef": {"name": SECRET}}},
    });
    bench.cluster.create("kubectl", &manifest(provider)).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": "prod", "labels": labels},
        "data": {"OPENAI_API_KEY": "Zmlyc3Q="},
    });
    bench.cluster.create("kubectl", &manifest(secret)).unwrap();
    let with_provider = agent("", "[{setWeight: 100}]")
        .replace("  rollout:", "  providers: [{name: default, providerRef: {name: openai}}]\n  rollout:");
    bench.write(AGENT, &with_provider);
    bench.follow();
    bench
}

fn labelled() -> Value {
    let (label, value) = crate::api::names::CREDENTIALS_LABEL;
    json!({label: value})
}

fn rotate(bench: &Bench) {
    let change = |secret: &mut Object| secret.set(&["data", "OPENAI_API_KEY"], "c2Vjb25k");
    bench.cluster.edit("kubectl", &secret_key(), change).unwrap();
}

/// The digest that decides whether pods are replaced.
fn config_hash(bench: &Bench) -> Option<String> {
    let live = bench.cluster.live(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent"))?;
    live.text("/spec/template/metadata/annotations/omnia.altairalabs.ai~1config-hash").map(str::to_owned)
}

fn reads_of_the_secret_fail(bench: &Bench, error: ClusterError) {
    bench.cluster.inject(Box::new(move |call| match call.verb {
        Verb::Get if call.key.kind == Kind::SECRET => Fate::FailBefore(error.clone()),
        _ => Fate::Proceed,
    }));
}

fn unavailable() -> ClusterError {
    ClusterError::Unavailable { why: "500".into() }
}

fn forbidden() -> ClusterError {
    ClusterError::Forbidden { verb: "get", kind: Kind::SECRET, namespace: "prod".into(), why: "no".into() }
}

#[test]
fn a_rotated_credential_replaces_the_pods_at_once() {
    let mut bench = bench_with_credential(&labelled());
    bench.run_for(20);
    let before = config_hash(&bench).unwrap();
    rotate(&bench);
    bench.run_for(5);
    assert_ne!(config_hash(&bench).unwrap(), before);
}

#[test]
fn a_credential_that_cannot_be_read_for_a_moment_replaces_no_pod() {
    let mut bench = bench_with_credential(&labelled());
    bench.run_for(20);
    let before = config_hash(&bench);
    reads_of_the_secret_fail(&bench, unavailable());
    bench.write(
        AGENT,
        &agent("2.0.0", "[{setWeight: 50}, {pause: {}}]")
            .replace("  rollout:", "  providers: [{name: default, providerRef: {name: openai}}]\n  rollout:"),
    );
    bench.fetch();
    bench.run_for(400);
    assert_eq!(config_hash(&bench), before);
    let message = bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned();
    assert!(message.contains("paused"), "the rollout goes on: {message}");
}

#[test]
fn pods_do_not_start_without_a_credential_that_was_never_read() {
    let mut bench = bench_with_credential(&labelled());
    reads_of_the_secret_fail(&bench, unavailable());
    bench.run_for(20);
    assert_eq!(config_hash(&bench), None);
    bench.cluster.heal();
    bench.run_for(20);
    assert!(config_hash(&bench).is_some());
}

#[test]
fn a_credential_that_serin_may_not_read_holds_nothing_up_and_what_was_known_of_it_stays() {
    let mut bench = bench_with_credential(&labelled());
    reads_of_the_secret_fail(&bench, forbidden());
    bench.run_for(20);
    let without = config_hash(&bench).unwrap();
    // Read again when what is known is old, and then kept when the right is taken away once more.
    bench.cluster.heal();
    rotate(&bench);
    bench.run_for(20);
    let with = config_hash(&bench).unwrap();
    assert_ne!(with, without);
    reads_of_the_secret_fail(&bench, forbidden());
    bench.queue.wake(Key::Agent(AgentKey::new("prod", "agent")));
    bench.run_for(400);
    assert_eq!(config_hash(&bench).unwrap(), with);
}

#[test]
fn a_credential_that_is_deleted_counts_as_none() {
    let mut bench = bench_with_credential(&labelled());
    bench.run_for(20);
    let before = config_hash(&bench).unwrap();
    bench.cluster.delete_by_hand("kubectl", &secret_key());
    bench.run_for(400);
    bench.queue.wake(Key::Agent(AgentKey::new("prod", "agent")));
    bench.run_for(5);
    assert_ne!(config_hash(&bench).unwrap(), before);
}

#[test]
fn an_agent_learns_where_the_agents_are_that_it_calls() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    let caller = agent("", "[{setWeight: 100}]").replace("name: agent\n", "name: caller\n").replace(
        "{type: websocket}",
        "{type: a2a, a2a: {clients: [{name: helper, agentRuntimeRef: {name: agent}}, {name: late, agentRuntimeRef: {name: late}}]}}",
    );
    bench.write("prod/caller.yaml", &caller);
    bench.run_for(30);
    let url = "http://agent.prod.svc.cluster.local:8080";
    let clients = |bench: &Bench| {
        let live = bench.cluster.live(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "caller")).unwrap();
        let env = live.at("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap().clone();
        let found = env.into_iter().find(|entry| entry["name"] == "OMNIA_A2A_CLIENTS");
        found.map(|entry| entry["value"].as_str().unwrap().to_owned())
    };
    assert_eq!(clients(&bench).as_deref(), Some(format!(r#"[{{"name":"helper","url":"{url}"}}]"#).as_str()));
    let status = |bench: &Bench, pointer: &str| {
        let live = bench.cluster.live(&ObjectKey::agent(&AgentKey::new("prod", "caller"))).unwrap();
        live.at(pointer).cloned().unwrap_or_default()
    };
    let own = "http://caller.prod.svc.cluster.local:8080";
    assert_eq!(status(&bench, "/status/a2a/endpoint"), own);
    assert_eq!(status(&bench, "/status/a2a/agentCardURL"), format!("{own}/.well-known/agent.json"));
    assert_eq!(status(&bench, "/status/a2a/clients/0"), json!({"name": "helper", "ready": true, "resolvedURL": url}));
    assert_eq!(
        status(&bench, "/status/a2a/clients/1"),
        json!({"name": "late", "ready": false, "error": "AgentRuntime prod/late is not there"})
    );
    let late = agent("", "[{setWeight: 100}]").replace("name: agent\n", "name: late\n");
    bench.write("prod/late.yaml", &late);
    bench.fetch();
    bench.run_for(30);
    assert!(clients(&bench).unwrap().contains("http://late.prod.svc.cluster.local:8080"), "{:?}", clients(&bench));
    assert_eq!(status(&bench, "/status/a2a/clients/1/ready"), true);
}

#[test]
fn the_management_plane_is_dialled_where_the_status_says() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    let live = bench.live_agent().unwrap();
    assert_eq!(live.at("/status/managementEndpoints"), Some(&json!({"ws": 18080})));
    assert_eq!(live.text("/status/serviceEndpoint"), Some("agent.prod.svc.cluster.local:8080"));
    assert!(live.at("/status/a2a").is_none());
}

#[test]
fn an_agent_has_a_memo_exactly_while_it_is_rolled_out() {
    let mut bench = Bench::alone("[{setWeight: 100}, {pause: {}}]");
    bench.run_for(20);
    assert_eq!(bench.core.memos.count(), 0, "at rest");
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}, {pause: {}}]"));
    bench.fetch();
    bench.run_for(20);
    assert_eq!(bench.core.memos.count(), 1, "in flight");
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
    assert_eq!(bench.core.memos.count(), 0, "promoted, and at rest again");
}

#[test]
fn a_pack_that_goes_leads_to_those_who_used_it_and_to_nobody_else() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let other = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "PromptPack",
        "metadata": {"name": "other-1-0-0", "namespace": "prod"},
        "spec": {"packName": "other", "version": "1.0.0"},
    });
    bench.cluster.create("kubectl", &manifest(other)).unwrap();
    let referrers = |name: &str| {
        let key = ObjectKey::new(Kind::PROMPT_PACK, "prod", name);
        bench.cluster.delete_by_hand("kubectl", &key);
        bench.core.referrers_of_pack(&key).now_or_never().unwrap().unwrap()
    };
    assert!(referrers("other-1-0-0").is_empty());
    assert_eq!(referrers("pack-1-0-0"), [AgentKey::new("prod", "agent")].into());
}
