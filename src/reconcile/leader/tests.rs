//! Several electors and one Lease, on a cluster whose faults are decided by the test. Times are real, so what has to wait
//! for a Lease to run out is left to the pure tests and to the ones on a real cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::decide::held;
use super::record::Record;
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::cluster::simulated::{Fate, SimulatedCluster, Verb};
use crate::cluster::{Cluster, ClusterError};
use crate::object::{Kind, Object, ObjectKey};
use crate::telemetry::Metrics;
use crate::web::Health;

struct Ground {
    cluster: Arc<SimulatedCluster>,
    key: ObjectKey,
}

struct Runner {
    elector: Elector,
    name: String,
    health: Health,
    metrics: Metrics,
}

impl Ground {
    fn new() -> Self {
        let cluster = Arc::new(SimulatedCluster::new(Arc::new(SystemClock)));
        Self { cluster, key: ObjectKey::new(Kind::LEASE, "serin", "serin") }
    }

    fn runner(&self) -> Runner {
        let me = Identity::of(std::path::Path::new("/proc/no folder can be made here"));
        let (health, metrics, name) = (Health::new(), Metrics::new(), me.name().to_owned());
        let check = health.check("lease", "the first look");
        let cluster = Arc::clone(&self.cluster) as Arc<dyn Cluster>;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let elector = Elector::new(cluster, self.key.clone(), me, clock, metrics.clone(), check);
        Runner { elector, name, health, metrics }
    }

    fn record(&self) -> Record {
        self.cluster.live(&self.key).map(|lease| Record::read(&lease)).unwrap_or_default()
    }

    /// What another process, which is not an elector of this test, writes.
    fn write(&self, record: &Record) {
        let mut lease = Object::bare(&self.key);
        lease.set(&["spec"], record.spec());
        self.cluster.delete_by_hand("other", &self.key);
        self.cluster.create("other", &lease).unwrap();
    }
}

impl Runner {
    /// What changes within the time in which an attempt is made and another one is not.
    async fn soon(&mut self) -> Option<Change> {
        timeout(Duration::from_millis(700), self.elector.next_change()).await.ok()
    }

    async fn until_elected(&mut self) -> Leading {
        match timeout(Duration::from_secs(30), self.elector.next_change()).await {
            Ok(Change::Elected(leading)) => leading,
            Ok(Change::Lost) => panic!("lost"),
            Err(_) => panic!("not elected"),
        }
    }

    fn is_leader(&self) -> bool {
        self.metrics.render().lines().any(|line| line == "serin_leader 1")
    }
}

