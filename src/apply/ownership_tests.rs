//! Which source has an object, and who must keep away from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::names::{SOURCE_LABEL, TRACKING_ANNOTATION};
use crate::apply::{Claimant, Claimants, Owner, Prune, SyncPlan, plan_sync, tracked_by, tracking_id};
use crate::ids::{SourceName, TreePath};
use crate::manifest::{Desired, Namespaces, Rules};
use crate::object::{Kind, Object, ObjectKey};

/// What a source of a test says.
struct Voice {
    name: SourceName,
    adopts: Vec<SourceName>,
    rules: Rules,
    desired: Option<Desired>,
    was_asked: bool,
    is_behind: bool,
}

fn voice(name: &str) -> Voice {
    Voice {
        name: SourceName::new(name),
        adopts: Vec::new(),
        rules: Rules::default(),
        desired: Some(Desired::default()),
        was_asked: true,
        is_behind: false,
    }
}

fn holding(name: &str) -> Voice {
    let mut holding = voice(name);
    holding.desired = Some(Desired { held: imbl::OrdSet::unit(key()), ..Desired::default() });
    holding
}

fn unread(name: &str) -> Voice {
    Voice { desired: None, ..voice(name) }
}

fn unreadable(name: &str) -> Voice {
    Voice { desired: Some(Desired { unreadable: vec![TreePath::new("x.yaml")], ..Desired::default() }), ..voice(name) }
}

impl Voice {
    fn adopting(mut self, from: &str) -> Self {
        self.adopts.push(SourceName::new(from));
        self
    }

    fn not_asked(mut self) -> Self {
        self.was_asked = false;
        self
    }

    fn elsewhere(mut self) -> Self {
        self.rules.namespaces = Namespaces::Only(["other".to_owned()].into());
        self
    }

    fn behind(mut self) -> Self {
        self.is_behind = true;
        self
    }

    fn claimant(&self) -> Claimant<'_> {
        let Self { name, adopts, rules, desired, was_asked, is_behind } = self;
        let desired = desired.as_ref();
        Claimant { source: name, adopts_from: adopts, rules, desired, was_asked: *was_asked, is_behind: *is_behind }
    }
}

fn claimants(voices: &[Voice]) -> Claimants<'_> {
    Claimants(voices.iter().map(Voice::claimant).collect())
}

fn key() -> ObjectKey {
    ObjectKey::new(Kind::AGENT_RUNTIME, "n", "a")
}

#[track_caller]
fn assert_owner(voices: &[Voice], tracked: Option<&str>, owner: &str) {
    let claimants = claimants(voices);
    let found = match claimants.owner(&key(), tracked) {
        Owner::Source(name) => name.to_owned(),
        Owner::Nobody => "nobody".to_owned(),
        Owner::Undecided(first) => format!("waits for {first}"),
    };
    assert_eq!(found, owner);
}

#[test]
fn what_is_new_goes_to_the_first_source_that_holds_it() {
    assert_owner(&[holding("b"), holding("a")], None, "b");
    assert_owner(&[voice("b"), holding("a")], None, "a");
    assert_owner(&[voice("b"), voice("a")], None, "nobody");
}

#[test]
fn a_source_that_comes_first_is_waited_for_until_it_was_asked() {
    assert_owner(&[unread("b").not_asked(), holding("a")], None, "waits for b");
    // Neither what cannot be reached nor what may not hold it anyway keeps others from being installed.
    assert_owner(&[unread("b"), holding("a")], None, "a");
    assert_owner(&[unread("b").not_asked().elsewhere(), holding("a")], None, "a");
    assert_owner(&[holding("a"), unread("b").not_asked()], None, "a");
}

#[test]
fn who_has_it_keeps_it_whatever_the_order_says() {
    for b in [holding("b"), unread("b"), unreadable("b")] {
        assert_owner(&[holding("a"), b], Some("b"), "b");
    }
    // Held no more: it still does not move by itself.
    assert_owner(&[holding("a"), voice("b")], Some("b"), "b");
    assert_owner(&[holding("a")], Some("gone"), "gone");
}

#[test]
fn a_source_takes_over_what_the_other_holds_no_more() {
    let adopting = || holding("a").adopting("b");
    assert_owner(&[adopting(), voice("b")], Some("b"), "a");
    assert_owner(&[adopting()], Some("b"), "a");
    // Not as long as the owner holds it, or may.
    for b in [holding("b"), unread("b"), unreadable("b")] {
        assert_owner(&[adopting(), b], Some("b"), "b");
    }
    assert_owner(&[voice("a").adopting("b"), voice("b")], Some("b"), "b");
    // Afterwards it is like any other.
    assert_owner(&[adopting(), holding("b")], Some("a"), "a");
}

#[test]
fn of_several_that_adopt_the_first_has_it() {
    let second = || holding("c").adopting("b");
    assert_owner(&[holding("a").adopting("b"), second()], Some("b"), "a");
    assert_owner(&[voice("a").adopting("b"), second()], Some("b"), "c");
    assert_owner(&[unread("a").adopting("b"), second()], Some("b"), "b");
}

