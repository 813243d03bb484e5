//! [`ApiServer`] on a real control plane: what the contract suite cannot state for a simulated cluster too, namely
//! watches, credentials, missing CRDs, lost servers, races with others and the number of requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use serin::clock::SystemClock;
use serin::cluster::api_server::{
    ApiServer, Connection, LabelRule, Namespaces, ObserveRequests, RequestOutcome, Settings, WatchState, Watched,
};
use serin::cluster::{Apply, Cluster, ClusterError, EventRecord, Expect, FieldManager, MergePatch, Part, Severity};
use serin::ids::Uid;
use serin::object::{Kind, Object, ObjectKey};

use crate::support::control_plane::{ControlPlane, User};
use crate::support::{eventually, until};

/// A kind that no other test installs.
fn gadget() -> Kind {
    Kind::from_api_version("test.serin.dev/v1", "Gadget")
}

fn gadget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.test.serin.dev"},
        "spec": {
            "group": "test.serin.dev",
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

async fn connect(plane: &ControlPlane, user: User, settings: Settings) -> ApiServer {
    let connection = Connection::Kubeconfig { path: Some(plane.kubeconfig(user)), context: None };
    ApiServer::connect(&connection, settings, Arc::new(SystemClock)).await.expect("a usable kubeconfig")
}

/// Watches ConfigMaps and Deployments of one namespace, as the admin.
async fn connect_to(plane: &ControlPlane, namespace: &str) -> ApiServer {
    let watches = vec![Watched::all(Kind::CONFIG_MAP), Watched::all(Kind::DEPLOYMENT)];
    let namespaces = Namespaces::These(vec![namespace.into()]);
    let cluster = connect(plane, User::Admin, Settings { namespaces, ..Settings::watching(watches) }).await;
    cluster.ready().await;
    cluster
}

fn config_map(namespace: &str, name: &str, data: Value) -> Object {
    let mut object = Object::bare(&key(namespace, name));
    object.set(&["data"], data);
    object
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::CONFIG_MAP, namespace, name)
}

fn write(object: Object, expect: Expect) -> Apply {
    Apply { object, manager: FieldManager::Rollout, expect, part: Part::Main }
}

async fn create(cluster: &ApiServer, object: Object) -> Arc<Object> {
    cluster.apply(&write(object, Expect::Absent)).await.expect("a creation")
}

fn uid(object: &Object) -> Uid {
    object.uid().expect("an object from the server has one")
}

#[tokio::test]
async fn a_read_is_never_older_than_our_own_write() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let key = key(&namespace, "counter");
    let mut live = create(&cluster, config_map(&namespace, "counter", json!({"n": "0"}))).await;
    for n in 1..50 {
        let next = config_map(&namespace, "counter", json!({"n": n.to_string()}));
        live = cluster.apply(&write(next, Expect::Uid(uid(&live)))).await.expect("an update");
        assert_eq!(cluster.get(&key).await, Ok(Some(live.clone())));
        tokio::task::yield_now().await;
    }
    cluster.delete(&key, &uid(&live)).await.expect("a deletion");
    assert_eq!(cluster.get(&key).await, Ok(None));
    let again = create(&cluster, config_map(&namespace, "counter", json!({"n": "again"}))).await;
    assert_eq!(cluster.get(&key).await, Ok(Some(again)));
}

#[tokio::test]
async fn fields_that_are_not_applied_any_more_go_and_those_of_others_stay() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let live = create(&cluster, config_map(&namespace, "shared", json!({"a": "1", "b": "1"}))).await;
    let sync = Apply {
        manager: FieldManager::Sync,
        ..write(config_map(&namespace, "shared", json!({"c": "1"})), Expect::Uid(uid(&live)))
    };
    cluster.apply(&sync).await.expect("another manager");
    let less = write(config_map(&namespace, "shared", json!({"a": "2"})), Expect::Uid(uid(&live)));
    let live = cluster.apply(&less).await.expect("fewer fields");
    assert_eq!(live.at("/data"), Some(&json!({"a": "2", "c": "1"})));
}

