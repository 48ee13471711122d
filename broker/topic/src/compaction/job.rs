//! One compaction from the first read to the sealed ledger, over whatever storage it is lent. It may wait, so it is not for a loop.

use bytes::{Bytes, BytesMut};
use ledger::{EntryId, LedgerId, Position, Run, StoreError, StoredEntry};
use wire::payload::RawMessage;

use super::Compacted;
use super::plan::Plan;

/// Keys that are compared at a time: as many as fit a table of 2^19 places, which takes some 17 MiB.
const MOST_KEYS: usize = (1 << 19) / 8 * 7;

/// What is to be compacted.
#[derive(Clone, Debug)]
pub struct CompactionJob {
    /// What the last compaction left.
    pub(crate) compacted: Option<Compacted>,
    /// The entries since.
    pub(crate) runs: Vec<Run>,
    /// The last of them.
    pub(crate) horizon: Position,
    pub(crate) partition: i32,
    pub(crate) keep_without_key: bool,
    /// Keys that are compared at a time.
    pub(crate) most_keys: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionDone {
    /// The ledger with what is left.
    pub compacted: Compacted,
    /// Messages that are in it no more.
    pub removed: u64,
}

/// The storage that a compaction is lent.
pub trait CompactionStorage {
    /// Entries of one ledger, from `from` on, one at least.
    ///
    /// # Errors
    /// Why not; the compaction is given up.
    fn read(&mut self, ledger: LedgerId, from: EntryId, last: EntryId) -> Result<Vec<StoredEntry>, StoreError>;
    /// A ledger for what is left.
    ///
    /// # Errors
    /// Why not; the compaction is given up.
    fn create(&mut self) -> Result<LedgerId, StoreError>;
    /// Appends to it; durable when [`finish`](Self::finish) is done.
    ///
    /// # Errors
    /// Why not; the compaction is given up.
    fn append(&mut self, at: Position, bytes: &[u8]) -> Result<(), StoreError>;
    /// All was appended: makes it durable and ends the ledger.
    ///
    /// # Errors
    /// Why not; the compaction is given up.
    fn finish(&mut self, ledger: LedgerId) -> Result<(), StoreError>;
    /// The ledger is not wanted after all.
    fn discard(&mut self, ledger: LedgerId);
}

impl CompactionJob {
    pub(crate) fn new(compacted: Option<Compacted>, runs: Vec<Run>, horizon: Position, partition: i32, keep_without_key: bool) -> Self {
        CompactionJob { compacted, runs, horizon, partition, keep_without_key, most_keys: MOST_KEYS }
    }

    /// Compares fewer keys at a time, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn comparing(self, most_keys: usize) -> Self {
        CompactionJob { most_keys, ..self }
    }

    /// Does the work.
    ///
    /// # Errors
    /// Why it was given up; then nothing is left behind but perhaps a ledger that nobody knows.
    pub fn run(&self, storage: &mut impl CompactionStorage) -> Result<CompactionDone, String> {
        let mut plan = Plan::new(self.keep_without_key, self.most_keys);
        loop {
            self.each(storage, |_, _, entry| {
                plan.look_at(entry);
                Ok(())
            })?;
            if !plan.end_pass() {
                break;
            }
        }
        let mut rewrite = plan.finish();
        let ledger = storage.create().map_err(|error| format!("no ledger for what is left: {error}"))?;
        let mut next = 0;
        let mut bytes = 0;
        let mut raw = BytesMut::new();
        let written = self.each(storage, |storage, at, entry| {
            let Some(payload) = rewrite.entry(entry) else { return Ok(()) };
            raw.clear();
            RawMessage { ledger: at.ledger.0, entry: at.entry.0, partition: self.partition, payload }.encode(&mut raw);
            storage.append(Position { ledger, entry: EntryId(next) }, &raw).map_err(|error| format!("what is left: {error}"))?;
            next += 1;
            bytes += raw.len() as u64;
            Ok(())
        });
        if let Err(reason) = written.and_then(|()| storage.finish(ledger).map_err(|error| format!("what is left: {error}"))) {
            storage.discard(ledger);
            return Err(reason);
        }
        let compacted = Compacted { ledger, last: EntryId(next - 1), horizon: self.horizon, bytes };
        Ok(CompactionDone { compacted, removed: rewrite.messages - rewrite.stay })
    }

    /// All entries, oldest first, as they were published.
    fn each<S: CompactionStorage>(
        &self,
        storage: &mut S,
        mut take: impl FnMut(&mut S, Position, &Bytes) -> Result<(), String>,
    ) -> Result<(), String> {
        if let Some(Compacted { ledger, last, .. }) = self.compacted {
            each_of(storage, Run { ledger, first: 0, last: last.0 }, |storage, stored| {
                let at = Position { ledger, entry: stored.id };
                let raw = RawMessage::decode(&stored.bytes).map_err(|error| format!("compacted entry {at}: {error}"))?;
                take(storage, Position::new(raw.ledger, raw.entry), &raw.payload)
            })?;
        }
        for run in &self.runs {
            each_of(storage, *run, |storage, stored| take(storage, Position { ledger: run.ledger, entry: stored.id }, &stored.bytes))?;
        }
        Ok(())
    }
}

fn each_of<S: CompactionStorage>(
    storage: &mut S,
    run: Run,
    mut take: impl FnMut(&mut S, &StoredEntry) -> Result<(), String>,
) -> Result<(), String> {
    let mut next = run.first;
    while next <= run.last {
        let entries = storage.read(run.ledger, EntryId(next), EntryId(run.last)).map_err(|error| error.to_string())?;
        if entries.first().is_none_or(|first| first.id.0 != next) {
            return Err(format!("entry {}:{next} is missing", run.ledger));
        }
        for entry in &entries {
            take(storage, entry)?;
            next = entry.id.0 + 1;
        }
    }
    Ok(())
}