#[test]
fn a_refusal_names_the_owner_and_what_to_do() {
    let sentence = |voices: &[Voice], tracked: Option<&'static str>| {
        claimants(voices).refusal(&key(), tracked, &SourceName::new("a")).unwrap_or_default()
    };
    let adopting = || holding("a").adopting("b");
    insta::assert_snapshot!(
        [
            sentence(&[holding("b"), holding("a")], None),
            sentence(&[holding("a"), holding("b")], Some("b")),
            sentence(&[holding("a"), voice("b")], Some("b")),
            sentence(&[holding("a")], Some("b")),
            sentence(&[adopting(), holding("b")], Some("b")),
            sentence(&[holding("c").adopting("b"), adopting()], Some("b")),
            sentence(&[unread("c").adopting("b"), adopting()], Some("b")),
        ]
        .join("\n"),
        @"
    AgentRuntime n/a is in the source b too, which comes first in the settings: remove it from one of the two
    AgentRuntime n/a belongs to the source b: remove it from one of the two
    AgentRuntime n/a belongs to the source b, which holds it no more: with `adoptFrom: [b]`, a takes it over; removed here too, it is deleted
    AgentRuntime n/a belongs to the source b, which is not in the settings: with `adoptFrom: [b]`, a takes it over
    AgentRuntime n/a belongs to the source b, which still holds it: a takes it over when it is gone there
    AgentRuntime n/a is taken over from b by the source c, which comes first in the settings: remove it from one of the two
    AgentRuntime n/a belongs to the source b, and another source that adopts from it is not read yet
    "
    );
    assert_eq!(sentence(&[holding("a"), holding("b")], None), "");
    assert_eq!(sentence(&[adopting()], Some("b")), "");
}

#[test]
fn what_another_source_holds_or_may_hold_is_not_pruned() {
    let why = |other: Voice| claimants(&[voice("b"), other]).keeps(&key(), &SourceName::new("b"));
    for other in
        [holding("a"), holding("a").adopting("b"), unread("a"), unreadable("a").adopting("b"), voice("a").behind()]
    {
        assert!(why(other).is_some());
    }
    for other in [
        voice("a"),
        voice("a").adopting("b"),
        unread("a").elsewhere(),
        unreadable("a"),
        voice("a").elsewhere().behind(),
    ] {
        assert_eq!(why(other), None);
    }
}

#[test]
fn the_annotation_says_whose_an_object_is_and_a_copy_is_nobodys() {
    let mut live = Object::bare(&key());
    assert_eq!(tracked_by(&live), None);
    live.set(&["metadata", "labels", SOURCE_LABEL], "b");
    assert_eq!(tracked_by(&live), Some("b"));
    live.set(&["metadata", "annotations", TRACKING_ANNOTATION], tracking_id(&SourceName::new("a"), &key()));
    assert_eq!(tracked_by(&live), Some("a"));
    for other in ["a:omnia.altairalabs.ai/AgentRuntime:n/original", "nonsense", ""] {
        live.set(&["metadata", "annotations", TRACKING_ANNOTATION], other);
        assert_eq!(tracked_by(&live), None);
    }
}

fn applied_by(source: &str) -> Object {
    let mut live = Object::bare(&key());
    live.set(&["metadata", "uid"], "u");
    live.set(&["metadata", "labels", SOURCE_LABEL], source);
    live.set(&["metadata", "annotations", TRACKING_ANNOTATION], tracking_id(&SourceName::new(source), &key()));
    live
}

/// The plan of a source that holds the object, or does not hold it any more.
fn plan(source: &str, desired: Option<Object>, voices: &[Voice], live: Option<Object>) -> SyncPlan {
    let desired: BTreeMap<_, _> = desired.into_iter().map(|object| (object.key(), object)).collect();
    let live: Vec<_> = live.into_iter().map(Arc::new).collect();
    let nothing = imbl::OrdSet::new();
    let desired = desired.iter().map(|(key, object)| (key, Arc::new(object.clone())));
    plan_sync(desired, &nothing, &Prune::Allowed, &live, &SourceName::new(source), &claimants(voices))
}

#[test]
fn a_source_that_is_removed_leaves_its_objects_and_one_that_adopts_marks_them_anew() {
    let manifest = || Some(Object::bare(&key()));
    let refused = plan("a", manifest(), &[holding("a")], Some(applied_by("b")));
    assert_eq!((refused.refused.len(), refused.applies.len(), refused.deletes.len()), (1, 0, 0));
    let adopted = plan("a", manifest(), &[holding("a").adopting("b")], Some(applied_by("b")));
    let [apply] = adopted.applies.as_slice() else { panic!("{adopted:?}") };
    assert_eq!((tracked_by(&apply.object), apply.object.label(SOURCE_LABEL)), (Some("a"), Some("a")));
    assert!(adopted.deletes.is_empty());

    let voices = [voice("a")];
    let left = claimants(&voices).left_behind(&[Arc::new(applied_by("b")), Arc::new(applied_by("a"))]);
    assert_eq!(left, BTreeMap::from([("b".to_owned(), [key()].into())]));
    assert!(claimants(&[holding("a")]).left_behind(&[Arc::new(applied_by("b"))]).is_empty());
}

#[test]
fn what_may_belong_to_a_source_that_comes_first_is_neither_applied_nor_refused() {
    let plan = plan("a", Some(Object::bare(&key())), &[unread("b").not_asked(), holding("a")], None);
    assert_eq!(plan, SyncPlan { undecided: vec![key()], ..SyncPlan::default() });
}

#[test]
fn the_owner_keeps_an_object_that_another_holds_and_deletes_it_when_nobody_does() {
    let kept = plan("b", None, &[holding("a"), voice("b")], Some(applied_by("b")));
    assert_eq!((kept.deletes.len(), kept.kept.len()), (0, 1));
    assert_eq!(kept.kept[0].why, "the source a holds it");
    let gone = plan("b", None, &[voice("a"), voice("b")], Some(applied_by("b")));
    assert_eq!((gone.deletes.len(), gone.kept.len()), (1, 0));
    // It was taken over meanwhile.
    let moved = plan("b", None, &[holding("a"), voice("b")], Some(applied_by("a")));
    assert_eq!(moved, SyncPlan::default());
}
