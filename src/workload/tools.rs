//! The tools that a runtime offers to its model: `tools.yaml`, rendered from a ToolRegistry.
//!
//! The format is the runtime's: a list `handlers`, one entry for each handler with the section of its type. Values that
//! the registry leaves out of a retry policy are filled in, because the runtime takes an absent one for zero.

use serde_json::{Map, Value, json};

use super::json::{list, present, text};
use super::pod::owned_labels;
use super::render::owned;
use super::volumes::{TOOL_SECRETS_MOUNT, TOOL_TOKENS_MOUNT, TOOLS_FILE};
use super::{Inputs, RenderError, Track};
use crate::api::duration::parse_duration;
use crate::api::names;
use crate::object::{Kind, Object};

/// HTTP statuses after which a request is tried again, where the registry names none.
const RETRIED_STATUSES: [u16; 6] = [408, 429, 500, 502, 503, 504];
/// gRPC codes after which a call is tried again, where the registry names none.
const RETRIED_CODES: [&str; 3] = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"];
/// All gRPC codes (`google.rpc.Code`).
const GRPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The ConfigMap with the track's tools, where it has a registry.
pub(super) fn render_tools_config(inputs: &Inputs<'_>) -> Result<Option<Object>, RenderError> {
    let Some(registry) = inputs.tool_registry else { return Ok(None) };
    let agent = inputs.agent;
    let name = match inputs.track {
        Track::Stable => names::tools_config(agent.name()),
        Track::Candidate => names::candidate_tools_config(agent.name()),
    };
    let mut labels = owned_labels(agent.name());
    labels.insert("omnia.altairalabs.ai/component".into(), "tools-config".into());
    let mut config = owned(agent, Kind::CONFIG_MAP, name, labels)?;
    config.set(&["data"], json!({TOOLS_FILE: render_tools(registry)?}));
    Ok(Some(config))
}

/// `tools.yaml` of a ToolRegistry. Handlers that the registry's controller found unavailable are left out; where it
/// has not looked, the endpoint is the spec's.
///
/// # Errors
/// [`RenderError::ToolAuthUnsupported`] and [`RenderError::ToolInvalid`]. A part of the tools is never rendered.
pub fn render_tools(registry: &Object) -> Result<String, RenderError> {
    let mut handlers = Vec::new();
    for handler in handlers_of(registry) {
        check_auth(handler)?;
        if let Some(endpoint) = endpoint(registry, handler) {
            handlers.push(entry(handler, &endpoint)?);
        }
    }
    // YAML is read by people, who look into this ConfigMap when a tool does not work.
    serde_saphyr::to_string(&json!({"handlers": handlers}))
        .map_err(|error| RenderError::ToolInvalid { handler: String::new(), why: error.to_string() })
}

/// What the pods need to authenticate to tools.
#[derive(Default)]
pub(super) struct Credentials<'a> {
    /// Handlers with a token or password in a Secret.
    pub(super) secrets: Vec<SecretKey<'a>>,
    /// Handlers that want a ServiceAccount token.
    pub(super) tokens: Vec<Token<'a>>,
}

/// A key of a Secret in the agent's namespace.
pub(super) struct SecretKey<'a> {
    pub(super) handler: &'a str,
    pub(super) secret: &'a str,
    pub(super) key: &'a str,
}

/// A ServiceAccount token for an audience.
pub(super) struct Token<'a> {
    pub(super) handler: &'a str,
    pub(super) audience: &'a str,
}

impl<'a> Credentials<'a> {
    pub(super) fn of(registry: &'a Object) -> Self {
        let mut all = Self::default();
        for handler in handlers_of(registry) {
            let name = name(handler);
            match Auth::of(handler) {
                Auth::Secret { secret, key, .. } => all.secrets.push(SecretKey { handler: name, secret, key }),
                Auth::ServiceAccount { audience } => all.tokens.push(Token { handler: name, audience }),
                Auth::None | Auth::WorkloadIdentity(_) => {}
            }
        }
        all
    }
}

