//! What one rollout asks of the API server.
//!
//! A count of requests is no timing, so it is asserted. Pods are ready half a second after they are made, as they were for
//! the operator that was measured: it makes 89 to 109 writes for the same rollout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::Site;

/// The most writes that a rollout of four steps may make.
const MOST_WRITES: usize = 20;

/// What is written, and how often at the most.
const KINDS: [(&str, usize); 8] = [
    // The candidate comes into the spec, and becomes it: twice what git says. Once the record, when the rollout starts.
    ("patch agentruntimes assistant", 3),
    // Each step that is entered, all steps done, promoting, promoted.
    ("patch agentruntimes/status assistant", 7),
    // Each weight once, then the new version.
    ("patch deployments assistant", 4),
    ("patch deployments assistant-canary", 3),
    ("delete deployments assistant-canary", 1),
    // Promoting, promoted.
    ("create events", 2),
    // The candidate has no providers, so there is nothing to override.
    ("patch configmaps assistant-canary-config", 0),
    ("delete configmaps assistant-canary-config", 0),
];

#[tokio::test]
async fn a_rollout_of_four_steps_makes_few_requests() {
    let manifest = Manifest::new(&["25", "1s", "50", "100"]);
    let site = Site::running(&manifest).await;
    site.pods_are("assistant-", Behaviour::ReadyAfter(Duration::from_millis(500))).await;
    site.until_stable("1.0.0", 4).await;
    let mark = site.plane.audit_mark();
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let mut table: BTreeMap<String, usize> = BTreeMap::new();
    let mut written: BTreeMap<String, usize> = BTreeMap::new();
    let requests: Vec<_> = site.requests_since(mark).into_iter().filter(|request| request.verb() != "watch").collect();
    for request in &requests {
        let name = if request.resource() == "events" { "" } else { request.name() };
        let what = format!("{} {} {name}", request.verb(), request.resource()).trim_end().to_owned();
        if request.is_write() {
            *written.entry(what.clone()).or_default() += 1;
        }
        *table.entry(what).or_default() += 1;
    }
    let mut text = table.iter().fold(String::new(), |mut text, (what, count)| {
        writeln!(text, "{count:3} {what}").expect("a string takes all");
        text
    });
    for request in requests.iter().filter(|request| request.resource() == "agentruntimes/status") {
        let status = &request.body().expect("a body")["status"];
        writeln!(
            text,
            "    status: {} {} {}",
            status["replicas"], status["rollout"]["currentStep"], status["rollout"]["message"]
        )
        .expect("a string takes all");
    }
    // On a machine that is slow now, pods are later than they are told to be, and people are told which ones are waited for.
    let late = requests
        .iter()
        .filter(|request| request.resource() == "agentruntimes/status")
        .filter_map(|request| request.body()?["status"]["rollout"]["message"].as_str())
        .scan("", |before, message| {
            let is_again = message.split(": waiting").next() == before.split(": waiting").next();
            *before = message;
            Some(is_again)
        })
        .filter(|is_again| *is_again)
        .count();
    *written.entry("patch agentruntimes/status assistant".to_owned()).or_default() -= late;
    let writes = requests.iter().filter(|request| request.is_write()).count() - late;
    writeln!(std::io::stderr(), "{writes} writes and {late} about late pods, of {} requests:\n{text}", requests.len())
        .expect("stderr");
    assert!(writes <= MOST_WRITES, "{writes} writes:\n{text}");
    for (what, count) in &written {
        let most = KINDS.iter().find(|(known, _)| known == what).map_or(0, |(_, most)| *most);
        assert!(count <= &most, "{count} times {what}, and {most} are enough:\n{text}");
    }
}
