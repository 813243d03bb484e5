//! What the contract suite cannot state for a real cluster too: time, faults, stale reads.

use futures::FutureExt as _;
use futures::executor::block_on;
use serde_json::json;

use super::*;
use crate::clock::SimulatedClock;

struct World {
    clock: Arc<SimulatedClock>,
    cluster: SimulatedCluster,
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl World {
    fn new() -> Self {
        let clock = Arc::new(SimulatedClock::starting_at(Timestamp::UNIX_EPOCH));
        let cluster = SimulatedCluster::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, cluster }
    }

    fn pass(&self, time: SignedDuration) -> Option<Timestamp> {
        self.clock.advance(time);
        self.cluster.advance()
    }

    fn apply(&self, object: &Object) -> Result<Arc<Object>, ClusterError> {
        let expect = self.cluster.live(&object.key()).and_then(|live| live.uid()).map_or(Expect::Absent, Expect::Uid);
        let object = object.clone();
        block_on(self.cluster.apply(&Apply { object, manager: FieldManager::Rollout, expect, part: Part::Main }))
    }

    fn status(&self, name: &str) -> Value {
        let live = self.cluster.live(&deployment_key(name)).expect("a deployment");
        live.at("/status").cloned().unwrap_or_default()
    }

    fn available(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.cluster.pods().into_iter().filter(|pod| pod.is_available).map(|pod| pod.name).collect();
        names.sort();
        names
    }
}

fn config(name: &str, value: &str) -> Object {
    let mut object = Object::bare(&ObjectKey::new(Kind::CONFIG_MAP, "n", name));
    object.set(&["data", "x"], value);
    object
}

fn deployment_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::DEPLOYMENT, "n", name)
}

