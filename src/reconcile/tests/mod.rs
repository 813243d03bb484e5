//! The shell on simulated parts: what wakes it, what it tries again, and what it must not push.

mod bench;
mod manifests;
mod meddling;
mod outage;
mod refusals;
mod restart;
mod surroundings;
mod syncs;
mod troubles;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;

use crate::apply::tracked_by;
use crate::clock::{Clock, SimulatedClock};
use crate::cluster::simulated::{Delivery, Fate, Pods, SimulatedCluster, Verb};
use crate::cluster::{Cluster, ClusterError};
use crate::git::simulated::{self, SimulatedRepository};
use crate::git::{Author, RepositoryError, Revision};
use crate::ids::{AgentKey, BranchName, ClusterName, CommitSha, SourceName, TreePath};
use crate::manifest::{Rules, Schemas};
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::leader::Leading;
use crate::reconcile::queue::WorkQueue;
use crate::reconcile::source::{Source, SourceOptions};
use crate::reconcile::{Core, CoreOptions, Key};
use crate::telemetry::Metrics;
use crate::workload::WorkloadSettings;

use bench::{AGENT, Bench, agent, pack};

#[test]
fn an_agent_that_the_server_refuses_is_tried_again_without_a_new_commit() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    bench.cluster.set_admission(Box::new(move |object| {
        let is_let_in = object.key().kind != Kind::AGENT_RUNTIME || gate.load(Ordering::Relaxed);
        if is_let_in { Ok(()) } else { Err("there is no such namespace".to_owned()) }
    }));
    bench.run_for(10);
    assert!(bench.live_agent().is_none());
    is_open.store(true, Ordering::Relaxed);
    bench.run_for(60);
    assert!(bench.live_agent().is_some());
}

#[test]
fn admission_that_does_not_answer_in_one_namespace_holds_up_no_other() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.write("prod/a.yaml", &pack("first", "1.0.0"));
    bench.cluster.inject(Box::new(|call| {
        let is_hit = call.key.namespace == "first" && matches!(call.verb, Verb::Apply(..));
        if is_hit {
            return Fate::FailBefore(ClusterError::Unavailable { why: "500: failed calling webhook".into() });
        }
        Fate::Proceed
    }));
    bench.run_for(10);
    assert!(bench.live_agent().is_some());
}

#[test]
fn a_commit_that_a_failed_publication_has_seen_first_is_synced_all_the_same() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.pushes_fail();
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run(60, |key| matches!(key, Key::Publish(_)));
    bench.write("prod/pack-4.yaml", &pack("prod", "4.0.0"));
    bench.run_for(30);
    assert_eq!(bench.promotions(), 0);
    assert!(bench.cluster.live(&ObjectKey::new(Kind::PROMPT_PACK, "prod", "pack-4-0-0")).is_some());
}

#[test]
fn a_pause_that_is_pushed_while_the_promotion_is_on_its_way_is_kept() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run(60, |key| matches!(key, Key::Publish(_)));
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}, {pause: {}}]"));
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (0, "1.0.0"));
    let message = bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned();
    assert!(message.starts_with("step 1: paused indefinitely"), "{message}");
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}

#[test]
fn a_candidate_that_the_server_refuses_is_not_promoted_in_place_of_the_one_that_was_tried() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.cluster.set_admission(Box::new(|object| {
        let version = object.text("/spec/rollout/candidate/promptPackRef/version");
        if version == Some("3.0.0") { Err("not this one".to_owned()) } else { Ok(()) }
    }));
    bench.pushes_fail();
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run(60, |key| matches!(key, Key::Publish(_)));
    bench.write(AGENT, &agent("3.0.0", "[{setWeight: 100}]"));
    bench.repository.clear_fates();
    bench.run_for(120);
    assert_eq!((bench.promotions(), bench.version().as_str()), (0, "1.0.0"));
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}

#[test]
fn a_copy_in_another_source_does_not_cut_an_agent_off_from_its_own() {
    let mut bench = Bench::new("[{setWeight: 100}, {pause: {}}]");
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}, {pause: {}}]"));
    bench.fetch();
    bench.run_for(60);
    bench.write("copies/agent.yaml", &agent("2.0.0", "[{setWeight: 100}, {pause: {}}]"));
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.fetch();
    bench.run_for(60);
    bench.write(AGENT, &agent("", "[{setWeight: 100}, {pause: {}}]"));
    bench.fetch();
    bench.run_for(60);
    let message = bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned();
    assert!(message.starts_with("rolled back: the candidate was withdrawn"), "{message}");
}

