//! What is written at once, what may wait, and what is not written at all.

use serde_json::{Value, json};

use super::Bench;
use crate::api::names;
use crate::cluster::Part;
use crate::object::Kind;
use crate::rollout::{Effect, Fact, Phase, Record, Verdict, evaluate};

fn weighted(steps: Value) -> Bench {
    Bench::with_candidate(json!({"steps": steps, "trafficRouting": {"mode": "replicaWeighted"}}))
}

/// The applies of a verdict: kind, part, whether it may wait.
fn applies(verdict: &Verdict) -> Vec<(Kind, Part, bool)> {
    let apply = |effect: &Effect| match effect {
        Effect::Apply(apply) => Some((apply.object.key().kind, apply.part, false)),
        Effect::Defer(apply) => Some((apply.object.key().kind, apply.part, true)),
        Effect::Delete(..) | Effect::Patch(_) | Effect::Event(_) | Effect::Fact(_) => None,
    };
    verdict.effects.iter().filter_map(apply).collect()
}

const STATUS: (Kind, Part) = (Kind::AGENT_RUNTIME, Part::Status);
const RECORD: (Kind, Part) = (Kind::AGENT_RUNTIME, Part::Main);

fn is_written(verdict: &Verdict, what: &(Kind, Part)) -> Option<bool> {
    applies(verdict).into_iter().find(|(kind, part, _)| (kind, part) == (&what.0, &what.1)).map(|(_, _, waits)| waits)
}

#[test]
fn numbers_and_sentences_may_wait_and_a_step_may_not() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    // Somebody has pushed, and looks.
    let verdict = bench.pass();
    assert_eq!((is_written(&verdict, &RECORD), is_written(&verdict, &STATUS)), (Some(false), Some(false)));
    bench.advance(1);
    bench.settle();
    bench.pods("support-canary", 2, 0);
    bench.settle();
    bench.pods("support-canary", 2, 2);
    let verdict = bench.pass();
    assert_eq!((is_written(&verdict, &RECORD), is_written(&verdict, &STATUS)), (None, Some(true)));
    bench.settle();
    bench.all_ready();
    // The step is done: the status is the only place that says so.
    let verdict = bench.pass();
    assert_eq!(verdict.report.step, Some((1, 2)));
    assert_eq!((is_written(&verdict, &RECORD), is_written(&verdict, &STATUS)), (None, Some(false)));
}

#[test]
fn what_somebody_would_act_upon_does_not_wait() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.run();
    for name in ["support", "support-canary"] {
        bench.pods(name, 2, 0);
    }
    // No pod is ready: the phase and the condition Ready say so at once, and stable gets its pods back at once.
    let verdict = bench.pass();
    assert_eq!(is_written(&verdict, &STATUS), Some(false));
    assert_eq!(is_written(&verdict, &(Kind::DEPLOYMENT, Part::Main)), Some(false));
}

#[test]
fn stable_waits_a_moment_for_more_pods_of_the_candidate_before_it_gives_up_its_own() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.settle();
    bench.pods("support-canary", 2, 1);
    let stable = (Kind::DEPLOYMENT, Part::Main);
    assert_eq!(is_written(&evaluate(&bench.world, bench.now), &stable), Some(true));
    // All are there: nothing to wait for.
    bench.pods("support-canary", 2, 2);
    assert_eq!(is_written(&evaluate(&bench.world, bench.now), &stable), Some(false));
    // A new template does not wait, whatever the number of pods.
    bench.pods("support-canary", 2, 1);
    bench.push(|spec| spec["podOverrides"] = json!({"labels": {"team": "shop"}}));
    let verdict = evaluate(&bench.world, bench.now);
    let of_stable = verdict.effects.iter().find_map(|effect| match effect {
        Effect::Apply(apply) if apply.object.key().kind == Kind::DEPLOYMENT && apply.object.name() == "support" => {
            Some(false)
        }
        Effect::Defer(apply) if apply.object.name() == "support" && apply.part == Part::Main => Some(true),
        _ => None,
    });
    assert_eq!(of_stable, Some(false));
}