fn deployment(replicas: u32, version: &str) -> Object {
    let mut object = Object::bare(&deployment_key("a"));
    let template =
        json!({"metadata": {"labels": {"v": version}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    object.set(&["spec"], json!({"replicas": replicas, "selector": {"matchLabels": {}}, "template": template}));
    object
}

fn unavailable() -> ClusterError {
    ClusterError::Unavailable { why: "injected".into() }
}

#[test]
fn controllers_see_a_write_only_when_time_is_given_to_them() {
    let world = World::new();
    world.apply(&deployment(2, "1")).unwrap();
    assert_eq!(world.status("a"), Value::Null);
    let next = world.cluster.advance();
    assert_eq!(next, Some(Timestamp::UNIX_EPOCH + DEFAULT_READY));
    assert_eq!((&world.status("a")["replicas"], &world.status("a")["availableReplicas"]), (&json!(2), &Value::Null));
    world.pass(DEFAULT_READY);
    assert_eq!(world.status("a")["availableReplicas"], 2);
    assert_eq!(world.cluster.advance(), None);
}

#[test]
fn a_long_leap_shows_what_small_steps_would_have() {
    let run = |steps: i32, step: SignedDuration| {
        let world = World::new();
        world.apply(&deployment(4, "1")).unwrap();
        world.pass(DEFAULT_READY);
        world.apply(&deployment(4, "2")).unwrap();
        for _ in 0..steps {
            world.pass(step);
        }
        (world.status("a"), world.available())
    };
    assert_eq!(run(1, SECOND * 60), run(60, SECOND));
}

#[test]
fn a_template_that_comes_back_takes_its_pods_back() {
    let world = World::new();
    world.apply(&deployment(4, "1")).unwrap();
    world.pass(DEFAULT_READY);
    world.apply(&deployment(4, "2")).unwrap();
    world.cluster.advance();
    world.apply(&deployment(4, "1")).unwrap();
    world.pass(SECOND * 10);
    let first_ones = world.available().iter().filter(|name| !name.contains("a-2")).count();
    assert_eq!(first_ones, 4, "{:?}", world.available());
    assert!(world.available().iter().any(|name| name.ends_with("-1")), "a pod of the start is still there");
}

#[test]
fn pods_that_are_not_ready_are_removed_first() {
    let world = World::new();
    world.apply(&deployment(3, "1")).unwrap();
    world.pass(DEFAULT_READY);
    assert_eq!(world.cluster.fail_pods(&deployment_key("a"), Pods::AtMost(1)), 1);
    world.cluster.advance();
    let healthy = world.available();
    assert_eq!((healthy.len(), &world.status("a")["unavailableReplicas"]), (2, &json!(1)));
    world.apply(&deployment(2, "1")).unwrap();
    world.cluster.advance();
    assert_eq!(world.available(), healthy);
}

#[test]
fn pods_that_fail_and_recover_are_told_by_the_condition() {
    let world = World::new();
    let condition = || world.status("a")["conditions"][1]["status"].clone();
    world.apply(&deployment(4, "1")).unwrap();
    world.pass(DEFAULT_READY);
    assert_eq!(condition(), "True");
    world.cluster.fail_pods(&deployment_key("a"), Pods::All);
    world.cluster.advance();
    assert_eq!(condition(), "False");
    // A complete Deployment has no progress to make, however long its pods are away.
    world.pass(SECOND * 10_000);
    assert_eq!(world.status("a")["conditions"][0]["reason"], "NewReplicaSetAvailable");
    world.cluster.recover_pods(&deployment_key("a"));
    world.cluster.advance();
    assert_eq!(condition(), "True");
}

#[test]
fn the_progress_deadline_ends_to_the_second() {
    let world = World::new();
    world.cluster.set_pod_script(Box::new(|_, _| PodBehaviour::NeverReady));
    world.apply(&deployment(2, "1")).unwrap();
    let reason = || world.status("a")["conditions"][0]["reason"].clone();
    world.cluster.advance();
    world.pass(SECOND * 599);
    assert_eq!(reason(), "ReplicaSetUpdated");
    world.pass(SECOND);
    assert_eq!(reason(), "ProgressDeadlineExceeded");
    world.cluster.recover_pods(&deployment_key("a"));
    world.cluster.advance();
    assert_eq!(reason(), "NewReplicaSetAvailable");
}

#[test]
fn an_answer_that_is_lost_is_not_a_write_that_is_lost() {
    let world = World::new();
    world.cluster.inject(Box::new(|_| Fate::FailAfter(unavailable())));
    assert_eq!(world.apply(&config("a", "1")), Err(unavailable()));
    assert!(world.cluster.live(&config("a", "1").key()).is_some());
    world.cluster.inject(Box::new(|_| Fate::FailBefore(unavailable())));
    assert_eq!(world.apply(&config("b", "1")), Err(unavailable()));
    assert!(world.cluster.live(&config("b", "1").key()).is_none());
    world.cluster.heal();
    world.apply(&config("b", "1")).unwrap();
}

#[test]
fn the_fate_is_asked_once_per_call_with_what_is_called() {
    let world = World::new();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    world.cluster.inject(Box::new(move |call| {
        seen.lock().unwrap().push((call.verb, call.key.to_string()));
        Fate::Proceed
    }));
    world.apply(&config("a", "1")).unwrap();
    block_on(world.cluster.get(&config("a", "1").key())).unwrap();
    let apply = Verb::Apply(FieldManager::Rollout, PartOf::Main);
    assert_eq!(*calls.lock().unwrap(), [(apply, "ConfigMap n/a".into()), (Verb::Get, "ConfigMap n/a".into())]);
}

#[test]
fn after_a_crash_every_call_fails_until_the_process_is_started_again() {
    for (moment, is_written) in [(Moment::Before, false), (Moment::After, true)] {
        let world = World::new();
        let mut changes = world.cluster.changes();
        world.cluster.inject(Box::new(move |_| Fate::Crash(moment)));
        world.apply(&config("a", "1")).unwrap_err();
        world.cluster.heal();
        assert!(world.cluster.is_crashed());
        world.apply(&config("b", "1")).unwrap_err();
        world.cluster.restart();
        world.apply(&config("b", "1")).unwrap();
        assert_eq!(world.cluster.live(&config("a", "1").key()).is_some(), is_written);
        while changes.next().now_or_never().expect("the old stream has ended").is_some() {}
    }
}

#[test]
fn reads_that_lag_show_old_states_but_never_less_than_the_reader_wrote() {
    let world = World::new();
    let read = |name: &str| {
        let live = block_on(world.cluster.get(&config(name, "").key())).unwrap();
        live.map(|live| live.text("/data/x").unwrap_or_default().to_owned())
    };
    world.apply(&config("a", "1")).unwrap();
    world.cluster.set_lag(100, OwnWrites::Visible);
    let edit = |value: &'static str| {
        world.cluster.edit("a-person", &config("a", "").key(), |object| object.set(&["data", "x"], value)).unwrap();
    };
    edit("2");
    assert_eq!(read("a").as_deref(), Some("1"));
    world.cluster.create("a-person", &config("b", "1")).unwrap();
    assert_eq!(read("b"), None);
    assert_eq!(block_on(world.cluster.list(&Kind::CONFIG_MAP, Some("n"))).unwrap().len(), 1);
    world.apply(&config("a", "3")).unwrap();
    assert_eq!(read("a").as_deref(), Some("3"));
    edit("4");
    assert_eq!(read("a").as_deref(), Some("3"));
    world.cluster.delete_by_hand("a-person", &config("a", "").key());
    assert_eq!(read("a").as_deref(), Some("3"));
    world.cluster.catch_up();
    assert_eq!((read("a"), read("b").as_deref()), (None, Some("1")));
}

#[test]
fn a_wake_up_comes_when_its_change_can_be_seen() {
    let world = World::new();
    let mut changes = world.cluster.changes();
    world.cluster.set_lag(1, OwnWrites::Visible);
    world.cluster.create("a-person", &config("a", "1")).unwrap();
    assert!(changes.next().now_or_never().is_none());
    world.cluster.create("a-person", &config("b", "1")).unwrap();
    assert_eq!(changes.next().now_or_never(), Some(Some(config("a", "").key())));
    assert!(changes.next().now_or_never().is_none());
    world.cluster.catch_up();
    assert_eq!(changes.next().now_or_never(), Some(Some(config("b", "").key())));
}

#[test]
fn a_lost_wake_up_is_made_good_by_a_resync() {
    let world = World::new();
    let mut changes = world.cluster.changes();
    world.cluster.lose_wake_ups(Box::new(|_| Delivery::Lost));
    world.apply(&config("a", "1")).unwrap();
    assert!(changes.next().now_or_never().is_none());
    world.cluster.resync(&Kind::CONFIG_MAP);
    assert_eq!(changes.next().now_or_never(), Some(Some(config("a", "").key())));
}

#[test]
fn a_write_that_changes_nothing_wakes_nobody_and_is_in_the_log() {
    let world = World::new();
    world.apply(&config("a", "1")).unwrap();
    let mut changes = world.cluster.changes();
    world.apply(&config("a", "1")).unwrap();
    assert!(changes.next().now_or_never().is_none());
    let effects: Vec<_> = world.cluster.write_log().into_iter().map(|record| record.effect).collect();
    assert_eq!(effects, [WriteEffect::Changed, WriteEffect::Nothing]);
}

#[test]
fn what_admission_refuses_is_not_stored() {
    let world = World::new();
    world.cluster.set_admission(Box::new(|object| match object.text("/data/x") {
        Some("bad") => Err("data.x: bad".into()),
        _ => Ok(()),
    }));
    let error = world.apply(&config("a", "bad")).unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap n/a is refused: data.x: bad");
    assert!(world.cluster.all_objects().is_empty());
}

#[test]
fn a_finalizer_holds_a_deleted_object_until_it_is_taken_away() {
    let world = World::new();
    let mut object = config("a", "1");
    object.set(&["metadata", "finalizers"], json!(["x/y"]));
    let live = world.apply(&object).unwrap();
    block_on(world.cluster.delete(&live.key(), &live.uid().unwrap())).unwrap();
    assert!(world.cluster.live(&live.key()).unwrap().is_terminating());
    world.apply(&config("a", "1")).unwrap();
    assert!(world.cluster.live(&live.key()).is_none());
}

#[test]
fn dependants_of_dependants_go_with_the_owner() {
    let world = World::new();
    let mut owner = world.apply(&config("a", "1")).unwrap();
    for name in ["b", "c"] {
        let mut object = config(name, "1");
        let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name(), "uid": owner.uid().unwrap().as_str()}]);
        object.set(&["metadata", "ownerReferences"], reference);
        owner = world.apply(&object).unwrap();
    }
    world.cluster.delete_by_hand("a-person", &config("a", "").key());
    assert_eq!(world.cluster.all_objects().len(), 2);
    world.cluster.advance();
    assert!(world.cluster.all_objects().is_empty());
}

