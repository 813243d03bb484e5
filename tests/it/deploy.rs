//! What `deploy/` holds is enough to run Serin on a real API server, and no request of its is refused.

use std::path::Path;

use serde_json::{Value, json};
use serin::workload::{WorkloadSettings, render_access};

use crate::support::control_plane::{ControlPlane, User};
use crate::support::git_clone::{Clone, hermetic_git};
use crate::support::process::{Running, scratch};
use crate::support::until;

const RBAC: &str = include_str!("../../deploy/rbac.yaml");

fn documents() -> Vec<Value> {
    RBAC.split("\n---\n").map(|text| serde_saphyr::from_str(text).expect("YAML")).collect()
}

fn find(kind: &str) -> Value {
    documents().into_iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// Every combination that a list of rules permits.
fn permissions(rules: &Value) -> Vec<(String, String, String)> {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        let list = rule[field].as_array().expect("a list").iter();
        list.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let mut permissions = Vec::new();
    for rule in rules.as_array().expect("rules") {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                let verbs = words(rule, "verbs").into_iter();
                permissions.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    permissions
}

#[test]
fn what_serin_gives_to_the_pods_of_an_agent_it_has_itself() {
    let has = permissions(&find("ClusterRole")["rules"]);
    let agent = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": {"name": "a", "namespace": "n", "uid": "u"},
        "spec": {"externalAuth": {"clientKeys": {}}},
    });
    let agent = serin::object::Object::from_value(agent).expect("an object");
    let [_, role, _] = render_access(&agent, &WorkloadSettings::default()).expect("a role");
    let gives = permissions(role.at("/rules").expect("rules"));
    assert!(gives.contains(&(String::new(), "secrets".to_owned(), "watch".to_owned())), "{gives:?}");
    let missing: Vec<_> = gives.iter().filter(|permission| !has.contains(permission)).collect();
    assert!(missing.is_empty(), "deploy/rbac.yaml lacks {missing:?}");
}

#[tokio::test]
async fn a_whole_rollout_needs_no_more_than_the_role_in_deploy() {
    // Of its own: this daemon looks everywhere, and with these rights it would roll out the agents of other tests too.
    let plane = ControlPlane::start_private();
    plane.install_serin_crds().await;
    plane.kubelet();
    let namespace = plane.namespace().await;
    let user = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": User::Serin.name()}]);
    let as_user = |mut binding: Value| {
        binding["subjects"] = user.clone();
        binding
    };
    let binding = as_user(find("ClusterRoleBinding"));
    plane.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &find("ClusterRole")).await;
    plane.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    plane.create("/api/v1/namespaces", &find("Namespace")).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/serin";
    plane.create(&format!("{rbac}/roles"), &find("Role")).await;
    plane.create(&format!("{rbac}/rolebindings"), &as_user(find("RoleBinding"))).await;

    let folder = scratch("deploy");
    let repository = folder.join("config.git").to_str().expect("UTF-8").to_owned();
    let made = hermetic_git().args(["init", "--quiet", "--bare", &repository]).status().expect("git");
    assert!(made.success());
    let clone = Clone::of(&repository);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    for name in ["agent.yaml", "support-pack-1.0.0.yaml", "support-pack-1.1.0.yaml"] {
        let text = std::fs::read_to_string(examples.join(name)).expect(name);
        let text = text.replace("namespace: quickstart", &format!("namespace: {namespace}"));
        // The pods are a machine's with other tests on it: a deadline of seconds would be about that.
        clone.write(name, &text.replace("progress-deadline: 5s", "progress-deadline: 10m"));
    }
    clone.commit("run support-pack 1.0.0");
    clone.push();

    let kubeconfig = plane.kubeconfig(User::Serin).to_str().expect("UTF-8").to_owned();
    let mirror = folder.join("mirror").to_str().expect("UTF-8").to_owned();
    let arguments = [
        &["run", "--repo", &repository, "--cluster-name", &namespace, "--kubeconfig", &kubeconfig][..],
        &["--mirror-dir", &mirror, "--listen", "none", "--poll-interval", "1s", "--allow-namespace", &namespace],
        // In the cluster this is the pod's own.
        &["--lease-namespace", "serin", "--log-format", "text"],
    ]
    .concat();
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let mark = plane.audit_mark();
    let log = folder.join("serin.log");
    let serin = Running::start(Path::new(env!("CARGO_BIN_EXE_serin")), &arguments, log.clone());

    let client = plane.client(User::Admin).await;
    let read = async |path: &str, name: &str| -> Option<Value> {
        let path = path.replace("NAMESPACE", &namespace);
        let get = kube::core::Request::new(path).get(name, &kube::api::GetParams::default()).expect("a request");
        client.request(get).await.ok()
    };
    const AGENTS: &str = "/apis/omnia.altairalabs.ai/v1alpha1/namespaces/NAMESPACE/agentruntimes";
    const CONFIG_MAPS: &str = "/api/v1/namespaces/NAMESPACE/configmaps";
    until("stable is ready", || async {
        let agent = read(AGENTS, "support-agent").await.unwrap_or_default();
        agent["status"]["replicas"]["available"] == 4 || agent["status"]["replicas"]["ready"] == 4
    })
    .await;

    let candidate = "\n  rollout:\n    candidate: { promptPackRef: { name: support-pack, version: 1.1.0 } }\n";
    clone.write("agent.yaml", &clone.read("agent.yaml").replace("\n  rollout:\n", candidate));
    clone.commit("try support-pack 1.1.0");
    clone.push();
    until("the candidate is promoted and its pods are gone", || async {
        let deployment = read("/apis/apps/v1/namespaces/NAMESPACE/deployments", "support-agent-canary").await;
        let agent = read(AGENTS, "support-agent").await.unwrap_or_default();
        deployment.is_none() && agent["spec"]["promptPackRef"]["version"] == "1.1.0"
    })
    .await;
    clone.pull();
    clone.git(&["rm", "--quiet", "support-pack-1.0.0.yaml"]);
    clone.commit("forget support-pack 1.0.0");
    clone.push();
    until("what git no longer holds is gone", || async { read(CONFIG_MAPS, "support-pack-1-0-0").await.is_none() })
        .await;
    drop(serin);

    let refused: Vec<String> = plane
        .audit_since(mark)
        .iter()
        .filter(|event| event.user() == User::Serin.name() && event.code() == 403)
        .map(|event| format!("{} {} in {:?}", event.verb(), event.resource(), event.namespace()))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
}
