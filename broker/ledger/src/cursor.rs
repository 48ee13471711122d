//! A subscription's place: mark-delete position, what is acked beyond it, and where it reads next.

use std::collections::BTreeMap;

use crate::acked::Acked;
use crate::chain::Run;
use crate::cursor_state::Record;
use crate::{AckSet, CursorState, LedgerId, ManagedLedger, Position};

/// What acking part of a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAck {
    /// Messages that were not acked before.
    pub newly_acked: u32,
    /// Whether the whole entry is acked now.
    pub entry_done: bool,
}

/// The cursor. It never asks for time or storage; positions are interpreted against the topic's [`ManagedLedger`].
///
/// Between calls no acked entry follows the mark-delete position, so an entry acked in order costs no bitmap.
#[derive(Debug)]
pub struct Cursor {
    mark_delete: Position,
    read: Position,
    /// Only entries that exist, all beyond `mark_delete`.
    acked: Acked,
    /// Partly acked batches, all beyond `mark_delete` and not in `acked`.
    batches: BTreeMap<Position, AckSet>,
    properties: Vec<(String, i64)>,
    revision: u64,
}

impl Cursor {
    /// A cursor that has everything at or below `mark_delete` behind it and reads next right after.
    /// A position before the chain means its beginning, one past the end means the last confirmed entry.
    pub fn new(mark_delete: Position, ledger: &ManagedLedger) -> Cursor {
        let mark_delete = ledger.at_or_previous(mark_delete);
        Cursor {
            mark_delete,
            read: ledger.next(mark_delete),
            acked: Acked::default(),
            batches: BTreeMap::new(),
            properties: Vec::new(),
            revision: 0,
        }
    }

    /// From persisted state; positions of vanished ledgers move to where the chain now begins, positions past the end to the end.
    pub fn restore(state: CursorState, ledger: &ManagedLedger) -> Cursor {
        let mut cursor = Cursor::new(state.mark_delete, ledger);
        cursor.properties = state.properties;
        for (lower, upper) in state.acked {
            for run in ledger.runs(lower.max(cursor.mark_delete), upper) {
                cursor.acked.insert_run(run);
            }
        }
        for (at, left) in state.batches {
            if at <= cursor.mark_delete || !ledger.contains(at) || cursor.acked.contains(at) {
                continue;
            }
            if left.left() == 0 {
                cursor.acked.insert(at);
            } else {
                cursor.batches.insert(at, left);
            }
        }
        cursor.close_holes(ledger);
        cursor.read = ledger.next(cursor.mark_delete);
        cursor
    }

    /// What to persist, at most `max_ranges` ranges and `max_batches` batches, the lowest; the rest is redelivered after a restart.
    pub fn state(&self, max_ranges: usize, max_batches: usize) -> CursorState {
        let range = |ledger: LedgerId, first: i64, last: i64| (Position::new(ledger.0, first - 1), Position::new(ledger.0, last));
        CursorState {
            mark_delete: self.mark_delete,
            acked: self.acked.runs().take(max_ranges).map(|run| range(run.ledger, run.first, run.last)).collect(),
            batches: self.batches.iter().take(max_batches).map(|(&at, left)| (at, left.clone())).collect(),
            properties: self.properties.clone(),
        }
    }

    /// Grows with every change that [`state`](Self::state) would show; for knowing what is dirty.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The properties that travel with the mark-delete position.
    pub fn properties(&self) -> &[(String, i64)] {
        &self.properties
    }

    /// Replaces the properties that travel with the mark-delete position.
    pub fn set_properties(&mut self, properties: Vec<(String, i64)>) {
        self.properties = properties;
        self.revision += 1;
    }

    /// Everything at or below is acked.
    #[inline]
    pub fn mark_delete(&self) -> Position {
        self.mark_delete
    }

    /// Where it reads next; may be one past the end, also of a ledger that was closed since: see
    /// [`next_unacked`](Self::next_unacked).
    #[inline]
    pub fn read_position(&self) -> Position {
        self.read
    }

    /// Moves the read position, forwards or back.
    #[inline]
    pub fn read_from(&mut self, at: Position) {
        self.read = at;
    }

    /// Reads again from right after the mark-delete position.
    pub fn rewind(&mut self, ledger: &ManagedLedger) {
        self.read = ledger.next(self.mark_delete);
    }