#[tokio::test]
async fn an_object_that_is_there_is_not_created_and_one_that_is_another_is_not_changed() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let key = key(&namespace, "taken");
    let first = create(&cluster, config_map(&namespace, "taken", json!({"a": "1"}))).await;
    let other = config_map(&namespace, "taken", json!({"a": "2"}));
    let error = cluster.apply(&write(other.clone(), Expect::Absent)).await.expect_err("it is there");
    assert_eq!(error, ClusterError::Exists { key: key.clone() });
    let stranger = Expect::Uid(Uid::new("00000000-0000-0000-0000-000000000000"));
    let error = cluster.apply(&write(other, stranger.clone())).await.expect_err("it is another");
    assert!(matches!(error, ClusterError::Conflict { .. }), "{error}");
    let nothing = config_map(&namespace, "nothing", json!({}));
    let error = cluster.apply(&write(nothing, stranger)).await.expect_err("there is none");
    assert!(matches!(error, ClusterError::Conflict { .. }), "{error}");
    cluster.delete(&key, &Uid::new("00000000-0000-0000-0000-000000000000")).await.expect("the meant one is gone");
    assert_eq!(cluster.get(&key).await, Ok(Some(first)));
    cluster.delete(&self::key(&namespace, "nothing"), &Uid::new("1")).await.expect("nothing to delete");
}

/// Runs an action in the moment between the look before a creation and the creation.
struct AfterFirstGet<F: Fn() + Send + Sync> {
    done: AtomicBool,
    action: F,
}

impl<F: Fn() + Send + Sync> ObserveRequests for AfterFirstGet<F> {
    fn observe(&self, outcome: &RequestOutcome<'_>) {
        let is_look = outcome.verb == "get" && outcome.result == "not_found";
        if is_look && !self.done.swap(true, Ordering::SeqCst) {
            (self.action)();
        }
    }
}

#[tokio::test]
async fn a_creation_that_loses_a_race_leaves_nothing_on_the_other_object() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let theirs = json!({"metadata": {"name": "raced"}, "data": {"theirs": "1"}});
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let action = move || {
        let (path, theirs) = (path.clone(), theirs.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(plane.create(&path, &theirs));
        });
        thread.join().expect("created");
    };
    let observer = Arc::new(AfterFirstGet { done: AtomicBool::new(false), action });
    let settings = Settings { observer: Some(observer), ..Settings::watching(vec![]) };
    let cluster = connect(plane, User::Admin, settings).await;
    let ours = config_map(&namespace, "raced", json!({"ours": "1"}));
    let error = cluster.apply(&write(ours, Expect::Absent)).await.expect_err("the race is lost");
    assert_eq!(error, ClusterError::Exists { key: key(&namespace, "raced") });
    let live = cluster.get(&key(&namespace, "raced")).await.expect("a read").expect("their object");
    assert_eq!(live.at("/data"), Some(&json!({"theirs": "1"})));
}

#[tokio::test]
async fn two_who_create_the_same_object_do_not_undo_each_other() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let (one, two) = (connect_to(plane, &namespace).await, connect_to(plane, &namespace).await);
    for n in 0..10 {
        let wanted = write(config_map(&namespace, &format!("both-{n}"), json!({"a": "1"})), Expect::Absent);
        let results = futures::join!(one.apply(&wanted), two.apply(&wanted));
        let created = usize::from(results.0.is_ok()) + usize::from(results.1.is_ok());
        assert_eq!(created, 1, "{results:?}");
        let key = wanted.object.key();
        let live = eventually("both see it", || async { one.get(&key).await.expect("a read") }).await;
        assert_eq!(live.at("/data"), Some(&json!({"a": "1"})));
    }
}

