//! Who an object is, whether it is granted, and what of it is not for git to say.

use std::collections::HashSet;

use serde_json::Value;

use crate::object::{Kind, Object, ObjectKey};

use super::diagnostic::Problem;
use super::names;
use super::near::nearest;
use super::node::{Content, Node, shorten};
use super::rules::{KindRule, Namespaces, Rules};
use super::schema::Schemas;
use super::validate::{Finding, QUOTE_IT, did_you_mean, prune_nulls};

/// Fields of `metadata` that the API server sets.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// What names the object of a document.
pub(super) enum Identity {
    /// It cannot be told which object is meant.
    Unknown(Vec<Finding>),
    /// It can, but the object may not be applied.
    Refused(ObjectKey, Vec<Finding>),
    /// It can, and it may be looked at closer.
    Granted(ObjectKey),
}

/// Finds out which object `root` is, and whether it may be applied.
pub(super) fn identify(root: &Node, rules: &Rules, schemas: &Schemas) -> Identity {
    let finding = |field: &str, problem, message: String, hint: Option<String>| Finding {
        at: root.locate(field),
        problem,
        field: field.to_owned(),
        message,
        hint,
    };
    if !matches!(root.content, Content::Map(_)) {
        let message = format!("a Kubernetes object is a mapping, found {}", root.describe());
        return Identity::Unknown(vec![finding("", Problem::NotAnObject, message, None)]);
    }
    let given = |key: &str| root.text(key).filter(|text| !text.is_empty());
    let (Some(api_version), Some(kind_name)) = (given("apiVersion"), given("kind")) else {
        return Identity::Unknown(vec![not_an_object(root)]);
    };
    let kind = Kind::from_api_version(api_version, kind_name);
    if kind.group == "kustomize.config.k8s.io" {
        return Identity::Unknown(vec![kustomization(root)]);
    }
    let mut unknown = Vec::new();
    if let Some(node) = root.get("metadata").filter(|node| !matches!(node.content, Content::Map(_))) {
        let message = format!("expected a mapping, found {}", node.describe());
        return Identity::Unknown(vec![finding("metadata", Problem::InvalidField, message, None)]);
    }
    let name = match root.get("metadata").and_then(|metadata| metadata.get("name")).map(|node| (&node.content, node)) {
        Some((Content::Text(name), _)) => {
            if let Some(why) = names::why_no_subdomain(name) {
                let message = format!("{} is no name: {why}", shorten(name));
                unknown.push(finding("metadata.name", Problem::InvalidField, message, None));
            }
            name.as_str()
        }
        Some((_, node)) if !matches!(node.content, Content::Null) => {
            let message = format!("expected a text, found {}", node.describe());
            let hint = Some(QUOTE_IT.to_owned());
            unknown.push(finding("metadata.name", Problem::InvalidField, message, hint));
            ""
        }
        _ if root.get("metadata").and_then(|metadata| metadata.entry("generateName")).is_some() => {
            unknown.push(finding(
                "metadata.generateName",
                Problem::NotAnObject,
                "an object in git needs a name of its own, or every sync would make another one".to_owned(),
                Some("use `name`".to_owned()),
            ));
            ""
        }
        _ => {
            unknown.push(finding("metadata.name", Problem::MissingField, "this field is required".to_owned(), None));
            ""
        }
    };
    let is_cluster_scoped = rules.is_cluster_scoped(&kind);
    let namespace = match root.get("metadata").and_then(|m| m.get("namespace")).map(|node| (&node.content, node)) {
        None | Some((Content::Null, _)) if is_cluster_scoped => "",
        None | Some((Content::Null, _)) => rules.default_namespace.as_str(),
        Some((Content::Text(namespace), _)) => {
            if is_cluster_scoped {
                let message = format!("a {} has no namespace", kind.kind);
                unknown.push(finding(
                    "metadata.namespace",
                    Problem::InvalidField,
                    message,
                    Some("remove it".to_owned()),
                ));
            } else if let Some(why) = names::why_no_label(namespace) {
                let message = format!("{} is no namespace: {why}", shorten(namespace));
                unknown.push(finding("metadata.namespace", Problem::InvalidField, message, None));
            }
            namespace.as_str()
        }
        Some((_, node)) => {
            let message = format!("expected a text, found {}", node.describe());
            unknown.push(finding("metadata.namespace", Problem::InvalidField, message, Some(QUOTE_IT.into())));
            ""
        }
    };
    let mut refused = Vec::new();
    refuse_kind(root, &kind, rules, schemas, &mut refused);
    if !is_cluster_scoped && unknown.is_empty() && !rules.grants_namespace(namespace) {
        let granted = match &rules.namespaces {
            Namespaces::Any => String::new(),
            Namespaces::Only(names) => names.join(", "),
        };
        refused.push(finding(
            "metadata.namespace",
            Problem::NotGranted,
            format!("this source may not write to the namespace {namespace:?}"),
            Some(format!("add it to the setting `namespaces` of the source, which grants: {granted}")),
        ));
    }
    if !unknown.is_empty() {
        unknown.extend(refused);
        return Identity::Unknown(unknown);
    }
    let key = ObjectKey::new(kind, namespace, name);
    if refused.is_empty() { Identity::Granted(key) } else { Identity::Refused(key, refused) }
}

