//! The `serin` binary: everything is in [`serin::cli`].

use std::process::ExitCode;

/// Gives back what a first install or a long list took for a moment; the system's keeps several times what is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Named once, here: with two providers in the tree, rustls refuses to choose one by itself.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        unreachable!("nothing ran before this that could have installed another provider");
    }
    serin::cli::main().into()
}
