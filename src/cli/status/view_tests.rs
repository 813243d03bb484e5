//! One agent in full, at a fixed time.

use std::sync::Arc;

use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::page::render_moment;
use super::*;
use crate::git::CommitInfo;
use crate::ids::{CommitSha, RolloutId, Weight};
use crate::object::Object;
use crate::writeback::status_branch::{
    AgentStatus, HistoryEvent, LastOutcome, RejectedCandidate, RolloutHistory, StepHistory, StepPosition,
};

fn now() -> Timestamp {
    at("10:12:30")
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-02T{time}Z").parse().unwrap()
}

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).unwrap())
}

fn record() -> Value {
    json!({
        "version": 1,
        "sequence": 3,
        "rollout": {
            "id": "support-3", "startedAt": "2026-01-02T10:00:00Z", "candidate": "c", "candidateSpec": {}, "base": "b",
            "title": "support-pack 1.1.0", "candidateVersion": "1.1.0", "steps": [], "delivery": "replicaWeighted",
            "heading": {"to": "steps"},
        },
        "rejected": [{
            "candidate": "r", "candidateSpec": {}, "rollout": "support-2", "title": "support-pack 1.0.9",
            "reason": "podUnhealthy", "at": "2026-01-01T09:00:00Z",
        }],
        "last": {"rollout": "support-2", "title": "support-pack 1.0.9", "rolledBack": "podUnhealthy", "at": "2026-01-01T09:00:00Z"},
    })
}

fn agent(record: &Value, status: Value) -> Arc<Object> {
    object(json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": {
            "namespace": "shop", "name": "support", "uid": "u", "generation": 4,
            "annotations": {"serin.dev/rollout": record.to_string()},
        },
        "spec": {
            "facades": [{"type": "websocket"}],
            "promptPackRef": {"name": "support-pack", "version": "1.0.0"},
            "rollout": {
                "candidate": {"promptPackRef": {"name": "support-pack", "version": "1.1.0"}},
                "trafficRouting": {"mode": "replicaWeighted"},
                "steps": [{"setWeight": 25}, {"setWeight": 50}, {"pause": {"duration": "10m"}}, {"pause": {}}],
            },
        },
        "status": status,
    }))
}

fn in_flight() -> Arc<Object> {
    agent(
        &record(),
        json!({
            "observedGeneration": 4,
            "conditions": [
                {"type": "RolloutActive", "status": "True", "reason": "RolloutInProgress", "message": "step 2: pause 10m"},
                {"type": "Ready", "status": "True", "reason": "RuntimeReady", "message": "at least one pod is ready"},
                {"type": "ServiceReady", "status": "False", "reason": "ServiceFailed", "message": "refused:\nno"},
            ],
            "rollout": {
                "active": true, "currentStep": 2, "currentWeight": 50, "startedAt": "2026-01-02T10:00:00Z",
                "stepStartedAt": "2026-01-02T10:05:00Z", "message": "step 2: pause 10m", "stableVersion": "1.0.0",
                "candidateVersion": "1.1.0",
            },
        }),
    )
}

fn deployments() -> Vec<Arc<Object>> {
    let deployment = |name: &str, wanted: u32, ready: u32| {
        object(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": name, "ownerReferences": [{"uid": "u", "controller": true}]},
            "spec": {"replicas": wanted},
            "status": {"readyReplicas": ready, "availableReplicas": ready},
        }))
    };
    vec![deployment("support", 2, 2), deployment("support-canary", 2, 1)]
}

