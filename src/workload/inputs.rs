//! What the rendering is made from: the agent, what its references resolved to, and the settings.

use std::collections::BTreeMap;

use crate::api::names::CANARY;
use crate::ids::{AgentKey, Digest};
use crate::object::Object;

/// The two variants that an agent may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// What the spec says.
    Stable,
    /// The spec with `spec.rollout.candidate` over it.
    Candidate,
}

impl Track {
    /// The value of the label `omnia.altairalabs.ai/track`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Candidate => CANARY,
        }
    }

    /// The value of `OMNIA_VARIANT`, which sessions and metrics carry.
    pub fn variant(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Candidate => "candidate",
        }
    }
}

/// Everything that the objects of one track depend on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The AgentRuntime, as the cluster has it.
    pub agent: &'a Object,
    /// Which variant of it.
    pub track: Track,
    /// The PromptPack that this track's reference resolved to.
    pub pack: &'a Object,
    /// What the references of this track's effective provider list resolved to, in any order.
    pub providers: &'a [ResolvedProvider<'a>],
    /// The ToolRegistry that this track's reference resolved to; `None` where there is no reference, or no such
    /// object: the agent then runs without tools.
    pub tool_registry: Option<&'a Object>,
    /// Identity of this variant's content; it goes into an annotation of the Deployment. Not into its pods:
    /// whatever makes a difference to them is in their template, and a digest that is computed in another way by
    /// the next version of Serin must not replace every pod.
    pub variant: &'a Digest,
    /// How many pods; `None` leaves the field to an autoscaler.
    pub replicas: Option<u32>,
    /// How long pods may take to become available, in seconds; `None` leaves it to Kubernetes (600).
    pub progress_deadline_seconds: Option<u32>,
    /// Name of the waypoint that splits the Service's traffic. Only where the mesh does the routing.
    pub waypoint: Option<&'a str>,
    /// Where the AgentRuntimes that the agent's A2A clients name are reached. A client of one without a URL is left out.
    pub a2a_peers: &'a BTreeMap<AgentKey, String>,
    /// What the settings say.
    pub settings: &'a WorkloadSettings,
}

/// One reference of a provider list, and what it resolved to.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedProvider<'a> {
    /// The agent's name for it.
    pub name: &'a str,
    /// The Provider; `None` where it was not checked.
    pub object: Option<&'a Object>,
    /// Digest of its credential Secret's content, where that can be read: a changed credential replaces the pods.
    pub credential: Option<&'a Digest>,
}

/// What the settings say about workloads. The default is the reference operator's without flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSettings {
    /// Facade image of agents that name none; `None`: `ghcr.io/altairalabs/omnia-facade:latest`.
    pub facade_image: Option<String>,
    /// When the facade image is pulled; `None`: `IfNotPresent`.
    pub facade_pull_policy: Option<String>,
    /// Runtime image by framework type, for agents that name none. `promptkit` has
    /// `ghcr.io/altairalabs/omnia-runtime:latest` where it is not in here.
    pub framework_images: BTreeMap<String, String>,
    /// When the runtime image is pulled; `None`: `IfNotPresent`.
    pub framework_pull_policy: Option<String>,
    /// OTLP endpoint that the pods send traces to; `None`: no tracing.
    pub tracing_endpoint: Option<String>,
    /// Where the facade finds the keys that sign management-plane tokens; `None`: it serves no such callers.
    pub management_jwks_url: Option<String>,
    /// The token with which the pods call session-api; `None`: they call it without one.
    pub session_api_token: Option<SessionApiToken>,
    /// Whether the volume claim `workspace-<namespace>-content` with the skills of packs exists.
    pub workspace_content: bool,
    /// The Workspace that owns a namespace, by namespace.
    pub workspaces: BTreeMap<String, Workspace>,
}

/// A ServiceAccount token for session-api, mounted into all containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionApiToken {
    /// The audience that it is bound to; empty: the cluster's own.
    pub audience: String,
    /// How long it is valid, in seconds; the kubelet renews it before.
    pub expiration_seconds: u32,
}

impl Default for SessionApiToken {
    fn default() -> Self {
        Self { audience: String::new(), expiration_seconds: 3600 }
    }
}

/// What the Workspace that owns a namespace gives to the agents in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Its name.
    pub name: String,
    /// Its uid, which scopes cross-session memory.
    pub uid: Option<String>,
    /// The ServiceAccount of pods whose agent names none; `None`: `<agent>-facade`.
    pub service_account: Option<String>,
    /// Labels of the pods; the agent's own win.
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of the pods; the agent's own win.
    pub pod_annotations: BTreeMap<String, String>,
}

impl Inputs<'_> {
    /// `spec` of the agent.
    pub(super) fn spec(&self) -> &serde_json::Value {
        self.agent.at("/spec").unwrap_or(&serde_json::Value::Null)
    }

    /// The Workspace that owns the agent's namespace.
    pub(super) fn workspace(&self) -> Option<&Workspace> {
        self.settings.workspaces.get(self.agent.namespace())
    }
}
