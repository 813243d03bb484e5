//! Several files together.

use super::*;
use crate::manifest::{Diagnostic, Problem};
use crate::object::ObjectKey;

#[test]
fn the_same_object_in_two_places_is_applied_from_neither() {
    let a = load_with("a.yaml", format!("---\n{AGENT}").as_bytes(), &Rules::default());
    let b = load_with("b/b.yaml", AGENT.as_bytes(), &Rules::default());
    let forward = assemble([&a, &b]);
    insta::assert_snapshot!(render(&forward), @r"
    a.yaml:5:9: metadata.name: AgentRuntime production/support-agent is also in b/b.yaml:4:9: neither is applied
      5 |   name: support-agent
        |         ^^^^^^^^^^^^^
      hint: remove all but one, or give them other names or namespaces
    b/b.yaml:4:9: metadata.name: AgentRuntime production/support-agent is also in a.yaml:5:9: neither is applied
      4 |   name: support-agent
        |         ^^^^^^^^^^^^^
      hint: remove all but one, or give them other names or namespaces
    ");
    let (objects, held) = summary(&forward);
    assert_eq!(objects, Vec::<String>::new());
    assert_eq!(held, ["AgentRuntime production/support-agent"]);
    assert_eq!(forward, assemble([&b, &a]));
}

#[test]
fn an_object_that_is_there_twice_is_held_also_if_one_of_the_two_is_invalid() {
    let broken = AGENT.replace("replicas: 4", "replicas: -4");
    let desired = desired(&format!("{AGENT}---\n{broken}"));
    assert!(desired.objects.is_empty());
    assert_eq!(desired.held.len(), 1);
    assert_eq!(desired.problems.iter().filter(|p| p.problem == Problem::Duplicate).count(), 2);
}

#[test]
fn one_name_in_two_namespaces_or_kinds_is_two_objects() {
    let other = AGENT.replace("production", "staging");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: support-agent, namespace: production }\n";
    let desired = desired(&format!("{AGENT}---\n{other}---\n{map}"));
    assert_eq!(render(&desired), "");
    assert_eq!(desired.objects.len(), 3);
}

#[test]
fn what_changed_since_another_commit_is_told() {
    let named = |name: &str| AGENT.replace("support-agent", name);
    let load = |file: &str, text: &str| load_with(file, text.as_bytes(), &Rules::default());
    let (kept, edited, gone) =
        (load("a.yaml", &named("kept")), load("b.yaml", &named("edited")), load("c.yaml", &named("gone")));
    let before = assemble([&kept, &edited, &gone]);
    let (edited, broken) = (
        load("b.yaml", &named("edited").replace("replicas: 4", "replicas: 5")),
        load("d.yaml", &named("broken").replace("replicas: 4", "replicas: -4")),
    );
    let after = assemble([&kept, &edited, &load("e.yaml", &named("new")), &broken]);
    let names = |(changed, gone): (Vec<(&ObjectKey, _)>, Vec<&ObjectKey>)| {
        let name = |key: &ObjectKey| key.name.clone();
        (changed.into_iter().map(|(key, _)| name(key)).collect::<Vec<_>>(), gone.into_iter().map(name).collect())
    };
    let told: (Vec<String>, Vec<String>) = names(after.changes_since(&before));
    assert_eq!(told, (vec!["edited".to_owned(), "new".to_owned()], vec!["gone".to_owned()]));
    // What can no longer be read is left alone; when it is valid again it is new.
    let told: (Vec<String>, Vec<String>) = names(before.changes_since(&after));
    assert_eq!(told.0, ["edited", "gone"]);
    assert_eq!(told.1, ["new", "broken"]);
    let told: (Vec<String>, Vec<String>) = names(after.changes_since(&after));
    assert_eq!(told, (Vec::new(), Vec::new()));
}

