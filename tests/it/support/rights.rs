//! What the user `serin` may do in the namespace of a site, and taking some of it away while a daemon runs.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, User};
use super::site::Site;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What is left of rights that are taken away.
const READ: [&str; 3] = ["get", "list", "watch"];

/// What Serin needs, and no more: groups, resources, verbs.
fn needed() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    let all = vec!["get", "list", "watch", "create", "patch", "delete"];
    vec![
        (
            "omnia.altairalabs.ai",
            vec!["agentruntimes", "promptpacks", "rolloutanalyses", "providers", "toolregistries"],
            all.clone(),
        ),
        ("omnia.altairalabs.ai", vec!["agentruntimes/status"], vec!["get", "patch"]),
        ("omnia.altairalabs.ai", vec!["toolpolicies"], READ.to_vec()),
        ("apps", vec!["deployments"], all.clone()),
        ("", vec!["configmaps", "services", "serviceaccounts"], all.clone()),
        ("", vec!["secrets", "namespaces"], READ.to_vec()),
        ("rbac.authorization.k8s.io", vec!["roles", "rolebindings"], all),
        ("events.k8s.io", vec!["events"], vec!["create", "patch"]),
        ("coordination.k8s.io", vec!["leases"], vec!["get", "create", "patch"]),
    ]
}

/// The rules of a role; of `reduced` (`group/plural`) only `left` is granted.
fn rules(reduced: &[&str], left: &[&str]) -> Vec<Value> {
    let rules = needed().into_iter().flat_map(|(group, resources, verbs)| {
        resources.into_iter().map(move |resource| (group, resource, verbs.clone()))
    });
    let granted = rules.map(|(group, resource, mut verbs)| {
        if reduced.contains(&format!("{group}/{resource}").as_str()) {
            verbs.retain(|verb| left.contains(verb));
        }
        json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
    });
    granted.filter(|rule| rule["verbs"] != json!([])).collect()
}

async fn bind(plane: &ControlPlane, namespace: &str, kind: &str, name: &str) {
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": User::Serin.name()}],
    });
    plane.create(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding).await;
}

/// Gives the user `serin` what Serin needs in one namespace, and no more. To give rights, one has to have them.
pub(crate) async fn grant(plane: &ControlPlane, namespace: &str) {
    let role = json!({"metadata": {"name": "serin"}, "rules": rules(&[], &[])});
    plane.create(&format!("{RBAC}/clusterroles"), &role).await;
    bind(plane, namespace, "ClusterRole", "serin").await;
}

impl Site {
    /// Takes away all rights but reading about `resources` (`group/plural`), without a moment in which others are missing.
    pub(crate) async fn take_write_rights(&self, resources: &[&str]) {
        self.reduce_rights(resources, &READ).await;
    }

    /// Takes away the rights to list and to watch `resources` (`group/plural`). Watches that are open stay so until they end.
    pub(crate) async fn take_watch_rights(&self, resources: &[&str]) {
        self.reduce_rights(resources, &["get", "create", "patch", "delete"]).await;
    }

    /// Takes away all rights about `resources` (`group/plural`).
    pub(crate) async fn take_all_rights(&self, resources: &[&str]) {
        self.reduce_rights(resources, &[]).await;
    }

    async fn reduce_rights(&self, resources: &[&str], left: &[&str]) {
        let role = json!({"metadata": {"name": "less"}, "rules": rules(resources, left)});
        self.plane.create(&format!("{RBAC}/namespaces/{}/roles", self.namespace), &role).await;
        bind(self.plane, &self.namespace, "Role", "less").await;
        self.delete("rolebindings", "serin").await;
        let verb = if left.contains(&"patch") { "watch" } else { "patch" };
        let taken = resources.first().expect("something is taken");
        self.until("the server knows it", || async { !self.may(verb, taken).await }).await;
    }

    /// Gives everything back.
    pub(crate) async fn give_rights_back(&self) {
        bind(self.plane, &self.namespace, "ClusterRole", "serin").await;
        self.delete("rolebindings", "less").await;
        self.delete("roles", "less").await;
    }

    async fn may(&self, verb: &str, resource: &str) -> bool {
        let (group, plural) = resource.split_once('/').expect("group/plural");
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            namespace: Some(self.namespace.clone()),
            resource: Some(plural.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            user: Some(User::Serin.name().to_owned()),
            ..SubjectAccessReviewSpec::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.plane.client(User::Admin).await);
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = reviews.create(&PostParams::default(), &review).await.expect("a review");
        answer.status.is_some_and(|status| status.allowed)
    }
}
