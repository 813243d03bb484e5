//! What every [`Cluster`] does, held against the simulated one here and against a real API server elsewhere.
//!
//! A behaviour that the engine, the preview or the fault search relies on and that is not stated here is a
//! bug of this file. Each case gets a namespace of its own and waits on conditions only.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use serin::apply::{Difference, difference};
use serin::cluster::{Apply, Cluster, ClusterError, EventRecord, Expect, FieldManager, MergePatch, Part, Severity};
use serin::ids::Uid;
use serin::object::{Kind, Object, ObjectKey};

/// Annotation of a pod template that tells the kubelet of the tests what becomes of the pods: `ready`,
/// `never-ready`, or `ready-after: 2s`.
pub(crate) const PODS_ANNOTATION: &str = "test.serin.dev/pods";

/// A cluster, a namespace in it, and time. The cluster watches all kinds that the cases name, in that namespace.
#[async_trait]
pub(crate) trait Fixture: Send + Sync {
    /// The cluster.
    fn cluster(&self) -> &dyn Cluster;

    /// A namespace that no other case uses.
    fn namespace(&self) -> &str;

    /// A kind that this cluster does not serve.
    fn unserved(&self) -> Kind;

    /// Changes an object as a person with a client of their own would, by a merge patch of the main part.
    async fn edit(&self, manager: &str, key: &ObjectKey, patch: Value);

    /// Lets a moment pass, so that controllers and watches can do something. False when the case has waited
    /// too long.
    async fn moment(&self) -> bool;
}

type Case = for<'a> fn(&'a dyn Fixture) -> BoxFuture<'a, ()>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All cases with their names.
        pub(crate) const CASES: &[(&str, Case)] = &[$((stringify!($name), |fixture| Box::pin($name(fixture)))),*];
    };
}

cases![
    an_apply_adds_fields_and_keeps_those_of_others,
    an_apply_removes_what_its_manager_no_longer_names,
    an_apply_takes_a_field_from_who_had_another_value,
    a_field_of_two_managers_stays_until_both_let_go,
    an_item_of_a_list_is_removed_by_its_key,
    an_apply_that_changes_nothing_leaves_the_version,
    a_preview_shows_what_an_apply_would_do_and_changes_nothing,
    a_preview_is_refused_as_the_apply_would_be,
    an_apply_that_expects_nothing_never_takes_over,
    of_two_creations_at_once_one_is_refused_and_changes_nothing,
    an_apply_that_expects_a_uid_meets_no_other_object,
    the_status_and_the_rest_are_written_separately,
    the_generation_counts_changes_of_the_spec,
    a_status_needs_its_object,
    a_merge_patch_is_refused_when_the_object_has_changed,
    a_delete_by_another_uid_does_nothing,
    dependants_go_with_their_owner,
    lists_are_ordered_and_of_one_namespace,
    what_is_watched_is_current,
    every_write_wakes_the_readers,
    a_kind_without_its_crd_is_not_served,
    an_event_is_accepted_twice,
    a_deployment_becomes_available,
    a_rolling_update_keeps_its_capacity,
    pods_that_are_never_ready_exceed_the_progress_deadline,
    a_deployment_scaled_to_nothing_is_complete,
    nothing_differs_right_after_an_apply,
    what_differs_is_found_after_an_edit,
];

/// The kinds that the cases read.
pub(crate) const KINDS: [Kind; 7] = [
    Kind::AGENT_RUNTIME,
    Kind::CONFIG_MAP,
    Kind::DEPLOYMENT,
    Kind::SERVICE,
    Kind::SERVICE_ACCOUNT,
    Kind::ROLE,
    Kind::ROLE_BINDING,
];

async fn an_apply_adds_fields_and_keeps_those_of_others(fixture: &dyn Fixture) {
    let first = create(fixture, config(fixture, "a", json!({"x": "1"}))).await;
    fixture.edit("a-person", &first.key(), json!({"data": {"theirs": "2"}, "metadata": {"labels": {"l": "3"}}})).await;
    let live = apply(fixture, FieldManager::Rollout, &first, config(fixture, "a", json!({"y": "4"}))).await.unwrap();
    assert_eq!(live.at("/data"), Some(&json!({"x": "1", "theirs": "2", "y": "4"})));
    assert_eq!(live.label("l"), Some("3"));
    assert_eq!(live.uid(), first.uid());
}

async fn an_apply_removes_what_its_manager_no_longer_names(fixture: &dyn Fixture) {
    let mut object = config(fixture, "a", json!({"x": "1", "y": "2"}));
    object.set(&["metadata", "labels"], json!({"ours": "1"}));
    let first = create(fixture, object).await;
    fixture.edit("a-person", &first.key(), json!({"metadata": {"labels": {"theirs": "1"}}})).await;
    let live = apply(fixture, FieldManager::Sync, &first, config(fixture, "a", json!({"x": "1"}))).await.unwrap();
    assert_eq!(live.at("/data"), Some(&json!({"x": "1"})));
    assert_eq!(live.at("/metadata/labels"), Some(&json!({"theirs": "1"})));
    let live = apply(fixture, FieldManager::Sync, &first, Object::bare(&first.key())).await.unwrap();
    assert_eq!(live.at("/data"), None);
}

