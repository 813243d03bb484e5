//! The engine alone: whole rollouts in memory, as fast as they go.
//!
//! One rollout is four steps (25, a pause, 50, 100), replica-weighted on four pods, of an agent that somebody applied by
//! hand, from the candidate in the spec to promoted and gone. All of it is [`serin::rollout::evaluate`] and the plainest model
//! of a cluster: an apply replaces an object, pods are there when the engine has nothing left to do, and time passes when
//! nothing else can. The floor is the writes themselves: every object that the engine has applied, serialized once and parsed
//! once, which is what sending it and taking the answer costs any program that speaks JSON. All times are CPU time of the thread.
//!
//! What each row covers:
//!
//! * *decided*: [`serin::rollout::decide`] on worlds that are read already: where the rollout stands and goes, how many pods each
//!   track gets, which decision is due and what it says. Nothing is read from JSON but what these ask for, and no object is made.
//! * *read*: [`serin::rollout::Scene::read`], which looks whether the spec, what it names and the record are the same as in the
//!   world before, and reads the Deployments.
//! * *evaluate_with*: all of it, with what is written: objects rendered, compared with those that live, and copied where they
//!   are to be applied. The memo is empty when the rollout begins, as it is in the daemon.
//! * *at rest*: an agent after its rollout, with nothing to do; the daemon has no memo of it.
//!
//! What the profile said at first: a third of the time rendered objects, a fifth read single fields of JSON, a tenth made keys of
//! objects. `Value::pointer` copies each name of a path twice, `Object::key` copied its texts for each live object that was looked
//! at, and `json!` copies whatever is put into it: without these, and without the owners of fields that do not differ, an
//! evaluation cost about three quarters of what it did (together; they were not measured one by one).
//!
//! Then: a pass rendered anew what cannot have changed since the last one. So the engine has a memo
//! ([`serin::rollout::Memo`]), and passes that change nothing but a status or a number of pods render and compare nothing but
//! that. In one run at a load of 18 (floor 0.56 ms): 3.4 ms for a rollout with a memo and 6.1 ms without, an agent at rest 13 us
//! and 147 us, and to decide 40 us of it.
//!
//! What did not help, in the same comparison: `evaluate` without a memo is 11 times the floor as it was before, although
//! conditions are built without `json!`, records are not copied to be compared, urgency is asked only of a status that is
//! written, and what lives is looked up by names that are read once. What these save is what it costs to make the essence
//! of the agent, and what is worth keeping, for one pass alone.
//!
//! Of what is left with a memo a quarter renders: both tracks when the rollout begins, and both again when the promotion changes
//! the spec. A fifth compares, of that most once after each write, whose answer is another object; a fifth reads, most of it
//! the two or three times that the spec has changed; a twelfth makes the status anew in each pass; and as much copies the objects
//! that are applied. Not tried: applies that share the rendered object instead of copying it, a comparison that ends at the first
//! difference, a status that is compared before it is made.
//!
//! `cargo bench --bench engine -- --rollouts=2000`

#[expect(dead_code, reason = "each program uses a part of it")]
mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use common::{Goal, Table, cpu, option};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use serin::apply::FieldSet;
use serin::cluster::{Apply, FieldManager, Part};
use serin::object::{Kind, Object, ObjectKey};
use serin::rollout::{Effect, Fact, Memo, Origin, Reading, Scene, World, decide, evaluate, evaluate_with};
use serin::workload::WorkloadSettings;

/// What one rollout may take in passes before it is taken to hang.
const MOST_PASSES: usize = 200;

