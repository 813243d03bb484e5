//! The daemon is killed at the worst moments: what is done afterwards is what would have been done without.

use crate::e2e_promotion::assert_never_fewer;
use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

const CANDIDATE: &str = "assistant-canary-";
/// All pods of the agent; where there is a rule for [`CANDIDATE`] too, those of stable.
const ALL: &str = "assistant-";

#[tokio::test]
async fn killed_while_a_step_waits_for_pods_it_goes_on_with_the_same_rollout() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.pods_are(CANDIDATE, Behaviour::NeverReady).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until("the candidate's pods are there", || async { pods.last().unready_candidates == 2 }).await;
    let before = site.until_step(0).await;
    site.restart().await;
    site.pods_are(CANDIDATE, Behaviour::Ready).await;
    let after = site.until_rollout("the rollout goes on", |rollout| rollout["currentStep"] != 0).await;
    assert_eq!(after["startedAt"], before["startedAt"], "the same rollout");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn killed_while_stable_takes_on_the_promoted_version_it_completes_the_promotion() {
    let manifest = Manifest::new(&["100", "forever"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let file = manifest.candidate("2.0.0").render(&site.namespace);
    site.push_file(AGENT_FILE, &file, "try 2.0.0");
    let token = site.until_resumable().await;
    site.pods_are(CANDIDATE, Behaviour::Ready).await;
    site.pods_are(ALL, Behaviour::NeverReady).await;
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    site.push_file(AGENT_FILE, &resumed, "go on");
    site.until_decisions(1).await;
    site.until_rollout("the promotion", |rollout| rollout["promoting"] == true).await;
    site.restart().await;
    // Nothing that serves is taken away while the new stable pods do not come.
    site.until("stable has pods that are not ready", || async { site.replicas(AGENT).await == Some((4, 0)) }).await;
    assert_eq!(site.replicas("assistant-canary").await, Some((4, 4)));
    site.pods_are(ALL, Behaviour::Ready).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.decisions().len(), 1);
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn killed_while_stable_comes_back_it_completes_the_rollback() {
    let manifest = Manifest::new(&["100", "10m"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let commit = site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.pods_are(CANDIDATE, Behaviour::Ready).await;
    site.pods_are(ALL, Behaviour::NeverReady).await;
    site.push_revert(&commit);
    site.until("stable has pods that are not ready", || async { site.replicas(AGENT).await == Some((4, 0)) }).await;
    site.restart().await;
    site.until("the rollback is known", || async {
        site.condition(AGENT, "RolloutActive").await["reason"] == "RollingBack"
    })
    .await;
    assert_eq!(site.replicas("assistant-canary").await, Some((4, 4)));
    site.pods_are(ALL, Behaviour::Ready).await;
    site.until_stable("1.0.0", 4).await;
    assert!(site.decisions().is_empty());
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn killed_after_every_change_of_the_status_the_rollout_ends_as_if_it_had_not_been() {
    let manifest = Manifest::new(&["25", "500ms", "50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let mut known = site.agent().await["status"].clone();
    let mut kills = 0;
    while site.decisions().is_empty() || site.rollout().await["active"] == true {
        let version = site.agent().await["metadata"]["resourceVersion"].clone();
        site.eventually("another status", || async {
            let agent = site.agent().await;
            (agent["status"] != known || agent["metadata"]["resourceVersion"] != version).then_some(())
        })
        .await;
        site.restart().await;
        kills += 1;
        known = site.agent().await["status"].clone();
    }
    site.until_stable("2.0.0", 4).await;
    assert!(kills >= 4, "{kills}");
    assert_eq!(site.decisions(), [format!("promote {}/{AGENT} to pack 2.0.0", site.namespace)]);
    let promoted = Manifest { version: "2.0.0".into(), ..manifest };
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn killed_between_the_push_of_a_promotion_and_its_answer_it_promotes_once() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    site.hold_answers();
    site.announce();
    site.until_decisions(1).await;
    assert_eq!(site.agent().await["spec"]["promptPackRef"]["version"], "1.0.0");
    site.kill();
    site.release_answers();
    site.start().await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.decisions().len(), 1);
}