#[test]
fn a_promotion_and_its_end_are_told_by_the_status_and_cost_no_record() {
    let mut bench = weighted(json!([{"setWeight": 100}]));
    bench.run();
    let decision = bench.pass().decision.unwrap();
    let before = bench.world.agent.annotation(names::RECORD_ANNOTATION).unwrap().to_owned();
    bench.land(&decision);
    let verdict = bench.pass();
    assert_eq!(verdict.report.phase, Phase::Promoting);
    assert_eq!((is_written(&verdict, &RECORD), is_written(&verdict, &STATUS)), (None, Some(false)));
    bench.run();
    assert_eq!(bench.message(), "promoted");
    assert_eq!(bench.world.agent.annotation(names::RECORD_ANNOTATION), Some(before.as_str()));
    // Read together, they say all of it.
    let record = Record::read(&bench.world.agent);
    assert_eq!(record.rollout, None);
    let last = record.last.unwrap();
    assert_eq!((last.rollout, last.rolled_back), (decision.rollout.clone(), None));
    assert_eq!(record.promoted.unwrap().rollout, decision.rollout);
    // And the next rollout starts from there.
    bench.push(|spec| spec["rollout"]["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "3.0.0"}}));
    bench.settle();
    let record = Record::read(&bench.world.agent);
    assert_eq!((record.sequence, record.rollout.is_some(), record.last.is_some()), (2, true, true));
}

#[test]
fn a_promoted_rollout_whose_status_is_lost_ends_once_more_and_moves_nothing() {
    let mut bench = weighted(json!([{"setWeight": 100}]));
    bench.run();
    let decision = bench.pass().decision.unwrap();
    bench.land(&decision);
    bench.run();
    let agent = std::sync::Arc::make_mut(&mut bench.world.agent);
    agent.fields_mut().remove("status");
    let before = bench.wanted();
    bench.run();
    assert_eq!((bench.wanted(), bench.message().as_str()), (before, "promoted"));
    assert_eq!(bench.count(|fact| matches!(fact, Fact::Started { .. })), 1);
}

#[test]
fn people_get_an_event_when_a_promotion_begins_and_when_a_rollout_ends_and_none_between() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"setWeight": 100}]));
    let mut reasons = Vec::new();
    let mut run = |bench: &mut Bench| loop {
        let verdict = bench.pass();
        reasons.extend(verdict.effects.iter().filter_map(|effect| match effect {
            Effect::Event(event) => Some(event.reason),
            _ => None,
        }));
        if verdict.effects.is_empty() && !bench.all_ready() {
            return verdict;
        }
    };
    let decision = run(&mut bench).decision.unwrap();
    bench.land(&decision);
    run(&mut bench);
    assert_eq!(reasons, ["RolloutPromoting", "RolloutPromoted"]);
}

/// What a verdict does, in order.
fn order(verdict: &Verdict) -> Vec<&'static str> {
    let name = |effect: &Effect| match effect {
        Effect::Apply(apply) | Effect::Defer(apply) if apply.part == Part::Status => "status",
        Effect::Apply(apply) | Effect::Defer(apply) if apply.object.key().kind == Kind::AGENT_RUNTIME => "record",
        Effect::Apply(_) | Effect::Defer(_) | Effect::Delete(..) => "workload",
        Effect::Patch(_) => "patch",
        Effect::Event(_) => "event",
        Effect::Fact(_) => "fact",
    };
    let mut order: Vec<_> = verdict.effects.iter().map(name).collect();
    order.dedup();
    order
}

#[test]
fn what_has_happened_is_told_directly_behind_the_write_that_makes_it_true() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"setWeight": 100}]));
    assert_eq!(order(&bench.pass()), ["record", "fact", "status", "workload"], "it starts");
    bench.settle();
    bench.all_ready();
    bench.settle();
    bench.all_ready();
    assert_eq!(order(&bench.pass()), ["status", "fact", "workload"], "a step is done");
    let decision = bench.run().decision.unwrap();
    bench.land(&decision);
    assert_eq!(order(&bench.pass())[..3], ["status", "fact", "event"], "its promotion begins");
    bench.push(|spec| spec["promptPackRef"]["version"] = "3.0.0".into());
    assert_eq!(order(&bench.pass()), ["record", "fact", "event", "status", "workload"], "it is turned back");
}

#[test]
fn a_rollback_that_fails_behind_its_record_was_told_and_is_not_told_again() {
    let mut bench = weighted(json!([{"setWeight": 50}, {"pause": {}}]));
    bench.run();
    bench.push(|spec| spec["rollout"]["candidate"] = Value::Null);
    // Neither its status nor a Deployment is written.
    let verdict = evaluate(&bench.world, bench.now);
    let done =
        verdict.effects.iter().take_while(|effect| !matches!(effect, Effect::Apply(a) if a.part == Part::Status));
    done.for_each(|effect| bench.perform(effect));
    let is_it = |fact: &Fact| matches!(fact, Fact::RolledBack { .. });
    assert_eq!(bench.count(is_it), 1);
    bench.run();
    assert_eq!((bench.count(is_it), bench.wanted()), (1, (Some(4), None)));
}
