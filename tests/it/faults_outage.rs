//! The git server is away through a rollback and back ten minutes later, by the clock of the daemon.
//!
//! Everything is real, and the daemon is the one that `serin run` starts, but for its clock: ten minutes pass in moments.

use std::sync::Arc;

use jiff::SignedDuration;

use crate::support::in_process::LaterClock;
use crate::support::kubelet::Behaviour;
use crate::support::manifests::{Manifest, pack};
use crate::support::site::{AGENT, AGENT_FILE, Site};

const CANDIDATE: &str = "assistant-canary";

#[tokio::test]
async fn a_rollback_while_git_is_away_is_made_at_once_and_committed_once_ten_minutes_later() {
    let manifest = Manifest { progress_deadline: "2s", ..Manifest::new(&["50", "1h", "100"]) };
    let site = Site::empty().await;
    for version in ["1.0.0", "2.0.0"] {
        site.clone.write(&format!("packs/{version}.yaml"), &pack(&site.namespace, version));
    }
    site.clone.push_file(AGENT_FILE, &manifest.render(&site.namespace), "an agent on version 1.0.0");
    let clock = Arc::new(LaterClock::default());
    let daemon = site.start_in_process(Arc::clone(&clock) as _).await;
    site.until_stable("1.0.0", 4).await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    daemon.fetch();
    site.until_step(1).await;
    let tip = site.tip();

    site.server.stop();
    site.pods_are("assistant-canary-", Behaviour::Crash).await;
    let is_back = || async {
        site.get("deployments", CANDIDATE).await.is_none()
            && site.rollout().await["active"] == false
            && site.replicas(AGENT).await == Some((4, 4))
    };
    site.until("the rollback in the cluster", is_back).await;
    site.until_rollout("the status says what waits for git", |rollout| {
        rollout["message"].as_str().is_some_and(|message| message.contains("the rollback waits for git: "))
    })
    .await;
    // Better pods would be tried by whoever has forgotten what was decided.
    site.pods_are("assistant-canary-", Behaviour::Ready).await;

    // As long as the longest time between two tries, again and again.
    const STEP: SignedDuration = SignedDuration::from_secs(30);
    let pass_time = async || {
        let failed = daemon.failed_pushes();
        clock.advance(STEP);
        daemon.look_at_the_clock();
        site.until("another try in vain", || async { daemon.failed_pushes() > failed }).await;
    };
    for _ in 0..20 {
        pass_time().await;
        assert!(is_back().await, "it stays rolled back");
    }
    assert_eq!(site.tip(), tip);

    site.server.resume();
    clock.advance(STEP);
    daemon.look_at_the_clock();
    site.until_decisions(1).await;
    site.until_stable("1.0.0", 4).await;
    assert_eq!(site.decisions(), [format!("roll back {}/{AGENT} from pack 2.0.0", site.namespace)]);
    assert_eq!(site.server_git(&["rev-parse", "main^"]), tip);
    let file = String::from_utf8(site.server_file(AGENT_FILE)).unwrap();
    let noted = "    omnia.altairalabs.ai/last-rolled-back-version: 2.0.0\n";
    assert_eq!(file.matches(noted).count(), 1);
    assert_eq!(file.replace(noted, ""), manifest.render(&site.namespace));
    assert_eq!(site.agent().await["spec"]["rollout"]["candidate"], serde_json::Value::Null);

    // And that was all of it.
    for _ in 0..20 {
        clock.advance(STEP);
        daemon.look_at_the_clock();
    }
    site.clone.pull();
    let mark = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: later\n  namespace: {}\n", site.namespace);
    site.clone.push_file("later.yaml", &mark, "something else");
    daemon.fetch();
    site.until("it is applied", || async { site.get("configmaps", "later").await.is_some() }).await;
    assert_eq!((site.decisions().len(), site.count_rollouts().await), (1, 1));
    daemon.stop().await;
}