    /// Acks one entry; false if it was acked already (or does not exist). The mark-delete position moves over every hole
    /// that closed, and takes the read position with it if that was behind.
    #[inline]
    pub fn ack(&mut self, at: Position, ledger: &ManagedLedger) -> bool {
        if at <= self.mark_delete || !ledger.contains(at) {
            return false;
        }
        if self.is_next(at, ledger) {
            self.move_to(at, ledger);
        } else if self.acked.insert(at) {
            if !self.batches.is_empty() {
                self.batches.remove(&at);
            }
        } else {
            return false;
        }
        self.revision += 1;
        true
    }

    /// Acks the messages of a batch of `messages` whose bits are clear in `remaining`. Bits beyond `messages` are ignored,
    /// missing words are clear.
    pub fn ack_batch(&mut self, at: Position, remaining: &AckSet, messages: u32, ledger: &ManagedLedger) -> BatchAck {
        if self.is_acked(at) {
            return BatchAck { newly_acked: 0, entry_done: true };
        }
        if !ledger.contains(at) {
            return BatchAck { newly_acked: 0, entry_done: false };
        }
        let messages = messages.max(1);
        let (before, left) = match self.batches.get_mut(&at) {
            Some(left) => {
                left.trim(messages);
                let before = left.left();
                left.intersect(remaining, messages);
                (before, left.left())
            }
            None => {
                let mut left = remaining.clone();
                left.trim(messages);
                let count = left.left();
                if count > 0 && count < messages {
                    self.batches.insert(at, left);
                }
                (messages, count)
            }
        };
        if left == 0 {
            self.ack(at, ledger);
        } else if left < before {
            self.revision += 1;
        }
        BatchAck { newly_acked: before - left, entry_done: left == 0 }
    }

    /// Acks everything up to and including `at`; false if the mark-delete position was there already, or if `at` is
    /// past the last confirmed entry. The read position moves forward if it was behind.
    pub fn ack_cumulative(&mut self, at: Position, ledger: &ManagedLedger) -> bool {
        // (ledger, -1) is a name for the end of the ledger before, also when that is all there is.
        if at.entry.0 >= 0 && at > ledger.last_confirmed() {
            return false;
        }
        let at = ledger.at_or_previous(at);
        if ledger.count(self.mark_delete, at) == 0 {
            return false;
        }
        self.move_to(at, ledger);
        self.revision += 1;
        true
    }

    /// Acks everything before `at`, and of the batch at `at` the messages whose bits are clear in `remaining`.
    /// Returns whether anything changed.
    pub fn ack_cumulative_in_batch(&mut self, at: Position, remaining: &AckSet, messages: u32, ledger: &ManagedLedger) -> bool {
        if at <= self.mark_delete || !ledger.contains(at) {
            return false;
        }
        let moved = self.ack_cumulative(ledger.previous(at), ledger);
        self.ack_batch(at, remaining, messages, ledger).newly_acked > 0 || moved
    }

    /// Whether the entry is acked as a whole.
    #[inline]
    pub fn is_acked(&self, at: Position) -> bool {
        at <= self.mark_delete || (!self.acked.is_empty() && self.acked.contains(at))
    }

    /// What is left of a partly acked batch; none if nothing of it, or all of it, is acked.
    #[inline]
    pub fn remaining(&self, at: Position) -> Option<&AckSet> {
        if self.batches.is_empty() { None } else { self.batches.get(&at) }
    }

    /// `from` if it is not acked, else the first entry after it that is not acked; may be one past the end.
    pub fn next_unacked(&self, from: Position, ledger: &ManagedLedger) -> Position {
        let mut at = if from <= self.mark_delete { ledger.next(self.mark_delete) } else { ledger.at_or_next(from) };
        if self.acked.is_empty() {
            return at;
        }
        loop {
            let clear = self.acked.first_clear(at);
            if clear == at || ledger.contains(clear) {
                return clear;
            }
            // The ledger is acked to its end.
            at = ledger.at_or_next(clear);
        }
    }

    /// The `n`th entry not acked, from 1; none if there are fewer. Costs as much as there are ranges before it.
    pub fn nth_unacked(&self, n: u64, ledger: &ManagedLedger) -> Option<Position> {
        let mut left = n.max(1);
        let mut after = self.mark_delete;
        for run in self.acked.runs() {
            let before_run = ledger.previous(Position::new(run.ledger.0, run.first));
            let between = ledger.count(after, before_run);
            if left <= between {
                return Some(ledger.skip(after, left));
            }
            left -= between;
            after = Position::new(run.ledger.0, run.last);
        }
        (left <= ledger.count(after, ledger.last_confirmed())).then(|| ledger.skip(after, left))
    }

