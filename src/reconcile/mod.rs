//! The shell: observes, lets the pure modules decide, performs what they say. It decides nothing.
//!
//! [`Core`] has one pass for each kind of [`Key`], and no thread, timer or channel of its own: whoever drives it says
//! which key is next. The daemon drives it from watches and timers ([`daemon`]), the fault search from a seed, on
//! simulated parts and a simulated clock. What a pass leaves in memory is a cache or a courtesy; what matters is in git or
//! in the cluster, so a `Core` may be dropped between any two calls and made anew.

mod agent;
mod credentials;
pub mod daemon;
pub mod leader;
mod memory;
mod memos;
mod observe;
mod outbox;
mod owners;
mod publish;
pub mod queue;
mod references;
pub mod serve;
pub mod source;
mod status;
pub(crate) mod sync;
#[cfg(test)]
mod tests;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, TimestampArithmetic};

use crate::apply::is_of_source;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::git::RepositoryError;
use crate::ids::{AgentKey, BranchName, ClusterName, SourceName};
use crate::object::{Kind, ObjectKey};
use crate::reconcile::leader::{Guarded, Leading, NotLeading};
use crate::reconcile::memory::AgentMemory;
use crate::reconcile::source::Source;

use crate::settings::POLL_JITTER_PERCENT;
use crate::telemetry::{Metrics, PassKind};
use crate::workload::WorkloadSettings;

/// What a pass is about. One key is never worked on twice at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Ask the remote of a source, and load what is new.
    Fetch(SourceName),
    /// Make the cluster what a source says, all but the agents.
    Sync(SourceName),
    /// One object of git that is not an agent: drift.
    Object(ObjectKey),
    /// One agent: its manifest, its rollout.
    Agent(AgentKey),
    /// Bring decisions to the branch of a source.
    Publish(SourceName),
    /// Bring status to the status branch of a source.
    Status(SourceName),
}

impl Key {
    /// What kind of pass it is, for metrics.
    pub fn kind(&self) -> PassKind {
        match self {
            Self::Fetch(_) | Self::Sync(_) | Self::Object(_) => PassKind::Source,
            Self::Agent(_) => PassKind::Agent,
            Self::Publish(_) => PassKind::Publish,
            Self::Status(_) => PassKind::Status,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(source) => write!(f, "fetch {source}"),
            Self::Sync(source) => write!(f, "sync {source}"),
            Self::Publish(source) => write!(f, "publish {source}"),
            Self::Status(source) => write!(f, "status {source}"),
            Self::Object(key) => write!(f, "{key}"),
            Self::Agent(agent) => write!(f, "agent {agent}"),
        }
    }
}

/// What follows from a pass.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Keys to look at now.
    pub now: Vec<Key>,
    /// Keys to look at later.
    pub later: Vec<(Key, Timestamp)>,
}

/// Why a pass did not come to its end. It is tried again, later each time.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The repository.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The git server does not take what is written to a branch.
    #[error("the push to {branch} is refused: {why}")]
    Refused {
        /// The branch.
        branch: BranchName,
        /// The server's words.
        why: String,
    },
    /// A decision could not be taken back because it is being pushed: the answer of git comes first.
    #[error("the decision about {0} is being pushed")]
    Pushing(AgentKey),
    /// Another Serin may lead: this one has stopped between two writes.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl PassError {
    /// A bounded name for metric labels.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cluster(error) => error.kind(),
            Self::Repository(error) => error.kind(),
            Self::Refused { .. } => "refused",
            Self::Pushing(_) => "pushing",
            Self::NotLeading(_) => "not_leading",
        }
    }

    /// How long the other side asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Cluster(ClusterError::TooManyRequests { retry_after }) => *retry_after,
            Self::Cluster(_) | Self::Repository(_) | Self::Refused { .. } | Self::Pushing(_) | Self::NotLeading(_) => {
                None
            }
        }
    }
}

/// What the shell is told once.
pub struct CoreOptions {
    /// The name of this cluster.
    pub cluster_name: ClusterName,
    /// Images and other settings of the workloads.
    pub workload: Arc<WorkloadSettings>,
}

/// The shell without its drivers.
pub struct Core {
    options: CoreOptions,
    cluster: Guarded,
    clock: Arc<dyn Clock>,
    sources: BTreeMap<SourceName, Arc<Source>>,
    /// The names of the sources as the settings list them: the first that holds an object owns it.
    order: Vec<SourceName>,
    /// Objects of sources that are gone, as far as they were told of.
    left_behind: Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>,
    metrics: Metrics,
    agents: Mutex<BTreeMap<AgentKey, Box<AgentMemory>>>,
    memos: memos::Memos,
    credentials: Mutex<BTreeMap<ObjectKey, credentials::Known>>,
    references: Mutex<references::References>,
    status_branches: Mutex<status::StatusBranches>,
    /// For each source the one that stands for its status branch.
    pages: BTreeMap<SourceName, SourceName>,
}