#[test]
fn a_candidate_that_would_be_called_like_another_agent_is_refused() {
    let rolling = format!("{AGENT}  rollout: {{ steps: [{{ setWeight: 100 }}], trafficRouting: {{}} }}\n");
    let other = AGENT.replace("support-agent", "support-agent-canary");
    let desired = desired(&format!("{rolling}---\n{other}"));
    insta::assert_snapshot!(render(&desired), @r#"
    agent.yaml:4:9: metadata.name: its candidate would be called "support-agent-canary", as the agent in agent.yaml:15:9 is
      4 |   name: support-agent
        |         ^^^^^^^^^^^^^
      hint: give one of the two another name, or remove `spec.rollout` here
    "#);
    let (objects, held) = summary(&desired);
    assert_eq!(objects, ["AgentRuntime production/support-agent-canary"]);
    assert_eq!(held, ["AgentRuntime production/support-agent"]);
    assert_eq!(problems(&format!("{AGENT}---\n{other}")), "");
}

#[test]
fn problems_are_ordered_by_file_and_place() {
    let broken = AGENT.replace("replicas: 4", "replicas: -4").replace("1.0.0", "true");
    let files = [
        load_with("b.yaml", broken.as_bytes(), &Rules::default()),
        load_with("a.yaml", broken.replace("support-agent", "other").as_bytes(), &Rules::default()),
    ];
    let places: Vec<String> = assemble(&files)
        .problems
        .iter()
        .map(|p| format!("{}:{}:{}", p.file, p.position.line, p.position.column))
        .collect();
    assert_eq!(places, ["a.yaml:8:49", "a.yaml:9:24", "b.yaml:8:49", "b.yaml:9:24"]);
}

#[test]
fn a_problem_has_plain_fields_for_programs() {
    let desired = desired(&AGENT.replace("replicas: 4", "replicas: -4"));
    let json = serde_json::to_string_pretty(&desired.problems[0]).unwrap();
    insta::assert_snapshot!(json, @r#"
    {
      "file": "agent.yaml",
      "line": 9,
      "column": 24,
      "severity": "error",
      "problem": "invalid-field",
      "object": "AgentRuntime production/support-agent",
      "field": "spec.runtime.replicas",
      "message": "it must be at least 0, got -4",
      "hint": null,
      "snippet": {
        "text": "  runtime: { replicas: -4 }",
        "mark": 23,
        "mark_len": 2
      }
    }
    "#);
}

#[test]
fn what_is_loaded_can_be_kept_and_put_together_again() {
    let file = load_with("a.yaml", AGENT.as_bytes(), &Rules::default());
    let kept = file.clone();
    assert_eq!(kept, file);
    assert_eq!(assemble([&kept]), assemble([&file]));
    assert!(file.problems().iter().all(|p: &Diagnostic| !p.is_error()));
}

#[test]
fn a_file_of_many_documents_is_read_in_time_that_grows_with_its_size() {
    // Some 700 KB in 2 300 documents: it would take minutes if anything in it were quadratic.
    let text: String =
        (0..2_300).map(|i| format!("{}---\n", AGENT.replace("support-agent", &format!("agent-{i}")))).collect();
    assert!(text.len() > 500_000);
    let desired = desired(&text);
    assert_eq!(desired.objects.len(), 2_300);
    assert_eq!(desired.objects.values().map(|located| located.origin.line).max(), Some(2_299 * 10 + 1));
}

#[test]
fn an_object_in_very_many_places_is_told_a_few_times_and_held_everywhere() {
    let map = |version: usize| format!("---\napiVersion: v{version}\nkind: ConfigMap\nmetadata: {{ name: x }}\n");
    let files: Vec<_> =
        (0..200).map(|i| load_with(&format!("{i:03}.yaml"), map(1).repeat(20).as_bytes(), &Rules::default())).collect();
    let desired = assemble(&files);
    assert_eq!(summary(&desired), (vec![], vec!["ConfigMap default/x".to_owned()]));
    assert_eq!(desired.problems.len(), 10);
    assert!(
        desired.problems[0].message.ends_with(" and 3989 other places: none of them is applied"),
        "{}",
        desired.problems[0]
    );
}

#[test]
fn what_follows_a_change_is_what_a_newcomer_puts_together() {
    let rolling = format!("{AGENT}  rollout: {{ steps: [{{ setWeight: 100 }}], trafficRouting: {{}} }}\n");
    let named = |text: &str, name: &str| text.replace("support-agent", name);
    let map =
        |version: &str, name: &str| format!("apiVersion: {version}\nkind: ConfigMap\nmetadata: {{ name: {name} }}\n");
    let documents = [
        named(AGENT, "a"),
        named(&rolling, "a"),
        named(AGENT, "a-canary"),
        named(&rolling, "a-canary"),
        named(&rolling, "a-canary-canary"),
        named(AGENT, "a").replace("replicas: 4", "replicas: -4"),
        map("v1", "x"),
        map("v2", "x"),
        "[\n".to_owned(),
        "# nothing\n".to_owned(),
    ];
    // A linear congruential generator: every run is the same.
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut files: std::collections::BTreeMap<TreePath, LoadedFile> = std::collections::BTreeMap::new();
    let mut assembly = Assembly::default();
    let (mut collisions, mut duplicates) = (0, 0);
    for _ in 0..500 {
        let (mut gone, mut read) = (Vec::new(), Vec::new());
        for _ in 0..=below(2) {
            let path = format!("{}.yaml", ["a", "b", "c", "d"][below(4)]);
            let is_named = |other: &TreePath| other.as_str() == path;
            if gone.iter().any(is_named) || read.iter().any(|file: &LoadedFile| is_named(&file.path)) {
                continue;
            }
            if below(4) == 0 {
                gone.push(TreePath::new(path));
            } else {
                let text = (0..=below(3)).map(|_| documents[below(documents.len())].as_str()).collect::<Vec<_>>();
                read.push(load_with(&path, text.join("---\n").as_bytes(), &Rules::default()));
            }
        }
        gone.iter().for_each(|path| drop(files.remove(path)));
        files.extend(read.iter().map(|file| (file.path.clone(), file.clone())));
        let before = assembly.clone();
        assembly.update(&gone, read, Vec::new());
        let newcomer = assemble(files.values());
        assert_eq!(*assembly.desired(), newcomer, "{:?}", files.keys());
        let told = |problem| assembly.desired().problems.iter().filter(|told| told.problem == problem).count();
        (collisions, duplicates) = (collisions + told(Problem::Conflict), duplicates + told(Problem::Duplicate));
        // And what has changed is what differs.
        let (changed, gone) = newcomer.changes_since(before.desired());
        let objects = &before.desired().objects;
        let differs = |(key, now): &(&ObjectKey, &_)| objects.get(*key).is_none_or(|old| old != *now);
        assert_eq!(changed, newcomer.objects.iter().filter(differs).collect::<Vec<_>>());
        assert!(gone.iter().all(|key| !newcomer.objects.contains_key(*key) && !newcomer.held.contains(*key)));
    }
    assert!(collisions > 50 && duplicates > 50, "{collisions} {duplicates}");
}