/// How a runtime authenticates to a handler's backend.
enum Auth<'a> {
    None,
    /// `bearer` or `basic`.
    Secret {
        kind: &'a str,
        secret: &'a str,
        key: &'a str,
    },
    ServiceAccount {
        audience: &'a str,
    },
    WorkloadIdentity(&'a Value),
}

impl<'a> Auth<'a> {
    /// The handler's `auth`, or else the older fields of its HTTP or OpenAPI section.
    fn of(handler: &'a Value) -> Self {
        let secret = |kind, at: &'a Value, reference: &str| match (
            text(at, &format!("{reference}/name")),
            text(at, &format!("{reference}/key")),
        ) {
            (Some(secret), Some(key)) => Self::Secret { kind, secret, key },
            _ => Self::None,
        };
        if let Some(auth) = present(handler, "/auth") {
            return match text(auth, "/type") {
                Some(kind @ ("bearer" | "basic")) => secret(kind, auth, "/secretRef"),
                Some("serviceAccount") => match text(auth, "/serviceAccount/audience") {
                    Some(audience) => Self::ServiceAccount { audience },
                    None => Self::None,
                },
                Some("workloadIdentity") => {
                    present(auth, "/workloadIdentity").map_or(Self::None, Self::WorkloadIdentity)
                }
                _ => Self::None,
            };
        }
        let section = match text(handler, "/type") {
            Some("http") => present(handler, "/httpConfig"),
            Some("openapi") => present(handler, "/openAPIConfig"),
            _ => None,
        };
        section.map_or(Self::None, |section| {
            secret(text(section, "/authType").unwrap_or("bearer"), section, "/authSecretRef")
        })
    }

    /// The fields of the handler's section that say so.
    fn fields(&self, handler: &str) -> Vec<(&'static str, Value)> {
        match self {
            Self::None => Vec::new(),
            Self::Secret { kind, .. } => {
                vec![("authType", (*kind).into()), ("authTokenPath", format!("{TOOL_SECRETS_MOUNT}/{handler}").into())]
            }
            // A bearer token to the backend, whoever issued it.
            Self::ServiceAccount { .. } => vec![
                ("authType", "bearer".into()),
                ("authTokenPath", format!("{TOOL_TOKENS_MOUNT}/{handler}/token").into()),
            ],
            Self::WorkloadIdentity(identity) => {
                let part = |pointer| text(identity, pointer).unwrap_or_default().into();
                vec![
                    ("authType", "workloadIdentity".into()),
                    ("authCloud", part("/cloud")),
                    ("authAudience", part("/audience")),
                    ("authHeader", text(identity, "/header").unwrap_or("Authorization").into()),
                ]
            }
        }
    }
}

fn handlers_of(registry: &Object) -> &[Value] {
    registry.at("/spec").map(|spec| list(spec, "/handlers")).unwrap_or_default()
}

fn name(handler: &Value) -> &str {
    text(handler, "/name").unwrap_or_default()
}

fn check_auth(handler: &Value) -> Result<(), RenderError> {
    let auth = Auth::of(handler);
    let unsupported = |why| Err(RenderError::ToolAuthUnsupported { handler: name(handler).to_owned(), why });
    if matches!(auth, Auth::None) {
        return Ok(());
    }
    if text(handler, "/mcpConfig/transport") == Some("stdio") {
        return unsupported("a stdio MCP server takes no credentials; use the transport sse or streamable-http");
    }
    if matches!(auth, Auth::WorkloadIdentity(_)) && !matches!(text(handler, "/type"), Some("http" | "grpc")) {
        return unsupported("workloadIdentity is only possible for handlers of the types http and grpc");
    }
    Ok(())
}

