//! A digest of what pods depend on but their template does not show: what they read when they start.
//!
//! It goes into an annotation of the template, so that a change replaces the pods. Invariant: its value for given
//! inputs never changes between versions of Serin, or an upgrade would replace every pod (a test holds it).

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::json::{list, present, text};
use super::{Effective, ResolvedProvider};
use crate::object::Object;

/// Hex digits that are kept, enough to tell apart what one agent ever runs.
const DIGITS: usize = 16;

/// Fields of a Provider that pods read when they start, in the order in which they are hashed.
const PROVIDER_FIELDS: [&str; 10] = [
    "type",
    "model",
    "baseURL",
    "defaults/temperature",
    "defaults/topP",
    "defaults/maxTokens",
    "defaults/contextWindow",
    "pricing/inputCostPer1K",
    "pricing/outputCostPer1K",
    "pricing/cachedCostPer1K",
];

/// The digest, 16 hex digits, or `None` where there is no pack, no registry and no provider.
///
/// Beyond the reference's inputs, the provider references themselves are in it (name, object, role,
/// capabilities): pods read them once, so a candidate with other references must be other pods, also where the
/// Provider objects could not be read.
pub fn config_hash(
    namespace: &str,
    pack: Option<&Object>,
    effective: &Effective<'_>,
    tool_registry: Option<&Object>,
    providers: &[ResolvedProvider<'_>],
) -> Option<String> {
    if pack.is_none() && effective.tool_registry_ref.is_none() && effective.providers.is_empty() {
        return None;
    }
    let mut records = Records(Sha256::new());
    if let Some(pack) = pack {
        records.add("promptPack.name", pack.name());
        records.add("promptPack.generation", &pack.generation().to_string());
    }
    match (tool_registry, effective.tool_registry()) {
        (Some(registry), _) => {
            records.add("toolRegistry.name", registry.name());
            records.add("toolRegistry.generation", &registry.generation().to_string());
        }
        (None, Some(name)) => records.add("toolRegistry.name", name),
        (None, None) => {}
    }
    let mut references: Vec<&Value> = effective.providers.iter().collect();
    references.sort_by_key(|reference| text(reference, "/name"));
    for reference in references {
        records.reference(namespace, reference);
        let name = text(reference, "/name").unwrap_or_default();
        if let Some(provider) = providers.iter().find(|provider| provider.name == name) {
            records.provider(provider);
        }
    }
    let mut digest = String::new();
    for byte in records.0.finalize().iter().take(DIGITS / 2) {
        write!(digest, "{byte:02x}").expect("a String takes everything");
    }
    Some(digest)
}

/// Key and value, each ended by a NUL, so that no two sequences of records are the same bytes.
struct Records(Sha256);

impl Records {
    fn add(&mut self, key: &str, value: &str) {
        for part in [key, value] {
            self.0.update(part.as_bytes());
            self.0.update([0]);
        }
    }

    /// What the API server fills in is filled in here too, so that it makes no difference whether it has.
    fn reference(&mut self, namespace: &str, reference: &Value) {
        self.add("name", text(reference, "/name").unwrap_or_default());
        self.add("providerRef.name", text(reference, "/providerRef/name").unwrap_or_default());
        self.add("providerRef.namespace", text(reference, "/providerRef/namespace").unwrap_or(namespace));
        self.add("role", text(reference, "/role").unwrap_or("llm"));
        let mut capabilities: Vec<&str> =
            list(reference, "/requiredCapabilities").iter().filter_map(Value::as_str).collect();
        capabilities.sort_unstable();
        self.add("requiredCapabilities", &capabilities.join(","));
    }

    fn provider(&mut self, provider: &ResolvedProvider<'_>) {
        let spec = provider.object.and_then(|object| object.at("/spec")).unwrap_or(&Value::Null);
        for field in PROVIDER_FIELDS {
            if let Some(value) = present(spec, &format!("/{field}")) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.add(&field.replace('/', "."), &value);
            }
        }
        if let Some(credential) = provider.credential {
            self.add("credential", credential.as_str());
        }
    }
}
