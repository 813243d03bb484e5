//! Identities shared by all stages: one newtype each, so that two names can never be swapped.
//!
//! Copies share their text: a hundred thousand paths are copied with each commit of a large repository.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text that is already known to be one of these.
            pub fn new(text: impl Into<String>) -> Self {
                Self(Arc::from(text.into()))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A git commit id, 40 lower-case hex digits.
    CommitSha
);
text_id!(
    /// A git blob id: equal ids mean equal bytes.
    BlobId
);
text_id!(
    /// A branch by its short name, such as `main` or `serin/status/prod`.
    BranchName
);
text_id!(
    /// A path inside a repository: relative, `/` between parts, no `..`.
    TreePath
);
text_id!(
    /// The name that the settings give to one source (one repository, revision and path).
    SourceName
);
text_id!(
    /// The name that the settings give to this cluster; it names the status branch.
    ClusterName
);
text_id!(
    /// `metadata.uid` of an object: tells an object from a later one of the same name.
    Uid
);
text_id!(
    /// Names one rollout of one agent for ever: in commit trailers, the history and the status.
    RolloutId
);
text_id!(
    /// Identity by content: equal digests mean equal pack, version, providers and registry.
    Digest
);

impl CommitSha {
    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..self.0.len().min(10)]
    }
}

/// An AgentRuntime by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl AgentKey {
    /// The agent `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A share of traffic in percent, 0 to 100 by construction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Weight(u8);

impl Weight {
    /// Nothing goes to the candidate.
    pub const ZERO: Self = Self(0);
    /// Everything goes to the candidate.
    pub const FULL: Self = Self(100);

    /// A weight of `percent`, or `None` above 100.
    pub fn new(percent: u64) -> Option<Self> {
        u8::try_from(percent).ok().filter(|p| *p <= 100).map(Self)
    }

    /// The weight in percent, 0 to 100.
    pub fn percent(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
