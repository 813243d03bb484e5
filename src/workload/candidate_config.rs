//! The ConfigMap that tells the candidate's pods which providers they use instead of the spec's.

use serde_json::{Map, Value, json};

use super::json::{list, object, text};
use super::pod::owned_labels;
use super::render::owned;
use super::{Effective, RenderError, Track};
use crate::api::names::candidate_config;
use crate::object::{Kind, Object};

/// The ConfigMap `<agent>-canary-config` with the candidate's effective provider references.
///
/// # Errors
/// [`RenderError::NotInCluster`].
pub fn render_candidate_config(agent: &Object) -> Result<Object, RenderError> {
    let mut labels = owned_labels(agent.name());
    labels.insert("omnia.altairalabs.ai/component".into(), "canary-override".into());
    let mut config = owned(agent, Kind::CONFIG_MAP, candidate_config(agent.name()), labels)?;
    let references: Vec<Value> = Effective::of(agent, Track::Candidate).providers.iter().map(reference).collect();
    let mut content = Map::new();
    if !references.is_empty() {
        content.insert("providerRefs".into(), references.into());
    }
    config.set(&["data"], json!({"override.json": Value::Object(content).to_string()}));
    Ok(config)
}

/// Only what the runtime reads.
fn reference(reference: &Value) -> Value {
    let field = |pointer| text(reference, pointer).map(Value::from);
    let capabilities = list(reference, "/requiredCapabilities");
    object([
        ("name", field("/name")),
        (
            "providerRef",
            Some(object([("name", field("/providerRef/name")), ("namespace", field("/providerRef/namespace"))])),
        ),
        ("role", field("/role")),
        ("requiredCapabilities", (!capabilities.is_empty()).then(|| capabilities.to_vec().into())),
    ])
}
