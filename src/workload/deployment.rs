//! The Deployment of a track.

use serde_json::{Value, json};

use super::json::object;
use super::pod::{pod_labels, render_template, selector_labels};
use super::render::owned;
use super::{Inputs, RenderError, Track};
use crate::api::names;
use crate::object::{Kind, Object};

/// The Deployment of the track.
///
/// # Errors
/// [`RenderError`], where the agent cannot run as it is described.
pub fn render_deployment(inputs: &Inputs<'_>) -> Result<Object, RenderError> {
    let agent = inputs.agent;
    let name = match inputs.track {
        Track::Stable => agent.name().to_owned(),
        Track::Candidate => names::candidate_deployment(agent.name()),
    };
    let labels = pod_labels(inputs);
    let mut deployment = owned(agent, Kind::DEPLOYMENT, name, labels.clone())?;
    deployment.set(&["metadata", "annotations", names::VARIANT_ANNOTATION], inputs.variant.as_str());
    let spec = object([
        ("replicas", inputs.replicas.map(Value::from)),
        ("progressDeadlineSeconds", inputs.progress_deadline_seconds.map(Value::from)),
        ("selector", Some(json!({"matchLabels": selector_labels(agent.name(), inputs.track)}))),
        ("template", Some(render_template(inputs, labels)?)),
    ]);
    deployment.set(&["spec"], spec);
    Ok(deployment)
}