async fn an_apply_takes_a_field_from_who_had_another_value(fixture: &dyn Fixture) {
    let first = create(fixture, config(fixture, "a", json!({"x": "1"}))).await;
    apply(fixture, FieldManager::Rollout, &first, config(fixture, "a", json!({"x": "2"}))).await.unwrap();
    // It is no longer sync's, so that sync cannot take it away by not naming it.
    let live = apply(fixture, FieldManager::Sync, &first, Object::bare(&first.key())).await.unwrap();
    assert_eq!(live.at("/data"), Some(&json!({"x": "2"})));
}

async fn a_field_of_two_managers_stays_until_both_let_go(fixture: &dyn Fixture) {
    let first = create(fixture, config(fixture, "a", json!({"x": "1"}))).await;
    apply(fixture, FieldManager::Rollout, &first, config(fixture, "a", json!({"x": "1"}))).await.unwrap();
    let live = apply(fixture, FieldManager::Sync, &first, Object::bare(&first.key())).await.unwrap();
    assert_eq!(live.at("/data"), Some(&json!({"x": "1"})));
    let live = apply(fixture, FieldManager::Rollout, &first, Object::bare(&first.key())).await.unwrap();
    assert_eq!(live.at("/data"), None);
}

async fn an_item_of_a_list_is_removed_by_its_key(fixture: &dyn Fixture) {
    let mut object = deployment(fixture, "a", 0, "one");
    let with_env = |env: Value| {
        let mut object = object.clone();
        container(&mut object)["env"] = env;
        object
    };
    let first = create(fixture, with_env(json!([{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]))).await;
    let live =
        apply(fixture, FieldManager::Sync, &first, with_env(json!([{"name": "Y", "value": "3"}]))).await.unwrap();
    assert_eq!(live.at("/spec/template/spec/containers/0/env"), Some(&json!([{"name": "Y", "value": "3"}])));
    container(&mut object)["ports"] =
        json!([{"name": "facade", "containerPort": 8080}, {"name": "metrics", "containerPort": 8081}]);
    let live = apply(fixture, FieldManager::Sync, &first, object).await.unwrap();
    assert_eq!(live.at("/spec/template/spec/containers/0/env"), None);
    assert_eq!(
        live.at("/spec/template/spec/containers/0/ports"),
        Some(&json!([
            {"name": "facade", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 8081, "protocol": "TCP"}
        ]))
    );
}

async fn an_apply_that_changes_nothing_leaves_the_version(fixture: &dyn Fixture) {
    for object in [agent(fixture, "a"), full_deployment(fixture, "a"), config(fixture, "a", json!({"x": "1"}))] {
        let first = create(fixture, object.clone()).await;
        let again = apply(fixture, FieldManager::Sync, &first, object).await.unwrap();
        let version = |object: &Object| object.resource_version().map(str::to_owned);
        if first.key().kind == Kind::DEPLOYMENT {
            // Its controller may have written in between; that the spec stands still is all that can be said.
            assert_eq!(again.generation(), first.generation());
        } else {
            assert_eq!(version(&again), version(&first), "{first:?}");
        }
    }
}

async fn a_preview_shows_what_an_apply_would_do_and_changes_nothing(fixture: &dyn Fixture) {
    let write =
        |object: Object, expect: Expect| Apply { object, manager: FieldManager::Sync, expect, part: Part::Main };
    let wanted = write(deployment(fixture, "a", 2, "one"), Expect::Absent);
    let foreseen = fixture.cluster().preview(&wanted).await.unwrap();
    // With the server's defaults.
    assert_eq!(foreseen.text("/spec/strategy/type"), Some("RollingUpdate"));
    assert_eq!(fixture.cluster().list(&Kind::DEPLOYMENT, Some(fixture.namespace())).await.unwrap(), []);
    let first = create(fixture, wanted.object).await;
    assert_eq!(foreseen.at("/spec"), first.at("/spec"));

    let first_map = create(fixture, config(fixture, "b", json!({"x": "1", "y": "2"}))).await;
    let change = write(config(fixture, "b", json!({"y": "3", "z": "4"})), Expect::Uid(first_map.uid().unwrap()));
    let foreseen = fixture.cluster().preview(&change).await.unwrap();
    assert_eq!(foreseen.at("/data"), Some(&json!({"y": "3", "z": "4"})));
    assert_eq!(foreseen.uid(), first_map.uid());
    // An apply of what is there returns what is stored: it has not changed.
    let still = apply(fixture, FieldManager::Sync, &first_map, config(fixture, "b", json!({"x": "1", "y": "2"}))).await;
    assert_eq!(still.unwrap().resource_version(), first_map.resource_version());
}

async fn a_preview_is_refused_as_the_apply_would_be(fixture: &dyn Fixture) {
    let first = create(fixture, config(fixture, "a", json!({"x": "1"}))).await;
    let preview = async |object: Object, expect: Expect| {
        let write = Apply { object, manager: FieldManager::Sync, expect, part: Part::Main };
        fixture.cluster().preview(&write).await
    };
    fixture.edit("a-person", &first.key(), json!({"data": {"x": "2"}})).await;
    let taken = preview(config(fixture, "a", json!({"x": "3"})), Expect::Absent).await;
    assert!(matches!(taken, Err(ClusterError::Exists { .. })), "{taken:?}");
    let taken = preview(config(fixture, "a", json!({"another": "3"})), Expect::Absent).await;
    assert!(matches!(taken, Err(ClusterError::Exists { .. })), "{taken:?}");
    let other = preview(config(fixture, "a", json!({"x": "3"})), Expect::Uid(Uid::new("another"))).await;
    assert!(matches!(other, Err(ClusterError::Conflict { .. })), "{other:?}");
    let gone = preview(config(fixture, "b", json!({"x": "3"})), Expect::Uid(Uid::new("another"))).await;
    assert!(matches!(gone, Err(ClusterError::Conflict { .. })), "{gone:?}");
    let unserved = Object::bare(&ObjectKey::new(fixture.unserved(), fixture.namespace(), "a"));
    let refused = preview(unserved, Expect::Absent).await;
    assert!(matches!(refused, Err(ClusterError::NotServed { .. })), "{refused:?}");
}

async fn an_apply_that_expects_nothing_never_takes_over(fixture: &dyn Fixture) {
    let object = config(fixture, "a", json!({"x": "1"}));
    create(fixture, object.clone()).await;
    let write = Apply { object, manager: FieldManager::Rollout, expect: Expect::Absent, part: Part::Main };
    let error = fixture.cluster().apply(&write).await.unwrap_err();
    assert!(matches!(error, ClusterError::Exists { .. }), "{error:?}");
}

async fn of_two_creations_at_once_one_is_refused_and_changes_nothing(fixture: &dyn Fixture) {
    for round in 0..10 {
        let creation = |x: &str| {
            let object = config(fixture, &format!("a-{round}"), json!({ "x": x }));
            Apply { object, manager: FieldManager::Sync, expect: Expect::Absent, part: Part::Main }
        };
        let (one, other) = (creation("one"), creation("other"));
        let (one, other) = futures::join!(fixture.cluster().apply(&one), fixture.cluster().apply(&other));
        let (made, refused) = match (one, other) {
            (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
            both => panic!("{both:?}"),
        };
        assert!(matches!(refused, ClusterError::Exists { .. }), "{refused:?}");
        let live = fixture.cluster().look(&made.key()).await.unwrap().unwrap();
        assert_eq!(live.at("/data"), made.at("/data"));
        assert_eq!(live.text("/metadata/resourceVersion"), made.text("/metadata/resourceVersion"));
    }
}

async fn an_apply_that_expects_a_uid_meets_no_other_object(fixture: &dyn Fixture) {
    let object = config(fixture, "a", json!({"x": "1"}));
    let uid = Uid::new("9d1b8a4c-0000-4000-8000-000000000000");
    let write = Apply { object, manager: FieldManager::Sync, expect: Expect::Uid(uid), part: Part::Main };
    let error = fixture.cluster().apply(&write).await.unwrap_err();
    assert!(matches!(error, ClusterError::Conflict { .. }), "without any: {error:?}");
    create(fixture, write.object.clone()).await;
    let error = fixture.cluster().apply(&write).await.unwrap_err();
    assert!(matches!(error, ClusterError::Conflict { .. }), "with another: {error:?}");
}

async fn the_status_and_the_rest_are_written_separately(fixture: &dyn Fixture) {
    let mut object = agent(fixture, "a");
    object.set(&["status"], json!({"phase": "Failed"}));
    let first = create(fixture, object.clone()).await;
    assert_eq!(first.at("/status/phase"), None);
    let mut status = Object::bare(&first.key());
    status.set(&["status"], json!({"phase": "Running"}));
    let mut with_spec = status.clone();
    with_spec.set(&["spec"], json!({"runtime": {"replicas": 9}}));
    let live = apply_status(fixture, &first, with_spec).await.unwrap();
    assert_eq!(live.text("/status/phase"), Some("Running"));
    assert_eq!(live.at("/spec"), first.at("/spec"));
    assert_eq!(live.generation(), first.generation());
    let live = apply(fixture, FieldManager::Sync, &first, object).await.unwrap();
    assert_eq!(live.text("/status/phase"), Some("Running"));
    let again = apply_status(fixture, &first, status).await.unwrap();
    assert_eq!(again.resource_version(), live.resource_version());
}

async fn the_generation_counts_changes_of_the_spec(fixture: &dyn Fixture) {
    let mut object = agent(fixture, "a");
    let first = create(fixture, object.clone()).await;
    assert_eq!(first.generation(), 1);
    object.set(&["metadata", "annotations", "note"], "x");
    let noted = apply(fixture, FieldManager::Sync, &first, object.clone()).await.unwrap();
    assert_eq!(noted.generation(), 1);
    object.set(&["spec", "runtime", "replicas"], 5);
    let edited = apply(fixture, FieldManager::Sync, &first, object).await.unwrap();
    assert_eq!(edited.generation(), 2);
}

async fn a_status_needs_its_object(fixture: &dyn Fixture) {
    let mut status = Object::bare(&key(fixture, Kind::AGENT_RUNTIME, "nobody"));
    status.set(&["status"], json!({"phase": "Running"}));
    let expect = Expect::Uid(Uid::new("9d1b8a4c-0000-4000-8000-000000000000"));
    let write = Apply { object: status, manager: FieldManager::Rollout, expect, part: Part::Status };
    let error = fixture.cluster().apply(&write).await.unwrap_err();
    assert!(matches!(error, ClusterError::NotFound { .. } | ClusterError::Conflict { .. }), "{error:?}");
}

async fn a_merge_patch_is_refused_when_the_object_has_changed(fixture: &dyn Fixture) {
    let first = create(fixture, agent(fixture, "a")).await;
    let patch = |object: &Object| MergePatch {
        key: first.key(),
        uid: object.uid().unwrap(),
        resource_version: object.resource_version().unwrap().to_owned(),
        patch: json!({"spec": {"runtime": {"replicas": 7}, "rollout": null}}),
    };
    fixture.edit("a-person", &first.key(), json!({"metadata": {"labels": {"l": "1"}}})).await;
    let error = fixture.cluster().patch(&patch(&first)).await.unwrap_err();
    assert!(matches!(error, ClusterError::Conflict { .. }), "{error:?}");
    let fresh = until(fixture, "the label is seen", &first.key(), |live| live.label("l") == Some("1")).await;
    let live = fixture.cluster().patch(&patch(&fresh)).await.unwrap();
    assert_eq!((live.integer("/spec/runtime/replicas"), live.at("/spec/rollout")), (Some(7), None));
    assert_eq!(live.at("/spec/promptPackRef"), first.at("/spec/promptPackRef"));
}

async fn a_delete_by_another_uid_does_nothing(fixture: &dyn Fixture) {
    let first = create(fixture, config(fixture, "a", json!({}))).await;
    let other = Uid::new("9d1b8a4c-0000-4000-8000-000000000000");
    fixture.cluster().delete(&first.key(), &other).await.unwrap();
    assert!(fixture.cluster().get(&first.key()).await.unwrap().is_some());
    fixture.cluster().delete(&first.key(), &first.uid().unwrap()).await.unwrap();
    until_gone(fixture, &first.key()).await;
    fixture.cluster().delete(&first.key(), &first.uid().unwrap()).await.unwrap();
}

async fn dependants_go_with_their_owner(fixture: &dyn Fixture) {
    // A built-in kind: a garbage collector takes half a minute to learn of a new custom one.
    let owner = create(fixture, config(fixture, "a", json!({}))).await;
    let mut dependants = Vec::new();
    for mut object in [config(fixture, "b", json!({})), deployment(fixture, "c", 1, "one")] {
        object.set(
            &["metadata", "ownerReferences"],
            json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "a",
                "uid": owner.uid().unwrap().as_str(), "controller": true, "blockOwnerDeletion": true
            }]),
        );
        dependants.push(create(fixture, object).await);
    }
    let stranger = create(fixture, config(fixture, "d", json!({}))).await;
    assert!(dependants.iter().all(|object| object.is_controlled_by(&owner.uid().unwrap())));
    fixture.cluster().delete(&owner.key(), &owner.uid().unwrap()).await.unwrap();
    until_gone(fixture, &owner.key()).await;
    for object in dependants {
        until_gone(fixture, &object.key()).await;
    }
    assert!(fixture.cluster().get(&stranger.key()).await.unwrap().is_some());
}