fn main() {
    let rollouts = option("rollouts", 2_000);
    let settled = Model::settled();
    // Once without being measured, which also tells that it works.
    let mut once = settled.clone();
    let applied = once.roll_out();
    let passes = once.passes;

    let whole = measured(rollouts, || drop(settled.clone().roll_out()));

    let texts: Vec<String> = applied.iter().map(|object| Value::Object(object.fields().clone()).to_string()).collect();
    let floor = measured(rollouts, || {
        for (object, text) in applied.iter().zip(&texts) {
            black_box(serde_json::to_vec(object.fields()).expect("JSON"));
            black_box(serde_json::from_str::<Map<String, Value>>(text).expect("JSON"));
        }
    });

    // From here on without the model's own work, which no cluster asks of the engine: the same passes, of every world on the way.
    let worlds = settled.clone().worlds();
    let mut readings: Vec<Reading> = worlds.iter().map(|_| Reading::default()).collect();
    let scenes: Vec<Scene<'_>> = readings
        .iter_mut()
        .zip(&worlds)
        .map(|(reading, (world, now))| Scene::read(reading, world, *now).expect("a spec that can be used"))
        .collect();
    let deciding = measured(rollouts, || scenes.iter().for_each(|scene| drop(black_box(decide(scene)))));
    let reading = measured(rollouts, || {
        let mut reading = Reading::default();
        for (world, now) in &worlds {
            black_box(Scene::read(&mut reading, world, *now)).expect("a spec that can be used");
        }
    });
    let remembering = measured(rollouts, || {
        let mut memo = Memo::default();
        for (world, now) in &worlds {
            black_box(evaluate_with(&mut memo, world, *now));
        }
    });
    let forgetting = measured(rollouts, || {
        for (world, now) in &worlds {
            black_box(evaluate(world, *now));
        }
    });

    let (rest, now) = worlds.last().expect("a rollout has passes");
    assert!(evaluate(rest, *now).effects.is_empty(), "it ends at rest");
    let mut memo = Memo::default();
    let resting = measured(rollouts, || drop(black_box(evaluate(rest, *now))));
    let resting_with = measured(rollouts, || drop(black_box(evaluate_with(&mut memo, rest, *now))));

    let mut table = Table::default();
    let per_second = |time: Duration| 1.0 / time.as_secs_f64();
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    table.row("rollouts decided per second and core", per_second(deciding), None, "", Goal::AtLeast(10_000.0));
    table.row("one rollout: to decide", microseconds(deciding), None, "us", Goal::Told);
    table.row("one rollout: to read and decide", microseconds(reading + deciding), None, "us", Goal::Told);
    let floor = Some(microseconds(floor));
    table.row("one rollout: all of evaluate_with", microseconds(remembering), floor, "us", Goal::Told);
    table.row("one rollout: evaluate, without a memo", microseconds(forgetting), floor, "us", Goal::Told);
    table.row("one rollout: with the model of a cluster", microseconds(whole), floor, "us", Goal::Told);
    table.row("agents at rest evaluated per second and core", per_second(resting), None, "", Goal::Told);
    table.row("the same, with a memo", per_second(resting_with), None, "", Goal::Told);
    table.row("evaluations of one rollout", passes as f64, None, "", Goal::Told);
    table.row("objects applied by one rollout", applied.len() as f64, None, "", Goal::Told);
    table.print("each object that was applied, serialized once and parsed once");
}

/// The CPU time of one of so many turns.
fn measured(turns: u64, mut turn: impl FnMut()) -> Duration {
    let started = cpu();
    for _ in 0..turns {
        turn();
    }
    (cpu() - started).div_f64(turns as f64)
}

/// One agent and the plainest cluster.
#[derive(Clone)]
struct Model {
    world: World,
    now: Timestamp,
    uids: u32,
    passes: usize,
    seen: Vec<(World, Timestamp)>,
    keeps: bool,
}

