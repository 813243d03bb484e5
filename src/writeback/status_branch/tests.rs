use insta::assert_snapshot;
use jiff::Timestamp;

use crate::ids::{CommitSha, Digest, Weight};

use super::*;

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn agent() -> AgentKey {
    AgentKey::new("production", "support-agent")
}

fn idle(name: &str) -> AgentStatus {
    AgentStatus {
        agent: AgentKey::new("production", name),
        config_commit: Some(CommitSha::new("1111111111111111111111111111111111111111")),
        phase: "idle".to_owned(),
        rollout: None,
        step: None,
        requested_weight: None,
        delivered_weight: None,
        stable_version: Some("1.0.0".to_owned()),
        candidate_version: None,
        started_at: None,
        step_started_at: None,
        waiting_for: None,
        conditions: Vec::new(),
        last_outcome: None,
        rejected: Vec::new(),
    }
}

fn in_flight() -> AgentStatus {
    AgentStatus {
        phase: "stepping".to_owned(),
        rollout: Some(RolloutId::new("r-20260101-120000")),
        step: Some(StepPosition { number: 2, of: 4 }),
        requested_weight: Weight::new(50),
        delivered_weight: Weight::new(25),
        candidate_version: Some("2.0.0".to_owned()),
        started_at: Some(at("2026-01-01T12:00:00Z")),
        step_started_at: Some(at("2026-01-01T12:05:00Z")),
        waiting_for: Some("1 of 2 candidate pods to become available".to_owned()),
        conditions: vec![ConditionStatus {
            kind: "RolloutActive".to_owned(),
            status: "True".to_owned(),
            reason: "RolloutInProgress".to_owned(),
            message: "step 2: setWeight 50".to_owned(),
            last_transition: Some(at("2026-01-01T12:00:00Z")),
        }],
        last_outcome: Some(LastOutcome {
            rollout: RolloutId::new("r-20251224-080000"),
            outcome: "rolled-back".to_owned(),
            reason: Some("pod unhealthy".to_owned()),
            candidate: "support-pack 1.1.0".to_owned(),
            at: at("2025-12-24T08:10:00Z"),
            decision_commit: Some(CommitSha::new("2222222222222222222222222222222222222222")),
        }),
        rejected: vec![RejectedCandidate {
            digest: Digest::new("sha256:ab12"),
            title: "support-pack 1.1.0".to_owned(),
            version: Some("1.10".to_owned()),
            reason: "pod unhealthy".to_owned(),
            at: at("2025-12-24T08:10:00Z"),
        }],
        ..idle("support-agent")
    }
}

fn history() -> RolloutHistory {
    RolloutHistory {
        agent: agent(),
        rollout: RolloutId::new("r-20251224-080000"),
        candidate: "support-pack 1.1.0".to_owned(),
        candidate_digest: Some(Digest::new("sha256:ab12")),
        config_commit: Some(CommitSha::new("3333333333333333333333333333333333333333")),
        stable_version: Some("1.0.0".to_owned()),
        candidate_version: Some("1.1.0".to_owned()),
        started_at: at("2025-12-24T08:00:00Z"),
        ended_at: Some(at("2025-12-24T08:10:00Z")),
        steps: vec![
            StepHistory {
                position: StepPosition { number: 1, of: 2 },
                what: "setWeight 20".to_owned(),
                entered_at: at("2025-12-24T08:00:00Z"),
                completed_at: Some(at("2025-12-24T08:01:30Z")),
                requested_weight: Weight::new(20).unwrap(),
                delivered_weight: Weight::new(20).unwrap(),
            },
            StepHistory {
                position: StepPosition { number: 2, of: 2 },
                what: "pause 1h".to_owned(),
                entered_at: at("2025-12-24T08:01:30Z"),
                completed_at: None,
                requested_weight: Weight::new(20).unwrap(),
                delivered_weight: Weight::ZERO,
            },
        ],
        outcome: Some("rolled-back".to_owned()),
        reason: Some("pod unhealthy".to_owned()),
        decision_commit: Some(CommitSha::new("2222222222222222222222222222222222222222")),
        events: vec![HistoryEvent {
            at: at("2025-12-24T08:10:00Z"),
            reason: "RolloutRolledBack".to_owned(),
            message: "auto-rollback: pod unhealthy\nback-off: \"restarting\" # 5".to_owned(),
        }],
    }
}

fn render(
    cluster: &ClusterName,
    statuses: &[AgentStatus],
    histories: &[RolloutHistory],
) -> BTreeMap<TreePath, Vec<u8>> {
    super::render(cluster, &Overview::of(statuses), statuses, histories)
}

fn cluster() -> ClusterName {
    ClusterName::new("prod")
}

fn text(files: &BTreeMap<TreePath, Vec<u8>>, path: &str) -> String {
    String::from_utf8(files[&TreePath::new(path)].clone()).unwrap()
}

