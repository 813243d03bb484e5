//! The engine: from everything observed and the time to what is done next. Pure and total.

pub mod decision;

pub use decision::{Decision, Outcome, RollbackReason};