#[test]
fn equal_events_are_counted() {
    let world = World::new();
    let live = world.apply(&config("a", "1")).unwrap();
    let event = EventRecord {
        about: live.key(),
        uid: live.uid().unwrap(),
        severity: crate::cluster::Severity::Normal,
        reason: "Promoted",
        message: "done".into(),
    };
    for wait in [0, 60, 3600] {
        world.pass(SECOND * wait);
        block_on(world.cluster.record(&event)).unwrap();
    }
    let counts: Vec<u32> = world.cluster.events().iter().map(|recorded| recorded.count).collect();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn a_deployment_that_is_recreated_under_its_name_starts_from_nothing() {
    let world = World::new();
    world.apply(&deployment(1, "1")).unwrap();
    world.pass(DEFAULT_READY);
    world.cluster.delete_by_hand("a-person", &deployment_key("a"));
    world.apply(&deployment(1, "1")).unwrap();
    world.cluster.advance();
    assert!(world.available().is_empty());
}

#[test]
fn the_sequence_of_a_seed_is_always_the_same() {
    let mut sequence = Sequence::of_seed(0);
    assert_eq!(sequence.next_number(), 0xe220_a839_7b1d_cdaf);
    assert_eq!(sequence.below(0), 0);
}

#[test]
fn a_watch_that_does_not_work_says_so_and_tells_of_no_changes_but_our_own() {
    let world = World::new();
    world.apply(&deployment(1, "1")).unwrap();
    world.pass(DEFAULT_READY);
    let mut changes = world.cluster.changes();
    let mut count = || std::iter::from_fn(|| changes.next().now_or_never().flatten()).count();
    world.cluster.stop_watching(&Kind::DEPLOYMENT);
    assert!(!world.cluster.is_current(&Kind::DEPLOYMENT, "prod"));
    assert!(world.cluster.is_current(&Kind::CONFIG_MAP, "prod"));
    let change = |object: &mut Object| object.set(&["metadata", "labels", "a"], "b");
    world.cluster.edit("a-person", &deployment_key("a"), change).unwrap();
    assert_eq!(count(), 0);
    world.apply(&deployment(2, "1")).unwrap();
    assert_eq!(count(), 1);
    world.cluster.go_on_watching(&Kind::DEPLOYMENT);
    assert!(world.cluster.is_current(&Kind::DEPLOYMENT, "prod"));
    world.cluster.delete_by_hand("a-person", &deployment_key("a"));
    assert!(count() > 0);
}
