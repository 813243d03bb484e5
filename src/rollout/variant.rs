//! What a track runs, by content: pack and version, providers, tool registry.
//!
//! Two variants are the same exactly if their digests are equal. That one comparison decides whether a
//! rollout is needed, whether a candidate was changed in flight, whether it was rejected before, and whether the
//! spec has become what the candidate was.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::api::prompt_pack;
use crate::api::{AgentRuntime, Candidate, PromptPackRef, ProviderRef, ToolRegistryRef};
use crate::ids::Digest;
use crate::object::Object;

/// What a track runs, with everything that a sparse candidate inherits filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Which pack.
    pub pack: PromptPackRef,
    /// The pack's version: as pinned, or as the track resolves now; `None` where it resolves to nothing.
    pub version: Option<String>,
    /// The providers.
    pub providers: Vec<ProviderRef>,
    /// The tool registry.
    pub registry: Option<ToolRegistryRef>,
    /// Identity by content.
    pub digest: Digest,
}

impl Variant {
    /// What `spec` says.
    pub fn of_spec(agent: &AgentRuntime, namespace: &str, packs: &[&Object]) -> Self {
        Self::new(
            agent.prompt_pack_ref.clone(),
            agent.providers.clone(),
            agent.tool_registry_ref.clone(),
            namespace,
            packs,
        )
    }

    /// What the candidate says over what `spec` says (seed: the candidate is a sparse override).
    pub fn of_candidate(agent: &AgentRuntime, candidate: &Candidate, namespace: &str, packs: &[&Object]) -> Self {
        let pack = candidate.prompt_pack_ref.clone().unwrap_or_else(|| agent.prompt_pack_ref.clone());
        let providers =
            if candidate.provider_refs.is_empty() { agent.providers.clone() } else { candidate.provider_refs.clone() };
        let registry = candidate.tool_registry_ref.clone().or_else(|| agent.tool_registry_ref.clone());
        Self::new(pack, providers, registry, namespace, packs)
    }

    fn new(
        pack: PromptPackRef,
        providers: Vec<ProviderRef>,
        registry: Option<ToolRegistryRef>,
        namespace: &str,
        packs: &[&Object],
    ) -> Self {
        let version = match &pack.version {
            Some(version) => Some(version.clone()),
            None => prompt_pack::resolve_pack(packs, namespace, &pack)
                .ok()
                .and_then(|pack| pack.text("/spec/version").map(str::to_owned)),
        };
        let digest = digest(&pack, version.as_deref(), &providers, registry.as_ref(), namespace);
        Self { pack, version, providers, registry, digest }
    }

    /// For people: `support-pack 2.0.0`.
    pub fn title(&self) -> String {
        match (&self.version, self.pack.track) {
            (Some(version), _) => format!("{} {version}", self.pack.name),
            (None, Some(track)) => format!("{} ({} track)", self.pack.name, track.as_str()),
            (None, None) => self.pack.name.clone(),
        }
    }
}

fn digest(
    pack: &PromptPackRef,
    version: Option<&str>,
    providers: &[ProviderRef],
    registry: Option<&ToolRegistryRef>,
    namespace: &str,
) -> Digest {
    // The order of providers, a spelled-out default and a leading `v` of a version change no content.
    let mut providers: Vec<Value> = providers
        .iter()
        .map(|p| {
            let mut capabilities = p.required_capabilities.clone();
            capabilities.sort();
            json!([
                p.name,
                p.provider,
                p.namespace.as_deref().unwrap_or(namespace),
                p.role.as_deref().unwrap_or("llm"),
                capabilities
            ])
        })
        .collect();
    providers.sort_by_key(ToString::to_string);
    let content = json!({
        "pack": pack.name,
        "version": version.map(canonical_version),
        "track": if version.is_none() { pack.track.map(|track| track.as_str()) } else { None },
        "providers": providers,
        "registry": registry.map(|r| json!([r.name, r.namespace.as_deref().unwrap_or(namespace)])),
    });
    content_digest(&content)
}

/// Versions of equal precedence are one version (reference 3.2): no `v`, no build metadata. What is no version stays
/// as it is written.
fn canonical_version(text: &str) -> String {
    prompt_pack::parse_version(text).map_or_else(
        |_| text.to_owned(),
        |version| semver::Version { build: semver::BuildMetadata::EMPTY, ..version }.to_string(),
    )
}

/// The first 16 hex digits of the SHA-256 of a JSON value: object keys are in order, so equal values have equal
/// digests.
pub(crate) fn content_digest(content: &Value) -> Digest {
    let hash = Sha256::digest(content.to_string().as_bytes());
    Digest::new(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>())
}
