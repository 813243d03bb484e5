//! What git says is in the cluster, and stays there.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::cli_support::serin;
use crate::support::control_plane::User;
use crate::support::manifests::Manifest;
use crate::support::process;
use crate::support::site::{AGENT, AGENT_FILE, Site};

fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
         data:\n  key: {value}\n"
    )
}

async fn value_of(site: &Site, name: &str) -> Value {
    site.get("configmaps", name).await.map_or(Value::Null, |map| map["data"]["key"].clone())
}

#[tokio::test]
async fn objects_are_created_corrected_and_pruned_and_what_others_add_stays() {
    let site = Site::empty().await;
    site.clone.push_file("a.yaml", &config_map(&site.namespace, "one", "first"), "one");
    site.apply(
        "configmaps",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"key": "theirs"}}),
        "somebody",
    )
    .await;
    site.start().await;
    site.until("it is created", || async { value_of(&site, "one").await == "first" }).await;

    // Somebody changes a field of ours, and adds some of their own.
    let theirs = json!({
        "metadata": {"labels": {"team": "shop"}, "annotations": {"note": "kept"}},
        "data": {"key": "drifted", "extra": "kept"},
    });
    site.edit("configmaps", "one", &theirs).await;
    site.until("the drift is corrected", || async { value_of(&site, "one").await == "first" }).await;
    let live = site.get("configmaps", "one").await.unwrap();
    assert_eq!(live["data"]["extra"], "kept");
    assert_eq!(
        (&live["metadata"]["labels"]["team"], &live["metadata"]["annotations"]["note"]),
        (&"shop".into(), &"kept".into())
    );

    site.push_file("a.yaml", &config_map(&site.namespace, "one", "second"), "change one");
    site.until("it is changed", || async { value_of(&site, "one").await == "second" }).await;
    let live = site.get("configmaps", "one").await.unwrap();
    assert_eq!(live["metadata"]["labels"]["team"], "shop");
    assert_eq!(live["data"]["extra"], "kept");

    site.delete("configmaps", "one").await;
    site.until("it is created again", || async { value_of(&site, "one").await == "second" }).await;

    site.push_file("a.yaml", &config_map(&site.namespace, "two", "only"), "two instead of one");
    site.until("one is pruned", || async {
        value_of(&site, "two").await == "only" && site.get("configmaps", "one").await.is_none()
    })
    .await;
    assert_eq!(value_of(&site, "theirs").await, "theirs");
}

#[tokio::test]
async fn a_broken_file_keeps_its_objects_and_everything_else_is_applied() {
    let site = Site::empty().await;
    site.clone.write("a.yaml", &config_map(&site.namespace, "one", "first"));
    site.clone.write("b.yaml", &config_map(&site.namespace, "two", "first"));
    site.clone.write("c.yaml", &config_map(&site.namespace, "three", "first"));
    site.clone.commit("three maps");
    site.clone.push();
    site.start().await;
    site.until("all are there", || async { value_of(&site, "three").await == "first" }).await;

    site.clone.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one\n");
    site.clone.write("b.yaml", &config_map(&site.namespace, "two", "second"));
    std::fs::remove_file(site.clone.path("c.yaml")).unwrap();
    site.clone.commit("a mistake in a");
    site.clone.push();
    site.announce();
    site.until("b is applied", || async { value_of(&site, "two").await == "second" }).await;
    site.until("the file is named in the log", || async { site.log().contains("a.yaml:") }).await;
    assert_eq!(value_of(&site, "one").await, "first");
    // What is in the broken file is not known, so nothing is taken for deleted.
    assert_eq!(value_of(&site, "three").await, "first");

    site.push_file("a.yaml", &config_map(&site.namespace, "one", "second"), "mend it");
    site.until("the rest follows", || async {
        value_of(&site, "one").await == "second" && site.get("configmaps", "three").await.is_none()
    })
    .await;
}

#[tokio::test]
async fn an_invalid_agent_keeps_its_live_state_and_its_neighbour_is_applied() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    let wrong = manifest.candidate("2.0.0").render(&site.namespace).replace("setWeight: 100", "setWieght: 100");
    site.clone.write(AGENT_FILE, &wrong);
    site.push_file("beside.yaml", &config_map(&site.namespace, "beside", "applied"), "a typing mistake");
    site.until("the neighbour is applied", || async { value_of(&site, "beside").await == "applied" }).await;
    site.until("the mistake is explained", || async { site.log().contains("did you mean `setWeight`") }).await;
    let agent = site.agent().await;
    assert!(agent["spec"]["rollout"].get("candidate").is_none());
    assert_eq!(site.replicas(AGENT).await, Some((4, 4)));
}

