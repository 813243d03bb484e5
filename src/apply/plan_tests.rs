//! What a sync applies, deletes and leaves alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::api::names::{RECORD_ANNOTATION, SOURCE_LABEL, TRACKING_ANNOTATION};
use crate::apply::{Claimants, Prune, SyncPlan, plan_sync, tracking_id};
use crate::cluster::{Expect, FieldManager, Part};
use crate::ids::{SourceName, Uid};
use crate::object::{Kind, Object, ObjectKey};

fn source() -> SourceName {
    SourceName::new("prod")
}

fn key(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "n", name)
}

fn manifest(kind: Kind, name: &str) -> Object {
    let mut object = Object::bare(&key(kind, name));
    object.set(&["spec", "x"], 1);
    object
}

/// The object as the cluster has it after `source` applied it.
fn applied(kind: Kind, name: &str) -> Object {
    let mut object = manifest(kind, name);
    object.set(&["metadata", "uid"], format!("uid-{name}"));
    object.set(&["metadata", "labels", SOURCE_LABEL], "prod");
    object.set(&["metadata", "annotations", TRACKING_ANNOTATION], tracking_id(&source(), &object.key()));
    object
}

fn plan(desired: Vec<Object>, held: &[ObjectKey], live: Vec<Object>) -> SyncPlan {
    plan_with(Prune::Allowed, desired, held, live)
}

fn plan_with(prune: Prune, desired: Vec<Object>, held: &[ObjectKey], live: Vec<Object>) -> SyncPlan {
    let desired: BTreeMap<_, _> = desired.into_iter().map(|object| (object.key(), object)).collect();
    let held: imbl::OrdSet<_> = held.iter().cloned().collect();
    let live: Vec<_> = live.into_iter().map(Arc::new).collect();
    let desired = desired.iter().map(|(key, object)| (key, Arc::new(object.clone())));
    plan_sync(desired, &held, &prune, &live, &source(), &Claimants::default())
}

#[test]
fn a_cluster_that_is_as_git_says_sees_no_writes() {
    let plan = plan(vec![manifest(Kind::AGENT_RUNTIME, "a")], &[], vec![applied(Kind::AGENT_RUNTIME, "a")]);
    assert_eq!(plan, SyncPlan { unchanged: 1, ..SyncPlan::default() });
}

#[test]
fn a_new_object_is_applied_with_the_marks_of_its_source() {
    let plan = plan(vec![manifest(Kind::AGENT_RUNTIME, "a")], &[], vec![]);
    let [apply] = plan.applies.as_slice() else { panic!("{plan:?}") };
    assert_eq!((apply.manager, apply.part, &apply.expect), (FieldManager::Sync, Part::Main, &Expect::Absent));
    assert_eq!(apply.object.label(SOURCE_LABEL), Some("prod"));
    assert_eq!(apply.object.annotation(TRACKING_ANNOTATION), Some("prod:omnia.altairalabs.ai/AgentRuntime:n/a"));
}

#[test]
fn what_is_referred_to_is_applied_first_and_deleted_last() {
    let kinds = [Kind::AGENT_RUNTIME, Kind::ROLLOUT_ANALYSIS, Kind::PROMPT_PACK, Kind::CONFIG_MAP];
    let order = [Kind::CONFIG_MAP, Kind::PROMPT_PACK, Kind::ROLLOUT_ANALYSIS, Kind::AGENT_RUNTIME];
    let new = plan(kinds.iter().map(|kind| manifest(kind.clone(), "a")).collect(), &[], vec![]);
    let applied_kinds: Vec<_> = new.applies.iter().map(|apply| apply.object.key().kind).collect();
    assert_eq!(applied_kinds, order);
    let gone = plan(vec![], &[], kinds.iter().map(|kind| applied(kind.clone(), "a")).collect());
    let deleted: Vec<_> = gone.deletes.iter().map(|(key, _)| key.kind.clone()).rev().collect();
    assert_eq!(deleted, order);
}

