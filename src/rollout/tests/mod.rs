//! The engine, question by question, on a bench: effects are performed on plain objects, pods do as the test says.

mod changes;
mod memo;
mod nonsense;
mod promotion;
mod rollback;
mod start;
mod steps;
mod synced;
mod unseen;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::names;
use crate::apply::FieldSet;
use crate::cluster::{Apply, Part};
use crate::ids::{CommitSha, SourceName};
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::verdict::{Effect, Fact, Verdict};
use crate::rollout::world::{GitView, ManifestStanding, Origin, Publish, World};
use crate::rollout::{Decision, Memo, Record, evaluate, evaluate_with};
use crate::workload::WorkloadSettings;

/// An agent, its surroundings and a clock.
pub(super) struct Bench {
    pub(super) world: World,
    pub(super) now: Timestamp,
    /// Everything that happened, in order.
    pub(super) facts: Vec<Fact>,
    /// What the engine remembers from pass to pass.
    memo: Memo,
    uids: u32,
}

impl Bench {
    /// An agent with 4 replicas on pack 1.0.0 that comes from git, with these fields of `spec.rollout`, its packs
    /// 1.0.0, 2.0.0 and 3.0.0 published, nothing deployed yet.
    pub(super) fn new(rollout: Value) -> Self {
        let agent = json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime",
            "metadata": {"name": "support", "namespace": "prod", "uid": "agent-uid", "generation": 1, "resourceVersion": "1"},
            "spec": {
                "facades": [{"type": "websocket", "port": 8080}],
                "promptPackRef": {"name": "pack", "version": "1.0.0"},
                "runtime": {"replicas": 4},
                "rollout": rollout,
            },
        });
        let agent = Object::from_value(agent).unwrap();
        let world = World {
            origin: Origin::Git(GitView {
                source: SourceName::new("main"),
                synced: Some(CommitSha::new("c1")),
                contains: BTreeSet::new(),
                manifest: Some(Arc::new(agent.clone())),
                standing: ManifestStanding::Fine,
                publish: Publish::Idle,
            }),
            agent: Arc::new(agent),
            packs: ["1.0.0", "2.0.0", "3.0.0"].into_iter().map(pack).collect(),
            providers: Some(Vec::new()),
            credentials: BTreeMap::new(),
            peers: Vec::new(),
            tool_registries: Some(Vec::new()),
            live: Vec::new(),
            deployments_are_current: true,
            refused: BTreeMap::new(),
            undeletable: BTreeMap::new(),
            story: Vec::new(),
            settings: Arc::new(WorkloadSettings::default()),
        };
        Self { world, now: "2026-01-01T00:00:00Z".parse().unwrap(), facts: Vec::new(), memo: Memo::default(), uids: 0 }
    }

    /// As [`Bench::new`], with stable deployed and healthy and the candidate pack 2.0.0 set.
    pub(super) fn with_candidate(mut rollout: Value) -> Self {
        rollout["candidate"] = json!({"promptPackRef": {"name": "pack", "version": "2.0.0"}});
        let mut bench = Self::new(json!({"steps": rollout["steps"]}));
        bench.settle();
        bench.all_ready();
        bench.settle();
        bench.push(|spec| spec["rollout"] = rollout);
        bench
    }

    /// Evaluates once and performs the effects.
    pub(super) fn pass(&mut self) -> Verdict {
        let verdict = evaluate_with(&mut self.memo, &self.world, self.now);
        assert_eq!(verdict, evaluate(&self.world, self.now), "with a memo and without");
        for effect in &verdict.effects {
            self.perform(effect);
        }
        verdict
    }

    /// Passes until there is nothing left to do; the last verdict. Pods do not change meanwhile.
    #[track_caller]
    pub(super) fn settle(&mut self) -> Verdict {
        for _ in 0..30 {
            let verdict = self.pass();
            if verdict.effects.is_empty() {
                return verdict;
            }
        }
        panic!("no fixpoint: {:#?}", evaluate(&self.world, self.now).effects);
    }

    /// Passes and lets all pods become ready until nothing changes any more.
    #[track_caller]
    pub(super) fn run(&mut self) -> Verdict {
        for _ in 0..30 {
            let verdict = self.settle();
            if !self.all_ready() {
                return verdict;
            }
        }
        panic!("no end");
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Apply(apply) | Effect::Defer(apply) if apply.object.key().kind == Kind::AGENT_RUNTIME => {
                self.apply_to_agent(apply);
            }
            Effect::Apply(apply) | Effect::Defer(apply) => self.apply(apply),
            Effect::Delete(key, uid) => {
                self.world.live.retain(|object| object.key() != *key || object.uid().as_ref() != Some(uid));
            }
            Effect::Patch(patch) => {
                let mut agent = self.world.agent.as_ref().clone();
                merge(agent.fields_mut(), patch.patch.as_object().unwrap());
                self.world.agent = Arc::new(agent);
            }
            Effect::Event(_) => {}
            Effect::Fact(fact) => self.facts.push(fact.clone()),
        }
    }

    fn apply_to_agent(&mut self, apply: &Apply) {
        let agent = Arc::make_mut(&mut self.world.agent);
        let (field, value) = match apply.part {
            Part::Status => ("status", apply.object.at("/status").unwrap().clone()),
            Part::Main => {
                let text = apply.object.annotation(names::RECORD_ANNOTATION).unwrap().to_owned();
                agent.set(&["metadata", "annotations", names::RECORD_ANNOTATION], text);
                ("managed", Value::Null)
            }
        };
        if field == "status" {
            agent.fields_mut().insert("status".into(), value);
        }
        let subresource = if apply.part == Part::Status { "status" } else { "" };
        let mut entries = agent.at("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
        entries.retain(|entry| entry["subresource"] != subresource);
        entries.push(managed(&apply.object, apply.part, subresource));
        agent.set(&["metadata", "managedFields"], entries);
    }

    fn apply(&mut self, apply: &Apply) {
        let key = apply.object.key();
        let mut object = apply.object.clone();
        let old = self.world.live.iter().position(|live| live.key() == key).map(|i| self.world.live.remove(i));
        self.uids += 1;
        let uid =
            old.as_ref().and_then(|old| old.uid()).map_or_else(|| format!("uid-{}", self.uids), |uid| uid.to_string());
        let generation =
            old.as_ref().map_or(1, |old| old.generation() + i64::from(old.at("/spec") != object.at("/spec")));
        object.set(&["metadata", "uid"], uid);
        object.set(&["metadata", "generation"], generation);
        let created = old.as_ref().and_then(|old| old.text("/metadata/creationTimestamp").map(str::to_owned));
        object.set(&["metadata", "creationTimestamp"], created.unwrap_or_else(|| self.now.to_string()));
        object.set(&["metadata", "managedFields"], vec![managed(&apply.object, Part::Main, "")]);
        if let Some(status) = old.as_ref().and_then(|old| old.at("/status")) {
            object.fields_mut().insert("status".into(), status.clone());
        }
        self.world.live.push(Arc::new(object));
    }

    /// A person pushes another spec, and it is synced.
    pub(super) fn push(&mut self, edit: impl FnOnce(&mut Value)) {
        let Origin::Git(git) = &mut self.world.origin else { panic!("not from git") };
        let mut manifest = git.manifest.as_deref().unwrap().clone();
        edit(manifest.fields_mut().get_mut("spec").unwrap());
        let number: u32 = git.synced.as_ref().unwrap().as_str()[1..].parse().unwrap();
        git.contains.insert(git.synced.clone().unwrap());
        git.synced = Some(CommitSha::new(format!("c{}", number + 1)));
        let spec = manifest.at("/spec").unwrap().clone();
        git.manifest = Some(Arc::new(manifest));
        self.edit_spec(|live| *live = spec);
    }

    /// The live spec changes.
    pub(super) fn edit_spec(&mut self, edit: impl FnOnce(&mut Value)) {
        let agent = Arc::make_mut(&mut self.world.agent);
        edit(agent.fields_mut().get_mut("spec").unwrap());
        let generation = agent.generation() + 1;
        agent.set(&["metadata", "generation"], generation);
    }

    /// Git takes a decision: the manifest becomes what it says.
    pub(super) fn land(&mut self, decision: &Decision) {
        let manifest = match &self.world.origin {
            Origin::Git(git) => git.manifest.as_deref().unwrap().clone(),
            Origin::ByHand => panic!("not from git"),
        };
        let mut value = manifest.into_value();
        let crate::writeback::plan::PlannedChanges::Changes(changes) =
            crate::writeback::plan::plan_changes(decision, &value)
        else {
            panic!("the decision does not apply: {decision:?}")
        };
        for change in changes {
            change.apply(&mut value);
        }
        let spec = value["spec"].clone();
        self.push(|old| *old = spec);
    }

    /// Somebody empties the status subresource.
    pub(super) fn wipe_status(&mut self) {
        Arc::make_mut(&mut self.world.agent).fields_mut().remove("status");
    }

    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        Arc::make_mut(&mut self.world.agent).set(&["metadata", "annotations", name], value);
    }

    pub(super) fn record(&self) -> Record {
        Record::read(&self.world.agent)
    }

    pub(super) fn status(&self, pointer: &str) -> Value {
        self.world.agent.at("/status").and_then(|status| status.pointer(pointer)).cloned().unwrap_or(Value::Null)
    }

    pub(super) fn message(&self) -> String {
        self.status("/rollout/message").as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn condition(&self, kind: &str) -> (String, String) {
        let conditions = self.status("/conditions");
        let found = conditions.as_array().unwrap().iter().find(|c| c["type"] == kind).expect(kind).clone();
        (found["status"].as_str().unwrap().to_owned(), found["reason"].as_str().unwrap().to_owned())
    }

    fn deployment(&self, name: &str) -> Option<&Arc<Object>> {
        self.world.live(&Kind::DEPLOYMENT, name)
    }

    /// Pods wanted of stable and of the candidate; `None`: there is no Deployment.
    pub(super) fn wanted(&self) -> (Option<i64>, Option<i64>) {
        let wanted = |name| self.deployment(name).map(|deployment| deployment.integer("/spec/replicas").unwrap());
        (wanted("support"), wanted("support-canary"))
    }

    /// Which pack's ConfigMap a Deployment mounts.
    pub(super) fn pack_of(&self, name: &str) -> String {
        let volumes = self.deployment(name).unwrap().at("/spec/template/spec/volumes").unwrap().clone();
        let volume = volumes.as_array().unwrap().iter().find(|v| v["name"] == "promptpack-config").unwrap().clone();
        volume["configMap"]["name"].as_str().unwrap().to_owned()
    }

    /// Sets what the Deployment controller says: this many pods, all of the newest template, this many available.
    pub(super) fn pods(&mut self, name: &str, pods: u32, available: u32) {
        let object =
            self.world.live.iter_mut().find(|object| object.name() == name && object.key().kind == Kind::DEPLOYMENT);
        let object = Arc::make_mut(object.unwrap());
        let generation = object.generation();
        let mut status = object.at("/status").cloned().unwrap_or_else(|| json!({}));
        for (field, value) in [
            ("observedGeneration", generation),
            ("replicas", pods.into()),
            ("updatedReplicas", pods.into()),
            ("readyReplicas", available.into()),
            ("availableReplicas", available.into()),
        ] {
            status[field] = value.into();
        }
        object.fields_mut().insert("status".into(), status);
    }

    /// All pods that are wanted are there and available. Says whether that changed anything.
    pub(super) fn all_ready(&mut self) -> bool {
        let before = self.world.live.clone();
        for name in ["support", "support-canary"] {
            if let Some(wanted) = self.deployment(name).and_then(|deployment| deployment.integer("/spec/replicas")) {
                let wanted = u32::try_from(wanted).unwrap();
                self.pods(name, wanted, wanted);
            }
        }
        self.world.live != before
    }

    /// What is in git becomes what lives, by hand: the agent is nobody's.
    pub(super) fn by_hand(mut self) -> Self {
        self.world.origin = Origin::ByHand;
        self
    }

    pub(super) fn publish(&mut self, publish: Publish) {
        let Origin::Git(git) = &mut self.world.origin else { panic!("not from git") };
        git.publish = publish;
    }

    pub(super) fn count(&self, is_it: impl Fn(&Fact) -> bool) -> usize {
        self.facts.iter().filter(|fact| is_it(fact)).count()
    }
}

fn managed(object: &Object, part: Part, subresource: &str) -> Value {
    json!({
        "manager": "serin-rollout", "operation": "Apply", "fieldsType": "FieldsV1", "subresource": subresource,
        "fieldsV1": FieldSet::of_object(object, part).to_value(),
    })
}

fn merge(target: &mut serde_json::Map<String, Value>, patch: &serde_json::Map<String, Value>) {
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
    object.set(
        &["spec"],
        json!({"packName": "pack", "version": version, "source": {"type": "configmap", "configMapRef": {"name": format!("content-{version}")}}}),
    );
    Arc::new(object)
}
