//! The environment of the containers, in the order in which the images' documentation lists it (reference 1c).

use serde_json::{Map, Value, json};

use super::clients::{Client, Place, clients};
use super::json::{list, present, text};
use super::volumes::{CONTENT_MOUNT, PACK_CACHE_MOUNT, PACK_MOUNT, SESSION_TOKEN_MOUNT, TOOLS_FILE, TOOLS_MOUNT};
use super::{Facades, Inputs, Track};

/// Port of the facade's probes and metrics.
pub(super) const FACADE_HEALTH_PORT: u16 = 8081;
/// Port on which the runtime serves the facade.
pub(super) const GRPC_PORT: u16 = 9000;
/// Port of the runtime's probes and metrics.
pub(super) const RUNTIME_HEALTH_PORT: u16 = 9001;

/// The variable that sessions and metrics take their variant from.
const VARIANT: &str = "OMNIA_VARIANT";

/// Annotation on an AgentRuntime: its runtime answers without a model, for tests.
const MOCK_PROVIDER_ANNOTATION: &str = "omnia.altairalabs.ai/mock-provider";

/// The environment of the facade container.
pub(super) fn facade(inputs: &Inputs<'_>, facades: &Facades<'_>) -> Vec<Value> {
    let mut env = Environment::default();
    env.identity();
    env.value("OMNIA_FACADE_PORT", facades.port());
    env.value("OMNIA_HEALTH_PORT", FACADE_HEALTH_PORT);
    env.value(VARIANT, inputs.track.variant());
    env.optional("OMNIA_WORKSPACE_NAME", inputs.workspace().map(|workspace| workspace.name.as_str()));
    env.value("OMNIA_HANDLER_MODE", facades.handler());
    if facades.handler() == "runtime" {
        env.value("OMNIA_RUNTIME_ADDRESS", format!("localhost:{GRPC_PORT}"));
    }
    env.tracing(inputs);
    env.optional("OMNIA_MGMT_PLANE_JWKS_URL", inputs.settings.management_jwks_url.as_deref());
    env.field("POD_IP", "status.podIP");
    env.redis("OMNIA_ROUTE_REDIS_URL", inputs);
    env.user(list(facades.primary(), "/extraEnv"));
    env.media(inputs);
    env.optional("OMNIA_PROMPTPACK_VERSION", inputs.pack.text("/spec/version"));
    if let Some(port) = facades.second_a2a_port() {
        env.value("OMNIA_A2A_ENABLED", true);
        env.value("OMNIA_A2A_PORT", port);
        env.a2a(facades);
    }
    if let Some(port) = facades.mcp_port() {
        env.value("OMNIA_MCP_ENABLED", true);
        env.value("OMNIA_MCP_PORT", port);
    }
    env.every_container(inputs);
    env.finish_tagged(inputs.track)
}

/// The environment of the runtime container.
pub(super) fn runtime(inputs: &Inputs<'_>, facades: &Facades<'_>) -> Vec<Value> {
    let spec = inputs.spec();
    let mut env = Environment::default();
    env.identity();
    env.value("OMNIA_PROMPTPACK_PATH", format!("{PACK_MOUNT}/pack.json"));
    env.value("OMNIA_PROMPT_NAME", "default");
    env.value("OMNIA_GRPC_PORT", GRPC_PORT);
    env.value("OMNIA_HEALTH_PORT", RUNTIME_HEALTH_PORT);
    if inputs.tool_registry.is_some() {
        env.value("OMNIA_TOOLS_CONFIG_PATH", format!("{TOOLS_MOUNT}/{TOOLS_FILE}"));
        env.value("OMNIA_PACK_CACHE_DIR", PACK_CACHE_MOUNT);
    }
    let workspace = inputs.workspace();
    env.optional("OMNIA_WORKSPACE_NAME", workspace.map(|workspace| workspace.name.as_str()));
    if present(spec, "/memory/enabled") == Some(&Value::Bool(true)) {
        env.optional("OMNIA_WORKSPACE_UID", workspace.and_then(|workspace| workspace.uid.as_deref()));
    }
    if inputs.agent.annotation(MOCK_PROVIDER_ANNOTATION) == Some("true") {
        env.value("OMNIA_MOCK_PROVIDER", true);
    }
    env.tracing(inputs);
    if inputs.settings.workspace_content {
        let manifest = format!("{CONTENT_MOUNT}/manifests/{}.json", inputs.pack.name());
        env.value("OMNIA_PROMPTPACK_MANIFEST_PATH", manifest);
    }
    env.optional("OMNIA_PROMPTPACK_VERSION", inputs.pack.text("/spec/version"));
    env.redis("OMNIA_CONTEXT_URL", inputs);
    env.user(list(spec, "/runtime/extraEnv"));
    env.value("OMNIA_FACADE_PORT", facades.port());
    env.media(inputs);
    env.every_container(inputs);
    env.finish()
}

