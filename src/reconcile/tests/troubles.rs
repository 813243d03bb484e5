//! Writes about the workload fail or are refused in the middle of what was decided.

use super::outage::automatic;
use super::*;

fn agent_key() -> AgentKey {
    AgentKey::new("prod", "agent")
}

impl Bench {
    /// The next writes of a Deployment that `is_hit` names fail once each, as those of a server that has too much to do.
    fn fail_once(&self, is_hit: impl Fn(Verb, &str) -> bool + Send + 'static) {
        let mut is_over = false;
        self.cluster.inject(Box::new(move |call| {
            if is_over || call.key.kind != Kind::DEPLOYMENT || !is_hit(call.verb, &call.key.name) {
                return Fate::Proceed;
            }
            is_over = true;
            Fate::FailBefore(ClusterError::TooManyRequests { retry_after: None })
        }));
    }

    fn metric(&self, family: &str) -> Vec<String> {
        let text = self.core.metrics.render();
        text.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect()
    }

    /// What the history of the last rollout says: its events, its outcome.
    fn history(&self) -> (Vec<String>, Option<String>) {
        let agents = self.core.agents();
        let history = agents[&agent_key()].history.as_ref().unwrap();
        (history.events.iter().map(|event| event.reason.clone()).collect(), history.outcome.clone())
    }

    /// The events of a reason, and how often each came.
    fn events(&self, reason: &str) -> Vec<u32> {
        let events = self.cluster.events();
        events.iter().filter(|recorded| recorded.event.reason == reason).map(|recorded| recorded.count).collect()
    }
}

