//! Manifests in the styles that people write, each with a promotion and a rollback.
//!
//! The intended value is computed here a second time, on plain JSON, and the golden diffs show the rest: which
//! lines change, and that no other line does.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use serin::ids::{AgentKey, RolloutId, TreePath};
use serin::object::ObjectKey;
use serin::rollout::decision::{Decision, Outcome, RollbackReason};
use serin::writeback::edit::{Change, Target, open};
use serin::writeback::plan::{Planned, plan};
use similar::{ChangeTag, TextDiff};

const DEFAULT_NAMESPACE: &str = "production";

/// A way to write the same file.
struct Variant {
    name: &'static str,
    write: fn(&str) -> String,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "as it is", write: str::to_owned },
    Variant { name: "CRLF", write: |text| text.replace('\n', "\r\n") },
    Variant { name: "byte order mark", write: |text| format!("\u{feff}{text}") },
    Variant { name: "CRLF and byte order mark", write: |text| format!("\u{feff}{}", text.replace('\n', "\r\n")) },
];

#[test]
fn every_manifest_changes_in_exactly_what_the_decision_says() {
    let corpus = corpus();
    assert!(corpus.len() >= 60, "{} manifests", corpus.len());
    let mut failures = String::new();
    for (name, text) in &corpus {
        let mut golden = String::new();
        for outcome in [Outcome::Promoted, Outcome::RolledBack(RollbackReason::PodUnhealthy)] {
            let decision = decision(text, outcome.clone());
            let planned = plan(&decision, &TreePath::new(name.as_str()), text.as_bytes(), DEFAULT_NAMESPACE);
            let _ = writeln!(golden, "## {}\n", outcome.as_str());
            match &planned {
                Planned::Edit { path, contents } => {
                    assert_eq!(path.as_str(), name);
                    let edited = std::str::from_utf8(contents).unwrap();
                    if let Err(why) = check_value(text, edited, outcome.clone()) {
                        let _ = writeln!(failures, "{name}, {}: {why}", outcome.as_str());
                    }
                    golden.push_str(&diff(text, edited));
                    check_variants(name, text, &decision, edited, &mut failures);
                    check_settled(name, &decision, edited, &mut failures);
                }
                Planned::Blocked(blocked) => {
                    let _ = writeln!(golden, "blocked: {blocked}");
                }
                Planned::AlreadyTrue | Planned::Void { .. } => {
                    let _ = writeln!(failures, "{name}, {}: {planned:?}", outcome.as_str());
                }
            }
            golden.push('\n');
        }
        let is_blocked = golden.contains("\nblocked: ");
        if is_blocked != name.starts_with("blocked-") {
            let _ = writeln!(failures, "{name}: is it blocked? {is_blocked}");
        }
        insta::with_settings!({snapshot_path => "../corpus", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name.as_str(), golden);
        });
    }
    assert!(failures.is_empty(), "{failures}");
}

fn corpus() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "json"));
    manifests
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

fn decision(text: &str, outcome: Outcome) -> Decision {
    // A file that cannot be parsed is decided about all the same: from an older state of it.
    let spec = documents(text)
        .ok()
        .and_then(|mut documents| agent(&mut documents).map(|agent| agent["spec"].take()))
        .unwrap_or_default();
    let mut base = json!({});
    for field in ["promptPackRef", "providers", "toolRegistryRef"] {
        if let Some(value) = spec.get(field) {
            base[field] = value.clone();
        }
    }
    Decision {
        agent: AgentKey::new("production", "support-agent"),
        rollout: RolloutId::new("r-1"),
        outcome,
        candidate: spec.pointer("/rollout/candidate").cloned().unwrap_or_default(),
        base,
        trial: serin::writeback::plan::trial(&spec),
        title: "support-pack 2.0.0".to_owned(),
        story: Vec::new(),
        pinned_version: Some("1.10".to_owned()),
    }
}

fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_saphyr::from_multiple::<Value>(text)
}

/// The agent that all decisions here are about.
fn agent(documents: &mut [Value]) -> Option<&mut Value> {
    let objects = documents.iter_mut().flat_map(|document| match document.get("items").is_some() {
        true => document["items"].as_array_mut().unwrap().iter_mut().collect::<Vec<_>>(),
        false => vec![document],
    });
    objects.into_iter().find(|object| {
        object["kind"] == "AgentRuntime"
            && object["metadata"]["name"] == "support-agent"
            && object["metadata"].get("namespace").is_none_or(|namespace| namespace == "production")
    })
}

/// What the decision means, without any code of the product.
fn check_value(before: &str, after: &str, outcome: Outcome) -> Result<(), String> {
    let mut expected = documents(before).unwrap();
    let object = agent(&mut expected).unwrap();
    let candidate = object["spec"]["rollout"].as_object_mut().unwrap().remove("candidate").unwrap();
    match outcome {
        Outcome::Promoted => {
            for (from, to) in [
                ("promptPackRef", "promptPackRef"),
                ("providerRefs", "providers"),
                ("toolRegistryRef", "toolRegistryRef"),
            ] {
                if candidate.get(from).is_some_and(|value| !value.is_null() && *value != json!([])) {
                    object["spec"][to] = candidate[from].clone();
                }
            }
        }
        Outcome::RolledBack(_) => {
            if object["metadata"]["annotations"].is_null() {
                object["metadata"]["annotations"] = json!({});
            }
            object["metadata"]["annotations"]["omnia.altairalabs.ai/last-rolled-back-version"] = json!("1.10");
        }
    }
    let found = documents(after).map_err(|error| error.to_string())?;
    if found == expected { Ok(()) } else { Err(format!("expected {expected:?}\nfound {found:?}")) }
}

