//! `serin status` on a real API server.

use std::sync::Arc;

use serde_json::{Value, json};
use serin::clock::SystemClock;
use serin::cluster::api_server::{ApiServer, Connection, Settings};
use serin::cluster::{Apply, Cluster, Expect, FieldManager, Part};
use serin::object::Object;

use crate::cli_support::serin;
use crate::support::control_plane::{ControlPlane, User};
use crate::support::until;

async fn apply(cluster: &ApiServer, object: Value, expect: Expect, part: Part) -> Arc<Object> {
    let object = Object::from_value(object).expect("an object");
    cluster.apply(&Apply { object, manager: FieldManager::Rollout, expect, part }).await.expect("applied")
}

fn deployment(namespace: &str, name: &str, agent: &Object, replicas: u32) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "ownerReferences": [{
                "apiVersion": "omnia.altairalabs.ai/v1alpha1",
                "kind": "AgentRuntime",
                "name": agent.name(),
                "uid": agent.uid().expect("the server gave one").as_str(),
                "controller": true,
            }],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/agent:1"}]},
            },
        },
    })
}

#[tokio::test]
async fn status_shows_the_weight_that_available_pods_carry() {
    let plane = ControlPlane::shared();
    plane.install_serin_crds().await;
    plane.kubelet();
    let namespace = &plane.namespace().await;
    let kubeconfig = plane.kubeconfig(User::Admin);
    let connection = Connection::Kubeconfig { path: Some(kubeconfig.clone()), context: None };
    let settings = Settings::watching(Vec::new());
    let cluster = ApiServer::connect(&connection, settings, Arc::new(SystemClock)).await.expect("a connection");
    let status = move |namespace: String, more: &'static [&'static str]| {
        let kubeconfig = kubeconfig.to_str().expect("UTF-8").to_owned();
        let run = move || serin(&[&["status", "--kubeconfig", &kubeconfig, "-n", &namespace][..], more].concat());
        async { tokio::task::spawn_blocking(run).await.expect("no panic") }
    };

    let nothing = status(namespace.clone(), &[]).await;
    assert_eq!((nothing.code, nothing.stdout.as_str(), nothing.stderr.as_str()), (0, "", "there are no agents\n"));

    let identity = json!({"namespace": namespace, "name": "support"});
    let agent = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": identity,
        "spec": {
            "facades": [{"type": "websocket"}],
            "promptPackRef": {"name": "support-pack", "version": "1.0.0"},
            "rollout": {
                "candidate": {"promptPackRef": {"name": "support-pack", "version": "1.1.0"}},
                "trafficRouting": {"mode": "replicaWeighted"},
                "steps": [{"setWeight": 25}, {"pause": {}}],
            },
        },
    });
    let agent = apply(&cluster, agent, Expect::Absent, Part::Main).await;
    let in_flight = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": identity,
        "status": {"rollout": {
            "active": true,
            "currentStep": 1,
            "currentWeight": 25,
            "stableVersion": "1.0.0",
            "candidateVersion": "1.1.0",
            "message": "step 2: paused indefinitely",
        }},
    });
    apply(&cluster, in_flight, Expect::Uid(agent.uid().expect("it has one")), Part::Status).await;
    apply(&cluster, deployment(namespace, "support", &agent, 3), Expect::Absent, Part::Main).await;
    apply(&cluster, deployment(namespace, "support-canary", &agent, 1), Expect::Absent, Part::Main).await;

    until("all four pods are available", || async {
        let output = status(namespace.clone(), &["-o", "json"]).await;
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        let rows: Value = serde_json::from_str(&output.stdout).expect("JSON");
        rows[0]["deliveredWeight"] == 25
    })
    .await;
    let table = status(namespace.clone(), &[]).await.stdout;
    let row: Vec<&str> = table.lines().nth(1).expect("one agent").split_whitespace().collect();
    let [ns, name, step, weight, delivered, stable, candidate, _age, waits @ ..] = &row[..] else { panic!("{table}") };
    assert_eq!(
        [*ns, *name, *step, *weight, *delivered, *stable, *candidate, &waits.join(" ")],
        [namespace, "support", "2/2", "25%", "25%", "1.0.0", "1.1.0", "step 2: paused indefinitely"]
    );
}

#[tokio::test]
async fn status_of_a_user_who_may_not_list_agents_ends_with_4() {
    let plane = ControlPlane::shared();
    plane.install_serin_crds().await;
    let kubeconfig = plane.kubeconfig(User::Nobody);
    let output =
        tokio::task::spawn_blocking(move || serin(&["status", "--kubeconfig", kubeconfig.to_str().expect("UTF-8")]));
    let output = output.await.expect("no panic");
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{}", output.stderr);
    assert!(output.stderr.contains("not allowed to list AgentRuntime.omnia.altairalabs.ai"), "{}", output.stderr);
}
