//! Desired against live: field ownership, what differs, what a sync has to do. Pure.
//!
//! The server would answer "does this apply change anything?" with a dry run each. Asking it ten thousand
//! times per push is what makes others slow; here the same answer comes from the live object that the
//! watch brought anyway.

mod additions;
mod difference;
mod extract;
mod fields;
mod ownership;
mod plan;
mod schema;

#[cfg(test)]
mod difference_tests;
#[cfg(test)]
mod ownership_tests;
#[cfg(test)]
mod plan_tests;

pub use additions::additions;
pub use difference::{Difference, FieldChange, difference, is_same_but_status};
pub use extract::owned;
pub(crate) use fields::SERVER_METADATA;
pub use fields::{FieldSet, PathElement};
pub use ownership::{Claimant, Claimants, Owner, tracked_by, tracking_id};
pub use plan::{Prune, Refusal, SyncPlan, is_of_source, plan_sync};
pub use schema::{Form, Shape, canonical_json, item_key};