async fn lists_are_ordered_and_of_one_namespace(fixture: &dyn Fixture) {
    for name in ["b", "c", "a"] {
        create(fixture, config(fixture, name, json!({}))).await;
    }
    let ours = |list: Vec<Arc<Object>>| -> Vec<String> {
        // Namespaces of real clusters hold a ConfigMap of their own.
        list.iter().map(|object| object.name().to_owned()).filter(|name| name.len() == 1).collect()
    };
    let list = fixture.cluster().list(&Kind::CONFIG_MAP, Some(fixture.namespace())).await.unwrap();
    assert!(list.iter().all(|object| object.text("/kind") == Some("ConfigMap") && object.at("/apiVersion").is_some()));
    assert_eq!(ours(list), ["a", "b", "c"]);
    assert!(fixture.cluster().list(&Kind::AGENT_RUNTIME, Some(fixture.namespace())).await.unwrap().is_empty());
}

async fn what_is_watched_is_current(fixture: &dyn Fixture) {
    let (cluster, namespace) = (fixture.cluster(), fixture.namespace());
    cluster.list(&Kind::CONFIG_MAP, Some(namespace)).await.unwrap();
    assert!(cluster.is_current(&Kind::CONFIG_MAP, namespace));
}

async fn every_write_wakes_the_readers(fixture: &dyn Fixture) {
    let mut changes = fixture.cluster().changes();
    let mut woken = async |key: &ObjectKey| {
        while let Some(changed) = changes.next().await {
            if changed == *key {
                return;
            }
        }
        panic!("the stream of changes ended");
    };
    let first = create(fixture, config(fixture, "a", json!({"x": "1"}))).await;
    woken(&first.key()).await;
    apply(fixture, FieldManager::Sync, &first, config(fixture, "a", json!({"x": "2"}))).await.unwrap();
    woken(&first.key()).await;
    fixture.edit("a-person", &first.key(), json!({"data": {"x": "3"}})).await;
    woken(&first.key()).await;
    fixture.cluster().delete(&first.key(), &first.uid().unwrap()).await.unwrap();
    woken(&first.key()).await;
}

