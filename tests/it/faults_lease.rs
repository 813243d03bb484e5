//! A second daemon of the same cluster, started by mistake or on purpose: one leads, the other one is ready to.

use std::time::Duration;

use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, Site};

#[tokio::test]
async fn a_second_daemon_is_ready_and_passive_and_takes_over_in_seconds_after_a_kill() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let second = site.start_second();
    site.until("the second daemon is ready", || async { second.is_ready() }).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let token = site.until_resumable().await;
    assert!(site.leads());
    assert!(!second.leads(), "{}", second.log());
    let holder = site.get("leases", "serin").await.unwrap()["spec"]["holderIdentity"].clone();
    assert!(second.log().contains(&format!("holder=\"{}\"", holder.as_str().unwrap())), "{}", second.log());
    let before = site.rollout().await;

    site.kill();
    let killed = tokio::time::Instant::now();
    site.until("the second daemon leads", || async { second.leads() }).await;
    let took = killed.elapsed();
    println!("takeover after kill -9: {took:?}");
    // The Lease runs out 12 s after its last change was seen. The upper bound is that of the pure tests and of a machine
    // on which other tests run.
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(15), "{took:?}");
    // It goes on where the first one was, without a push from anybody.
    let file = manifest.candidate("2.0.0").render(&site.namespace);
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    site.clone.pull();
    site.clone.push_file("agents/assistant.yaml", &resumed, "go on");
    second.running.signal("HUP");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.decisions(), [format!("promote {}/{AGENT} to pack 2.0.0", site.namespace)]);
    assert!(before["startedAt"].is_string());
    assert_eq!(site.count_rollouts().await, 1, "the same rollout");
}

#[tokio::test]
async fn sigterm_gives_the_lease_back_and_the_second_daemon_leads_at_once() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    let second = site.start_second();
    site.until("the second daemon is ready", || async { second.is_ready() }).await;
    let (code, _) = site.terminate().await;
    let ended = tokio::time::Instant::now();
    assert_eq!(code, Some(0));
    site.until("the second daemon leads", || async { second.leads() }).await;
    let took = ended.elapsed();
    println!("takeover after SIGTERM: {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let lease = site.get("leases", "serin").await.unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "given back and taken: {lease}");
    // The first one again: passive now.
    site.start().await;
    assert!(!site.leads());
    assert!(second.leads());
    site.clone.push_file("agents/assistant.yaml", &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    second.running.signal("HUP");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_and_started_again_goes_on_without_waiting_for_its_own_lease() {
    let site = Site::running(&Manifest::new(&["100"])).await;
    site.kill();
    let started = tokio::time::Instant::now();
    site.start().await;
    site.until("it leads", || async { site.leads() }).await;
    println!("leads again after a kill -9 and a start: {:?}", started.elapsed());
    let lease = site.get("leases", "serin").await.unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 0, "it never changed hands: {lease}");
}
