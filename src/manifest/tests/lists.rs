//! A slip in a List itself, which hides all that is in it.

use super::*;

const ITEMS: &str = "items:
- apiVersion: v1
  kind: ConfigMap
  metadata: { name: one }
";

/// What one document says that has these lines.
fn list(lines: &[&str]) -> Desired {
    desired(&lines.iter().map(|line| format!("{}\n", line.trim_end())).collect::<String>())
}

#[test]
fn a_slip_at_the_top_of_a_list_is_told_and_nothing_is_pruned() {
    let misspelt = ITEMS.replace("items", "itmes");
    let other_case = ITEMS.replace("items", "Items");
    let indented = format!("  {}", ITEMS.replace('\n', "\n  "));
    let beside = format!("spec: {{}}\n{ITEMS}");
    let slips = [
        vec!["apiVersion: v1", "kind: List", &misspelt],
        vec!["apiVersion: v1", "kind: List", &other_case],
        vec!["apiVersion: v1", "kind: List", "metadata:", &indented],
        vec!["apiVersion: v1", "kind: List", ITEMS, "items: []"],
        vec!["apiVersion: v1", "kind: List"],
        vec!["apiVersion: v1", "kind: List", "items:"],
        vec!["apiVersion: v1", "kind: List", "items: {}"],
        vec!["apiVersion: v1", "kind: List", &beside],
        vec!["apiVersion: v1", "kind: ConfigMap", "metadata: { name: two }", "kind: List", "items: []"],
        vec!["apiVersion: v1", "kind: ConfigMapList", "kind: RoleList", ITEMS],
    ];
    let told: Vec<String> = slips
        .iter()
        .map(|lines| {
            let desired = list(lines);
            assert!(!desired.allows_pruning(), "{lines:?}");
            render(&desired)
        })
        .collect();
    insta::assert_snapshot!(told.join("\n\n"), @r"
    agent.yaml:3:1: itmes: a List has no field `itmes`
      3 | itmes:
        | ^^^^^
      hint: did you mean `items`?

    agent.yaml:3:1: Items: a List has no field `Items`
      3 | Items:
        | ^^^^^
      hint: did you mean `items`?

    agent.yaml:2:7: items: this List has no `items`
      2 | kind: List
        |       ^^^^
      hint: write `items: []` if it has none; is the file cut off?

    agent.yaml:7:1: items: the key `items` is there twice, first in line 3
      7 | items: []
        | ^^^^^
      hint: remove one of the two

    agent.yaml:2:7: items: this List has no `items`
      2 | kind: List
        |       ^^^^
      hint: write `items: []` if it has none; is the file cut off?

    agent.yaml:3:1: items: the items of a List are a list
      3 | items:
        | ^^^^^
      hint: write `items: []` if it has none

    agent.yaml:3:1: items: the items of a List are a list
      3 | items: {}
        | ^^^^^

    agent.yaml:3:1: spec: a List has no field `spec`
      3 | spec: {}
        | ^^^^
      hint: a List has the fields `apiVersion`, `kind`, `metadata` and `items`

    agent.yaml:4:1: kind: the key `kind` is there twice, first in line 2
      4 | kind: List
        | ^^^^
      hint: remove one of the two

    agent.yaml:3:1: kind: the key `kind` is there twice, first in line 2
      3 | kind: RoleList
        | ^^^^
      hint: remove one of the two
    ");
}

#[test]
fn an_empty_list_is_a_list_and_what_is_gone_from_it_is_pruned() {
    for items in ["items: []", "metadata: { resourceVersion: '' }\nitems: []"] {
        let desired = list(&["apiVersion: v1", "kind: List", items]);
        assert_eq!((render(&desired), desired.allows_pruning()), (String::new(), true), "{items}");
    }
}

#[test]
fn items_are_read_beside_a_field_that_a_list_does_not_have() {
    let desired = list(&["apiVersion: v1", "kind: List", "note: x", ITEMS]);
    assert_eq!(summary(&desired).0, ["ConfigMap default/one"]);
    assert!(!desired.allows_pruning());
}

#[test]
fn a_misspelt_kind_of_a_list_is_told_and_its_items_are_read() {
    let desired = list(&["apiVersion: v1", "kind: Lsit", "metadata: { name: all }", ITEMS]);
    assert_eq!(summary(&desired), (vec!["ConfigMap default/one".to_owned()], vec![]));
    assert!(!desired.allows_pruning());
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:2:7: kind: the core group has no kind `Lsit`
      2 | kind: Lsit
        |       ^^^^
      hint: did you mean `List`?
    ");
    // A kind of somebody else may be called what it likes.
    let theirs = list(&["apiVersion: example.com/v1", "kind: Lint", "metadata: { name: all }", "items: []"]);
    assert!(theirs.allows_pruning());
}
