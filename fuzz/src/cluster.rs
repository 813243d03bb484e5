//! Of the seam to the cluster, the data.

#[path = "../../src/cluster/write.rs"]
mod write;
pub use write::*;
