//! The Deployment controller, with its ReplicaSets, its pods and their kubelets in one model.
//!
//! Invariant: nothing advances by itself. [`advance`] carries everything to one moment, event by event in
//! the order of their times, so that a clock that jumps ten minutes shows what ten minutes would have done.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::apply::{books_of_update, seconds};
use super::faults::Verb;
use super::store::{State, Writer};
use super::{PodBehaviour, PodView};
use crate::api::names::{TRACK_LABEL, VARIANT_ANNOTATION};
use crate::cluster::Part;
use crate::object::{Object, ObjectKey};

/// Annotation that the Deployment controller writes together with the status.
pub(super) const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";

const MANAGER: &str = "kube-controller-manager";

/// How many ReplicaSets without pods are remembered, the default of `revisionHistoryLimit`.
const HISTORY: usize = 10;

/// What the controller knows of one Deployment.
pub(super) struct Workload {
    uid: String,
    sets: Vec<ReplicaSet>,
    revision: u64,
    pods_made: u64,
    counts: Counts,
    progressing: Condition,
    progress_since: Timestamp,
    available: Option<Condition>,
    wake_at: Option<Timestamp>,
}

struct ReplicaSet {
    revision: u64,
    template: Value,
    track: Option<String>,
    variant: Option<String>,
    pods: Vec<Pod>,
}

#[derive(Clone)]
struct Pod {
    number: u64,
    created: Timestamp,
    ready_at: Option<Timestamp>,
    has_failed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
}

#[derive(Clone, PartialEq, Eq)]
struct Condition {
    is_true: bool,
    reason: &'static str,
    message: String,
    updated: Timestamp,
    since: Timestamp,
}

/// What the controller reads of a Deployment's spec.
struct Wanted {
    replicas: usize,
    surge: usize,
    unavailable: usize,
    is_recreate: bool,
    is_paused: bool,
    min_ready: SignedDuration,
    deadline: Option<SignedDuration>,
}

/// Brings all controllers to `now` and tells when the next of them has something to do.
pub(super) fn advance(state: &mut State, now: Timestamp) -> Option<Timestamp> {
    state.collect_garbage(now);
    for (key, changed_at) in std::mem::take(&mut state.dirty) {
        // A change from after `now` comes from a clock that was set back since.
        sync(state, &key, changed_at.min(now));
    }
    loop {
        let (time, key) = state.workloads.iter().filter_map(|(key, workload)| Some((workload.wake_at?, key))).min()?;
        if time > now {
            return Some(time);
        }
        let key = key.clone();
        sync(state, &key, time);
    }
}

/// All pods, in the order of their Deployments' keys.
pub(super) fn pods(state: &State, now: Timestamp) -> Vec<PodView> {
    let mut views = Vec::new();
    for (deployment, workload) in &state.workloads {
        let min_ready = state.fresh(deployment).map_or(SignedDuration::ZERO, |object| Wanted::of(&object).min_ready);
        for set in &workload.sets {
            views.extend(set.pods.iter().map(|pod| PodView {
                name: format!("{}-{}-{}", deployment.name, set.revision, pod.number),
                deployment: deployment.clone(),
                track: set.track.clone(),
                variant: set.variant.clone(),
                template_revision: set.revision,
                created: pod.created,
                is_available: pod.is_available(now, min_ready),
            }));
        }
    }
    views
}

/// Makes up to `count` ready pods of a Deployment fail from `now` on.
pub(super) fn fail_pods(state: &mut State, deployment: &ObjectKey, count: usize, now: Timestamp) -> usize {
    let Some(workload) = state.workloads.get_mut(deployment) else { return 0 };
    let pods = workload.sets.iter_mut().flat_map(|set| &mut set.pods);
    let mut failed = 0;
    for pod in pods.filter(|pod| pod.is_ready(now)).take(count) {
        pod.has_failed = true;
        failed += 1;
    }
    state.dirty.entry(deployment.clone()).or_insert(now);
    failed
}

/// Makes all pods of a Deployment ready from `now` on.
pub(super) fn recover_pods(state: &mut State, deployment: &ObjectKey, now: Timestamp) {
    let Some(workload) = state.workloads.get_mut(deployment) else { return };
    for pod in workload.sets.iter_mut().flat_map(|set| &mut set.pods) {
        pod.has_failed = false;
        pod.ready_at = Some(pod.ready_at.map_or(now, |ready_at| ready_at.min(now)));
    }
    state.dirty.entry(deployment.clone()).or_insert(now);
}

