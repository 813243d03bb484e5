//! The Service of an agent, in front of the pods of both its tracks.

use serde_json::{Value, json};

use super::pod::agent_labels;
use super::render::owned;
use super::{Facades, RenderError};
use crate::object::{Kind, Object};

/// The Service. With a `waypoint`, a waypoint of an ambient mesh splits its traffic.
///
/// It selects on no track, which is what makes it span both Deployments. The waypoint's label is the Service's alone:
/// in the selector, which pods would have to carry too, it would leave the Service without any.
///
/// # Errors
/// [`RenderError`], where the agent serves nothing.
pub fn render_service(agent: &Object, waypoint: Option<&str>) -> Result<Object, RenderError> {
    let facades = Facades::of(agent).ok_or(RenderError::NoFacade)?;
    let selector = agent_labels(agent.name());
    let mut labels = selector.clone();
    if let Some(waypoint) = waypoint.filter(|waypoint| !waypoint.is_empty()) {
        labels.insert("istio.io/use-waypoint".into(), waypoint.into());
    }
    let mut service = owned(agent, Kind::SERVICE, agent.name().to_owned(), labels)?;
    service.set(&["spec"], json!({"type": "ClusterIP", "selector": selector, "ports": ports(&facades)}));
    Ok(service)
}

fn ports(facades: &Facades<'_>) -> Vec<Value> {
    let management = facades.management_ports();
    let served = [
        ("facade", Some(facades.port()), Some("facade")),
        ("a2a", facades.second_a2a_port(), Some("a2a")),
        ("mcp", facades.mcp_port(), Some("mcp")),
        ("facade-mgmt", management.facade, None),
        ("a2a-mgmt", management.a2a, None),
        ("mcp-mgmt", management.mcp, None),
    ];
    let ports = served.into_iter().filter_map(|(name, number, target)| {
        let number = number?;
        // The management listeners are no ports of the containers, so they have no name there.
        let target = target.map_or_else(|| Value::from(number), Value::from);
        // A mesh splits requests only on ports that it knows to be HTTP, and every protocol here is.
        Some(json!({
            "name": name, "port": number, "targetPort": target, "protocol": "TCP", "appProtocol": "http",
        }))
    });
    ports.collect()
}
