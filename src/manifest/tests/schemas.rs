//! Fields: misspelt, missing, of the wrong type.

use serde_json::json;

use super::*;

fn with_runtime(runtime: &str) -> String {
    AGENT.replace("{ replicas: 4 }", runtime)
}

#[test]
fn a_misspelt_field_is_told_with_the_one_that_was_meant() {
    let text = format!(
        "{AGENT}  rollout:\n    steps:\n      - setWieght: 20\n      - puase: {{}}\n      - setWeight: 100\n        until: x\n    trafficRouting: {{}}\n"
    );
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:12:9: spec.rollout.steps[0].setWieght: unknown field `setWieght`
      12 |       - setWieght: 20
         |         ^^^^^^^^^
      hint: did you mean `setWeight`?
    agent.yaml:13:9: spec.rollout.steps[1].puase: unknown field `puase`
      13 |       - puase: {}
         |         ^^^^^
      hint: did you mean `pause`?
    agent.yaml:15:9: spec.rollout.steps[2].until: unknown field `until`
      15 |         until: x
         |         ^^^^^
      hint: the fields here are `analysis`, `pause`, `setWeight`
    ");
}

#[test]
fn a_slip_is_found_also_where_unknown_fields_pass() {
    let text = AGENT.replace("facades", "facade").replace("replicas", "replica") + "  rolout: { steps: [] }\n";
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:6:1: spec.facades: this field is required
      6 | spec:
        | ^^^^
    agent.yaml:7:3: spec.facade: unknown field `facade`
      7 |   facade: [{ type: websocket }]
        |   ^^^^^^
      hint: did you mean `facades`?
    agent.yaml:9:14: spec.runtime.replica: unknown field `replica`
      9 |   runtime: { replica: 4 }
        |              ^^^^^^^
      hint: did you mean `replicas`?
    agent.yaml:10:3: spec.rolout: unknown field `rolout`
      10 |   rolout: { steps: [] }
         |   ^^^^^^
      hint: did you mean `rollout`?
    ");
}

#[test]
fn fields_that_only_pass_through_are_kept() {
    let text = format!("{AGENT}  memory: {{ enabled: true }}\n  consoles: 1\n");
    assert_eq!(only_object(&text)["spec"]["memory"], json!({"enabled": true}));
}

#[test]
fn a_field_in_the_wrong_place_is_told_where_it_belongs() {
    let text = format!(
        "{AGENT}  rollout:\n    steps:\n      - pause: {{}}\n        duration: 5m\n      - setWeight: 100\n        rollback: {{}}\n    trafficRouting: {{}}\n"
    );
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:13:9: spec.rollout.steps[0].duration: unknown field `duration`
      13 |         duration: 5m
         |         ^^^^^^^^
      hint: `duration` is a field of `pause`: is it indented far enough?
    agent.yaml:15:9: spec.rollout.steps[1].rollback: unknown field `rollback`
      15 |         rollback: {}
         |         ^^^^^^^^
      hint: `rollback` is a field further out: is it indented too far?
    ");
}

#[test]
fn wrong_types_say_what_was_expected_and_found() {
    let text = with_runtime(
        "\n    replicas: \"3\"\n    extraArgs: {a: 1}\n    port: 1.5\n    since: yesterday\n    ratio: 0.1\n    debug: \"true\"\n    note: too long",
    ) + "  toolRegistryRef: [a]\n  providers:\n    - name: No\n      providerRef: x\n  promptPackRf: 1\n";
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:10:15: spec.runtime.replicas: expected a whole number, found the text "3"
      10 |     replicas: "3"
         |               ^^^
      hint: write 3 without quotes
    agent.yaml:11:16: spec.runtime.extraArgs: expected a list, found a mapping
      11 |     extraArgs: {a: 1}
         |                ^
      hint: begin each item with `- `
    agent.yaml:12:11: spec.runtime.port: expected a whole number or a text, found the number 1.5
      12 |     port: 1.5
         |           ^^^
    agent.yaml:13:12: spec.runtime.since: "yesterday" is no time such as 2026-01-31T12:00:00Z
      13 |     since: yesterday
         |            ^^^^^^^^^
    agent.yaml:14:12: spec.runtime.ratio: it must be at least 0.5, got 0.1
      14 |     ratio: 0.1
         |            ^^^
    agent.yaml:15:12: spec.runtime.debug: expected true or false, found the text "true"
      15 |     debug: "true"
         |            ^^^^^^
      hint: write true without quotes
    agent.yaml:16:11: spec.runtime.note: it may have at most 5 characters and has 8
      16 |     note: too long
         |           ^^^^^^^^
    agent.yaml:17:20: spec.toolRegistryRef: expected a mapping, found a list
      17 |   toolRegistryRef: [a]
         |                    ^
      hint: it is one mapping: leave the `- ` out
    agent.yaml:19:13: spec.providers[0].name: expected a text, found the boolean false
      19 |     - name: No
         |             ^^
      hint: write it in quotes: "No"
    agent.yaml:20:20: spec.providers[0].providerRef: expected a mapping, found the text "x"
      20 |       providerRef: x
         |                    ^
    "#);
}