/// Moves the agent from the folder of one source into that of the other, in one commit.
fn move_agent(bench: &Bench, text: &str) {
    let files = [(AGENT, None), ("copies/agent.yaml", Some(text.as_bytes().to_vec()))];
    let files = files.into_iter().map(|(path, text)| (TreePath::new(path), text)).collect();
    bench.repository.person("A Person").commit(&bench.branch, files, "move the agent");
}

fn owner(bench: &Bench) -> String {
    tracked_by(&bench.live_agent().unwrap()).unwrap().to_owned()
}

fn uids(bench: &Bench) -> Vec<Option<crate::ids::Uid>> {
    let deployment = bench.cluster.live(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent")).unwrap();
    vec![bench.live_agent().unwrap().uid(), deployment.uid()]
}

#[test]
fn an_agent_that_moves_to_an_adopting_source_is_never_gone_and_its_rollout_goes_on() {
    let steps = "[{setWeight: 100}, {pause: {}}]";
    let mut bench = Bench::adopting(steps, &["main"]);
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", steps));
    bench.fetch();
    bench.run_for(60);
    let before = (uids(&bench), bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned());
    move_agent(&bench, &agent("2.0.0", steps));
    // Only one of the two is told; the other follows the same branch.
    bench.fetch();
    bench.run_for(10);
    assert_eq!(owner(&bench), "copies");
    let after = (uids(&bench), bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned());
    assert_eq!(after, before);
    bench.write("copies/agent.yaml", &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run_for(120);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}

#[test]
fn an_agent_that_moves_without_a_word_in_the_settings_stays_with_its_owner() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.run_for(20);
    let before = uids(&bench);
    move_agent(&bench, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run_for(120);
    assert_eq!((owner(&bench).as_str(), uids(&bench)), ("main", before));
    let copies = bench.core.sources().find(|source| source.options.name.as_str() == "copies").unwrap();
    let refused = copies.refused().into_values().collect::<Vec<_>>();
    assert!(
        refused[0].contains("AgentRuntime prod/agent belongs to the source main, which holds it no more"),
        "{refused:?}"
    );
    // Gone there too, it is deleted. The folder itself stays, or nothing would be known of it.
    let rest = Some(pack("prod", "9.0.0").into_bytes());
    let files = BTreeMap::from([(TreePath::new("copies/agent.yaml"), None), (TreePath::new("copies/pack.yaml"), rest)]);
    bench.repository.person("A Person").commit(&bench.branch, files, "remove the agent");
    bench.fetch();
    bench.run_for(60);
    assert!(bench.live_agent().is_none());
}

#[test]
fn of_two_sources_that_begin_together_the_first_of_the_settings_has_what_both_hold() {
    for order in [["main", "copies"], ["copies", "main"]] {
        let mut bench = Bench::new("[{setWeight: 100}]");
        bench.write("copies/agent.yaml", &agent("", "[{setWeight: 100}]"));
        bench.queue = WorkQueue::default();
        for name in order {
            // Each whole before the other begins.
            bench.queue.wake(Key::Fetch(SourceName::new(name)));
            bench.run_for(60);
        }
        assert_eq!(owner(&bench), "main", "{order:?}");
    }
}

#[test]
fn a_workload_that_the_server_refuses_is_said_keeps_nothing_else_back_and_is_tried_again() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    bench.cluster.set_admission(Box::new(move |object| {
        let is_let_in = object.key().kind != Kind::ROLE || gate.load(Ordering::Relaxed);
        if is_let_in { Ok(()) } else { Err("roles are not given away here".to_owned()) }
    }));
    bench.run_for(10);
    let condition = |bench: &Bench| {
        let live = bench.live_agent().unwrap();
        let conditions = live.at("/status/conditions").unwrap().as_array().unwrap().clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == "DeploymentReady").unwrap();
        (found["status"] == "True", found["message"].as_str().unwrap().to_owned())
    };
    let (is_ready, message) = condition(&bench);
    assert!(!is_ready && message.contains("roles are not given away here"), "{message}");
    // Pods run all the same, and a server that says no is not asked again and again.
    assert_eq!(bench.cluster.pods().iter().filter(|pod| pod.is_available).count(), 2);
    let tries = |bench: &Bench| bench.cluster.write_log().len();
    let before = tries(&bench);
    bench.run_for(20);
    assert_eq!(tries(&bench), before);
    is_open.store(true, Ordering::Relaxed);
    bench.run_for(40);
    assert!(condition(&bench).0, "{}", condition(&bench).1);
    assert!(bench.cluster.live(&ObjectKey::new(Kind::ROLE, "prod", "agent-facade")).is_some());
}