/// The same edit in a file with other line ends, a mark at the start or no newline at the end is the same edit.
fn check_variants(name: &str, text: &str, decision: &Decision, edited: &str, failures: &mut String) {
    for Variant { name: variant, write } in VARIANTS {
        let planned = plan(decision, &TreePath::new(name), write(text).as_bytes(), DEFAULT_NAMESPACE);
        let expected = write(edited);
        // A CRLF inside a block scalar is one line break to a reader, so the data is the same.
        if !matches!(&planned, Planned::Edit { contents, .. } if *contents == expected.as_bytes()) {
            let _ = writeln!(failures, "{name}, {}, {variant}: {}", decision.outcome.as_str(), show(&planned));
        }
    }
    let Some(cut) = text.strip_suffix('\n') else { return };
    match plan(decision, &TreePath::new(name), cut.as_bytes(), DEFAULT_NAMESPACE) {
        Planned::Edit { contents, .. } => {
            let found = String::from_utf8(contents).unwrap();
            if found.trim_end_matches('\n') != edited.trim_end_matches('\n') {
                let _ = writeln!(failures, "{name}, {}, no newline: {found}", decision.outcome.as_str());
            }
        }
        planned => {
            let _ = writeln!(failures, "{name}, {}, no newline: {}", decision.outcome.as_str(), show(&planned));
        }
    }
}

/// The same decision on its own result has nothing left to say.
fn check_settled(name: &str, decision: &Decision, edited: &str, failures: &mut String) {
    let again = plan(decision, &TreePath::new(name), edited.as_bytes(), DEFAULT_NAMESPACE);
    if again != Planned::AlreadyTrue {
        let _ = writeln!(failures, "{name}, {}, again: {}", decision.outcome.as_str(), show(&again));
    }
}

fn show(planned: &Planned) -> String {
    match planned {
        Planned::Edit { contents, .. } => format!("edit\n{}", String::from_utf8_lossy(contents).escape_debug()),
        Planned::AlreadyTrue | Planned::Void { .. } | Planned::Blocked(_) => format!("{planned:?}"),
    }
}

/// Changed lines with one line around them.
fn diff(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut text = String::new();
    for (i, group) in diff.grouped_ops(1).iter().enumerate() {
        if i > 0 {
            text.push_str("...\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => "-",
                ChangeTag::Insert => "+",
                ChangeTag::Equal => " ",
            };
            let line = change.value();
            let _ = writeln!(text, "{sign}{}", line.trim_end_matches('\n'));
            if !line.ends_with('\n') {
                text.push_str("\\ no newline\n");
            }
        }
    }
    text
}

/// Sets and removes everything everywhere. The verification after an edit is a net: an edit that falls into it
/// was planned wrongly, even though nothing bad came of it.
#[test]
fn no_edit_of_any_place_needs_the_net() {
    let key = ObjectKey::agent(&AgentKey::new("production", "support-agent"));
    let target = Target { key: &key, default_namespace: DEFAULT_NAMESPACE };
    let values =
        [json!("1.10"), json!({"a": {"b": [1, "x"]}}), json!(7), json!([{"name": "a", "b": {}}, "c"]), json!({})];
    let (mut edits, mut blocked) = (0, 0);
    let mut failures = String::new();
    for (name, text) in corpus().into_iter().filter(|(name, _)| !name.starts_with("blocked-")) {
        let object = agent(&mut documents(&text).unwrap()).cloned().unwrap();
        let file = TreePath::new(name.as_str());
        let manifest = open(&file, text.as_bytes(), target).unwrap();
        let mut paths = Vec::new();
        map_paths(&object, &mut Vec::new(), &mut paths);
        for (i, path) in paths.iter().enumerate() {
            // Two values for each path in turn: all of them everywhere would take minutes and find the same.
            let values = [&values[i % values.len()], &values[(i + 2) % values.len()]];
            let changes = values.map(|value| Change::Set { path: path.clone(), value: value.clone() });
            for change in changes.into_iter().chain([Change::Remove { path: path.clone() }]) {
                let outcome = manifest.edit(std::slice::from_ref(&change), &[]);
                edits += 1;
                let Err(why) = outcome else { continue };
                blocked += 1;
                if why.why.ends_with("so it was not made") {
                    let _ = writeln!(failures, "{why}\n  {change:?}");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(edits > 2_000 && blocked * 20 < edits, "{blocked} of {edits} were blocked");
}

/// Every path of map keys in an object but those that name it, and one new key in each map.
fn map_paths(value: &Value, at: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        at.push(key.clone());
        if !matches!(at.join("/").as_str(), "apiVersion" | "kind" | "metadata" | "metadata/name" | "metadata/namespace")
        {
            paths.push(at.clone());
        }
        map_paths(value, at, paths);
        at.pop();
    }
    at.push("added".to_owned());
    paths.push(at.clone());
    at.pop();
}
