//! Which protocols an agent serves, and on which ports.

use serde_json::Value;

use super::json::{list, text};
use crate::object::Object;

/// Port of the Service where the primary facade names none.
const DEFAULT_PORT: u16 = 8080;
/// Port of A2A beside a websocket facade, where it names none.
const DEFAULT_A2A_PORT: u16 = 9999;
/// Port of the MCP server, where it names none.
const DEFAULT_MCP_PORT: u16 = 9998;
/// Ports on which the images serve each protocol once more, for the management plane.
const MANAGEMENT: ManagementPorts = ManagementPorts { facade: Some(18080), a2a: Some(19999), mcp: Some(19998) };
/// How long a facade serves open calls after it is told to end, where it does not say.
const DEFAULT_DRAIN_SECONDS: u64 = 30;
/// No drain takes longer: a typing error must not stall a rollout for a day.
const MAX_DRAIN_SECONDS: u64 = 600;
/// The pod may take this much longer than the drain: the preStop sleep, and what happens after the drain.
const GRACE_BEYOND_DRAIN_SECONDS: u64 = 30;

/// The facades of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Facades<'a> {
    primary: &'a Value,
    websocket: Option<&'a Value>,
    a2a: Option<&'a Value>,
    mcp: Option<&'a Value>,
}

/// The management-plane ports that an agent serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagementPorts {
    /// Of the primary facade.
    pub facade: Option<u16>,
    /// Of A2A beside a websocket facade.
    pub a2a: Option<u16>,
    /// Of the MCP server.
    pub mcp: Option<u16>,
}

impl<'a> Facades<'a> {
    /// The facades of `agent`, or `None` where it has none that can be the primary one: websocket, else rest, else
    /// a2a, else custom.
    pub fn of(agent: &'a Object) -> Option<Self> {
        let facades = list(agent.at("/spec")?, "/facades");
        let of_type = |wanted| facades.iter().find(|facade| type_of(facade) == wanted);
        Some(Self {
            primary: ["websocket", "rest", "a2a", "custom"].into_iter().find_map(of_type)?,
            websocket: of_type("websocket"),
            a2a: of_type("a2a"),
            mcp: of_type("mcp"),
        })
    }

    /// The primary facade, as the manifest has it.
    pub fn primary(&self) -> &'a Value {
        self.primary
    }

    /// The port of the primary facade.
    pub fn port(&self) -> u16 {
        port(self.primary, "/port").unwrap_or(DEFAULT_PORT)
    }

    /// Whether A2A is the only protocol that conversations have: one container then does everything.
    pub fn is_standalone_a2a(&self) -> bool {
        self.websocket.is_none() && self.a2a.is_some()
    }

    /// The port of A2A, where it is served beside websocket.
    pub fn second_a2a_port(&self) -> Option<u16> {
        self.second_a2a().map(|facade| port(facade, "/a2a/port").unwrap_or(DEFAULT_A2A_PORT))
    }

    /// The port on which A2A is served, beside another protocol or alone.
    pub fn a2a_port(&self) -> Option<u16> {
        self.second_a2a_port().or_else(|| self.is_standalone_a2a().then(|| self.port()))
    }

    /// Whether conversations come over a websocket.
    pub fn is_websocket(&self) -> bool {
        self.websocket.is_some()
    }

    /// The port of the MCP server, where there is one.
    pub fn mcp_port(&self) -> Option<u16> {
        self.mcp.map(|facade| port(facade, "/mcp/port").unwrap_or(DEFAULT_MCP_PORT))
    }

    /// The configuration of A2A, where it is served.
    pub fn a2a(&self) -> Option<&'a Value> {
        self.a2a.and_then(|facade| facade.get("a2a")).filter(|a2a| a2a.is_object())
    }

    /// Who answers: `runtime` unless the primary facade says otherwise.
    pub fn handler(&self) -> &'a str {
        text(self.primary, "/handler").unwrap_or("runtime")
    }

    /// The ports of the management plane.
    pub fn management_ports(&self) -> ManagementPorts {
        let served = |facade: Option<&Value>, port: Option<u16>| {
            let is_served =
                facade.is_some_and(|facade| facade.get("managementPlane").and_then(Value::as_bool) != Some(false));
            port.filter(|_| is_served)
        };
        ManagementPorts {
            facade: served(Some(self.primary), MANAGEMENT.facade),
            a2a: served(self.second_a2a(), MANAGEMENT.a2a),
            mcp: served(self.mcp, MANAGEMENT.mcp),
        }
    }

    /// How long a pod may take to end, in seconds.
    pub fn grace_period_seconds(&self) -> u64 {
        let drain = text(self.primary, "/drainTimeout")
            .and_then(|drain| crate::api::duration::parse_duration(drain).ok())
            .and_then(|drain| u64::try_from(drain.as_secs()).ok())
            .filter(|seconds| *seconds >= 1)
            .unwrap_or(DEFAULT_DRAIN_SECONDS);
        drain.min(MAX_DRAIN_SECONDS) + GRACE_BEYOND_DRAIN_SECONDS
    }

    fn second_a2a(&self) -> Option<&'a Value> {
        self.a2a.filter(|_| self.websocket.is_some())
    }
}

fn type_of(facade: &Value) -> &str {
    text(facade, "/type").unwrap_or("websocket")
}

fn port(facade: &Value, pointer: &str) -> Option<u16> {
    facade.pointer(pointer)?.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}
