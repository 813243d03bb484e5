//! The only place that reads a clock. Decisions take `now` as an argument; the shell asks a [`Clock`].

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Tells the time. Everything that waits or measures goes through one of these.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that moves only when told to: for the preview and the fault search.
#[derive(Debug)]
pub struct SimulatedClock(Mutex<Timestamp>);

impl SimulatedClock {
    /// A clock that stands at `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Mutex::new(start))
    }

    /// Moves to `to`, which may lie in the past: clocks do jump.
    pub fn set(&self, to: Timestamp) {
        *self.0.lock().expect("no holder of the clock panics") = to;
    }

    /// Moves forward by `by`.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().expect("no holder of the clock panics");
        *now = now.saturating_add(by).expect("a signed duration never overflows a saturating add");
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no holder of the clock panics")
    }
}