async fn a_kind_without_its_crd_is_not_served(fixture: &dyn Fixture) {
    for kind in KINDS {
        assert!(fixture.cluster().serves(&kind).await.unwrap(), "{kind}");
    }
    assert!(!fixture.cluster().serves(&fixture.unserved()).await.unwrap());
    let object = Object::bare(&key(fixture, fixture.unserved(), "a"));
    let write = Apply { object, manager: FieldManager::Sync, expect: Expect::Absent, part: Part::Main };
    let error = fixture.cluster().apply(&write).await.unwrap_err();
    assert_eq!(error, ClusterError::NotServed { kind: fixture.unserved() });
}

async fn an_event_is_accepted_twice(fixture: &dyn Fixture) {
    let about = create(fixture, agent(fixture, "a")).await;
    let event = EventRecord {
        about: about.key(),
        uid: about.uid().unwrap(),
        severity: Severity::Normal,
        reason: "RolloutStarted",
        message: "step 0: setWeight 25".to_owned(),
    };
    fixture.cluster().record(&event).await.unwrap();
    fixture.cluster().record(&event).await.unwrap();
}

async fn a_deployment_becomes_available(fixture: &dyn Fixture) {
    let first = create(fixture, deployment(fixture, "a", 3, "one")).await;
    assert_eq!(first.integer("/status/availableReplicas"), None, "the status comes later");
    let live = until(fixture, "three pods are available", &first.key(), |live| is_complete(live, 3)).await;
    assert_eq!(live.integer("/status/observedGeneration"), Some(live.generation()));
    assert_eq!(live.integer("/status/readyReplicas"), Some(3));
    assert_eq!(live.integer("/status/unavailableReplicas"), None);
    assert_eq!(condition(&live, "Available"), Some(("True", "MinimumReplicasAvailable")));
    assert_eq!(condition(&live, "Progressing"), Some(("True", "NewReplicaSetAvailable")));
    assert!(live.at("/metadata/annotations").is_some(), "its controller writes an annotation");
}

