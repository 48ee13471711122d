//! A subscription's place: mark-delete position, what is acked beyond it, and where it reads next.

use crate::{ManagedLedger, Position};

/// The messages of one batch that are still to be acked: bit i of the words (low bit first) is message i, set = not acked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckSet(pub Vec<u64>);

/// What acking part of a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAck {
    /// Messages that were not acked before.
    pub newly_acked: u32,
    /// Whether the whole entry is acked now.
    pub entry_done: bool,
}

/// What is persisted of a cursor; `properties` travel with the mark-delete position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorState {
    /// Everything at or below is acked.
    pub mark_delete: Position,
    /// Ranges (lower, upper] acked beyond it.
    pub acked: Vec<(Position, Position)>,
    /// Partly acked batches.
    pub batches: Vec<(Position, AckSet)>,
    /// Pulsar's (string, int64) properties.
    pub properties: Vec<(String, i64)>,
}

/// The cursor. It never asks for time or storage; positions are interpreted against the topic's [`ManagedLedger`].
#[derive(Debug)]
pub struct Cursor {}

#[allow(missing_docs, unused_variables, clippy::todo, reason = "contract first, bodies next")]
impl Cursor {
    /// A cursor that has everything at or below `mark_delete` behind it and reads next right after.
    pub fn new(mark_delete: Position, ledger: &ManagedLedger) -> Cursor {
        todo!()
    }
    /// From persisted state; positions of vanished ledgers move to where the chain now begins, positions past the end to the end.
    pub fn restore(state: CursorState, ledger: &ManagedLedger) -> Cursor {
        todo!()
    }
    /// What to persist, at most `max_ranges` ranges and `max_batches` batches; the rest is redelivered after a restart.
    pub fn state(&self, max_ranges: usize, max_batches: usize) -> CursorState {
        todo!()
    }
    /// Grows with every change that [`state`](Self::state) would show; for knowing what is dirty.
    pub fn revision(&self) -> u64 {
        todo!()
    }

    pub fn mark_delete(&self) -> Position {
        todo!()
    }
    /// Where it reads next; may be one past the end.
    pub fn read_position(&self) -> Position {
        todo!()
    }
    /// Moves the read position, forwards or back.
    pub fn read_from(&mut self, at: Position) {
        todo!()
    }
    /// Reads again from right after the mark-delete position.
    pub fn rewind(&mut self, ledger: &ManagedLedger) {
        todo!()
    }

    /// Acks one entry; false if it was acked already (or does not exist). The mark-delete position moves over every hole that closed.
    pub fn ack(&mut self, at: Position, ledger: &ManagedLedger) -> bool {
        todo!()
    }
    /// Acks the messages of a batch of `messages` whose bits are clear in `remaining`.
    pub fn ack_batch(&mut self, at: Position, remaining: &AckSet, messages: u32, ledger: &ManagedLedger) -> BatchAck {
        todo!()
    }
    /// Acks everything up to and including `at`; false if the mark-delete position was there already. The read position moves forward if it was behind.
    pub fn ack_cumulative(&mut self, at: Position, ledger: &ManagedLedger) -> bool {
        todo!()
    }
    /// Acks everything before `at`, and of the batch at `at` the messages whose bits are clear in `remaining`.
    pub fn ack_cumulative_in_batch(&mut self, at: Position, remaining: &AckSet, messages: u32, ledger: &ManagedLedger) -> bool {
        todo!()
    }
    /// Whether the entry is acked as a whole.
    pub fn is_acked(&self, at: Position) -> bool {
        todo!()
    }
    /// What is left of a partly acked batch; none if nothing of it, or all of it, is acked.
    pub fn remaining(&self, at: Position) -> Option<&AckSet> {
        todo!()
    }
    /// `from` if it is not acked, else the first entry after it that is not acked; may be one past the end.
    pub fn next_unacked(&self, from: Position, ledger: &ManagedLedger) -> Position {
        todo!()
    }
    /// Entries acked individually beyond the mark-delete position.
    pub fn acked_beyond(&self) -> u64 {
        todo!()
    }
    /// Ranges acked individually beyond the mark-delete position.
    pub fn ranges(&self) -> usize {
        todo!()
    }
    /// Entries not acked, up to the last confirmed one. Exact.
    pub fn backlog(&self, ledger: &ManagedLedger) -> u64 {
        todo!()
    }
    /// Moves to a new place: `next` will be delivered next, all acks beyond it are forgotten.
    pub fn seek(&mut self, next: Position, ledger: &ManagedLedger) {
        todo!()
    }
    /// Ledgers were trimmed: a non-durable cursor that stood in one of them moves to the first entry left.
    pub fn trimmed(&mut self, ledger: &ManagedLedger) {
        todo!()
    }

    /// `PositionInfo` bytes, an entry of a cursor ledger.
    pub fn encode_position(state: &CursorState) -> Vec<u8> {
        todo!()
    }
    /// From `PositionInfo` bytes.
    pub fn decode_position(bytes: &[u8]) -> Result<CursorState, String> {
        todo!()
    }
    /// `ManagedCursorInfo` bytes: `cursor_ledger` is where the state is, or none when it is in this very value.
    pub fn encode_record(
        state: &CursorState,
        cursor_ledger: Option<crate::LedgerId>,
        properties: &[(String, String)],
        now_ms: u64,
    ) -> Vec<u8> {
        todo!()
    }
    /// From `ManagedCursorInfo` bytes: state, cursor ledger, cursor properties.
    #[allow(clippy::type_complexity, reason = "three parts of one stored value")]
    pub fn decode_record(bytes: &[u8]) -> Result<(CursorState, Option<crate::LedgerId>, Vec<(String, String)>), String> {
        todo!()
    }
}
