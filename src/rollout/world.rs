//! Everything that was observed about one agent: the only input of the engine besides the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::{AgentKey, CommitSha, Digest, RolloutId, SourceName};
use crate::object::{Kind, Object, ObjectKey};
use crate::workload::WorkloadSettings;

/// One agent and all that bears on it.
#[derive(Clone, Debug)]
pub struct World {
    /// The AgentRuntime as it lives.
    pub agent: Arc<Object>,
    /// Where its spec comes from.
    pub origin: Origin,
    /// The PromptPacks of its namespace.
    pub packs: Vec<Arc<Object>>,
    /// The Providers that its spec or candidate name; `None`: the cluster serves no such kind.
    pub providers: Option<Vec<Arc<Object>>>,
    /// Digests of the credentials of these Providers, by Secret; one that is not there, or that Serin may not read, is not
    /// in it.
    pub credentials: BTreeMap<ObjectKey, Digest>,
    /// The other agents that its A2A clients name.
    pub peers: Vec<Arc<Object>>,
    /// The ToolRegistries of its namespace that its spec or candidate name; `None`: the cluster serves no such kind.
    pub tool_registries: Option<Vec<Arc<Object>>>,
    /// Whatever lives under the names that the agent uses, whoever made it.
    pub live: Vec<Arc<Object>>,
    /// Whether the Deployments among these are as they are now; otherwise as they were when their watch ceased to work, and
    /// what has become of their pods since is not known.
    pub deployments_are_current: bool,
    /// Those of its objects that the server refused last time.
    pub refused: BTreeMap<ObjectKey, Refused>,
    /// Those of its objects that the server refused to delete last time.
    pub undeletable: BTreeMap<ObjectKey, Refused>,
    /// What is known of the course of the rollout in flight, a line each, for people. Never decides anything.
    pub story: Vec<String>,
    /// Images and other settings of the workloads.
    pub settings: Arc<WorkloadSettings>,
}

impl World {
    /// The live object under `name` in the agent's namespace.
    pub fn live(&self, kind: &Kind, name: &str) -> Option<&Arc<Object>> {
        self.live.iter().find(|object| object.name() == name && object.is_of(kind))
    }

    /// The other agent `agent`, if it is there.
    pub fn peer(&self, agent: &AgentKey) -> Option<&Arc<Object>> {
        self.peers.iter().find(|peer| peer.namespace() == agent.namespace && peer.name() == agent.name)
    }

    /// The live object that `key` names.
    pub fn live_at(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.live.iter().find(|object| object.is_named_by(key))
    }
}

/// A write about an object that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The server's words.
    pub why: String,
    /// Whether it is time to try again: the server may have learned better.
    pub is_due: bool,
}

/// Where an AgentRuntime's spec comes from: decides where a decision goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Somebody applied it: decisions are patches of the object.
    ByHand,
    /// From a repository: decisions are commits.
    Git(GitView),
}

/// What git has to say about the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitView {
    /// The source.
    pub source: SourceName,
    /// The commit whose manifest the live spec equals; `None` while it is not applied (invalid, or refused).
    pub synced: Option<CommitSha>,
    /// Those commits of the record that `synced` has behind it.
    pub contains: BTreeSet<CommitSha>,
    /// The manifest at `synced`: what a decision is about, before the API server added defaults.
    pub manifest: Option<Arc<Object>>,
    /// Whether the manifest can be followed. Never decides anything: people see it at the agent.
    pub standing: ManifestStanding,
    /// What became of the decision that was handed to the publisher last.
    pub publish: Publish,
}

/// How the manifest of an agent stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestStanding {
    /// Git was not read yet: what was said of it last still holds.
    Unread,
    /// Nothing is wrong with it.
    Fine,
    /// It is not followed, because it cannot be used as it stands: what is wrong, with file and line.
    Invalid(String),
    /// It is not followed, because the server does not take it, or another source has the agent: their words.
    Refused(String),
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publish {
    /// None is under way.
    Idle,
    /// The source follows a tag or a commit: a decision is for a person to write down.
    ReadOnly,
    /// It waits for its next try.
    Pending {
        /// About which rollout.
        rollout: RolloutId,
        /// Why the last try did not reach the branch; empty before the first.
        why: String,
    },
    /// It is being pushed, or was, without an answer: it may be in git by now.
    Pushing {
        /// About which rollout.
        rollout: RolloutId,
        /// Why there is no answer; empty before there could be one.
        why: String,
    },
    /// It cannot be written as the manifest stands: a person has to look. Tried again on the next commit.
    Blocked {
        /// About which rollout.
        rollout: RolloutId,
        /// Why, with file and line.
        why: String,
    },
}

impl Publish {
    /// What keeps a decision about `rollout`; `None`: nothing does, or there is none.
    pub fn obstacle(&self, rollout: &RolloutId) -> Option<&str> {
        match self {
            Self::Pending { rollout: other, why }
            | Self::Pushing { rollout: other, why }
            | Self::Blocked { rollout: other, why } => (other == rollout && !why.is_empty()).then_some(why),
            Self::ReadOnly => Some("the source follows a tag or a commit, so a person has to write it down"),
            Self::Idle => None,
        }
    }
}