impl Model {
    /// An agent that runs with all its pods, whose candidate has just been set.
    fn settled() -> Self {
        let agent = json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
            "metadata": {"name": "support", "namespace": "prod", "uid": "agent-uid", "generation": 1, "resourceVersion": "1"},
            "spec": {
                "facades": [{"type": "websocket", "port": 8080}],
                "promptPackRef": {"name": "pack", "version": "1.0.0"},
                "runtime": {"replicas": 4},
            },
        });
        let world = World {
            agent: Arc::new(Object::from_value(agent).expect("an object")),
            origin: Origin::ByHand,
            packs: ["1.0.0", "2.0.0"].into_iter().map(pack).collect(),
            providers: Some(Vec::new()),
            credentials: std::collections::BTreeMap::new(),
            peers: Vec::new(),
            tool_registries: Some(Vec::new()),
            live: Vec::new(),
            deployments_are_current: true,
            refused: std::collections::BTreeMap::new(),
            undeletable: std::collections::BTreeMap::new(),
            story: Vec::new(),
            settings: Arc::new(WorkloadSettings::default()),
        };
        let mut model = Self {
            world,
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            uids: 0,
            passes: 0,
            seen: Vec::new(),
            keeps: false,
        };
        model.run(|_| false);
        let rollout = json!({
            "steps": [{"setWeight": 25}, {"pause": {"duration": "5m"}}, {"setWeight": 50}, {"setWeight": 100}],
            "trafficRouting": {"mode": "replicaWeighted"},
            "candidate": {"promptPackRef": {"name": "pack", "version": "2.0.0"}},
        });
        let agent = Arc::make_mut(&mut model.world.agent);
        agent.set(&["spec", "rollout"], rollout);
        agent.set(&["metadata", "generation"], 2);
        model.passes = 0;
        model
    }

    /// Goes on until the candidate is promoted. Gives back all that was applied.
    fn roll_out(&mut self) -> Vec<Object> {
        let applied = self.run(|fact| matches!(fact, Fact::Promoted { .. }));
        assert!(self.world.live(&Kind::DEPLOYMENT, "support-canary").is_none(), "the candidate is gone");
        assert_eq!(self.world.agent.text("/spec/promptPackRef/version"), Some("2.0.0"), "the candidate is promoted");
        applied
    }

    /// Each world that a rollout evaluates, with its time.
    fn worlds(mut self) -> Vec<(World, Timestamp)> {
        self.keeps = true;
        let _applied = self.roll_out();
        self.seen
    }

    /// Passes, pods and time, until nothing more happens and a fact was told for which `is_end` holds, if any is.
    fn run(&mut self, is_end: impl Fn(&Fact) -> bool) -> Vec<Object> {
        let mut applied = Vec::new();
        let mut memo = Memo::default();
        let mut has_ended = false;
        for _ in 0..MOST_PASSES {
            if self.keeps {
                self.seen.push((self.world.clone(), self.now));
            }
            let verdict = evaluate_with(&mut memo, &self.world, self.now);
            self.passes += 1;
            let is_at_rest = verdict.effects.is_empty();
            for effect in verdict.effects {
                has_ended |= matches!(&effect, Effect::Fact(fact) if is_end(fact));
                self.perform(effect, &mut applied);
            }
            if is_at_rest && !self.pods_come() {
                if has_ended {
                    return applied;
                }
                match verdict.wake_at.filter(|at| *at > self.now) {
                    Some(at) => self.now = at,
                    None => return applied,
                }
            }
            self.now += SignedDuration::from_millis(100);
        }
        panic!("no end after {MOST_PASSES} passes");
    }

    fn perform(&mut self, effect: Effect, applied: &mut Vec<Object>) {
        match effect {
            Effect::Apply(apply) | Effect::Defer(apply) => {
                applied.push(apply.object.clone());
                if apply.object.key().kind == Kind::AGENT_RUNTIME {
                    self.apply_to_agent(*apply);
                } else {
                    self.apply(*apply);
                }
            }
            Effect::Delete(key, _) => self.world.live.retain(|object| object.key() != key),
            Effect::Patch(patch) => {
                let agent = Arc::make_mut(&mut self.world.agent);
                merge(agent.fields_mut(), patch.patch.as_object().expect("a map"));
                let generation = agent.generation() + 1;
                agent.set(&["metadata", "generation"], generation);
            }
            Effect::Event(_) | Effect::Fact(_) => {}
        }
    }

    fn apply_to_agent(&mut self, apply: Apply) {
        let agent = Arc::make_mut(&mut self.world.agent);
        let subresource = if apply.part == Part::Status { "status" } else { "" };
        let entry = managed(&apply.object, apply.part, subresource);
        let mut entries = agent.at("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
        entries.retain(|entry| entry["subresource"] != subresource);
        entries.push(entry);
        match apply.part {
            Part::Status => {
                let status = apply.object.at("/status").cloned().unwrap_or_default();
                agent.fields_mut().insert("status".to_owned(), status);
            }
            Part::Main => {
                let annotations = apply.object.at("/metadata/annotations").cloned().unwrap_or_default();
                agent.set(&["metadata", "annotations"], annotations);
            }
        }
        agent.set(&["metadata", "managedFields"], entries);
    }

    fn apply(&mut self, apply: Apply) {
        let key = apply.object.key();
        let entries = vec![managed(&apply.object, Part::Main, "")];
        let mut object = apply.object;
        let place = self.world.live.iter().position(|live| live.key() == key);
        let old = place.map(|place| self.world.live.swap_remove(place));
        self.uids += 1;
        let uid = old.as_ref().and_then(|old| old.uid()).map_or(format!("uid-{}", self.uids), |uid| uid.to_string());
        let generation =
            old.as_ref().map_or(1, |old| old.generation() + i64::from(old.at("/spec") != object.at("/spec")));
        let created = old.as_ref().and_then(|old| old.text("/metadata/creationTimestamp").map(str::to_owned));
        object.set(&["metadata", "uid"], uid);
        object.set(&["metadata", "generation"], generation);
        object.set(&["metadata", "creationTimestamp"], created.unwrap_or_else(|| self.now.to_string()));
        object.set(&["metadata", "managedFields"], entries);
        if let Some(status) = old.as_ref().and_then(|old| old.at("/status")) {
            object.fields_mut().insert("status".to_owned(), status.clone());
        }
        self.world.live.push(Arc::new(object));
    }

    /// All pods that are wanted are there. Says whether that changed anything.
    fn pods_come(&mut self) -> bool {
        let mut has_changed = false;
        for object in self.world.live.iter_mut().filter(|object| object.key().kind == Kind::DEPLOYMENT) {
            let (wanted, generation) = (object.integer("/spec/replicas").unwrap_or(1), object.generation());
            let status = json!({
                "observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted, "readyReplicas": wanted,
                "availableReplicas": wanted,
            });
            if object.at("/status") != Some(&status) {
                has_changed = true;
                Arc::make_mut(object).fields_mut().insert("status".to_owned(), status);
            }
        }
        has_changed
    }
}

fn managed(object: &Object, part: Part, subresource: &str) -> Value {
    json!({
        "manager": FieldManager::Rollout.as_str(), "operation": "Apply", "fieldsType": "FieldsV1", "subresource": subresource,
        "fieldsV1": FieldSet::of_object(object, part).to_value(),
    })
}

fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(below)), Value::Object(patch)) => merge(below, patch),
            _ => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

fn pack(version: &str) -> Arc<Object> {
    let mut object = Object::bare(&ObjectKey::new(Kind::PROMPT_PACK, "prod", format!("pack-{version}")));
    object.set(&["metadata", "generation"], 1);
    let source = json!({"type": "configmap", "configMapRef": {"name": format!("content-{version}")}});
    object.set(&["spec"], json!({"packName": "pack", "version": version, "source": source}));
    Arc::new(object)
}