#[test]
fn numbers_are_held_to_their_range() {
    insta::assert_snapshot!(problems(&with_runtime("{ replicas: -1 }")), @r"
    agent.yaml:9:24: spec.runtime.replicas: it must be at least 0, got -1
      9 |   runtime: { replicas: -1 }
        |                        ^^
    ");
    insta::assert_snapshot!(problems(&with_runtime("{ replicas: 3000000000 }")), @r"
    agent.yaml:9:24: spec.runtime.replicas: 3000000000 is too large here
      9 |   runtime: { replicas: 3000000000 }
        |                        ^^^^^^^^^^
    ");
    insta::assert_snapshot!(problems(&with_runtime("{ replicas: 1.5 }")), @r"
    agent.yaml:9:24: spec.runtime.replicas: expected a whole number, found the number 1.5
      9 |   runtime: { replicas: 1.5 }
        |                        ^^^
    ");
    assert_eq!(only_object(&with_runtime("{ replicas: 1e1 }"))["spec"]["runtime"]["replicas"], json!(10));
}

#[test]
fn texts_that_yaml_reads_as_something_else_are_told_to_be_quoted() {
    let text = AGENT.replace("version: 1.0.0", "version: 1.0").replace("support-pack", "on");
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:8:26: spec.promptPackRef.name: expected a text, found the boolean true
      8 |   promptPackRef: { name: on, version: 1.0 }
        |                          ^^
      hint: write it in quotes: "on"
    agent.yaml:8:39: spec.promptPackRef.version: expected a text, found the number 1
      8 |   promptPackRef: { name: on, version: 1.0 }
        |                                       ^^^
      hint: write it in quotes: "1.0"
    "#);
}

#[test]
fn missing_fields_point_to_the_mapping_that_lacks_them() {
    let text = AGENT.replace("  promptPackRef: { name: support-pack, version: 1.0.0 }\n", "  rollout: {}\n");
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:6:1: spec.promptPackRef: this field is required
      6 | spec:
        | ^^^^
    agent.yaml:8:3: spec.rollout.steps: this field is required
      8 |   rollout: {}
        |   ^^^^^^^
    ");
    insta::assert_snapshot!(problems(AGENT.split("spec:").next().unwrap()), @r"
    agent.yaml:1:1: spec: this field is required
      1 | apiVersion: omnia.altairalabs.ai/v1alpha1
        | ^^^^^^^^^^
    ");
}

#[test]
fn a_choice_names_what_can_be_chosen() {
    let text = AGENT.replace("version: 1.0.0", "track: stabel");
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:8:47: spec.promptPackRef.track: "stabel" is none of stable, prerelease
      8 |   promptPackRef: { name: support-pack, track: stabel }
        |                                               ^^^^^^
      hint: did you mean `stable`?
    "#);
}

#[test]
fn lists_are_held_to_their_keys() {
    let provider = "{ name: default, providerRef: { name: p } }";
    let text =
        with_runtime("{ extraArgs: [a, b, a] }") + &format!("  providers:\n    - {provider}\n    - {provider}\n");
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:9:32: spec.runtime.extraArgs[2]: "a" is in this list twice, first in line 9
      9 |   runtime: { extraArgs: [a, b, a] }
        |                                ^
    agent.yaml:12:7: spec.providers[1]: name "default" is in this list twice, first in line 11
      12 |     - { name: default, providerRef: { name: p } }
         |       ^
    "#);
    insta::assert_snapshot!(problems(&AGENT.replace("[{ type: websocket }]", "[]")), @r"
    agent.yaml:7:3: spec.facades: it needs at least one item
      7 |   facades: []
        |   ^^^^^^^
    ");
}

#[test]
fn a_field_that_is_null_counts_as_not_there() {
    let text = with_runtime("{ replicas: null, note: null, other: null }");
    assert_eq!(only_object(&text)["spec"]["runtime"], json!({"note": null, "other": null}));
    insta::assert_snapshot!(problems(&AGENT.replace("{ name: support-pack, version: 1.0.0 }", "{ name: ~ }")), @r"
    agent.yaml:8:20: spec.promptPackRef.name: this field is required
      8 |   promptPackRef: { name: ~ }
        |                    ^^^^
    ");
}

#[test]
fn a_wrong_value_behind_an_alias_is_shown_where_it_is_written() {
    let text = format!(
        "{AGENT}  x-weights: &steps\n    - setWeight: 101\n  rollout:\n    steps: *steps\n    trafficRouting: {{}}\n"
    );
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:11:18: spec.rollout.steps[0].setWeight: it must be 0 to 100, got 101
      11 |     - setWeight: 101
         |                  ^^^
    ");
}

#[test]
fn a_text_that_is_no_crd_is_refused() {
    assert_eq!(
        Schemas::from_crds(["a: 1"]).unwrap_err().to_string(),
        "the CustomResourceDefinition  cannot be used: it names no group and kind"
    );
}
