//! The daemon is killed at every effect of a rollout, before it is carried out and after it was without an answer, and
//! started again: the same end, and nothing done twice that shows.
//!
//! An effect is a write to the API server, held by a proxy, or the push of a decision, held by hooks of the git server.
//!
//! Events for people have tests of their own. Of them holds: none is told twice. Each comes after what it tells about is
//! written down, so a daemon that is killed between the two has lost it; the status and the commit say the same. A kill at
//! every effect therefore leaves none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::Value;

use crate::e2e_promotion::assert_never_fewer;
use crate::support::api_proxy::{ApiProxy, Fate};
use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

const CANDIDATE: &str = "assistant-canary";

/// Holds the first push to `main` before the branch moves, until the file `killed` is there, and then refuses it.
const HOLD_PUSH: &str = "case $1 in refs/heads/main) ;; *) exit 0;; esac\n\
    test -e killed && exit 0\n\
    touch held\n\
    while ! test -e killed; do sleep 0.02; done\n\
    exit 1";

/// What happens to the next effect.
const BEFORE: u8 = 0;
const AFTER: u8 = 1;
/// One is held; no other one gets through.
const HELD: u8 = 2;

/// Runs a rollout that ends with one decision, and kills the daemon at each effect. Gives back how often.
async fn kill_at_every_effect(
    site: &Site,
    proxy: &ApiProxy,
    manifest: &Manifest,
    is_over: impl AsyncFn() -> bool,
) -> usize {
    let next = Arc::new(AtomicU8::new(BEFORE));
    let turn = Arc::clone(&next);
    proxy.set_rule(move |call| {
        if !call.is_effect() {
            return Fate::Pass;
        }
        match turn.swap(HELD, Ordering::SeqCst) {
            BEFORE => Fate::HoldBefore,
            AFTER => Fate::HoldAfter,
            // Not carried out: the daemon is about to be killed.
            _ => Fate::HoldBefore,
        }
    });
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    site.install_hook("update", HOLD_PUSH);
    site.hold_answers();
    site.announce();
    let (mut kills, mut coming, mut push) = (0, AFTER, 0);
    loop {
        let is_held = site
            .eventually("an effect, or the end", || async {
                if next.load(Ordering::SeqCst) == HELD {
                    return Some(true);
                }
                let is_push_held =
                    (push == 0 && site.has_server_file("held")) || (push == 1 && !site.decisions().is_empty());
                if is_push_held {
                    return Some(true);
                }
                is_over().await.then_some(false)
            })
            .await;
        if !is_held {
            break;
        }
        if next.load(Ordering::SeqCst) == HELD {
            // What is held after being carried out takes a moment for that.
            let held = proxy.held();
            site.until("the effect is held", || async { proxy.held() >= held.max(kills + 1 - push) }).await;
        }
        site.kill();
        kills += 1;
        if push == 0 && site.has_server_file("held") {
            site.write_server_file("killed");
            push = 1;
        } else if push == 1 && !site.decisions().is_empty() {
            site.release_answers();
            push = 2;
        }
        if next.load(Ordering::SeqCst) == HELD {
            next.store(coming, Ordering::SeqCst);
            coming = if coming == BEFORE { AFTER } else { BEFORE };
        }
        site.start().await;
    }
    proxy.pass();
    assert_eq!(push, 2, "the push was held before and after");
    kills
}

/// The successful writes of a kind of request, by what they answered.
fn count(proxy: &ApiProxy, method: &str, ending: &str, code: u16) -> usize {
    let effects = proxy.effects();
    let is_meant = |path: &str| path.split('?').next().is_some_and(|path| path.ends_with(ending));
    effects.iter().filter(|(call, answer)| call.method == method && is_meant(&call.path) && *answer == code).count()
}

/// What the daemons wrote into the status of the agent, in order.
fn statuses(site: &Site) -> Vec<Value> {
    let is_status = |event: &crate::support::control_plane::AuditEvent| {
        event.resource() == "agentruntimes/status" && event.name() == AGENT && event.code() == 200
    };
    let requests = site.requests();
    requests.iter().filter(|event| is_status(event)).filter_map(|event| event.body().cloned()).collect()
}

