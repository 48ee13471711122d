//! `cargo +nightly fuzz run frame` in the folder above.

#![no_main]

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::frame(bytes));
