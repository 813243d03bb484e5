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
    let file = TreePath::new("a.yaml");
    let check = |old, new, index, intended| verify::documents(&file, old, new, index, &intended);
    assert_eq!(check("a: 0\n", "a: 1\n", 0, json!({"a": 1})), Ok(()));
    assert_eq!(check("a: 0\n---\n[\n", "a: 1\n---\n[\n", 0, json!({"a": 1})), Ok(()));
    let refused = |what| Err(format!("the edit would also change {what}, so it was not made"));
    assert_eq!(check("", "a: {b: [1, 2]}\n", 0, json!({})), refused("the number of documents"));
    assert_eq!(check("a: 0\n", "a: {b: [1, 2]}\n", 0, json!({"a": {"b": [1, 3]}})), refused("a.b[1]"));
    assert_eq!(check("a: 0\n", "a: 1\n---\nb: 2\n", 0, json!({"a": 1})), refused("the number of documents"));
    assert_eq!(check("a: 0\n---\nb: 2\n", "a: 1\n---\nb: 3\n", 0, json!({"a": 1})), refused("another document"));
    assert!(check("a: 0\n", "a: [\n", 0, json!({"a": 1})).unwrap_err().contains("cannot be read"));
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
    let laughs = format!("a0: &a0 [x, x, x, x, x, x, x, x, x]\n{laughs}");
    assert!(run(&format!("{AGENT}{laughs}"), &[]).unwrap_err().why.contains("cannot be parsed"));
}

#[test]
fn what_is_wrong_with_another_document_does_not_keep_the_edit_from_being_made() {
    let change = [Change::set(&["spec", "text"], "other")];
    let edited = AGENT.replace("plain", "other");
    for beside in ["a: [\n", "a: {{ .Values.a }}\n", "a: *nothing\n", "a: 1\na: 2\n", "kind: List\nitems: [\n"] {
        let (before, behind) = (format!("{beside}---\n{AGENT}"), format!("{AGENT}---\n{beside}"));
        assert_eq!(run(&before, &change).unwrap(), format!("{beside}---\n{edited}"));
        assert_eq!(run(&behind, &change).unwrap(), format!("{edited}---\n{beside}"));
    }
    let dots = format!("a: [\n...\n{AGENT}...\n# the end");
    assert_eq!(run(&dots, &change).unwrap(), format!("a: [\n...\n{edited}...\n# the end"));
    let marked = format!("\u{feff}# first\na: [\n---\n{AGENT}");
    assert_eq!(run(&marked, &change).unwrap(), format!("\u{feff}# first\na: [\n---\n{edited}"));
    let blocked = run("a: 1\n---\nkind: AgentRuntime\nmetadata: [\n", &change).unwrap_err();
    assert_eq!(blocked.line, Some(4), "{blocked}");
    let blocked = run(&format!("{AGENT}---\na: [\n---\n{AGENT}"), &change).unwrap_err();
    assert!(blocked.why.ends_with("is in this file 2 times"), "{blocked}");
}

#[test]
fn many_bombs_in_one_file_take_what_one_may_take() {
    let laughs: String =
        (1..5).map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "))).collect();
    let bomb = format!("---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n{laughs}");
    let mut left = data::MAX_NODES;
    let allowed = (0..1_000).take_while(|_| data::parse(&bomb, &mut left).is_ok()).count();
    assert!((10..200).contains(&allowed), "{allowed}");
    // What stands before them can be edited.
    let change = [Change::set(&["spec", "text"], "other")];
    let text = format!("{AGENT}{}", bomb.repeat(500));
    assert_eq!(run(&text, &change).unwrap(), text.replace("plain", "other"));
    assert!(run(&format!("{}---\n{AGENT}", bomb.repeat(500)), &change).unwrap_err().why.contains("cannot be parsed"));
}

#[test]
fn a_json_file_may_hold_several_values() {
    let agent = |text: &str| {
        let agent = json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1",
            "kind": "AgentRuntime",
            "metadata": {"name": "support-agent"},
            "spec": {"text": text}
        });
        agent.to_string()
    };
    let key = key();
    let target = Target { key: &key, default_namespace: "production" };
    let file = TreePath::new("agents.json");
    let change = [Change::set(&["spec", "text"], "other")];
    for (before, behind) in [("", " {\"a\": 1}\n"), ("{\"a\": 1}{\"b\": 2} ", ""), ("{\n  \"a\": 1\n}\n", "\n{}\n")] {
        let text = format!("{before}{}{behind}", agent("plain"));
        let edited = open(&file, text.as_bytes(), target).unwrap().edit(&change, &[]).unwrap();
        assert_eq!(String::from_utf8(edited).unwrap(), format!("{before}{}{behind}", agent("other")));
    }
    let broken = format!("{{\"a\": 1}}\n{}\n{{]", agent("plain"));
    let blocked = open(&file, broken.as_bytes(), target).unwrap_err();
    assert!(blocked.to_string().starts_with("agents.json:3: this is not JSON"), "{blocked}");
}

#[test]
fn an_anchor_may_be_used_by_what_goes_in_the_same_edit() {
    let text = AGENT.replace("  text: plain\n", "  ref: &ref\n    version: 1\n  next:\n    <<: *ref\n    version: 2\n");
    let promote = [Change::set(&["spec", "ref", "version"], 2), Change::remove(&["spec", "next"])];
    let edited = run(&text, &promote).unwrap();
    assert_eq!(edited, AGENT.replace("  text: plain\n", "  ref: &ref\n    version: 2\n"));
    let blocked = run(&text, &promote[..1]).unwrap_err();
    assert!(blocked.why.contains("used again at line 17, which the edit would change too"), "{blocked}");
    let taken = AGENT.replace("  text: plain\n", "  old: &old {a: 1}\n  new: {b: *old, c: 2}\n");
    let remove = [Change::remove(&["spec", "old"]), Change::set(&["spec", "new"], json!({"c": 2}))];
    assert_eq!(run(&taken, &remove).unwrap(), AGENT.replace("  text: plain\n", "  new: {c: 2}\n"));
    assert!(run(&taken, &remove[..1]).unwrap_err().why.contains("in what would be removed is used again at line 15"));
}

#[test]
fn numbers_are_read_as_kubectl_reads_them() {
    let documents =
        data::parse("{a: 0777, b: 1e3, c: 1., d: 2.5, e: yes, f: 12:30:45, g: 2024-01-01, h: 0x1F}", &mut 100).unwrap();
    let expected =
        json!({"a": 511, "b": 1000, "c": 1, "d": 2.5, "e": true, "f": "12:30:45", "g": "2024-01-01", "h": 31});
    assert_eq!(documents, [expected]);
}
