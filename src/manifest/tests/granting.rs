//! What the settings grant.

use super::*;
use crate::manifest::{ClusterScoped, KindRule, Namespaces};
use crate::object::Kind;

fn kind(name: &str) -> KindRule {
    KindRule::one(&Kind::from_api_version("v1", name))
}

fn problems_with(text: &str, rules: &Rules) -> String {
    render(&assemble([&load_with("agent.yaml", text.as_bytes(), rules)]))
}

#[test]
fn a_kind_that_is_not_granted_is_named_with_the_setting_to_change() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n";
    insta::assert_snapshot!(problems(text), @r"
    agent.yaml:2:7: kind: this source may not apply objects of the kind Secret
      hint: add it to the setting `kinds` of the source, which grants: *.omnia.altairalabs.ai, ConfigMap
    agent.yaml:6:7: kind: this source may not apply objects of the kind Deployment.apps
      6 | kind: Deployment
        |       ^^^^^^^^^^
      hint: add it to the setting `kinds` of the source, which grants: *.omnia.altairalabs.ai, ConfigMap
    ");
    let desired = desired(text);
    assert_eq!(summary(&desired).1, ["Secret default/s", "Deployment default/d"]);
    assert!(desired.allows_pruning());
    let rules = Rules { kinds: vec![kind("Secret"), KindRule::Group("apps".to_owned())], ..Rules::default() };
    assert_eq!(problems_with(text, &rules), "");
}

#[test]
fn a_misspelt_kind_of_a_granted_group_is_refused() {
    let text = AGENT.replace("kind: AgentRuntime", "kind: AgentRuntim");
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:2:7: kind: the group omnia.altairalabs.ai has no kind `AgentRuntim`
      2 | kind: AgentRuntim
        |       ^^^^^^^^^^^
      hint: did you mean `AgentRuntime`?
    ");
    assert_eq!(problems(&AGENT.replace("kind: AgentRuntime", "kind: Provider")), "");
}

