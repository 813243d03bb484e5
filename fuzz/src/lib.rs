//! Serin's pure modules, and nothing else of it, for the fuzz targets.
//!
//! A fuzzer wants everything that it links instrumented: with Serin as a whole that is some 300 crates, a Kubernetes client, a
//! TLS stack and libgit2 among them, of which no target calls anything. Decisions name none of those (the tests see to it), so
//! their files are compiled here on their own, in about a tenth of the time. The same files, and the same paths: what
//! [`crate`] is in them is this file instead of `src/lib.rs`, and `serin` is its name, so that the properties are those that
//! `cargo test` holds the whole of Serin to.
//!
//! A pure module that names something new, of Serin or of a library, has to find it here or in `Cargo.toml`.

// What only the rest of Serin calls is not called here.
#![allow(dead_code, unused_imports)]

#[path = "../../src/api/mod.rs"]
pub mod api;
#[path = "../../src/apply/mod.rs"]
pub mod apply;
#[path = "../../src/ids.rs"]
pub mod ids;
#[path = "../../src/manifest/mod.rs"]
pub mod manifest;
#[path = "../../src/object.rs"]
pub mod object;
#[path = "../../src/packed.rs"]
pub mod packed;
#[path = "../../src/rollout/mod.rs"]
pub mod rollout;
#[path = "../../src/workload/mod.rs"]
pub mod workload;
#[path = "../../src/writeback/mod.rs"]
pub mod writeback;

/// Of the seam to the cluster, the data.
pub mod cluster {
    #[path = "../../../src/cluster/write.rs"]
    mod write;
    pub use write::*;
}

/// Of the seam to the repository, the data.
pub mod git {
    #[path = "../../../src/git/revision.rs"]
    mod revision;
    pub use revision::*;
}

/// Of the web server, what reads one delivery.
pub mod web {
    #[path = "../../../src/web/hook.rs"]
    pub mod hook;
}
