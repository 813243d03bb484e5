//! AgentRuntimes: what their schema cannot say.

use crate::api::duration::parse_duration;
use crate::api::names::{PROGRESS_DEADLINE_ANNOTATION, candidate_deployment};
use crate::api::{AgentRuntime, Pause, Rollout, Step, TrafficMode};
use crate::object::Object;

use super::diagnostic::Problem;
use super::names::{self, MAX_LABEL};
use super::node::{Content, Node, shorten};
use super::prompt_pack::why_no_version;
use super::validate::Finding;

/// What is wrong, or surely not meant, about the AgentRuntime `object`, whose document is `root`.
pub(super) fn check(object: &Object, root: &Node) -> Vec<Finding> {
    let mut check = Check { root, findings: Vec::new() };
    check.names(object);
    check.facades();
    check.references(object);
    if let Some(deadline) = object.annotation(PROGRESS_DEADLINE_ANNOTATION)
        && let Err(error) = parse_duration(deadline)
    {
        let field = format!("metadata.annotations[{PROGRESS_DEADLINE_ANNOTATION}]");
        check.report(Problem::InvalidField, &field, error.to_string(), None);
    }
    match AgentRuntime::read(object) {
        Ok(agent) => {
            if let Some(rollout) = &agent.rollout {
                check.steps(&agent, rollout);
            }
        }
        Err(errors) => {
            for error in errors {
                check.report(Problem::InvalidField, &error.path, error.why, None);
            }
        }
    }
    check.findings
}