fn refuse_kind(root: &Node, kind: &Kind, rules: &Rules, schemas: &Schemas, refused: &mut Vec<Finding>) {
    let mut refuse = |field: &str, problem, message: String, hint: String| {
        refused.push(Finding { at: root.locate(field), problem, field: field.to_owned(), message, hint: Some(hint) });
    };
    let other_kinds = [Kind::PROVIDER.kind, Kind::TOOL_REGISTRY.kind];
    let known = schemas.kinds_of(&kind.group);
    let siblings = other_kinds.iter().map(AsRef::as_ref).filter(|_| kind.group == Kind::PROVIDER.group);
    let kinds: Vec<&str> = known.chain(siblings).collect();
    let meant = if kinds.contains(&kind.kind.as_ref()) { None } else { nearest(&kind.kind, kinds) };
    if let Some(meant) = meant {
        let message = format!("{} has no kind `{}`", group_name(kind), kind.kind);
        refuse("kind", Problem::InvalidField, message, did_you_mean(meant));
    } else if !rules.grants_kind(kind) {
        let granted = rules.kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        refuse(
            "kind",
            Problem::NotGranted,
            format!("this source may not apply objects of the kind {}", KindRule::one(kind)),
            format!("add it to the setting `kinds` of the source, which grants: {granted}"),
        );
    } else if let Some(schema) = schemas.find(kind).filter(|known| known.kind.version != kind.version) {
        refuse(
            "apiVersion",
            Problem::InvalidField,
            format!("{} has no version {:?} that is known here", kind.kind, kind.version),
            format!("write `apiVersion: {}`", schema.kind.api_version()),
        );
    }
}

fn group_name(kind: &Kind) -> String {
    if kind.group.is_empty() { "the core group".to_owned() } else { format!("the group {}", kind.group) }
}

fn not_an_object(root: &Node) -> Finding {
    let is_empty = |key: &&str| root.get(key).is_none_or(|node| matches!(node.content, Content::Null));
    let missing: Vec<&str> = ["apiVersion", "kind"].into_iter().filter(is_empty).collect();
    let (field, message) = match missing[..] {
        [] => {
            let wrong = ["apiVersion", "kind"].into_iter().find(|key| root.text(key).is_none_or(str::is_empty));
            let wrong = wrong.unwrap_or("kind");
            (wrong, format!("{wrong} must be a text that is not empty"))
        }
        [one] => ("", format!("this is no Kubernetes object: `{one}` is missing")),
        _ => ("", "this is no Kubernetes object: `apiVersion` and `kind` are missing".to_owned()),
    };
    Finding {
        at: root.locate(field),
        problem: Problem::NotAnObject,
        field: field.to_owned(),
        message,
        hint: Some("every .yaml, .yml and .json file under the path of the source is taken for manifests".to_owned()),
    }
}

