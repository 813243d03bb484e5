//! A candidate that is taken back: by a person's revert, or because its pods do not come.

use crate::e2e_promotion::assert_never_fewer;
use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

const CANDIDATE: &str = "assistant-canary-";

#[tokio::test]
async fn a_pushed_revert_rolls_back_and_there_are_never_fewer_pods_than_the_spec_says() {
    let manifest = Manifest::new(&["50", "10m", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.until("half of the pods are the candidate's", || async {
        pods.last().candidate.len() == 2 && pods.last().stable.len() == 2
    })
    .await;
    let revert = site.push_revert(&commit);
    site.until_stable("1.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
    // git says it already: there is nothing to commit.
    assert_eq!(site.tip(), revert);
    assert!(site.decisions().is_empty());
}

#[tokio::test]
async fn a_revert_at_full_weight_brings_stable_back_before_the_candidate_goes() {
    let manifest = Manifest::new(&["100", "10m"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.until("all pods are the candidate's", || async { pods.last().candidate.len() == 4 }).await;
    site.push_revert(&commit);
    site.until_stable("1.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn a_reverted_promotion_runs_the_old_version_again_and_clears_the_candidate() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let promotion = site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    site.push_revert(&promotion);
    site.until_decisions(2).await;
    site.until_stable("1.0.0", 4).await;
    assert_eq!(site.decisions()[1], format!("roll back {}/{AGENT} from pack 2.0.0", site.namespace));
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), manifest.render(&site.namespace));
    assert!(site.get("deployments", "assistant-canary").await.is_none());
}

#[tokio::test]
async fn a_candidate_whose_pods_crash_is_rolled_back_by_a_commit_and_does_not_start_again_by_itself() {
    let manifest = Manifest { progress_deadline: "2s", ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.pods_are(CANDIDATE, Behaviour::Crash).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let rollback = site.until_decisions(1).await;
    site.until_stable("1.0.0", 4).await;
    assert_eq!(site.decisions(), [format!("roll back {}/{AGENT} from pack 2.0.0", site.namespace)]);
    let file = String::from_utf8(site.server_file(AGENT_FILE)).unwrap();
    assert!(!file.contains("candidate:"), "{file}");
    assert!(pods.samples().iter().all(|pods| pods.candidate.is_empty() && pods.stable.len() == 4));

    site.restart().await;
    site.until_looked_at().await;
    assert_eq!((site.count_rollouts().await, site.decisions().len()), (1, 1));
    assert!(site.get("deployments", "assistant-canary").await.is_none());

    // The revert of the rollback asks for another try.
    site.pods_are(CANDIDATE, Behaviour::Ready).await;
    site.push_revert(&rollback);
    site.until_decisions(2).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 2);
}

#[tokio::test]
async fn a_candidate_whose_pods_are_never_ready_stays_under_manual_until_a_person_removes_it() {
    let manifest = Manifest { progress_deadline: "2s", rollback: "manual", ..Manifest::new(&["25", "100"]) };
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.pods_are(CANDIDATE, Behaviour::NeverReady).await;
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_rollout("it says that a person is needed", |rollout| {
        rollout["message"].as_str().is_some_and(|text| text.contains("rollback.mode is not automatic"))
    })
    .await;
    assert_eq!(site.condition(AGENT, "RolloutActive").await["reason"], "ProgressDeadlineExceeded");
    site.until_looked_at().await;
    assert_eq!(site.replicas("assistant-canary").await, Some((1, 0)));
    assert_eq!((site.rollout().await["currentStep"].as_u64(), site.decisions().len()), (Some(0), 0));
    site.push_revert(&commit);
    site.until_stable("1.0.0", 4).await;
    assert!(site.decisions().is_empty());
    assert!(pods.samples().iter().all(|pods| pods.stable.len() == 4), "no weight on pods that were never ready");
}

#[tokio::test]
async fn a_rejected_candidate_stays_rejected_while_git_is_away_and_its_commit_follows() {
    let manifest = Manifest { progress_deadline: "2s", ..Manifest::new(&["50", "10m"]) };
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.server.stop();
    site.pods_are(CANDIDATE, Behaviour::Crash).await;
    let is_gone = || async {
        site.rollout().await["active"] == false && site.get("deployments", "assistant-canary").await.is_none()
    };
    site.until("the candidate is rolled back", is_gone).await;
    // The spec names it still: git does, and nobody can change that now.
    assert_eq!(site.agent().await["spec"]["rollout"]["candidate"]["promptPackRef"]["version"], "2.0.0");
    site.pods_are(CANDIDATE, Behaviour::Ready).await;
    site.restart().await;
    site.until("the daemon has found git away", || async { site.log().contains("cannot be fetched") }).await;
    site.edit("agentruntimes", AGENT, &serde_json::json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    site.server.resume();
    site.announce();
    site.until_decisions(1).await;
    site.until_stable("1.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
}