/// Adds what the loader knows beyond the schema, leaving out what the schema has already said about the same field
/// or a part of it.
pub(super) fn merge(findings: &mut Vec<Finding>, more: Vec<Finding>) {
    let overlaps = |a: &str, b: &str| {
        a == b
            || a.strip_prefix(b).is_some_and(|rest| rest.starts_with(['.', '[']))
            || b.strip_prefix(a).is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let said: Vec<String> =
        findings.iter().filter(|f| f.problem != Problem::Suspicious).map(|f| f.field.clone()).collect();
    findings.extend(more.into_iter().filter(|finding| {
        matches!(finding.problem, Problem::Unsupported) || !said.iter().any(|field| overlaps(field, &finding.field))
    }));
}

struct Check<'a> {
    root: &'a Node,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn report(&mut self, problem: Problem, field: &str, message: String, hint: Option<&str>) {
        self.findings.push(Finding {
            at: self.root.locate(field),
            problem,
            field: field.to_owned(),
            message,
            hint: hint.map(str::to_owned),
        });
    }

    fn warn(&mut self, field: &str, message: String, hint: &str) {
        self.report(Problem::Suspicious, field, message, Some(hint));
    }

    /// The agent's name is also that of its Service and, with a suffix, of the candidate's Deployment and its labels.
    fn names(&mut self, object: &Object) {
        let name = object.name();
        if let Some(why) = names::why_no_label(name) {
            self.report(
                Problem::InvalidField,
                "metadata.name",
                format!("{} cannot name the agent's Service: {why}", shorten(name)),
                None,
            );
            return;
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            self.warn(
                "metadata.name",
                format!("many clusters refuse a Service whose name begins with a digit, and {name:?} would be one"),
                "begin it with a letter",
            );
        }
        let candidate = candidate_deployment(name);
        if object.at("/spec/rollout").is_some() && candidate.len() > MAX_LABEL {
            let most = MAX_LABEL - (candidate.len() - name.len());
            self.report(
                Problem::InvalidField,
                "metadata.name",
                format!(
                    "an agent with a rollout may have a name of at most {most} characters, and this one has {}",
                    name.len()
                ),
                Some(&format!("the candidate's Deployment is called {candidate:?}")),
            );
        }
    }

    /// The rules about facades that the CRD states in CEL.
    fn facades(&mut self) {
        let Some(spec) = self.root.get("spec") else { return };
        let mode = spec.text("mode").unwrap_or("agent");
        let is_function = mode == "function";
        for key in ["inputSchema", "outputSchema"] {
            if is_function && spec.get(key).is_none() {
                self.report(
                    Problem::MissingField,
                    &format!("spec.{key}"),
                    "it is required with `mode: function`".into(),
                    None,
                );
            }
        }
        for key in ["inputSchema", "outputSchema", "outputFormat"] {
            if !is_function && spec.get(key).is_some() {
                self.report(Problem::InvalidField, &format!("spec.{key}"), "it needs `mode: function`".into(), None);
            }
        }
        let Some(Content::List(facades)) = spec.get("facades").map(|node| &node.content) else { return };
        // The schema allows four; what comes after it has already been told.
        let facades = &facades[..facades.len().min(8)];
        let types: Vec<&str> = facades.iter().map(|facade| facade.text("type").unwrap_or("websocket")).collect();
        for (i, kind) in types.iter().enumerate() {
            let path = format!("spec.facades[{i}].type");
            let allowed = if is_function { ["rest", "mcp", ""] } else { ["websocket", "a2a", "custom"] };
            if types[..i].contains(kind) {
                self.report(Problem::InvalidField, &path, format!("there are two facades of the type {kind}"), None);
            } else if ["websocket", "a2a", "rest", "mcp", "custom"].contains(kind) && !allowed.contains(kind) {
                let allowed = allowed.iter().filter(|kind| !kind.is_empty()).copied().collect::<Vec<_>>().join(", ");
                self.report(
                    Problem::InvalidField,
                    &path,
                    format!("`mode: {mode}` allows only {allowed}, found {kind}"),
                    None,
                );
            }
            if *kind == "custom" && facades[i].text("image").is_none_or(str::is_empty) {
                self.report(
                    Problem::MissingField,
                    &format!("spec.facades[{i}].image"),
                    "a facade of the type custom needs an image".into(),
                    None,
                );
            }
        }
        if is_function && types.iter().filter(|kind| **kind == "rest").count() != 1 {
            self.report(
                Problem::InvalidField,
                "spec.facades",
                "`mode: function` needs exactly one facade of the type rest".into(),
                None,
            );
        }
    }

    fn references(&mut self, object: &Object) {
        for path in ["spec.promptPackRef", "spec.rollout.candidate.promptPackRef"] {
            let pointer = format!("/{}/version", path.replace('.', "/"));
            if let Some(version) = object.text(&pointer).filter(|version| !version.is_empty())
                && let Some(why) = why_no_version(version)
            {
                self.warn(
                    &format!("{path}.version"),
                    format!("{} is no semantic version: {why}", shorten(version)),
                    "only a PromptPack with exactly this text as its version would match",
                );
            }
        }
        for path in ["spec.toolRegistryRef", "spec.rollout.candidate.toolRegistryRef"] {
            let pointer = format!("/{}/namespace", path.replace('.', "/"));
            if let Some(namespace) = object.text(&pointer)
                && !namespace.is_empty()
                && namespace != object.namespace()
            {
                self.warn(
                    &format!("{path}.namespace"),
                    format!("a ToolRegistry of another namespace ({namespace}) cannot be used"),
                    "leave it out",
                );
            }
        }
    }

    fn steps(&mut self, agent: &AgentRuntime, rollout: &Rollout) {
        const PATH: &str = "spec.rollout.steps";
        let weights: Vec<(usize, u32)> = rollout
            .steps
            .iter()
            .enumerate()
            .filter_map(|(i, step)| match step {
                Step::SetWeight(weight) => Some((i, weight.percent())),
                Step::Pause(_) | Step::Analysis { .. } => None,
            })
            .collect();
        let last = rollout.steps.len().saturating_sub(1);
        // The experiment of the documentation: a fixed split, promoted by hand. It is meant as it stands.
        let is_experiment = matches!(rollout.steps.last(), Some(Step::Pause(Pause::Indefinite)));
        if let (false, Some((i, weight))) = (is_experiment, weights.last())
            && *weight < 100
        {
            self.warn(
                &format!("{PATH}[{i}].setWeight"),
                format!("the last weight is {weight}: promotion takes the rest of the traffic in one go"),
                "end with `setWeight: 100` to see the candidate under full load first",
            );
        }
        if matches!(rollout.steps.last(), Some(Step::Pause(Pause::For(_)))) {
            self.warn(
                &format!("{PATH}[{last}].pause"),
                "the last step is a pause: after it the candidate is promoted, whatever happened".into(),
                "put a step behind it, or leave the duration out to promote by hand",
            );
        }
        let Some(routing) = &rollout.traffic_routing else {
            if let Some((i, _)) = weights.first() {
                self.warn(
                    &format!("{PATH}[{i}].setWeight"),
                    "without `trafficRouting` no weight is applied".into(),
                    "add `trafficRouting: {}`",
                );
            }
            return;
        };
        if agent.is_autoscaled
            || !matches!(routing.mode, None | Some(TrafficMode::ReplicaWeighted))
            || routing.has_istio
        {
            return;
        }
        let total = agent.total_replicas().max(1);
        for (i, weight) in weights {
            let (candidate, delivered) = split_replicas(total, weight);
            if delivered != weight {
                let pods = if total == 1 { "the one pod".to_owned() } else { format!("{total} pods") };
                self.warn(
                    &format!("{PATH}[{i}].setWeight"),
                    format!("{pods} cannot split traffic at {weight}: the candidate gets {candidate} of {total}, a weight of {delivered}"),
                    "choose a weight that the pods can express, or more `spec.runtime.replicas`",
                );
            }
        }
    }
}

/// How many of `total` pods the candidate gets at `weight` percent, and the weight that this delivers, rounded half
/// away from zero (reference 5.4).
fn split_replicas(total: u32, weight: u32) -> (u32, u32) {
    if total < 2 {
        return if weight >= 50 { (total, 100) } else { (0, 0) };
    }
    let (total, weight) = (u64::from(total), u64::from(weight));
    let candidate = ((2 * total * weight + 100) / 200).min(total);
    let delivered = (200 * candidate + total) / (2 * total);
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (narrow(candidate), narrow(delivered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_split_as_the_engine_splits_them() {
        for (total, weight, expected) in [
            (1, 49, (0, 0)),
            (1, 50, (1, 100)),
            (2, 24, (0, 0)),
            (2, 25, (1, 50)),
            (3, 17, (1, 33)),
            (3, 50, (2, 67)),
            (4, 12, (0, 0)),
            (4, 13, (1, 25)),
            (4, 88, (4, 100)),
            (8, 10, (1, 13)),
            (10, 100, (10, 100)),
        ] {
            assert_eq!(split_replicas(total, weight), expected, "{total} pods at {weight}");
        }
    }
}