async fn a_rolling_update_keeps_its_capacity(fixture: &dyn Fixture) {
    let first = create(fixture, deployment(fixture, "a", 4, "one")).await;
    until(fixture, "four pods are available", &first.key(), |live| is_complete(live, 4)).await;
    let mut second = deployment(fixture, "a", 4, "two");
    second.set(&["spec", "template", "metadata", "annotations", PODS_ANNOTATION], "ready-after: 1s");
    apply(fixture, FieldManager::Sync, &first, second).await.unwrap();
    let live = until(fixture, "four pods of the second version are available", &first.key(), |live| {
        let available = live.integer("/status/availableReplicas").unwrap_or(0);
        assert!(available >= 3, "25 % of 4 may be unavailable, {available} are available");
        // Not so `replicas`: it sums up what two ReplicaSets said at different moments, and a pod counts in both for a while.
        live.integer("/status/observedGeneration") == Some(2) && is_complete(live, 4)
    })
    .await;
    assert_eq!(live.generation(), 2);
}

async fn pods_that_are_never_ready_exceed_the_progress_deadline(fixture: &dyn Fixture) {
    let mut object = deployment(fixture, "a", 2, "one");
    object.set(&["spec", "progressDeadlineSeconds"], 2);
    object.set(&["spec", "template", "metadata", "annotations", PODS_ANNOTATION], "never-ready");
    let first = create(fixture, object).await;
    let live = until(fixture, "the deadline is exceeded", &first.key(), |live| {
        condition(live, "Progressing") == Some(("False", "ProgressDeadlineExceeded"))
    })
    .await;
    assert_eq!(condition(&live, "Available"), Some(("False", "MinimumReplicasUnavailable")));
    assert_eq!(live.integer("/status/unavailableReplicas"), Some(2));
    assert_eq!(live.integer("/status/updatedReplicas"), Some(2));
    assert_eq!(live.integer("/status/availableReplicas"), None);
}