#[test]
fn a_status_document_reads_like_this() {
    let files = render(&cluster(), &[in_flight(), idle("sales-agent")], &[]);
    assert_snapshot!(text(&files, "production/support-agent/status.yaml"), @r#"
    # Written by Serin. It is overwritten; to change what happens, change the config branch.
    version: 1
    agent:
      namespace: production
      name: support-agent
    configCommit: "1111111111111111111111111111111111111111"
    phase: stepping
    rollout:
      id: r-20260101-120000
      step: 2
      steps: 4
      requestedWeight: 50
      deliveredWeight: 25
      candidateVersion: "2.0.0"
      startedAt: "2026-01-01T12:00:00Z"
      stepStartedAt: "2026-01-01T12:05:00Z"
    stableVersion: "1.0.0"
    waitingFor: 1 of 2 candidate pods to become available
    conditions:
    - type: RolloutActive
      status: "True"
      reason: RolloutInProgress
      message: "step 2: setWeight 50"
      lastTransition: "2026-01-01T12:00:00Z"
    lastOutcome:
      rollout: r-20251224-080000
      outcome: rolled-back
      reason: pod unhealthy
      candidate: support-pack 1.1.0
      at: "2025-12-24T08:10:00Z"
      decisionCommit: "2222222222222222222222222222222222222222"
    rejectedCandidates:
    - digest: sha256:ab12
      title: support-pack 1.1.0
      version: "1.10"
      reason: pod unhealthy
      at: "2025-12-24T08:10:00Z"
    "#);
    assert_snapshot!(text(&files, "production/sales-agent/status.yaml"), @r#"
    # Written by Serin. It is overwritten; to change what happens, change the config branch.
    version: 1
    agent:
      namespace: production
      name: sales-agent
    configCommit: "1111111111111111111111111111111111111111"
    phase: idle
    stableVersion: "1.0.0"
    "#);
}

#[test]
fn a_history_document_reads_like_this() {
    let files = render(&cluster(), &[], &[history()]);
    assert_snapshot!(text(&files, "production/support-agent/history/r-20251224-080000.yaml"), @r#"
    # Written by Serin. It is overwritten; to change what happens, change the config branch.
    version: 1
    agent:
      namespace: production
      name: support-agent
    rollout: r-20251224-080000
    candidate: support-pack 1.1.0
    candidateDigest: sha256:ab12
    configCommit: "3333333333333333333333333333333333333333"
    stableVersion: "1.0.0"
    candidateVersion: "1.1.0"
    startedAt: "2025-12-24T08:00:00Z"
    endedAt: "2025-12-24T08:10:00Z"
    outcome: rolled-back
    reason: pod unhealthy
    decisionCommit: "2222222222222222222222222222222222222222"
    steps:
    - step: 1
      of: 2
      what: setWeight 20
      enteredAt: "2025-12-24T08:00:00Z"
      completedAt: "2025-12-24T08:01:30Z"
      requestedWeight: 20
      deliveredWeight: 20
    - step: 2
      of: 2
      what: pause 1h
      enteredAt: "2025-12-24T08:01:30Z"
      requestedWeight: 20
      deliveredWeight: 0
    events:
    - at: "2025-12-24T08:10:00Z"
      reason: RolloutRolledBack
      message: |-
        auto-rollback: pod unhealthy
        back-off: "restarting" # 5
    "#);
}

#[test]
fn the_dashboard_shows_all_agents_in_order() {
    let mut odd = idle("a|b");
    odd.phase = "<b>x</b>".to_owned();
    odd.waiting_for = Some("line\n[link](x) `code`".to_owned());
    odd.last_outcome = Some(LastOutcome { decision_commit: None, reason: None, ..in_flight().last_outcome.unwrap() });
    let files = render(&cluster(), &[in_flight(), idle("sales-agent"), odd], &[]);
    assert_snapshot!(text(&files, "README.md"), @r#"
    # Rollouts in prod

    3 agents, 1 in flight.

    | agent | phase | step | weight | stable | candidate | waiting for | last outcome |
    |---|---|---|---|---|---|---|---|
    | [production/a\|b](production/a-b/status.yaml) | &lt;b&gt;x&lt;/b&gt; | – | – | 1.0.0 | – | line \[link\](x) \`code\` | [rolled-back support-pack 1.1.0](production/a-b/history/r-20251224-080000.yaml), 2025-12-24 08:10 UTC, not in git yet |
    | [production/sales-agent](production/sales-agent/status.yaml) | idle | – | – | 1.0.0 | – | – | – |
    | [production/support-agent](production/support-agent/status.yaml) | stepping | 2 of 4 | 25 % (50 %) | 1.0.0 | 2.0.0 | 1 of 2 candidate pods to become available | [rolled-back support-pack 1.1.0](production/support-agent/history/r-20251224-080000.yaml): pod unhealthy, 2025-12-24 08:10 UTC, `2222222222` |

    Weight is the candidate's share of traffic: what is delivered, and in brackets what was asked for where that differs.

    Written by Serin. Edits here are overwritten; rollouts are changed on the config branch.
    "#);
    assert_snapshot!(text(&render(&cluster(), &[], &[]), "README.md"), @r#"
    # Rollouts in prod

    There are no agents.

    Weight is the candidate's share of traffic: what is delivered, and in brackets what was asked for where that differs.

    Written by Serin. Edits here are overwritten; rollouts are changed on the config branch.
    "#);
}

#[test]
fn documents_read_back_as_they_were() {
    for status in [in_flight(), idle("sales-agent")] {
        let files = render(&cluster(), std::slice::from_ref(&status), &[]);
        assert_eq!(parse_status(&files[&status_path(&status.agent)]).unwrap(), status);
    }
    let mut open = history();
    open.ended_at = None;
    open.outcome = None;
    open.events.clear();
    for history in [history(), open] {
        let files = render(&cluster(), &[], std::slice::from_ref(&history));
        assert_eq!(parse_history(&files[&history_path(&history.agent, &history.rollout)]).unwrap(), history);
    }
}

#[test]
fn a_later_version_and_nonsense_are_said() {
    assert_eq!(parse_status(b"version: 2\nanything: else\n"), Err(DocumentError::LaterVersion(2)));
    assert!(matches!(parse_status(b"hello"), Err(DocumentError::Unreadable(_))));
    assert!(matches!(parse_history(b"version: 1\n"), Err(DocumentError::Unreadable(_))));
    let files = render(&cluster(), &[in_flight()], &[]);
    let heavy =
        text(&files, "production/support-agent/status.yaml").replace("requestedWeight: 50", "requestedWeight: 101");
    assert_eq!(parse_status(heavy.as_bytes()), Err(DocumentError::NoWeight(101)));
    let newer = text(&files, "production/support-agent/status.yaml") + "addedLater: true\n";
    assert_eq!(parse_status(newer.as_bytes()), Ok(in_flight()));
}

fn digests(files: &BTreeMap<TreePath, Vec<u8>>) -> BTreeMap<TreePath, ContentDigest> {
    files.iter().map(|(path, contents)| (path.clone(), ContentDigest::of(contents))).collect()
}

#[test]
fn nothing_changes_when_nothing_happened() {
    let files = render(&cluster(), &[in_flight(), idle("sales-agent")], &[history()]);
    let again = render(&cluster(), &[idle("sales-agent"), in_flight()], &[history()]);
    assert_eq!(changed_files(&digests(&files), &again), BTreeMap::new());
}

#[test]
fn a_vanished_agent_loses_its_status_and_keeps_its_history() {
    let old = render(&cluster(), &[in_flight(), idle("sales-agent")], &[history()]);
    let new = render(&cluster(), &[idle("sales-agent")], &[]);
    let changes = changed_files(&digests(&old), &new);
    let paths: Vec<(&str, bool)> = changes.iter().map(|(path, edit)| (path.as_str(), edit.is_some())).collect();
    assert_eq!(paths, [("README.md", true), ("production/support-agent/status.yaml", false)]);
}

#[test]
fn no_name_leaves_the_tree() {
    let agent = AgentKey::new("..", "a/../../b");
    assert_eq!(status_path(&agent).as_str(), "-./a-..-..-b/status.yaml");
    assert_eq!(history_path(&agent, &RolloutId::new("../x")).as_str(), "-./a-..-..-b/history/-.-x.yaml");
}

#[test]
fn of_too_many_agents_the_page_shows_those_first_about_which_there_is_something_to_say() {
    let mut statuses: Vec<AgentStatus> = (0..2_000).map(|i| idle(&format!("agent-{i:04}"))).collect();
    statuses[1_999] = AgentStatus { agent: statuses[1_999].agent.clone(), ..in_flight() };
    statuses[1_500].waiting_for = Some("a pack".to_owned());
    let page = text(&render(&cluster(), &statuses, &[]), "README.md");
    let rows = page.lines().filter(|line| line.starts_with("| [production/")).collect::<Vec<_>>();
    assert_eq!(rows.len(), 500);
    assert!(rows[0].contains("agent-0000") && rows[498].contains("agent-1500") && rows[499].contains("agent-1999"));
    assert!(page.contains("2000 agents, 1 in flight."), "{page}");
    assert!(page.contains("The other 1500 have their status in `<namespace>/<agent>/status.yaml` as well."), "{page}");
    assert!(page.len() < 100_000, "{}", page.len());
}

#[test]
fn only_what_may_have_changed_has_to_be_given() {
    let old = digests(&render(&cluster(), &[in_flight(), idle("sales-agent"), idle("gone")], &[history()]));
    let path = |name: &str| TreePath::new(format!("production/{name}/status.yaml"));
    let new =
        super::render(&cluster(), &Overview::of(&[idle("sales-agent"), in_flight()]), &[idle("sales-agent")], &[]);
    let left = [path("gone"), path("sales-agent"), path("never-there")];
    let edits = changed_among(&old, &new, &left);
    assert_eq!(edits.keys().cloned().collect::<Vec<_>>(), [TreePath::new(DASHBOARD), path("gone")]);
    assert_eq!(edits[&path("gone")], None);
}
