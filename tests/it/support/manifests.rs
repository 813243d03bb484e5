//! Manifests as people write them: with comments, in an order of their own.

use std::fmt::Write as _;

use super::site::AGENT;

/// The manifest of an agent.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// The pack version of the spec.
    pub(crate) version: String,
    /// The pack version of the candidate.
    pub(crate) candidate: Option<String>,
    pub(crate) replicas: u64,
    /// The items of `steps`, as flow mappings.
    pub(crate) steps: Vec<String>,
    pub(crate) rollback: &'static str,
    pub(crate) cooldown: &'static str,
    pub(crate) progress_deadline: &'static str,
}

impl Manifest {
    /// An agent on version 1.0.0 with four pods, whose candidates take these steps: `25` is a weight, `1s` a pause and
    /// `forever` one without an end.
    pub(crate) fn new(steps: &[&str]) -> Self {
        let step = |step: &&str| match *step {
            "forever" => "pause: {}".to_owned(),
            text if text.bytes().all(|byte| byte.is_ascii_digit()) => format!("setWeight: {text}"),
            text => format!("pause: {{ duration: {text} }}"),
        };
        Self {
            name: AGENT.to_owned(),
            version: "1.0.0".to_owned(),
            candidate: None,
            replicas: 4,
            steps: steps.iter().map(step).collect(),
            rollback: "automatic",
            cooldown: "1s",
            progress_deadline: "10m",
        }
    }

    /// With a candidate of this pack version.
    pub(crate) fn candidate(&self, version: &str) -> Self {
        Self { candidate: Some(version.to_owned()), ..self.clone() }
    }

    /// The text of the file.
    pub(crate) fn render(&self, namespace: &str) -> String {
        let Self { name, version, candidate, replicas, steps, rollback, cooldown, progress_deadline } = self;
        let mut rollout = String::new();
        for step in steps {
            let _ = writeln!(rollout, "      - {step}");
        }
        let candidate = candidate.as_ref().map_or_else(String::new, |version| {
            format!("    candidate:\n      promptPackRef:\n        name: pack\n        version: {version} # on trial\n")
        });
        format!(
            "# Owned by the team of the shop.\n\
             apiVersion: omnia.altairalabs.ai/v1alpha1\n\
             kind: AgentRuntime\n\
             metadata:\n\
             \x20 name: {name}\n\
             \x20 namespace: {namespace}\n\
             \x20 annotations:\n\
             \x20   serin.dev/progress-deadline: {progress_deadline}\n\
             spec:\n\
             \x20 facades:\n\
             \x20   - type: websocket\n\
             \x20     port: 8080\n\
             \x20 promptPackRef:\n\
             \x20   name: pack\n\
             \x20   version: {version} # what everybody talks to\n\
             \x20 runtime:\n\
             \x20   replicas: {replicas}\n\
             \x20 rollout:\n\
             {candidate}\
             \x20   trafficRouting:\n\
             \x20     mode: replicaWeighted\n\
             \x20   steps:\n\
             {rollout}\
             \x20   rollback:\n\
             \x20     mode: {rollback}\n\
             \x20     cooldown: {cooldown}\n"
        )
    }

    /// The same as an object, for those who apply without git.
    pub(crate) fn object(&self, namespace: &str) -> serde_json::Value {
        serde_saphyr::from_str(&self.render(namespace)).expect("YAML")
    }
}

/// A version of the pack `pack` with its ConfigMap.
pub(crate) fn pack(namespace: &str, version: &str) -> String {
    let name = format!("pack-{}", version.replace('.', "-"));
    format!(
        "apiVersion: v1\n\
         kind: ConfigMap\n\
         metadata:\n\
         \x20 name: {name}\n\
         \x20 namespace: {namespace}\n\
         data:\n\
         \x20 pack.json: |\n\
         \x20   {{\"id\": \"pack\", \"version\": \"{version}\", \"prompts\": {{\"default\": {{\"system_template\": \"Be brief.\"}}}}}}\n\
         ---\n\
         apiVersion: omnia.altairalabs.ai/v1alpha1\n\
         kind: PromptPack\n\
         metadata:\n\
         \x20 name: {name}\n\
         \x20 namespace: {namespace}\n\
         \x20 labels:\n\
         \x20   omnia.altairalabs.ai/promptpack: pack\n\
         spec:\n\
         \x20 packName: pack\n\
         \x20 version: {version}\n\
         \x20 source:\n\
         \x20   type: configmap\n\
         \x20   configMapRef:\n\
         \x20     name: {name}\n"
    )
}