async fn a_deployment_scaled_to_nothing_is_complete(fixture: &dyn Fixture) {
    let first = create(fixture, deployment(fixture, "a", 2, "one")).await;
    until(fixture, "two pods are available", &first.key(), |live| is_complete(live, 2)).await;
    apply(fixture, FieldManager::Sync, &first, deployment(fixture, "a", 0, "one")).await.unwrap();
    let live = until(fixture, "no pods are left", &first.key(), |live| {
        live.integer("/status/observedGeneration") == Some(2) && live.integer("/status/replicas").is_none()
    })
    .await;
    assert_eq!(condition(&live, "Progressing"), Some(("True", "NewReplicaSetAvailable")));
}

async fn nothing_differs_right_after_an_apply(fixture: &dyn Fixture) {
    for object in all_kinds(fixture) {
        assert_eq!(difference(&object, None, FieldManager::Sync, Part::Main), Difference::Create);
        let first = create(fixture, object.clone()).await;
        let found = difference(&object, Some(&first), FieldManager::Sync, Part::Main);
        assert_eq!(found, Difference::None, "as the apply of {} returned it", object.key());
        if object.key().kind == Kind::DEPLOYMENT {
            until(fixture, "the deployment is available", &object.key(), |live| is_complete(live, 2)).await;
        }
        let live = fixture.cluster().get(&object.key()).await.unwrap().expect("a reader sees its own writes");
        let found = difference(&object, Some(&live), FieldManager::Sync, Part::Main);
        assert_eq!(found, Difference::None, "as {} is read", object.key());
    }
    let owner = fixture.cluster().get(&key(fixture, Kind::AGENT_RUNTIME, "full")).await.unwrap().unwrap();
    let mut status = Object::bare(&owner.key());
    status.set(
        &["status"],
        json!({"phase": "Running", "conditions": [{
            "type": "Ready", "status": "True", "reason": "RuntimeReady", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]}),
    );
    let live = apply_status(fixture, &owner, status.clone()).await.unwrap();
    assert_eq!(difference(&status, Some(&live), FieldManager::Rollout, Part::Status), Difference::None);
}

async fn what_differs_is_found_after_an_edit(fixture: &dyn Fixture) {
    let edits = [
        (full_deployment(fixture, "full"), json!({"spec": {"replicas": 5}}), "spec.replicas"),
        (config(fixture, "full", json!({"x": "1"})), json!({"data": {"x": "2"}}), "data.x"),
        (agent(fixture, "full"), json!({"spec": {"rollout": {"steps": [{"setWeight": 50}]}}}), "spec.rollout.steps"),
    ];
    for (object, patch, path) in edits {
        let first = create(fixture, object.clone()).await;
        fixture.edit("a-person", &first.key(), patch).await;
        let version = first.resource_version().map(str::to_owned);
        until(fixture, "the edit is seen", &first.key(), |live| {
            assert!(live.resource_version().is_some());
            let found = difference(&object, Some(live), FieldManager::Sync, Part::Main);
            let Difference::Update { changes } = found else { return false };
            assert_eq!(changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), [path]);
            live.resource_version() != version.as_deref()
        })
        .await;
        let healed = apply(fixture, FieldManager::Sync, &first, object.clone()).await.unwrap();
        assert_eq!(difference(&object, Some(&healed), FieldManager::Sync, Part::Main), Difference::None);
        // What git stops naming differs for as long as sync owns it.
        let less = Object::bare(&first.key());
        let found = difference(&less, Some(&healed), FieldManager::Sync, Part::Main);
        assert!(matches!(found, Difference::Update { .. }), "{found:?}");
    }
}

fn key(fixture: &dyn Fixture, kind: Kind, name: &str) -> ObjectKey {
    ObjectKey::new(kind, fixture.namespace(), name)
}

fn object(fixture: &dyn Fixture, kind: Kind, name: &str, fields: Value) -> Object {
    let mut object = Object::bare(&key(fixture, kind, name));
    let Value::Object(fields) = fields else { panic!("fields are a map") };
    for (name, value) in fields {
        object.set(&[&name], value);
    }
    object
}

fn config(fixture: &dyn Fixture, name: &str, data: Value) -> Object {
    object(fixture, Kind::CONFIG_MAP, name, json!({"data": data}))
}

