//! What Serin says back in git: decision commits and the status branch. Pure.

pub mod edit;
pub mod plan;
pub mod message;
pub mod status_branch;
