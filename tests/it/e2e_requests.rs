//! What one rollout asks of the API server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::Site;

/// The most writes that a rollout of four steps may make. The operator that was measured makes 89 to 109.
const MOST_WRITES: usize = 40;

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
    let requests: Vec<_> = site.requests_since(mark).into_iter().filter(|request| request.verb() != "watch").collect();
    for request in &requests {
        let name = if request.resource() == "events" { "" } else { request.name() };
        *table.entry(format!("{:6} {} {name}", request.verb(), request.resource())).or_default() += 1;
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
    let writes = requests.iter().filter(|request| request.is_write()).count();
    writeln!(std::io::stderr(), "{writes} writes of {} requests:\n{text}", requests.len()).expect("stderr");
    assert!(writes <= MOST_WRITES, "{writes} writes:\n{text}");
}