#[test]
fn a_replica_that_lags_behind_our_own_push_is_not_taken_for_a_revert() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    for _ in 0..60 {
        if bench.promotions() > 0 {
            break;
        }
        bench.run_for(0);
    }
    bench.repository.decide_fates(|call| match call {
        simulated::Call::Fetch => simulated::Fate::Stale(1),
        _ => simulated::Fate::Proceed,
    });
    bench.fetch();
    bench.run_for(5);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
    // A branch that is still back there later was forced: git is right.
    bench.run_for(40);
    bench.fetch();
    bench.run_for(5);
    assert_eq!(bench.version(), "1.0.0");
}

#[test]
fn a_folder_that_is_not_there_is_named_and_holds_up_no_other_source() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    let copies = SourceName::new("copies");
    let error = bench.core.run(&Leading::alone(), &Key::Fetch(copies.clone())).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "folder copies is not there in git");
    bench.queue.wake(Key::Fetch(copies));
    bench.run_for(20);
    assert!(bench.live_agent().is_some());
    // It is asked for again without anybody's doing.
    bench.write("copies/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: prod}\n");
    bench.run_for(400);
    assert!(bench.cluster.live(&ObjectKey::new(Kind::CONFIG_MAP, "prod", "late")).is_some());
}

#[test]
fn a_branch_that_is_not_there_is_named_and_what_was_read_last_stays_in_force() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    let tip = bench.repository.tip(&bench.branch).unwrap();
    bench.repository.person("A Person").delete_branch(&bench.branch);
    let error =
        bench.core.run(&Leading::alone(), &Key::Fetch(SourceName::new("main"))).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "branch main is not there in git");
    bench.fetch();
    bench.run_for(120);
    assert!(bench.live_agent().is_some());
    bench.repository.person("A Person").force_push(&bench.branch, &tip);
    bench.write("prod/pack-4.yaml", &pack("prod", "4.0.0"));
    bench.run_for(600);
    assert!(bench.cluster.live(&ObjectKey::new(Kind::PROMPT_PACK, "prod", "pack-4-0-0")).is_some());
}

#[test]
fn a_candidate_whose_pack_does_not_exist_waits_says_so_and_starts_when_it_comes() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.write(AGENT, &agent("9.0.0", "[{setWeight: 100}]"));
    bench.write("prod/other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: prod}\n");
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (0, "1.0.0"));
    let message = bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned();
    assert!(message.contains("9.0.0"), "{message}");
    assert!(bench.cluster.live(&ObjectKey::new(Kind::CONFIG_MAP, "prod", "other")).is_some());
    bench.write("prod/pack-9.yaml", &pack("prod", "9.0.0"));
    bench.fetch();
    bench.run_for(120);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "9.0.0"));
}

#[test]
fn a_kind_without_its_definition_is_named_holds_up_nothing_else_and_is_applied_when_it_comes() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.cluster.stop_serving(&Kind::TOOL_REGISTRY);
    let registry = "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: ToolRegistry\nmetadata: {name: tools, namespace: prod}\nspec: {}\n";
    bench.write("prod/tools.yaml", registry);
    bench.run_for(20);
    assert!(bench.live_agent().is_some());
    let key = ObjectKey::new(Kind::TOOL_REGISTRY, "prod", "tools");
    let refused = bench.core.sources[&SourceName::new("main")].refused();
    assert!(refused[&key].contains("ToolRegistry"), "{}", refused[&key]);
    bench.cluster.start_serving(&Kind::TOOL_REGISTRY);
    bench.run_for(60);
    assert!(bench.cluster.live(&key).is_some());
    assert!(bench.core.sources[&SourceName::new("main")].refused().is_empty());
}

