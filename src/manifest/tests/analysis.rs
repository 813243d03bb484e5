//! RolloutAnalysis templates.

use super::*;

const TEMPLATE: &str = "apiVersion: omnia.altairalabs.ai/v1alpha1
kind: RolloutAnalysis
metadata:
  name: error-rate
  namespace: production
spec:
  args:
    - name: window
      value: 5m
  metrics:
    - name: error-rate
      interval: 1m
      count: 5
      failureLimit: 1
      successCondition: \"result[0] <= 0.05\"
      provider:
        prometheus:
          address: http://prometheus.monitoring:9090
          query: |
            sum(rate(omnia_agent_requests_total{status=\"error\"}[{{args.window}}]))
    - name: health-score
      interval: 2m
      count: 3
      successCondition: \"result[0] >= 0.9\"
      provider:
        web:
          url: https://metrics.example.com/api/score
          headers: { Accept: application/json }
          jsonPath: \"{.data.score}\"
          timeout: 10
    - name: answer-quality
      interval: 5m
      count: 3
      successCondition: \"result[0] >= 0.8\"
      provider:
        arenaEval: { evalDef: answer-quality }
";

#[test]
fn the_templates_of_the_documentation_are_accepted_without_a_word() {
    assert_eq!(problems(TEMPLATE), "");
}

#[test]
fn everything_wrong_with_a_template_is_told_at_once() {
    let text = TEMPLATE
        .replace("interval: 1m", "interval: 1 minute")
        .replace("count: 5", "count: 0")
        .replace("result[0] <= 0.05", "result[0] <= 5%")
        .replace("name: health-score", "name: error-rate")
        .replace("{{args.window}}", "{{ args.window }}")
        .replace("https://metrics.example.com", "https://{{args.host}}")
        .replace("arenaEval: { evalDef: answer-quality }", "{}")
        .replace("  metrics:\n", "    - name: window\n  metrics:\n");
    insta::assert_snapshot!(problems(&text), @r#"
    agent.yaml:10:13: spec.args[1].name: the argument "window" is there twice
      10 |     - name: window
         |             ^^^^^^
      hint: results are kept by name: give each its own
    agent.yaml:13:17: spec.metrics[0].interval: "1 minute" is not a duration: the unit is none of ns, us, ms, s, m, h
      13 |       interval: 1 minute
         |                 ^^^^^^^^
    agent.yaml:14:14: spec.metrics[0].count: it must be at least 1, got 0
      14 |       count: 0
         |              ^
    agent.yaml:16:25: spec.metrics[0].successCondition: "result[0] <= 5%" is no condition: what it is compared with is no plain number
      16 |       successCondition: "result[0] <= 5%"
         |                         ^^^^^^^^^^^^^^^^^
      hint: write `result[0] <op> <number>` with one of >= <= > < == !=, such as `result[0] <= 0.05`
    agent.yaml:21:13: warning: spec.metrics[0].provider.prometheus.query: `{{ args.window }}` is not replaced
      21 |             sum(rate(omnia_agent_requests_total{status="error"}[{{ args.window }}]))
         |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: write `{{args.window}}`, without blanks
    agent.yaml:22:13: spec.metrics[1].name: the metric "error-rate" is there twice
      22 |     - name: error-rate
         |             ^^^^^^^^^^
      hint: results are kept by name: give each its own
    agent.yaml:28:16: warning: spec.metrics[1].provider.web.url: spec.args declares no argument "host"
      28 |           url: https://{{args.host}}/api/score
         |                ^^^^^^^^^^^^^^^^^^^
      hint: declare it, or every step that uses this template must set it
    agent.yaml:36:7: spec.metrics[2].provider: one of prometheus, web, arenaEval must be set
      36 |       provider:
         |       ^^^^^^^^
    "#);
}

#[test]
fn of_several_providers_the_first_is_asked_and_a_warning_says_so() {
    let text = TEMPLATE.replace("        web:\n", "        arenaEval: { evalDef: x }\n        web:\n");
    let desired = desired(&text);
    assert!(desired.is_clean());
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:25:7: warning: spec.metrics[1].provider: web and arenaEval are set: only web is asked
      25 |       provider:
         |       ^^^^^^^^
      hint: remove the others
    ");
}