#[tokio::test]
async fn changes_by_others_wake_the_reader() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let other = connect_to(plane, &namespace).await;
    let mut changes = cluster.changes();
    let wanted = key(&namespace, "news");
    let live = create(&other, config_map(&namespace, "news", json!({"a": "1"}))).await;
    while changes.next().await.expect("it never ends") != wanted {}
    assert_eq!(cluster.get(&wanted).await, Ok(Some(live.clone())));
    other.delete(&wanted, &uid(&live)).await.expect("a deletion");
    while changes.next().await.expect("it never ends") != wanted {}
    assert_eq!(cluster.get(&wanted).await, Ok(None));
}

#[tokio::test]
async fn a_reader_that_lags_behind_gets_every_key() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let mut changes = cluster.changes();
    let mut live = create(&cluster, config_map(&namespace, "one", json!({"n": "0"}))).await;
    create(&cluster, config_map(&namespace, "two", json!({}))).await;
    for n in 0..1100 {
        let next = config_map(&namespace, "one", json!({"n": format!("x{n}")}));
        live = cluster.apply(&write(next, Expect::Uid(uid(&live)))).await.expect("an update");
    }
    let (mut keys, expected) = (Vec::new(), [key(&namespace, "one"), key(&namespace, "two")]);
    while !expected.iter().all(|key| keys.contains(key)) {
        keys.push(changes.next().await.expect("it never ends"));
    }
}

#[tokio::test]
async fn a_patch_of_a_version_that_is_not_the_latest_is_a_conflict() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let first = create(&cluster, config_map(&namespace, "patched", json!({"a": "1"}))).await;
    let patch = |of: &Object, a: &str| MergePatch {
        key: of.key(),
        uid: uid(of),
        resource_version: of.resource_version().expect("a version").into(),
        patch: json!({"data": {"a": a}}),
    };
    let second = cluster.patch(&patch(&first, "2")).await.expect("the latest version");
    assert_eq!(cluster.get(&first.key()).await, Ok(Some(second)));
    let error = cluster.patch(&patch(&first, "3")).await.expect_err("a version before");
    assert!(matches!(error, ClusterError::Conflict { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_namespace_is_not_found_and_a_wrong_object_names_its_fields() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let lost = write(config_map("no-such-namespace", "lost", json!({})), Expect::Absent);
    let error = cluster.apply(&lost).await.expect_err("no namespace");
    assert!(matches!(error, ClusterError::NotFound { .. }), "{error}");

    let mut wrong = Object::bare(&ObjectKey::new(Kind::DEPLOYMENT, &namespace, "wrong"));
    wrong.set(&["spec", "replicas"], -1);
    let error = cluster.apply(&write(wrong.clone(), Expect::Absent)).await.expect_err("no such Deployment");
    let ClusterError::Invalid { why, .. } = &error else { panic!("{error}") };
    assert!(why.contains("spec.replicas") && why.contains("spec.selector"), "{why}");

    wrong.set(&["spec", "replicas"], "many");
    let error = cluster.apply(&write(wrong, Expect::Absent)).await.expect_err("not a number");
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
}

#[tokio::test]
async fn who_may_not_is_told_what_and_where() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let settings = Settings::watching(vec![Watched::all(Kind::DEPLOYMENT)]);
    let cluster = connect(plane, User::Nobody, settings).await;
    let error = cluster.list(&Kind::DEPLOYMENT, None).await.expect_err("not allowed");
    let ClusterError::Forbidden { verb, kind, .. } = &error else { panic!("{error}") };
    assert_eq!((*verb, kind), ("list", &Kind::DEPLOYMENT));
    let state = cluster.watches().remove(0).2;
    assert!(matches!(state, WatchState::Failing(ClusterError::Forbidden { .. })), "{state:?}");
    let create = write(config_map(&namespace, "x", json!({})), Expect::Absent);
    let error = cluster.apply(&create).await.expect_err("not allowed");
    assert!(matches!(error, ClusterError::Forbidden { .. }), "{error}");
}

#[tokio::test]
async fn a_crd_that_appears_and_goes_is_noticed() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let watches = vec![Watched::all(gadget()), Watched::all(Kind::PROVIDER)];
    let settings = Settings { recheck: Duration::from_millis(100), ..Settings::watching(watches) };
    let cluster = connect(plane, User::Admin, settings).await;
    cluster.ready().await;
    let missing = ClusterError::NotServed { kind: gadget() };
    assert_eq!(cluster.serves(&gadget()).await, Ok(false));
    assert_eq!(cluster.list(&gadget(), None).await, Err(missing.clone()));
    let mut changes = cluster.changes();

    plane.install_crd(&gadget_crd()).await;
    until("the kind is served", || async { cluster.serves(&gadget()).await == Ok(true) }).await;
    until("the kind is listed", || async { cluster.list(&gadget(), None).await == Ok(vec![]) }).await;
    let mut object = Object::bare(&ObjectKey::new(gadget(), &namespace, "one"));
    object.set(&["spec", "size"], 1);
    let live = create(&cluster, object.clone()).await;
    assert_eq!(changes.next().await, Some(object.key()));
    object.set(&["status", "phase"], "Good");
    let status = Apply { part: Part::Status, ..write(object.clone(), Expect::Uid(uid(&live))) };
    let live = cluster.apply(&status).await.expect("a status");
    assert_eq!((live.text("/status/phase"), live.integer("/spec/size")), (Some("Good"), Some(1)));

    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let delete = kube::core::Request::new(crds)
        .delete("gadgets.test.serin.dev", &kube::api::DeleteParams::default())
        .expect("a request");
    plane.client(User::Admin).await.request::<Value>(delete).await.expect("the CRD goes");
    until("the kind is gone", || async { cluster.list(&gadget(), None).await == Err(missing.clone()) }).await;
}

