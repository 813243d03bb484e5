//! Many rollouts at once, on a real control plane, with real Deployments and pods that are ready at once.
//!
//! Three questions about the daemon of this build. How long do all take without pauses, from the push to the last promotion?
//! There are two floors, both bare loops that send the writes which the daemon made, each agent's in their order, the agents
//! side by side, with 32 requests at once, while no daemon runs. One waits after each write of a Deployment until its pods are
//! as it says, which is what a rollout is; the other waits for nothing, so it leaves the pods and their controllers behind.
//! How long does a weight stay on pods of a candidate that fail? And what does a restart with all of them in flight move?
//!
//! `cargo bench --bench rollouts -- --agents=20 --pods=4`, where `pods` is how many each agent has.

#[path = "common/agents.rs"]
mod agents;
#[expect(dead_code, reason = "each program uses a part of it")]
mod common;
#[expect(dead_code, reason = "each program uses a part of it")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use agents::Agents;
use common::{Goal, Table, now, option, patiently};
use futures::StreamExt as _;
use serde_json::Value;
use serin::cluster::Cluster as _;
use serin::cluster::api_server::ApiServer;
use serin::object::{Kind, ObjectKey};
use support::control_plane::{AuditEvent, AuditMark, User};
use support::kubelet::Behaviour;
use support::manifests::{Manifest, pack};
use support::site::Site;
use tokio::sync::Semaphore;

/// Requests of the floor that are under way at once.
const AT_ONCE: usize = 32;
fn main() {
    let (agents, pods) = (option("agents", 20), option("pods", 4));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(agents, pods));
}

async fn measure(agents: u64, pods: u64) {
    let site = Site::empty().await;
    let manifest = Manifest { replicas: pods, ..Manifest::new(&["25", "50", "100"]) };
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        site.clone.write(&format!("packs/{version}.yaml"), &pack(&site.namespace, version));
    }
    push(&site, agents, &manifest);
    let watched = Agents::of(&site).await;
    site.start().await;
    until_at_rest(&watched, agents, "1.0.0").await;

    let mark = site.plane.audit_mark();
    push(&site, agents, &manifest.candidate("2.0.0"));
    let started = now();
    site.announce();
    until_at_rest(&watched, agents, "2.0.0").await;
    let promoted = started.elapsed();
    let writes = writes(&site, mark);

    // All of them wait for a person at half of the weight.
    let paused = Manifest { replicas: pods, version: "2.0.0".to_owned(), ..Manifest::new(&["50", "forever", "100"]) };
    site.clone.pull();
    push(&site, agents, &paused.candidate("3.0.0"));
    site.announce();
    until_paused(&watched, agents).await;
    let before = weights(&site).await;
    let mark = site.plane.audit_mark();
    site.kill();
    let started = now();
    site.start().await;
    until_resumed(&site, agents).await;
    let resumed = started.elapsed();
    agents::until_looked_at(&site, agents).await;
    assert_eq!(weights(&site).await, before, "a restart moves no weight");
    let asked = site.requests_since(mark);
    let reads = asked.iter().filter(|request| !request.is_write() && request.verb() != "watch").count();
    let moved = asked.iter().filter(|request| request.is_write() && request.resource() == "deployments").count();

    let started = now();
    site.pods_are("agent-0-canary", Behaviour::Crash).await;
    let failed = started.elapsed();
    site.until("its weight is gone", || async {
        site.replicas("agent-0").await.is_some_and(|(wanted, _)| wanted == pods)
    })
    .await;
    let gone = started.elapsed();

    site.kill();
    // The floor waits for the same pods.
    site.pods_are("agent-0-canary", Behaviour::Ready).await;
    let count = writes.len();
    let (floor, refused) = floor(&site, &writes, Waits::ForPods).await;
    let (hurried, _) = self::floor(&site, &writes, Waits::ForNothing).await;

    let mut table = Table::default();
    let seconds = |time: Duration| time.as_secs_f64();
    let title = format!("{agents} rollouts, push to all promoted");
    table.row(&title, seconds(promoted), Some(seconds(floor)), "s", Goal::Ratio(1.5));
    table.row(
        "the same next to writes that wait for no pod",
        seconds(promoted),
        Some(seconds(hurried)),
        "s",
        Goal::Told,
    );
    table.row("writes of each", count as f64 / agents as f64, None, "", Goal::AtMost(20.0));
    for (what, count) in by_kind(&writes) {
        table.row(&format!("  {what}"), count as f64 / agents as f64, None, "", Goal::Told);
    }
    table.row("writes of the floor that were refused", refused as f64, None, "", Goal::Told);
    table.row("a candidate's pods fail, to its weight gone", seconds(gone), None, "s", Goal::AtMost(1.0));
    table.row("of it until the last of them has failed", seconds(failed), None, "s", Goal::Told);
    table.row("restart in flight, to all resumed", seconds(resumed), None, "s", Goal::AtMost(5.0));
    table.row("restart in flight, writes of Deployments", moved as f64, None, "", Goal::AtMost(0.0));
    table.row("restart in flight, gets and lists", reads as f64, None, "", Goal::Told);
    table.print("the same writes by a bare loop, 32 at once, which waits for the pods of each");
}