fn sync(state: &mut State, key: &ObjectKey, now: Timestamp) {
    let Some(live) = state.objects.get(key).map(|stored| Arc::clone(&stored.object)) else {
        state.workloads.remove(key);
        return;
    };
    let uid = live.text("/metadata/uid").unwrap_or_default();
    let wanted = Wanted::of(&live);
    let mut workload = match state.workloads.remove(key) {
        Some(workload) if workload.uid == uid => workload,
        _ => Workload::new(uid, now),
    };
    if !wanted.is_paused || workload.sets.is_empty() {
        workload.take_template(&live, now);
    }
    let mut script = |template: &Value| (state.pod_script)(key, template);
    while workload.take_step(&wanted, now, &mut script) {}
    workload.judge(&wanted, key, now);
    workload.wake_at = workload.next_event(&wanted, now);
    write_status(state, key, &live, &workload, now);
    // Its own write tells the controller nothing new.
    state.dirty.remove(key);
    state.workloads.insert(key.clone(), workload);
}

impl Workload {
    fn new(uid: &str, now: Timestamp) -> Self {
        let progressing =
            Condition { is_true: true, reason: NEW_SET_CREATED, message: String::new(), updated: now, since: now };
        Self {
            uid: uid.to_owned(),
            sets: Vec::new(),
            revision: 0,
            pods_made: 0,
            counts: Counts::default(),
            progressing,
            progress_since: now,
            available: None,
            wake_at: None,
        }
    }

    /// Puts the ReplicaSet of the present template last, making it where there is none.
    fn take_template(&mut self, live: &Object, now: Timestamp) {
        let template = live.at("/spec/template").unwrap_or(&Value::Null);
        if self.sets.last().is_some_and(|set| set.template == *template) {
            return;
        }
        self.revision += 1;
        let set = match self.sets.iter().position(|set| set.template == *template) {
            Some(known) => ReplicaSet { revision: self.revision, ..self.sets.remove(known) },
            None => {
                self.progress_since = now;
                self.progressing.set(true, NEW_SET_CREATED, "Created new replica set".to_owned(), now);
                let variant = template
                    .pointer("/metadata/annotations")
                    .and_then(|annotations| annotations.get(VARIANT_ANNOTATION)?.as_str())
                    .or_else(|| live.annotation(VARIANT_ANNOTATION));
                let track = template.pointer("/metadata/labels").and_then(|labels| labels.get(TRACK_LABEL)?.as_str());
                ReplicaSet {
                    revision: self.revision,
                    template: template.clone(),
                    track: track.map(str::to_owned),
                    variant: variant.map(str::to_owned),
                    pods: Vec::new(),
                }
            }
        };
        self.sets.push(set);
        let empty = self.sets.iter().filter(|set| set.pods.is_empty()).count();
        if empty > HISTORY
            && let Some(oldest) = self.sets.iter().position(|set| set.pods.is_empty())
        {
            self.sets.remove(oldest);
        }
    }

    /// One move of a rolling update; false when there is none to make now.
    fn take_step(&mut self, wanted: &Wanted, now: Timestamp, script: &mut dyn FnMut(&Value) -> PodBehaviour) -> bool {
        let all: usize = self.sets.iter().map(|set| set.pods.len()).sum();
        let Some((new, old)) = self.sets.split_last_mut() else { return false };
        let is_available = |pod: &Pod| pod.is_available(now, wanted.min_ready);
        if new.pods.len() > wanted.replicas {
            let surplus = new.pods.len() - wanted.replicas;
            new.remove_pods(surplus, now);
            return true;
        }
        let has_old = old.iter().any(|set| !set.pods.is_empty());
        if wanted.is_paused && has_old {
            return false;
        }
        if wanted.is_recreate && has_old {
            old.iter_mut().for_each(|set| set.pods.clear());
            return true;
        }
        let room = (wanted.replicas + wanted.surge).saturating_sub(all).min(wanted.replicas - new.pods.len());
        if room > 0 {
            let behaviour = script(&new.template);
            for _ in 0..room {
                self.pods_made += 1;
                let ready_at = match behaviour {
                    PodBehaviour::ReadyAfter(delay) => Some(now.saturating_add(delay).unwrap_or(Timestamp::MAX)),
                    PodBehaviour::NeverReady => None,
                };
                new.pods.push(Pod { number: self.pods_made, created: now, ready_at, has_failed: false });
            }
            return true;
        }
        // Old pods: those that serve nobody go first, then as many as the new ones replace.
        let min_available = wanted.replicas.saturating_sub(wanted.unavailable);
        let new_unavailable = new.pods.iter().filter(|pod| !is_available(pod)).count();
        let mut removable = all.saturating_sub(min_available).saturating_sub(new_unavailable);
        let mut has_moved = false;
        for set in old.iter_mut() {
            let idle = set.pods.iter().filter(|pod| !is_available(pod)).count().min(removable);
            if idle > 0 {
                set.remove_pods(idle, now);
                removable -= idle;
                has_moved = true;
            }
        }
        let available = old.iter().flat_map(|set| &set.pods).chain(&new.pods).filter(|pod| is_available(pod)).count();
        let mut surplus = available.saturating_sub(min_available).min(removable);
        for set in old.iter_mut() {
            let count = set.pods.len().min(surplus);
            if count > 0 {
                set.remove_pods(count, now);
                surplus -= count;
                has_moved = true;
            }
        }
        has_moved
    }

