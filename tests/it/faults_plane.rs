//! The API server is stopped and started in every phase of a rollout, etcd is restarted, a CRD is deleted and made again.
//!
//! On a control plane of its own, because all other tests need theirs.

use crate::support::control_plane::ControlPlane;
use crate::support::manifests::Manifest;
use crate::support::site::Site;

const UNREACHABLE: &str = "the API server cannot be reached";

/// How often the daemon has said that the API server is away.
fn complaints(site: &Site) -> usize {
    site.log().matches(UNREACHABLE).count()
}

/// Stops the API server until the daemon has noticed, and starts it again.
async fn outage(site: &Site) {
    let before = complaints(site);
    site.plane.stop_api_server();
    // Nobody needs the API server while a rollout pauses but the Lease.
    site.until("the daemon has noticed", || async { complaints(site) > before }).await;
    site.plane.start_api_server().await;
}

#[tokio::test]
async fn an_api_server_that_stops_in_every_phase_and_an_etcd_that_restarts_lose_nothing() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::alone().await;
    site.start_with(&manifest).await;
    let file = manifest.candidate("2.0.0").render(&site.namespace);

    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until("the rollout has begun", || async { site.rollout().await["active"] == true }).await;
    outage(&site).await;
    let token = site.until_resumable().await;
    let started = site.rollout().await["startedAt"].clone();
    outage(&site).await;
    site.plane.restart_etcd();
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    site.push_file("agents/assistant.yaml", &resumed, "go on");
    site.until_decisions(1).await;
    outage(&site).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
    assert!(started.is_string());

    let next = Manifest { version: "2.0.0".into(), ..manifest };
    site.clone.pull();
    let commit = site.push(&next.candidate("3.0.0"), "try 3.0.0");
    site.until_step(1).await;
    site.push_revert(&commit);
    site.until("the rollback has begun", || async {
        let condition = site.condition("assistant", "RolloutActive").await;
        condition["reason"] == "RollingBack" || site.rollout().await["active"] != true
    })
    .await;
    outage(&site).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!((site.decisions().len(), site.count_rollouts().await), (1, 2));
}

#[tokio::test]
async fn a_crd_that_is_deleted_and_made_again_brings_the_agents_of_git_back() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::alone().await;
    site.start_with(&manifest).await;
    let uid = site.agent().await["metadata"]["uid"].clone();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    site.plane.delete(crds, "agentruntimes.omnia.altairalabs.ai").await;
    site.until("the agent is gone", || async { site.get("agentruntimes", "assistant").await.is_none() }).await;
    let plane: &ControlPlane = site.plane;
    plane.install_serin_crds().await;
    site.until("the agent is back", || async {
        let agent = site.agent().await;
        agent["metadata"]["uid"].is_string() && agent["metadata"]["uid"] != uid
    })
    .await;
    site.until_stable("1.0.0", 4).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}