#[test]
fn a_missing_right_is_told_by_verb_and_kind_and_holds_up_nothing_else() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.write("prod/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, namespace: prod}\n");
    bench.cluster.inject(Box::new(|call| {
        if call.key.kind != Kind::CONFIG_MAP || !matches!(call.verb, Verb::Apply(..)) {
            return Fate::Proceed;
        }
        let (kind, namespace) = (Kind::CONFIG_MAP, call.key.namespace.clone());
        Fate::FailBefore(ClusterError::Forbidden { verb: "patch", kind, namespace, why: "RBAC".to_owned() })
    }));
    bench.run_for(20);
    assert!(bench.live_agent().is_some());
    let key = ObjectKey::new(Kind::CONFIG_MAP, "prod", "map");
    let refused = bench.core.sources[&SourceName::new("main")].refused();
    assert_eq!(refused[&key], "not allowed to patch ConfigMap in namespace \"prod\": RBAC");
    bench.cluster.inject(Box::new(|_| Fate::Proceed));
    bench.run_for(60);
    assert!(bench.cluster.live(&key).is_some());
}

#[test]
fn a_clock_that_jumps_by_an_hour_rolls_nothing_back_and_no_pause_lasts_longer_than_it_says_from_then_on() {
    for jump in [-3_600, 3_600] {
        let mut bench = Bench::new("[{setWeight: 50}, {pause: {duration: 5m}}, {setWeight: 100}]");
        bench.run_for(20);
        bench.write(AGENT, &agent("2.0.0", "[{setWeight: 50}, {pause: {duration: 5m}}, {setWeight: 100}]"));
        bench.fetch();
        bench.run_for(60);
        let message = bench.live_agent().unwrap().text("/status/rollout/message").unwrap().to_owned();
        assert!(message.contains("pause"), "{message}");
        bench.clock.advance(SignedDuration::from_secs(jump));
        // A timer that was set before the jump fires when it fires; a watch or a restart comes at any time.
        bench.queue.wake(Key::Agent(AgentKey::new("prod", "agent")));
        bench.run_for(330);
        let rollbacks =
            bench.repository.log(&bench.branch).iter().filter(|c| c.message.starts_with("roll back")).count();
        assert_eq!((bench.promotions(), rollbacks, bench.version().as_str()), (1, 0, "2.0.0"), "by {jump} s");
    }
}

#[test]
fn a_push_looks_at_what_it_changed_and_from_time_to_time_at_everything() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    // Somebody edits an object of git, and the wake-up is lost.
    bench.cluster.lose_wake_ups(Box::new(|_| Delivery::Lost));
    let edited = ObjectKey::new(Kind::PROMPT_PACK, "prod", "pack-3-0-0");
    bench.cluster.edit("kubectl-edit", &edited, |pack| pack.set(&["spec", "version"], "9.9.9")).unwrap();
    bench.cluster.lose_wake_ups(Box::new(|_| Delivery::Arrives));
    bench.write("prod/pack-4.0.0.yaml", &pack("prod", "4.0.0"));
    bench.fetch();
    bench.run_for(5);
    let live = |name: &str| bench.cluster.live(&ObjectKey::new(Kind::PROMPT_PACK, "prod", name));
    let version = |name: &str| live(name).unwrap().text("/spec/version").unwrap().to_owned();
    assert_eq!((version("pack-4-0-0").as_str(), version("pack-3-0-0").as_str()), ("4.0.0", "9.9.9"));
    let keys = bench.core.first_keys().now_or_never().unwrap().unwrap();
    keys.into_iter().for_each(|key| bench.queue.wake(key));
    bench.run_for(5);
    let live = bench.cluster.live(&edited).unwrap();
    assert_eq!(live.text("/spec/version"), Some("3.0.0"));
}

#[test]
fn what_a_push_takes_away_is_pruned_without_a_look_at_the_rest() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let path = TreePath::new("prod/pack-3.0.0.yaml");
    let gone = BTreeMap::from([(path, None)]);
    bench.repository.person("A Person").commit(&bench.branch, gone, "take it away");
    let before = bench.cluster.write_log().len();
    bench.fetch();
    bench.run_for(5);
    assert!(bench.cluster.live(&ObjectKey::new(Kind::PROMPT_PACK, "prod", "pack-3-0-0")).is_none());
    assert_eq!(bench.cluster.write_log().len(), before + 1);
}

#[test]
fn numbers_of_pods_are_written_a_moment_later() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    let available = |bench: &Bench| bench.live_agent().unwrap().integer("/status/replicas/available");
    assert_eq!(available(&bench), Some(2));
    bench.cluster.fail_pods(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent"), Pods::AtMost(1));
    bench.run_for(2);
    assert_eq!(available(&bench), Some(2));
    bench.run_for(5);
    assert_eq!(available(&bench), Some(1));
}