/// Where the handler's backend is; `None` leaves the handler out. A client handler has no backend.
fn endpoint(registry: &Object, handler: &Value) -> Option<String> {
    if text(handler, "/type") == Some("client") {
        return Some(String::new());
    }
    let discovered = registry.at("/status").map(|status| list(status, "/discoveredTools")).unwrap_or_default();
    let mut ours = discovered.iter().filter(|tool| text(tool, "/handlerName") == text(handler, "/name")).peekable();
    if ours.peek().is_some() {
        let available = ours.find(|tool| text(tool, "/status") == Some("Available"))?;
        return text(available, "/endpoint").map(str::to_owned);
    }
    let pointers: &[&str] = match text(handler, "/type")? {
        "http" => &["/httpConfig/endpoint", "/httpConfig/urlTemplate"],
        "grpc" => &["/grpcConfig/endpoint"],
        "mcp" => &["/mcpConfig/endpoint", "/mcpConfig/command"],
        "openapi" => &["/openAPIConfig/baseURL", "/openAPIConfig/specURL"],
        _ => &[],
    };
    pointers.iter().find_map(|pointer| text(handler, pointer)).map(str::to_owned)
}

fn entry(handler: &Value, endpoint: &str) -> Result<Value, RenderError> {
    let kind = text(handler, "/type").unwrap_or_default();
    let mut entry = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry.insert(key.to_owned(), value);
        }
    };
    add("name", Some(name(handler).into()));
    add("type", Some(kind.into()));
    add("endpoint", Some(endpoint).filter(|endpoint| !endpoint.is_empty()).map(Value::from));
    add("timeout", text(handler, "/timeout").map(Value::from));
    match kind {
        "http" => {
            add("tool", tool(handler));
            add("httpConfig", http_section(handler, endpoint)?);
        }
        "grpc" => {
            add("tool", tool(handler));
            add("grpcConfig", grpc_section(handler, endpoint)?);
        }
        "mcp" => add("mcpConfig", mcp_section(handler)?),
        "openapi" => add("openAPIConfig", openapi_section(handler)?),
        "client" => {
            add("tool", tool(handler));
            let fields = ["consentMessage", "categories"];
            add("clientConfig", present(handler, "/clientConfig").map(|section| copied(section, &fields).into()));
        }
        _ => {}
    }
    Ok(entry.into())
}

fn tool(handler: &Value) -> Option<Value> {
    let tool = present(handler, "/tool")?;
    let mut definition = copied(tool, &["name", "description", "outputSchema"]);
    // An empty schema is one; it must not disappear.
    definition.insert("inputSchema".into(), tool.get("inputSchema").cloned().unwrap_or_else(|| json!({})));
    Some(definition.into())
}

fn http_section(handler: &Value, endpoint: &str) -> Result<Option<Value>, RenderError> {
    let Some(section) = present(handler, "/httpConfig") else { return Ok(None) };
    let fields = [
        "method",
        "headers",
        "contentType",
        "queryParams",
        "headerParams",
        "staticQuery",
        "staticBody",
        "bodyMapping",
        "responseMapping",
        "redact",
        "urlTemplate",
    ];
    let mut rendered = copied(section, &fields);
    rendered.insert("endpoint".into(), endpoint.into());
    finish(handler, section, rendered, http_retries).map(Some)
}

fn grpc_section(handler: &Value, endpoint: &str) -> Result<Option<Value>, RenderError> {
    let Some(section) = present(handler, "/grpcConfig") else { return Ok(None) };
    let mut rendered = copied(section, &["tls", "tlsCertPath", "tlsKeyPath", "tlsCAPath", "tlsInsecureSkipVerify"]);
    rendered.insert("endpoint".into(), endpoint.into());
    finish(handler, section, rendered, grpc_retries).map(Some)
}

fn mcp_section(handler: &Value) -> Result<Option<Value>, RenderError> {
    let Some(section) = present(handler, "/mcpConfig") else { return Ok(None) };
    let mut rendered = copied(section, &["transport", "endpoint", "command", "args", "workDir", "env"]);
    if let Some(filter) = present(section, "/toolFilter") {
        rendered.insert("toolFilter".into(), copied(filter, &["allowlist", "blocklist"]).into());
    }
    finish(handler, section, rendered, |_, policy| Ok(policy)).map(Some)
}

