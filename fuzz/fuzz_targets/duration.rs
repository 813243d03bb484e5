#![no_main]
//! See `../properties/duration.rs`.

#[path = "../properties/duration.rs"]
mod duration;

libfuzzer_sys::fuzz_target!(|data: &[u8]| duration::holds(data));
