//! What the pods may do: their ServiceAccount, its Role and the binding.

use serde_json::{Value, json};

use super::json::present;
use super::pod::{owned_labels, service_account};
use super::render::owned;
use super::{RenderError, WorkloadSettings};
use crate::api::names::facade_account;
use crate::object::{Kind, Object};

/// ServiceAccount, Role and RoleBinding of an agent, both tracks alike. The images read their AgentRuntime and what it
/// references, and report to its status.
///
/// # Errors
/// [`RenderError::NotInCluster`].
pub fn render_access(agent: &Object, settings: &WorkloadSettings) -> Result<[Object; 3], RenderError> {
    let name = facade_account(agent.name());
    let labelled = |kind| owned(agent, kind, name.clone(), owned_labels(agent.name()));
    let account = labelled(Kind::SERVICE_ACCOUNT)?;

    let mut role = labelled(Kind::ROLE)?;
    role.set(&["rules"], rules(agent));

    let mut binding = labelled(Kind::ROLE_BINDING)?;
    binding.set(&["roleRef"], json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}));
    let subject = service_account(agent, settings.workspaces.get(agent.namespace()));
    let subject = json!({"kind": "ServiceAccount", "name": subject, "namespace": agent.namespace()});
    binding.set(&["subjects"], json!([subject]));
    Ok([account, role, binding])
}

fn rules(agent: &Object) -> Value {
    let group = "omnia.altairalabs.ai";
    // Keys of clients are Secrets that the facade finds by a label, and RBAC knows no labels.
    let has_client_keys = agent.at("/spec").is_some_and(|spec| present(spec, "/externalAuth/clientKeys").is_some());
    let secrets: &[&str] = if has_client_keys { &["get", "list", "watch"] } else { &["get"] };
    json!([
        {"apiGroups": [group], "resources": ["agentruntimes", "providers"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["agentruntimes/status"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": secrets},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["toolpolicies"], "verbs": ["get", "list", "watch"]},
    ])
}
