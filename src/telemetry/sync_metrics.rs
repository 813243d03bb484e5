//! Serin's own metrics, `serin_*`: sources, writes to the cluster and to git, passes.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::ids::SourceName;
use crate::object::Kind;

/// Upper bounds in seconds: from a fetch that finds nothing on the same machine to the git timeout.
const FETCH_BUCKETS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Upper bounds in seconds: a pass without writes takes under a millisecond.
const PASS_BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What kind of pass: the label `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassKind {
    /// One source: fetch, read, sync.
    Source,
    /// One agent: observe, evaluate, carry out.
    Agent,
    /// Decision commits of one repository.
    Publish,
    /// The status branch of one repository.
    Status,
}

impl PassKind {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Agent => "agent",
            Self::Publish => "publish",
            Self::Status => "status",
        }
    }
}

/// What sync does to an object: the label `verb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncVerb {
    /// It was not there.
    Create,
    /// It differed from git.
    Update,
    /// It is in git no more.
    Prune,
}

impl SyncVerb {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Prune => "prune",
        }
    }

    /// For sentences: `created`.
    pub fn past(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Update => "updated",
            Self::Prune => "pruned",
        }
    }
}

/// What became of a delivery of a webhook: the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookResult {
    /// A fetch follows.
    Accepted,
    /// The source is at that commit already.
    Known,
    /// It is about a branch or a tag that the source does not follow.
    NotFollowed,
    /// It only asks whether it arrives.
    Ping,
    /// It is not signed with the secret of a source.
    Refused,
    /// Its body is too long.
    TooLarge,
    /// Its body did not come in time.
    TooSlow,
    /// Too many others came at the same time.
    Busy,
}

impl HookResult {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Known => "known",
            Self::NotFollowed => "not_followed",
            Self::Ping => "ping",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::Busy => "busy",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceResultLabels {
    source: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceStateLabels {
    source: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    source: String,
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassKindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    kind: String,
    result: &'static str,
}

/// The families. Clones are the same metrics.
#[derive(Clone)]
pub struct SyncMetrics {
    fetches: Family<SourceResultLabels, Counter>,
    hooks: Family<SourceResultLabels, Counter>,
    fetch_duration: Family<SourceLabels, Histogram>,
    last_fetch: Family<SourceLabels, Gauge>,
    objects: Family<SourceStateLabels, Gauge>,
    writes: Family<WriteLabels, Counter>,
    publishes: Family<SourceResultLabels, Counter>,
    passes: Family<PassLabels, Counter>,
    pass_duration: Family<PassKindLabels, Histogram>,
    queue_depth: Gauge,
    leader: Gauge,
    cluster_requests: Family<RequestLabels, Counter>,
}

impl SyncMetrics {
    /// Registers the families; `registry` has the prefix `serin`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            fetches: Family::default(),
            hooks: Family::default(),
            fetch_duration: Family::new_with_constructor(|| Histogram::new(FETCH_BUCKETS)),
            last_fetch: Family::default(),
            objects: Family::default(),
            writes: Family::default(),
            publishes: Family::default(),
            passes: Family::default(),
            pass_duration: Family::new_with_constructor(|| Histogram::new(PASS_BUCKETS)),
            queue_depth: Gauge::default(),
            leader: Gauge::default(),
            cluster_requests: Family::default(),
        };
        // The library appends `_total` to counters itself.
        registry.register("source_fetches", "Fetches by what they found", metrics.fetches.clone());
        registry.register("hooks", "Deliveries of webhooks by what became of them", metrics.hooks.clone());
        registry.register("source_fetch_duration_seconds", "How long fetches took", metrics.fetch_duration.clone());
        registry.register(
            "source_last_success_timestamp_seconds",
            "When the last fetch succeeded, in Unix time",
            metrics.last_fetch.clone(),
        );
        registry.register("source_objects", "Objects of the last read commit by state", metrics.objects.clone());
        registry.register("sync_writes", "Writes of git's objects to the cluster", metrics.writes.clone());
        registry.register("publish", "Pushes of decisions by what became of them", metrics.publishes.clone());
        registry.register("passes", "Passes by how they ended", metrics.passes.clone());
        registry.register("pass_duration_seconds", "How long passes took", metrics.pass_duration.clone());
        registry.register("queue_depth", "Passes that are due and wait for a worker", metrics.queue_depth.clone());
        registry.register(
            "leader",
            "1 where this process decides and writes, 0 where it is passive",
            metrics.leader.clone(),
        );
        registry.register("cluster_requests", "Requests to the API server", metrics.cluster_requests.clone());
        metrics
    }

    /// A fetch ended; `result` is one of a fixed set.
    pub fn fetched(&self, source: &SourceName, result: &'static str, took: Duration) {
        self.fetches.get_or_create(&SourceResultLabels { source: source.to_string(), result }).inc();
        self.fetch_duration.get_or_create(&SourceLabels { source: source.to_string() }).observe(took.as_secs_f64());
    }

    /// A delivery of a webhook was answered; `None`: for no source that has one.
    pub fn hook_received(&self, source: Option<&SourceName>, result: HookResult) {
        let source = source.map(ToString::to_string).unwrap_or_default();
        self.hooks.get_or_create(&SourceResultLabels { source, result: result.as_str() }).inc();
    }

    /// When the last fetch of `source` succeeded, in Unix seconds.
    pub fn set_last_success(&self, source: &SourceName, unix_seconds: i64) {
        self.last_fetch.get_or_create(&SourceLabels { source: source.to_string() }).set(unix_seconds);
    }

    /// How many objects the commit in force holds in `state`, one of a fixed set.
    pub fn set_objects(&self, source: &SourceName, state: &'static str, count: usize) {
        let labels = SourceStateLabels { source: source.to_string(), state };
        self.objects.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A write of git's objects ended; `result` is one of a fixed set.
    pub fn wrote(&self, source: &SourceName, verb: SyncVerb, result: &'static str) {
        self.writes.get_or_create(&WriteLabels { source: source.to_string(), verb: verb.as_str(), result }).inc();
    }

    /// A push of decisions ended; `result` is one of a fixed set.
    pub fn published(&self, source: &SourceName, result: &'static str) {
        self.publishes.get_or_create(&SourceResultLabels { source: source.to_string(), result }).inc();
    }

    /// A pass ended; `result` is one of a fixed set.
    pub fn pass_ended(&self, kind: PassKind, result: &'static str, took: Duration) {
        self.passes.get_or_create(&PassLabels { kind: kind.as_str(), result }).inc();
        self.pass_duration.get_or_create(&PassKindLabels { kind: kind.as_str() }).observe(took.as_secs_f64());
    }

    /// How many passes are due and wait for a worker.
    pub fn set_queue_depth(&self, waiting: usize) {
        self.queue_depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Whether this process decides and writes.
    pub fn set_leader(&self, is_leader: bool) {
        self.leader.set(i64::from(is_leader));
    }

    /// A request to the API server ended; `verb` and `result` are each one of a fixed set, and kinds are
    /// bounded by what the settings permit.
    pub fn cluster_request(&self, verb: &'static str, kind: &Kind, result: &'static str) {
        self.cluster_requests.get_or_create(&RequestLabels { verb, kind: kind.to_string(), result }).inc();
    }
}