#[test]
fn a_rollback_whose_first_write_to_a_deployment_fails_is_counted_and_told_once() {
    // A person takes the candidate away: stable gets its pods back first. Its pods fail: it is deleted at once.
    for is_by_hand in [true, false] {
        let mut bench = Bench::at_half();
        if is_by_hand {
            bench.fail_once(|verb, name| matches!(verb, Verb::Apply(..)) && name == "agent");
            bench.write(AGENT, &automatic(""));
            bench.fetch();
        } else {
            bench.fail_once(|verb, _| verb == Verb::Delete);
            bench.cluster.fail_pods(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent-canary"), Pods::All);
        }
        bench.run_for(60);
        assert_eq!(bench.pods_of_the_candidate(), 0);
        let counted = bench.metric("omnia_rollout_rollbacks_total{");
        assert!(matches!(&counted[..], [line] if line.ends_with("} 1")), "{counted:?}");
        assert_eq!(bench.events("RolloutRolledBack"), [1]);
        let (events, outcome) = bench.history();
        assert_eq!((events.last().unwrap().as_str(), outcome.as_deref()), ("RolloutRolledBack", Some("rolled-back")));
    }
}

#[test]
fn a_rollout_whose_first_write_to_a_deployment_fails_has_its_beginning_in_its_history() {
    let mut bench = Bench::new("[{setWeight: 50}, {pause: {}}]");
    bench.run_for(20);
    bench.fail_once(|verb, name| matches!(verb, Verb::Apply(..)) && name == "agent-canary");
    bench.write(AGENT, &automatic("2.0.0"));
    bench.fetch();
    bench.run_for(60);
    assert!(bench.message().starts_with("step 1: paused"), "{}", bench.message());
    assert_eq!(bench.history().0, ["RolloutStarted", "RolloutStep"]);
}

#[test]
fn a_slow_or_lost_event_keeps_no_pod_back() {
    let mut bench = Bench::at_half();
    let pods = Arc::clone(&bench.cluster);
    let (sender, seen) = std::sync::mpsc::channel();
    bench.cluster.inject(Box::new(move |call| {
        if call.verb == Verb::Delete {
            sender.send("the candidate goes").unwrap();
        }
        if call.verb != Verb::Record {
            return Fate::Proceed;
        }
        sender.send("it is told").unwrap();
        Fate::FailBefore(ClusterError::Unavailable { why: "a webhook timed out".to_owned() })
    }));
    pods.fail_pods(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent-canary"), Pods::All);
    bench.run_for(60);
    let order: Vec<_> = seen.try_iter().take(2).collect();
    assert_eq!(order, ["the candidate goes", "it is told"]);
    assert_eq!((bench.pods_of_the_candidate(), bench.history().1.as_deref()), (0, Some("rolled-back")));
}

#[test]
fn a_refused_deletion_of_the_candidate_keeps_neither_its_pods_nor_the_rollback_commit() {
    for kind in [Kind::DEPLOYMENT, Kind::CONFIG_MAP] {
        let mut bench = Bench::at_half();
        let (refused, tries) = (kind.clone(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        let count = Arc::clone(&tries);
        bench.cluster.inject(Box::new(move |call| {
            if call.verb != Verb::Delete || call.key.kind != refused {
                return Fate::Proceed;
            }
            count.fetch_add(1, Ordering::Relaxed);
            let (kind, namespace) = (refused.clone(), call.key.namespace.clone());
            Fate::FailBefore(ClusterError::Forbidden { verb: "delete", kind, namespace, why: "a policy".to_owned() })
        }));
        if kind == Kind::CONFIG_MAP {
            // One that an older rollout has left: the first of its kind that goes.
            let owner = bench.live_agent().unwrap();
            let mut left = Object::bare(&ObjectKey::new(kind.clone(), "prod", "agent-canary-config"));
            let owner = serde_json::json!([{"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
                "name": "agent", "uid": owner.uid().unwrap().to_string(), "controller": true}]);
            left.set(&["metadata", "ownerReferences"], owner);
            bench.cluster.create("test", &left).unwrap();
        }
        bench.cluster.fail_pods(&ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent-canary"), Pods::All);
        bench.run_for(60);
        assert_eq!((bench.pods_of_the_candidate(), bench.rollbacks()), (0, 1), "{kind}: {}", bench.message());
        let words = format!("cannot be deleted: not allowed to delete {kind} in namespace \"prod\": a policy");
        assert!(bench.message().contains(&words), "{}", bench.message());
        // It is tried again from time to time, and without a write when nothing has changed.
        let (before, writes) = (tries.load(Ordering::Relaxed), bench.cluster.write_log().len());
        bench.run_for(180);
        let more = tries.load(Ordering::Relaxed) - before;
        assert!((5..=7).contains(&more), "{more} tries in three minutes");
        assert_eq!(bench.cluster.write_log().len(), writes);
        bench.cluster.heal();
        bench.run_for(60);
        assert!(!bench.message().contains("cannot be deleted"), "{}", bench.message());
        let left = bench.cluster.all_objects().into_iter().filter(|object| object.name().starts_with("agent-canary"));
        assert_eq!(left.map(|object| object.key().to_string()).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_pause_that_elapses_while_the_watch_of_deployments_is_dead_leads_on_by_itself_when_it_is_back() {
    let steps = "[{setWeight: 100}, {pause: {duration: 1m}}]";
    let mut bench = Bench::new(steps);
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", steps));
    bench.fetch();
    bench.run_for(20);
    bench.cluster.stop_watching(&Kind::DEPLOYMENT);
    bench.run_for(300);
    assert_eq!((bench.promotions(), bench.version().as_str()), (0, "1.0.0"));
    assert!(bench.message().contains("waiting for the watch of Deployments"), "{}", bench.message());
    let writes = bench.cluster.write_log().len();
    bench.run_for(60);
    assert_eq!(bench.cluster.write_log().len(), writes);
    // No object has changed: nothing wakes it.
    bench.cluster.go_on_watching(&Kind::DEPLOYMENT);
    bench.run_for(30);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}

#[test]
fn a_promotion_that_waited_for_git_does_not_go_out_while_the_watch_of_deployments_is_dead() {
    let mut bench = Bench::new("[{setWeight: 100}]");
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", "[{setWeight: 100}]"));
    bench.fetch();
    bench.run(60, |key| matches!(key, Key::Publish(_)));
    bench.repository.set_reachable(false);
    bench.run_for(30);
    assert!(bench.message().contains("all steps completed"), "{}", bench.message());
    bench.cluster.stop_watching(&Kind::DEPLOYMENT);
    bench.repository.set_reachable(true);
    bench.run_for(120);
    assert_eq!((bench.promotions(), bench.version().as_str()), (0, "1.0.0"));
    assert!(bench.message().contains("waiting for the watch of Deployments"), "{}", bench.message());
    bench.cluster.go_on_watching(&Kind::DEPLOYMENT);
    bench.run_for(30);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}