    /// The entries not acked, in order, as runs.
    pub fn unacked_runs(&self, ledger: &ManagedLedger) -> Vec<Run> {
        let mut found = Vec::new();
        let mut after = self.mark_delete;
        for run in self.acked.runs() {
            found.extend(ledger.runs(after, ledger.previous(Position::new(run.ledger.0, run.first))));
            after = Position::new(run.ledger.0, run.last);
        }
        found.extend(ledger.runs(after, ledger.last_confirmed()));
        found
    }

    /// Entries acked individually beyond the mark-delete position.
    pub fn acked_beyond(&self) -> u64 {
        self.acked.total()
    }

    /// Ranges acked individually beyond the mark-delete position; a range ends with its ledger.
    pub fn ranges(&self) -> usize {
        self.acked.runs().count()
    }

    /// Entries not acked, up to the last confirmed one. Exact.
    #[inline]
    pub fn backlog(&self, ledger: &ManagedLedger) -> u64 {
        ledger.count(self.mark_delete, ledger.last_confirmed()).saturating_sub(self.acked.total())
    }

    /// Moves to a new place: `next` will be delivered next, all acks beyond it are forgotten. A position that does not
    /// exist means the next one that does, or the end.
    pub fn seek(&mut self, next: Position, ledger: &ManagedLedger) {
        let next = ledger.at_or_next(next);
        self.acked.clear();
        self.batches.clear();
        self.mark_delete = ledger.previous(next);
        self.read = next;
        self.revision += 1;
    }

    /// Ledgers were trimmed: a cursor that stood in one of them moves to the first entry left.
    pub fn trimmed(&mut self, ledger: &ManagedLedger) {
        let front = ledger.before_first();
        if self.mark_delete < front {
            self.move_to(front, ledger);
            self.revision += 1;
        }
        if self.read <= front {
            self.read = ledger.next(self.mark_delete);
        }
    }

    /// `PositionInfo` bytes, an entry of a cursor ledger. Acks go as ranges or as bitmaps, whichever is smaller.
    pub fn encode_position(state: &CursorState) -> Vec<u8> {
        state.encode_position()
    }

    /// From `PositionInfo` bytes.
    pub fn decode_position(bytes: &[u8]) -> Result<CursorState, String> {
        CursorState::decode_position(bytes)
    }

    /// `ManagedCursorInfo` bytes: `cursor_ledger` is where the state is, or none when it is in this very value.
    /// With a cursor ledger, only the mark-delete position and the properties are in the value.
    pub fn encode_record(state: &CursorState, cursor_ledger: Option<LedgerId>, properties: &[(String, String)], now_ms: u64) -> Vec<u8> {
        state.encode_record(cursor_ledger, properties, now_ms)
    }

    /// From `ManagedCursorInfo` bytes, plain or compressed: state, cursor ledger, cursor properties.
    #[allow(clippy::type_complexity, reason = "three parts of one stored value")]
    pub fn decode_record(bytes: &[u8]) -> Result<(CursorState, Option<LedgerId>, Vec<(String, String)>), String> {
        let record: Record = CursorState::decode_record(bytes)?;
        Ok(record)
    }

    /// Whether nothing lies between the mark-delete position and `at`, which exists.
    #[inline]
    fn is_next(&self, at: Position, ledger: &ManagedLedger) -> bool {
        at == self.mark_delete.following() || (at.entry.0 == 0 && ledger.next(self.mark_delete) == at)
    }

    /// Moves the mark-delete position forward to `at`, over what is acked right behind it, and drops what it passes.
    #[inline]
    fn move_to(&mut self, at: Position, ledger: &ManagedLedger) {
        if self.is_next(at, ledger) {
            // Nothing is acked in between; only a ledger that is left may have a bitmap to give back.
            if at.ledger != self.mark_delete.ledger {
                self.acked.forget_before(at.ledger);
            }
        } else {
            self.acked.forget_through(at);
        }
        self.mark_delete = at;
        self.close_holes(ledger);
        if self.read <= self.mark_delete {
            self.read = ledger.next(self.mark_delete);
        }
    }

    fn close_holes(&mut self, ledger: &ManagedLedger) {
        while !self.acked.is_empty() {
            self.mark_delete.entry.0 += self.acked.take_run(self.mark_delete.following()) as i64;
            if self.mark_delete.entry < ledger.last_of(self.mark_delete.ledger) {
                break;
            }
            let next = ledger.next(self.mark_delete);
            if !self.acked.contains(next) {
                break;
            }
            self.acked.forget_before(next.ledger);
            self.mark_delete = Position { entry: crate::EntryId::NONE, ..next };
        }
        while let Some(batch) = self.batches.first_entry().filter(|batch| *batch.key() <= self.mark_delete) {
            batch.remove();
        }
    }
}

#[cfg(test)]
mod tests;
