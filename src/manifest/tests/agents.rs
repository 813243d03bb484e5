//! AgentRuntimes and PromptPacks.

use super::*;

fn with_rollout(rollout: &str) -> String {
    let lines: Vec<String> = rollout.lines().map(|line| format!("    {line}\n")).collect();
    format!("{AGENT}  rollout:\n{}", lines.concat())
}

const STEPS: &str = "steps: [{ setWeight: 25 }, { pause: { duration: 5m } }, { setWeight: 100 }]";

#[test]
fn the_rollouts_of_the_documentation_are_accepted_without_a_word() {
    for steps in [
        "[{ setWeight: 25 }, { pause: { duration: \"5m\" } }, { setWeight: 50 }, { pause: { duration: \"10m\" } }, { setWeight: 100 }]",
        "[{ setWeight: 50 }, { pause: {} }]",
        "[{ setWeight: 0 }, { pause: {} }, { setWeight: 100 }]",
    ] {
        for routing in ["{}", "{ mode: replicaWeighted }"] {
            let text = with_rollout(&format!(
                "candidate: {{ promptPackRef: {{ name: support-pack, version: 2.0.0 }} }}\nsteps: {steps}\ntrafficRouting: {routing}\nrollback: {{ mode: automatic, cooldown: 1h30m }}"
            ));
            assert_eq!(problems(&text), "", "{steps}");
        }
    }
}

