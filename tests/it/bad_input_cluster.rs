//! Bad input that only a cluster can tell: a pack that nobody has, a kind that it does not serve.

use crate::e2e_promotion::assert_never_fewer;
use crate::support::manifests::{Manifest, pack};
use crate::support::site::{AGENT_FILE, Site};

fn config_map(namespace: &str, name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n")
}

#[tokio::test]
async fn a_candidate_pack_that_does_not_exist_is_named_and_tried_when_it_comes() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.clone.write("more.yaml", &config_map(&site.namespace, "more"));
    site.push(&manifest.candidate("9.0.0"), "try 9.0.0");
    site.until("the status names it", || async {
        let condition = site.condition("assistant", "RolloutActive").await;
        condition["message"].as_str().is_some_and(|text| text.contains("9.0.0"))
    })
    .await;
    site.until("the rest is applied", || async { site.get("configmaps", "more").await.is_some() }).await;
    assert!(site.get("deployments", "assistant-canary").await.is_none());
    assert_eq!(site.replicas("assistant").await, Some((4, 4)));
    assert!(site.decisions().is_empty());

    site.push_file("packs/9.0.0.yaml", &pack(&site.namespace, "9.0.0"), "here it is");
    site.until_decisions(1).await;
    site.until_stable("9.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn a_kind_whose_crd_is_missing_is_named_holds_up_nothing_else_and_is_applied_when_it_comes() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::alone().await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    site.plane.delete(crds, "rolloutanalyses.omnia.altairalabs.ai").await;
    let analysis = format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: RolloutAnalysis\nmetadata:\n  name: errors\n  namespace: {}\n\
         spec:\n  metrics:\n    - name: errors\n      interval: 1m\n      count: 5\n      successCondition: result[0] <= 0.05\n\
         \x20     provider: {{prometheus: {{address: \"http://prometheus:9090\", query: errors}}}}\n",
        site.namespace
    );
    site.clone.write("errors.yaml", &analysis);
    site.start_with(&manifest).await;
    site.until("the log names it", || async {
        site.log().lines().any(|line| line.contains("RolloutAnalysis") && line.contains("does not serve"))
    })
    .await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    site.announce();
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;

    site.plane.install_serin_crds().await;
    site.until("it is applied", || async { site.get("rolloutanalyses", "errors").await.is_some() }).await;
}
