//! What the settings grant to a source: kinds, namespaces, sizes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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
            kinds: vec![KindRule::group(&Kind::AGENT_RUNTIME.group), KindRule::one(&Kind::CONFIG_MAP)],
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
        match &self.namespaces {
            Namespaces::Any => true,
            Namespaces::Only(granted) => granted.contains(namespace),
        }
    }

    /// Whether objects of `kind` have no namespace.
    pub fn is_cluster_scoped(&self, kind: &Kind) -> bool {
        self.cluster_scoped.0.iter().any(|rule| rule.matches(kind))
    }
}

/// The namespaces that are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace.
    Any,
    /// These and no others.
    Only(BTreeSet<String>),
}

/// The kinds that have no namespace; all others have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterScoped(pub Vec<KindRule>);

/// One kind of a group, or all of them: `group/Kind`, `group/*`, `Kind` alone for the core group, `*` for everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindRule {
    group: Option<String>,
    kind: Option<String>,
}

impl KindRule {
    /// Every kind of every group.
    pub fn any() -> Self {
        Self { group: None, kind: None }
    }

    /// All kinds of `group`.
    pub fn group(group: &str) -> Self {
        Self { group: Some(group.to_owned()), kind: None }
    }

    /// This kind, in any version.
    pub fn one(kind: &Kind) -> Self {
        Self { group: Some(kind.group.to_string()), kind: Some(kind.kind.to_string()) }
    }

    /// Whether `kind` is meant.
    pub fn matches(&self, kind: &Kind) -> bool {
        self.group.as_ref().is_none_or(|group| *group == kind.group)
            && self.kind.as_ref().is_none_or(|name| *name == kind.kind)
    }
}

/// The text is no rule for kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no kind: write `group/Kind`, `group/*`, or `Kind` for the core group")]
pub struct KindRuleError {
    text: String,
}

impl FromStr for KindRule {
    type Err = KindRuleError;

    /// Reads `apps/Deployment`, `omnia.altairalabs.ai/*`, `ConfigMap`.
    fn from_str(text: &str) -> Result<Self, KindRuleError> {
        let error = || KindRuleError { text: text.to_owned() };
        let (group, kind) = text.split_once('/').unwrap_or(("", text));
        let is_kind =
            kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(|c| c.is_ascii_alphanumeric());
        if !group.is_empty() && super::names::why_no_subdomain(group).is_some() {
            return Err(error());
        }
        match kind {
            "*" if !text.contains('/') => Ok(Self::any()),
            "*" => Ok(Self::group(group)),
            _ if is_kind => Ok(Self { group: Some(group.to_owned()), kind: Some(kind.to_owned()) }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for KindRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_deref().unwrap_or("*");
        match (self.group.as_deref(), kind) {
            (None, kind) => f.write_str(kind),
            (Some(""), "*") => f.write_str("/*"),
            (Some(""), kind) => f.write_str(kind),
            (Some(group), kind) => write!(f, "{group}/{kind}"),
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
    fn a_kind_rule_reads_what_it_writes() {
        for text in ["omnia.altairalabs.ai/*", "apps/Deployment", "ConfigMap", "/*", "*"] {
            assert_eq!(text.parse::<KindRule>().unwrap().to_string(), text);
        }
        assert_eq!("/ConfigMap".parse::<KindRule>().unwrap().to_string(), "ConfigMap");
        for text in ["", "configmaps", "apps/", "apps/v1/Deployment", "a b/*", "Config Map"] {
            assert!(text.parse::<KindRule>().is_err(), "{text}");
        }
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
