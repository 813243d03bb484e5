//! What Serin would do about an agent after a sync, in one line: the engine itself is asked, on the world as it would be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::names::{RECORD_ANNOTATION, VARIANT_ANNOTATION, candidate_deployment};
use crate::cluster::Part;
use crate::ids::{AgentKey, CommitSha, SourceName};
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::source::Loaded;
use crate::rollout::{
    Effect, Fact, GitView, ManifestStanding, Origin, Phase, Publish, Record, Verdict, World, evaluate,
};
use crate::workload::WorkloadSettings;

/// The objects of the cluster as they would be after a sync, and what git says.
pub(super) struct Around<'a> {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    served: &'a BTreeSet<Kind>,
    loaded: &'a Loaded,
    source: &'a SourceName,
    settings: Arc<WorkloadSettings>,
}

impl<'a> Around<'a> {
    /// `live` are the objects that were read, Deployments among them; `served` the kinds that the cluster knows.
    pub(super) fn new(
        live: &[Arc<Object>],
        served: &'a BTreeSet<Kind>,
        loaded: &'a Loaded,
        source: &'a SourceName,
        settings: Arc<WorkloadSettings>,
    ) -> Self {
        let mut objects: BTreeMap<ObjectKey, Arc<Object>> =
            live.iter().map(|object| (object.key(), Arc::clone(object))).collect();
        let wanted = loaded.desired.objects.iter().filter(|(key, _)| served.contains(&key.kind));
        for (key, located) in wanted {
            objects.entry(key.clone()).or_insert_with(|| located.object());
        }
        Self { objects, served, loaded, source, settings }
    }

    /// What happens to the agent `foreseen`. `contains` are the commits of its record that are behind what is loaded.
    pub(super) fn outlook(&self, foreseen: &Arc<Object>, contains: BTreeSet<CommitSha>, now: Timestamp) -> String {
        let world = self.world(foreseen, contains);
        sentence(&world, &evaluate(&world, now))
    }

    fn world(&self, agent: &Arc<Object>, contains: BTreeSet<CommitSha>) -> World {
        let (namespace, name) = (agent.namespace(), agent.name());
        let of_kind = |kind: &Kind| -> Vec<Arc<Object>> {
            let found = self.objects.iter().filter(|(key, _)| key.kind == *kind);
            found.map(|(_, object)| Arc::clone(object)).collect()
        };
        let referable = |kind: &Kind| self.served.contains(kind).then(|| of_kind(kind));
        let candidate = candidate_deployment(name);
        let own = [
            ObjectKey::new(Kind::DEPLOYMENT, namespace, name),
            ObjectKey::new(Kind::DEPLOYMENT, namespace, &candidate),
            ObjectKey::agent(&AgentKey::new(namespace, &candidate)),
        ];
        let mut packs = of_kind(&Kind::PROMPT_PACK);
        packs.retain(|pack| pack.namespace() == namespace);
        World {
            origin: Origin::Git(GitView {
                source: self.source.clone(),
                synced: Some(self.loaded.commit.clone()),
                contains,
                manifest: self.loaded.manifest(&AgentKey::new(namespace, name)),
                standing: ManifestStanding::Fine,
                publish: Publish::Idle,
            }),
            packs,
            providers: referable(&Kind::PROVIDER),
            // Which credentials there are changes pods, and no decision.
            credentials: BTreeMap::new(),
            peers: of_kind(&Kind::AGENT_RUNTIME),
            tool_registries: referable(&Kind::TOOL_REGISTRY),
            live: own.iter().filter_map(|key| self.objects.get(key).cloned()).collect(),
            deployments_are_current: true,
            refused: BTreeMap::new(),
            undeletable: BTreeMap::new(),
            story: Vec::new(),
            settings: Arc::clone(&self.settings),
            agent: Arc::clone(agent),
        }
    }
}

fn sentence(world: &World, verdict: &Verdict) -> String {
    let steps = world.agent.at("/spec/rollout/steps").and_then(|steps| steps.as_array()).map_or(0, Vec::len);
    let told = verdict.effects.iter().filter_map(|effect| match effect {
        Effect::Fact(Fact::Started { title, .. }) => {
            let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
            Some(format!("starts a rollout of {title} in {steps}"))
        }
        Effect::Fact(Fact::RolledBack { title, reason, .. }) => Some(format!("rolls back {title}: {reason}")),
        Effect::Fact(Fact::PromotionStarted { .. }) => {
            Some("promotes: stable rolls to the new version behind the candidate's pods".to_owned())
        }
        _ => None,
    });
    let mut told: Vec<String> = told.collect();
    let report = &verdict.report;
    if told.is_empty() && report.phase == Phase::Invalid {
        told.push(report.message.clone());
    }
    if told.is_empty() && report.rollout.is_some() {
        told.push("goes on with the rollout in flight".to_owned());
    }
    if told.is_empty() {
        match (variant_of_stable(world, verdict), live_variant(world)) {
            (Some(_), None) => told.push("starts the pods of stable".to_owned()),
            (Some(wanted), Some(live)) if wanted != live => {
                told.push("changes the pods of stable directly, without a rollout".to_owned());
            }
            _ => {}
        }
        told.extend(report.waiting_for.clone());
    }
    if told.is_empty() {
        told.extend(obstacle(verdict));
    }
    if told.is_empty() { "starts nothing".to_owned() } else { told.join("; ") }
}

/// What keeps the agent from running, by the status that it would get.
fn obstacle(verdict: &Verdict) -> Option<String> {
    let status = verdict.effects.iter().find_map(|effect| match effect {
        Effect::Apply(apply) if apply.part == Part::Status => apply.object.at("/status/conditions"),
        _ => None,
    });
    // That no pod is ready yet is no obstacle.
    let is_obstacle = |condition: &&Value| {
        condition["status"] == "False" && !["Ready", "RolloutActive"].iter().any(|kind| condition["type"] == *kind)
    };
    let found = status?.as_array()?.iter().find(is_obstacle)?;
    Some(format!("starts nothing: {}", found["message"].as_str().unwrap_or_default()))
}

/// The content that stable would run.
fn variant_of_stable(world: &World, verdict: &Verdict) -> Option<String> {
    let is_stable = |object: &Object| {
        let key = object.key();
        key.kind == Kind::DEPLOYMENT && key.name == world.agent.name()
    };
    verdict.effects.iter().find_map(|effect| match effect {
        Effect::Apply(apply) if is_stable(&apply.object) => {
            Some(apply.object.annotation(VARIANT_ANNOTATION).unwrap_or_default().to_owned())
        }
        _ => None,
    })
}

/// The content that stable runs.
fn live_variant(world: &World) -> Option<String> {
    let stable = world.live(&Kind::DEPLOYMENT, world.agent.name())?;
    Some(stable.annotation(VARIANT_ANNOTATION).unwrap_or_default().to_owned())
}

/// The commits that the record of an agent asks about.
pub(super) fn commits_in_question(agent: &Object) -> Vec<CommitSha> {
    let record = Record::parse(agent.annotation(RECORD_ANNOTATION));
    record.rejected.iter().filter_map(|entry| entry.cleared_by.clone()).collect()
}
