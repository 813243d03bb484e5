//! Seven things that a rollout must not do: each was measured of a widely used operator, on the same control plane.

use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e_promotion::assert_never_fewer;
use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

const CANDIDATE: &str = "assistant-canary-";

#[tokio::test]
async fn no_weight_moves_onto_pods_that_are_not_ready() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.pods_are(CANDIDATE, Behaviour::ReadyAfter(Duration::from_millis(1500))).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
    let samples = pods.samples();
    let waiting: Vec<_> =
        samples.iter().filter(|pods| pods.unready_candidates > 0 && pods.candidate.is_empty()).collect();
    assert!(!waiting.is_empty() && waiting.iter().all(|pods| pods.stable.len() == 4), "{waiting:?}");
}

#[tokio::test]
async fn a_candidate_whose_pods_crash_is_not_promoted() {
    let manifest = Manifest::new(&["25", "200ms", "50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.pods_are(CANDIDATE, Behaviour::Crash).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_rollout("it waits for pods", |rollout| {
        rollout["message"] == "step 0: setWeight 25: waiting for 1 available pod of the candidate"
    })
    .await;
    // Longer than the four steps would take.
    site.until_looked_at().await;
    let rollout = site.rollout().await;
    assert_eq!((&rollout["currentStep"], &rollout["active"]), (&json!(0), &json!(true)));
    assert_eq!(site.agent().await["spec"]["promptPackRef"]["version"], "1.0.0");
    assert!(pods.samples().iter().all(|pods| pods.stable.len() == 4 && pods.candidate.is_empty()));
}

#[tokio::test]
async fn pods_that_crash_during_a_long_pause_are_rolled_back_within_the_progress_deadline() {
    let manifest = Manifest { progress_deadline: "3s", ..Manifest::new(&["50", "10m", "100"]) };
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    let started = tokio::time::Instant::now();
    site.pods_are(CANDIDATE, Behaviour::Crash).await;
    // The weight leaves the pods at once, the candidate goes at the deadline.
    site.until("stable has all pods again", || async { pods.last().stable.len() == 4 }).await;
    site.until_decisions(1).await;
    site.until_stable("1.0.0", 4).await;
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(site.decisions(), [format!("roll back {}/{AGENT} from pack 2.0.0", site.namespace)]);
}

#[tokio::test]
async fn a_pause_that_ends_moves_no_weight_and_keeps_the_pods() {
    let manifest = Manifest::new(&["50", "700ms", "50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let samples = pods.samples();
    let delivered = samples.iter().position(|pods| pods.candidate.len() == 2).expect("half of the pods");
    let proven = &samples[delivered].candidate;
    let handed_over = samples.iter().position(|pods| pods.ready() == 8).expect("both tracks at full size");
    assert!(delivered < handed_over);
    for pods in &samples[delivered..=handed_over] {
        assert!(pods.candidate.is_superset(proven), "{pods:?} has not all of {proven:?}");
    }
}

#[tokio::test]
async fn a_quarter_of_the_weight_is_never_more_than_a_quarter_of_the_pods() {
    let manifest = Manifest::new(&["25", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_resumable().await;
    site.restart().await;
    site.until_looked_at().await;
    for pods in pods.samples() {
        assert!(pods.candidate.len() * 4 <= pods.ready(), "{pods:?}");
        assert!(pods.candidate.len() + pods.unready_candidates <= 1, "{pods:?}");
    }
    assert_eq!((pods.last().candidate.len(), pods.last().stable.len()), (1, 3));
}

/// Applies a manifest as another GitOps tool does that still has an old revision.
async fn reapply(site: &Site, manifest: &Manifest) {
    let object = manifest.object(&site.namespace);
    site.apply("agentruntimes", &object, "another-tool").await;
}

async fn until_candidate_is(site: &Site, candidate: &Value) {
    site.until("the spec is as git says", || async {
        let spec = site.agent().await["spec"].clone();
        spec["rollout"].get("candidate").unwrap_or(&Value::Null) == candidate
    })
    .await;
}

#[tokio::test]
async fn old_manifests_applied_again_by_another_tool_neither_undo_a_promotion_nor_start_it_anew() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let old = manifest.candidate("2.0.0");
    site.push(&old, "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let pods = site.watch_pods().await;
    for _ in 0..3 {
        reapply(&site, &old).await;
        site.until("the drift is corrected", || async {
            site.agent().await["spec"]["promptPackRef"]["version"] == "2.0.0"
        })
        .await;
        until_candidate_is(&site, &Value::Null).await;
    }
    site.until_looked_at().await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
    assert_eq!(site.decisions().len(), 1);
    let samples = pods.samples();
    assert_eq!(samples.len(), 1, "no pod has changed: {samples:?}");
}

#[tokio::test]
async fn old_manifests_applied_again_by_another_tool_do_not_start_a_rejected_candidate() {
    let manifest = Manifest { progress_deadline: "2s", ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    site.pods_are(CANDIDATE, Behaviour::Crash).await;
    let old = manifest.candidate("2.0.0");
    site.push(&old, "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("1.0.0", 4).await;
    let pods = site.watch_pods().await;
    for _ in 0..3 {
        reapply(&site, &old).await;
        until_candidate_is(&site, &Value::Null).await;
    }
    site.until_looked_at().await;
    assert_eq!(site.count_rollouts().await, 1);
    assert_eq!(site.decisions().len(), 1);
    assert_eq!(pods.samples().len(), 1, "no pod has changed");
}

#[tokio::test]
async fn the_manifest_from_before_applied_by_another_tool_does_not_end_a_rollout() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_resumable().await;
    let before = site.rollout().await;
    let pods = site.watch_pods().await;
    let candidate = site.agent().await["spec"]["rollout"]["candidate"].clone();
    for _ in 0..3 {
        reapply(&site, &manifest).await;
        site.edit("agentruntimes", AGENT, &json!({"spec": {"rollout": {"candidate": null}}})).await;
        until_candidate_is(&site, &candidate).await;
    }
    site.until_looked_at().await;
    let after = site.rollout().await;
    assert_eq!((&after["startedAt"], &after["currentStep"]), (&before["startedAt"], &before["currentStep"]));
    assert_eq!(pods.samples().len(), 1, "no pod has changed");
}

#[tokio::test]
async fn a_healthy_rollout_is_never_reported_as_failed_and_meets_no_conflicts() {
    let manifest = Manifest::new(&["25", "200ms", "50", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap().matches("candidate").count(), 0);
    let requests = site.requests();
    let written = requests.iter().filter(|request| request.resource() == "agentruntimes/status");
    let mut phases: Vec<_> = written.filter_map(|request| request.body()?["status"]["phase"].as_str()).collect();
    phases.dedup();
    assert_eq!(phases, ["Pending", "Running"]);
    let refused: Vec<_> = requests
        .iter()
        // Before something is created it is looked for.
        .filter(|request| request.code() >= 400 && (request.is_write() || request.code() != 404))
        .map(|request| format!("{} {} {}: {}", request.verb(), request.resource(), request.name(), request.code()))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}
