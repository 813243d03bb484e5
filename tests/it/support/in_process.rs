//! The daemon of a site inside the test process, so that its clock is the test's.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use serin::clock::{Clock, SystemClock};
use serin::ids::AgentKey;
use serin::reconcile::Key;
use serin::reconcile::daemon::Daemon;
use serin::reconcile::serve::Assembled;
use serin::settings::{Environment, LogArgs, RunArgs, TypedAs, load};
use serin::telemetry::Metrics;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The machine's clock, some time later.
#[derive(Default)]
pub(crate) struct LaterClock(Mutex<SignedDuration>);

impl Clock for LaterClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + *self.0.lock().expect("never poisoned")
    }
}

impl LaterClock {
    /// Lets `by` pass at once.
    pub(crate) fn advance(&self, by: SignedDuration) {
        *self.0.lock().expect("never poisoned") += by;
    }
}

/// A running daemon.
pub(crate) struct InProcess {
    daemon: Arc<Daemon>,
    metrics: Metrics,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl InProcess {
    /// Starts what `serin run` starts with `args`, on another clock.
    pub(super) async fn start(args: RunArgs, clock: Arc<dyn Clock>) -> Self {
        let environment = Environment::of_process();
        let loaded = load(args, LogArgs::default(), &TypedAs::default(), &environment);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        let metrics = Metrics::new();
        let assembled = Assembled::new(&loaded.settings, metrics.clone(), clock).await.expect("a daemon that starts");
        let daemon = Arc::clone(&assembled.daemon);
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(assembled.run(async {
            // A sender that is gone means the end as well.
            let _stopped = stopped.await;
        }));
        Self { daemon, metrics, stop, ended }
    }

    /// Asks the repository at once, as SIGHUP does.
    pub(crate) fn fetch(&self) {
        self.daemon.fetch_all();
    }

    /// Lets it look at its clock: whoever sleeps for as long as it was told does not notice that a clock jumps. It brings no
    /// news.
    pub(crate) fn look_at_the_clock(&self) {
        self.daemon.wake(Key::Agent(AgentKey::new("nowhere", "nobody")));
    }

    /// How many tries to push decisions have failed so far.
    pub(crate) fn failed_pushes(&self) -> u64 {
        let told = self.metrics.render();
        let failed =
            |line: &&str| line.starts_with("serin_passes_total{kind=\"publish\"") && !line.contains("result=\"ok\"");
        told.lines().filter(failed).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.ended.await.expect("it does not panic");
    }
}