/// The environment of the one container of an agent that serves only A2A.
pub(super) fn standalone_a2a(inputs: &Inputs<'_>, facades: &Facades<'_>) -> Vec<Value> {
    let mut env = Environment::default();
    env.identity();
    env.value("OMNIA_FACADE_TYPE", "a2a");
    env.value("OMNIA_FACADE_PORT", facades.port());
    // A folder here, where the runtime container has a file.
    env.value("OMNIA_PROMPTPACK_PATH", PACK_MOUNT);
    env.value(VARIANT, inputs.track.variant());
    env.value("OMNIA_HANDLER_MODE", facades.handler());
    env.a2a(facades);
    env.tracing(inputs);
    env.a2a_clients(inputs);
    env.user(list(facades.primary(), "/extraEnv"));
    env.optional("OMNIA_PROMPTPACK_VERSION", inputs.pack.text("/spec/version"));
    env.every_container(inputs);
    env.finish_tagged(inputs.track)
}

#[derive(Default)]
struct Environment(Vec<Value>);

impl Environment {
    fn value(&mut self, name: &str, value: impl ToString) {
        self.0.push(json!({"name": name, "value": value.to_string()}));
    }

    fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.value(name, value);
        }
    }

    fn field(&mut self, name: &str, path: &str) {
        self.0.push(json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    }

    fn secret(&mut self, name: &str, secret: &str, key: &str) {
        self.0.push(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}));
    }

    fn user(&mut self, entries: &[Value]) {
        self.0.extend(entries.iter().cloned());
    }

    /// By the label and not as a text, so that the pods of both tracks are the same agent to themselves.
    fn identity(&mut self) {
        self.field("OMNIA_AGENT_NAME", "metadata.labels['app.kubernetes.io/instance']");
        self.field("OMNIA_NAMESPACE", "metadata.namespace");
    }

    fn tracing(&mut self, inputs: &Inputs<'_>) {
        if let Some(endpoint) = inputs.settings.tracing_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
            self.value("OMNIA_TRACING_ENABLED", true);
            self.value("OMNIA_TRACING_ENDPOINT", endpoint);
            self.value("OMNIA_TRACING_INSECURE", true);
        }
    }

    fn redis(&mut self, name: &str, inputs: &Inputs<'_>) {
        let spec = inputs.spec();
        if text(spec, "/context/type") == Some("redis")
            && let Some(secret) = text(spec, "/context/storeRef/name")
        {
            self.secret(name, secret, "url");
        }
    }

    fn media(&mut self, inputs: &Inputs<'_>) {
        let Some(storage) = present(inputs.spec(), "/media/storage") else { return };
        let Some(kind) = text(storage, "/type").filter(|kind| *kind != "none") else { return };
        self.value("OMNIA_MEDIA_STORAGE_TYPE", kind);
        self.from(
            storage,
            &[
                ("OMNIA_MEDIA_MAX_FILE_SIZE", "/maxFileSizeBytes"),
                ("OMNIA_MEDIA_DEFAULT_TTL", "/defaultTTL"),
                ("OMNIA_MEDIA_UPLOAD_URL_TTL", "/uploadURLTTL"),
                ("OMNIA_MEDIA_DOWNLOAD_URL_TTL", "/downloadURLTTL"),
            ],
        );
        let secret = text(storage, "/secretRef/name");
        match kind {
            "local" => self.from(storage, &[("OMNIA_MEDIA_STORAGE_PATH", "/local/basePath")]),
            "s3" => {
                self.from(
                    storage,
                    &[
                        ("OMNIA_MEDIA_S3_BUCKET", "/s3/bucket"),
                        ("OMNIA_MEDIA_S3_REGION", "/s3/region"),
                        ("OMNIA_MEDIA_S3_PREFIX", "/s3/prefix"),
                        ("OMNIA_MEDIA_S3_ENDPOINT", "/s3/endpoint"),
                    ],
                );
                if let Some(secret) = secret {
                    self.secret("AWS_ACCESS_KEY_ID", secret, "AWS_ACCESS_KEY_ID");
                    self.secret("AWS_SECRET_ACCESS_KEY", secret, "AWS_SECRET_ACCESS_KEY");
                }
            }
            "gcs" => self
                .from(storage, &[("OMNIA_MEDIA_GCS_BUCKET", "/gcs/bucket"), ("OMNIA_MEDIA_GCS_PREFIX", "/gcs/prefix")]),
            "azure" => {
                self.from(
                    storage,
                    &[
                        ("OMNIA_MEDIA_AZURE_ACCOUNT", "/azure/account"),
                        ("OMNIA_MEDIA_AZURE_CONTAINER", "/azure/container"),
                        ("OMNIA_MEDIA_AZURE_PREFIX", "/azure/prefix"),
                    ],
                );
                if let Some(secret) = secret {
                    self.secret("OMNIA_MEDIA_AZURE_KEY", secret, "AZURE_ACCOUNT_KEY");
                }
            }
            _ => {}
        }
    }

    fn a2a(&mut self, facades: &Facades<'_>) {
        let Some(a2a) = facades.a2a() else { return };
        self.from(a2a, &[("OMNIA_A2A_TASK_TTL", "/taskTTL"), ("OMNIA_A2A_CONVERSATION_TTL", "/conversationTTL")]);
        let Some(store) = present(a2a, "/taskStore") else { return };
        self.value("OMNIA_A2A_TASK_STORE_TYPE", text(store, "/type").unwrap_or("memory"));
        match text(store, "/redisSecretRef/name") {
            Some(secret) => self.secret("OMNIA_A2A_REDIS_URL", secret, "url"),
            None => self.from(store, &[("OMNIA_A2A_REDIS_URL", "/redisURL")]),
        }
    }

    fn a2a_clients(&mut self, inputs: &Inputs<'_>) {
        let mut resolved = Vec::new();
        let mut tokens = Vec::new();
        for client in clients(inputs.agent) {
            let Client { name, place, manifest } = client;
            let url = match place {
                Place::Agent(peer) => inputs.a2a_peers.get(&peer).map(String::as_str),
                Place::Url(url) => Some(url),
            };
            let Some(url) = url else { continue };
            let mut entry = Map::new();
            entry.insert("name".into(), name.into());
            entry.insert("url".into(), url.into());
            if present(manifest, "/exposeAsTools") == Some(&Value::Bool(true)) {
                entry.insert("exposeAsTools".into(), true.into());
            }
            if let Some(secret) = text(manifest, "/authentication/secretRef/name") {
                let variable = format!("OMNIA_A2A_CLIENT_TOKEN_{}", variable_part(name));
                entry.insert("authTokenEnv".into(), variable.clone().into());
                tokens.push((variable, secret));
            }
            resolved.push(Value::Object(entry));
        }
        if !resolved.is_empty() {
            self.value("OMNIA_A2A_CLIENTS", Value::Array(resolved));
        }
        for (variable, secret) in tokens {
            self.secret(&variable, secret, "token");
        }
    }

    fn every_container(&mut self, inputs: &Inputs<'_>) {
        if inputs.settings.session_api_token.is_some() {
            self.value("SESSION_API_TOKEN_PATH", format!("{SESSION_TOKEN_MOUNT}/token"));
        }
        self.user(list(inputs.spec(), "/podOverrides/extraEnv"));
    }

    fn from(&mut self, source: &Value, variables: &[(&str, &str)]) {
        for (name, pointer) in variables {
            match present(source, pointer) {
                Some(Value::String(text)) => self.optional(name, Some(text)),
                Some(value) => self.value(name, value),
                None => {}
            }
        }
    }

    /// As [`Self::finish`]. A user may rename the variant of stable, but never let the candidate's sessions pass for
    /// another's: they are what it is judged by.
    fn finish_tagged(mut self, track: Track) -> Vec<Value> {
        if track == Track::Candidate {
            let mut is_ours = true;
            self.0.retain(|entry| text(entry, "/name") != Some(VARIANT) || std::mem::take(&mut is_ours));
        }
        self.finish()
    }

    /// Of several entries of one name the last one counts in a container, and server-side apply, which keys the list
    /// by name, takes only one.
    fn finish(self) -> Vec<Value> {
        let names: Vec<Option<String>> = self.0.iter().map(|entry| text(entry, "/name").map(str::to_owned)).collect();
        self.0
            .into_iter()
            .enumerate()
            .filter(|(i, _)| names[*i].is_none() || !names[i + 1..].contains(&names[*i]))
            .map(|(_, entry)| entry)
            .collect()
    }
}

fn variable_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