#[tokio::test]
async fn an_agent_that_leaves_git_goes_with_everything_that_it_ran_as() {
    let manifest = Manifest::new(&["50", "10m"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    std::fs::remove_file(site.clone.path(AGENT_FILE)).unwrap();
    site.clone.commit("no agent any more");
    site.clone.push();
    site.announce();
    site.until("everything is gone", || async {
        site.agent().await.is_null()
            && site.list("deployments").await.is_empty()
            && site.list("pods").await.is_empty()
            && site.list("services").await.is_empty()
    })
    .await;
}

/// How long nothing may happen. The one wait of these tests that is a time: it is the claim.
const QUIET: Duration = Duration::from_secs(20);

/// What the daemon asks of the API server in a time, but for watches that are renewed.
async fn requests_within(site: &Site, time: Duration) -> Vec<String> {
    let mark = site.plane.audit_mark();
    tokio::time::sleep(time).await;
    let requests = site.requests_since(mark).into_iter().filter(|request| request.verb() != "watch");
    requests.map(|request| format!("{} {} {}", request.verb(), request.resource(), request.name())).collect()
}

#[tokio::test]
async fn a_quiet_cluster_sees_no_requests() {
    let site = Site::running(&Manifest::new(&["50", "100"])).await;
    // What the start has set in motion comes to its end.
    site.until("a second without requests", || async {
        requests_within(&site, Duration::from_secs(1)).await.is_empty()
    })
    .await;
    let requests = requests_within(&site, QUIET).await;
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn an_agent_says_why_it_is_not_what_git_says_until_it_is() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    assert_eq!(site.condition(AGENT, "Synced").await, Value::Null);
    site.push(&Manifest::new(&["50", "101"]), "a slip of the finger");
    let said = site
        .eventually("the agent says it", || async {
            Some(site.condition(AGENT, "Synced").await).filter(|condition| !condition.is_null())
        })
        .await;
    assert_eq!((&said["status"], &said["reason"]), (&"False".into(), &"ManifestInvalid".into()));
    let why = said["message"].as_str().unwrap();
    assert!(why.starts_with(&format!("{AGENT_FILE}:")) && why.contains("spec.rollout.steps[1].setWeight"), "{why}");
    let kubeconfig = site.plane.kubeconfig(User::Admin).display().to_string();
    let name = format!("{}/{AGENT}", site.namespace);
    let page =
        tokio::task::spawn_blocking(move || serin(&["status", "--kubeconfig", &kubeconfig, &name])).await.unwrap();
    assert!(page.stdout.contains("ManifestInvalid") && page.stdout.contains(AGENT_FILE), "{}", page.stdout);
    // Nobody forgets it over a restart, and it is not told anew.
    site.restart().await;
    site.until_looked_at().await;
    assert_eq!(site.condition(AGENT, "Synced").await, said);
    let from_git = ["status", "--from-git", "--repo", &site.repo(), "--cluster-name", &site.namespace, AGENT]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("--mirror-dir={}", process::scratch("status-mirror").display())]);
    let from_git: Vec<String> = from_git.collect();
    site.until("it is on the status branch", || {
        let from_git = from_git.clone();
        let ask = move || serin(&from_git.iter().map(String::as_str).collect::<Vec<_>>());
        async { tokio::task::spawn_blocking(ask).await.unwrap().stdout.contains("ManifestInvalid") }
    })
    .await;
    site.push(&manifest, "mended");
    site.until("it is gone", || async { site.condition(AGENT, "Synced").await.is_null() }).await;
}

#[tokio::test]
async fn what_the_server_says_about_a_secret_is_not_repeated() {
    const VALUE: &str = "hush-0123456789";
    let site = Site::empty().await;
    let role = json!({"metadata": {"name": "secrets"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    ]});
    site.plane.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    let binding = json!({
        "metadata": {"name": "secrets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "secrets"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": User::Serin.name()}],
    });
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", site.namespace);
    site.plane.create(&bindings, &binding).await;
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\n  namespace: {}\nstringData:\n  key: [{VALUE}]\n",
        site.namespace,
    );
    // The server does repeat it.
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": [VALUE]},
    });
    let secrets = format!("/api/v1/namespaces/{}/secrets", site.namespace);
    let request = kube::core::Request::new(secrets).patch("key", &PatchParams::apply("me"), &Patch::Apply(object));
    let admin = site.plane.client(User::Admin).await;
    let refusal = admin.request::<Value>(request.unwrap()).await.unwrap_err().to_string();
    assert!(refusal.contains(VALUE), "{refusal}");

    site.clone.write("secret.yaml", &secret);
    site.clone.write("map.yaml", &config_map(&site.namespace, "one", "first"));
    site.clone.commit("a secret that the server does not take");
    site.clone.push();
    site.start_with_settings(&format!(
        "clusterName: {0}\nkubernetes: {{namespaces: [{0}]}}\nsources:\n- name: config\n  repo: {1}\n  kinds: [Secret, ConfigMap]\n",
        site.namespace,
        site.repo(),
    ))
    .await;
    site.until("it is refused", || async { site.log().contains("the server's words may hold the values") }).await;
    site.until("the rest is applied", || async { value_of(&site, "one").await == "first" }).await;
    let all =
        ["/metrics", "/healthz", "/readyz"].map(|path| site.http(path).unwrap_or_default()).concat() + &site.log();
    assert!(!all.contains(VALUE), "{all}");
}
