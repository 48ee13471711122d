//! The block a worker fills during its turn, and the blocks it waits for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ledger::{BlockBuilder, Position, StoreError};
use topic::Tag;

use crate::letter::{Letter, TopicRef};
use crate::shared::Shared;

/// A block is handed over when it is this large even in the middle of a turn, so that the log can begin.
const FULL_BLOCK: usize = 512 * 1024;

/// What a topic has in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Entries of the topic, from the first to the last, in order.
    Entries { topic: TopicRef, first: Position, last: Position },
    /// A cursor's state.
    Cursor { topic: TopicRef, tag: Tag },
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    block: BlockBuilder,
    parts: Vec<Part>,
    /// With the moments at which the log was given them.
    waiting: VecDeque<(Vec<Part>, Instant)>,
    spare: Vec<Vec<Part>>,
    pub(crate) blocks: u64,
}

impl Storage {
    pub(crate) fn append(&mut self, topic: TopicRef, at: Position, last_confirmed: i64, bytes: &[u8]) {
        self.block.push(at, last_confirmed, bytes);
        if let Some(Part::Entries { topic: before, last, .. }) = self.parts.last_mut()
            && *before == topic
            && last.ledger == at.ledger
        {
            *last = at;
            return;
        }
        self.parts.push(Part::Entries { topic, first: at, last: at });
    }

    pub(crate) fn append_cursor(&mut self, topic: TopicRef, tag: Tag, at: Position, bytes: &[u8]) {
        self.block.push(at, -1, bytes);
        self.parts.push(Part::Cursor { topic, tag });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.block.len() >= FULL_BLOCK
    }

    /// Hands the block to the log; its outcome comes back by mailbox.
    pub(crate) fn hand_over(&mut self, worker: u16, shared: &Arc<Shared>) {
        if self.block.is_empty() {
            return;
        }
        let parts = std::mem::replace(&mut self.parts, self.spare.pop().unwrap_or_default());
        self.waiting.push_back((parts, Instant::now()));
        self.blocks += 1;
        let (block, to) = (self.block.finish(), shared.clone());
        let bytes = block.bytes.len();
        shared.log_room.take(bytes);
        let done = move |outcome: Result<(), StoreError>| {
            to.post(worker, Letter::BlockDone(outcome));
            for waiting in to.log_room.give(bytes) {
                to.post(waiting, Letter::LogHasRoom);
            }
        };
        shared.store.append(block, Box::new(done));
    }

    /// The parts of the oldest block that was handed over, and how long ago that was, in microseconds.
    pub(crate) fn oldest(&mut self) -> (Vec<Part>, u64) {
        let Some((parts, began)) = self.waiting.pop_front() else { return (Vec::new(), 0) };
        (parts, u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Takes a vector back for the next block.
    pub(crate) fn recycle(&mut self, mut parts: Vec<Part>) {
        parts.clear();
        if self.spare.len() < 8 {
            self.spare.push(parts);
        }
    }
}
