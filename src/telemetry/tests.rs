//! The metrics as Prometheus reads them and the log as people and machines do.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use super::event::*;
use super::logging::subscriber;
use super::*;
use crate::cluster::ClusterError;
use crate::git::RepositoryError;
use crate::ids::{AgentKey, CommitSha, RolloutId, SourceName, Weight};
use crate::object::{Kind, ObjectKey};
use crate::rollout::RollbackReason;
use crate::settings::{LogFormat, LogLevel, LogSettings};

fn agent(name: &str) -> AgentKey {
    AgentKey::new("shop", name)
}

/// One whole rollout of `agent`, rolled back and then promoted.
fn tell_a_story(agent: &AgentKey, metrics: &Metrics) {
    let rollout = &RolloutId::new("r1");
    RolloutStarted { agent, rollout, candidate: "pack 2.0.0", stable: "pack 1.0.0" }.emit(metrics);
    StepEntered { agent, rollout, step: 0, steps: 2, title: "setWeight 20" }.emit(metrics);
    let twenty = Weight::new(20).unwrap();
    WeightDelivered { agent, rollout, delivered: twenty, requested: twenty }.emit(metrics);
    let took = Duration::from_secs(45);
    StepCompleted { agent, rollout, step: 0, step_type: StepType::SetWeight, took }.emit(metrics);
    let took = Duration::from_secs(300);
    StepCompleted { agent, rollout, step: 1, step_type: StepType::Pause, took }.emit(metrics);
    AnalysisCompleted { agent, rollout, template: "errors", has_passed: false }.emit(metrics);
    RolledBack { agent, rollout, candidate: "pack 2.0.0", reason: RollbackReason::PodUnhealthy }.emit(metrics);
    RolloutPromoted { agent, rollout, candidate: "pack 2.0.1" }.emit(metrics);
}

/// The lines with `with` in them. Sorted, because the library keeps the series of a family in no order.
fn lines(metrics: &Metrics, with: &str) -> String {
    let text = metrics.render();
    let mut lines: Vec<&str> = text.lines().filter(|line| line.contains(with)).collect();
    lines.sort_by_key(|line| (!line.starts_with("# HELP"), !line.starts_with('#'), *line));
    lines.join("\n")
}

