//! How the server merges the maps and lists of the kinds that Serin touches.
//!
//! Only what differs from the rule is listed: maps are merged field by field, lists are replaced as a
//! whole. Where a live object's `managedFields` tell otherwise (another CRD of the same kind), they win;
//! see [`crate::apply::difference`].

use std::fmt::Write as _;

use serde_json::Value;

use crate::object::Kind;

/// How one value is merged and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A map is merged field by field, a list is replaced as a whole.
    Plain,
    /// A map that is replaced as a whole.
    AtomicMap,
    /// A map that is replaced as a whole, and in which the server then adds defaults.
    AtomicMapWithDefaults,
    /// A map whose values are resource quantities.
    Quantities,
    /// A resource quantity.
    Quantity,
    /// A list of maps that is merged by these keys.
    MapList(&'static [&'static str]),
    /// A list of scalars that is merged as a set.
    SetList,
}

impl Form {
    /// Whether a map of this form has one owner for all of it.
    pub fn is_atomic_map(self) -> bool {
        matches!(self, Self::AtomicMap | Self::AtomicMapWithDefaults)
    }
}

/// A value's form and the shapes of what is inside. The fields of an associative list are those of its items.
#[derive(Debug)]
pub struct Shape {
    /// Its own form.
    pub form: Form,
    fields: Fields,
}

type Fields = &'static [(&'static str, Shape)];

impl Shape {
    /// The shape of the objects of a kind.
    pub fn of(kind: &Kind) -> &'static Self {
        match (kind.group.as_ref(), kind.kind.as_ref()) {
            ("apps", "Deployment") => &DEPLOYMENT,
            ("", "Service") => &SERVICE,
            ("", "ServiceAccount") => &SERVICE_ACCOUNT,
            ("rbac.authorization.k8s.io", "RoleBinding") => &ROLE_BINDING,
            ("omnia.altairalabs.ai", "AgentRuntime") => &AGENT_RUNTIME,
            _ => &ANY,
        }
    }

    /// The shape of a field.
    pub fn field(&self, name: &str) -> &'static Self {
        if self.form == Form::Quantities {
            return &QUANTITY;
        }
        self.fields.iter().find(|(field, _)| *field == name).map_or(&PLAIN, |(_, shape)| shape)
    }

    /// The shape of an item of this list: the same fields, merged as a map.
    pub fn item(&self) -> Self {
        Self { form: Form::Plain, fields: self.fields }
    }
}

/// The keys of an item of an associative list as canonical JSON; `None` where the item lacks one.
/// A `protocol` that is not there is `TCP`, as the server has it.
pub fn item_key(item: &Value, keys: &[impl AsRef<str>]) -> Option<String> {
    let map = item.as_object()?;
    let mut sorted: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable();
    let mut text = String::from("{");
    for key in sorted {
        if text.len() > 1 {
            text.push(',');
        }
        write_text(&mut text, key);
        text.push(':');
        match map.get(key) {
            Some(value) => write_canonical(&mut text, value),
            None if key == "protocol" => text.push_str("\"TCP\""),
            None => return None,
        }
    }
    text.push('}');
    Some(text)
}

/// JSON with sorted keys and no spaces.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(&mut text, value);
    text
}

fn write_canonical(text: &mut String, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (i, (name, value)) in fields.into_iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write_text(text, name);
                text.push(':');
                write_canonical(text, value);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write_canonical(text, item);
            }
            text.push(']');
        }
        Value::String(string) => write_text(text, string),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            // Writing to a String cannot fail.
            let _ = write!(text, "{value}");
        }
    }
}

fn write_text(text: &mut String, string: &str) {
    if string.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        text.push('"');
        text.push_str(string);
        text.push('"');
    } else {
        let _ = write!(text, "{}", Value::String(string.to_owned()));
    }
}

