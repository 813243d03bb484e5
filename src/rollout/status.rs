//! `status` of the AgentRuntime: the fields, conditions and messages of the seeds and of reference section 2.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::api::FieldError;
use crate::ids::RolloutId;
use crate::object::{Kind, Object, ObjectKey};
use crate::rollout::course::{Course, Standing};
use crate::rollout::decision::RollbackReason;
use crate::rollout::endpoints;
use crate::rollout::observed::{Deployment, StepProgress};
use crate::rollout::reasons::Waiting;
use crate::rollout::record::Delivery;
use crate::rollout::references::{Checked, Missing};
use crate::rollout::scene::{Scene, step_text};
use crate::rollout::verdict::{Phase, Report};
use crate::rollout::world::{GitView, ManifestStanding, Origin, World};

/// The condition of an agent that is not what git says.
pub(crate) const SYNCED: &str = "Synced";
const MANIFEST_INVALID: &str = "ManifestInvalid";
const MANIFEST_REFUSED: &str = "ManifestRefused";

/// A condition before it has a transition time.
struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn condition(kind: &'static str, is_true: bool, reason: &'static str, message: impl Into<String>) -> Condition {
    Condition { kind, status: if is_true { "True" } else { "False" }, reason, message: message.into() }
}

/// What keeps the workload from being as the spec says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// About the stable Deployment.
    pub(crate) deployment: Option<(&'static str, String)>,
    /// About the candidate's objects.
    pub(crate) candidate: Option<String>,
    /// About the Service.
    pub(crate) service: Option<(&'static str, String)>,
    /// About the framework image.
    pub(crate) framework: Option<(&'static str, String)>,
    /// About the tool registry.
    pub(crate) registry: Option<(&'static str, String)>,
}

/// How the agent stands, for people and metrics.
pub(crate) fn report(scene: &Scene<'_>, course: &Course) -> Report {
    let flight = course.record.rollout.as_ref();
    let (phase, at) = match &course.standing {
        Standing::Idle(_) => (Phase::Idle, None),
        Standing::Stepping(at) => (Phase::Stepping, Some(at)),
        Standing::AwaitingPromotion(at, _) => (Phase::AwaitingPromotion, Some(at)),
        Standing::Promoting(_) => (Phase::Promoting, None),
        Standing::RollingBack(_) => (Phase::RollingBack, None),
    };
    let total = scene.steps().len();
    let step = match &course.standing {
        Standing::Promoting(_) => Some((total, total)),
        _ => at.map(|at| (at.progress.step, total)),
    };
    Report {
        phase,
        rollout: flight.map(|flight| flight.id.clone()),
        step,
        requested: match (&course.standing, at) {
            (Standing::Promoting(_), _) => crate::ids::Weight::FULL,
            (_, Some(at)) => at.weight,
            _ => crate::ids::Weight::ZERO,
        },
        delivered: scene.delivered(flight.map(|flight| &flight.candidate)),
        stable_version: active_version(scene),
        candidate_version: flight.map(|flight| flight.candidate_version.clone()).unwrap_or_default(),
        message: message(scene, course),
        waiting_for: waiting_for(scene, course),
    }
}

/// What keeps the decision about a rollout from git.
fn git_obstacle<'a>(scene: &'a Scene<'_>, rollout: &RolloutId) -> Option<&'a str> {
    match &scene.world.origin {
        Origin::Git(git) => git.publish.obstacle(rollout),
        Origin::ByHand => None,
    }
}

/// That the server does not take what git says.
fn refusal(scene: &Scene<'_>) -> Option<String> {
    let refused = synced(scene.world).filter(|condition| condition.reason == MANIFEST_REFUSED)?;
    Some(format!("the spec is not what git says: {}", refused.message))
}

/// What it waits for, in words; `None`: nothing but time.
fn waiting_for(scene: &Scene<'_>, course: &Course) -> Option<String> {
    let git = |what: &str, rollout: &RolloutId| {
        git_obstacle(scene, rollout).map(|why| format!("the {what} waits for git: {why}"))
    };
    match &course.standing {
        Standing::Stepping(at) => at.waiting.as_ref().map(ToString::to_string),
        Standing::AwaitingPromotion(_, Some(waiting)) => Some(waiting.to_string()),
        Standing::AwaitingPromotion(_, None) => {
            course.record.rollout.as_ref().and_then(|flight| git("promotion", &flight.id))
        }
        Standing::Promoting(Some(waiting)) => Some(waiting.to_string()),
        Standing::Promoting(None) => {
            Some("waiting for stable to roll to the new version behind the candidate".to_owned())
        }
        Standing::RollingBack(_) => Some("waiting for stable to replace the candidate's pods".to_owned()),
        Standing::Idle(hold) => {
            let pending = course.record.rejected.last().and_then(|entry| git("rollback", &entry.rollout));
            let notes: Vec<String> = hold.iter().map(ToString::to_string).chain(pending).collect();
            (!notes.is_empty()).then(|| notes.join("; "))
        }
    }
}

/// The one sentence: what is going on, and what it waits for (reference 2.5).
fn message(scene: &Scene<'_>, course: &Course) -> String {
    let waiting = waiting_for(scene, course);
    let standing = match &course.standing {
        Standing::Stepping(at) => {
            let what = scene.steps().get(at.progress.step).map(step_text).unwrap_or_default();
            let waiting = waiting.map(|waiting| format!(": {waiting}")).unwrap_or_default();
            format!("step {}: {what}{waiting}", at.progress.step)
        }
        Standing::AwaitingPromotion(..) => {
            format!("all steps completed, {}", waiting.as_deref().unwrap_or("promoting"))
        }
        Standing::Promoting(_) => format!("promoting: {}", waiting.unwrap_or_default()),
        Standing::RollingBack(reason) => format!("rolling back: {reason}"),
        Standing::Idle(_) => {
            let last = course.record.last.as_ref().map(|last| match last.rolled_back {
                None => "promoted".to_owned(),
                Some(reason @ RollbackReason::PodUnhealthy) => format!("auto-rollback: {reason}"),
                Some(reason) => format!("rolled back: {reason}"),
            });
            last.into_iter().chain(waiting).collect::<Vec<_>>().join("; ")
        }
    };
    let is_told = |sentence: &String| !sentence.is_empty();
    [Some(standing), refusal(scene)].into_iter().flatten().filter(is_told).collect::<Vec<_>>().join("; ")
}

/// The version that stable has been healthy with.
fn active_version(scene: &Scene<'_>) -> String {
    if scene.is_stable_complete() {
        scene.stable.version.clone().unwrap_or_default()
    } else {
        scene.active_version().to_owned()
    }
}

/// The status of a readable agent.
pub(crate) fn render(scene: &Scene<'_>, course: &Course, report: &Report, troubles: &Troubles) -> Object {
    let agent = &scene.world.agent;
    let both = || [&scene.stable_deployment, &scene.candidate_deployment].into_iter().flatten();
    let sum = |count: fn(&Deployment) -> u32| both().map(count).sum::<u32>();
    let ready = sum(|deployment| deployment.ready);
    let conditions = conditions(scene, course, report, troubles, ready);
    let is_failed = conditions.iter().any(|c| c.status == "False" && FAILED.contains(&c.reason));
    let phase = if is_failed {
        "Failed"
    } else if ready > 0 {
        "Running"
    } else {
        "Pending"
    };
    let mut status = Map::new();
    status.insert("phase".into(), phase.into());
    status.insert("observedGeneration".into(), agent.generation().into());
    let replicas = [
        ("desired", scene.total(course.record.rollout.as_ref()).into()),
        ("ready", ready.into()),
        ("available", sum(|deployment| deployment.available).into()),
    ];
    status.insert("replicas".into(), object(replicas));
    if !report.stable_version.is_empty() {
        status.insert("activeVersion".into(), report.stable_version.clone().into());
    }
    status.append(&mut endpoints::render(scene));
    if let Some(rollout) = rollout(scene, course, report) {
        status.insert("rollout".into(), rollout);
    }
    finish(agent, status, conditions, scene.now)
}

/// Whether the status must be written at once: if the engine's memory depends on it, or what a person or a program would act
/// upon. The rest is numbers and sentences, which may wait for the next that change.
pub(crate) fn is_urgent(scene: &Scene<'_>, course: &Course, wanted: &Object) -> bool {
    let (live, wanted) = (scene.live_status(), wanted.at("/status").unwrap_or(&Value::Null));
    let is_told = scene.written.with_status(wanted).says_the_same(&course.record);
    let written = if is_told { scene.written } else { &course.record };
    let memory = |status| {
        let record = written.with_status(status);
        let progress = record.rollout.as_ref().map(|flight| StepProgress::read(status, flight.started_at));
        (record, progress)
    };
    facts(live).ne(facts(wanted))
        || announced(live) != announced(wanted)
        || verdicts(live).ne(verdicts(wanted))
        || memory(live) != memory(wanted)
}

/// Endpoints, the phase, the version that is active: whoever reads these acts upon them.
fn facts(status: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let is_told = |name: &str| !["replicas", "observedGeneration", "rollout", "conditions"].contains(&name);
    status.as_object().into_iter().flatten().filter(move |(name, _)| is_told(name))
}

/// Somebody has pushed and looks whether anything happens.
fn announced(status: &Value) -> (&Value, &Value) {
    let rollout = &status["rollout"];
    (&rollout["active"], &rollout["startedAt"])
}

/// The conditions. That a rollout is active is said by the rest of the status, too.
fn verdicts(status: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others = conditions.iter().filter(|condition| condition["type"] != "RolloutActive");
    others.map(|condition| (&condition["type"], &condition["status"]))
}

/// Reasons that make the phase Failed (reference 2.3).
const FAILED: [&str; 8] = [
    "PromptPackNotFound",
    "PromptPackInvalid",
    "ProviderNotFound",
    "RoleMismatch",
    "DeploymentFailed",
    "ServiceFailed",
    "NameTaken",
    "FrameworkImageUnavailable",
];

/// `status.rollout` (reference 2.1). It stays after a rollout has ended, so that promoted, rolled back and never
/// started can be told apart.
fn rollout(scene: &Scene<'_>, course: &Course, report: &Report) -> Option<Value> {
    let mut rollout = Map::new();
    let mut put = |field: &str, value: Value| rollout.insert(field.to_owned(), value);
    let Some(flight) = &course.record.rollout else {
        if report.message.is_empty() {
            return None;
        }
        put("active", false.into());
        put("currentWeight", 0.into());
        put("message", report.message.clone().into());
        put("stableVersion", report.stable_version.clone().into());
        // Which rollout is over: its record may still say that it is in flight.
        let written = scene.written.rollout.as_ref();
        let started_at = written.map(|flight| Value::from(flight.started_at.to_string()));
        if let Some(started_at) = started_at.or_else(|| scene.live_status()["rollout"].get("startedAt").cloned()) {
            put("startedAt", started_at);
        }
        return Some(Value::Object(rollout));
    };
    put("active", true.into());
    put("message", report.message.clone().into());
    put("stableVersion", report.stable_version.clone().into());
    put("candidateVersion", flight.candidate_version.clone().into());
    put("startedAt", flight.started_at.to_string().into());
    put("currentWeight", report.requested.percent().into());
    put("trafficWeightEnforced", false.into());
    if flight.delivery == Delivery::ReplicaWeighted {
        put("trafficRoutingMode", "replicaWeighted".into());
    }
    match &course.standing {
        Standing::Stepping(at) | Standing::AwaitingPromotion(at, _) => {
            put("currentStep", at.progress.step.into());
            put("stepStartedAt", at.progress.entered_at.to_string().into());
        }
        Standing::Promoting(_) => {
            put("promoting", true.into());
            put("currentStep", scene.steps().len().into());
        }
        Standing::RollingBack(_) | Standing::Idle(_) => {}
    }
    Some(Value::Object(rollout))
}

fn conditions(scene: &Scene<'_>, course: &Course, report: &Report, troubles: &Troubles, ready: u32) -> Vec<Condition> {
    let mut conditions = vec![rollout_active(course, report)];
    conditions.extend(synced(scene.world));
    conditions.push(match &scene.stable_references.pack {
        Ok(pack) => {
            condition("PromptPackReady", true, "PromptPackFound", format!("PromptPack {} is there", pack.name()))
        }
        Err(Missing { reason, message }) => condition("PromptPackReady", false, reason, message),
    });
    // What was not checked is neither true nor false.
    let unchecked = |kind, what: &str| Condition {
        kind,
        status: "Unknown",
        reason: "NotChecked",
        message: format!("the cluster serves no {what}: the references are passed through unchecked"),
    };
    let candidate = scene.candidate_references;
    let is_unserved = matches!(scene.stable_references.providers, Checked::NotServed)
        || candidate.is_some_and(|references| matches!(references.providers, Checked::NotServed));
    conditions.push(match &scene.stable_references.providers {
        _ if is_unserved => unchecked("ProviderReady", "Providers"),
        Checked::Missing(Missing { reason, message }) => condition("ProviderReady", false, reason, message),
        Checked::Found(_) | Checked::NotServed => {
            condition("ProviderReady", true, "ProviderFound", "all providers are there")
        }
    });
    let is_unserved = matches!(scene.stable_references.registry, Checked::NotServed)
        || candidate.is_some_and(|references| matches!(references.registry, Checked::NotServed));
    match &scene.stable_references.registry {
        _ if troubles.registry.is_some() => {
            if let Some((reason, why)) = &troubles.registry {
                conditions.push(condition("ToolRegistryReady", false, reason, why));
            }
        }
        _ if is_unserved => conditions.push(unchecked("ToolRegistryReady", "ToolRegistries")),
        Checked::Missing(Missing { reason, message }) => {
            conditions.push(condition("ToolRegistryReady", false, reason, message));
        }
        Checked::Found(Some(registry)) => conditions.push(condition(
            "ToolRegistryReady",
            true,
            "ToolRegistryFound",
            format!("ToolRegistry {} is there", registry.name()),
        )),
        Checked::Found(None) | Checked::NotServed => {}
    }
    conditions.push(match &troubles.framework {
        Some((reason, why)) => condition("FrameworkReady", false, reason, why),
        None => condition("FrameworkReady", true, "FrameworkImageResolved", "the runtime image is known"),
    });
    conditions.push(match &troubles.deployment {
        Some((reason, why)) => condition("DeploymentReady", false, reason, why),
        None => condition("DeploymentReady", true, "DeploymentCreated", "the stable Deployment is as the spec says"),
    });
    conditions.push(match &troubles.service {
        Some((reason, why)) => condition("ServiceReady", false, reason, why),
        None => condition("ServiceReady", true, "ServiceCreated", "the Service is as the spec says"),
    });
    // Either track serves: at full weight stable has no pods, and the agent is ready all the same (W29).
    conditions.push(if ready > 0 {
        condition("Ready", true, "RuntimeReady", "at least one pod is ready")
    } else {
        condition("Ready", false, "RuntimeNotReady", "no pod is ready")
    });
    conditions
}

fn rollout_active(course: &Course, report: &Report) -> Condition {
    let message = report.message.clone();
    match &course.standing {
        Standing::Idle(_) if message.is_empty() => {
            condition("RolloutActive", false, "NoActiveRollout", "no active rollout")
        }
        Standing::Idle(_) => condition("RolloutActive", false, "NoActiveRollout", message),
        Standing::Promoting(_) => condition("RolloutActive", true, "Promoting", message),
        Standing::RollingBack(_) => condition("RolloutActive", true, "RollingBack", message),
        Standing::Stepping(at) if matches!(at.waiting, Some(Waiting::CandidatePodsOverdue { .. })) => {
            condition("RolloutActive", true, "ProgressDeadlineExceeded", message)
        }
        Standing::Stepping(_) | Standing::AwaitingPromotion(..) => {
            condition("RolloutActive", true, "RolloutInProgress", message)
        }
    }
}

/// Why the agent is not what git says, if that is for a person to mend. Gone when it is mended: a commit in it would cost a
/// write per agent and push. As long as git was not read, it stays as it is.
fn synced(world: &World) -> Option<Condition> {
    let Origin::Git(GitView { standing, .. }) = &world.origin else { return None };
    match standing {
        ManifestStanding::Fine => None,
        ManifestStanding::Invalid(why) => Some(condition(SYNCED, false, MANIFEST_INVALID, why)),
        ManifestStanding::Refused(why) => Some(condition(SYNCED, false, MANIFEST_REFUSED, why)),
        ManifestStanding::Unread => {
            let live = world.agent.at("/status/conditions").and_then(Value::as_array)?;
            let before = live.iter().find(|condition| condition["type"] == SYNCED)?;
            let reason = if before["reason"] == MANIFEST_REFUSED { MANIFEST_REFUSED } else { MANIFEST_INVALID };
            Some(condition(SYNCED, false, reason, before["message"].as_str().unwrap_or_default()))
        }
    }
}

/// The status of an agent whose spec cannot be used: what ran goes on, and the fields are named.
pub(crate) fn render_invalid(world: &World, errors: &[FieldError], now: Timestamp) -> (Object, String) {
    let agent = &world.agent;
    let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let mut status = Map::new();
    for field in ["phase", "replicas", "activeVersion", "rollout"].into_iter().chain(endpoints::FIELDS) {
        if let Some(value) = agent.at("/status").and_then(|status| status.get(field)) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    status.insert("observedGeneration".into(), agent.generation().into());
    let message = format!("the spec cannot be used, so nothing moves: {message}");
    let mut conditions = vec![condition("RolloutActive", false, "InvalidSpec", message.clone())];
    conditions.extend(synced(world));
    (finish(agent, status, conditions, now), message)
}

/// The object to apply: conditions keep the time of their last transition as long as their status stays.
fn finish(agent: &Object, mut status: Map<String, Value>, conditions: Vec<Condition>, now: Timestamp) -> Object {
    let live = agent.at("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let now = || Value::from(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let conditions: Vec<Value> = conditions
        .into_iter()
        .enumerate()
        .map(|(i, condition)| {
            // Almost always it is in the same place.
            let mut before = live.get(i).into_iter().chain(live);
            let before = before.find(|c| c["type"] == condition.kind && c["status"] == condition.status);
            object([
                ("type", condition.kind.into()),
                ("status", condition.status.into()),
                ("reason", condition.reason.into()),
                ("message", condition.message.into()),
                ("observedGeneration", agent.generation().into()),
                ("lastTransitionTime", before.map_or_else(now, |before| before["lastTransitionTime"].clone())),
            ])
        })
        .collect();
    status.insert("conditions".into(), conditions.into());
    let mut object = Object::bare(&ObjectKey::new(Kind::AGENT_RUNTIME, agent.namespace(), agent.name()));
    object.fields_mut().insert("status".into(), Value::Object(status));
    object
}

/// Moved and not by `json!`, which copies what is put into it.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}
