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

// Parts of modules that are not pure as a whole.
pub mod cluster;
pub mod git;
pub mod web;
