//! What the settings grant to a source: kinds, namespaces, sizes.

use std::fmt;

use crate::object::Kind;

/// How large one file may be if the settings say nothing: 4 MiB, several times what etcd takes in one object.
pub const DEFAULT_MAX_FILE_BYTES: usize = 4 << 20;

/// What may be applied from the files of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Kinds that may be applied.
    pub kinds: Vec<KindRule>,
    /// Namespaces that may be written to.
    pub namespaces: Namespaces,
    /// The namespace of an object that names none.
    pub default_namespace: String,
    /// Which of the granted kinds have no namespace.
    pub cluster_scoped: ClusterScoped,
    /// How large one file may be, in bytes.
    pub max_file_bytes: usize,
}

impl Default for Rules {
    /// The group `omnia.altairalabs.ai` and ConfigMaps, in any namespace, `default` where none is named.
    fn default() -> Self {
        Self {
            kinds: vec![KindRule::Group(Kind::AGENT_RUNTIME.group.to_string()), KindRule::one(&Kind::CONFIG_MAP)],
            namespaces: Namespaces::Any,
            default_namespace: "default".to_owned(),
            cluster_scoped: ClusterScoped::default(),
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
        }
    }
}

impl Rules {
    /// Whether objects of `kind` may be applied.
    pub fn grants_kind(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|rule| rule.matches(kind))
    }

    /// Whether objects in `namespace` may be applied.
    pub fn grants_namespace(&self, namespace: &str) -> bool {
        self.namespaces.permit(namespace)
    }

    /// Whether objects of `kind` have no namespace.
    pub fn is_cluster_scoped(&self, kind: &Kind) -> bool {
        self.cluster_scoped.0.iter().any(|rule| rule.matches(kind))
    }
}

/// Namespaces that are granted, or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace.
    Any,
    /// These and no others, in the order in which they were named; never empty.
    Only(Vec<String>),
}

impl Namespaces {
    /// Whether `namespace` is one of them.
    pub fn permit(&self, namespace: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.iter().any(|name| name == namespace),
        }
    }
}

/// The kinds that have no namespace; all others have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterScoped(pub Vec<KindRule>);

/// Kinds, in any version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindRule {
    /// `*`: every kind.
    Any,
    /// `*.group`: all kinds of an API group.
    Group(String),
    /// `Kind.group`, or `Kind` for the core group.
    Kind {
        /// The kind.
        kind: String,
        /// Its group; empty for the core group.
        group: String,
    },
}

impl KindRule {
    /// The rule that is about `kind` alone.
    pub fn one(kind: &Kind) -> Self {
        Self::Kind { kind: kind.kind.to_string(), group: kind.group.to_string() }
    }

    /// Whether `kind` is meant.
    pub fn matches(&self, kind: &Kind) -> bool {
        match self {
            Self::Any => true,
            Self::Group(group) => *group == kind.group,
            Self::Kind { kind: name, group } => *name == kind.kind && *group == kind.group,
        }
    }
}

impl fmt::Display for KindRule {
    /// As the settings write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Group(group) => write!(f, "*.{group}"),
            Self::Kind { kind, group } if group.is_empty() => f.write_str(kind),
            Self::Kind { kind, group } => write!(f, "{kind}.{group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_granted_by_group_and_name_in_any_version() {
        let rules = Rules::default();
        assert!(rules.grants_kind(&Kind::AGENT_RUNTIME));
        assert!(rules.grants_kind(&Kind::from_api_version("omnia.altairalabs.ai/v1beta1", "Provider")));
        assert!(rules.grants_kind(&Kind::CONFIG_MAP));
        assert!(!rules.grants_kind(&Kind::from_api_version("v1", "Secret")));
        assert!(!rules.grants_kind(&Kind::from_api_version("example.com/v1", "ConfigMap")));
    }

    #[test]
    fn a_rule_is_shown_as_the_settings_write_it() {
        let shown: Vec<String> = [
            KindRule::Any,
            KindRule::Group("apps".to_owned()),
            KindRule::one(&Kind::DEPLOYMENT),
            KindRule::one(&Kind::CONFIG_MAP),
        ]
        .iter()
        .map(ToString::to_string)
        .collect();
        assert_eq!(shown, ["*", "*.apps", "Deployment.apps", "ConfigMap"]);
        assert!(KindRule::Any.matches(&Kind::DEPLOYMENT));
    }

    #[test]
    fn namespaces_are_any_or_a_list() {
        let mut rules = Rules::default();
        assert!(rules.grants_namespace("x"));
        rules.namespaces = Namespaces::Only(["prod".to_owned()].into());
        assert!(rules.grants_namespace("prod"));
        assert!(!rules.grants_namespace("x"));
    }
}
