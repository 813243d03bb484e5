#![no_main]
//! See `../properties/manifest.rs`.

#[path = "../properties/manifest.rs"]
mod manifest;

libfuzzer_sys::fuzz_target!(|data: &[u8]| manifest::holds(data));
