//! The support code itself, as far as the other tests lean on it without looking.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::support::control_plane::{ControlPlane, User};
use crate::support::git_clone::{Clone, PERSON};
use crate::support::git_server::{GitServer, Protocol};
use crate::support::kubelet::{ANNOTATION, Behaviour};
use crate::support::{eventually, until};

async fn create_deployment(plane: &ControlPlane, namespace: &str, name: &str, pods: &str) -> Api<Deployment> {
    let labels = json!({"app": name});
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {ANNOTATION: pods}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
            },
        },
    });
    plane.create(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment).await;
    Api::namespaced(plane.client(User::Admin).await, namespace)
}

async fn available(api: &Api<Deployment>, name: &str) -> i32 {
    let status = api.get(name).await.expect("the deployment").status;
    status.and_then(|status| status.available_replicas).unwrap_or(0)
}

#[tokio::test]
async fn pods_of_a_deployment_become_and_cease_to_be_available_as_told() {
    let plane = ControlPlane::shared();
    let kubelet = plane.kubelet();
    let namespace = plane.namespace().await;
    let quick = create_deployment(plane, &namespace, "quick", "ready").await;
    let slow = create_deployment(plane, &namespace, "slow", "ready-after: 200ms").await;
    let never = create_deployment(plane, &namespace, "never", "never-ready").await;
    let broken = create_deployment(plane, &namespace, "broken", "fail").await;
    until("quick is available", || async { available(&quick, "quick").await == 2 }).await;
    until("slow is available", || async { available(&slow, "slow").await == 2 }).await;
    assert_eq!((available(&never, "never").await, available(&broken, "broken").await), (0, 0));

    kubelet.set(&namespace, "quick-", Behaviour::Crash).await;
    until("quick is gone", || async { available(&quick, "quick").await == 0 }).await;
    kubelet.set(&namespace, "quick-", Behaviour::Ready).await;
    until("quick is back", || async { available(&quick, "quick").await == 2 }).await;
    kubelet.set(&namespace, "never-", Behaviour::ReadyAfter(std::time::Duration::from_millis(50))).await;
    until("never is available", || async { available(&never, "never").await == 2 }).await;
    kubelet.set(&namespace, "never-", Behaviour::NeverReady).await;
    until("never is gone", || async { available(&never, "never").await == 0 }).await;
}

#[tokio::test]
async fn the_audit_log_tells_who_wrote_what_and_when() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let mark = plane.audit_mark();
    let api = create_deployment(plane, &namespace, "watched", "never-ready").await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    api.patch("watched", &PatchParams::default(), &patch).await.expect("a patch");
    let event = eventually("the patch is logged", || async {
        let mut events = plane.audit_since(mark).into_iter();
        events.rfind(|event| event.namespace() == namespace && event.verb() == "patch" && event.user() == "admin")
    })
    .await;
    assert_eq!((event.resource().as_str(), event.name(), event.code()), ("deployments", "watched", 200));
    assert_eq!(event.body().expect("a body")["spec"]["replicas"], 7);
    assert!(event.is_write() && !event.user_agent().contains("serin"));
    let created = plane.audit_since(mark).into_iter().find(|event| event.verb() == "create").expect("a creation");
    assert!(created.received() <= event.received());
}

#[tokio::test]
async fn a_private_control_plane_survives_the_loss_of_its_api_server() {
    let plane = ControlPlane::start_private();
    let namespace = plane.namespace().await;
    plane.stop_api_server();
    assert!(plane.client(User::Admin).await.apiserver_version().await.is_err());
    plane.start_api_server().await;
    plane.kubelet();
    let api = create_deployment(&plane, &namespace, "after", "ready").await;
    until("the deployment is available", || async { available(&api, "after").await == 2 }).await;
}

#[test]
fn people_clone_push_pull_and_revert_over_both_protocols() {
    for protocol in [Protocol::Git, Protocol::Http] {
        let server = GitServer::start(protocol);
        server.create("config");
        let one = Clone::of(&server.url("config"));
        let first = one.push_file("a/b.yaml", "x: 1\n", "first");
        let two = Clone::of(&server.url("config"));
        assert_eq!(two.read("a/b.yaml"), "x: 1\n");
        let second = two.push_file("a/b.yaml", "x: 2\n", "second");
        one.write("other", "text\n");
        let third = one.commit("third, on the first");
        one.try_git(&["push", "origin", "main"]).expect_err("the second is on the server and not below the third");
        one.pull();
        let third_again = one.head();
        let fourth = one.revert(&second);
        one.push();
        assert_eq!(server.git("config", &["rev-parse", "main"]), fourth);
        assert_eq!(one.read("a/b.yaml"), "x: 1\n");
        let commits = one.log("main").into_iter().map(|commit| (commit.sha, commit.subject));
        let reverted = "Revert \"second\"".to_owned();
        let expected = [
            (fourth, reverted),
            (third_again.clone(), "third, on the first".into()),
            (second, "second".into()),
            (first, "first".into()),
        ];
        assert_eq!(commits.collect::<Vec<_>>(), expected);
        assert_ne!(third, third_again);
        assert!(one.log("main").iter().all(|commit| commit.author == PERSON));
        assert!(one.folder().join("a/b.yaml").exists());
    }
}

#[test]
fn a_hook_refuses_a_push_and_a_stopped_server_refuses_connections() {
    for protocol in [Protocol::Git, Protocol::Http] {
        let server = GitServer::start(protocol);
        server.create("config");
        let clone = Clone::of(&server.url("config"));
        server.install_hook("config", "pre-receive", "echo 'not today' >&2; exit 1");
        clone.write("file", "text\n");
        clone.commit("a change");
        let refusal = clone.try_git(&["push", "origin", "main"]).expect_err("the hook refuses");
        assert!(refusal.contains("not today"), "{refusal}");
        server.remove_hook("config", "pre-receive");
        server.stop();
        clone.try_git(&["push", "origin", "main"]).expect_err("nobody listens");
        server.resume();
        clone.push();
    }
}
