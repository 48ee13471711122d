//! A worker's deadlines: one heap for all its topics.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines on the worker's monotonic clock, in milliseconds. A topic may have several entries; only the earliest counts,
/// the others are dropped when they come up.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Timers {
    pub(crate) fn arm(&mut self, at: u64, slot: u32, generation: u32) {
        self.heap.push(Reverse((at, slot, generation)));
    }

    /// The next topic that is due, if any.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, u32, u32)> {
        let Reverse((at, _, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }
}
