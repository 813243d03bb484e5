//! What must hold whatever goes wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;
use serin::cluster::simulated::SimulatedCluster;
use serin::git::simulated::SimulatedRepository;
use serin::ids::{AgentKey, BranchName, CommitSha, TreePath};
use serin::object::{Kind, Object, ObjectKey};
use serin::rollout::Record;

use super::scenario::People;

/// How many moments are looked back at, at the least.
const MEMORY: usize = 60;

/// How many writes back a stale read may see at the most. Where little is written, that is a long time.
pub(super) const MOST_LAG: u64 = 5;

/// Watches one agent.
pub(super) struct Invariants {
    stable: Track,
    candidate: Track,
    recent: VecDeque<Moment>,
    /// Overridable fields of the spec by commit: what git has ever said.
    said: BTreeMap<CommitSha, String>,
    sequence: u64,
    /// How often people had touched the candidate when it was rejected, by content.
    rejected: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Track {
    exists: bool,
    wanted: u64,
}

#[derive(Clone, Copy)]
struct Moment {
    revision: u64,
    stable_available: u64,
    candidate_available: u64,
    total: u64,
}

pub(super) fn agent() -> AgentKey {
    AgentKey::new("prod", "agent")
}

fn deployment(cluster: &SimulatedCluster, name: &str) -> Option<std::sync::Arc<Object>> {
    cluster.live(&ObjectKey::new(Kind::DEPLOYMENT, "prod", name))
}

fn track(object: Option<&Object>) -> Track {
    let wanted = object.and_then(|object| object.integer("/spec/replicas")).and_then(|n| u64::try_from(n).ok());
    Track { exists: object.is_some(), wanted: wanted.unwrap_or(0) }
}

fn available(object: Option<&Object>) -> u64 {
    object.and_then(|o| o.integer("/status/availableReplicas")).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// What decides which version answers: the fields that a promotion writes.
fn said(object: &Object) -> String {
    let field = |name: &str| object.at("/spec").and_then(|spec| spec.get(name)).cloned().unwrap_or(Value::Null);
    Value::from(vec![field("promptPackRef"), field("providers"), field("toolRegistryRef")]).to_string()
}

impl Invariants {
    pub(super) fn new() -> Self {
        Self {
            stable: Track::default(),
            candidate: Track::default(),
            recent: VecDeque::new(),
            said: BTreeMap::new(),
            sequence: 0,
            rejected: BTreeMap::new(),
        }
    }

    /// Notes how many pods are available, as the Deployments' status says.
    pub(super) fn observe(&mut self, cluster: &SimulatedCluster) {
        let agent = cluster.live(&ObjectKey::agent(&agent()));
        let total = agent.and_then(|agent| agent.integer("/spec/runtime/replicas")).and_then(|n| u64::try_from(n).ok());
        let revision = cluster.revision();
        self.recent.push_back(Moment {
            revision,
            stable_available: available(deployment(cluster, "agent").as_deref()),
            candidate_available: available(deployment(cluster, "agent-canary").as_deref()),
            total: total.unwrap_or(0),
        });
        // The one before the oldest that a stale read may see was there until then.
        while self.recent.len() > MEMORY && self.recent[1].revision + MOST_LAG < revision {
            self.recent.pop_front();
        }
    }

    /// How many rollouts of the agent have started.
    pub(super) fn started(&self) -> u64 {
        self.sequence
    }

    /// Takes what is there as it is: somebody else did it.
    pub(super) fn excuse(&mut self, cluster: &SimulatedCluster) {
        self.stable = track(deployment(cluster, "agent").as_deref());
        self.candidate = track(deployment(cluster, "agent-canary").as_deref());
    }

    /// Checks what has just been done.
    pub(super) fn check(
        &mut self,
        cluster: &SimulatedCluster,
        repository: &SimulatedRepository,
        branch: &BranchName,
        people: &People,
    ) -> Result<(), String> {
        self.check_pods(cluster)?;
        self.check_git_first(cluster, repository, branch, people)?;
        self.check_rejected(cluster, people)?;
        check_people(repository, branch, people)
    }

    /// Weight is never on pods that are not available, and pods never go before others have taken over.
    fn check_pods(&mut self, cluster: &SimulatedCluster) -> Result<(), String> {
        let (stable, candidate) = (deployment(cluster, "agent"), deployment(cluster, "agent-canary"));
        let (stable, candidate) = (track(stable.as_deref()), track(candidate.as_deref()));
        let most = |count: fn(&Moment) -> u64| self.recent.iter().map(count).max().unwrap_or(0);
        // People may change the number while a stale read still sees the old one.
        let total = self.recent.iter().map(|moment| moment.total).min().unwrap_or(0);
        if stable.exists && self.stable.exists && stable.wanted < self.stable.wanted {
            let covered = most(|moment| moment.candidate_available);
            if stable.wanted + covered < total {
                return Err(format!(
                    "stable went from {} to {} of {total} pods while at most {covered} of the candidate were available",
                    self.stable.wanted, stable.wanted
                ));
            }
        }
        if candidate.wanted < self.candidate.wanted {
            let covered = most(|moment| moment.stable_available);
            let before = self.recent.iter().map(|moment| moment.candidate_available).min().unwrap_or(0);
            // Pods of the candidate that were available all the time may only go if stable has replaced them.
            if before > candidate.wanted && covered + candidate.wanted < total {
                return Err(format!(
                    "the candidate went from {} to {} pods while at most {covered} of {total} of stable were available",
                    self.candidate.wanted, candidate.wanted
                ));
            }
        }
        (self.stable, self.candidate) = (stable, candidate);
        Ok(())
    }

    /// The cluster's spec is never ahead of git.
    fn check_git_first(
        &mut self,
        cluster: &SimulatedCluster,
        repository: &SimulatedRepository,
        branch: &BranchName,
        people: &People,
    ) -> Result<(), String> {
        for commit in repository.log(branch) {
            self.said
                .entry(commit.sha.clone())
                .or_insert_with(|| manifest(repository, &commit.sha).map(|m| said(&m)).unwrap_or_default());
        }
        let Some(live) = cluster.live(&ObjectKey::agent(&agent())) else { return Ok(()) };
        let live = said(&live);
        let known: BTreeSet<&String> = self.said.values().collect();
        if known.contains(&live) || people.has_forced {
            return Ok(());
        }
        Err(format!("the cluster runs {live}, which git never said"))
    }

    /// A rejected candidate never starts again by itself.
    fn check_rejected(&mut self, cluster: &SimulatedCluster, people: &People) -> Result<(), String> {
        let Some(live) = cluster.live(&ObjectKey::agent(&agent())) else { return Ok(()) };
        let record = Record::read(&live);
        if record.sequence > self.sequence {
            self.sequence = record.sequence;
            if let Some(flight) = &record.rollout
                && let Some(touches) = self.rejected.get(flight.candidate.as_str())
                && *touches == people.candidate_touches
            {
                return Err(format!("{} was rejected and started again as {}", flight.title, flight.id));
            }
        }
        for entry in &record.rejected {
            self.rejected.entry(entry.candidate.to_string()).or_insert(people.candidate_touches);
        }
        let is_known = |digest: &String| record.rejected.iter().any(|entry| entry.candidate.as_str() == digest);
        // What people have put back is judged anew when it is rejected again.
        self.rejected.retain(|digest, touches| is_known(digest) || *touches == people.candidate_touches);
        Ok(())
    }
}

/// The manifest of the agent at a commit.
pub(super) fn manifest(repository: &SimulatedRepository, commit: &CommitSha) -> Option<Object> {
    use serin::manifest::{Rules, Schemas, load_file};
    thread_local! {
        static SCHEMAS: Schemas =
            Schemas::from_crds(serin::api::crds::all().into_iter().map(|(_, text)| text)).unwrap();
    }
    let path = TreePath::new("prod/agent.yaml");
    let files = repository.files(commit);
    let bytes = files.get(&path)?;
    let file = SCHEMAS.with(|schemas| load_file(&path, bytes, &Rules::default(), schemas));
    let desired = serin::manifest::assemble([file]);
    desired.objects.get(&ObjectKey::agent(&agent())).map(|located| located.object().as_ref().clone())
}

/// No commit of a person is ever lost.
fn check_people(repository: &SimulatedRepository, branch: &BranchName, people: &People) -> Result<(), String> {
    if people.has_forced {
        return Ok(());
    }
    let log: BTreeSet<CommitSha> = repository.log(branch).into_iter().map(|commit| commit.sha).collect();
    match people.commits.iter().find(|commit| !log.contains(*commit)) {
        Some(lost) => Err(format!("the person's commit {} is lost", lost.short())),
        None => Ok(()),
    }
}
