//! A Kubernetes object as plain JSON, with the few things that every stage asks of it.
//!
//! Objects stay JSON from the manifest to the API server, so that a field that Serin does not know is
//! never lost. Typed views (see [`crate::api`]) are read from them and never written back as a whole.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::ids::{AgentKey, Uid};

/// Group, version and kind: what `apiVersion` and `kind` of an object say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version within the group.
    pub version: Cow<'static, str>,
    /// Kind, in upper camel case.
    pub kind: Cow<'static, str>,
}

macro_rules! known_kind {
    ($($(#[$doc:meta])* $name:ident = $group:literal / $version:literal, $kind:literal;)*) => {
        impl Kind {
            $($(#[$doc])* pub const $name: Self = Self::known($group, $version, $kind);)*

            const KNOWN: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

known_kind! {
    /// The agent that Serin rolls out.
    AGENT_RUNTIME = "omnia.altairalabs.ai" / "v1alpha1", "AgentRuntime";
    /// A template of metric measurements.
    ROLLOUT_ANALYSIS = "omnia.altairalabs.ai" / "v1alpha1", "RolloutAnalysis";
    /// One published, immutable version of a prompt pack.
    PROMPT_PACK = "omnia.altairalabs.ai" / "v1alpha1", "PromptPack";
    /// A model provider. Serin reads it and owns no CRD for it.
    PROVIDER = "omnia.altairalabs.ai" / "v1alpha1", "Provider";
    /// A set of tools. Serin reads it and owns no CRD for it.
    TOOL_REGISTRY = "omnia.altairalabs.ai" / "v1alpha1", "ToolRegistry";
    /// `apps/v1` Deployment.
    DEPLOYMENT = "apps" / "v1", "Deployment";
    /// Core Service.
    SERVICE = "" / "v1", "Service";
    /// Core ServiceAccount.
    SERVICE_ACCOUNT = "" / "v1", "ServiceAccount";
    /// Core ConfigMap.
    CONFIG_MAP = "" / "v1", "ConfigMap";
    /// Core Secret. Serin reads the credentials of Providers and keeps their digest.
    SECRET = "" / "v1", "Secret";
    /// Namespaced RBAC role.
    ROLE = "rbac.authorization.k8s.io" / "v1", "Role";
    /// What one of several processes holds.
    LEASE = "coordination.k8s.io" / "v1", "Lease";
    /// Namespaced RBAC role binding.
    ROLE_BINDING = "rbac.authorization.k8s.io" / "v1", "RoleBinding";
}

impl Kind {
    const fn known(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) }
    }

    /// The kind that `apiVersion` (`group/version`, or `version` for the core group) and `kind` name.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Almost always it is one of these, which are compared and copied without a copy of their texts.
        let is_it = |known: &&Self| known.kind == kind && known.group == group && known.version == version;
        Self::KNOWN.iter().find(is_it).cloned().unwrap_or_else(|| Self {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: kind.to_owned().into(),
        })
    }

    /// Whether the values of its objects may not be shown.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// The value of the field `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

/// Names one object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for an object that has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The object `name` of `kind` in `namespace`.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The AgentRuntime `agent`.
    pub fn agent(agent: &AgentKey) -> Self {
        Self::new(Kind::AGENT_RUNTIME, &agent.namespace, &agent.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
        }
    }
}

/// The value at a JSON pointer (RFC 6901). The same as [`Value::pointer`], which copies each name twice: the engine asks for
/// hundreds of fields in each pass, and none of their names has an escape.
pub(crate) fn value_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return value.pointer(pointer);
    }
    let Some(path) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(value) };
    path.split('/').try_fold(value, |value, name| match value {
        Value::Object(map) => map.get(name),
        Value::Array(_) => value.pointer(&format!("/{name}")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The entries of a map, but for these.
pub(crate) fn all_but<'a>(
    map: Option<&'a Map<String, Value>>,
    left_out: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    map.into_iter().flatten().filter(|(name, _)| !left_out.contains(&name.as_str()))
}

/// An object: a JSON map with `apiVersion`, `kind` and `metadata.name`.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Map<String, Value>);

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Value::Object(self.0.clone()))
    }
}

impl Object {
    /// Takes `value` as an object, or gives back the reason why it is none.
    pub fn from_value(value: Value) -> Result<Self, &'static str> {
        let Value::Object(map) = value else { return Err("not a mapping") };
        let object = Self(map);
        if object.text("/apiVersion").is_none_or(str::is_empty) {
            return Err("no apiVersion");
        }
        if object.text("/kind").is_none_or(str::is_empty) {
            return Err("no kind");
        }
        if object.name().is_empty() {
            return Err("no metadata.name");
        }
        Ok(object)
    }

    /// An object of `key` with nothing in it but its identity.
    pub fn bare(key: &ObjectKey) -> Self {
        let mut metadata = Map::new();
        metadata.insert("name".into(), key.name.clone().into());
        if !key.namespace.is_empty() {
            metadata.insert("namespace".into(), key.namespace.clone().into());
        }
        let mut map = Map::new();
        map.insert("apiVersion".into(), key.kind.api_version().into());
        map.insert("kind".into(), key.kind.kind.clone().into());
        map.insert("metadata".into(), metadata.into());
        Self(map)
    }

    /// What names this object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.kind(), self.namespace(), self.name())
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        let text = |field| self.text(field).unwrap_or_default();
        Kind::from_api_version(text("/apiVersion"), text("/kind"))
    }

    /// Whether it is of `kind`.
    pub fn is_of(&self, kind: &Kind) -> bool {
        let api_version = self.text("/apiVersion").unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        group == kind.group && version == kind.version && self.text("/kind") == Some(kind.kind.as_ref())
    }

    /// Whether `key` names this object.
    pub fn is_named_by(&self, key: &ObjectKey) -> bool {
        self.name() == key.name && self.namespace() == key.namespace && self.is_of(&key.kind)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    /// `metadata.namespace`; empty where there is none.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or_default()
    }

    /// `metadata.uid`: only an object that the API server has seen has one.
    pub fn uid(&self) -> Option<Uid> {
        self.text("/metadata/uid").map(Uid::new)
    }

    /// `metadata.generation`, 0 where there is none.
    pub fn generation(&self) -> i64 {
        self.at("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
    }

    /// `metadata.resourceVersion`, as the API server wrote it.
    pub fn resource_version(&self) -> Option<&str> {
        self.text("/metadata/resourceVersion")
    }

    /// Whether its deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.at("/metadata/deletionTimestamp").is_some()
    }

    /// The label `name`.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.at("/metadata/labels")?.get(name)?.as_str()
    }

    /// The annotation `name`.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.at("/metadata/annotations")?.get(name)?.as_str()
    }

    /// Whether its controller owner reference names `uid`.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        let owners = self.at("/metadata/ownerReferences").and_then(Value::as_array);
        owners.is_some_and(|owners| {
            owners.iter().any(|owner| {
                owner.get("uid").and_then(Value::as_str) == Some(uid.as_str())
                    && owner.get("controller").and_then(Value::as_bool) == Some(true)
            })
        })
    }

    /// The value at a JSON pointer (RFC 6901).
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        let path = pointer.strip_prefix('/')?;
        // What is behind the first name is a pointer, too, or nothing, which is the value itself.
        let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        value_at(self.0.get(first)?, rest)
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    /// The whole number at a JSON pointer.
    pub fn integer(&self, pointer: &str) -> Option<i64> {
        self.at(pointer)?.as_i64()
    }

    /// The fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The fields, to change them. The caller keeps `apiVersion`, `kind` and `metadata.name`.
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// The object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Sets the value at a path of map keys, making the maps on the way.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut map = &mut self.0;
        for parent in parents {
            let entry = map.entry((*parent).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            let Value::Object(next) = entry else { return };
            map = next;
        }
        map.insert((*last).to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_leads_to_where_serde_json_says() {
        let value = json!({"a": {"b": [1, {"c": null}], "d/e": 2, "f~g": 3, "": 4}, "0": 5});
        let pointers = [
            "",
            "/",
            "a",
            "/a",
            "/a/",
            "/a/b",
            "/a/b/0",
            "/a/b/00",
            "/a/b/+1",
            "/a/b/-",
            "/a/b/1/c",
            "/a/b/1/c/d",
            "/a/b/2",
            "/a/d~1e",
            "/a/d/e",
            "/a/f~0g",
            "/a/f~g",
            "/0",
            "/0/0",
            "//",
        ];
        for pointer in pointers {
            assert_eq!(value_at(&value, pointer), value.pointer(pointer), "{pointer:?}");
        }
    }

    #[test]
    fn an_object_is_named_by_its_own_key_alone() {
        let value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}});
        let object = Object::from_value(value).unwrap();
        let key = ObjectKey::new(Kind::DEPLOYMENT, "n", "a");
        assert_eq!(object.key(), key);
        assert!(object.is_named_by(&key) && object.is_of(&Kind::DEPLOYMENT));
        let others = [
            ObjectKey::new(Kind::SERVICE, "n", "a"),
            ObjectKey::new(Kind::from_api_version("apps/v1beta1", "Deployment"), "n", "a"),
            ObjectKey::new(Kind::from_api_version("v1", "Deployment"), "n", "a"),
            ObjectKey::new(Kind::DEPLOYMENT, "m", "a"),
            ObjectKey::new(Kind::DEPLOYMENT, "n", "b"),
        ];
        assert!(others.iter().all(|other| !object.is_named_by(other)));
    }
}
