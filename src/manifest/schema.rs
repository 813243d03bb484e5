//! The schemas of the kinds that Serin knows, read from their CustomResourceDefinitions.
//!
//! The same text that the API server enforces, so that what passes here passes there. Serin holds manifests to
//! it before they reach a cluster because the API server reports one object at a time, without a line, and
//! drops a misspelt field instead of refusing it.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::object::Kind;

/// The part of structural OpenAPI v3 schemas that CRDs of this project use. CEL rules are not evaluated here;
/// the modules beside this one check what they say.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    pub(super) kind: Option<Type>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) required: Vec<String>,
    pub(super) additional: Option<Box<Self>>,
    pub(super) preserves_unknown: bool,
    pub(super) is_nullable: bool,
    pub(super) items: Option<Box<Self>>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    /// Items are told apart by these keys.
    pub(super) list_keys: Vec<String>,
    /// Items are scalars, each there once.
    pub(super) is_set: bool,
    pub(super) choices: Vec<Value>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) format: Option<Format>,
}

/// `type`, or the integer-or-text of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    Text,
    Integer,
    Number,
    Boolean,
    IntegerOrText,
}

/// `format`, where it says more than the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Int32,
    Int64,
    DateTime,
}

/// A CRD that cannot be used as a schema.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the CustomResourceDefinition {name} cannot be used: {why}")]
pub struct SchemaError {
    name: String,
    why: String,
}

/// The schema of one kind.
#[derive(Clone, Debug)]
pub(super) struct KindSchema {
    pub(super) kind: Kind,
    pub(super) schema: Schema,
}

/// The schemas of all kinds that Serin knows. A kind that is not among them passes with its metadata checked.
#[derive(Clone, Debug)]
pub struct Schemas {
    kinds: Vec<KindSchema>,
    pub(super) metadata: Schema,
}

impl Schemas {
    /// Those of the CustomResourceDefinitions in this program, which `serin crds` prints.
    pub fn embedded() -> Self {
        let texts = crate::api::crds::all().into_iter().map(|(_, text)| text);
        Self::from_crds(texts).expect("the embedded CRDs are valid, which a test sees to")
    }

    /// Reads the schemas from the texts of CustomResourceDefinitions, and adds that of ConfigMaps.
    ///
    /// # Errors
    /// If a text is no CustomResourceDefinition, or uses what this reader does not know.
    pub fn from_crds<'a>(crds: impl IntoIterator<Item = &'a str>) -> Result<Self, SchemaError> {
        let mut kinds = Vec::new();
        for text in crds {
            read_crd(text, &mut kinds)?;
        }
        let config_map = of_object(builtin(CONFIG_MAP, "ConfigMap")?);
        kinds.push(KindSchema { kind: Kind::CONFIG_MAP, schema: config_map });
        Ok(Self { kinds, metadata: builtin(METADATA, "metadata")? })
    }

    /// The schema of `kind`, by group and name; its version may be another.
    pub(super) fn find(&self, kind: &Kind) -> Option<&KindSchema> {
        self.kinds.iter().find(|known| known.kind.group == kind.group && known.kind.kind == kind.kind)
    }

    /// The names of the known kinds of `group`.
    pub(super) fn kinds_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a str> {
        self.kinds.iter().filter(move |known| known.kind.group == group).map(|known| known.kind.kind.as_ref())
    }
}

