//! Where the agent is reached and which other agents it reaches: `status.serviceEndpoint`, `managementEndpoints` and `a2a`
//! (reference 1e, 2.3). Dashboards and other agents dial what these say.

use serde_json::{Map, Value, json};

use crate::object::Kind;
use crate::rollout::scene::Scene;
use crate::workload::{Client, Facades, ManagementPorts, Place, clients, peer_url};

/// The fields of the status that are rendered here.
pub(crate) const FIELDS: [&str; 3] = ["serviceEndpoint", "managementEndpoints", "a2a"];

/// Where the agent card of an A2A agent is, below its endpoint.
const AGENT_CARD: &str = "/.well-known/agent.json";

/// Those of [`FIELDS`] that have something to say. Nothing is said before the Service is there.
pub(crate) fn render(scene: &Scene<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    let service = scene.live(&Kind::SERVICE, &scene.key.name).filter(|s| s.is_controlled_by(scene.uid));
    let (Some(service), Some(facades)) = (service, Facades::of(&scene.world.agent)) else { return fields };
    let host = format!("{}.{}.svc.cluster.local", scene.key.name, scene.key.namespace);
    if let Some(port) = service.integer("/spec/ports/0/port") {
        fields.insert("serviceEndpoint".into(), format!("{host}:{port}").into());
    }
    let ManagementPorts { facade, a2a, mcp } = facades.management_ports();
    let management: Map<String, Value> =
        [("ws", facade.filter(|_| facades.is_websocket())), ("a2a", a2a), ("mcp", mcp)]
            .into_iter()
            .filter_map(|(name, port)| Some((name.to_owned(), port?.into())))
            .collect();
    if !management.is_empty() {
        fields.insert("managementEndpoints".into(), management.into());
    }
    if let Some(port) = facades.a2a_port() {
        let endpoint = format!("http://{host}:{port}");
        let mut a2a = json!({"endpoint": endpoint, "agentCardURL": format!("{endpoint}{AGENT_CARD}")});
        let clients: Vec<Value> = clients(&scene.world.agent).iter().map(|entry| client(scene, entry)).collect();
        if !clients.is_empty() {
            a2a["clients"] = clients.into();
        }
        fields.insert("a2a".into(), a2a);
    }
    fields
}

/// Whether a client is reached, and where.
fn client(scene: &Scene<'_>, client: &Client<'_>) -> Value {
    let resolved = match &client.place {
        Place::Url(url) => Ok((*url).to_owned()),
        Place::Agent(agent) => match scene.world.peer(agent) {
            Some(live) => peer_url(live).ok_or_else(|| format!("AgentRuntime {agent} has no Service yet")),
            None => Err(format!("AgentRuntime {agent} is not there")),
        },
    };
    match resolved {
        Ok(url) => json!({"name": client.name, "ready": true, "resolvedURL": url}),
        Err(error) => json!({"name": client.name, "ready": false, "error": error}),
    }
}