#[tokio::test]
async fn only_objects_with_the_label_are_seen() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let watches = vec![Watched::labelled(Kind::CONFIG_MAP, LabelRule::Is("seen".into(), "yes".into()))];
    let cluster = connect(plane, User::Admin, Settings::watching(watches)).await;
    cluster.ready().await;
    let mut labelled = config_map(&namespace, "with", json!({}));
    labelled.set(&["metadata", "labels", "seen"], "yes");
    let live = create(&cluster, labelled.clone()).await;
    create(&cluster, config_map(&namespace, "without", json!({}))).await;
    let names = || async {
        let objects = cluster.list(&Kind::CONFIG_MAP, Some(&namespace)).await.expect("a list");
        objects.iter().map(|object| object.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["with"]);
    let without = key(&namespace, "without");
    assert_eq!(cluster.get(&without).await, Ok(None));
    assert!(cluster.look(&without).await.expect("a look").is_some(), "it is there under that name all the same");
    labelled.set(&["metadata", "labels", "seen"], "no");
    cluster.apply(&write(labelled, Expect::Uid(uid(&live)))).await.expect("another label");
    assert!(names().await.is_empty());
}

/// Counts requests by verb.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<&'static str, usize>>);

impl ObserveRequests for Counts {
    fn observe(&self, outcome: &RequestOutcome<'_>) {
        *self.0.lock().expect("a lock").entry(outcome.verb).or_default() += 1;
    }
}

