//! A thousand applications (an agent, a pack, a ConfigMap) in one repository, on a real control plane.
//!
//! Three pushes: all of them new, one of them changed, one field changed in each. Ours is the daemon of this build, told of each
//! push by a signal; the floor is a bare loop over 32 requests at once that sends as many applies of the same objects to another
//! namespace of the same API server, in the same order and as the same user. At the first install the loop also makes what the
//! agents run as (Deployment, Service, accounts) and writes their status, because that is what Serin does with them; agents have
//! no pods, so that it is the API server that is measured and not its controllers. What is applied is seen by a watch.
//!
//! `cargo bench --bench sync -- --applications=1000`

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
use common::{Goal, Table, application, now, option, patiently};
use futures::StreamExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::control_plane::User;
use support::rights;
use support::site::Site;

/// Requests of the floor that are under way at once.
const AT_ONCE: usize = 32;

/// What people apply, and what the agents run as.
const APPLIED: [(&str, &str); 3] = [
    ("/api/v1", "configmaps"),
    ("/apis/omnia.altairalabs.ai/v1alpha1", "promptpacks"),
    ("/apis/omnia.altairalabs.ai/v1alpha1", "agentruntimes"),
];
const OWNED: [(&str, &str); 5] = [
    ("/api/v1", "serviceaccounts"),
    ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ("/api/v1", "services"),
    ("/apis/apps/v1", "deployments"),
];

fn main() {
    let applications = option("applications", 1_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(applications));
}

async fn measure(applications: u64) {
    let site = Site::empty().await;
    for i in 0..applications {
        write(&site, i, "as it was");
    }
    site.clone.commit("all of them");
    site.clone.push();

    let agents = Agents::of(&site).await;
    let started = now();
    site.start().await;
    agents.until(applications, "all are applied", |agent| has_note(agent, "as it was")).await;
    let installed = started.elapsed();
    agents.until(applications, "all run", |agent| !agent["status"]["serviceEndpoint"].is_null()).await;
    let installed_whole = started.elapsed();
    agents::until_looked_at(&site, applications).await;
    let asked = site.requests();
    let reads = asked.iter().filter(|request| ["get", "list"].contains(&request.verb())).count();
    let written = asked.iter().filter(|request| request.is_write()).count();
    let (floor_install, floor_agents) = floor_of_an_install(&site).await;

    let mark = site.plane.audit_mark();
    write(&site, 1, "one");
    site.clone.commit("one of them");
    site.clone.push();
    let started = now();
    site.announce();
    agents.until(1, "the change is applied", |agent| has_note(agent, "one")).await;
    let one = started.elapsed();
    until_quiet(&site).await;
    let requests = site.requests_since(mark).iter().filter(|request| request.verb() != "watch").count();

    let floor_all = floor_of_a_field(&site, floor_agents).await;
    let mark = site.plane.audit_mark();
    for i in 0..applications {
        write(&site, i, "all");
    }
    site.clone.commit("a field in each");
    site.clone.push();
    let started = now();
    site.announce();
    agents.until(applications, "all are applied", |agent| has_note(agent, "all")).await;
    let all = started.elapsed();
    until_quiet(&site).await;
    let writes = site.requests_since(mark).iter().filter(|request| request.is_write()).count();

    let mut table = Table::default();
    let (seconds, floor) = (|time: Duration| time.as_secs_f64(), Some(floor_install.as_secs_f64()));
    table.row("first install, what git says", seconds(installed), None, "s", Goal::Told);
    table.row("first install, with what agents run as", seconds(installed_whole), floor, "s", Goal::Ratio(1.1));
    let of_each = |count: usize| count as f64 / applications as f64;
    table.row("first install, writes of each application", of_each(written), Some(9.0), "", Goal::Told);
    table.row("first install, reads of each application", of_each(reads), None, "", Goal::Told);
    table.row("one changed, from the signal to applied", seconds(one), None, "s", Goal::AtMost(0.5));
    table.row("one changed, API requests", requests as f64, None, "", Goal::AtMost(5.0));
    table.row("a field in each", seconds(all), Some(seconds(floor_all)), "s", Goal::Ratio(1.3));
    table.row("a field in each, writes", writes as f64, Some(applications as f64), "", Goal::Told);
    table.print("a bare loop of the same applies, 32 at once");
}

fn write(site: &Site, i: u64, note: &str) {
    for (file, text) in application(&site.namespace, i, note) {
        site.clone.write(&file, &text);
    }
}

fn has_note(agent: &Value, note: &str) -> bool {
    agent["metadata"]["annotations"]["note"] == note
}