/// A value that the server fills in.
#[derive(Clone, Copy, Debug)]
enum Literal {
    Text(&'static str),
    Number(i64),
    Bool(bool),
}

/// Whether `value` is what the server puts into an absent field `name` of an item of an atomic list.
///
/// Ownership ends at such a list, so that only this table tells a default from a field that was removed.
pub(super) fn is_item_default(name: &str, value: &Value) -> bool {
    ITEM_DEFAULTS.iter().any(|(field, default)| {
        *field == name
            && match default {
                Literal::Text(text) => value.as_str() == Some(text),
                Literal::Number(number) => value.as_f64() == Some(*number as f64),
                Literal::Bool(bool) => value.as_bool() == Some(*bool),
            }
    })
}

/// From the built-in kinds that Serin writes, and from the CRDs of the omnia group.
const ITEM_DEFAULTS: [(&str, Literal); 35] = [
    ("apiVersion", Literal::Text("v1")),
    ("apiGroup", Literal::Text("")),
    ("apiGroup", Literal::Text("rbac.authorization.k8s.io")),
    ("expirationSeconds", Literal::Number(3600)),
    ("defaultMode", Literal::Number(420)),
    ("protocol", Literal::Text("TCP")),
    ("scheme", Literal::Text("HTTP")),
    ("name", Literal::Text("")),
    ("optional", Literal::Bool(false)),
    ("readOnly", Literal::Bool(false)),
    ("handler", Literal::Text("runtime")),
    ("port", Literal::Number(8080)),
    ("port", Literal::Number(9999)),
    ("type", Literal::Text("websocket")),
    ("type", Literal::Text("memory")),
    ("type", Literal::Text("none")),
    ("taskTTL", Literal::Text("1h")),
    ("conversationTTL", Literal::Text("30m")),
    ("role", Literal::Text("llm")),
    ("fsType", Literal::Text("ext4")),
    ("fsType", Literal::Text("xfs")),
    ("iscsiInterface", Literal::Text("default")),
    ("keyring", Literal::Text("/etc/ceph/keyring")),
    ("pool", Literal::Text("rbd")),
    ("user", Literal::Text("admin")),
    ("storageMode", Literal::Text("ThinProvisioned")),
    ("header", Literal::Text("Authorization")),
    ("contentType", Literal::Text("application/json")),
    ("method", Literal::Text("POST")),
    ("timeout", Literal::Text("30s")),
    ("backoffMultiplier", Literal::Number(2)),
    ("initialBackoff", Literal::Text("100ms")),
    ("maxBackoff", Literal::Text("30s")),
    ("respectRetryAfter", Literal::Bool(true)),
    ("retryOnNetworkError", Literal::Bool(true)),
];

const fn map(fields: Fields) -> Shape {
    Shape { form: Form::Plain, fields }
}

const fn list(keys: &'static [&'static str], fields: Fields) -> Shape {
    Shape { form: Form::MapList(keys), fields }
}

const fn leaf(form: Form) -> Shape {
    Shape { form, fields: &[] }
}

static PLAIN: Shape = map(&[]);
static QUANTITY: Shape = leaf(Form::Quantity);

const METADATA: Shape = map(&[("finalizers", leaf(Form::SetList)), ("ownerReferences", list(&["uid"], &[]))]);
const STATUS: Shape = map(&[("conditions", list(&["type"], &[]))]);
const SELECTOR: Shape = leaf(Form::AtomicMap);
/// An atomic reference in which the server may add `apiVersion` or `apiGroup`.
const REFERENCE: Shape = leaf(Form::AtomicMapWithDefaults);
const RESOURCES: Shape =
    map(&[("claims", list(&["name"], &[])), ("limits", leaf(Form::Quantities)), ("requests", leaf(Form::Quantities))]);
const ENV: Shape = list(
    &["name"],
    &[(
        "valueFrom",
        map(&[
            ("configMapKeyRef", REFERENCE),
            ("fieldRef", REFERENCE),
            ("resourceFieldRef", REFERENCE),
            ("secretKeyRef", REFERENCE),
        ]),
    )],
);
const CONTAINERS: Shape = list(
    &["name"],
    &[
        ("env", ENV),
        ("ports", list(&["containerPort", "protocol"], &[])),
        ("resources", RESOURCES),
        ("volumeDevices", list(&["devicePath"], &[])),
        ("volumeMounts", list(&["mountPath"], &[])),
    ],
);
const POD: Shape = map(&[
    ("containers", CONTAINERS),
    ("hostAliases", list(&["ip"], &[])),
    ("imagePullSecrets", list(&["name"], &[])),
    ("initContainers", CONTAINERS),
    ("nodeSelector", leaf(Form::AtomicMap)),
    ("resources", RESOURCES),
    ("resourceClaims", list(&["name"], &[])),
    ("schedulingGates", list(&["name"], &[])),
    ("topologySpreadConstraints", list(&["topologyKey", "whenUnsatisfiable"], &[("labelSelector", SELECTOR)])),
    ("volumes", list(&["name"], &[("emptyDir", map(&[("sizeLimit", leaf(Form::Quantity))]))])),
]);

static ANY: Shape = map(&[("metadata", METADATA), ("status", STATUS)]);
static DEPLOYMENT: Shape = map(&[
    ("metadata", METADATA),
    ("spec", map(&[("selector", SELECTOR), ("template", map(&[("metadata", METADATA), ("spec", POD)]))])),
    ("status", STATUS),
]);
static SERVICE: Shape = map(&[
    ("metadata", METADATA),
    ("spec", map(&[("ports", list(&["port", "protocol"], &[])), ("selector", SELECTOR)])),
    ("status", STATUS),
]);
static SERVICE_ACCOUNT: Shape = map(&[("metadata", METADATA), ("secrets", list(&["name"], &[]))]);
static ROLE_BINDING: Shape = map(&[("metadata", METADATA), ("roleRef", REFERENCE)]);
static AGENT_RUNTIME: Shape = map(&[
    ("metadata", METADATA),
    (
        "spec",
        map(&[
            ("providers", list(&["name"], &[])),
            ("runtime", map(&[("resources", map(&[("claims", list(&["name"], &[]))]))])),
        ]),
    ),
    ("status", STATUS),
]);
