//! Scalars, documents, lists: what kubectl would read.

use serde_json::json;

use super::*;

/// A ConfigMap-like object of a kind without schema, so that any value may stand in it.
fn value_of(scalar: &str) -> Value {
    let text =
        format!("apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: Provider\nmetadata: {{name: x}}\nvalue: {scalar}\n");
    only_object(&text)["value"].clone()
}

#[test]
fn scalars_are_read_as_kubectl_reads_them() {
    for (written, read) in [
        ("yes", json!(true)),
        ("y", json!(true)),
        ("on", json!(true)),
        ("On", json!(true)),
        ("no", json!(false)),
        ("n", json!(false)),
        ("Off", json!(false)),
        ("TRUE", json!(true)),
        ("tRue", json!("tRue")),
        ("t", json!("t")),
        ("~", Value::Null),
        ("Null", Value::Null),
        ("", Value::Null),
        ("0777", json!(511)),
        ("-0777", json!(-511)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("-0x1F", json!(-31)),
        ("0X1F", json!(31)),
        ("\"0X1F\"", json!("0X1F")),
        ("\"tRue\"", json!("tRue")),
        ("yEs", json!("yEs")),
        ("YES", json!(true)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("089", json!(89)),
        ("08", json!(8)),
        ("0o8", json!("0o8")),
        ("+5", json!(5)),
        ("-0", json!(0)),
        ("1e3", json!(1000)),
        ("1.0e+2", json!(100)),
        ("1.", json!(1)),
        ("-0.0", json!(0)),
        ("1.10", json!(1.1)),
        (".5", json!(0.5)),
        ("1e-3", json!(0.001)),
        ("1e21", json!(1e21)),
        ("9007199254740993", json!(9_007_199_254_740_993_u64)),
        ("12345678901234567890", json!(12_345_678_901_234_567_890_u64)),
        ("12:30:45", json!("12:30:45")),
        ("2024-01-01", json!("2024-01-01")),
        ("1.2.3", json!("1.2.3")),
        ("=", json!("=")),
        ("\"yes\"", json!("yes")),
        ("'1'", json!("1")),
        ("!!str 5", json!("5")),
        ("!!int \"5\"", json!(5)),
        ("!!binary aGk=", json!("hi")),
        ("100m", json!("100m")),
        ("|\n  a\n  b", json!("a\nb\n")),
        (">-\n  a\n  b", json!("a b")),
    ] {
        assert_eq!(value_of(written), read, "{written}");
    }
}

#[test]
fn keys_that_are_no_texts_become_the_texts_that_kubectl_makes_of_them() {
    let object = value_of("{1: a, 1.5: b, 1e3: c, 0777: d, \"2\": e}");
    assert_eq!(object, json!({"1": "a", "1.5": "b", "1000": "c", "511": "d", "2": "e"}));
}

#[test]
fn a_key_that_is_read_as_a_boolean_is_applied_with_a_warning() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  on: a\n";
    let desired = desired(text);
    let object = desired.objects.values().next().unwrap();
    assert_eq!(object.object().at("/data/true"), Some(&json!("a")));
    insta::assert_snapshot!(render(&desired), @r#"
    agent.yaml:5:3: warning: data.true: this key is read as the boolean true, as kubectl does
      5 |   on: a
        |   ^^
      hint: write it in quotes: "on"
    "#);
}

#[test]
fn merge_keys_and_anchors_are_written_out() {
    let value = value_of("\n  base: &b {a: 1, c: [1]}\n  use: {<<: *b, a: 2}\n  same: *b");
    assert_eq!(value, json!({"base": {"a": 1, "c": [1]}, "use": {"a": 2, "c": [1]}, "same": {"a": 1, "c": [1]}}));
}

#[test]
fn a_key_that_is_there_twice_is_an_error_wherever_it_stands() {
    let text = format!("{AGENT}  runtime: {{ replicas: 2 }}\n  extra:\n    - a: 1\n      b: 2\n      a: 3\n");
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:10:3: spec.runtime: the key `runtime` is there twice, first in line 9
      10 |   runtime: { replicas: 2 }
         |   ^^^^^^^
      hint: remove one of the two
    agent.yaml:14:7: spec.extra[0].a: the key `a` is there twice, first in line 12
      14 |       a: 3
         |       ^
      hint: remove one of the two
    ");
    let (objects, held) = summary(&desired(&text));
    assert_eq!(objects, Vec::<String>::new());
    assert_eq!(held, ["AgentRuntime production/support-agent"]);
}

#[test]
fn an_ambiguous_identity_keeps_everything_from_being_pruned() {
    let text = AGENT.replace("  name: support-agent\n", "  name: a\n  name: b\n");
    let desired = desired(&text);
    assert!(!desired.allows_pruning());
    assert!(desired.objects.is_empty());
}

#[test]
fn documents_lists_and_empty_documents_are_read_in_one_file() {
    let text = "# a comment
---
apiVersion: v1
kind: ConfigMap
metadata: { name: one }
---
---
# nothing here
--- # the rest
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: { name: two, namespace: other }
  - null
  - apiVersion: v1
    kind: ConfigMap
    metadata:
      name: three
...
apiVersion: v1
kind: ConfigMapList
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: { name: four }
";
    let desired = desired(text);
    assert_eq!(render(&desired), "");
    let places: Vec<_> = desired
        .objects
        .iter()
        .map(|(key, located)| {
            let origin = &located.origin;
            (key.to_string(), origin.line, origin.document_index, origin.list_item)
        })
        .collect();
    assert_eq!(
        places,
        [
            ("ConfigMap default/four".to_owned(), 25, 4, Some(0)),
            ("ConfigMap default/one".to_owned(), 3, 0, None),
            ("ConfigMap default/three".to_owned(), 17, 3, Some(2)),
            ("ConfigMap other/two".to_owned(), 13, 3, Some(0)),
        ]
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let text = format!("\u{feff}{AGENT}").replace('\n', "\r\n");
    assert_eq!(only_object(&text), only_object(AGENT));
    let broken = text.replace("replicas: 4", "replicas: x");
    insta::assert_snapshot!(problems(&broken), @r#"
    agent.yaml:9:24: spec.runtime.replicas: expected a whole number, found the text "x"
      9 |   runtime: { replicas: x }
        |                        ^
    "#);
}

#[test]
fn json_is_read_one_value_after_the_other() {
    let map = |name: &str| {
        format!(
            "{{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"metadata\": {{\"name\": \"{name}\"}},\n\t\"data\": {{\"smile\": \"\\ud83d\\ude00\", \"n\": \"1e3\"}}\n}}\n"
        )
    };
    let file = load_with("a.JSON", format!("{}{}", map("one"), map("two")).as_bytes(), &Rules::default());
    let desired = assemble([&file]);
    assert_eq!(render(&desired), "");
    let lines: Vec<u32> = desired.objects.values().map(|located| located.origin.line).collect();
    assert_eq!(lines, [1, 6]);
    let object = &desired.objects.values().next().unwrap().object();
    assert_eq!(object.text("/data/smile"), Some("\u{1f600}"));

    let line = "{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"x\"}} {\"kind\": 5}";
    let one_line = assemble([&load_with("a.json", line.as_bytes(), &Rules::default())]);
    assert_eq!(one_line.problems[0].snippet.as_ref().unwrap().text, line);
    assert_eq!(usize::try_from(one_line.problems[0].position.column).unwrap() - 1, line.find("{\"kind\": 5").unwrap());

    let broken = load_with("a.json", b"{\n  \"a\": 1,\n  \"b\": }\n", &Rules::default());
    insta::assert_snapshot!(render(&assemble([&broken])), @r#"
    a.json:3:8: this is not JSON: expected value
      3 |   "b": }
        |        ^
    "#);
}

#[test]
fn documents_are_counted_as_the_editor_counts_them() {
    use std::str::FromStr;
    for text in [
        "a: 1\n",
        "a: 1\n---\nb: 1\n",
        "---\na: 1\n---\nb: 1\n",
        "# c\n---\na: 1\n",
        "---\n---\na: 1\n",
        "a: 1\n---\n# c\n---\nb: 1\n",
        "a: 1\n...\n---\nb: 1\n",
        "a: 1\n---\n",
    ] {
        let counted = yaml_edit::YamlFile::from_str(text).unwrap().documents().count();
        assert_eq!(super::super::split::split(text).len(), counted, "{text:?}");
    }
}
