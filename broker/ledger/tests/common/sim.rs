//! A log on simulated files, called and waited for.

use std::path::{Path, PathBuf};

use geminga_ledger::log::LogOptions;
use geminga_ledger::log::sim::{SimFiles, SteppedLog};
use geminga_ledger::{Block, BlockBuilder, EntryId, LedgerId, Position, Purpose, ReadRange, Sealed, StoreError, StoredEntry};

use super::life::{DIR, ask};

pub(crate) fn small() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, reserve_bytes: 0, ..LogOptions::default() }
}

pub(crate) fn open(files: &SimFiles) -> SteppedLog {
    SteppedLog::open(files, Path::new(DIR), small()).expect("opened")
}

pub(crate) fn segment(generation: u64) -> PathBuf {
    Path::new(DIR).join(format!("{generation:016x}.seg"))
}

pub(crate) fn create(log: &SteppedLog, purpose: Purpose) -> LedgerId {
    ask(log, |log, done| log.create(purpose, done)).expect("created")
}

/// A block of one entry that is always equally long.
pub(crate) fn even(ledger: LedgerId, entry: i64) -> Block {
    let mut builder = BlockBuilder::new();
    builder.push(Position { ledger, entry: EntryId(entry) }, entry - 1, &even_bytes(ledger, entry));
    builder.finish()
}

pub(crate) fn even_bytes(ledger: LedgerId, entry: i64) -> Vec<u8> {
    format!("{ledger:>10}:{entry:<10}").repeat(4).into_bytes()
}

pub(crate) fn append(log: &SteppedLog, block: Block) -> Result<(), StoreError> {
    ask(log, |log, done| log.append(block, done))
}

pub(crate) fn fence(log: &SteppedLog, ledger: LedgerId) -> Result<Sealed, StoreError> {
    ask(log, |log, done| log.open_fenced(ledger, done))
}

pub(crate) fn delete(log: &SteppedLog, ledger: LedgerId) {
    ask(log, |log, done| log.delete(vec![ledger], done)).expect("deleted");
}

pub(crate) fn read(log: &SteppedLog, ledger: LedgerId, from: i64, last: i64) -> Result<Vec<StoredEntry>, StoreError> {
    let range = ReadRange { ledger, from: EntryId(from), last: EntryId(last), max_entries: 1000, max_bytes: 1 << 20 };
    ask(log, |log, done| log.read(range, done))
}

/// Reads every entry on its own: how many are as written; the others must be refused as damaged.
pub(crate) fn served(log: &SteppedLog, ledger: LedgerId, entries: i64) -> usize {
    let whole = (0..entries).filter(|entry| match read(log, ledger, *entry, *entry) {
        Ok(found) => found.iter().any(|found| {
            assert_eq!((found.id.0, &found.bytes[..]), (*entry, &even_bytes(ledger, *entry)[..]), "something else was served");
            true
        }),
        Err(StoreError::Damaged { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    whole.count()
}
