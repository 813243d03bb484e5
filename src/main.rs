//! The `serin` binary.
fn main() {}
