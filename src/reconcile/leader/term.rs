//! The proof that whoever has it may write, and until when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::decide::{Moment, holds};
use crate::clock::Clock;

/// This process does not lead: another one may decide and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this Serin does not hold the Lease any more")]
pub struct NotLeading;

/// Proof of leadership: what writes asks for it, and only this module makes it.
///
/// It ends with the term that it was given for; a later term of the same process comes with another one.
#[derive(Clone)]
pub struct Leading(Basis);

#[derive(Clone)]
enum Basis {
    Alone,
    Term(Arc<Term>),
}

impl Leading {
    /// For whoever has no other Serin beside him.
    pub fn alone() -> Self {
        Self(Basis::Alone)
    }

    pub(super) fn in_term(term: &Arc<Term>) -> Self {
        Self(Basis::Term(Arc::clone(term)))
    }

    /// Whether it still holds. Asked right before each write: between two of them the Lease may have been lost.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), NotLeading> {
        match &self.0 {
            Basis::Alone => Ok(()),
            Basis::Term(term) if term.holds() => Ok(()),
            Basis::Term(_) => Err(NotLeading),
        }
    }
}

/// The two clocks of a process.
#[derive(Clone)]
pub(super) struct Timer {
    start: Instant,
    clock: Arc<dyn Clock>,
}

impl Timer {
    pub(super) fn starting(clock: Arc<dyn Clock>) -> Self {
        Self { start: Instant::now(), clock }
    }

    pub(super) fn now(&self) -> Moment {
        Moment { steady: self.start.elapsed(), wall: self.clock.now() }
    }
}

/// From taking the Lease to losing it.
pub(super) struct Term {
    timer: Timer,
    /// When the last renewal that got through was sent; `None`: it is over.
    renewed: Mutex<Option<Moment>>,
}

impl Term {
    pub(super) fn begun(timer: Timer, renewed: Moment) -> Arc<Self> {
        Arc::new(Self { timer, renewed: Mutex::new(Some(renewed)) })
    }

    pub(super) fn renew(&self, renewed: Moment) {
        *self.renewed() = Some(renewed);
    }

    pub(super) fn end(&self) {
        *self.renewed() = None;
    }

    /// When it was renewed last.
    pub(super) fn last_renewal(&self) -> Option<Moment> {
        *self.renewed()
    }

    fn holds(&self) -> bool {
        self.last_renewal().is_some_and(|renewed| holds(renewed, self.timer.now()))
    }

    fn renewed(&self) -> MutexGuard<'_, Option<Moment>> {
        // A moment is written as a whole.
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
