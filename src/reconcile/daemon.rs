//! Drives the [`Core`]: watches, timers and signals become keys, workers take them, failures come back later.
//!
//! A panic in one pass ends that pass and nothing else: it is counted, said, and the key is tried again like after any
//! other failure.
//!
//! While another Serin leads, keys are taken all the same, and all that comes of them is that the mirrors stay warm. Who is
//! elected looks at everything.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::chain::Chain;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::ids::{CommitSha, SourceName};
use crate::reconcile::leader::{Change, Elector, Leadership, Leading};
use crate::reconcile::queue::{Lane, WorkQueue};
use crate::reconcile::{Core, Key, Next, PassError, after};
use crate::telemetry::{Metrics, event};
use crate::web::HookTarget;

/// The first wait after a failed pass; doubled with each failure in a row.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// The longest wait after a failed pass. Short enough that an API server or a git server that is back is noticed while
/// somebody watches.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// How often everything is looked at without a reason, against wake-ups that were lost in spite of everything. It reads
/// only what is in memory.
const RESYNC: Duration = Duration::from_secs(600);

/// One of so many workers is kept for keys that cannot wait.
const RESERVED: usize = 4;

/// A running core.
pub struct Daemon {
    core: Arc<Core>,
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    queue: Mutex<Queue>,
    wakeup: Notify,
    /// The proof that this process leads, while it does.
    leading: Mutex<Option<Leading>>,
    elector: Mutex<Option<Elector>>,
    elected: Notify,
}

#[derive(Default)]
struct Queue {
    keys: WorkQueue<Key>,
    failures: BTreeMap<Key, u32>,
    is_stopping: bool,
}

impl Daemon {
    /// A daemon that does nothing yet.
    pub fn new(
        core: Core,
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
        leadership: Leadership,
    ) -> Arc<Self> {
        let (leading, elector) = match leadership {
            Leadership::Alone => (Some(Leading::alone()), None),
            Leadership::Elected(elector) => (None, Some(*elector)),
        };
        metrics.sync.set_leader(leading.is_some());
        Arc::new(Self {
            core: Arc::new(core),
            cluster,
            clock,
            metrics,
            queue: Mutex::default(),
            wakeup: Notify::new(),
            leading: Mutex::new(leading),
            elector: Mutex::new(elector),
            elected: Notify::new(),
        })
    }

    /// The core that it drives.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Wants a key to be looked at.
    pub fn wake(&self, key: Key) {
        self.queue().keys.wake_in(self.lane(&key), key);
        self.wakeup.notify_one();
    }

    /// Agents at rest and objects of git may be very many at once; all else is little or what traffic depends on.
    fn lane(&self, key: &Key) -> Lane {
        let can_wait = match key {
            Key::Agent(agent) => !self.core.is_in_flight(agent),
            Key::Object(_) => true,
            Key::Fetch(_) | Key::Sync(_) | Key::Publish(_) | Key::Status(_) => false,
        };
        if can_wait { Lane::Behind } else { Lane::Ahead }
    }

    /// Asks all remotes at once: what a SIGHUP means.
    pub fn fetch_all(&self) {
        for source in self.core.sources() {
            self.wake(Key::Fetch(source.options.name.clone()));
        }
    }

    /// Runs until `stop` says so, then lets the passes under way come to their end, and gives the Lease back last.
    pub async fn run(self: &Arc<Self>, workers: usize, stop: impl Future<Output = ()>) {
        let mut feeds = JoinSet::new();
        feeds.spawn(Arc::clone(self).follow_cluster());
        for source in self.core.sources() {
            let (daemon, key) = (Arc::clone(self), Key::Fetch(source.options.name.clone()));
            let mut changes = source.repository.changes();
            feeds.spawn(async move {
                while changes.next().await.is_some() {
                    daemon.wake(key.clone());
                }
            });
        }
        feeds.spawn(Arc::clone(self).look_at_everything());
        let (tell_end, end) = oneshot::channel();
        let elector = self.elector.lock().unwrap_or_else(PoisonError::into_inner).take();
        let election = elector.map(|elector| tokio::spawn(Arc::clone(self).stand_for_election(elector, end)));
        // The others are there for what cannot wait.
        self.queue().keys.limit_behind(workers.saturating_sub(workers / RESERVED));
        let mut pool = JoinSet::new();
        for _ in 0..workers.max(1) {
            pool.spawn(Arc::clone(self).work());
        }
        stop.await;
        feeds.abort_all();
        self.queue().is_stopping = true;
        self.wakeup.notify_waiters();
        self.wakeup.notify_one();
        while pool.join_next().await.is_some() {}
        if let Some(election) = election {
            // An election that has panicked is over too.
            let _ = tell_end.send(());
            let _ = election.await;
        }
    }

