//! Volumes, and where the containers mount them.

use serde_json::{Value, json};

use super::json::{list, object, text};
use super::tools::Credentials;
use super::{Effective, Inputs, Track};
use crate::api::names;
use crate::api::prompt_pack::PromptPack;

/// Folder of the prompt pack.
pub(super) const PACK_MOUNT: &str = "/etc/omnia/pack";
/// Folder of the tools configuration.
pub(super) const TOOLS_MOUNT: &str = "/etc/omnia/tools";
/// The tools configuration in it.
pub(super) const TOOLS_FILE: &str = "tools.yaml";
/// Folder in which the runtime puts the pack together with its tools; the root of its file system is read-only.
pub(super) const PACK_CACHE_MOUNT: &str = "/var/run/omnia/pack-cache";
/// Folder of credentials of tools, a file for each handler.
pub(super) const TOOL_SECRETS_MOUNT: &str = "/etc/omnia/tool-secrets";
/// Folder of ServiceAccount tokens for tools, a folder for each handler.
pub(super) const TOOL_TOKENS_MOUNT: &str = "/var/run/secrets/omnia/tool-sa";
/// Folder of the workspace's skills.
pub(super) const CONTENT_MOUNT: &str = "/workspace-content";
/// Folder of the token for session-api.
pub(super) const SESSION_TOKEN_MOUNT: &str = "/var/run/secrets/omnia/session-api";
/// Folder of the candidate's override.
const OVERRIDE_MOUNT: &str = "/etc/omnia/canary";

/// How long a ServiceAccount token for a tool is valid; the kubelet renews it before.
const TOOL_TOKEN_SECONDS: u32 = 3600;

/// The volumes of a pod and the mounts of its containers.
pub(super) struct Volumes {
    /// The volumes.
    pub(super) volumes: Vec<Value>,
    /// Mounts of the facade container.
    pub(super) facade: Vec<Value>,
    /// Mounts of the runtime container, and of the only one of an A2A agent.
    pub(super) runtime: Vec<Value>,
}

/// Which containers mount a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Runtime,
    Both,
}

impl Volumes {
    pub(super) fn of(inputs: &Inputs<'_>) -> Self {
        let mut all = Self { volumes: Vec::new(), facade: Vec::new(), runtime: Vec::new() };
        let spec = inputs.spec();
        let agent = inputs.agent.name();
        let pack = PromptPack::read(inputs.pack);
        if let Some(name) = &pack.config_map {
            all.read_only(To::Both, "promptpack-config", json!({"configMap": {"name": name}}), PACK_MOUNT);
        }
        if let Some(registry) = inputs.tool_registry {
            let name = match inputs.track {
                Track::Stable => names::tools_config(agent),
                Track::Candidate => names::candidate_tools_config(agent),
            };
            all.read_only(To::Runtime, "tools-config", json!({"configMap": {"name": name}}), TOOLS_MOUNT);
            all.writable("pack-cache", json!({"emptyDir": {}}), PACK_CACHE_MOUNT);
            all.tool_credentials(&Credentials::of(registry));
        }
        if inputs.settings.workspace_content && pack.has_skills {
            let claim = format!("workspace-{}-content", inputs.agent.namespace());
            let source = json!({"persistentVolumeClaim": {"claimName": claim, "readOnly": true}});
            all.read_only(To::Runtime, "workspace-content", source, CONTENT_MOUNT);
        }
        all.media(spec);
        if let Some(token) = &inputs.settings.session_api_token {
            let token = object([
                ("path", Some("token".into())),
                ("audience", Some(token.audience.clone()).filter(|audience| !audience.is_empty()).map(Value::from)),
                ("expirationSeconds", Some(token.expiration_seconds.into())),
            ]);
            let source = json!({"projected": {"sources": [{"serviceAccountToken": token}]}});
            all.read_only(To::Both, "session-api-token", source, SESSION_TOKEN_MOUNT);
        }
        let has_providers = !Effective::of(inputs.agent, inputs.track).providers.is_empty();
        if inputs.track == Track::Candidate && has_providers {
            let source = json!({"configMap": {"name": names::candidate_config(agent)}});
            all.read_only(To::Both, "canary-override", source, OVERRIDE_MOUNT);
        }
        all.volumes.extend_from_slice(list(spec, "/runtime/volumes"));
        all.runtime.extend_from_slice(list(spec, "/runtime/volumeMounts"));
        all.volumes.extend_from_slice(list(spec, "/podOverrides/extraVolumes"));
        for mounts in [&mut all.facade, &mut all.runtime] {
            mounts.extend_from_slice(list(spec, "/podOverrides/extraVolumeMounts"));
        }
        all
    }

    fn tool_credentials(&mut self, credentials: &Credentials<'_>) {
        if !credentials.secrets.is_empty() {
            let sources: Vec<Value> = credentials
                .secrets
                .iter()
                .map(|secret| {
                    json!({"secret": {"name": secret.secret, "items": [{"key": secret.key, "path": secret.handler}]}})
                })
                .collect();
            let source = json!({"projected": {"sources": sources}});
            self.read_only(To::Runtime, "tool-secrets", source, TOOL_SECRETS_MOUNT);
        }
        if !credentials.tokens.is_empty() {
            let sources: Vec<Value> = credentials
                .tokens
                .iter()
                .map(|token| {
                    json!({"serviceAccountToken": {
                        "path": format!("{}/token", token.handler),
                        "audience": token.audience,
                        "expirationSeconds": TOOL_TOKEN_SECONDS,
                    }})
                })
                .collect();
            let source = json!({"projected": {"sources": sources}});
            self.read_only(To::Runtime, "tool-sa-tokens", source, TOOL_TOKENS_MOUNT);
        }
    }

    fn media(&mut self, spec: &Value) {
        if text(spec, "/media/storage/type") != Some("local") {
            return;
        }
        let local = |field| text(spec, &format!("/media/storage/local/{field}"));
        if let (Some(claim), Some(path)) = (local("volumeClaim"), local("basePath")) {
            self.volumes.push(json!({"name": "omnia-media-local", "persistentVolumeClaim": {"claimName": claim}}));
            for mounts in [&mut self.facade, &mut self.runtime] {
                mounts.push(json!({"name": "omnia-media-local", "mountPath": path}));
            }
        }
    }

    fn read_only(&mut self, to: To, name: &str, source: Value, path: &str) {
        self.volume(name, source);
        let mount = json!({"name": name, "mountPath": path, "readOnly": true});
        if to == To::Both {
            self.facade.push(mount.clone());
        }
        self.runtime.push(mount);
    }

    fn writable(&mut self, name: &str, source: Value, path: &str) {
        self.volume(name, source);
        self.runtime.push(json!({"name": name, "mountPath": path}));
    }

    fn volume(&mut self, name: &str, mut source: Value) {
        source["name"] = name.into();
        self.volumes.push(source);
    }
}
