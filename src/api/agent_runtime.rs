//! AgentRuntime: the parts of `spec` that a rollout is about (seed "Rollout strategies"; reference 1a).

use jiff::SignedDuration;
use serde_json::Value;

use crate::api::duration::parse_duration;
use crate::ids::Weight;
use crate::object::Object;

/// A view of an AgentRuntime's rollout-relevant `spec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRuntime {
    /// `spec.promptPackRef`.
    pub prompt_pack_ref: PromptPackRef,
    /// `spec.providers`.
    pub providers: Vec<ProviderRef>,
    /// `spec.toolRegistryRef`.
    pub tool_registry_ref: Option<ToolRegistryRef>,
    /// `spec.runtime.replicas`; `None` where it is not set, which counts as 1.
    pub replicas: Option<u32>,
    /// Whether `spec.runtime.autoscaling.enabled`: the replica count is then not ours.
    pub is_autoscaled: bool,
    /// `spec.rollout`.
    pub rollout: Option<Rollout>,
}

/// Which version of a prompt pack: by version, by track, or neither (the stable track).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPackRef {
    /// The logical pack name (`PromptPack.spec.packName`), not an object name.
    pub name: String,
    /// One version; an empty one counts as unset.
    pub version: Option<String>,
    /// A release channel; never together with a version.
    pub track: Option<PackTrack>,
}

/// A release channel of prompt packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackTrack {
    /// Versions without a prerelease part.
    Stable,
    /// All versions.
    Prerelease,
}

impl PackTrack {
    /// The value in the manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Prerelease => "prerelease",
        }
    }
}

/// A provider under the name by which the agent knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderRef {
    /// The agent's name for it, such as `default`.
    pub name: String,
    /// Name of the Provider object.
    pub provider: String,
    /// Namespace of the Provider object; `None`: the agent's.
    pub namespace: Option<String>,
    /// What it is used for; `None`: `llm`.
    pub role: Option<String>,
    /// What it must be able to do.
    pub required_capabilities: Vec<String>,
}

/// A ToolRegistry by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRegistryRef {
    /// Its name.
    pub name: String,
    /// Its namespace; `None`: the agent's, which is also the only one allowed.
    pub namespace: Option<String>,
}

/// `spec.rollout`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The sparse override under trial.
    pub candidate: Option<Candidate>,
    /// The steps in order; at least one.
    pub steps: Vec<Step>,
    /// What happens when it does not hold up.
    pub rollback: Rollback,
    /// How weight reaches the pods; `None`: no weights are applied.
    pub traffic_routing: Option<TrafficRouting>,
    /// `trigger.promptPackChannel`.
    pub trigger: Option<PackTrack>,
    /// `stickySession.hashOn`, a header name.
    pub sticky_header: Option<String>,
}

/// `spec.rollout.candidate`: what is set overrides the spec, what is not is inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Replaces `spec.promptPackRef` as a whole.
    pub prompt_pack_ref: Option<PromptPackRef>,
    /// Replaces `spec.providers` as a whole; empty: no override.
    pub provider_refs: Vec<ProviderRef>,
    /// Replaces `spec.toolRegistryRef` as a whole.
    pub tool_registry_ref: Option<ToolRegistryRef>,
}

/// One step: exactly one of the three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets the candidate's share of traffic.
    SetWeight(Weight),
    /// Waits.
    Pause(Pause),
    /// Runs a RolloutAnalysis template of the agent's namespace.
    Analysis {
        /// Name of the template.
        template: String,
        /// Arguments that override the template's defaults.
        args: Vec<(String, String)>,
    },
}

/// How long a pause lasts, counted from when the step was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// This long.
    For(SignedDuration),
    /// Until somebody resumes it.
    Indefinite,
}

/// `spec.rollout.rollback`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// Whether Serin rolls back on its own.
    pub mode: RollbackMode,
    /// How long no rollout of the agent starts after a rollback. 5 minutes where the block is there without
    /// it, none where there is no block.
    pub cooldown: SignedDuration,
}

/// `spec.rollout.rollback.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackMode {
    /// Rolls back when an analysis fails or the progress deadline passes.
    Automatic,
    /// Never on its own; the default.
    Manual,
    /// As `manual`.
    Disabled,
}

/// `spec.rollout.trafficRouting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficRouting {
    /// The mode asked for; `None`: chosen by what the cluster has.
    pub mode: Option<TrafficMode>,
    /// Whether `istio` is set, which without a mode means `external`.
    pub has_istio: bool,
}

/// `spec.rollout.trafficRouting.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficMode {
    /// Serin owns the Istio objects.
    Mesh,
    /// The ratio of pods is the weight.
    ReplicaWeighted,
    /// Serin patches the user's Istio objects.
    External,
}

/// The default of `rollback.cooldown` where the `rollback` block exists (reference 1a).
const DEFAULT_COOLDOWN: SignedDuration = SignedDuration::from_mins(5);

