//! From a decision to the new text of the manifest that it is about.
//!
//! A decision is made at one commit and written on another: between the two a person may have done the same
//! by hand, or changed the candidate. So the manifest is asked first whether the decision still
//! applies, and all three answers are outcomes, not errors.

use serde_json::{Map, Value};

use crate::api::names;
use crate::ids::TreePath;
use crate::object::ObjectKey;
use crate::rollout::decision::{Decision, Outcome, RollbackReason};

use super::edit::{self, Blocked, Change, Target};

/// What a decision means for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The file gets these contents.
    Edit {
        /// The file.
        path: TreePath,
        /// Its whole new contents.
        contents: Vec<u8>,
    },
    /// The manifest says it already: there is nothing to commit.
    AlreadyTrue,
    /// The decision no longer applies, because a person changed the candidate or what it was tried against.
    Void {
        /// A sentence for people.
        why: String,
    },
    /// It applies, and the file cannot be edited safely.
    Blocked(Blocked),
}

/// What a decision means for an object's data, whatever the object is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedChanges {
    /// These changes say it; never empty.
    Changes(Vec<Change>),
    /// As [`Planned::AlreadyTrue`].
    AlreadyTrue,
    /// As [`Planned::Void`].
    Void {
        /// A sentence for people.
        why: String,
    },
}

/// The keys that an edit may add, in the order in which people write them.
const USUAL_ORDER: [&str; 9] =
    ["name", "namespace", "labels", "annotations", "version", "track", "promptPackRef", "providers", "toolRegistryRef"];

/// Where the values of `rollout.candidate` go at promotion (reference 4.7): field of the candidate, field of
/// the spec.
const OVERRIDES: [(&str, &str); 3] =
    [("promptPackRef", "promptPackRef"), ("providerRefs", "providers"), ("toolRegistryRef", "toolRegistryRef")];

/// Plans what `decision` changes in `file`, whose contents are `text`. Several decisions about one file are
/// planned one after the other, each on the contents that the one before has left.
///
/// `default_namespace` is the namespace of objects that say none: the source's.
pub fn plan(decision: &Decision, file: &TreePath, text: &[u8], default_namespace: &str) -> Planned {
    let key = ObjectKey::agent(&decision.agent);
    let target = Target { key: &key, default_namespace };
    let manifest = match edit::open(file, text, target) {
        Ok(manifest) => manifest,
        Err(blocked) => return Planned::Blocked(blocked),
    };
    match plan_changes(decision, manifest.object()) {
        PlannedChanges::Changes(changes) => match manifest.edit(&changes, &USUAL_ORDER) {
            Ok(contents) => Planned::Edit { path: file.clone(), contents },
            Err(blocked) => Planned::Blocked(blocked),
        },
        PlannedChanges::AlreadyTrue => Planned::AlreadyTrue,
        PlannedChanges::Void { why } => Planned::Void { why },
    }
}

/// Plans what `decision` changes in an AgentRuntime's data: of a manifest, or of an object that somebody
/// applied by hand.
pub fn plan_changes(decision: &Decision, manifest: &Value) -> PlannedChanges {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let candidate = spec.pointer("/rollout/candidate").filter(|candidate| !candidate.is_null());
    let void = |why: &str| PlannedChanges::Void { why: format!("{}: {why}", decision.agent) };
    match (&decision.outcome, candidate) {
        (Outcome::Promoted, None) => {
            if promotion_changes(&decision.candidate, spec).is_empty() {
                PlannedChanges::AlreadyTrue
            } else {
                void("the candidate was removed from the manifest before its promotion was written")
            }
        }
        (Outcome::RolledBack(_), None) => PlannedChanges::AlreadyTrue,
        (_, Some(candidate)) if !is_same(candidate, &decision.candidate) => {
            void("the manifest holds another candidate than the one that was decided about")
        }
        (Outcome::Promoted, Some(_)) if !is_same(&trial(spec), &decision.trial) => {
            void("the steps or the routing were changed since the candidate was tried")
        }
        (Outcome::Promoted, Some(candidate)) => {
            let mut changes = promotion_changes(candidate, spec);
            if !changes.is_empty() && !is_same(&base(spec), &decision.base) {
                return void("the spec was changed since the candidate was tried against it");
            }
            changes.push(removal());
            PlannedChanges::Changes(changes)
        }
        (Outcome::RolledBack(reason), Some(_)) => {
            let mut changes = vec![removal()];
            match (reason, &decision.pinned_version) {
                (RollbackReason::PodUnhealthy, Some(version)) => {
                    let path = ["metadata", "annotations", names::LAST_ROLLED_BACK_ANNOTATION];
                    changes.push(Change::set(&path, version.as_str()));
                }
                // What people undo themselves is not marked as failed.
                (RollbackReason::PodUnhealthy, None)
                | (RollbackReason::Withdrawn | RollbackReason::Superseded | RollbackReason::PromotionReverted, _) => {}
            }
            PlannedChanges::Changes(changes)
        }
    }
}

/// The same changes of `object` as a JSON merge patch (RFC 7396), for an object that is in no repository.
pub fn merge_patch(object: &Value, changes: &[Change]) -> Value {
    let mut wanted = object.clone();
    for change in changes {
        change.apply(&mut wanted);
    }
    patch_between(object, &wanted)
}

fn patch_between(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(old) if old == value => {}
            Some(old) => {
                patch.insert(key.clone(), patch_between(old, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// `promptPackRef`, `providers` and `toolRegistryRef` of a spec as far as they are set: what
/// [`Decision::base`] holds.
pub fn base(spec: &Value) -> Value {
    let fields = OVERRIDES.iter().filter_map(|(_, field)| Some(((*field).to_owned(), spec.get(*field)?.clone())));
    Value::Object(fields.filter(|(_, value)| !value.is_null()).collect())
}

/// `steps` and `trafficRouting` of a spec's rollout as far as they are set: what [`Decision::trial`] holds.
pub fn trial(spec: &Value) -> Value {
    let rollout = spec.get("rollout").unwrap_or(&Value::Null);
    let fields = ["steps", "trafficRouting"].into_iter();
    Value::Object(fields.filter_map(|field| Some((field.to_owned(), rollout.get(field)?.clone()))).collect())
}

/// Whether two candidates, or two bases, say the same: what is absent, empty, or the default that an API
/// server fills in, makes no difference.
pub fn is_same(a: &Value, b: &Value) -> bool {
    normal(a) == normal(b)
}

fn removal() -> Change {
    Change::remove(&["spec", "rollout", "candidate"])
}

/// The fields of the spec that promoting `candidate` changes.
fn promotion_changes(candidate: &Value, spec: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    for (from, to) in OVERRIDES {
        let is_override = |value: &&Value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
        let Some(value) = candidate.get(from).filter(is_override) else { continue };
        if !spec.get(to).is_some_and(|old| is_same(old, value)) {
            changes.push(Change::set(&["spec", to], value.clone()));
        }
    }
    changes
}

fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let says_something = |key: &str, value: &Value| match value {
                Value::Null => false,
                Value::String(text) => !(text.is_empty() || key == "role" && text == "llm"),
                Value::Array(items) => !items.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
            };
            let fields = map.iter().filter(|(key, value)| says_something(key, value));
            Value::Object(fields.map(|(key, value)| (key.clone(), normal(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