#[test]
fn another_version_of_a_known_kind_is_refused() {
    insta::assert_snapshot!(problems(&AGENT.replace("v1alpha1", "v1")), @r#"
    agent.yaml:1:13: apiVersion: AgentRuntime has no version "v1" that is known here
      1 | apiVersion: omnia.altairalabs.ai/v1
        |             ^^^^^^^^^^^^^^^^^^^^^^^
      hint: write `apiVersion: omnia.altairalabs.ai/v1alpha1`
    "#);
}

#[test]
fn a_namespace_that_is_not_granted_is_named_with_the_setting_to_change() {
    let namespaces = Namespaces::Only(["staging".to_owned(), "test".to_owned()].into());
    let rules = Rules { namespaces, default_namespace: "staging".to_owned(), ..Rules::default() };
    insta::assert_snapshot!(problems_with(AGENT, &rules), @r#"
    agent.yaml:5:14: metadata.namespace: this source may not write to the namespace "production"
      5 |   namespace: production
        |              ^^^^^^^^^^
      hint: add it to the setting `namespaces` of the source, which grants: staging, test
    "#);
    let text = AGENT.replace("  namespace: production\n", "");
    let desired = assemble([&load_with("agent.yaml", text.as_bytes(), &rules)]);
    assert_eq!(render(&desired), "");
    assert_eq!(summary(&desired).0, ["AgentRuntime staging/support-agent"]);
    let object = &desired.objects.values().next().unwrap().object();
    assert_eq!(object.namespace(), "staging");
}

#[test]
fn a_kind_without_namespaces_may_name_none() {
    let rules = Rules {
        kinds: vec![kind("Namespace")],
        cluster_scoped: ClusterScoped(vec![kind("Namespace")]),
        namespaces: Namespaces::Only(["staging".to_owned()].into()),
        ..Rules::default()
    };
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: { name: team }\n";
    let desired = assemble([&load_with("agent.yaml", text.as_bytes(), &rules)]);
    assert_eq!(render(&desired), "");
    assert_eq!(summary(&desired).0, ["Namespace team"]);
    insta::assert_snapshot!(problems_with(&text.replace("{ name: team }", "{ name: team, namespace: x }"), &rules), @r"
    agent.yaml:3:36: metadata.namespace: a Namespace has no namespace
      3 | metadata: { name: team, namespace: x }
        |                                    ^
      hint: remove it
    ");
}

#[test]
fn names_and_namespaces_are_those_of_kubernetes() {
    let text = AGENT.replace("support-agent", "Support_Agent").replace("production", "my.space");
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:4:9: metadata.name: "Support_Agent" is no name: it may have only lower-case letters, digits, - and ., and begins and ends with a letter or digit
      4 |   name: Support_Agent
        |         ^^^^^^^^^^^^^
    agent.yaml:5:14: metadata.namespace: "my.space" is no namespace: it may have only lower-case letters, digits and -, and begins and ends with a letter or digit
      5 |   namespace: my.space
        |              ^^^^^^^^
    "#);
}

#[test]
fn labels_and_annotations_are_checked() {
    let text = AGENT.replace(
        "  namespace: production\n",
        "  namespace: production\n  labels:\n    app: my app\n    version: 1.0\n    -x: y\n  annotations:\n    note: yes\n    serin.dev/progress-deadline: 5 minutes\n  finalisers: [a]\n",
    );
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:7:10: metadata.labels[app]: "my app" is no value of a label: it may have only letters, digits, -, _ and ., and begins and ends with a letter or digit
      7 |     app: my app
        |          ^^^^^^
    agent.yaml:8:14: metadata.labels.version: expected a text, found the number 1
      8 |     version: 1.0
        |              ^^^
      hint: write it in quotes: "1.0"
    agent.yaml:9:5: metadata.labels[-x]: "-x" is no key of labels: it may have only letters, digits, -, _ and ., and begins and ends with a letter or digit
      9 |     -x: y
        |     ^^
    agent.yaml:9:9: metadata.labels[-x]: expected a text, found the boolean true
      9 |     -x: y
        |         ^
      hint: write it in quotes: "y"
    agent.yaml:11:11: metadata.annotations.note: expected a text, found the boolean true
      11 |     note: yes
         |           ^^^
      hint: write it in quotes: "yes"
    agent.yaml:12:34: metadata.annotations[serin.dev/progress-deadline]: "5 minutes" is not a duration: the unit is none of ns, us, ms, s, m, h
      12 |     serin.dev/progress-deadline: 5 minutes
         |                                  ^^^^^^^^^
    agent.yaml:13:3: metadata.finalisers: unknown field `finalisers`
      13 |   finalisers: [a]
         |   ^^^^^^^^^^
      hint: did you mean `finalizers`?
    "#);
}

#[test]
fn what_only_the_cluster_may_say_is_left_out() {
    let text = AGENT.replace(
        "  namespace: production\n",
        "  namespace: production\n  creationTimestamp: null\n  resourceVersion: \"5\"\n",
    ) + "status: { phase: Running }\n";
    let desired = desired(&text);
    insta::assert_snapshot!(render(&desired), @r#"
    agent.yaml:7:20: warning: metadata.resourceVersion: this is for the cluster to say, and is not applied
      7 |   resourceVersion: "5"
        |                    ^^^
      hint: remove it
    agent.yaml:12:1: warning: status: this is for the cluster to say, and is not applied
      12 | status: { phase: Running }
         | ^^^^^^
      hint: remove it
    "#);
    let object = &desired.objects.values().next().unwrap().object();
    assert_eq!(object.resource_version(), None);
    assert_eq!(object.at("/status"), None);
    assert_eq!(problems(&format!("{AGENT}status: {{}}\n")), "");
}

#[test]
fn a_config_map_is_held_to_its_schema() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\ndate: {}\ndata:\n  count: 5\n  a b: c\n  both: x\nbinaryData: { both: eA== }\n";
    insta::assert_snapshot!(problems(text), @r#"
    agent.yaml:4:1: date: unknown field `date`
      4 | date: {}
        | ^^^^
      hint: the fields here are `apiVersion`, `binaryData`, `data`, `immutable`, `kind`, `metadata`, `status`
    agent.yaml:6:10: data.count: expected a text, found the number 5
      6 |   count: 5
        |          ^
      hint: write it in quotes: "5"
    agent.yaml:7:3: data[a b]: "a b" is no key of a ConfigMap: it may have only letters, digits, -, _ and .
      7 |   a b: c
        |   ^^^
    agent.yaml:9:15: binaryData[both]: this key is also in `data`
      9 | binaryData: { both: eA== }
        |               ^^^^
    "#);
}