#[test]
fn the_seven_known_families_have_the_known_names_types_and_labels() {
    let metrics = Metrics::new();
    tell_a_story(&agent("support"), &metrics);
    insta::assert_snapshot!(lines(&metrics, "omnia_rollout"), @r#"
    # HELP omnia_rollout_active 1 while a rollout is in flight, else 0.
    # HELP omnia_rollout_analysis_runs Completed analysis runs.
    # HELP omnia_rollout_promotions Finished promotions.
    # HELP omnia_rollout_rollbacks Rollbacks by reason.
    # HELP omnia_rollout_step_duration_seconds How long completed steps took from when they were entered.
    # HELP omnia_rollout_step_transitions Completed steps.
    # HELP omnia_rollout_traffic_weight Delivered share of traffic in percent.
    # TYPE omnia_rollout_active gauge
    # TYPE omnia_rollout_analysis_runs counter
    # TYPE omnia_rollout_promotions counter
    # TYPE omnia_rollout_rollbacks counter
    # TYPE omnia_rollout_step_duration_seconds histogram
    # TYPE omnia_rollout_step_transitions counter
    # TYPE omnia_rollout_traffic_weight gauge
    omnia_rollout_active{namespace="shop",agentruntime="support"} 0
    omnia_rollout_analysis_runs_total{namespace="shop",agentruntime="support",template="errors",result="fail"} 1
    omnia_rollout_promotions_total{namespace="shop",agentruntime="support"} 1
    omnia_rollout_rollbacks_total{namespace="shop",agentruntime="support",reason="pod_unhealthy"} 1
    omnia_rollout_step_duration_seconds_bucket{le="+Inf",namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_bucket{le="+Inf",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="10.0",namespace="shop",agentruntime="support",step_type="pause"} 0
    omnia_rollout_step_duration_seconds_bucket{le="10.0",namespace="shop",agentruntime="support",step_type="setWeight"} 0
    omnia_rollout_step_duration_seconds_bucket{le="120.0",namespace="shop",agentruntime="support",step_type="pause"} 0
    omnia_rollout_step_duration_seconds_bucket{le="120.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="1800.0",namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_bucket{le="1800.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="30.0",namespace="shop",agentruntime="support",step_type="pause"} 0
    omnia_rollout_step_duration_seconds_bucket{le="30.0",namespace="shop",agentruntime="support",step_type="setWeight"} 0
    omnia_rollout_step_duration_seconds_bucket{le="300.0",namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_bucket{le="300.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="3600.0",namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_bucket{le="3600.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="60.0",namespace="shop",agentruntime="support",step_type="pause"} 0
    omnia_rollout_step_duration_seconds_bucket{le="60.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_bucket{le="600.0",namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_bucket{le="600.0",namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_count{namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_duration_seconds_count{namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_step_duration_seconds_sum{namespace="shop",agentruntime="support",step_type="pause"} 300.0
    omnia_rollout_step_duration_seconds_sum{namespace="shop",agentruntime="support",step_type="setWeight"} 45.0
    omnia_rollout_step_transitions_total{namespace="shop",agentruntime="support",step_type="pause"} 1
    omnia_rollout_step_transitions_total{namespace="shop",agentruntime="support",step_type="setWeight"} 1
    omnia_rollout_traffic_weight{namespace="shop",agentruntime="support",variant="canary"} 0
    omnia_rollout_traffic_weight{namespace="shop",agentruntime="support",variant="stable"} 100
    "#);
}

#[test]
fn the_series_of_an_agent_end_with_it_and_others_stay() {
    let metrics = Metrics::new();
    tell_a_story(&agent("gone"), &metrics);
    tell_a_story(&agent("here"), &metrics);
    let before = lines(&metrics, r#"agentruntime="here""#);
    AgentForgotten { agent: &agent("gone") }.emit(&metrics);
    assert_eq!(lines(&metrics, r#"agentruntime="gone""#), "");
    assert_eq!(lines(&metrics, r#"agentruntime="here""#), before);
    assert!(!before.is_empty());
}

#[test]
fn our_own_metrics_count_what_the_events_tell() {
    let metrics = Metrics::new();
    let (source, commit) = (&SourceName::new("prod"), &CommitSha::new("c1"));
    let (took, at) = (Duration::from_millis(20), Timestamp::from_second(1_700_000_000).unwrap());
    SourceFetched { source, commit, before: None, took, at }.emit(&metrics);
    SourceFetched { source, commit, before: Some(commit), took, at }.emit(&metrics);
    let error = &RepositoryError::Unreachable { address: "https://h/x".into(), why: "no route".into() };
    SourceFetchFailed { source, error, failed_before: 0, took }.emit(&metrics);
    ManifestsRead { source, commit, valid: 5, invalid: 1 }.emit(&metrics);
    let object = &ObjectKey::new(Kind::CONFIG_MAP, "shop", "x");
    ObjectApplied { source, object, verb: SyncVerb::Create, commit }.emit(&metrics);
    let error = &ClusterError::Unavailable { why: "refused".into() };
    ApplyRefused { source, object, verb: SyncVerb::Prune, error }.emit(&metrics);
    PassFinished { kind: PassKind::Agent, key: "shop/x", took }.emit(&metrics);
    let retry_in = Duration::from_secs(1);
    PassPanicked { kind: PassKind::Agent, key: "shop/x", message: "index", retry_in, took }.emit(&metrics);
    metrics.sync.set_queue_depth(3);
    metrics.sync.cluster_request("patch", &Kind::DEPLOYMENT, "ok");
    let all = lines(&metrics, "serin_");
    let shown: String = all
        .lines()
        .filter(|line| !line.contains("_bucket") && !line.starts_with("# HELP") && !line.contains("build_info"))
        .map(|line| format!("{line}\n"))
        .collect();
    insta::assert_snapshot!(shown, @r#"
    # TYPE serin_cluster_requests counter
    # TYPE serin_leader gauge
    # TYPE serin_pass_duration_seconds histogram
    # TYPE serin_passes counter
    # TYPE serin_queue_depth gauge
    # TYPE serin_source_fetch_duration_seconds histogram
    # TYPE serin_source_fetches counter
    # TYPE serin_source_last_success_timestamp_seconds gauge
    # TYPE serin_source_objects gauge
    # TYPE serin_sync_writes counter
    serin_cluster_requests_total{verb="patch",kind="Deployment.apps",result="ok"} 1
    serin_leader 0
    serin_pass_duration_seconds_count{kind="agent"} 2
    serin_pass_duration_seconds_sum{kind="agent"} 0.04
    serin_passes_total{kind="agent",result="ok"} 1
    serin_passes_total{kind="agent",result="panic"} 1
    serin_queue_depth 3
    serin_source_fetch_duration_seconds_count{source="prod"} 3
    serin_source_fetch_duration_seconds_sum{source="prod"} 0.06
    serin_source_fetches_total{source="prod",result="changed"} 1
    serin_source_fetches_total{source="prod",result="unchanged"} 1
    serin_source_fetches_total{source="prod",result="unreachable"} 1
    serin_source_last_success_timestamp_seconds{source="prod"} 1700000000
    serin_source_objects{source="prod",state="invalid"} 1
    serin_source_objects{source="prod",state="valid"} 5
    serin_sync_writes_total{source="prod",verb="create",result="ok"} 1
    serin_sync_writes_total{source="prod",verb="prune",result="unavailable"} 1
    "#);
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(format: LogFormat, level: LogLevel, is_terminal: bool) -> String {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let settings = LogSettings { format, level };
    let subscriber = subscriber(&settings, is_terminal, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || tell_a_story(&agent("support"), &Metrics::new()));
    let bytes = buffer.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_log_is_text_on_a_terminal_and_json_elsewhere() {
    let text = logged(LogFormat::Text, LogLevel::Info, false);
    assert!(text.contains(" INFO traffic moved agent=shop/support rollout=r1 delivered=20 requested=20"), "{text}");
    let json = logged(LogFormat::Auto, LogLevel::Info, false);
    for line in json.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["agent"], "shop/support");
        assert!(line["message"].is_string() && line["timestamp"].is_string());
    }
    assert!(serde_json::from_str::<serde_json::Value>(&logged(LogFormat::Auto, LogLevel::Info, true)).is_err());
}

#[test]
fn steady_state_is_only_logged_when_asked_for() {
    assert_eq!(logged(LogFormat::Text, LogLevel::Warn, false).lines().count(), 1);
    assert!(
        !logged(LogFormat::Text, LogLevel::Info, false).contains("was completed agent=shop/support rollout=r1 step")
    );
    assert!(logged(LogFormat::Text, LogLevel::Debug, false).contains("DEBUG the step was completed"));
    let directives = LogLevel::Directives("serin=error".into());
    assert_eq!(logged(LogFormat::Text, directives, false), "");
}
