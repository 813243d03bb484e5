//! Other agents that an agent calls over A2A: by URL, or by the name of an AgentRuntime that is reached where its status
//! says.

use serde_json::Value;

use super::Facades;
use super::json::{list, present, text};
use crate::ids::AgentKey;
use crate::object::Object;

/// An A2A client of an agent. Both tracks have the same: a candidate has no facades of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client<'a> {
    /// The agent's name for it.
    pub name: &'a str,
    /// Where it is.
    pub place: Place<'a>,
    /// Its whole entry.
    pub manifest: &'a Value,
}

/// Where an A2A client calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Outside of the cluster, or wherever.
    Url(&'a str),
    /// Another agent of the cluster.
    Agent(AgentKey),
}

/// The A2A clients of `agent` in the order of the manifest; without those that name nothing.
pub fn clients(agent: &Object) -> Vec<Client<'_>> {
    let a2a = Facades::of(agent).and_then(|facades| facades.a2a());
    let clients = a2a.map(|a2a| list(a2a, "/clients")).unwrap_or_default();
    clients.iter().filter_map(|client| read(agent, client)).collect()
}

/// The other agents that `agent` calls.
pub fn peers(agent: &Object) -> impl Iterator<Item = AgentKey> + '_ {
    clients(agent).into_iter().filter_map(|client| match client.place {
        Place::Agent(peer) => Some(peer),
        Place::Url(_) => None,
    })
}

/// Where `peer` is reached: where its status says that it serves A2A, else its service; `None` before it has one.
pub fn peer_url(peer: &Object) -> Option<String> {
    let status = peer.at("/status")?;
    let service = || text(status, "/serviceEndpoint").map(|endpoint| format!("http://{endpoint}"));
    text(status, "/a2a/endpoint").map(str::to_owned).or_else(service)
}

fn read<'a>(agent: &'a Object, client: &'a Value) -> Option<Client<'a>> {
    let place = match present(client, "/agentRuntimeRef") {
        Some(reference) => {
            let namespace = text(reference, "/namespace").unwrap_or_else(|| agent.namespace());
            Place::Agent(AgentKey::new(namespace, text(reference, "/name")?))
        }
        None => Place::Url(text(client, "/url")?),
    };
    Some(Client { name: text(client, "/name")?, place, manifest: client })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(spec: Value, status: Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
            "metadata": {"name": "front", "namespace": "shop"}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn clients_name_a_url_or_an_agent() {
        let entries = json!([
            {"name": "billing", "agentRuntimeRef": {"name": "billing-agent"}},
            {"name": "legal", "agentRuntimeRef": {"name": "legal", "namespace": "office"}},
            {"name": "outside", "url": "https://example.com"},
            {"name": "broken", "agentRuntimeRef": {}},
            {"name": "nothing"},
        ]);
        let agent = agent(json!({"facades": [{"type": "a2a", "a2a": {"clients": entries}}]}), json!({}));
        let found: Vec<_> = clients(&agent).into_iter().map(|client| (client.name, client.place)).collect();
        assert_eq!(
            found,
            [
                ("billing", Place::Agent(AgentKey::new("shop", "billing-agent"))),
                ("legal", Place::Agent(AgentKey::new("office", "legal"))),
                ("outside", Place::Url("https://example.com")),
            ]
        );
        assert_eq!(peers(&agent).count(), 2);
    }

    #[test]
    fn a_peer_is_reached_where_its_status_says() {
        let url = |status| peer_url(&agent(json!({}), status));
        let service = "front.shop.svc.cluster.local:8080";
        assert_eq!(url(json!({})), None);
        assert_eq!(url(json!({"serviceEndpoint": service})).as_deref(), Some(format!("http://{service}").as_str()));
        let both = json!({"serviceEndpoint": service, "a2a": {"endpoint": "http://front.shop.svc.cluster.local:9999"}});
        assert_eq!(url(both).as_deref(), Some("http://front.shop.svc.cluster.local:9999"));
    }
}
