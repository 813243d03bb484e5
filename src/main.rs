//! The `serin` binary: everything is in [`serin::cli`].

use std::process::ExitCode;

/// Gives back what a first install or a long list took for a moment; the system's keeps several times what is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One arena instead of four for each core. Threads keep what they need next for themselves all the same, and what is kept for
/// ten thousand agents takes a seventh less room, on large machines far less.
#[expect(unsafe_code, reason = "the allocator reads its options from a symbol of this name before anything else runs")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8] = b"narenas:1\0";

fn main() -> ExitCode {
    // Named once, here: with two providers in the tree, rustls refuses to choose one by itself.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        unreachable!("nothing ran before this that could have installed another provider");
    }
    serin::cli::main().into()
}