/// The finding for a kustomization.
pub(super) fn kustomization(root: &Node) -> Finding {
    Finding {
        at: root.locate("kind"),
        problem: Problem::Unsupported,
        field: String::new(),
        message: "this is a kustomization, and Serin needs rendered manifests".to_owned(),
        hint: Some("commit the output of `kustomize build`, and point the path of the source to it".to_owned()),
    }
}

/// Makes the object that is applied from its document: the namespace filled in, without what is the cluster's to say.
/// The findings are about what was left out.
pub(super) fn to_object(root: &Node, key: &ObjectKey, schemas: &Schemas) -> (Option<Object>, Vec<Finding>) {
    let mut value = root.clone().into_value();
    let mut findings = Vec::new();
    let mut left_out = |field: String, was_null: bool| {
        if !was_null {
            findings.push(Finding {
                at: root.locate(&field),
                problem: Problem::Suspicious,
                message: "this is for the cluster to say, and is not applied".to_owned(),
                hint: Some("remove it".to_owned()),
                field,
            });
        }
    };
    if let Value::Object(fields) = &mut value {
        if let Some(status) = fields.remove("status") {
            let is_empty = status.is_null() || status.as_object().is_some_and(serde_json::Map::is_empty);
            left_out("status".to_owned(), is_empty);
        }
        if let Some(schema) = schemas.find(&key.kind) {
            for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
                if let Some(schema) = schema.schema.properties.get(name) {
                    prune_nulls(value, schema);
                }
            }
        }
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            for name in SERVER_FIELDS {
                if let Some(value) = metadata.remove(name) {
                    left_out(format!("metadata.{name}"), value.is_null());
                }
            }
            if !key.namespace.is_empty() {
                metadata.insert("namespace".to_owned(), Value::String(key.namespace.clone()));
            }
        }
        if let Some(metadata) = fields.get_mut("metadata") {
            prune_nulls(metadata, &schemas.metadata);
        }
    }
    (Object::from_value(value).ok(), findings)
}

/// The syntax of labels and annotations, and the keys of a ConfigMap.
pub(super) fn check_keys_of_maps(root: &Node, key: &ObjectKey) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |at, field: String, message: String| {
        findings.push(Finding { at, problem: Problem::InvalidField, field, message, hint: None });
    };
    let metadata = root.get("metadata");
    for map in ["labels", "annotations"] {
        let Some(Content::Map(entries)) = metadata.and_then(|m| m.get(map)).map(|node| &node.content) else { continue };
        for entry in entries {
            let field = format!("metadata.{map}[{}]", entry.key);
            if let Some(why) = names::why_no_qualified_name(&entry.key) {
                report(entry.key_at, field, format!("{} is no key of {map}: {why}", shorten(&entry.key)));
            } else if map == "labels"
                && let Content::Text(text) = &entry.value.content
                && let Some(why) = names::why_no_label_value(text)
            {
                report(entry.value.at, field, format!("{} is no value of a label: {why}", shorten(text)));
            }
        }
    }
    if key.kind != Kind::CONFIG_MAP {
        return findings;
    }
    let data: HashSet<&str> = match root.get("data").map(|node| &node.content) {
        Some(Content::Map(entries)) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => HashSet::new(),
    };
    for map in ["data", "binaryData"] {
        let Some(Content::Map(entries)) = root.get(map).map(|node| &node.content) else { continue };
        for entry in entries {
            let is_key = !entry.key.is_empty()
                && entry.key.len() <= 253
                && !matches!(entry.key.as_str(), "." | "..")
                && entry.key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            if !is_key {
                let message = format!(
                    "{} is no key of a ConfigMap: it may have only letters, digits, -, _ and .",
                    shorten(&entry.key)
                );
                report(entry.key_at, format!("{map}[{}]", entry.key), message);
            } else if map == "binaryData" && data.contains(entry.key.as_str()) {
                report(entry.key_at, format!("{map}[{}]", entry.key), "this key is also in `data`".to_owned());
            }
        }
    }
    findings
}