    /// Counts, and draws the conditions from what changed.
    fn judge(&mut self, wanted: &Wanted, key: &ObjectKey, now: Timestamp) {
        let count = |pods: &[Pod], is_meant: &dyn Fn(&Pod) -> bool| {
            i64::try_from(pods.iter().filter(|pod| is_meant(pod)).count()).unwrap_or(i64::MAX)
        };
        let mut counts = Counts::default();
        for set in &self.sets {
            counts.replicas += count(&set.pods, &|_| true);
            counts.ready += count(&set.pods, &|pod| pod.is_ready(now));
            counts.available += count(&set.pods, &|pod| pod.is_available(now, wanted.min_ready));
        }
        counts.updated = self.sets.last().map_or(0, |set| count(&set.pods, &|_| true));
        let before = std::mem::replace(&mut self.counts, counts);

        let replicas = i64::try_from(wanted.replicas).unwrap_or(i64::MAX);
        let min_available = i64::try_from(wanted.replicas.saturating_sub(wanted.unavailable)).unwrap_or(i64::MAX);
        let (is_true, reason, message) = if counts.available >= min_available {
            (true, "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            (false, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let available = self.available.get_or_insert_with(|| Condition {
            is_true,
            reason,
            message: message.to_owned(),
            updated: now,
            since: now,
        });
        if available.is_true != is_true {
            available.set(is_true, reason, message.to_owned(), now);
        }

        let Some(deadline) = wanted.deadline else { return };
        let was_complete = counts.replicas == counts.updated && self.progressing.reason == NEW_SET_AVAILABLE;
        if was_complete {
            return;
        }
        let set = format!("ReplicaSet \"{}-{}\"", key.name, self.revision);
        let is_complete = counts.updated == replicas && counts.replicas == replicas && counts.available == replicas;
        let has_progressed = counts.updated > before.updated
            || counts.replicas - counts.updated < before.replicas - before.updated
            || counts.ready > before.ready
            || counts.available > before.available;
        if is_complete {
            self.progress_since = now;
            self.progressing.set(true, NEW_SET_AVAILABLE, format!("{set} has successfully progressed."), now);
        } else if has_progressed {
            self.progress_since = now;
            self.progressing.set(true, "ReplicaSetUpdated", format!("{set} is progressing."), now);
        } else if self.is_timed(wanted) && now.duration_since(self.progress_since) >= deadline {
            self.progressing.set(false, DEADLINE_EXCEEDED, format!("{set} has timed out progressing."), now);
        }
    }

    /// Whether the progress deadline runs.
    fn is_timed(&self, wanted: &Wanted) -> bool {
        wanted.deadline.is_some()
            && !wanted.is_paused
            && !matches!(self.progressing.reason, NEW_SET_AVAILABLE | DEADLINE_EXCEEDED)
    }

    fn next_event(&self, wanted: &Wanted, now: Timestamp) -> Option<Timestamp> {
        let pods = self.sets.iter().flat_map(|set| &set.pods).filter(|pod| !pod.has_failed);
        let readiness = pods.filter_map(|pod| pod.ready_at).flat_map(|ready_at| {
            [Some(ready_at), ready_at.saturating_add(wanted.min_ready).ok()].into_iter().flatten()
        });
        let deadline = wanted.deadline.filter(|_| self.is_timed(wanted));
        let deadline = deadline.and_then(|deadline| self.progress_since.saturating_add(deadline).ok());
        readiness.chain(deadline).filter(|time| *time > now).min()
    }

