#![no_main]
//! See `../properties/edit.rs`.

#[path = "../properties/edit.rs"]
mod edit;

libfuzzer_sys::fuzz_target!(|data: &[u8]| edit::holds(data));
