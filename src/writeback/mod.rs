//! What Serin says back in git: decision commits and the status branch. Pure.
//!
//! A decision becomes a minimal edit of the person's own file ([`plan()`], on [`edit`]) and a commit message
//! ([`message`]); observations become files of a branch that only Serin writes ([`status_branch`]). Who
//! calls them commits and pushes; nothing here knows git, a clock or the cluster.

pub mod edit;
pub mod message;
pub mod plan;
pub mod status_branch;

pub use edit::Blocked;
pub use plan::{Planned, PlannedChanges, plan, plan_changes};
