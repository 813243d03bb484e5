//! Agents that nobody keeps in git.

use serde_json::json;

use crate::e2e_promotion::{assert_never_fewer, assert_passes_through};
use crate::support::kubelet::Behaviour;
use crate::support::manifests::{Manifest, pack};
use crate::support::site::{AGENT, Site};

/// A site whose repository has the packs and whose agent was applied with kubectl.
async fn site_with(manifest: &Manifest) -> Site {
    let site = Site::empty().await;
    for version in ["1.0.0", "2.0.0"] {
        site.clone.write(&format!("packs/{version}.yaml"), &pack(&site.namespace, version));
    }
    site.clone.commit("packs");
    site.clone.push();
    site.start().await;
    site.apply("agentruntimes", &manifest.object(&site.namespace), "kubectl").await;
    site.until_stable("1.0.0", 4).await;
    site
}

#[tokio::test]
async fn an_agent_applied_by_hand_is_rolled_out_and_promoted_by_a_patch() {
    let manifest = Manifest::new(&["25", "100"]);
    let site = site_with(&manifest).await;
    let pods = site.watch_pods().await;
    let before = site.tip();
    let candidate = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    site.edit("agentruntimes", AGENT, &json!({"spec": {"rollout": {"candidate": candidate}}})).await;
    site.until_stable("2.0.0", 4).await;
    pods.until_no_candidate().await;
    assert_passes_through(&pods.samples(), &[(0, 4), (1, 3), (4, 0), (4, 4), (0, 4)]);
    assert_never_fewer(&pods.samples(), 4);
    let spec = site.agent().await["spec"].clone();
    assert_eq!(spec["promptPackRef"], json!({"name": "pack", "version": "2.0.0"}));
    assert!(spec["rollout"].get("candidate").is_none(), "{spec}");
    assert_eq!(site.tip(), before, "it is none of git's business");
}

#[tokio::test]
async fn a_candidate_set_by_hand_whose_pods_crash_is_rolled_back_by_a_patch() {
    let manifest = Manifest { progress_deadline: "2s", ..Manifest::new(&["50", "100"]) };
    let site = site_with(&manifest).await;
    site.pods_are("assistant-canary-", Behaviour::Crash).await;
    let candidate = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
    site.edit("agentruntimes", AGENT, &json!({"spec": {"rollout": {"candidate": candidate}}})).await;
    site.until("the candidate is out of the spec", || async {
        let agent = site.agent().await;
        agent["status"]["rollout"]["active"] == false && agent["spec"]["rollout"].get("candidate").is_none()
    })
    .await;
    site.until_stable("1.0.0", 4).await;
}
