//! An object as people see it in a difference: without what the server keeps for itself, and without secrets.

use std::time::Duration;

use serde_json::{Map, Value};
use similar::TextDiff;

use crate::api::names::RECORD_ANNOTATION;
use crate::apply::SERVER_METADATA;
use crate::object::Object;

/// What stands for a secret that is the same on both sides, or on one only.
const MASK: &str = "***";
/// What stands for secrets that differ.
const MASKS: [&str; 2] = ["*** (before)", "*** (after)"];
/// kubectl keeps the whole object in it, with all that is to be masked.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How long to look for the shortest difference of one object; after that, a longer one that is true as well is shown. Only
/// objects of the largest size that have nothing in common take so long.
const LONGEST_SEARCH: Duration = Duration::from_secs(1);
/// Lines around a change.
const CONTEXT: usize = 3;

/// The texts of an object before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    before: Option<String>,
    after: Option<String>,
}

impl Shown {
    /// Of an object that is not there `before`, or not `after`.
    pub(super) fn of(before: Option<&Object>, after: Option<&Object>) -> Self {
        let mut sides = [before.map(without_noise), after.map(without_noise)];
        let is_secret = before.or(after).is_some_and(|object| object.key().kind.is_secret());
        if is_secret {
            mask_fields(&mut sides, &["data"]);
            mask_fields(&mut sides, &["stringData"]);
        }
        mask_field(&mut sides, &["metadata", "annotations"], LAST_APPLIED);
        let [before, after] = sides.map(|side| side.map(|fields| yaml(&Value::Object(fields))));
        Self { before, after }
    }

    /// Whether there is nothing to see.
    pub(super) fn is_same(&self) -> bool {
        self.before == self.after
    }

    /// The unified difference, without a header for files.
    pub(super) fn diff(&self) -> String {
        let text = |side: &Option<String>| side.clone().unwrap_or_default();
        let (before, after) = (text(&self.before), text(&self.after));
        let diff = TextDiff::configure().timeout(LONGEST_SEARCH).diff_lines(&before, &after);
        diff.unified_diff().context_radius(CONTEXT).missing_newline_hint(false).to_string()
    }
}

fn without_noise(object: &Object) -> Map<String, Value> {
    let mut fields = object.fields().clone();
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|name, _| {
            let is_identity = ["name", "namespace"].contains(&name.as_str());
            is_identity || !SERVER_METADATA.contains(&name.as_str())
        });
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(RECORD_ANNOTATION);
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    fields
}

fn at<'a>(fields: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(fields, |fields, name| fields.get_mut(*name)?.as_object_mut())
}

fn mask_fields(sides: &mut [Option<Map<String, Value>>; 2], path: &[&str]) {
    let mut names: Vec<String> = Vec::new();
    for fields in sides.iter_mut().flatten() {
        match at(fields, path) {
            Some(map) => names.extend(map.keys().cloned()),
            // Not a map: no server takes it, but a file may say it.
            None => {
                if let ([name], true) = (path, fields.contains_key(path[0])) {
                    fields.insert((*name).to_owned(), MASK.into());
                }
            }
        }
    }
    names.iter().for_each(|name| mask_field(sides, path, name));
}

fn mask_field(sides: &mut [Option<Map<String, Value>>; 2], path: &[&str], name: &str) {
    let values: Vec<Option<Value>> =
        sides.iter_mut().map(|side| at(side.as_mut()?, path)?.get(name).cloned()).collect();
    let differ = matches!(&values[..], [Some(before), Some(after)] if before != after);
    for (side, changed) in sides.iter_mut().zip(MASKS) {
        if let Some(value) = side.as_mut().and_then(|side| at(side, path)).and_then(|map| map.get_mut(name)) {
            *value = if differ { changed } else { MASK }.into();
        }
    }
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn what_the_server_keeps_for_itself_is_not_shown() {
        let before = object(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}],
                "annotations": {"serin.dev/rollout": "{}"},
            },
            "data": {"x": "1", "text": "one\ntwo\n"},
            "status": {"seen": true},
        }));
        let mut after = before.clone();
        after.set(&["metadata", "resourceVersion"], "8");
        after.set(&["status"], json!({"seen": false}));
        assert!(Shown::of(Some(&before), Some(&after)).is_same());
        after.set(&["data", "text"], "one\n2\n");
        assert_snapshot!(Shown::of(Some(&before), Some(&after)).diff(), @r#"
        @@ -2,7 +2,7 @@
         data:
           text: |
             one
        -    two
        +    2
           x: "1"
         kind: ConfigMap
         metadata:
        "#);
    }

    #[test]
    fn values_of_secrets_are_masked_and_a_change_is_still_seen() {
        let secret = |data: Value, annotation: &str| {
            object(json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "a", "annotations": {LAST_APPLIED: annotation}},
                "data": data,
                "stringData": {"plain": "hush5"},
            }))
        };
        let before = secret(json!({"a": "hush1", "b": "hush2", "c": "hush3"}), "hush6");
        let after = secret(json!({"a": "hush1", "b": "hush4", "d": "hush3"}), "hush7");
        let shown = Shown::of(Some(&before), Some(&after));
        assert!(!shown.is_same());
        assert_snapshot!(shown.diff(), @r#"
        @@ -1,12 +1,12 @@
         apiVersion: v1
         data:
           a: "***"
        -  b: "*** (before)"
        -  c: "***"
        +  b: "*** (after)"
        +  d: "***"
         kind: Secret
         metadata:
           annotations:
        -    kubectl.kubernetes.io/last-applied-configuration: "*** (before)"
        +    kubectl.kubernetes.io/last-applied-configuration: "*** (after)"
           name: a
         stringData:
           plain: "***"
        "#);
        for shown in [shown, Shown::of(None, Some(&after)), Shown::of(Some(&before), None)] {
            assert!(!shown.diff().contains("hush"), "{}", shown.diff());
        }
        let broken = object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": "hush"}));
        assert!(!Shown::of(None, Some(&broken)).diff().contains("hush"));
        assert!(Shown::of(Some(&before), Some(&before)).is_same());
    }

    #[test]
    fn a_map_of_another_kind_is_not_masked() {
        let of = |group: &str| {
            let fields =
                json!({"apiVersion": group, "kind": "Secret", "metadata": {"name": "a"}, "data": {"x": "seen"}});
            Shown::of(None, Some(&object(fields))).diff().contains("seen")
        };
        assert!(of("example.com/v1"));
        assert!(!of("v1"));
    }
}
