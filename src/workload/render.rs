//! All objects of a track, in the order in which they are to be applied: what pods need comes before the pods.

use serde_json::{Map, Value, json};

use super::tools::render_tools_config;
use super::{
    Effective, Inputs, RenderError, Track, render_access, render_candidate_config, render_deployment, render_service,
};
use crate::api::names;
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};

/// All objects of the track. What both tracks share (Service, RBAC) comes with the stable one.
///
/// # Errors
/// [`RenderError`], where the agent cannot run as it is described; nothing of it is to be applied then.
pub fn render(inputs: &Inputs<'_>) -> Result<Vec<Object>, RenderError> {
    check_registry(inputs)?;
    let deployment = render_deployment(inputs)?;
    let mut objects = Vec::new();
    match inputs.track {
        Track::Stable => objects.extend(render_access(inputs.agent, inputs.settings)?),
        Track::Candidate => objects.extend(render_candidate_config(inputs.agent)?),
    }
    objects.extend(render_tools_config(inputs)?);
    if inputs.track == Track::Stable {
        objects.push(render_service(inputs.agent, inputs.waypoint)?);
    }
    objects.push(deployment);
    Ok(objects)
}

/// The keys of all objects that a track may have, in the order in which they are to be deleted: pods first.
pub fn keys(agent: &AgentKey, track: Track) -> Vec<ObjectKey> {
    let key = |kind, name| ObjectKey::new(kind, &agent.namespace, name);
    let name = agent.name.as_str();
    match track {
        Track::Candidate => vec![
            key(Kind::DEPLOYMENT, names::candidate_deployment(name)),
            key(Kind::CONFIG_MAP, names::candidate_config(name)),
            key(Kind::CONFIG_MAP, names::candidate_tools_config(name)),
        ],
        Track::Stable => vec![
            key(Kind::DEPLOYMENT, name.to_owned()),
            key(Kind::SERVICE, name.to_owned()),
            key(Kind::CONFIG_MAP, names::tools_config(name)),
            key(Kind::ROLE_BINDING, names::facade_account(name)),
            key(Kind::ROLE, names::facade_account(name)),
            key(Kind::SERVICE_ACCOUNT, names::facade_account(name)),
        ],
    }
}

/// An object of `agent`'s namespace that the agent owns.
pub(super) fn owned(
    agent: &Object,
    kind: Kind,
    name: String,
    labels: Map<String, Value>,
) -> Result<Object, RenderError> {
    let uid = agent.uid().ok_or(RenderError::NotInCluster)?;
    let mut object = Object::bare(&ObjectKey::new(kind, agent.namespace(), name));
    object.set(&["metadata", "labels"], labels);
    let owner = json!({
        "apiVersion": Kind::AGENT_RUNTIME.api_version(),
        "kind": Kind::AGENT_RUNTIME.kind,
        "name": agent.name(),
        "uid": uid.as_str(),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    object.set(&["metadata", "ownerReferences"], vec![owner]);
    Ok(object)
}

fn check_registry(inputs: &Inputs<'_>) -> Result<(), RenderError> {
    let Some(reference) = Effective::of(inputs.agent, inputs.track).tool_registry_ref else { return Ok(()) };
    match super::json::text(reference, "/namespace") {
        Some(namespace) if namespace != inputs.agent.namespace() => Err(RenderError::ToolRegistryCrossNamespace {
            name: super::json::text(reference, "/name").unwrap_or_default().to_owned(),
            namespace: namespace.to_owned(),
        }),
        _ => Ok(()),
    }
}