fn openapi_section(handler: &Value) -> Result<Option<Value>, RenderError> {
    let Some(section) = present(handler, "/openAPIConfig") else { return Ok(None) };
    let rendered = copied(section, &["specURL", "baseURL", "operationFilter", "headers"]);
    finish(handler, section, rendered, http_retries).map(Some)
}

/// Adds what all sections have: the credentials, and the retry policy with what its protocol adds.
fn finish(
    handler: &Value,
    section: &Value,
    mut rendered: Map<String, Value>,
    protocol: impl FnOnce(&Value, Map<String, Value>) -> Result<Map<String, Value>, String>,
) -> Result<Value, RenderError> {
    rendered.extend(Auth::of(handler).fields(name(handler)).into_iter().map(|(key, value)| (key.to_owned(), value)));
    if let Some(policy) = present(section, "/retryPolicy") {
        let policy = retries(policy)
            .and_then(|common| protocol(policy, common))
            .map_err(|why| RenderError::ToolInvalid { handler: name(handler).to_owned(), why })?;
        rendered.insert("retryPolicy".into(), policy.into());
    }
    Ok(rendered.into())
}

fn retries(policy: &Value) -> Result<Map<String, Value>, String> {
    let first = text(policy, "/initialBackoff").unwrap_or("100ms");
    let longest = text(policy, "/maxBackoff").unwrap_or("30s");
    let [parsed_first, parsed_longest] = [first, longest].map(|text| parse_duration(text).map_err(|e| e.to_string()));
    if parsed_longest? < parsed_first? {
        return Err(format!("retryPolicy.maxBackoff {longest} is shorter than initialBackoff {first}"));
    }
    let factor = text(policy, "/backoffMultiplier").unwrap_or("2.0");
    let factor = factor
        .parse()
        .ok()
        .filter(|factor: &f64| *factor >= 1.0 && factor.is_finite())
        .ok_or_else(|| format!("retryPolicy.backoffMultiplier {factor:?} is no number of 1 or more"))?;
    let mut common = copied(policy, &["maxAttempts"]);
    common.insert("initialBackoff".into(), first.into());
    common.insert("backoffMultiplier".into(), factor.into());
    common.insert("maxBackoff".into(), longest.into());
    Ok(common)
}

fn http_retries(policy: &Value, mut common: Map<String, Value>) -> Result<Map<String, Value>, String> {
    // An empty list switches retries by status off; only an absent one is the default.
    common.insert("retryOn".into(), present(policy, "/retryOn").cloned().unwrap_or_else(|| json!(RETRIED_STATUSES)));
    for switch in ["retryOnNetworkError", "respectRetryAfter"] {
        let value = present(policy, &format!("/{switch}")).cloned().unwrap_or(Value::Bool(true));
        common.insert(switch.into(), value);
    }
    Ok(common)
}

fn grpc_retries(policy: &Value, mut common: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let codes = present(policy, "/retryableStatusCodes").cloned().unwrap_or_else(|| json!(RETRIED_CODES));
    let unknown = codes
        .as_array()
        .and_then(|codes| codes.iter().find(|code| !code.as_str().is_some_and(|code| GRPC_CODES.contains(&code))));
    if let Some(code) = unknown {
        return Err(format!("retryPolicy.retryableStatusCodes has {code}, which is no gRPC status code"));
    }
    common.insert("retryableStatusCodes".into(), codes);
    Ok(common)
}

/// The fields of `source` that say something.
fn copied(source: &Value, fields: &[&str]) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|field| {
            let value = present(source, &format!("/{field}"))?;
            let is_empty = match value {
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(entries) => entries.is_empty() && *field != "outputSchema" && *field != "staticBody",
                _ => false,
            };
            (!is_empty).then(|| ((*field).to_owned(), value.clone()))
        })
        .collect()
}
