//! Rights are missing, or taken away in the middle of a rollout and given back: what may not be done is said by verb and kind,
//! and nothing else waits for it.

use serde_json::json;

use crate::e2e_promotion::assert_never_fewer;
use crate::faults_api::proxied;
use crate::support::manifests::Manifest;
use crate::support::site::Site;

#[tokio::test]
async fn all_rights_taken_away_and_given_back_stop_the_rollout_and_no_more() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let file = manifest.candidate("2.0.0").render(&site.namespace);
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let token = site.until_resumable().await;
    let binding = site.get("rolebindings", "serin").await.expect("granted");
    site.delete("rolebindings", "serin").await;
    site.until("it has noticed: no right to the Lease either", || async { !site.leads() }).await;
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    site.push_file("agents/assistant.yaml", &resumed, "go on");
    let given = json!({"metadata": {"name": "serin"}, "roleRef": binding["roleRef"], "subjects": binding["subjects"]});
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", site.namespace);
    site.plane.create(&path, &given).await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn rights_to_write_deployments_taken_from_a_leader_are_named_and_the_rollout_goes_on_with_them() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let file = manifest.candidate("2.0.0").render(&site.namespace);
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let token = site.until_resumable().await;
    site.take_write_rights(&["apps/deployments", "/configmaps"]).await;
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\n  namespace: {}\n", site.namespace);
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    site.clone.write("more.yaml", &map);
    site.push_file("agents/assistant.yaml", &resumed, "go on");
    let missing = format!("not allowed to patch Deployment.apps in namespace \"{}\"", site.namespace);
    let is_said = |text: &serde_json::Value| text.as_str().is_some_and(|text| text.contains(&missing));
    site.until_rollout("the status names the right", |rollout| is_said(&rollout["message"])).await;
    let of_map = format!("not allowed to patch ConfigMap in namespace \"{}\"", site.namespace);
    site.until("so does the log", || async { site.log().contains(&of_map) }).await;
    assert!(site.leads());
    assert_eq!(site.replicas("assistant-canary").await, Some((2, 2)));
    assert!(site.decisions().is_empty());

    site.give_rights_back().await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    site.until("what was refused is applied", || async { site.get("configmaps", "more").await.is_some() }).await;
    assert_eq!(site.count_rollouts().await, 1);
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn a_right_to_look_that_is_missing_at_the_start_is_named_and_the_daemon_becomes_ready_with_it() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    site.kill();
    site.take_all_rights(&["omnia.altairalabs.ai/promptpacks"]).await;
    let daemon = site.start_second();
    let missing = format!("not allowed to list PromptPack.omnia.altairalabs.ai in namespace \"{}\"", site.namespace);
    site.until("the log names it", || async { daemon.log().contains(&missing) }).await;
    assert!(!daemon.is_ready());
    site.give_rights_back().await;
    site.until("it is ready", || async { daemon.is_ready() }).await;
    site.clone.push_file("agents/assistant.yaml", &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    daemon.running.signal("HUP");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}

#[tokio::test]
async fn a_pause_that_elapses_without_the_right_to_watch_deployments_promotes_nothing_before_it_is_given_back() {
    let manifest = Manifest::new(&["100", "6s"]);
    let (site, proxy) = proxied(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.take_watch_rights(&["apps/deployments"]).await;
    // A watch that is open outlives the right to it.
    proxy.cut();
    let is_said = |rollout: &serde_json::Value| {
        rollout["message"].as_str().is_some_and(|message| message.contains("waiting for the watch of Deployments"))
    };
    site.until_rollout("it says what it waits for", is_said).await;
    site.until_looked_at().await;
    assert!(site.decisions().is_empty());
    site.give_rights_back().await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
}