#[test]
fn a_step_is_exactly_one_of_three() {
    let text = with_rollout("steps:\n  - setWeight: 25\n    pause: {}\n  - {}\n  - setWeight: 100\ntrafficRouting: {}");
    insta::assert_snapshot!(problems(&text), @r"
    agent.yaml:12:9: spec.rollout.steps[0]: a step is exactly one of setWeight, pause, analysis; setWeight and pause are set
      12 |       - setWeight: 25
         |         ^^^^^^^^^
    agent.yaml:14:9: spec.rollout.steps[1]: a step is exactly one of setWeight, pause, analysis; none of them is set
      14 |       - {}
         |         ^
    ");
}

#[test]
fn weights_and_durations_are_checked_with_the_rest() {
    let text = with_rollout(
        "steps:\n  - setWeight: 101\n  - pause: { duration: 5 minutes }\n  - pause: { duration: 5 }\n  - setWeight: 100\nrollback: { mode: auto, cooldown: -5m }\ntrafficRouting: {}",
    );
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:12:20: spec.rollout.steps[0].setWeight: it must be 0 to 100, got 101
      12 |       - setWeight: 101
         |                    ^^^
    agent.yaml:13:28: spec.rollout.steps[1].pause.duration: "5 minutes" is not a duration: the unit is none of ns, us, ms, s, m, h
      13 |       - pause: { duration: 5 minutes }
         |                            ^^^^^^^^^
    agent.yaml:14:28: spec.rollout.steps[2].pause.duration: expected a text, found the number 5
      14 |       - pause: { duration: 5 }
         |                            ^
      hint: write it in quotes: "5"
    agent.yaml:16:23: spec.rollout.rollback.mode: "auto" is none of automatic, manual, disabled
      16 |     rollback: { mode: auto, cooldown: -5m }
         |                       ^^^^
    agent.yaml:16:39: spec.rollout.rollback.cooldown: "-5m" is not a duration: it is negative
      16 |     rollback: { mode: auto, cooldown: -5m }
         |                                       ^^^
    "#);
}

#[test]
fn what_this_version_does_not_do_is_refused_for_that_agent_alone() {
    let other = AGENT.replace("support-agent", "other");
    let text = with_rollout(
        "steps:\n  - setWeight: 50\n  - analysis: { templateName: errors }\n  - setWeight: 100\ntrafficRouting:\n  mode: external\n  istio: { virtualService: { name: x } }\n  mesh: { waypoint: w }\nstickySession: { hashOn: x-user }\ntrigger: { promptPackChannel: stable }",
    );
    let desired = desired(&format!("{text}---\n{other}"));
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:13:9: spec.rollout.steps[1].analysis: analysis steps are not supported by this version of Serin
      13 |       - analysis: { templateName: errors }
         |         ^^^^^^^^
      hint: use a `pause` and withdraw the candidate if it does not hold up
    agent.yaml:16:13: spec.rollout.trafficRouting.mode: the mode `external` is not supported by this version of Serin
      16 |       mode: external
         |             ^^^^^^^^
      hint: `trafficRouting: {}` and `mode: replicaWeighted` deliver weights by the number of pods, without a mesh
    agent.yaml:17:7: spec.rollout.trafficRouting.istio: routing by Istio is not supported by this version of Serin
      17 |       istio: { virtualService: { name: x } }
         |       ^^^^^
      hint: `trafficRouting: {}` and `mode: replicaWeighted` deliver weights by the number of pods, without a mesh
    agent.yaml:18:7: spec.rollout.trafficRouting.mesh: routing by Istio is not supported by this version of Serin
      18 |       mesh: { waypoint: w }
         |       ^^^^
      hint: `trafficRouting: {}` and `mode: replicaWeighted` deliver weights by the number of pods, without a mesh
    agent.yaml:19:5: spec.rollout.stickySession: sticky sessions are not supported by this version of Serin
      19 |     stickySession: { hashOn: x-user }
         |     ^^^^^^^^^^^^^
      hint: they need routing by Istio; remove it
    agent.yaml:20:5: spec.rollout.trigger: rollouts triggered by a release channel are not supported by this version of Serin
      20 |     trigger: { promptPackChannel: stable }
         |     ^^^^^^^
      hint: start a rollout by a commit that sets `spec.rollout.candidate`
    ");
    let (objects, held) = summary(&desired);
    assert_eq!(objects, ["AgentRuntime production/other"]);
    assert_eq!(held, ["AgentRuntime production/support-agent"]);
    assert!(desired.allows_pruning());
}

#[test]
fn steps_that_are_surely_not_meant_are_warned_about_and_applied() {
    let text =
        with_rollout("steps:\n  - setWeight: 10\n  - setWeight: 60\n  - pause: { duration: 1m }\ntrafficRouting: {}");
    let desired = desired(&text);
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:12:20: warning: spec.rollout.steps[0].setWeight: 4 pods cannot split traffic at 10: the candidate gets 0 of 4, a weight of 0
      12 |       - setWeight: 10
         |                    ^^
      hint: choose a weight that the pods can express, or more `spec.runtime.replicas`
    agent.yaml:13:20: warning: spec.rollout.steps[1].setWeight: 4 pods cannot split traffic at 60: the candidate gets 2 of 4, a weight of 50
      13 |       - setWeight: 60
         |                    ^^
      hint: choose a weight that the pods can express, or more `spec.runtime.replicas`
    agent.yaml:13:20: warning: spec.rollout.steps[1].setWeight: the last weight is 60: promotion takes the rest of the traffic in one go
      13 |       - setWeight: 60
         |                    ^^
      hint: end with `setWeight: 100` to see the candidate under full load first
    agent.yaml:14:9: warning: spec.rollout.steps[2].pause: the last step is a pause: after it the candidate is promoted, whatever happened
      14 |       - pause: { duration: 1m }
         |         ^^^^^
      hint: put a step behind it, or leave the duration out to promote by hand
    ");
    assert!(desired.is_clean());
    assert_eq!(desired.objects.len(), 1);
    insta::assert_snapshot!(problems(&with_rollout(STEPS)), @r"
    agent.yaml:11:26: warning: spec.rollout.steps[0].setWeight: without `trafficRouting` no weight is applied
      11 |     steps: [{ setWeight: 25 }, { pause: { duration: 5m } }, { setWeight: 100 }]
         |                          ^^
      hint: add `trafficRouting: {}`
    ");
}

#[test]
fn an_autoscaled_agent_is_not_warned_about_its_replicas() {
    let text = with_rollout("steps: [{ setWeight: 10 }, { setWeight: 100 }]\ntrafficRouting: {}")
        .replace("{ replicas: 4 }", "{ replicas: 4, autoscaling: { enabled: true } }");
    assert_eq!(problems(&text), "");
}

#[test]
fn a_name_must_leave_room_for_the_candidate() {
    let long = "a".repeat(57);
    let named = AGENT.replace("support-agent", &long);
    assert_eq!(problems(&named), "");
    let text = with_rollout(&format!("{STEPS}\ntrafficRouting: {{}}")).replace("support-agent", &long);
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:4:9: metadata.name: an agent with a rollout may have a name of at most 56 characters, and this one has 57
      4 |   name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: the candidate's Deployment is called "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-canary"
    "#);
    assert_eq!(problems(&text.replace(&long, &long[1..])), "");
    insta::assert_snapshot!(problems(&AGENT.replace("support-agent", "support.agent")), @r#"
    agent.yaml:4:9: metadata.name: "support.agent" cannot name the agent's Service: it may have only lower-case letters, digits and -, and begins and ends with a letter or digit
      4 |   name: support.agent
        |         ^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(problems(&AGENT.replace("support-agent", "1st")), @r#"
    agent.yaml:4:9: warning: metadata.name: many clusters refuse a Service whose name begins with a digit, and "1st" would be one
      4 |   name: 1st
        |         ^^^
      hint: begin it with a letter
    "#);
}

#[test]
fn the_candidate_is_checked_as_the_spec_is() {
    let provider = "{ name: default, providerRef: { name: p } }";
    let text = with_rollout(&format!(
        "candidate:\n  promptPackRef: {{ name: support-pack, version: \"2.0\", track: stable }}\n  providerRefs: [{provider}, {provider}]\n  toolRegistryRef: {{ name: t, namespace: elsewhere }}\n{STEPS}\ntrafficRouting: {{}}"
    ));
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:12:7: spec.rollout.candidate.promptPackRef: version and track are mutually exclusive
      12 |       promptPackRef: { name: support-pack, version: "2.0", track: stable }
         |       ^^^^^^^^^^^^^
    agent.yaml:12:53: warning: spec.rollout.candidate.promptPackRef.version: "2.0" is no semantic version: unexpected end of input while parsing minor version number
      12 |       promptPackRef: { name: support-pack, version: "2.0", track: stable }
         |                                                     ^^^^^
      hint: only a PromptPack with exactly this text as its version would match
    agent.yaml:13:67: spec.rollout.candidate.providerRefs[1]: the name "default" is there twice
      13 |       providerRefs: [{ name: default, providerRef: { name: p } }, { name: default, providerRef: { name: p } }]
         |                                                                   ^
    agent.yaml:14:46: warning: spec.rollout.candidate.toolRegistryRef.namespace: a ToolRegistry of another namespace (elsewhere) cannot be used
      14 |       toolRegistryRef: { name: t, namespace: elsewhere }
         |                                              ^^^^^^^^^
      hint: leave it out
    "#);
}

#[test]
fn facades_are_held_to_the_mode() {
    let facades = "[{ type: rest }, { type: rest }, { type: custom }]";
    insta::assert_snapshot!(problems(&AGENT.replace("[{ type: websocket }]", facades)), @r"
    agent.yaml:7:21: spec.facades[0].type: `mode: agent` allows only websocket, a2a, custom, found rest
      7 |   facades: [{ type: rest }, { type: rest }, { type: custom }]
        |                     ^^^^
    agent.yaml:7:37: spec.facades[1].type: there are two facades of the type rest
      7 |   facades: [{ type: rest }, { type: rest }, { type: custom }]
        |                                     ^^^^
    agent.yaml:7:45: spec.facades[2].image: a facade of the type custom needs an image
      7 |   facades: [{ type: rest }, { type: rest }, { type: custom }]
        |                                             ^
    ");
    let function = AGENT.replace("spec:", "spec:\n  mode: function");
    insta::assert_snapshot!(problems(&function), @r"
    agent.yaml:6:1: spec.inputSchema: it is required with `mode: function`
      6 | spec:
        | ^^^^
    agent.yaml:6:1: spec.outputSchema: it is required with `mode: function`
      6 | spec:
        | ^^^^
    agent.yaml:8:3: spec.facades: `mode: function` needs exactly one facade of the type rest
      8 |   facades: [{ type: websocket }]
        |   ^^^^^^^
    agent.yaml:8:21: spec.facades[0].type: `mode: function` allows only rest, mcp, found websocket
      8 |   facades: [{ type: websocket }]
        |                     ^^^^^^^^^
    ");
}

#[test]
fn prompt_packs_are_checked() {
    let pack = "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\nmetadata:\n  name: support-pack-2\n  labels: { omnia.altairalabs.ai/promptpack: support }\nspec:\n  packName: support\n  version: 2.0.0\n  source: { type: configmap, configMapRef: { name: c } }\n";
    assert_eq!(problems(pack), "");
    insta::assert_snapshot!(problems(&pack.replace("2.0.0", "2.0")), @r#"
    agent.yaml:8:12: spec.version: expected a text, found the number 2
      8 |   version: 2.0
        |            ^^^
      hint: write it in quotes: "2.0"
    "#);
    insta::assert_snapshot!(problems(&pack.replace("2.0.0", "2.01.0").replace("packName: support", "packName: my support").replace(", configMapRef: { name: c }", "")), @r#"
    agent.yaml:5:3: warning: metadata.labels: the label omnia.altairalabs.ai/promptpack says "support", and spec.packName "my support"
      5 |   labels: { omnia.altairalabs.ai/promptpack: support }
        |   ^^^^^^
      hint: agents find packs by the label: remove it, or make both the same
    agent.yaml:7:13: warning: spec.packName: agents find packs by a label, and "my support" is no value of one: it may have only letters, digits, -, _ and ., and begins and ends with a letter or digit
      7 |   packName: my support
        |             ^^^^^^^^^^
      hint: choose another name
    agent.yaml:8:12: warning: spec.version: no release channel ever chooses "2.01.0": invalid leading zero in minor version number
      8 |   version: 2.01.0
        |            ^^^^^^
      hint: write a semantic version such as 1.2.3 or 1.2.3-rc.1
    agent.yaml:9:3: warning: spec.source.configMapRef: no ConfigMap is named: the pack has no content
      9 |   source: { type: configmap }
        |   ^^^^^^
      hint: name the ConfigMap that holds `pack.json`
    "#);
}
