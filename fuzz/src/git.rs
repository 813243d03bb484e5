//! Of the seam to the repository, the data.

#[path = "../../src/git/revision.rs"]
mod revision;
pub use revision::*;
