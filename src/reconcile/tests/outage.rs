//! Git goes away in the middle of a rollout and comes back much later.

use super::*;
use crate::api::names;

const STEPS: &str = "[{setWeight: 50}, {pause: {}}]";

impl Bench {
    /// An agent whose candidate has half of the traffic, and is rolled back when its pods fail for ten seconds.
    pub(super) fn at_half() -> Self {
        let mut bench = Self::new(STEPS);
        bench.write(AGENT, &automatic(""));
        bench.run_for(20);
        bench.write(AGENT, &automatic("2.0.0"));
        bench.fetch();
        bench.run_for(60);
        assert!(bench.message().starts_with("step 1: paused"), "{}", bench.message());
        bench
    }

    pub(super) fn message(&self) -> String {
        self.live_agent().unwrap().text("/status/rollout/message").unwrap_or_default().to_owned()
    }

    pub(super) fn rollbacks(&self) -> usize {
        self.repository.log(&self.branch).iter().filter(|commit| commit.message.starts_with("roll back ")).count()
    }

    pub(super) fn pods_of_the_candidate(&self) -> usize {
        self.cluster.pods().iter().filter(|pod| pod.track.as_deref() == Some(names::CANARY)).count()
    }
}

pub(super) fn automatic(candidate: &str) -> String {
    agent(candidate, STEPS)
        .replace("  namespace: prod\n", "  namespace: prod\n  annotations: {serin.dev/progress-deadline: 10s}\n")
        .replace(
            "  rollout:\n",
            "  rollout:\n    trafficRouting: {mode: replicaWeighted}\n    rollback: {mode: automatic}\n",
        )
}

#[test]
fn a_rollback_while_git_is_away_moves_the_traffic_at_once_and_is_committed_once_ten_minutes_later() {
    let mut bench = Bench::at_half();
    bench.repository.set_reachable(false);
    let deployment = ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent-canary");
    assert!(bench.cluster.fail_pods(&deployment, Pods::All) > 0);
    bench.run_for(30);
    // The traffic does not wait for git, and the status says what does.
    assert_eq!(bench.pods_of_the_candidate(), 0);
    let stable = bench.cluster.pods().iter().filter(|pod| pod.is_available).count();
    assert_eq!(stable, 2);
    bench.run_for(600);
    assert_eq!((bench.rollbacks(), bench.pods_of_the_candidate()), (0, 0));
    assert!(bench.message().contains("rolled back"), "{}", bench.message());
    bench.repository.set_reachable(true);
    bench.run_for(120);
    assert_eq!((bench.rollbacks(), bench.promotions(), bench.pods_of_the_candidate()), (1, 0, 0));
    let tip = bench.repository.tip(&bench.branch).unwrap();
    let manifest = String::from_utf8_lossy(&bench.repository.files(&tip)[&TreePath::new(AGENT)]).into_owned();
    assert!(!manifest.contains("candidate:"), "{manifest}");
    // It does not start again by itself.
    bench.fetch();
    bench.run_for(600);
    assert_eq!((bench.rollbacks(), bench.pods_of_the_candidate()), (1, 0));
}