#[test]
fn an_object_that_is_gone_from_git_is_deleted_by_its_uid() {
    let plan = plan(vec![], &[], vec![applied(Kind::CONFIG_MAP, "a")]);
    assert_eq!(plan.deletes, [(key(Kind::CONFIG_MAP, "a"), Uid::new("uid-a"))]);
}

#[test]
fn a_suspended_prune_deletes_nothing_and_says_what_it_would() {
    let prune = Prune::Suspended { why: "the folder is gone".into() };
    let plan = plan_with(prune, vec![], &[], vec![applied(Kind::CONFIG_MAP, "a")]);
    assert_eq!((plan.deletes.len(), plan.unpruned), (0, vec![key(Kind::CONFIG_MAP, "a")]));
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_live_state() {
    let held = [key(Kind::CONFIG_MAP, "a")];
    let plan = plan(vec![], &held, vec![applied(Kind::CONFIG_MAP, "a")]);
    assert_eq!(plan, SyncPlan::default());
}

#[test]
fn a_copy_made_by_hand_is_not_pruned() {
    let mut copy = applied(Kind::CONFIG_MAP, "a");
    copy.set(&["metadata", "name"], "copy");
    let unlabelled = manifest(Kind::CONFIG_MAP, "c");
    assert_eq!(plan(vec![], &[], vec![copy, unlabelled]), SyncPlan::default());
}

#[test]
fn an_object_that_lives_without_our_label_is_adopted() {
    let mut live = manifest(Kind::AGENT_RUNTIME, "a");
    live.set(&["metadata", "uid"], "u");
    let plan = plan(vec![manifest(Kind::AGENT_RUNTIME, "a")], &[], vec![live]);
    assert_eq!(plan.applies.iter().map(|apply| &apply.expect).collect::<Vec<_>>(), [&Expect::Uid(Uid::new("u"))]);
}

#[test]
fn an_object_that_is_being_deleted_is_left_alone() {
    let mut live = applied(Kind::CONFIG_MAP, "a");
    live.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    let wanted = plan(vec![manifest(Kind::CONFIG_MAP, "a")], &[], vec![live.clone()]);
    assert_eq!((wanted.applies.len(), wanted.terminating), (0, vec![key(Kind::CONFIG_MAP, "a")]));
    assert_eq!(plan(vec![], &[], vec![live]), SyncPlan::default());
}

#[test]
fn what_is_not_gits_to_say_is_left_out() {
    let mut desired = manifest(Kind::AGENT_RUNTIME, "a");
    desired.set(&["status", "phase"], "Running");
    desired.set(&["metadata", "uid"], "x");
    desired.set(&["metadata", "resourceVersion"], "7");
    desired.set(&["metadata", "annotations", RECORD_ANNOTATION], "{}");
    desired.set(&["spec", "toolRegistryRef"], serde_json::Value::Null);
    let plan = plan(vec![desired], &[], vec![]);
    let object = plan.applies[0].object.clone().into_value();
    assert_eq!(
        object,
        json!({"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime", "spec": {"x": 1}, "metadata": {
            "name": "a", "namespace": "n", "labels": {"serin.dev/source": "prod"},
            "annotations": {"serin.dev/tracking": "prod:omnia.altairalabs.ai/AgentRuntime:n/a"}
        }})
    );
}

#[test]
fn drift_and_a_lost_mark_are_corrected() {
    let mut drifted = applied(Kind::CONFIG_MAP, "a");
    drifted.set(&["spec", "x"], 2);
    let mut unmarked = applied(Kind::CONFIG_MAP, "b");
    unmarked.set(&["metadata", "annotations"], json!({}));
    let desired = vec![manifest(Kind::CONFIG_MAP, "a"), manifest(Kind::CONFIG_MAP, "b")];
    assert_eq!(plan(desired, &[], vec![drifted, unmarked]).applies.len(), 2);
}