#[tokio::test]
async fn the_first_one_creates_the_lease_and_the_second_stays_passive_and_is_ready() {
    let ground = Ground::new();
    let (mut first, mut second) = (ground.runner(), ground.runner());
    let leading = first.until_elected().await;
    leading.check().unwrap();
    assert!(first.is_leader());
    assert_eq!(ground.record().holder, first.name);
    assert_eq!(ground.record().duration, Duration::from_secs(12));
    assert!(second.soon().await.is_none());
    assert!(!second.is_leader());
    assert!(second.health.is_ready());
    let report = second.health.report().to_string();
    assert!(report.contains(&format!("passive: {} holds the Lease serin/serin", first.name)), "{report}");
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_taken_at_once_and_the_old_proof_is_worth_nothing() {
    let ground = Ground::new();
    let (mut first, mut second) = (ground.runner(), ground.runner());
    let before = first.until_elected().await;
    assert!(second.soon().await.is_none());
    first.elector.give_back().await;
    assert_eq!((ground.record().holder.as_str(), ground.record().duration), ("", Duration::from_secs(1)));
    assert_eq!(before.check(), Err(NotLeading));
    let started = tokio::time::Instant::now();
    second.until_elected().await.check().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!((ground.record().holder, ground.record().transitions), (second.name, 1));
}

#[tokio::test]
async fn whoever_finds_his_own_name_in_the_lease_goes_on_at_once() {
    let ground = Ground::new();
    let mut runner = ground.runner();
    let now = SystemClock.now();
    let record = Record {
        holder: runner.name.clone(),
        duration: Duration::from_secs(10),
        acquired: Some(now),
        renewed: Some(now),
        transitions: 4,
    };
    ground.write(&record);
    assert!(matches!(runner.soon().await, Some(Change::Elected(_))));
    assert_eq!(ground.record().transitions, 4);
}

#[tokio::test]
async fn a_lease_that_somebody_else_has_taken_is_lost_at_the_next_renewal() {
    let ground = Ground::new();
    let mut runner = ground.runner();
    let leading = runner.until_elected().await;
    ground.write(&Record { holder: "another".into(), ..ground.record() });
    assert!(matches!(timeout(Duration::from_secs(10), runner.elector.next_change()).await, Ok(Change::Lost)));
    assert_eq!(leading.check(), Err(NotLeading));
    assert!(!runner.is_leader());
    assert_eq!(ground.record().holder, "another");
    runner.elector.give_back().await;
    assert_eq!(ground.record().holder, "another", "what is not ours is not given back");
}

#[tokio::test]
async fn who_cannot_renew_stops_at_the_deadline_and_leads_again_when_he_can() {
    let ground = Ground::new();
    let mut runner = ground.runner();
    let leading = runner.until_elected().await;
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    ground.cluster.inject(Box::new(move |_| {
        let error = || ClusterError::Unavailable { why: "away".into() };
        if down.load(Ordering::SeqCst) { Fate::FailBefore(error()) } else { Fate::Proceed }
    }));
    let started = tokio::time::Instant::now();
    assert!(matches!(timeout(Duration::from_secs(30), runner.elector.next_change()).await, Ok(Change::Lost)));
    assert!(started.elapsed() >= Duration::from_secs(6), "{:?}", started.elapsed());
    assert_eq!(leading.check(), Err(NotLeading));
    let report = runner.health.report().to_string();
    assert!(report.contains("passive; the Lease serin/serin cannot be had"), "{report}");
    is_down.store(false, Ordering::SeqCst);
    runner.until_elected().await.check().unwrap();
    assert_eq!(leading.check(), Err(NotLeading), "a proof is of one term");
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_is_no_loss_of_the_lease() {
    let ground = Ground::new();
    let mut runner = ground.runner();
    let leading = runner.until_elected().await;
    let lost = Arc::new(AtomicBool::new(false));
    let was_lost = Arc::clone(&lost);
    ground.cluster.inject(Box::new(move |call| {
        let is_first = call.verb == Verb::Patch && !was_lost.swap(true, Ordering::SeqCst);
        if is_first { Fate::FailAfter(ClusterError::Unavailable { why: "cut".into() }) } else { Fate::Proceed }
    }));
    assert!(timeout(Duration::from_secs(6), runner.elector.next_change()).await.is_err(), "nothing changes");
    assert!(lost.load(Ordering::SeqCst));
    leading.check().unwrap();
}

#[tokio::test]
async fn a_lease_that_somebody_deletes_stays_with_its_holder() {
    let ground = Ground::new();
    let (mut first, mut second) = (ground.runner(), ground.runner());
    let leading = first.until_elected().await;
    assert!(second.soon().await.is_none());
    ground.cluster.delete_by_hand("kubectl", &ground.key);
    // The second one looks several times before the first one renews.
    let (change, other) = tokio::join!(
        timeout(Duration::from_secs(4), first.elector.next_change()),
        timeout(Duration::from_secs(4), second.elector.next_change()),
    );
    assert!(change.is_err() && other.is_err(), "nothing changes");
    leading.check().unwrap();
    assert_eq!((ground.record().holder, ground.record().transitions), (first.name, 0));
}

#[tokio::test]
async fn a_lease_whose_namespace_is_gone_is_asked_for_now_and_then() {
    let ground = Ground::new();
    let mut runner = ground.runner();
    runner.until_elected().await.check().unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (count, key) = (Arc::clone(&asked), ground.key.clone());
    ground.cluster.delete_by_hand("kubectl", &ground.key);
    ground.cluster.inject(Box::new(move |call| match call.verb {
        Verb::Apply(..) | Verb::Patch => {
            count.fetch_add(1, Ordering::SeqCst);
            Fate::FailBefore(ClusterError::NotFound { key: key.clone(), why: "no namespace".into() })
        }
        _ => Fate::Proceed,
    }));
    assert!(matches!(timeout(Duration::from_secs(30), runner.elector.next_change()).await, Ok(Change::Lost)));
    assert!(asked.load(Ordering::SeqCst) < 20, "{asked:?}");
}

#[tokio::test]
async fn of_two_who_run_at_the_same_time_one_is_elected() {
    for _ in 0..5 {
        let ground = Ground::new();
        let (mut first, mut second) = (ground.runner(), ground.runner());
        let (one, other) = tokio::join!(first.soon(), second.soon());
        assert_ne!(one.is_some(), other.is_some());
    }
}

#[tokio::test]
async fn a_lease_without_a_holder_that_a_person_made_is_taken() {
    let ground = Ground::new();
    let mut lease = Object::bare(&ground.key);
    lease.set(&["spec"], json!({}));
    ground.cluster.create("kubectl", &lease).unwrap();
    let mut runner = ground.runner();
    runner.until_elected().await;
    assert_eq!(ground.record().holder, runner.name);
    let renewed = held(
        &runner.name,
        Some(&ground.record()),
        super::decide::Moment { steady: Duration::ZERO, wall: SystemClock.now() },
    );
    assert_eq!(renewed.transitions, ground.record().transitions);
}