#[track_caller]
fn assert_nothing_twice(site: &Site, proxy: &ApiProxy, events: &[Value]) {
    let path = format!("/deployments/{CANDIDATE}");
    assert_eq!(count(proxy, "PATCH", &path, 201), 1, "the candidate's Deployment is created once");
    assert_eq!(count(proxy, "DELETE", &path, 200), 1, "and deleted once");
    let steps: Vec<u64> = statuses(site)
        .iter()
        .filter(|status| status["status"]["rollout"]["active"] == true)
        .filter_map(|status| status["status"]["rollout"]["currentStep"].as_u64())
        .collect();
    assert!(steps.is_sorted(), "a step never comes again: {steps:?}");
    let mut told: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["reportingController"] == "serin.dev/serin")
        .map(|event| (event["reason"].as_str().unwrap_or_default(), event["note"].as_str().unwrap_or_default()))
        .collect();
    let all = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), all, "an event is told once: {told:#?}");
    assert_eq!(site.decisions().len(), 1, "{:?}", site.decisions());
}

#[tokio::test]
async fn killed_at_every_effect_of_a_promoted_rollout_it_promotes_once() {
    let manifest = Manifest { replicas: 2, ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    let proxy = ApiProxy::before(site.plane);
    site.kill();
    site.go_through(&proxy.url());
    site.start().await;
    let pods = site.watch_pods().await;
    let started = tokio::time::Instant::now();
    let is_over = async || {
        let agent = site.agent().await;
        agent["status"]["activeVersion"] == "2.0.0"
            && agent["status"]["rollout"]["active"] != true
            && site.replicas(CANDIDATE).await.is_none()
            && site.replicas(AGENT).await == Some((2, 2))
            && agent["status"]["replicas"]["available"] == 2
    };
    let kills = kill_at_every_effect(&site, &proxy, &manifest, is_over).await;
    println!("{kills} kills in {:?}", started.elapsed());
    site.until_stable("2.0.0", 2).await;
    let promoted = Manifest { version: "2.0.0".into(), ..manifest };
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
    assert_nothing_twice(&site, &proxy, &site.list("events").await);
    assert_eq!(site.count_rollouts().await, 1);
    assert!(kills >= 12, "{kills}");
    assert_never_fewer(&pods.samples(), 2);
}

#[tokio::test]
async fn killed_at_every_effect_of_a_rolled_back_rollout_it_rolls_back_once() {
    let manifest = Manifest { replicas: 2, progress_deadline: "15s", ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    let proxy = ApiProxy::before(site.plane);
    site.kill();
    site.go_through(&proxy.url());
    site.start().await;
    let pods = site.watch_pods().await;
    site.pods_are("assistant-canary-", Behaviour::Crash).await;
    let started = tokio::time::Instant::now();
    let is_over = async || {
        let agent = site.agent().await;
        !site.decisions().is_empty()
            && agent["spec"]["rollout"]["candidate"].is_null()
            && agent["status"]["rollout"]["active"] != true
            && site.replicas(CANDIDATE).await.is_none()
            && site.replicas(AGENT).await == Some((2, 2))
    };
    let kills = kill_at_every_effect(&site, &proxy, &manifest, is_over).await;
    println!("{kills} kills in {:?}", started.elapsed());
    site.until_stable("1.0.0", 2).await;
    let file = String::from_utf8(site.server_file(AGENT_FILE)).unwrap();
    let file = file.replace("    omnia.altairalabs.ai/last-rolled-back-version: 2.0.0\n", "");
    assert_eq!(file, manifest.render(&site.namespace));
    assert_nothing_twice(&site, &proxy, &site.list("events").await);
    assert_eq!(site.count_rollouts().await, 1);
    assert!(kills >= 10, "{kills}");
    assert_never_fewer(&pods.samples(), 2);
}

/// Runs a rollout of `manifest`'s candidate and kills the daemon at each of its `events`. Gives back what people are told of it
/// when `is_over`.
async fn kill_at_events(
    site: &Site,
    proxy: &ApiProxy,
    manifest: &Manifest,
    (fate, events): (&Fate, usize),
    is_over: impl AsyncFn() -> bool,
) -> Vec<String> {
    let before = site.list("events").await;
    let (held, what) = (proxy.held(), fate.clone());
    proxy.set_rule(move |call| if call.path.contains("/events") { what.clone() } else { Fate::Pass });
    site.clone.pull();
    site.push(manifest, "try another one");
    for kills in 0..events {
        site.until("an event", || async { proxy.held() > held + kills }).await;
        site.restart().await;
    }
    site.until("the end", || is_over()).await;
    site.until_looked_at().await;
    assert_eq!(proxy.held(), held + events, "nothing is told again");
    proxy.pass();
    let told = site.list("events").await;
    let is_new = |event: &&Value| !before.iter().any(|old| old["metadata"]["uid"] == event["metadata"]["uid"]);
    let is_ours = |event: &&Value| event["reportingController"] == "serin.dev/serin";
    let reason = |event: &Value| {
        assert!(event["series"].is_null(), "told once: {event}");
        event["reason"].as_str().unwrap_or_default().to_owned()
    };
    let mut reasons: Vec<String> = told.iter().filter(is_new).filter(is_ours).map(reason).collect();
    reasons.sort_unstable();
    reasons
}

#[tokio::test]
async fn killed_at_the_events_of_a_promotion_it_promotes_once_and_tells_nothing_twice() {
    let manifest = Manifest { replicas: 2, ..Manifest::new(&["100"]) };
    let site = Site::running(&manifest).await;
    let proxy = ApiProxy::before(site.plane);
    site.kill();
    site.go_through(&proxy.url());
    site.start().await;
    let promoted = ["RolloutPromoted", "RolloutPromoting"].map(str::to_owned).to_vec();
    let cases = [("1.0.0", "2.0.0", Fate::HoldBefore, Vec::new()), ("2.0.0", "3.0.0", Fate::HoldAfter, promoted)];
    for (count, (from, to, fate, told)) in (1..).zip(cases) {
        let manifest = Manifest { version: from.into(), ..manifest.clone() };
        let is_over = async || {
            let agent = site.agent().await;
            agent["status"]["activeVersion"] == to
                && agent["status"]["rollout"]["active"] != true
                && site.replicas(CANDIDATE).await.is_none()
                && site.replicas(AGENT).await == Some((2, 2))
        };
        let all = kill_at_events(&site, &proxy, &manifest.candidate(to), (&fate, 2), is_over).await;
        assert_eq!(all, told, "{fate:?}");
        site.until_stable(to, 2).await;
        assert_eq!(site.decisions().len(), count);
        assert_eq!(site.count_rollouts().await, u64::try_from(count).unwrap());
        let promoted = Manifest { version: to.into(), ..manifest };
        assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
    }
}

#[tokio::test]
async fn killed_at_the_event_of_a_rollback_it_rolls_back_once_and_tells_nothing_twice() {
    let manifest = Manifest { replicas: 2, progress_deadline: "2s", ..Manifest::new(&["50", "100"]) };
    let site = Site::running(&manifest).await;
    let proxy = ApiProxy::before(site.plane);
    site.kill();
    site.go_through(&proxy.url());
    site.start().await;
    site.pods_are("assistant-canary-", Behaviour::Crash).await;
    let rolled_back = vec!["RolloutRolledBack".to_owned()];
    let cases = [("2.0.0", Fate::HoldBefore, Vec::new()), ("3.0.0", Fate::HoldAfter, rolled_back)];
    for (count, (candidate, fate, told)) in (1..).zip(cases) {
        let is_over = async || {
            let agent = site.agent().await;
            site.decisions().len() == count
                && agent["spec"]["rollout"]["candidate"].is_null()
                && agent["status"]["rollout"]["active"] != true
                && site.replicas(CANDIDATE).await.is_none()
                && site.replicas(AGENT).await == Some((2, 2))
        };
        let all = kill_at_events(&site, &proxy, &manifest.candidate(candidate), (&fate, 1), is_over).await;
        assert_eq!(all, told, "{fate:?}");
        site.until_stable("1.0.0", 2).await;
        assert_eq!(site.decisions().len(), count);
        assert_eq!(site.count_rollouts().await, u64::try_from(count).unwrap());
    }
}
