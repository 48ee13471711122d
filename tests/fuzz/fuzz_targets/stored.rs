//! `cargo +nightly fuzz run stored` in the folder above: what the metadata store and cursor ledgers hold is read without a panic.

#![no_main]

use geminga_ledger::{Cursor, ManagedLedger};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(list) = ManagedLedger::decode_list(bytes) {
        assert_eq!(ManagedLedger::decode_list(&ManagedLedger::encode_list(&list)).as_ref(), Ok(&list));
    }
    if let Ok(state) = Cursor::decode_position(bytes) {
        assert!(Cursor::decode_position(&Cursor::encode_position(&state)).is_ok());
    }
    let _ = Cursor::decode_record(bytes);
});
