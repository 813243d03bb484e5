//! The API server goes away, refuses, or asks to slow down in the middle of a rollout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::e2e_promotion::assert_never_fewer;
use crate::support::api_proxy::{ApiProxy, Fate};
use crate::support::manifests::Manifest;
use crate::support::site::Site;

/// A site whose daemon goes through a proxy.
pub(crate) async fn proxied(manifest: &Manifest) -> (Site, ApiProxy) {
    let site = Site::empty().await;
    let proxy = ApiProxy::before(site.plane);
    site.go_through(&proxy.url());
    site.start_with(manifest).await;
    (site, proxy)
}

#[tokio::test]
async fn watches_that_are_cut_again_and_again_lose_nothing() {
    let manifest = Manifest::new(&["25", "500ms", "50", "100"]);
    let (site, proxy) = proxied(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let mut cuts = 0;
    site.until("the promotion", || {
        proxy.cut();
        cuts += 1;
        async { !site.decisions().is_empty() }
    })
    .await;
    site.until_stable("2.0.0", 4).await;
    assert!(cuts > 10, "{cuts}");
    assert_never_fewer(&pods.samples(), 4);
    assert_eq!(site.decisions().len(), 1);
}

#[tokio::test]
async fn a_server_that_asks_to_slow_down_is_asked_again_no_sooner_than_it_says() {
    let manifest = Manifest::new(&["50", "100"]);
    let (site, proxy) = proxied(&manifest).await;
    // Every write to an AgentRuntime, three times each.
    let refused: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let log = Arc::clone(&refused);
    proxy.set_rule(move |call| {
        if !call.is_effect() || !call.path.contains("/agentruntimes/") {
            return Fate::Pass;
        }
        let mut log = log.lock().expect("never poisoned");
        if log.len() >= 6 {
            return Fate::Pass;
        }
        log.push((call.path.clone(), call.at));
        Fate::SlowDown { after: 2 }
    });
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let refused = refused.lock().expect("never poisoned").clone();
    let waits: Vec<Duration> = refused.windows(2).map(|two| two[1].1.duration_since(two[0].1)).collect();
    // One agent, one pass at a time: whatever wakes it meanwhile must not ask sooner.
    println!("waits after a 429 with Retry-After 2: {waits:?}");
    assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(1_900)), "{waits:?}");
}

#[tokio::test]
async fn a_pause_that_elapses_while_deployments_cannot_be_watched_promotes_nothing_before_they_can() {
    let manifest = Manifest::new(&["100", "3s"]);
    let (site, proxy) = proxied(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    // Lists and watches of Deployments and nothing else: AgentRuntimes can be written all the while.
    proxy.set_rule(|call| {
        let is_it = call.method == "GET" && call.path.contains("/deployments?");
        if is_it { Fate::SlowDown { after: 1 } } else { Fate::Pass }
    });
    proxy.cut();
    let is_said = |rollout: &serde_json::Value| {
        rollout["message"].as_str().is_some_and(|message| message.contains("waiting for the watch of Deployments"))
    };
    site.until_rollout("it says what it waits for", is_said).await;
    site.until_looked_at().await;
    assert_eq!(site.decisions().len(), 0);
    assert!(is_said(&site.rollout().await));
    proxy.pass();
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(site.count_rollouts().await, 1);
}