impl Core {
    /// A shell around a cluster and some sources. Of two sources that hold one object, the first has it.
    pub fn new(
        options: CoreOptions,
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        sources: Vec<Arc<Source>>,
        metrics: Metrics,
    ) -> Self {
        let pages = status::pages(&sources);
        let order = sources.iter().map(|source| source.options.name.clone()).collect();
        let sources = sources.into_iter().map(|source| (source.options.name.clone(), source)).collect();
        Self {
            options,
            cluster: Guarded::new(cluster),
            clock,
            sources,
            order,
            left_behind: Mutex::default(),
            metrics,
            agents: Mutex::default(),
            memos: memos::Memos::default(),
            credentials: Mutex::default(),
            references: Mutex::default(),
            status_branches: Mutex::default(),
            pages,
        }
    }

    /// Does one pass, as the one Serin that may write.
    ///
    /// # Errors
    /// The first thing that could not be read or done, or that `leading` does not hold any more. Nothing is left
    /// half-decided: the same key again goes on.
    pub async fn run(&self, leading: &Leading, key: &Key) -> Result<Next, PassError> {
        match key {
            Key::Fetch(name) => match self.sources.get(name) {
                Some(source) => self.fetch(source).await,
                None => Ok(Next::default()),
            },
            Key::Sync(name) => match self.sources.get(name) {
                Some(source) => self.sync(leading, source).await,
                None => Ok(Next::default()),
            },
            Key::Object(object) => self.sync_object(leading, object).await,
            Key::Agent(agent) => self.agent(leading, agent).await,
            Key::Publish(name) => match self.sources.get(name) {
                Some(source) => self.publish(leading, source).await,
                None => Ok(Next::default()),
            },
            Key::Status(name) => match self.sources.get(name) {
                Some(source) => self.publish_status(leading, source).await,
                None => Ok(Next::default()),
            },
        }
    }