#[tokio::test]
async fn whether_many_names_are_free_is_known_from_a_few_reads_and_one_list() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    for name in ["taken-3", "taken-40"] {
        plane.create(&path, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).await;
    }
    let counts = Arc::new(Counts::default());
    let watches = vec![Watched::labelled(Kind::CONFIG_MAP, LabelRule::Is("seen".into(), "yes".into()))];
    let observer: Option<Arc<dyn ObserveRequests>> = Some(Arc::clone(&counts) as _);
    let cluster = connect(plane, User::Admin, Settings { observer, ..Settings::watching(watches) }).await;
    cluster.ready().await;
    let before = counts.0.lock().expect("a lock").clone();
    let looks = (0..50).flat_map(|i| [format!("free-{i}"), format!("taken-{i}")]);
    let looks = looks.map(|name| {
        let (cluster, key) = (&cluster, key(&namespace, &name));
        async move { cluster.look(&key).await.expect("a look").map(|_| name) }
    });
    let found: Vec<String> = futures::future::join_all(looks).await.into_iter().flatten().collect();
    assert_eq!(found, ["taken-3", "taken-40"]);
    let since = |verb| {
        let now = counts.0.lock().expect("a lock").get(verb).copied().unwrap_or_default();
        now - before.get(verb).copied().unwrap_or_default()
    };
    assert!(since("get") <= 12, "{} reads", since("get"));
    assert!((1..=3).contains(&since("list")), "{} lists", since("list"));
    // What was free a moment ago is not for ever.
    let mut ours = config_map(&namespace, "free-1", json!({}));
    create(&cluster, ours.clone()).await;
    assert!(cluster.look(&key(&namespace, "free-1")).await.expect("a look").is_some());
    ours.set(&["metadata", "name"], "taken-40");
    let refused = cluster.apply(&write(ours, Expect::Absent)).await;
    assert_eq!(refused, Err(ClusterError::Exists { key: key(&namespace, "taken-40") }));
    plane.create(&path, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free-2"}})).await;
    until("a name that was taken meanwhile is seen", || async {
        cluster.look(&key(&namespace, "free-2")).await.expect("a look").is_some()
    })
    .await;
}

#[tokio::test]
async fn an_optional_kind_that_may_not_be_listed_holds_nothing_up_and_says_so() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let key = ObjectKey::new(Kind::SECRET, &namespace, "key");
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    plane.create(&path, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}})).await;
    let labelled = || Watched::labelled(Kind::SECRET, LabelRule::Has("serin.test/credential".into())).optional();
    let settings =
        || Settings { namespaces: Namespaces::These(vec![namespace.clone()]), ..Settings::watching(vec![labelled()]) };
    let nobody = connect(plane, User::Nobody, settings()).await;
    nobody.ready().await;
    for answer in [nobody.get(&key).await, nobody.look(&key).await] {
        assert!(matches!(answer, Err(ClusterError::Forbidden { .. })), "{answer:?}");
    }
    // One without the label is not seen by the watch, and there when it is looked for.
    let admin = connect(plane, User::Admin, settings()).await;
    admin.ready().await;
    assert_eq!(admin.get(&key).await, Ok(None));
    assert!(admin.look(&key).await.expect("a read").is_some());
}

#[tokio::test]
async fn equal_events_are_counted_and_not_repeated() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace().await;
    let cluster = connect_to(plane, &namespace).await;
    let about = create(&cluster, config_map(&namespace, "about", json!({}))).await;
    let event = |message: &str| EventRecord {
        about: about.key(),
        uid: uid(&about),
        severity: Severity::Warning,
        reason: "CandidateFailed",
        message: message.into(),
    };
    for message in ["one", "one", "two", "one"] {
        cluster.record(&event(message)).await.expect("an event");
    }
    let kind = Kind::from_api_version("events.k8s.io/v1", "Event");
    let events = cluster.list(&kind, Some(&namespace)).await.expect("a list");
    let of_us = events.iter().filter(|event| event.text("/reportingController") == Some("serin.dev/serin"));
    let mut seen: Vec<_> = of_us.map(|event| (event.text("/note"), event.integer("/series/count"))).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(Some("one"), Some(3)), (Some("two"), None)]);
}