    fn to_status(&self, observed: i64) -> Value {
        let mut status = json!({"observedGeneration": observed});
        let counts = self.counts;
        let fields = [
            ("replicas", counts.replicas),
            ("updatedReplicas", counts.updated),
            ("readyReplicas", counts.ready),
            ("availableReplicas", counts.available),
            ("unavailableReplicas", (counts.replicas - counts.available).max(0)),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| *value != 0) {
            status[name] = value.into();
        }
        let conditions = [Some(("Progressing", &self.progressing)), self.available.as_ref().map(|c| ("Available", c))];
        let conditions: Vec<Value> = conditions
            .into_iter()
            .flatten()
            .map(|(name, condition)| {
                json!({
                    "type": name, "status": if condition.is_true { "True" } else { "False" },
                    "reason": condition.reason, "message": condition.message,
                    "lastUpdateTime": seconds(condition.updated), "lastTransitionTime": seconds(condition.since)
                })
            })
            .collect();
        status["conditions"] = conditions.into();
        status
    }
}

const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

fn write_status(state: &mut State, key: &ObjectKey, live: &Arc<Object>, workload: &Workload, now: Timestamp) {
    let status = workload.to_status(live.generation());
    let revision = workload.revision.to_string();
    if live.fields().get("status") == Some(&status) && live.annotation(REVISION_ANNOTATION) == Some(&revision) {
        return;
    }
    let Some(managers) = state.objects.get(key).map(|stored| stored.managers.clone()) else { return };
    let mut object = Object::clone(live);
    object.set(&["status"], status);
    object.set(&["metadata", "annotations", REVISION_ANNOTATION], revision);
    let books = books_of_update(live, &object, &managers, MANAGER, Part::Status, now);
    // The admission hook judges what people and Serin write, and a status is neither.
    let admission = state.admission.take();
    let result = state.commit(key, object, books, Writer::Other, now);
    state.admission = admission;
    if let Ok((_, effect)) = result {
        state.write_down(now, MANAGER, Verb::Update, key, effect);
    }
}

impl ReplicaSet {
    /// Removes pods: those that are not ready first, then the ones that are ready for the shortest time.
    fn remove_pods(&mut self, count: usize, now: Timestamp) {
        self.pods.sort_by_key(|pod| (!pod.is_ready(now), pod.ready_at, pod.number));
        self.pods.truncate(self.pods.len().saturating_sub(count));
    }
}

impl Pod {
    fn is_ready(&self, now: Timestamp) -> bool {
        !self.has_failed && self.ready_at.is_some_and(|ready_at| ready_at <= now)
    }

    fn is_available(&self, now: Timestamp, min_ready: SignedDuration) -> bool {
        self.is_ready(now) && self.ready_at.is_some_and(|ready_at| now.duration_since(ready_at) >= min_ready)
    }
}

impl Condition {
    fn set(&mut self, is_true: bool, reason: &'static str, message: String, now: Timestamp) {
        let since = if self.is_true == is_true { self.since } else { now };
        *self = Self { is_true, reason, message, updated: now, since };
    }
}

impl Wanted {
    fn of(deployment: &Object) -> Self {
        let number = |pointer: &str| deployment.integer(pointer).filter(|number| *number >= 0);
        let replicas = number("/spec/replicas").and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        let share = |name: &str| deployment.at("/spec/strategy/rollingUpdate").and_then(|rolling| rolling.get(name));
        let surge = resolve_share(share("maxSurge"), replicas, Rounding::Up);
        let unavailable = resolve_share(share("maxUnavailable"), replicas, Rounding::Down);
        Self {
            replicas,
            surge,
            // Both zero would never move; the controller takes one then.
            unavailable: if surge == 0 && unavailable == 0 { 1 } else { unavailable },
            is_recreate: deployment.text("/spec/strategy/type") == Some("Recreate"),
            is_paused: deployment.at("/spec/paused") == Some(&Value::Bool(true)),
            min_ready: SignedDuration::from_secs(number("/spec/minReadySeconds").unwrap_or(0)),
            deadline: number("/spec/progressDeadlineSeconds").map(SignedDuration::from_secs),
        }
    }
}

enum Rounding {
    Up,
    Down,
}

/// A number of pods, or a percentage of them.
fn resolve_share(share: Option<&Value>, replicas: usize, rounding: Rounding) -> usize {
    let percent = match share {
        Some(Value::Number(number)) => return number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        Some(Value::String(text)) => text.strip_suffix('%').and_then(|text| text.parse::<usize>().ok()).unwrap_or(25),
        _ => 25,
    };
    let hundredths = replicas.saturating_mul(percent);
    match rounding {
        Rounding::Up => hundredths.div_ceil(100),
        Rounding::Down => hundredths / 100,
    }
}