    /// Does what a passive Serin does about a key: it keeps its mirrors and what they say up to date, and writes nothing.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub async fn stand_by(&self, key: &Key) -> Result<Next, PassError> {
        match key {
            Key::Fetch(name) => match self.sources.get(name) {
                // What follows is for whoever leads.
                Some(source) => Ok(Next { now: Vec::new(), ..self.fetch(source).await? }),
                None => Ok(Next::default()),
            },
            Key::Sync(_) | Key::Object(_) | Key::Agent(_) | Key::Publish(_) | Key::Status(_) => Ok(Next::default()),
        }
    }

    /// Forgets all that rests on having led without a break: whoever led meanwhile may have decided otherwise. What
    /// matters is in git and in the cluster, as after a restart.
    pub fn start_over(&self) {
        let agents = std::mem::take(&mut *self.agents());
        self.memos.forget_all();
        agents.keys().for_each(|agent| self.metrics.rollout.forget(agent));
        self.forget_status_branches();
        self.sources.values().for_each(|source| source.start_over());
    }

    /// The keys to look at because an object of the cluster changed.
    ///
    /// # Errors
    /// If what changed cannot be read.
    pub async fn touched_by(&self, changed: &ObjectKey) -> Result<Vec<Key>, PassError> {
        let mut agents = match &changed.kind {
            kind if *kind == Kind::PROMPT_PACK => self.referrers_of_pack(changed).await?,
            _ => self.referrers_of(changed),
        };
        let is_shared = [Kind::PROMPT_PACK, Kind::PROVIDER, Kind::TOOL_REGISTRY, Kind::SECRET].contains(&changed.kind);
        if !is_shared {
            agents.extend(wake::owners_by_name(changed));
        }
        let mut keys: Vec<Key> = agents.into_iter().map(Key::Agent).collect();
        let holds =
            |source: &Arc<Source>| source.loaded().is_some_and(|loaded| loaded.desired.objects.contains_key(changed));
        if changed.kind != Kind::AGENT_RUNTIME && self.sources.values().any(holds) {
            keys.push(Key::Object(changed.clone()));
        }
        keys.extend(self.prune_of(changed).await?);
        Ok(keys)
    }

    /// The sync that prunes an object which is there although git has dropped it: a pass that had read git before has made
    /// it once more, or somebody has restored it. The sync of a change does not look for it.
    async fn prune_of(&self, changed: &ObjectKey) -> Result<Option<Key>, PassError> {
        if !sync::SYNCED_KINDS.contains(&changed.kind) || !self.sources.values().any(|source| source.drops(changed)) {
            return Ok(None);
        }
        let live = match self.cluster.get(changed).await {
            Err(ClusterError::NotServed { .. }) => None,
            other => other?,
        };
        let Some(live) = live.filter(|live| !live.is_terminating()) else { return Ok(None) };
        let is_to_go =
            |source: &&Arc<Source>| source.drops(changed) && is_of_source(&live, changed, &source.options.name);
        let source = self.sources.values().find(is_to_go);
        Ok(source.map(|source| {
            source.sync_whole_next();
            Key::Sync(source.options.name.clone())
        }))
    }

    /// The keys to begin with, and to look at from time to time.
    ///
    /// # Errors
    /// If the agents cannot be listed.
    pub async fn first_keys(&self) -> Result<Vec<Key>, PassError> {
        let mut keys: Vec<Key> = self.sources.keys().cloned().map(Key::Fetch).collect();
        let live = self.keys(&Kind::AGENT_RUNTIME).await?;
        let live = live.iter().map(|agent| AgentKey::new(&agent.namespace, &agent.name));
        // Of an agent that is gone it may have been missed that it went.
        let agents: BTreeSet<AgentKey> = live.chain(self.agents().keys().cloned()).collect();
        keys.extend(agents.into_iter().map(Key::Agent));
        let decided = self.sources.iter().filter(|(_, source)| source.outbox().has_decisions());
        keys.extend(decided.map(|(name, _)| Key::Publish(name.clone())));
        for (name, source) in self.sources.iter().filter(|(_, source)| source.loaded().is_some()) {
            source.sync_whole_next();
            keys.push(Key::Sync(name.clone()));
        }
        keys.extend(self.first_statuses());
        Ok(keys)
    }

    /// The keys to look at because a pass failed: agents whose decisions wait for git show why.
    pub fn touched_by_failure(&self, key: &Key) -> Vec<Key> {
        match key {
            Key::Fetch(name) | Key::Publish(name) => {
                let Some(source) = self.sources.get(name) else { return Vec::new() };
                let sync = source.awaits_sync().then(|| Key::Sync(name.clone()));
                sync.into_iter()
                    .chain(self.contested_syncs(name))
                    .chain(source.outbox().decided_agents().into_iter().map(Key::Agent))
                    .collect()
            }
            // A sync that does not get through does not keep the agents from theirs.
            Key::Sync(name) => {
                let source = self.sources.get(name).filter(|source| !source.has_synced());
                let loaded = source.and_then(|source| source.loaded());
                loaded.iter().flat_map(|loaded| sync::agents_of(loaded)).collect()
            }
            Key::Object(_) | Key::Agent(_) | Key::Status(_) => Vec::new(),
        }
    }

    /// The sources.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        self.sources.values()
    }

    /// The keys of all objects of a kind; none where the cluster does not serve it.
    async fn keys(&self, kind: &Kind) -> Result<Vec<ObjectKey>, PassError> {
        match self.cluster.keys(kind, None).await {
            Err(ClusterError::NotServed { .. }) => Ok(Vec::new()),
            other => Ok(other?),
        }
    }

    /// A key that is to be looked at after `wait`.
    fn later(&self, key: Key, wait: SignedDuration) -> (Key, Timestamp) {
        (key, self.clock.now().saturating_add(wait).unwrap_or(Timestamp::MAX))
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<AgentKey, Box<AgentMemory>>> {
        // A pass that panicked may have held the lock; what is in it is a courtesy, never a decision.
        self.agents.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// When to ask a remote again: the interval, up to a tenth longer or shorter, so that many daemons do not ask together.
/// Spread by the time itself: no randomness is needed for that.
fn jittered(now: Timestamp, interval: SignedDuration) -> Timestamp {
    let spread =
        i32::try_from(interval.as_millis() * i128::from(2 * POLL_JITTER_PERCENT) / 100).unwrap_or(i32::MAX).max(1);
    let offset = i32::try_from(now.as_nanosecond() / 1_000 % i128::from(spread)).unwrap_or(0);
    let wait =
        interval - SignedDuration::from_millis(i64::from(spread / 2)) + SignedDuration::from_millis(i64::from(offset));
    after(now, wait)
}

/// The time so long after `now`, as far as there are times.
fn after(now: Timestamp, wait: impl Into<TimestampArithmetic>) -> Timestamp {
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