/// Waits until the daemon has asked nothing for a while.
async fn until_quiet(site: &Site) {
    patiently(1, "the daemon rests", || async {
        let mark = site.plane.audit_mark();
        tokio::time::sleep(Duration::from_secs(4)).await;
        site.requests_since(mark).iter().all(|request| request.verb() == "watch")
    })
    .await;
}

/// The same objects, applied by a bare loop to a namespace of their own. Gives back the applies of agents among them.
async fn floor_of_an_install(site: &Site) -> (Duration, Vec<Write>) {
    let namespace = site.plane.namespace().await;
    // Who may do everything is checked for nothing: the same user, with the same rights.
    rights::grant(site.plane, &namespace).await;
    let client = site.plane.client(User::Serin).await;
    let (mut first, mut of_agents): (Vec<Write>, BTreeMap<String, Vec<Write>>) = Default::default();
    let (mut agents, mut statuses) = (Vec::new(), Vec::new());
    for (root, plural) in APPLIED.into_iter().chain(OWNED) {
        let path = format!("{root}/namespaces/{}/{plural}", site.namespace);
        let request = kube::core::Request::new(path).list(&ListParams::default()).expect("a request");
        let list: Value = client.request(request).await.expect("a list");
        let (version, kind) = (list["apiVersion"].clone(), list["kind"].as_str().unwrap_or_default().to_owned());
        let kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        for item in items {
            let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let (object, status) = bare(item, &version, &kind, &namespace);
            let write = Write { path: path.clone(), part: "", object };
            match name.strip_suffix("-facade").unwrap_or(&name) {
                pack if pack.starts_with("pack-") => first.push(write),
                agent if agent.starts_with("agent-") => {
                    if kind == "AgentRuntime" {
                        agents.push(write.clone());
                        let object = json!({
                            "apiVersion": version, "kind": kind, "metadata": {"name": name}, "status": status,
                        });
                        statuses.push((agent.to_owned(), Write { path: path.clone(), part: "status", object }));
                    }
                    of_agents.entry(agent.to_owned()).or_default().push(write);
                }
                _ => {}
            }
        }
    }
    for (agent, status) in statuses {
        of_agents.entry(agent).or_default().push(status);
    }
    let started = now();
    // What agents refer to comes first, and then each agent with what it runs as: as it is with the daemon.
    send_all(&client, first.into_iter().map(|write| vec![write])).await;
    send_all(&client, of_agents.into_values()).await;
    (started.elapsed(), agents)
}

/// One field of each agent, in the same applies once more, by a bare loop, in the namespace of the floor.
async fn floor_of_a_field(site: &Site, agents: Vec<Write>) -> Duration {
    let client = site.plane.client(User::Serin).await;
    let changed = agents.into_iter().map(|mut write| {
        write.object["metadata"]["annotations"]["note"] = "all".into();
        vec![write]
    });
    let started = now();
    send_all(&client, changed).await;
    started.elapsed()
}

/// One apply.
#[derive(Clone)]
struct Write {
    /// The collection.
    path: String,
    /// Which subresource; empty for the object itself.
    part: &'static str,
    object: Value,
}

/// Sends rows of applies, those of a row one after another, the rows side by side.
async fn send_all(client: &kube::Client, rows: impl IntoIterator<Item = Vec<Write>>) {
    let parameters = PatchParams::apply("floor").force();
    futures::stream::iter(rows)
        .map(|row| {
            let (client, parameters) = (client.clone(), parameters.clone());
            async move {
                for Write { path, part, object } in row {
                    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
                    let requests = kube::core::Request::new(&path);
                    let request = match part {
                        "" => requests.patch(&name, &parameters, &Patch::Apply(&object)),
                        part => requests.patch_subresource(part, &name, &parameters, &Patch::Apply(&object)),
                    };
                    let sent = client.request::<Value>(request.expect("a request")).await;
                    sent.unwrap_or_else(|error| panic!("{path}/{name}: {error}"));
                }
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
}

/// An object as somebody would write it, in another namespace, and its status.
fn bare(mut item: Value, version: &Value, kind: &str, namespace: &str) -> (Value, Value) {
    let metadata = &item["metadata"];
    let kept: BTreeMap<&str, Value> =
        ["name", "labels", "annotations"].into_iter().map(|field| (field, metadata[field].clone())).collect();
    let mut metadata = json!(kept);
    metadata["namespace"] = namespace.into();
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.retain(|name, _| !name.starts_with("deployment.kubernetes.io"));
    }
    if kind == "Service" {
        // Addresses are the server's to give.
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(spec) = item["spec"].as_object_mut() {
                spec.remove(field);
            }
        }
    }
    item["apiVersion"] = version.clone();
    item["kind"] = kind.into();
    item["metadata"] = metadata;
    let status = item.as_object_mut().and_then(|fields| fields.remove("status")).unwrap_or_default();
    (item, status)
}