/// `metadata`, which CRDs leave to the API server.
const METADATA: &str = "
type: object
properties:
  name: { type: string }
  generateName: { type: string }
  namespace: { type: string }
  labels: { type: object, additionalProperties: { type: string } }
  annotations: { type: object, additionalProperties: { type: string } }
  finalizers: { type: array, items: { type: string } }
  ownerReferences: { type: array, items: { type: object, x-kubernetes-preserve-unknown-fields: true } }
  uid: { type: string }
  resourceVersion: { type: string }
  generation: { type: integer }
  selfLink: { type: string }
  creationTimestamp: { type: string, format: date-time }
  deletionTimestamp: { type: string, format: date-time }
  deletionGracePeriodSeconds: { type: integer }
  managedFields: { type: array, items: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

const CONFIG_MAP: &str = "
type: object
properties:
  data: { type: object, additionalProperties: { type: string } }
  binaryData: { type: object, additionalProperties: { type: string } }
  immutable: { type: boolean }
";

fn builtin(text: &str, name: &str) -> Result<Schema, SchemaError> {
    let error = |why| SchemaError { name: name.to_owned(), why };
    let value: Value = serde_saphyr::from_str(text).map_err(|cause| error(cause.to_string()))?;
    read_schema(&value).map_err(error)
}

fn read_crd(text: &str, kinds: &mut Vec<KindSchema>) -> Result<(), SchemaError> {
    let error = |name: &str, why: String| SchemaError { name: name.to_owned(), why };
    let crd: Value = serde_saphyr::from_str(text).map_err(|cause| error("", cause.to_string()))?;
    let text_at = |pointer| crd.pointer(pointer).and_then(Value::as_str);
    let name = text_at("/metadata/name").unwrap_or_default().to_owned();
    let (Some(group), Some(kind)) = (text_at("/spec/group"), text_at("/spec/names/kind")) else {
        return Err(error(&name, "it names no group and kind".to_owned()));
    };
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for version in versions {
        let (Some(version_name), Some(schema)) =
            (version.get("name").and_then(Value::as_str), version.pointer("/schema/openAPIV3Schema"))
        else {
            return Err(error(&name, "a version has no name or no schema".to_owned()));
        };
        kinds.push(KindSchema {
            kind: Kind::from_api_version(&format!("{group}/{version_name}"), kind),
            schema: of_object(read_schema(schema).map_err(|why| error(&name, why))?),
        });
    }
    Ok(())
}

/// Adds what every object has. Its metadata has a schema of its own, and its status is the cluster's: it is dropped
/// with a warning, and nobody reads it here.
fn of_object(mut schema: Schema) -> Schema {
    let open = |kind| Schema { kind, preserves_unknown: true, ..Schema::default() };
    let fields = [
        ("apiVersion", Some(Type::Text)),
        ("kind", Some(Type::Text)),
        ("metadata", Some(Type::Object)),
        ("status", None),
    ];
    schema.properties.extend(fields.map(|(name, kind)| (name.to_owned(), open(kind))));
    schema
}

fn read_schema(value: &Value) -> Result<Schema, String> {
    let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
    let size = |key: &str| value.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let texts = |key: &str| -> Vec<String> {
        let list = value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let list_type = value.get("x-kubernetes-list-type").and_then(Value::as_str);
    let mut schema = Schema {
        kind: read_type(value)?,
        required: texts("required"),
        preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        is_nullable: flag("nullable"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        list_keys: if list_type == Some("map") { texts("x-kubernetes-list-map-keys") } else { Vec::new() },
        is_set: list_type == Some("set"),
        choices: value.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        minimum: value.get("minimum").and_then(Value::as_f64),
        maximum: value.get("maximum").and_then(Value::as_f64),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        format: match value.get("format").and_then(Value::as_str) {
            Some("int32") => Some(Format::Int32),
            Some("int64") => Some(Format::Int64),
            Some("date-time") => Some(Format::DateTime),
            _ => None,
        },
        ..Schema::default()
    };
    for (name, property) in value.get("properties").and_then(Value::as_object).into_iter().flatten() {
        schema.properties.insert(name.clone(), read_schema(property)?);
    }
    if let Some(items) = value.get("items") {
        schema.items = Some(Box::new(read_schema(items)?));
    }
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => schema.preserves_unknown |= allowed,
        Some(of) => schema.additional = Some(Box::new(read_schema(of)?)),
        None => {}
    }
    if let Some(pattern) = value.get("pattern").and_then(Value::as_str) {
        // The API server's engine takes \d for ASCII digits only.
        let regex = Regex::new(&pattern.replace(r"\d", "[0-9]"))
            .map_err(|cause| format!("the pattern {pattern:?} cannot be read: {cause}"))?;
        schema.pattern = Some((pattern.to_owned(), regex));
    }
    Ok(schema)
}

fn read_type(value: &Value) -> Result<Option<Type>, String> {
    if value.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true) {
        return Ok(Some(Type::IntegerOrText));
    }
    match value.get("type").and_then(Value::as_str) {
        None | Some("") => Ok(None),
        Some("object") => Ok(Some(Type::Object)),
        Some("array") => Ok(Some(Type::Array)),
        Some("string") => Ok(Some(Type::Text)),
        Some("integer") => Ok(Some(Type::Integer)),
        Some("number") => Ok(Some(Type::Number)),
        Some("boolean") => Ok(Some(Type::Boolean)),
        Some(other) => Err(format!("the type {other:?} is none that a schema has")),
    }
}
