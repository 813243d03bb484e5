//! Which of several Serins of one cluster decides and writes: the holder of a Lease, as client-go elects leaders.
//!
//! Why: two daemons that roll out one agent would each be right by what they see, and wrong together. Every write is
//! guarded by itself (uid, resource version, compare-and-swap in git), so that the moment in which the Lease changes hands
//! is safe; the Lease makes it a moment.
//!
//! * `decide` judges a record that was seen: pure, and with no trust in anybody else's clock.
//! * [`Elector`] reads and writes the Lease and says when that changes who leads.
//! * [`Leading`] is the proof without which [`Core`](crate::reconcile::Core) writes nothing. It is asked again before each
//!   effect, so that a pass under way stops at the first effect after the Lease was lost.
//!
//! A passive daemon keeps its watches and its mirrors warm and does nothing else: it may have to take over in a moment.
//!
//! Invariant: whoever holds the Lease has stopped writing before anybody else may take it, whatever the clocks of the
//! machines say, and as long as time passes at about the same speed on both.

mod decide;
mod elector;
mod guard;
mod identity;
mod record;
mod term;
#[cfg(test)]
mod tests;

pub use elector::{Change, Elector};
pub use guard::Guarded;
pub use identity::Identity;
pub use term::{Leading, NotLeading};

/// How a daemon comes to lead.
pub enum Leadership {
    /// There is no other one: the simulated cluster, or somebody else makes sure of it.
    Alone,
    /// By holding a Lease.
    Elected(Box<Elector>),
}