#[test]
fn a_rollout_in_flight_is_shown_with_its_steps_pods_and_times() {
    let view = AgentView::of_cluster(&in_flight(), &deployments(), now());
    assert_snapshot!(render_page(&view, now()), @r"
    agent       shop/support
    phase       stepping, step 3 of 4
    stable      1.0.0, 2/2 pods ready
    candidate   1.1.0, 1/2 pods ready
    weight      50% asked for, 33% delivered
    waits for   the pause to end, until 2026-01-02 10:15:00 UTC (in 2m30s)
    rollout     support-3, started 2026-01-02 10:00:00 UTC (12m ago)

    STEPS
      ✓ 1   setWeight 25          2026-01-02 10:00:00 UTC
      ✓ 2   setWeight 50          done 2026-01-02 10:05:00 UTC
      ▸ 3   pause 10m             2026-01-02 10:05:00 UTC        for 7m30s
        4   pause until resumed

    DECISIONS
      rolled-back support-pack 1.0.9: pod unhealthy   2026-01-01 09:00:00 UTC (25h ago)   commit not known

    REJECTED: DO NOT START AGAIN BY THEMSELVES
      support-pack 1.0.9   2026-01-01 09:00:00 UTC (25h ago)      pod unhealthy

    CONDITIONS
      RolloutActive   True    RolloutInProgress   step 2: pause 10m
      Ready           True    RuntimeReady        at least one pod is ready
      ServiceReady    False   ServiceFailed       refused: no

    WARNINGS
      ServiceFailed: refused: no
    ");
    assert_snapshot!(render_moment(&view), @"stepping, step 3 of 4  stable 1.0.0 2/2  candidate 1.1.0 1/2  weight 50% asked for, 33% delivered");
    // The end of the pause is not told when it is over.
    assert_eq!(AgentView::of_cluster(&in_flight(), &[], at("10:20:00")).waiting_until, None);
}

#[test]
fn the_times_that_the_cluster_does_not_know_are_left_out() {
    let view = AgentView::of_cluster(&in_flight(), &deployments(), now());
    let times: Vec<_> = view.steps.iter().map(|step| (step.entered_at, step.completed_at)).collect();
    assert_eq!(
        times,
        [(Some(at("10:00:00")), None), (None, Some(at("10:05:00"))), (Some(at("10:05:00")), None), (None, None),]
    );
}

#[test]
fn json_is_the_document_of_the_status_branch_with_more_fields() {
    let view = AgentView::of_cluster(&in_flight(), &deployments(), now());
    assert_snapshot!(render_one(&view, OutputForm::Json).unwrap(), @r#"
    {
      "version": 1,
      "agent": {
        "namespace": "shop",
        "name": "support"
      },
      "phase": "stepping",
      "rollout": {
        "id": "support-3",
        "step": 3,
        "steps": 4,
        "requestedWeight": 50,
        "deliveredWeight": 33,
        "candidateVersion": "1.1.0",
        "startedAt": "2026-01-02T10:00:00Z",
        "stepStartedAt": "2026-01-02T10:05:00Z"
      },
      "stableVersion": "1.0.0",
      "conditions": [
        {
          "type": "RolloutActive",
          "status": "True",
          "reason": "RolloutInProgress",
          "message": "step 2: pause 10m"
        },
        {
          "type": "Ready",
          "status": "True",
          "reason": "RuntimeReady",
          "message": "at least one pod is ready"
        },
        {
          "type": "ServiceReady",
          "status": "False",
          "reason": "ServiceFailed",
          "message": "refused:\nno"
        }
      ],
      "lastOutcome": {
        "rollout": "support-2",
        "outcome": "rolled-back",
        "reason": "pod unhealthy",
        "candidate": "support-pack 1.0.9",
        "at": "2026-01-01T09:00:00Z"
      },
      "rejectedCandidates": [
        {
          "digest": "r",
          "title": "support-pack 1.0.9",
          "reason": "pod unhealthy",
          "at": "2026-01-01T09:00:00Z"
        }
      ],
      "waitingUntil": "2026-01-02T10:15:00Z",
      "pods": {
        "stable": {
          "wanted": 2,
          "ready": 2,
          "available": 2
        },
        "candidate": {
          "wanted": 2,
          "ready": 1,
          "available": 1
        }
      },
      "steps": [
        {
          "step": 1,
          "what": "setWeight 25",
          "state": "done",
          "enteredAt": "2026-01-02T10:00:00Z"
        },
        {
          "step": 2,
          "what": "setWeight 50",
          "state": "done",
          "completedAt": "2026-01-02T10:05:00Z"
        },
        {
          "step": 3,
          "what": "pause 10m",
          "state": "current",
          "enteredAt": "2026-01-02T10:05:00Z"
        },
        {
          "step": 4,
          "what": "pause until resumed",
          "state": "pending"
        }
      ],
      "decisions": [
        {
          "rollout": "support-2",
          "outcome": "rolled-back",
          "candidate": "support-pack 1.0.9",
          "reason": "pod unhealthy",
          "at": "2026-01-01T09:00:00Z"
        }
      ],
      "warnings": [
        "ServiceFailed: refused:\nno"
      ]
    }
    "#);
    let yaml = render_one(&view, OutputForm::Yaml).unwrap();
    let back: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(back, serde_json::to_value(&view).unwrap());
}

#[test]
fn an_agent_at_rest_says_why_its_candidate_does_not_start() {
    let mut record = record();
    record["rollout"] = Value::Null;
    record["cooldownUntil"] = "2026-01-02T10:13:00Z".into();
    let message = "auto-rollback: pod unhealthy; cooling down after a rollback until 2026-01-02T10:13:00Z";
    let status =
        json!({"observedGeneration": 3, "activeVersion": "1.0.0", "rollout": {"active": false, "message": message}});
    let view = AgentView::of_cluster(&agent(&record, status), &deployments()[..1], now());
    assert_snapshot!(render_page(&view, now()), @r"
    agent       shop/support
    phase       idle
    stable      1.0.0, 2/2 pods ready
    waits for   cooling down after a rollback until 2026-01-02T10:13:00Z (in 30s)

    DECISIONS
      rolled-back support-pack 1.0.9: pod unhealthy   2026-01-01 09:00:00 UTC (25h ago)   commit not known

    REJECTED: DO NOT START AGAIN BY THEMSELVES
      support-pack 1.0.9   2026-01-01 09:00:00 UTC (25h ago)      pod unhealthy

    WARNINGS
      the status is about generation 3 and the object is at 4: Serin has not looked at it yet
    ");
}

#[test]
fn each_phase_has_the_word_of_the_status_branch() {
    let phase = |reason: &str, step: Value, message: &str| {
        let status = json!({
            "conditions": [{"type": "RolloutActive", "status": "True", "reason": reason, "message": ""}],
            "rollout": {"active": true, "currentStep": step, "message": message},
        });
        let view = AgentView::of_cluster(&agent(&record(), status), &[], now());
        (view.status.phase, view.status.waiting_for.unwrap_or_default())
    };
    let text = |phase: &str, why: &str| (phase.to_owned(), why.to_owned());
    let promoting = "promoting: waiting for stable to roll";
    assert_eq!(phase("Promoting", json!(4), promoting), text("promoting", "waiting for stable to roll"));
    let back = "rolling back: pod unhealthy";
    assert_eq!(phase("RollingBack", Value::Null, back), text("rolling back", "pod unhealthy"));
    let git = "all steps completed, the promotion waits for git: away";
    assert_eq!(
        phase("RolloutInProgress", json!(4), git),
        text("awaiting promotion", "the promotion waits for git: away")
    );
    let pods = "step 0: setWeight 25: waiting for 1 available pod";
    assert_eq!(phase("RolloutInProgress", json!(0), pods), text("stepping", "waiting for 1 available pod"));
    assert_eq!(phase("InvalidSpec", json!(0), "step 0: setWeight 25").0, "invalid");
}

fn branch_status() -> AgentStatus {
    AgentStatus {
        agent: AgentKey::new("shop", "support"),
        config_commit: Some(CommitSha::new("c".repeat(40))),
        phase: "stepping".to_owned(),
        rollout: Some(RolloutId::new("support-3")),
        step: Some(StepPosition { number: 2, of: 3 }),
        requested_weight: Weight::new(25),
        delivered_weight: Weight::new(20),
        stable_version: Some("1.0.0".to_owned()),
        candidate_version: Some("1.1.0".to_owned()),
        started_at: Some(at("10:00:00")),
        step_started_at: Some(at("10:01:00")),
        waiting_for: Some("waiting for 1 available pod".to_owned()),
        conditions: Vec::new(),
        last_outcome: Some(LastOutcome {
            rollout: RolloutId::new("support-2"),
            outcome: "rolled-back".to_owned(),
            reason: Some("pod unhealthy".to_owned()),
            candidate: "support-pack 1.0.9".to_owned(),
            at: at("09:00:00"),
            decision_commit: Some(CommitSha::new("d".repeat(40))),
        }),
        rejected: vec![RejectedCandidate {
            digest: crate::ids::Digest::new("r"),
            title: "support-pack 1.0.9".to_owned(),
            version: Some("1.0.9".to_owned()),
            reason: "pod unhealthy".to_owned(),
            at: at("09:00:00"),
        }],
    }
}

fn history(rollout: &str, steps: &[(u32, &str)], ended: Option<&str>) -> RolloutHistory {
    RolloutHistory {
        agent: AgentKey::new("shop", "support"),
        rollout: RolloutId::new(rollout),
        candidate: "support-pack 1.0.0".to_owned(),
        candidate_digest: None,
        config_commit: None,
        stable_version: None,
        candidate_version: None,
        started_at: at("08:00:00"),
        ended_at: ended.map(at),
        steps: steps
            .iter()
            .map(|(number, entered)| StepHistory {
                position: StepPosition { number: *number, of: 3 },
                what: "setWeight 25".to_owned(),
                entered_at: at(entered),
                completed_at: Some(at("10:01:00")),
                requested_weight: Weight::ZERO,
                delivered_weight: Weight::ZERO,
            })
            .collect(),
        outcome: ended.map(|_| "promoted".to_owned()),
        reason: None,
        decision_commit: ended.map(|_| CommitSha::new("e".repeat(40))),
        events: vec![HistoryEvent { at: at("08:00:00"), reason: "RolloutStarted".into(), message: String::new() }],
    }
}

#[test]
fn the_branch_alone_gives_the_same_page_with_the_commits_of_the_decisions() {
    let mut view = AgentView::of_branch(&branch_status());
    view.add_histories(&[history("support-3", &[(1, "10:00:00")], None), history("support-1", &[], Some("08:30:00"))]);
    view.add_commits(&[CommitInfo {
        commit: CommitSha::new("d".repeat(40)),
        subject: "roll back shop/support from support-pack 1.0.9".to_owned(),
        author: "Serin".to_owned(),
        at: at("09:00:01"),
    }]);
    assert_snapshot!(render_page(&view, now()), @r"
    agent       shop/support
    phase       stepping, step 2 of 3
    stable      1.0.0
    candidate   1.1.0
    weight      25% asked for, 20% delivered
    waits for   1 available pod
    rollout     support-3, started 2026-01-02 10:00:00 UTC (12m ago)
    commit      cccccccccc

    STEPS
      ✓ 1   setWeight 25   2026-01-02 10:00:00 UTC   took 60s
      ▸ 2                  2026-01-02 10:01:00 UTC   for 11m

    DECISIONS
      rolled-back support-pack 1.0.9: pod unhealthy   2026-01-02 09:00:00 UTC (72m ago)    dddddddddd   roll back shop/support from support-pack 1.0.9
      promoted support-pack 1.0.0                     2026-01-02 08:30:00 UTC (102m ago)   eeeeeeeeee

    REJECTED: DO NOT START AGAIN BY THEMSELVES
      support-pack 1.0.9   2026-01-02 09:00:00 UTC (72m ago)   dddddddddd   pod unhealthy
    ");
    assert_eq!(view.decisions[0].committed_at, Some(at("09:00:01")));
}

#[test]
fn the_history_fills_in_the_times_that_the_cluster_has_forgotten() {
    let mut view = AgentView::of_cluster(&in_flight(), &deployments(), now());
    view.add_histories(&[history("support-3", &[(1, "10:00:00"), (3, "10:04:00")], None)]);
    assert_eq!(view.steps[0].completed_at, Some(at("10:01:00")));
    // Where it stands, the cluster knows better.
    assert_eq!(view.steps[2].entered_at, Some(at("10:05:00")));
    assert_eq!(view.steps.len(), 4);
}

#[test]
fn an_agent_is_named_with_or_without_its_namespace() {
    let selection = |agent: &str, namespace: Option<&str>| Selection::of(Some(agent), namespace);
    let keys = [AgentKey::new("shop", "support"), AgentKey::new("shop", "both"), AgentKey::new("bank", "both")];
    let all: Vec<&AgentKey> = keys.iter().collect();
    let one = |agent: &str, namespace: Option<&str>| selection(agent, namespace)?.one(&all);
    let found = |agent, namespace| one(agent, namespace).map(|found| found.map(ToString::to_string));
    assert_eq!(found("support", None).unwrap().as_deref(), Some("shop/support"));
    assert_eq!(found("bank/both", None).unwrap().as_deref(), Some("bank/both"));
    assert_eq!(found("both", Some("shop")).unwrap().as_deref(), Some("shop/both"));
    let refused = |agent, namespace| {
        let failure = one(agent, namespace).unwrap_err();
        (failure.status(), failure.text().to_owned())
    };
    let because = |status, text: &str| (status, text.to_owned());
    assert_eq!(
        refused("both", None),
        because(ExitStatus::Usage, "there are several agents both: say which of shop/both, bank/both")
    );
    assert_eq!(
        refused("suport", None),
        because(ExitStatus::NotFound, "there is no agent suport\n  hint: did you mean support?")
    );
    assert_eq!(
        refused("bank/support", None),
        because(
            ExitStatus::NotFound,
            "there is no agent support in the namespace bank\n  hint: did you mean shop/support?"
        )
    );
    assert_eq!(refused("unlike", None), because(ExitStatus::NotFound, "there is no agent unlike"));
    assert_eq!(
        refused("bank/both", Some("shop")),
        because(ExitStatus::Usage, "bank/both and --namespace shop name two namespaces: say one of them")
    );
    for agent in ["/a", "a/", "a/b/c", ""] {
        assert_eq!(refused(agent, None).0, ExitStatus::Usage, "{agent}");
    }
    assert_eq!(Selection::of(None, None).unwrap().one(&all).unwrap(), None);
}
