//! A repository inside this process: commits, branches and a person who pushes, without git and without IO.
//!
//! For the fault search and for unit tests. It answers like a [`Mirror`](super::mirror::Mirror) of a real
//! server, and one contract suite holds both to that. Every call completes at once, so any executor will do.
//! Ids come from contents and history only: the same story gives the same ids in every run.
//!
//! * [`SimulatedRepository`]: one view of the repository, through one revision; [`following`] gives another.
//! * [`Person`]: commits, reverts and force-pushes of somebody else.
//! * [`Fate`]: what happens to one call, decided by a callback; [`refuse_pushes`] and [`set_reachable`] for
//!   states that last.
//!
//! [`following`]: SimulatedRepository::following
//! [`refuse_pushes`]: SimulatedRepository::refuse_pushes
//! [`set_reachable`]: SimulatedRepository::set_reachable

mod history;
mod person;
mod repository;
#[cfg(test)]
mod tests;

pub use history::LoggedCommit;
pub use person::{NotRevertible, Person};
pub use repository::{Call, Fate, SimulatedRepository};
