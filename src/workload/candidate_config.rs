//! The ConfigMap that tells the candidate's pods which providers they use instead of the spec's.

use serde_json::{Value, json};

use super::json::{list, object, text};
use super::pod::owned_labels;
use super::render::owned;
use super::{Effective, RenderError, Track};
use crate::api::names::candidate_config;
use crate::object::{Kind, Object};

/// The ConfigMap `<agent>-canary-config` with the candidate's effective provider references; `None` where there are none,
/// because to the runtime an empty list and a file that is not there are the same.
///
/// # Errors
/// [`RenderError::NotInCluster`].
pub fn render_candidate_config(agent: &Object) -> Result<Option<Object>, RenderError> {
    let references: Vec<Value> = Effective::of(agent, Track::Candidate).providers.iter().map(reference).collect();
    if references.is_empty() {
        return Ok(None);
    }
    let mut labels = owned_labels(agent.name());
    labels.insert("omnia.altairalabs.ai/component".into(), "canary-override".into());
    let mut config = owned(agent, Kind::CONFIG_MAP, candidate_config(agent.name()), labels)?;
    let content = json!({"providerRefs": references});
    config.set(&["data"], json!({"override.json": content.to_string()}));
    Ok(Some(config))
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