    /// Whether this process leads, with the proof of it.
    fn leading(&self) -> Option<Leading> {
        self.leading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_leading(&self, leading: Option<Leading>) {
        *self.leading.lock().unwrap_or_else(PoisonError::into_inner) = leading;
    }

    /// Runs for the Lease until `end`, then gives it back.
    async fn stand_for_election(self: Arc<Self>, mut elector: Elector, mut end: oneshot::Receiver<()>) {
        loop {
            let change = tokio::select! {
                change = elector.next_change() => change,
                _ = &mut end => break,
            };
            match change {
                Change::Elected(leading) => {
                    self.core.start_over();
                    self.set_leading(Some(leading));
                    self.elected.notify_one();
                }
                Change::Lost => {
                    self.set_leading(None);
                    self.core.start_over();
                }
            }
        }
        self.set_leading(None);
        elector.give_back().await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No pass runs under this lock, so what a panic could leave half done is not in it.
        self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn follow_cluster(self: Arc<Self>) {
        let mut changes = self.cluster.changes();
        while let Some(changed) = changes.next().await {
            if self.leading().is_none() {
                // Whoever is elected looks at everything.
                continue;
            }
            match self.core.touched_by(&changed).await {
                Ok(keys) => keys.into_iter().for_each(|key| self.wake(key)),
                Err(error) => self.cannot_look(&changed.to_string(), &error, RESYNC),
            }
        }
    }

    async fn look_at_everything(self: Arc<Self>) {
        loop {
            let wait = match self.core.first_keys().await {
                Ok(keys) => {
                    keys.into_iter().for_each(|key| self.wake(key));
                    RESYNC
                }
                Err(error) => {
                    self.cannot_look("everything", &error, LONGEST_RETRY);
                    LONGEST_RETRY
                }
            };
            let _elapsed = tokio::time::timeout(wait, self.elected.notified()).await;
        }
    }

    /// A wake-up that could not be followed: the next look at everything makes up for it.
    fn cannot_look(&self, key: &str, error: &PassError, retry_in: Duration) {
        let (kind, error_kind, error) = (crate::telemetry::PassKind::Agent, error.kind(), Chain(error).to_string());
        let took = Duration::ZERO;
        event::PassFailed { kind, key, error_kind, error: &error, retry_in, took }.emit(&self.metrics);
    }

    async fn work(self: Arc<Self>) {
        while let Some(key) = self.next_key().await {
            let started = self.clock.now();
            let pass = async {
                match self.leading() {
                    Some(leading) => self.core.run(&leading, &key).await,
                    None => self.core.stand_by(&key).await,
                }
            };
            let outcome = AssertUnwindSafe(pass).catch_unwind().await;
            self.finish(&key, outcome, started);
        }
    }

    /// The next key; `None` when it is time to stop.
    async fn next_key(&self) -> Option<Key> {
        loop {
            let woken = self.wakeup.notified();
            let due = {
                let mut queue = self.queue();
                if queue.is_stopping {
                    // The next worker is to hear of it too.
                    self.wakeup.notify_one();
                    return None;
                }
                let now = self.clock.now();
                if let Some(key) = queue.keys.take(now) {
                    self.metrics.sync.set_queue_depth(queue.keys.depth());
                    if queue.keys.depth() > 0 {
                        self.wakeup.notify_one();
                    }
                    return Some(key);
                }
                queue.keys.next_due().map(|due| due.duration_since(now).unsigned_abs())
            };
            match due {
                Some(wait) => {
                    let _elapsed = tokio::time::timeout(wait, woken).await;
                }
                None => woken.await,
            }
        }
    }

    fn finish(
        &self,
        key: &Key,
        outcome: Result<Result<Next, PassError>, Box<dyn std::any::Any + Send>>,
        started: Timestamp,
    ) {
        let now = self.clock.now();
        let took = now.duration_since(started).unsigned_abs();
        let mut queue = self.queue();
        queue.keys.done(key);
        let text = key.to_string();
        match outcome {
            Ok(Ok(next)) => {
                event::PassFinished { kind: key.kind(), key: &text, took }.emit(&self.metrics);
                queue.failures.remove(key);
                for key in next.now {
                    queue.keys.wake_in(self.lane(&key), key);
                }
                for (key, at) in next.later {
                    queue.keys.wake_at(key, at);
                }
            }
            Ok(Err(error)) => {
                let asked = error.retry_after();
                let retry_in = retry_after(&mut queue.failures, key, asked);
                let (error_kind, error) = (error.kind(), Chain(&error).to_string());
                event::PassFailed { kind: key.kind(), key: &text, error_kind, error: &error, retry_in, took }
                    .emit(&self.metrics);
                let (at, lane) = (after(now, retry_in), self.lane(key));
                if asked.is_some() {
                    // Who asks for time is not asked again because something else has changed.
                    queue.keys.hold(key.clone(), at);
                } else {
                    queue.keys.wake_in_at(lane, key.clone(), at);
                }
                let touched = self.core.touched_by_failure(key);
                touched.into_iter().for_each(|key| queue.keys.wake_in(self.lane(&key), key));
            }
            Err(panic) => {
                let retry_in = retry_after(&mut queue.failures, key, None);
                let message = panic_text(panic.as_ref());
                event::PassPanicked { kind: key.kind(), key: &text, message: &message, retry_in, took }
                    .emit(&self.metrics);
                queue.keys.wake_in_at(self.lane(key), key.clone(), after(now, retry_in));
            }
        }
        drop(queue);
        self.wakeup.notify_one();
    }
}

impl HookTarget for Daemon {
    fn is_current(&self, source: &SourceName, commit: &CommitSha) -> bool {
        let source = self.core.sources().find(|known| known.options.name == *source);
        source.and_then(|source| source.loaded()).is_some_and(|loaded| loaded.commit == *commit)
    }

    fn fetch(&self, source: &SourceName) {
        self.wake(Key::Fetch(source.clone()));
    }
}

fn retry_after(failures: &mut BTreeMap<Key, u32>, key: &Key, asked: Option<Duration>) -> Duration {
    let count = failures.entry(key.clone()).or_default();
    let wait = FIRST_RETRY.saturating_mul(1 << (*count).min(10)).min(LONGEST_RETRY);
    *count = count.saturating_add(1);
    asked.map_or(wait, |asked| asked.max(FIRST_RETRY))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