#[tokio::test]
async fn a_quiet_cluster_sees_one_list_and_one_watch_per_kind_and_then_nothing() {
    let plane = ControlPlane::start_private();
    let mark = plane.audit_mark();
    let watches = vec![Watched::all(Kind::DEPLOYMENT), Watched::all(Kind::CONFIG_MAP), Watched::all(Kind::PROVIDER)];
    let cluster = connect(&plane, User::Admin, Settings::watching(watches)).await;
    cluster.ready().await;
    let namespace = plane.namespace().await;
    let others = connect_to(&plane, &namespace).await;
    let live = create(&others, config_map(&namespace, "seen", json!({}))).await;
    until("the watch works", || async { cluster.get(&live.key()).await == Ok(Some(live.clone())) }).await;
    for _ in 0..100 {
        cluster.list(&Kind::CONFIG_MAP, None).await.expect("a list");
        cluster.get(&live.key()).await.expect("a read");
        assert_eq!(cluster.serves(&Kind::PROVIDER).await, Ok(false));
    }
    let agent = concat!("serin/", env!("CARGO_PKG_VERSION"));
    // A watch is logged when it ends.
    drop((cluster, others));
    let ended = || async {
        let events = plane.audit_since(mark).into_iter();
        let ours: Vec<_> = events.filter(|event| event.user_agent() == agent).collect();
        (ours.iter().filter(|event| event.verb() == "watch").count() == 4).then_some(ours)
    };
    let ours = eventually("the watches are logged", ended).await;
    let count = |verb: &str, resource: &str| {
        ours.iter().filter(|event| event.verb() == verb && event.resource() == resource).count()
    };
    // Two clusters were connected: one to everything, one to the namespace, which created an object.
    assert_eq!((count("list", "deployments"), count("watch", "deployments")), (2, 2));
    assert_eq!((count("list", "configmaps"), count("watch", "configmaps")), (2, 2));
    assert_eq!((count("get", "configmaps"), count("patch", "configmaps")), (0, 1));
    let discovery = ours.iter().filter(|event| event.resource().is_empty()).count();
    assert_eq!(discovery, 5, "one per group and version: apps, core, omnia; apps, core");
    assert_eq!(ours.len(), 8 + 1 + 5);
}

#[tokio::test]
async fn reads_go_on_while_the_server_is_away_and_changes_come_when_it_is_back() {
    let plane = ControlPlane::start_private();
    let namespace = plane.namespace().await;
    let cluster = connect_to(&plane, &namespace).await;
    let live = create(&cluster, config_map(&namespace, "kept", json!({"a": "1"}))).await;
    plane.stop_api_server();
    assert_eq!(cluster.get(&live.key()).await, Ok(Some(live.clone())));
    let next = write(config_map(&namespace, "kept", json!({"a": "2"})), Expect::Uid(uid(&live)));
    let error = cluster.apply(&next).await.expect_err("nobody answers");
    until("it is noticed", || async {
        cluster.watches().iter().all(|(_, _, state)| matches!(state, WatchState::Behind(_)))
    })
    .await;
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
    // For a moment nobody minds.
    until("what is known is old", || async { !cluster.is_current(&Kind::CONFIG_MAP, &namespace) }).await;
    let fresh = connect(&plane, User::Admin, Settings::watching(vec![Watched::all(Kind::CONFIG_MAP)])).await;
    let error = fresh.get(&live.key()).await.expect_err("never listed");
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");

    plane.start_api_server().await;
    let other = connect_to(&plane, &namespace).await;
    let changed = other.apply(&next).await.expect("the server is back");
    until("the change arrives", || async { cluster.get(&live.key()).await == Ok(Some(changed.clone())) }).await;
    assert!(cluster.watches().iter().any(|(_, _, state)| *state == WatchState::Listed));
    until("it is known as it is", || async { cluster.is_current(&Kind::CONFIG_MAP, &namespace) }).await;
    fresh.ready().await;
    assert_eq!(fresh.get(&live.key()).await, Ok(Some(changed)));
}
