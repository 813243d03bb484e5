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

fn lines(metrics: &Metrics, with: &str) -> String {
    metrics.render().lines().filter(|line| line.contains(with)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_seven_known_families_have_the_known_names_types_and_labels() {
    let metrics = Metrics::new();
    tell_a_story(&agent("support"), &metrics);
    insta::assert_snapshot!(lines(&metrics, "omnia_rollout"), @"");
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
    insta::assert_snapshot!(shown, @"");
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
