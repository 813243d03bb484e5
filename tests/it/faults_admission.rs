//! Admission stands in the way of a rollout: a webhook that hangs, one that denies, a policy that does.

use serde_json::json;

use crate::e2e_promotion::assert_never_fewer;
use crate::support::admission::{Admission, WEBHOOKS};
use crate::support::manifests::Manifest;
use crate::support::middleman::Middleman;
use crate::support::site::Site;

/// What the webhook of the tests says. Not by RBAC, though it says "cannot".
const NO: &str = "this pack cannot go live on a Friday";

#[tokio::test]
async fn a_webhook_that_hangs_holds_the_rollout_and_nothing_is_lost() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let silent = Middleman::silent();
    let name = format!("hangs-{}", site.namespace);
    let webhook = json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "hangs.serin.dev",
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 1,
            "clientConfig": {"url": format!("https://{}/", silent.authority())},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
        }],
    });
    site.plane.create(WEBHOOKS, &webhook).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until("the server's words are in the log", || async { site.log().contains("hangs.serin.dev") }).await;
    assert!(site.get("deployments", "assistant-canary").await.is_none());
    assert!(site.decisions().is_empty());
    site.plane.delete(WEBHOOKS, &name).await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn a_policy_that_refuses_pods_is_said_in_the_status_and_the_rollout_goes_on_without_it() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let name = format!("refuses-{}", site.namespace);
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": site.namespace}});
    let rules =
        json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    const ROOT: &str = "/apis/admissionregistration.k8s.io/v1";
    let (policies, bindings) =
        (format!("{ROOT}/validatingadmissionpolicies"), format!("{ROOT}/validatingadmissionpolicybindings"));
    let policy = json!({"metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": selector, "resourceRules": rules},
        "validations": [{"expression": "false", "message": "not on a Friday"}],
    }});
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    site.plane.create(&policies, &policy).await;
    site.plane.create(&bindings, &binding).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    // The server takes a moment to enforce a new policy; a Deployment that was quicker is taken away again.
    site.until("the refusal, or a candidate that was quicker", || async {
        let agent = site.agent().await.to_string();
        agent.contains("not on a Friday") || site.get("deployments", "assistant-canary").await.is_some()
    })
    .await;
    let was_refused = site.agent().await.to_string().contains("not on a Friday");
    site.plane.delete(&bindings, &name).await;
    site.plane.delete(&policies, &name).await;
    println!("refused: {was_refused}");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}

#[tokio::test]
async fn a_webhook_that_denies_is_quoted_in_the_status_keeps_nothing_else_back_and_is_asked_again() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let other = Manifest { name: "other".into(), ..manifest.clone() };
    site.push_file("agents/other.yaml", &other.render(&site.namespace), "another agent");
    site.until("the other agent has its pods", || async { site.replicas("other").await == Some((4, 4)) }).await;
    let pods = site.watch_pods().await;
    let webhook =
        Admission::over(site.plane, &site.namespace, &["apps/deployments", "omnia.altairalabs.ai/agentruntimes"]).await;
    site.until("the server asks the webhook", || async {
        site.edit("deployments", "assistant", &json!({"metadata": {"labels": {"asked": "yes"}}})).await;
        site.edit("deployments", "assistant", &json!({"metadata": {"labels": {"asked": null}}})).await;
        webhook.asked() > 0
    })
    .await;
    // One agent may have no candidate, the other one no new spec.
    webhook.deny(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_candidate = object["kind"] == "Deployment" && name == "assistant-canary";
        let is_tried = name == "other" && object["spec"]["rollout"]["candidate"].is_object();
        (is_candidate || is_tried).then_some(NO)
    });
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\n  namespace: {}\n", site.namespace);
    site.clone.pull();
    site.clone.write("more.yaml", &map);
    site.clone.write("agents/other.yaml", &other.candidate("2.0.0").render(&site.namespace));
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_rollout("the status says why", |rollout| {
        rollout["message"].as_str().is_some_and(|text| text.contains(NO))
    })
    .await;
    site.until("the rest is applied", || async { site.get("configmaps", "more").await.is_some() }).await;
    site.until("the other one's status says why", || async {
        let condition = site.condition("other", "RolloutActive").await;
        condition["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("the spec is not what git says") && text.contains(NO))
    })
    .await;
    assert!(site.get("deployments", "assistant-canary").await.is_none());
    assert!(site.decisions().is_empty());

    webhook.allow();
    site.until_decisions(2).await;
    site.until_stable("2.0.0", 4).await;
    let told = site.get("agentruntimes", "other").await.expect("the other agent")["status"].to_string();
    assert!(!told.contains(NO), "{told}");
    webhook.remove().await;
    assert_never_fewer(&pods.samples(), 4);
}
