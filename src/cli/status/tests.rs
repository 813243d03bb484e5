use std::sync::Arc;

use serde_json::json;

use jiff::Timestamp;

use super::*;
use crate::object::Object;

fn object(value: serde_json::Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).unwrap())
}

fn agent(name: &str, status: serde_json::Value) -> Arc<Object> {
    object(json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"rollout": {"steps": [{"setWeight": 20}, {"pause": {"duration": "5m"}}, {"setWeight": 100}]}},
        "status": status,
    }))
}

fn deployment(name: &str, owner: &str, available: i64) -> Arc<Object> {
    object(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "ownerReferences": [{"uid": owner, "controller": true}],
        },
        "status": {"availableReplicas": available},
    }))
}

fn table(agents: &[Arc<Object>], deployments: &[Arc<Object>]) -> String {
    let rows = agent_rows(agents, deployments, "2026-01-02T02:30:00Z".parse().unwrap());
    render(&rows, OutputForm::Table).unwrap()
}

#[test]
fn the_table_shows_where_each_agent_is_and_what_it_waits_for() {
    let agents = [
        agent(
            "support",
            json!({"rollout": {
                "active": true, "currentStep": 1, "currentWeight": 20,
                "stableVersion": "1.4.0", "candidateVersion": "2.0.0", "message": "step 2: pause 5m",
            }}),
        ),
        agent("idle", json!({"activeVersion": "1.0.0", "phase": "Running", "rollout": {"active": false}})),
        agent("broken", json!({"phase": "Failed"})),
        agent(
            "promoting",
            json!({"rollout": {
                "active": true, "currentStep": 3, "currentWeight": 100, "message": "promoting:\nwaiting for stable",
            }}),
        ),
    ];
    let deployments = [
        deployment("support", "support", 4),
        deployment("support-canary", "support", 1),
        deployment("promoting-canary", "promoting", 3),
        deployment("promoting", "promoting", 0),
        deployment("idle", "idle", 2),
    ];
    insta::assert_snapshot!(table(&agents, &deployments), @r"
    NAMESPACE   NAME        STEP   WEIGHT   DELIVERED   STABLE   CANDIDATE   AGE   WAITS FOR
    shop        broken      -      -        -           -        -           26h   Failed
    shop        idle        -      -        -           1.0.0    -           26h
    shop        promoting   3/3    100%     100%        -        -           26h   promoting: waiting for stable
    shop        support     2/3    20%      20%         1.4.0    2.0.0       26h   step 2: pause 5m
    ");
}

#[test]
fn weight_that_no_available_pod_carries_is_not_shown_as_delivered() {
    let active = json!({"rollout": {"active": true, "currentStep": 0, "currentWeight": 20}});
    let row = |deployments: &[Arc<Object>]| {
        agent_rows(&[agent("a", active.clone())], deployments, Timestamp::UNIX_EPOCH).remove(0).delivered_weight
    };
    assert_eq!(row(&[]), None);
    assert_eq!(row(&[deployment("a", "a", 4)]), Some(0));
    assert_eq!(row(&[deployment("a", "a", 0), deployment("a-canary", "a", 0)]), None);
    assert_eq!(row(&[deployment("a", "a", 2), deployment("a-canary", "a", 1)]), Some(33));
    assert_eq!(row(&[deployment("a", "a", 2), deployment("a-canary", "someone-else", 1)]), Some(0));
}

#[test]
fn json_has_the_documented_fields() {
    let rows = agent_rows(&[agent("a", json!({}))], &[], "2026-01-01T00:00:09Z".parse().unwrap());
    insta::assert_snapshot!(render(&rows, OutputForm::Json).unwrap(), @r#"
    [
      {
        "namespace": "shop",
        "name": "a",
        "active": false,
        "step": null,
        "steps": 3,
        "requestedWeight": null,
        "deliveredWeight": null,
        "stableVersion": null,
        "candidateVersion": null,
        "message": null,
        "ageSeconds": 9
      }
    ]
    "#);
}

#[test]
fn ages_read_as_kubectl_prints_them() {
    let age = |seconds| {
        let mut row = agent_rows(&[agent("a", json!({}))], &[], Timestamp::UNIX_EPOCH).remove(0);
        row.age_seconds = Some(seconds);
        row.cells()[7].clone()
    };
    for (seconds, text) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (3600, "60m"),
        (3 * 3600 + 60, "3h1m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
    ] {
        assert_eq!(age(seconds), text);
    }
}

#[test]
fn a_flag_about_a_repository_that_nobody_looks_at_is_refused_and_a_variable_is_not() {
    use std::collections::BTreeMap;

    use clap::parser::ValueSource;

    let said = |args: &StatusArgs, id: &str, source: ValueSource| {
        let typed = TypedAs::from_map(BTreeMap::from([(id.to_owned(), source)]));
        let selection = Selection::of(args.agent.as_deref(), None).unwrap();
        refuse_unused(args, &selection, &typed).err().map(|failure| failure.text().to_owned())
    };
    let (one, repo) = (Some("support".to_owned()), Some("/srv/a".to_owned()));
    let watch = StatusArgs { agent: one.clone(), watch: true, repo: repo.clone(), ..StatusArgs::default() };
    let list = StatusArgs { repo: repo.clone(), ..StatusArgs::default() };
    let page = StatusArgs { agent: one.clone(), ..StatusArgs::default() };
    for (args, id, why) in [
        (&watch, "repo", "--repo is about a repository, and --watch follows the cluster alone"),
        (&watch, "branch", "--branch is about a repository, and --watch follows the cluster alone"),
        (&watch, "token_file", "--token-file is about a repository, and --watch follows the cluster alone"),
        (
            &list,
            "repo",
            "--repo is about a repository, and the list of all agents is that of the cluster\n  hint: add --from-git",
        ),
        (&page, "branch", "--branch is about a repository\n  hint: say which with --repo"),
    ] {
        assert_eq!(said(args, id, ValueSource::CommandLine).as_deref(), Some(why));
        assert_eq!(said(args, id, ValueSource::EnvVariable), None);
    }
    for args in [StatusArgs { agent: one, repo, ..StatusArgs::default() }, StatusArgs { from_git: true, ..list }] {
        assert_eq!(said(&args, "branch", ValueSource::CommandLine), None);
    }
}
