use serde_json::json;

use super::*;

const AGENT: &str = "\
apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata:
  name: support-agent
spec:
  list: [a, b]
  items:
    # one
    - name: one # first
      value: 1
    # two
    - name: two
      value: 2
  text: plain
";

fn key() -> ObjectKey {
    ObjectKey::new(Kind::AGENT_RUNTIME, "production", "support-agent")
}

fn run(text: &str, changes: &[Change]) -> Result<String, Blocked> {
    let key = key();
    let target = Target { key: &key, default_namespace: "production" };
    let file = TreePath::new("agent.yaml");
    let edited = open(&file, text.as_bytes(), target)?.edit(changes, &[])?;
    Ok(String::from_utf8(edited).unwrap())
}

#[track_caller]
fn check(changes: &[Change], old: &str, new: &str) {
    assert!(AGENT.contains(old));
    assert_eq!(run(AGENT, changes).unwrap(), AGENT.replace(old, new));
}

#[test]
fn no_difference_changes_no_byte() {
    let changes = [Change::set(&["spec", "text"], "plain"), Change::remove(&["spec", "nothing", "here"])];
    assert_eq!(run(AGENT, &changes).unwrap(), AGENT);
}

#[test]
fn values_of_every_kind_replace_each_other() {
    let text = "  text: plain\n";
    let path = ["spec", "text"];
    check(&[Change::set(&path, json!(5))], text, "  text: 5\n");
    check(&[Change::set(&path, json!(null))], text, "  text: null\n");
    check(&[Change::set(&path, json!({}))], text, "  text: {}\n");
    check(&[Change::set(&path, json!([]))], text, "  text: []\n");
    check(
        &[Change::set(&path, json!(["a", {"k": [1], "name": "m"}]))],
        text,
        "  text:\n    - a\n    - name: m\n      k:\n        - 1\n",
    );
    check(&[Change::set(&path, json!({"b": {"c": "yes"}}))], text, "  text:\n    b:\n      c: \"yes\"\n");
    check(&[Change::set(&path, "two\nlines")], text, "  text: \"two\\nlines\"\n");
    check(&[Change::set(&["spec", "list"], "x")], "  list: [a, b]\n", "  list: x\n");
    let items = &AGENT[AGENT.find("  items").unwrap()..AGENT.find("  text").unwrap()];
    check(&[Change::set(&["spec", "items"], "x")], items, "  items: x\n    # one\n");
    check(&[Change::set(&["spec", "items"], json!({"a": 1}))], items, "  items:\n    # one\n    a: 1\n");
}

#[test]
fn lists_change_item_by_item() {
    let list = "  list: [a, b]\n";
    check(&[Change::set(&["spec", "list"], json!(["b"]))], list, "  list: [b]\n");
    check(&[Change::set(&["spec", "list"], json!(["a"]))], list, "  list: [a]\n");
    check(&[Change::set(&["spec", "list"], json!(["x", "a", "w", "b", "z"]))], list, "  list: [x, a, w, b, z]\n");
    check(&[Change::set(&["spec", "list"], json!(["c"]))], list, "  list: [c]\n");
    let items = |value: Value| [Change::set(&["spec", "items"], value)];
    let two = "    - name: two\n      value: 2\n";
    check(&items(json!([{"name": "one", "value": 1}])), two, "");
    check(&items(json!([{"name": "one", "value": 1}, {"name": "two", "value": 3}])), "value: 2", "value: 3");
    check(&items(json!([{"name": "one", "value": 1}, {"name": "two"}])), "      value: 2\n", "");
    // The name shares its line with the dash, so the item is written anew.
    check(
        &items(json!([{"value": 1}, {"name": "two", "value": 2}])),
        "    - name: one # first\n      value: 1\n",
        "    - value: 1\n",
    );
}

