//! Names that an agent needs and somebody else has.

use serde_json::{Value, json};

use crate::support::manifests::{Manifest, pack};
use crate::support::site::{AGENT, AGENT_FILE, Site};

/// A Deployment that somebody made, with two pods.
async fn foreign_deployment(site: &Site, name: &str) -> Value {
    let labels = json!({"app": "theirs"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
            },
        },
    });
    site.apply("deployments", &deployment, "somebody").await
}

async fn assert_untouched(site: &Site, before: &Value) {
    let name = before["metadata"]["name"].as_str().expect("a name");
    let after = site.get("deployments", name).await.expect("it is still there");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    let managers: Vec<_> = after["metadata"]["managedFields"].as_array().expect("a list").iter().collect();
    assert!(
        managers.iter().all(|entry| !entry["manager"].as_str().expect("a name").starts_with("serin")),
        "{managers:?}"
    );
    assert_eq!(after["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test]
async fn a_foreign_deployment_of_the_agents_name_is_not_touched_and_the_condition_says_so() {
    let site = Site::empty().await;
    let theirs = foreign_deployment(&site, AGENT).await;
    site.clone.write("pack.yaml", &pack(&site.namespace, "1.0.0"));
    site.clone.push_file(AGENT_FILE, &Manifest::new(&["100"]).render(&site.namespace), "an agent");
    site.start().await;
    site.until("the condition says so", || async {
        site.condition(AGENT, "DeploymentReady").await["reason"] == "NameTaken"
    })
    .await;
    let condition = site.condition(AGENT, "DeploymentReady").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("a Deployment assistant is there that does not belong to this agent"), "{message}");
    assert_eq!(site.agent().await["status"]["phase"], "Failed");
    assert_untouched(&site, &theirs).await;
}

#[tokio::test]
async fn a_foreign_deployment_of_the_candidates_name_holds_the_rollout_and_is_not_touched() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let theirs = foreign_deployment(&site, "assistant-canary").await;
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_rollout("the message says so", |rollout| {
        rollout["message"].as_str().is_some_and(|text| text.contains("a Deployment assistant-canary is there"))
    })
    .await;
    assert_eq!(site.rollout().await["active"], false);
    site.push_revert(&commit);
    site.until_looked_at().await;
    assert_untouched(&site, &theirs).await;
}

#[tokio::test]
async fn an_agent_called_like_the_candidate_of_another_keeps_its_pods() {
    let manifest = Manifest { replicas: 2, ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    // In git beside the other it would be refused by the loader already.
    let namesake = Manifest { name: "assistant-canary".into(), ..manifest.clone() };
    site.apply("agentruntimes", &namesake.object(&site.namespace), "kubectl").await;
    site.until("it runs", || async { site.replicas("assistant-canary").await == Some((2, 2)) }).await;
    let before = site.get("deployments", "assistant-canary").await.unwrap();
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_rollout("the message says so", |rollout| {
        rollout["message"]
            .as_str()
            .is_some_and(|text| text.contains("the name assistant-canary belongs to the AgentRuntime"))
    })
    .await;
    site.push_revert(&commit);
    site.until_looked_at().await;
    let after = site.get("deployments", "assistant-canary").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(site.replicas("assistant-canary").await, Some((2, 2)));
}
