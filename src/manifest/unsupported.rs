//! What the API has and this version of Serin does not do yet.
//!
//! Refused rather than ignored: an agent whose analysis is skipped would be promoted unmeasured. Only the object
//! that asks for it is refused.

use super::diagnostic::Problem;
use super::node::{Content, Node};
use super::validate::Finding;

/// What the AgentRuntime `root` asks for and cannot have.
pub(super) fn find_unsupported(root: &Node) -> Vec<Finding> {
    let Some(rollout) = root.get("spec").and_then(|spec| spec.get("rollout")) else { return Vec::new() };
    let mut found = Vec::new();
    let mut refuse = |field: String, what: &str, hint: &str| {
        found.push(Finding {
            at: root.locate(&field),
            problem: Problem::Unsupported,
            field,
            message: format!("{what} not supported by this version of Serin"),
            hint: Some(hint.to_owned()),
        });
    };
    const REPLICAS: &str =
        "`trafficRouting: {}` and `mode: replicaWeighted` deliver weights by the number of pods, without a mesh";
    if let Some(routing) = rollout.get("trafficRouting") {
        if let Some(mode @ ("mesh" | "external")) = routing.text("mode") {
            refuse("spec.rollout.trafficRouting.mode".to_owned(), &format!("the mode `{mode}` is"), REPLICAS);
        }
        for block in ["istio", "mesh"] {
            if is_set(routing, block) {
                refuse(format!("spec.rollout.trafficRouting.{block}"), "routing by Istio is", REPLICAS);
            }
        }
    }
    if is_set(rollout, "stickySession") {
        refuse("spec.rollout.stickySession".to_owned(), "sticky sessions are", "they need routing by Istio; remove it");
    }
    if is_set(rollout, "trigger") {
        refuse(
            "spec.rollout.trigger".to_owned(),
            "rollouts triggered by a release channel are",
            "start a rollout by a commit that sets `spec.rollout.candidate`",
        );
    }
    if let Some(Content::List(steps)) = rollout.get("steps").map(|steps| &steps.content) {
        for i in (0..steps.len()).filter(|i| is_set(&steps[*i], "analysis")) {
            refuse(
                format!("spec.rollout.steps[{i}].analysis"),
                "analysis steps are",
                "use a `pause` and withdraw the candidate if it does not hold up",
            );
        }
    }
    found
}

fn is_set(node: &Node, key: &str) -> bool {
    node.get(key).is_some_and(|value| !matches!(value.content, Content::Null))
}
