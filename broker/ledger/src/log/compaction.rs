//! Space comes back by whole segments: the live rest of a mostly dead one is written again at the head of the log.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

use super::Shared;
use super::format::Kind;
use super::group::Op;
use super::index::Planned;
use crate::{Block, BlockBuilder, LedgerId, Position, ReadRange, StoreError};

/// How compaction gets an operation done: through the writer's thread, or by hand in a simulation.
pub(crate) trait Submit {
    fn submit(&mut self, op: Op);
}

/// What is written again in one block.
const BLOCK: usize = 256 << 10;

impl Shared {
    /// Works until the log is closed.
    pub(crate) fn run_compactor(&self) {
        while self.compact.take_one().is_some() {
            while !self.compact.is_closed() && self.compact_once(&mut Queued(self), true) {}
        }
    }

    /// Frees what is dead; or else compacts one segment. True if there may be more to do.
    pub(crate) fn compact_once(&self, writer: &mut dyn Submit, slowly: bool) -> bool {
        if self.poisoned().is_some() {
            return false;
        }
        if let Some(dead) = self.find(|live, _| live == 0) {
            return self.free(dead);
        }
        let percent = u64::from(self.options.compact_below_percent);
        let Some(victim) = self.find(|live, len| live.saturating_mul(100) < len.saturating_mul(percent)) else { return false };
        match self.evacuate(victim, writer, slowly) {
            Ok(()) => true,
            Err(StoreError::Damaged { .. }) => {
                // What cannot be read cannot be moved; the file stays for whoever repairs it.
                if let Some(state) = self.index().segments.get_mut(&victim) {
                    state.damaged = true;
                }
                true
            }
            // Something in it was deleted or overtaken between reading and writing: look again.
            Err(StoreError::Io(_)) => true,
            Err(_) => false,
        }
    }

    /// The full segment with the smallest live share that `chosen` agrees to, given live bytes and length.
    fn find(&self, chosen: impl Fn(u64, u64) -> bool) -> Option<u64> {
        let index = self.index();
        let full = index.segments.iter().filter(|(_, state)| state.full && !state.damaged && chosen(state.live, state.segment.len()));
        full.min_by_key(|(_, state)| state.live.saturating_mul(1000) / state.segment.len().max(1)).map(|(generation, _)| *generation)
    }

    fn free(&self, generation: u64) -> bool {
        let Some(state) = self.index().segments.remove(&generation) else { return false };
        match self.files.retire(state.segment) {
            Ok(()) => {
                // Only now: a file that comes back after a crash must still find its tombstones.
                self.index().segment_gone(&state.mentions);
                self.counters.segments_freed.fetch_add(1, Relaxed);
                true
            }
            // The file stays until the next opening finds it dead; its tombstones stay with it.
            Err(_) => false,
        }
    }

    /// Writes everything live in the segment again.
    fn evacuate(&self, victim: u64, writer: &mut dyn Submit, slowly: bool) -> Result<(), StoreError> {
        let runs = self.index().live_runs(victim);
        let mut block = BlockBuilder::new();
        for (ledger, run) in &runs {
            let mut from = run.first;
            let end = run.first + run.count as i64;
            while from < end {
                from += self.gather(LedgerId(*ledger), run, from, end, &mut block)?;
                if block.len() >= BLOCK {
                    self.write_again(block.finish(), victim, writer, slowly)?;
                }
            }
        }
        if !block.is_empty() {
            self.write_again(block.finish(), victim, writer, slowly)?;
        }
        submit(writer, |done| Op::Rehome(victim, done))?;
        self.declare_dead(victim)
    }

    /// Reads some entries of a run into the block; returns how many positions that covers.
    fn gather(&self, ledger: LedgerId, run: &Planned, from: i64, end: i64, block: &mut BlockBuilder) -> Result<i64, StoreError> {
        let range = ReadRange { ledger, from: crate::EntryId(from), last: crate::EntryId(end - 1), max_entries: 4096, max_bytes: BLOCK };
        let entries = match self.read_now(&range) {
            Ok(entries) => entries,
            // Deleted meanwhile: nothing of it is live any more.
            Err(StoreError::NoSuchLedger(_)) => return Ok(end - from),
            Err(StoreError::Io(reason)) => return Err(StoreError::Damaged { ledger, entry: range.from, reason }),
            Err(error) => return Err(error),
        };
        let mut covered = 0;
        for entry in &entries {
            if self.index().segment_of(ledger.0, entry.id.0) == Some(run.segment.generation()) {
                block.push_as(Kind::Moved, Position { ledger, entry: entry.id }, -1, &entry.bytes);
            }
            covered = entry.id.0 + 1 - from;
        }
        // A cursor's entry that was overtaken is not returned: it is dead.
        Ok(if entries.is_empty() { end - from } else { covered.max(1) })
    }

    fn write_again(&self, block: Block, victim: u64, writer: &mut dyn Submit, slowly: bool) -> Result<(), StoreError> {
        let bytes = block.bytes.len() as u64;
        submit(writer, |done| Op::Move(block, victim, done))?;
        self.counters.moved_bytes.fetch_add(bytes, Relaxed);
        let rate = self.options.compact_bytes_per_second.max(1);
        if slowly && self.compact.rest(Duration::from_secs_f64(bytes as f64 / rate as f64)) {
            return Err(StoreError::Closed("the log is being closed".into()));
        }
        Ok(())
    }

    /// Nothing in the segment can be found through the index any more, whatever the count of its bytes says.
    fn declare_dead(&self, victim: u64) -> Result<(), StoreError> {
        let mut index = self.index();
        let (states, tombstones) = index.homed(victim);
        if !(index.live_runs(victim).is_empty() && states.is_empty() && tombstones.is_empty()) {
            return Err(StoreError::Unknown("something in the segment is still needed".into()));
        }
        if let Some(state) = index.segments.get_mut(&victim) {
            state.live = 0;
        }
        Ok(())
    }
}

/// Has the writer do something and waits for it.
fn submit(writer: &mut dyn Submit, op: impl FnOnce(crate::Done<()>) -> Op) -> Result<(), StoreError> {
    let (sender, receiver) = mpsc::channel();
    writer.submit(op(Box::new(move |result| {
        let _ = sender.send(result);
    })));
    receiver.recv().unwrap_or_else(|_| Err(StoreError::Closed("the writer is gone".into())))
}

struct Queued<'a>(&'a Shared);

impl Submit for Queued<'_> {
    fn submit(&mut self, op: Op) {
        let bytes = op.bytes();
        if let Err(op) = self.0.queue.push(op, bytes) {
            op.refuse(StoreError::Closed("the log was closed".into()));
        }
    }
}
