#![no_main]
//! See `../properties/webhook.rs`.

#[path = "../properties/webhook.rs"]
mod webhook;

libfuzzer_sys::fuzz_target!(|data: &[u8]| webhook::holds(data));