fn agent(fixture: &dyn Fixture, name: &str) -> Object {
    let spec = json!({
        "promptPackRef": {"name": "support-pack", "version": "1.0.0"},
        "facades": [{"type": "websocket", "port": 8080}],
        "providers": [{"name": "default", "providerRef": {"name": "claude"}}],
        "runtime": {"replicas": 3},
        "rollout": {
            "candidate": {"promptPackRef": {"name": "support-pack", "version": "2.0.0"}},
            "steps": [{"setWeight": 25}, {"pause": {"duration": "5m"}}, {"setWeight": 100}],
            "rollback": {"mode": "automatic"}
        }
    });
    object(fixture, Kind::AGENT_RUNTIME, name, json!({"spec": spec}))
}

/// A Deployment with no more than it needs; pods of other versions have other templates.
fn deployment(fixture: &dyn Fixture, name: &str, replicas: u32, version: &str) -> Object {
    let labels = json!({"app": name});
    let spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"version": version, PODS_ANNOTATION: "ready"}},
            "spec": {"containers": [{"name": "facade", "image": "example.com/facade:1"}]}
        }
    });
    object(fixture, Kind::DEPLOYMENT, name, json!({"spec": spec}))
}

/// A Deployment with everything that one of an agent has.
fn full_deployment(fixture: &dyn Fixture, name: &str) -> Object {
    let labels = json!({"app.kubernetes.io/instance": name, "omnia.altairalabs.ai/track": "stable"});
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8081}, "initialDelaySeconds": 5, "periodSeconds": 10});
    let security = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}
    });
    let facade = json!({
        "name": "facade", "image": "example.com/facade:latest", "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "facade", "containerPort": 8080}, {"name": "metrics", "containerPort": 8081}],
        "env": [
            {"name": "OMNIA_AGENT_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/instance']"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "OMNIA_VARIANT", "value": "stable"},
            {"name": "EMPTY", "value": ""},
            {"name": "URL", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "url"}}}
        ],
        "readinessProbe": probe, "livenessProbe": probe, "securityContext": security,
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 5"]}}},
        "volumeMounts": [{"name": "pack", "mountPath": "/etc/omnia/pack", "readOnly": true}]
    });
    let runtime = json!({
        "name": "runtime", "image": "example.com/runtime:1",
        "ports": [{"name": "grpc", "containerPort": 9000}, {"containerPort": 9001}],
        "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 2, "memory": "2Gi"}},
        "securityContext": security,
        "volumeMounts": [
            {"name": "pack", "mountPath": "/etc/omnia/pack", "readOnly": true},
            {"name": "cache", "mountPath": "/var/run/omnia/pack-cache", "readOnly": false},
            {"name": "token", "mountPath": "/var/run/secrets/omnia/session-api", "readOnly": true}
        ]
    });
    let spec = json!({
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {PODS_ANNOTATION: "ready"}},
            "spec": {
                "serviceAccountName": "default", "terminationGracePeriodSeconds": 60,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"}
                },
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": labels}
                }],
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [facade, runtime],
                "volumes": [
                    {"name": "pack", "configMap": {"name": "support-pack"}},
                    {"name": "cache", "emptyDir": {}},
                    {"name": "token", "projected": {"sources": [
                        {"serviceAccountToken": {"audience": "session-api", "path": "token"}}
                    ]}}
                ]
            }
        }
    });
    let mut object = object(fixture, Kind::DEPLOYMENT, name, json!({"spec": spec}));
    object.set(&["metadata", "labels"], labels);
    object
}

fn all_kinds(fixture: &dyn Fixture) -> Vec<Object> {
    let service = json!({"spec": {
        "selector": {"app.kubernetes.io/instance": "full"},
        "ports": [
            {"name": "facade", "port": 8080, "targetPort": "facade", "appProtocol": "http"},
            {"name": "mgmt", "port": 18080, "appProtocol": "http"}
        ]
    }});
    let role = json!({"rules": [
        {"apiGroups": ["omnia.altairalabs.ai"], "resources": ["agentruntimes", "providers"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    ]});
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "full"},
        "subjects": [{"kind": "ServiceAccount", "name": "full", "namespace": fixture.namespace()}]
    });
    vec![
        config(fixture, "full", json!({"override.json": "{}"})),
        object(fixture, Kind::SERVICE_ACCOUNT, "full", json!({})),
        object(fixture, Kind::ROLE, "full", role),
        object(fixture, Kind::ROLE_BINDING, "full", binding),
        object(fixture, Kind::SERVICE, "full", service),
        agent(fixture, "full"),
        full_deployment(fixture, "full"),
    ]
}

fn container(deployment: &mut Object) -> &mut Value {
    deployment
        .fields_mut()
        .get_mut("spec")
        .and_then(|spec| spec.pointer_mut("/template/spec/containers/0"))
        .expect("these Deployments have a container")
}

fn is_complete(deployment: &Object, replicas: i64) -> bool {
    ["replicas", "updatedReplicas", "availableReplicas"]
        .iter()
        .all(|name| deployment.integer(&format!("/status/{name}")) == Some(replicas))
        && condition(deployment, "Progressing") == Some(("True", "NewReplicaSetAvailable"))
}