fn push(site: &Site, agents: u64, manifest: &Manifest) {
    for i in 0..agents {
        let manifest = Manifest { name: format!("agent-{i}"), ..manifest.clone() };
        site.clone.write(&format!("agents/{i}.yaml"), &manifest.render(&site.namespace));
    }
    site.clone.commit("all of them");
    site.clone.push();
}

async fn until_at_rest(watched: &Agents, agents: u64, version: &str) {
    let is_at_rest = |agent: &Value| {
        let status = &agent["status"];
        status["activeVersion"] == version && status["rollout"]["active"] != true
    };
    watched.until(agents, version, is_at_rest).await;
}

async fn until_paused(watched: &Agents, agents: u64) {
    let is_paused = |agent: &Value| agent["status"]["rollout"]["currentStep"] == 1;
    watched.until(agents, "all pause", is_paused).await;
}

/// Waits until the daemon counts all rollouts among those that it leads.
async fn until_resumed(site: &Site, agents: u64) {
    patiently(1, "all are resumed", || async {
        let metrics = site.http("/metrics").unwrap_or_default();
        let active = metrics.lines().filter(|line| line.starts_with("omnia_rollout_active{"));
        active.filter(|line| line.ends_with(" 1")).count() as u64 == agents
    })
    .await;
}

/// The pods that each Deployment is meant to have.
async fn weights(site: &Site) -> BTreeMap<String, Value> {
    let deployments = site.list("deployments").await.into_iter();
    deployments.map(|found| (found["metadata"]["name"].to_string(), found["spec"]["replicas"].clone())).collect()
}

/// What the daemon has written.
fn writes(site: &Site, mark: AuditMark) -> Vec<AuditEvent> {
    site.requests_since(mark).into_iter().filter(AuditEvent::is_write).collect()
}

/// How many of each kind.
fn by_kind(requests: &[AuditEvent]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(format!("{} {}", request.verb(), request.resource())).or_default() += 1;
    }
    counts
}

/// What the bare loop waits for after it has written a Deployment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Until all its pods are there, and no others.
    ForPods,
    ForNothing,
}

/// Sends the writes once more. Gives back how long it took, and how many the server refused.
async fn floor(site: &Site, writes: &[AuditEvent], waits: Waits) -> (Duration, usize) {
    let client = site.plane.client(User::Serin).await;
    let cluster = agents::watching(site, Kind::DEPLOYMENT).await;
    let mut of_agents: BTreeMap<String, Vec<hyper::Request<Vec<u8>>>> = BTreeMap::new();
    for write in writes {
        let about = write.body().and_then(|body| body.pointer("/regarding/name")).and_then(Value::as_str);
        let name = about.unwrap_or(write.name()).trim_end_matches("-canary").to_owned();
        of_agents.entry(name).or_default().push(request(write));
    }
    let slots = Semaphore::new(AT_ONCE);
    let started = now();
    let agents = of_agents.into_values().map(|requests| {
        let (client, cluster, slots) = (&client, &cluster, &slots);
        async move {
            let mut refused = 0;
            for request in requests {
                let slot = slots.acquire().await.expect("it is never closed");
                let answer = client.request::<Value>(request).await;
                drop(slot);
                match answer {
                    Ok(written) if waits == Waits::ForPods && written["kind"] == "Deployment" => {
                        until_pods(cluster, &written).await;
                    }
                    Ok(_) => {}
                    Err(_) => refused += 1,
                }
            }
            refused
        }
    });
    let refused = futures::future::join_all(agents).await.into_iter().sum();
    (started.elapsed(), refused)
}

/// Waits until a Deployment has the pods that this version of it wants, or is gone.
async fn until_pods(cluster: &ApiServer, written: &Value) {
    let text = |field: &str| written["metadata"][field].as_str().unwrap_or_default().to_owned();
    let key = ObjectKey::new(Kind::DEPLOYMENT, text("namespace"), text("name"));
    let generation = written["metadata"]["generation"].as_i64();
    let mut changes = cluster.changes();
    loop {
        let Some(live) = cluster.get(&key).await.expect("a watch") else { return };
        let count = |field: &str| live.integer(&format!("/status/{field}")).unwrap_or(0);
        let wanted = live.integer("/spec/replicas").unwrap_or(1);
        let fields = ["replicas", "updatedReplicas", "availableReplicas"];
        if Some(count("observedGeneration")) >= generation && fields.iter().all(|field| count(field) == wanted) {
            return;
        }
        while changes.next().await.is_some_and(|changed| changed != key) {}
    }
}

/// A write as the daemon made it, for whichever object has the name now.
fn request(write: &AuditEvent) -> hyper::Request<Vec<u8>> {
    let mut body = write.body().cloned().unwrap_or_default();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.retain(|field, _| !["uid", "resourceVersion"].contains(&field.as_str()));
    }
    let (method, content) = match write.verb() {
        "create" => ("POST", "application/json"),
        "delete" => ("DELETE", "application/json"),
        _ if write.uri().contains("force=true") => ("PATCH", "application/apply-patch+yaml"),
        _ => ("PATCH", "application/merge-patch+json"),
    };
    if write.verb() == "delete" {
        // Preconditions name an object that is gone.
        body = serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    }
    let request = hyper::Request::builder().method(method).uri(write.uri()).header("content-type", content);
    request.body(body.to_string().into_bytes()).expect("a request")
}
