//! Whether what a variant names is there: its pack, its providers, its tool registry (reference 3).
//!
//! Stable and candidate are each checked for their own: a candidate whose provider does not exist never starts.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{ProviderRef, prompt_pack};
use crate::object::Object;
use crate::rollout::variant::Variant;
use crate::rollout::world::World;

/// What a variant's names resolve to.
#[derive(Clone, Debug)]
pub struct References {
    /// The pack object.
    pub pack: Result<Arc<Object>, Missing>,
    /// The providers by the order of the variant; `None` each where the kind is not served.
    pub providers: Checked<Vec<(ProviderRef, Arc<Object>)>>,
    /// The tool registry, if the variant names one.
    pub registry: Checked<Option<Arc<Object>>>,
}

/// The outcome of a check.
#[derive(Clone, Debug)]
pub enum Checked<T> {
    /// All is there.
    Found(T),
    /// The cluster has no such kind: the names are passed through unchecked.
    NotServed,
    /// Something is not there, or cannot be used.
    Missing(Missing),
}

/// Why a name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Condition reason (reference 2.4).
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The objects that a variant can name: what a look-up depends on besides the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// As [`World::packs`].
    pub packs: Vec<Arc<Object>>,
    /// As [`World::providers`].
    pub providers: Option<Vec<Arc<Object>>>,
    /// As [`World::tool_registries`].
    pub tool_registries: Option<Vec<Arc<Object>>>,
}

impl Catalog {
    /// What can be named in `world`.
    pub fn of(world: &World) -> Self {
        let World { packs, providers, tool_registries, .. } = world;
        Self { packs: packs.clone(), providers: providers.clone(), tool_registries: tool_registries.clone() }
    }

    /// Whether this is what can be named in `world`.
    pub fn is_of(&self, world: &World) -> bool {
        let Self { packs, providers, tool_registries } = self;
        *packs == world.packs && *providers == world.providers && *tool_registries == world.tool_registries
    }
}

impl References {
    /// Looks up what `variant` of an agent in `namespace` names.
    pub fn resolve(catalog: &Catalog, namespace: &str, variant: &Variant) -> Self {
        Self {
            pack: pack(catalog, namespace, variant),
            providers: providers(catalog, namespace, variant),
            registry: registry(catalog, namespace, variant),
        }
    }

    /// What keeps this variant from being tried: the first thing that is missing.
    pub fn obstacle(&self) -> Option<&Missing> {
        let pack = self.pack.as_ref().err();
        pack.or(match &self.providers {
            Checked::Missing(missing) => Some(missing),
            Checked::Found(_) | Checked::NotServed => None,
        })
        .or(match &self.registry {
            Checked::Missing(missing) => Some(missing),
            Checked::Found(_) | Checked::NotServed => None,
        })
    }
}

fn pack(catalog: &Catalog, own: &str, variant: &Variant) -> Result<Arc<Object>, Missing> {
    let found = prompt_pack::resolve_pack(&catalog.packs, own, &variant.pack)
        .map_err(|error| Missing { reason: error.reason(), message: error.to_string() })?;
    // A pack that its own controller found to be broken must not be rolled out (reference 3.2, W22).
    match prompt_pack::PromptPack::read(found).rejected {
        Some(why) => Err(Missing { reason: "PromptPackInvalid", message: why }),
        None => Ok(Arc::clone(found)),
    }
}

fn providers(catalog: &Catalog, own: &str, variant: &Variant) -> Checked<Vec<(ProviderRef, Arc<Object>)>> {
    let Some(known) = &catalog.providers else {
        return if variant.providers.is_empty() { Checked::Found(Vec::new()) } else { Checked::NotServed };
    };
    let mut found = Vec::new();
    for reference in &variant.providers {
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        let missing = |reason, message| Checked::Missing(Missing { reason, message });
        let name = &reference.provider;
        let Some(provider) = known.iter().find(|p| p.name() == name && p.namespace() == namespace) else {
            return missing("ProviderNotFound", format!("Provider {namespace}/{name} is not there"));
        };
        if let Some(phase) = provider.text("/status/phase").filter(|phase| !phase.is_empty() && *phase != "Ready") {
            return missing("ProviderNotReady", format!("Provider {namespace}/{name} is in phase {phase}"));
        }
        let has = provider.text("/spec/role").unwrap_or("llm");
        let wants = reference.role.as_deref().unwrap_or("llm");
        if has != wants {
            let message = format!("Provider {namespace}/{name} has the role {has}, and {wants} is asked for");
            return missing("RoleMismatch", message);
        }
        let capabilities = provider.at("/spec/capabilities").and_then(Value::as_array);
        let lacking = reference
            .required_capabilities
            .iter()
            .find(|wanted| !capabilities.is_some_and(|list| list.iter().any(|c| c.as_str() == Some(wanted))));
        if let Some(lacking) = lacking {
            return missing("CapabilityMismatch", format!("Provider {namespace}/{name} cannot do {lacking}"));
        }
        found.push((reference.clone(), Arc::clone(provider)));
    }
    Checked::Found(found)
}

fn registry(catalog: &Catalog, own: &str, variant: &Variant) -> Checked<Option<Arc<Object>>> {
    let Some(reference) = &variant.registry else { return Checked::Found(None) };
    if reference.namespace.as_deref().is_some_and(|namespace| namespace != own) {
        return Checked::Missing(Missing {
            reason: "ToolRegistryCrossNamespace",
            message: format!("ToolRegistry {} must be in the agent's own namespace {own}", reference.name),
        });
    }
    let Some(known) = &catalog.tool_registries else { return Checked::NotServed };
    match known.iter().find(|registry| registry.name() == reference.name && registry.namespace() == own) {
        Some(registry) => Checked::Found(Some(Arc::clone(registry))),
        None => Checked::Missing(Missing {
            reason: "ToolRegistryNotFound",
            message: format!("ToolRegistry {own}/{} is not there", reference.name),
        }),
    }
}