#[test]
fn maps_on_the_way_are_made() {
    let changes = [Change::set(&["metadata", "annotations", "a.b/c"], "1.10")];
    check(&changes, "  name: support-agent\n", "  name: support-agent\n  annotations:\n    a.b/c: \"1.10\"\n");
    let changes = [Change::set(&["status", "x"], true)];
    check(&changes, "  text: plain\n", "  text: plain\nstatus:\n  x: true\n");
}

#[test]
fn a_blocked_edit_says_file_and_line() {
    let text = AGENT.replace("text: plain", "text: &x plain\n  again: *x");
    let blocked = run(&text, &[Change::set(&["spec", "text"], "other")]).unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "agent.yaml:14: spec.text is anchored as &x and used again at line 15, which the edit would change too"
    );
    let blocked = run(&AGENT.replace("plain", "\"{{ x }}\""), &[Change::set(&["spec", "text"], "other")]).unwrap_err();
    assert_eq!(blocked.line, Some(14));
    assert!(blocked.why.contains("template"), "{blocked}");
    let blocked = run("kind: Nothing\n", &[]).unwrap_err();
    assert_eq!(blocked.to_string(), "agent.yaml: AgentRuntime production/support-agent is not in this file");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let key = key();
    let target = Target { key: &key, default_namespace: "production" };
    let file = TreePath::new("agent.yaml");
    let blocked = open(&file, b"a: 1\nb: \xff\n", target).unwrap_err();
    assert_eq!(blocked.to_string(), "agent.yaml:2: the file is not valid UTF-8");
}

#[test]
fn the_net_catches_an_edit_that_says_something_else() {
    assert!(verify::documents("a: 1\n", &[json!({"a": 1})]).is_ok());
    assert_eq!(
        verify::documents("a: {b: [1, 2]}\n", &[json!({"a": {"b": [1, 3]}})]),
        Err("the edit would also change a.b[1], so it was not made".to_owned())
    );
    assert!(verify::documents("a: 1\n---\nb: 2\n", &[json!({"a": 1})]).is_err());
    assert!(verify::documents("a: [\n", &[json!({"a": 1})]).is_err());
    let splice = lines::Splice { start: 5, end: 9, text: "b: 3".to_owned() };
    assert!(verify::other_lines("a: 1\nb: 2\nc: 3\n", "a: 1\nb: 3\nc: 3\n", std::slice::from_ref(&splice)).is_ok());
    assert_eq!(
        verify::other_lines("a: 1\nb: 2\nc: 3\n", "a: 1\nb: 3\n", &[splice]),
        Err("the edit would also change line 3, so it was not made".to_owned())
    );
}

#[test]
fn new_lines_end_as_their_neighbours_do() {
    let mixed = AGENT.replace("  name: support-agent\n", "  name: support-agent\r\n");
    let changes = [Change::set(&["metadata", "labels"], json!({"a": "b"})), Change::set(&["spec", "more"], 1)];
    let edited = run(&mixed, &changes).unwrap();
    assert!(edited.contains("  name: support-agent\r\n  labels:\r\n    a: b\r\nspec:\n"), "{edited:?}");
    assert!(edited.ends_with("  text: plain\n  more: 1\n"), "{edited:?}");
}

#[test]
fn hostile_files_are_refused_and_not_suffered() {
    let deep = format!("{AGENT}deep: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert!(run(&deep, &[]).unwrap_err().why.contains("cannot be parsed"));
    let laughs: String =
        (1..12).map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "))).collect();
    let laughs = format!("---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n{laughs}");
    assert!(run(&format!("{AGENT}{laughs}"), &[]).unwrap_err().why.contains("cannot be parsed"));
}

#[test]
fn numbers_are_read_as_kubectl_reads_them() {
    let documents =
        data::parse("{a: 0777, b: 1e3, c: 1., d: 2.5, e: yes, f: 12:30:45, g: 2024-01-01, h: 0x1F}").unwrap();
    let expected =
        json!({"a": 511, "b": 1000, "c": 1, "d": 2.5, "e": true, "f": "12:30:45", "g": "2024-01-01", "h": 31});
    assert_eq!(documents, [expected]);
}