/// A field of an object that cannot be used, with why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct FieldError {
    /// Where, such as `spec.rollout.steps[1]`.
    pub path: String,
    /// Why, and what to write instead.
    pub why: String,
}

impl AgentRuntime {
    /// Reads the view from an object.
    ///
    /// # Errors
    /// All fields that cannot be used, in the order of the manifest's schema.
    pub fn read(object: &Object) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new() };
        let spec = object.at("/spec").unwrap_or(&Value::Null);
        let view = Self {
            prompt_pack_ref: match spec.get("promptPackRef") {
                Some(value) => reader.pack_ref("spec.promptPackRef", value),
                None => {
                    reader.error("spec.promptPackRef", "it is required");
                    PromptPackRef { name: String::new(), version: None, track: None }
                }
            },
            providers: reader.provider_refs("spec.providers", spec.get("providers")),
            tool_registry_ref: reader.registry_ref("spec.toolRegistryRef", spec.get("toolRegistryRef")),
            replicas: spec.pointer("/runtime/replicas").filter(|v| !v.is_null()).and_then(|value| {
                let replicas = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| i32::try_from(*n).is_ok());
                if replicas.is_none() {
                    reader.error("spec.runtime.replicas", "it must be a whole number of 0 or more");
                }
                replicas
            }),
            is_autoscaled: spec.pointer("/runtime/autoscaling/enabled").and_then(Value::as_bool).unwrap_or(false),
            rollout: present(spec.get("rollout")).map(|rollout| reader.rollout(rollout)),
        };
        if view.rollout.as_ref().is_some_and(|rollout| rollout.trigger.is_some())
            && (view.prompt_pack_ref.version.is_none() || view.prompt_pack_ref.track.is_some())
        {
            reader.error(
                "spec.rollout.trigger",
                "a trigger requires a version-pinned spec.promptPackRef and is mutually exclusive with promptPackRef.track",
            );
        }
        if reader.errors.is_empty() { Ok(view) } else { Err(reader.errors) }
    }

    /// The pods that the agent is meant to have in all: `spec.runtime.replicas`, or 1 (reference 5.4).
    pub fn total_replicas(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn optional_text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn error(&mut self, path: impl Into<String>, why: impl Into<String>) {
        self.errors.push(FieldError { path: path.into(), why: why.into() });
    }

    fn name(&mut self, path: &str, value: Option<&Value>) -> String {
        optional_text(value).unwrap_or_else(|| {
            self.error(path, "it must be a text that is not empty");
            String::new()
        })
    }

    fn track(&mut self, path: &str, value: Option<&Value>) -> Option<PackTrack> {
        match optional_text(value)?.as_str() {
            "stable" => Some(PackTrack::Stable),
            "prerelease" => Some(PackTrack::Prerelease),
            other => {
                self.error(path, format!("{other:?} is none of stable, prerelease"));
                None
            }
        }
    }

    fn pack_ref(&mut self, path: &str, value: &Value) -> PromptPackRef {
        let reference = PromptPackRef {
            name: self.name(&format!("{path}.name"), value.get("name")),
            version: optional_text(value.get("version")),
            track: self.track(&format!("{path}.track"), value.get("track")),
        };
        if present(value.get("version")).is_some() && present(value.get("track")).is_some() {
            self.error(path, "version and track are mutually exclusive");
        }
        reference
    }

    fn provider_refs(&mut self, path: &str, value: Option<&Value>) -> Vec<ProviderRef> {
        let Some(value) = present(value) else { return Vec::new() };
        let Some(list) = value.as_array() else {
            self.error(path, "it must be a list");
            return Vec::new();
        };
        let mut references: Vec<ProviderRef> = Vec::new();
        for (i, item) in list.iter().enumerate() {
            let at = format!("{path}[{i}]");
            let reference = ProviderRef {
                name: self.name(&format!("{at}.name"), item.get("name")),
                provider: self.name(&format!("{at}.providerRef.name"), item.pointer("/providerRef/name")),
                namespace: optional_text(item.pointer("/providerRef/namespace")),
                role: optional_text(item.get("role")),
                required_capabilities: item
                    .get("requiredCapabilities")
                    .and_then(Value::as_array)
                    .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                    .unwrap_or_default(),
            };
            if references.iter().any(|other| other.name == reference.name) {
                self.error(&at, format!("the name {:?} is there twice", reference.name));
            }
            references.push(reference);
        }
        references
    }

    fn registry_ref(&mut self, path: &str, value: Option<&Value>) -> Option<ToolRegistryRef> {
        let value = present(value)?;
        Some(ToolRegistryRef {
            name: self.name(&format!("{path}.name"), value.get("name")),
            namespace: optional_text(value.get("namespace")),
        })
    }

    fn rollout(&mut self, value: &Value) -> Rollout {
        let path = "spec.rollout";
        let candidate = present(value.get("candidate")).map(|candidate| Candidate {
            prompt_pack_ref: present(candidate.get("promptPackRef"))
                .map(|reference| self.pack_ref(&format!("{path}.candidate.promptPackRef"), reference)),
            provider_refs: self.provider_refs(&format!("{path}.candidate.providerRefs"), candidate.get("providerRefs")),
            tool_registry_ref: self
                .registry_ref(&format!("{path}.candidate.toolRegistryRef"), candidate.get("toolRegistryRef")),
        });
        let steps = value.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if steps.is_empty() {
            self.error(format!("{path}.steps"), "at least one step is required");
        }
        let steps: Vec<Step> =
            steps.iter().enumerate().filter_map(|(i, step)| self.step(&format!("{path}.steps[{i}]"), step)).collect();
        Rollout {
            candidate,
            steps,
            rollback: self.rollback(&format!("{path}.rollback"), present(value.get("rollback"))),
            traffic_routing: present(value.get("trafficRouting")).map(|routing| TrafficRouting {
                mode: self.traffic_mode(&format!("{path}.trafficRouting.mode"), routing.get("mode")),
                has_istio: present(routing.get("istio")).is_some(),
            }),
            trigger: present(value.get("trigger")).and_then(|trigger| {
                let at = format!("{path}.trigger.promptPackChannel");
                let track = self.track(&at, trigger.get("promptPackChannel"));
                if track.is_none() && optional_text(trigger.get("promptPackChannel")).is_none() {
                    self.error(at, "it is required: stable or prerelease");
                }
                track
            }),
            sticky_header: present(value.get("stickySession"))
                .map(|sticky| self.name(&format!("{path}.stickySession.hashOn"), sticky.get("hashOn"))),
        }
    }

    fn step(&mut self, path: &str, value: &Value) -> Option<Step> {
        let keys = ["setWeight", "pause", "analysis"];
        let set: Vec<&str> = keys.into_iter().filter(|key| present(value.get(*key)).is_some()).collect();
        let [key] = set[..] else {
            let found = if set.is_empty() {
                "none of them is set".to_owned()
            } else {
                format!("{} are set", set.join(" and "))
            };
            self.error(path, format!("a step is exactly one of setWeight, pause, analysis; {found}"));
            return None;
        };
        let body = value.get(key)?;
        match key {
            "setWeight" => {
                let weight = body.as_u64().and_then(Weight::new);
                if weight.is_none() {
                    self.error(format!("{path}.setWeight"), format!("a weight must be 0 to 100, got {body}"));
                }
                weight.map(Step::SetWeight)
            }
            "pause" => match present(body.get("duration")) {
                None => Some(Step::Pause(Pause::Indefinite)),
                Some(duration) => self
                    .duration(&format!("{path}.pause.duration"), duration)
                    .map(|duration| Step::Pause(Pause::For(duration))),
            },
            _ => Some(Step::Analysis {
                template: self.name(&format!("{path}.analysis.templateName"), body.get("templateName")),
                args: body
                    .get("args")
                    .and_then(Value::as_array)
                    .map(|args| {
                        args.iter()
                            .map(|arg| {
                                let part = |key| optional_text(arg.get(key)).unwrap_or_default();
                                (part("name"), part("value"))
                            })
                            .collect()
                    })
                    .unwrap_or_default(),
            }),
        }
    }

    fn duration(&mut self, path: &str, value: &Value) -> Option<SignedDuration> {
        let Some(text) = value.as_str() else {
            self.error(path, format!("a duration is a text such as \"5m\", got {value}"));
            return None;
        };
        parse_duration(text).map_err(|error| self.error(path, error.to_string())).ok()
    }

    fn rollback(&mut self, path: &str, value: Option<&Value>) -> Rollback {
        let Some(value) = value else {
            return Rollback { mode: RollbackMode::Manual, cooldown: SignedDuration::ZERO };
        };
        let mode = match optional_text(value.get("mode")).as_deref() {
            None | Some("manual") => RollbackMode::Manual,
            Some("automatic") => RollbackMode::Automatic,
            Some("disabled") => RollbackMode::Disabled,
            Some(other) => {
                self.error(format!("{path}.mode"), format!("{other:?} is none of automatic, manual, disabled"));
                RollbackMode::Manual
            }
        };
        let cooldown = match present(value.get("cooldown")) {
            None => DEFAULT_COOLDOWN,
            Some(cooldown) => self.duration(&format!("{path}.cooldown"), cooldown).unwrap_or(DEFAULT_COOLDOWN),
        };
        Rollback { mode, cooldown }
    }

    fn traffic_mode(&mut self, path: &str, value: Option<&Value>) -> Option<TrafficMode> {
        match optional_text(value)?.as_str() {
            "mesh" => Some(TrafficMode::Mesh),
            "replicaWeighted" => Some(TrafficMode::ReplicaWeighted),
            "external" => Some(TrafficMode::External),
            other => {
                self.error(path, format!("{other:?} is none of mesh, replicaWeighted, external"));
                None
            }
        }
    }
}