fn condition<'a>(object: &'a Object, name: &str) -> Option<(&'a str, &'a str)> {
    let conditions = object.at("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == name)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}

async fn create(fixture: &dyn Fixture, object: Object) -> Arc<Object> {
    let write = Apply { object, manager: FieldManager::Sync, expect: Expect::Absent, part: Part::Main };
    fixture.cluster().apply(&write).await.unwrap_or_else(|error| panic!("{}: {error}", write.object.key()))
}

async fn apply(
    fixture: &dyn Fixture,
    manager: FieldManager,
    live: &Object,
    object: Object,
) -> Result<Arc<Object>, ClusterError> {
    let expect = Expect::Uid(live.uid().expect("a live object has a uid"));
    fixture.cluster().apply(&Apply { object, manager, expect, part: Part::Main }).await
}

async fn apply_status(fixture: &dyn Fixture, live: &Object, object: Object) -> Result<Arc<Object>, ClusterError> {
    let expect = Expect::Uid(live.uid().expect("a live object has a uid"));
    fixture.cluster().apply(&Apply { object, manager: FieldManager::Rollout, expect, part: Part::Status }).await
}

/// Waits until the object is as it is waited for, and returns it.
async fn until(
    fixture: &dyn Fixture,
    what: &str,
    key: &ObjectKey,
    mut holds: impl FnMut(&Object) -> bool,
) -> Arc<Object> {
    loop {
        let live = fixture.cluster().get(key).await.unwrap();
        if let Some(live) = live.as_ref().filter(|live| holds(live)) {
            return Arc::clone(live);
        }
        assert!(fixture.moment().await, "waited in vain: {what}; last seen: {live:?}");
    }
}

async fn until_gone(fixture: &dyn Fixture, key: &ObjectKey) {
    while let Some(live) = fixture.cluster().get(key).await.unwrap() {
        assert!(fixture.moment().await, "waited in vain: {key} is gone; last seen: {live:?}");
    }
}

mod simulated {
    use std::sync::atomic::{AtomicU32, Ordering};

    use jiff::{SignedDuration, Timestamp};
    use serin::api::duration::parse_duration;
    use serin::clock::{Clock, SimulatedClock};
    use serin::cluster::simulated::{PodBehaviour, SimulatedCluster};

    use super::*;

    struct Simulated {
        clock: Arc<SimulatedClock>,
        cluster: SimulatedCluster,
        moments: AtomicU32,
    }

    impl Simulated {
        fn new() -> Self {
            let clock = Arc::new(SimulatedClock::starting_at(Timestamp::UNIX_EPOCH));
            let cluster = SimulatedCluster::new(Arc::clone(&clock) as Arc<dyn Clock>);
            cluster.stop_serving(&Kind::PROVIDER);
            cluster.set_pod_script(Box::new(|_, template| {
                let annotations = template.pointer("/metadata/annotations");
                match annotations.and_then(|annotations| annotations.get(PODS_ANNOTATION)?.as_str()) {
                    Some("never-ready") => PodBehaviour::NeverReady,
                    Some(text) => {
                        let delay =
                            text.strip_prefix("ready-after:").map(|delay| parse_duration(delay.trim()).unwrap());
                        PodBehaviour::ReadyAfter(delay.unwrap_or(SignedDuration::ZERO))
                    }
                    None => PodBehaviour::ReadyAfter(SignedDuration::ZERO),
                }
            }));
            Self { clock, cluster, moments: AtomicU32::new(0) }
        }
    }

    #[async_trait]
    impl Fixture for Simulated {
        fn cluster(&self) -> &dyn Cluster {
            &self.cluster
        }

        fn namespace(&self) -> &str {
            "contract"
        }

        fn unserved(&self) -> Kind {
            Kind::PROVIDER
        }

        async fn edit(&self, manager: &str, key: &ObjectKey, patch: Value) {
            self.cluster
                .edit(manager, key, |object| merge(object.fields_mut(), patch.as_object().expect("a patch is a map")))
                .unwrap();
        }

        async fn moment(&self) -> bool {
            self.cluster.advance();
            self.clock.advance(SignedDuration::from_millis(100));
            self.moments.fetch_add(1, Ordering::Relaxed) < 1000
        }
    }

    fn merge(target: &mut serde_json::Map<String, Value>, patch: &serde_json::Map<String, Value>) {
        for (name, value) in patch {
            match (target.get_mut(name), value) {
                (Some(Value::Object(target)), Value::Object(patch)) => merge(target, patch),
                _ => drop(target.insert(name.clone(), value.clone())),
            }
        }
    }

    #[test]
    fn the_simulated_cluster_keeps_the_contract() {
        for (name, case) in CASES {
            println!("{name}");
            futures::executor::block_on(case(&Simulated::new()));
        }
    }
}
