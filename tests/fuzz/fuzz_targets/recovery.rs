//! `cargo +nightly fuzz run recovery` in the folder above.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| geminga_ledger::log::sim::fuzz_recovery(bytes));
