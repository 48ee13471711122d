//! Messages whose time has not come: where they are and when they are due, in a few bytes each.
//!
//! A wheel of buckets, each 64 times as wide as those of the level below it: the nearest 64 ticks have a bucket each, what is far
//! away shares wide ones that are divided when their time comes. So the number of buckets stays in the hundreds whatever the
//! delays are, and the entries in one are a run of differences. An entry costs 1 to 3 bytes for its place and 1 to 3 for its tick,
//! with the room the runs grow by at most 8 (see the tests); it is copied once a level, about once an hour.
//!
//! Never early: times are rounded up to a tick, so an entry is late by at most one.

use std::collections::{BTreeMap, VecDeque};

use ledger::{EntryId, LedgerId, Position};

use crate::Now;
use crate::redelivery::Redelivery;

/// Entries one subscription looks ahead at most: beyond that reading waits, so that its memory stays below 100 MB.
const MOST: u64 = 10_000_000;
/// Entries moved from a wide bucket to narrow ones in one go; the rest follows in the next.
const DIVIDED_AT_ONCE: usize = 50_000;
/// The wall clock may be set: it is looked at this often, in milliseconds, however far away the next entry is due.
const LONGEST_WAIT_MS: u64 = 60_000;
/// Each level's buckets are 2 to the power of this as wide as those below.
const LEVEL_BITS: u32 = 6;

/// What a subscription has read and does not deliver yet.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    tick_ms: u64,
    /// By the tick at which it is looked at, and its level.
    wheel: BTreeMap<(u64, u32), Run>,
    /// A wide bucket whose time has come, and when it began.
    dividing: Option<Box<(u64, Walk)>>,
    /// Due, and not drawn into `due` yet.
    ripe: VecDeque<Walk>,
    /// Due, in position order.
    due: Redelivery,
    entries: u64,
    in_a_row: u32,
    wake_at: Option<u64>,
}

impl Delayed {
    /// Entries that wait, those included that are due and were not delivered yet.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.entries
    }

    /// Whether it looks ahead as far as it may.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries >= MOST
    }

    /// How many new entries in a row were put off: whoever reads on for one that may be sent should read as many more.
    #[inline]
    pub(crate) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// A new entry was not put off.
    #[inline]
    pub(crate) fn row_ended(&mut self) {
        self.in_a_row = 0;
    }

    /// Puts an entry off until the first tick at or after `deliver_at_ms`, which lies in the future.
    pub(crate) fn add(&mut self, at: Position, deliver_at_ms: u64, tick_ms: u64, now: Now) {
        if self.entries == 0 {
            self.tick_ms = tick_ms.max(1);
        }
        self.entries += 1;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.place(at, deliver_at_ms.div_ceil(self.tick_ms), now.wall_ms / self.tick_ms);
        self.arm(now);
    }

    /// Time has passed: what is due now can be had from [`first_due`](Self::first_due).
    pub(crate) fn advance(&mut self, now: Now) {
        if self.wheel.is_empty() && self.dividing.is_none() {
            return;
        }
        let tick = now.wall_ms / self.tick_ms;
        let mut most = DIVIDED_AT_ONCE;
        while most > 0 {
            if let Some(dividing) = self.dividing.take() {
                let (start, walk) = *dividing;
                most = self.divide(start, walk, tick, most);
                continue;
            }
            let Some(bucket) = self.wheel.first_entry().filter(|bucket| bucket.key().0 <= tick) else { break };
            match bucket.remove_entry() {
                ((_, 0), run) => self.ripe.push_back(run.walk(false)),
                ((start, _), run) => self.dividing = Some(Box::new((start, run.walk(true)))),
            }
        }
        self.arm(now);
    }

    /// Moves entries of a wide bucket to narrower ones; returns how many more may be moved.
    fn divide(&mut self, start: u64, mut walk: Walk, tick: u64, most: usize) -> usize {
        let mut ripe = Run::default();
        let mut left = most;
        while left > 0 {
            let Some((at, offset)) = walk.next() else { break };
            left -= 1;
            match start + offset {
                due if due <= tick => ripe.push(at, None),
                due => self.place(at, due, tick),
            }
        }
        if ripe.entries > 0 {
            self.ripe.push_back(ripe.walk(false));
        }
        if left == 0 {
            self.dividing = Some(Box::new((start, walk)));
        }
        left
    }

    /// The first entry that is due, by position. At most `limit` are held ready.
    pub(crate) fn first_due(&mut self, limit: usize) -> Option<Position> {
        if let Some(first) = self.due.first() {
            return Some(first);
        }
        for _ in 0..limit.max(1) {
            let Some(walk) = self.ripe.front_mut() else { break };
            match walk.next() {
                Some((at, _)) => self.due.add(at),
                None => drop(self.ripe.pop_front()),
            }
        }
        // The last walk may have ended just now, with more behind it.
        if self.due.first().is_none() && !self.ripe.is_empty() { self.first_due(limit) } else { self.due.first() }
    }

    /// The last of the due entries that follow each other without a gap from the first on.
    pub(crate) fn end_of_first_run(&self, limit: usize) -> Option<Position> {
        self.due.end_of_first_run(limit)
    }

    /// Whether the entry is held ready.
    pub(crate) fn is_due(&self, at: Position) -> bool {
        self.due.contains(at)
    }

    /// A due entry was delivered, or is not wanted any more.
    pub(crate) fn done(&mut self, at: Position) {
        if self.due.contains(at) {
            self.due.remove(at);
            self.entries -= 1;
        }
    }

    /// When [`advance`](Self::advance) has something to do, on the monotonic clock.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.wake_at
    }

    /// Forgets everything; it is read again.
    pub(crate) fn clear(&mut self) {
        *self = Delayed::default();
    }

    fn place(&mut self, at: Position, due: u64, tick: u64) {
        let level = due.saturating_sub(tick).max(1).ilog2() / LEVEL_BITS;
        // It begins after this tick, because the entry is at least a whole bucket away.
        let start = due >> (level * LEVEL_BITS) << (level * LEVEL_BITS);
        let offset = (level > 0).then_some(due - start);
        self.wheel.entry((start, level)).or_default().push(at, offset);
    }

    fn arm(&mut self, now: Now) {
        let next = match &self.dividing {
            Some(dividing) => Some(dividing.0),
            None => self.wheel.first_key_value().map(|((start, _), _)| *start),
        };
        let next = next.map(|start| start.saturating_mul(self.tick_ms));
        self.wake_at = next.map(|wall| now.monotonic_ms + wall.saturating_sub(now.wall_ms).min(LONGEST_WAIT_MS));
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let runs = self.wheel.values().chain(self.ripe.iter().map(|walk| &walk.run));
        runs.map(|run| run.bytes.capacity() + size_of::<((u64, u32), Run)>() * 3 / 2).sum()
    }
}

/// Entries in the order they were put off, each as its difference to the one before.
#[derive(Debug)]
struct Run {
    bytes: Vec<u8>,
    last: Position,
    entries: u64,
}

impl Default for Run {
    fn default() -> Run {
        Run { bytes: Vec::new(), last: Position::EARLIEST, entries: 0 }
    }
}

impl Run {
    fn push(&mut self, at: Position, offset: Option<u64>) {
        // By a quarter: twice the room would be half of the memory.
        if self.bytes.capacity() - self.bytes.len() < 32 {
            self.bytes.reserve_exact((self.bytes.len() / 4).max(32));
        }
        let step = at.entry.0 - self.last.entry.0;
        if at.ledger == self.last.ledger && step > 0 {
            self.number(step.unsigned_abs());
        } else {
            self.number(0);
            self.number(at.ledger.0.unsigned_abs());
            self.number(at.entry.0.unsigned_abs());
        }
        if let Some(offset) = offset {
            self.number(offset);
        }
        self.last = at;
        self.entries += 1;
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Its entries, each with its offset if they have one.
    fn walk(self, has_offsets: bool) -> Walk {
        Walk { run: self, next: 0, at: Position::EARLIEST, has_offsets }
    }
}

/// A way through a run.
#[derive(Debug)]
struct Walk {
    run: Run,
    next: usize,
    at: Position,
    has_offsets: bool,
}

impl Walk {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.run.bytes.get(self.next)?;
            self.next += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(number)
    }
}

impl Iterator for Walk {
    type Item = (Position, u64);

    fn next(&mut self) -> Option<(Position, u64)> {
        match self.number()?.cast_signed() {
            0 => self.at = Position { ledger: LedgerId(self.number()?.cast_signed()), entry: EntryId(self.number()?.cast_signed()) },
            step => self.at.entry.0 += step,
        }
        let offset = if self.has_offsets { self.number()? } else { 0 };
        Some((self.at, offset))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const START: u64 = 1_700_000_000_000;

    fn now(ms: u64) -> Now {
        Now { monotonic_ms: 5_000 + ms, wall_ms: START + ms }
    }

    /// Takes what is due, as a dispatcher does.
    fn take(delayed: &mut Delayed, ms: u64) -> Vec<Position> {
        delayed.advance(now(ms));
        let mut taken = Vec::new();
        while let Some(at) = delayed.first_due(100) {
            delayed.done(at);
            taken.push(at);
        }
        taken
    }

    #[test]
    fn nothing_comes_early_and_nothing_later_than_a_tick() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut delayed = Delayed::default();
        let mut due = BTreeMap::new();
        let mut ms = 0;
        for entry in 0..20_000 {
            let at = Position::new(3 + entry / 7_000, entry);
            let most = 1 << rng.u32(1..24);
            let deliver_at = START + ms + rng.u64(1..=most);
            delayed.add(at, deliver_at, 100, now(ms));
            due.insert(at, deliver_at);
            ms += rng.u64(..20);
        }
        assert_eq!(delayed.len(), 20_000);
        while delayed.len() > 0 {
            let next = delayed.deadline().expect("something waits") - 5_000;
            ms = ms.max(next);
            for at in take(&mut delayed, ms) {
                let deliver_at = due.remove(&at).unwrap_or_else(|| panic!("{at} came twice"));
                assert!(deliver_at <= START + ms, "{at} came {} ms early", deliver_at - START - ms);
            }
            let overdue = due.values().filter(|at| **at + 100 <= START + ms).count();
            assert_eq!(overdue, 0, "entries are late at {ms}");
        }
        assert!(due.is_empty());
    }

    #[test]
    fn due_entries_come_in_position_order_and_in_runs() {
        let mut delayed = Delayed::default();
        for entry in (0..10).rev() {
            delayed.add(Position::new(1, entry), START + 500, 100, now(0));
        }
        delayed.advance(now(499));
        assert_eq!(delayed.first_due(100), None);
        delayed.advance(now(500));
        assert_eq!(delayed.first_due(100), Some(Position::new(1, 0)));
        assert_eq!(delayed.end_of_first_run(100), Some(Position::new(1, 9)));
        assert_eq!(take(&mut delayed, 500).len(), 10);
        assert_eq!(delayed.len(), 0);
    }

    #[test]
    fn a_clock_that_is_set_forwards_is_noticed_within_a_minute() {
        let mut delayed = Delayed::default();
        delayed.add(Position::new(1, 0), START + 86_400_000, 1_000, now(0));
        assert_eq!(delayed.deadline(), Some(65_000));
    }

    /// The figures that the module states.
    #[test]
    fn a_million_entries_take_less_than_eight_bytes_each() {
        let mut rng = fastrand::Rng::with_seed(7);
        for (what, longest_ms) in [("one minute", 60_000), ("one hour", 3_600_000), ("a month", 30 * 86_400_000_u64)] {
            let mut delayed = Delayed::default();
            for entry in 0..1_000_000 {
                delayed.add(Position::new(9, entry), START + rng.u64(1..longest_ms), 1_000, now(0));
            }
            let each = delayed.bytes() as f64 / 1e6;
            eprintln!("random delays within {what}: {each:.2} bytes each");
            assert!(each < 8.0, "{what}: {each} bytes");
        }
        let mut delayed = Delayed::default();
        for entry in 0..1_000_000 {
            delayed.add(Position::new(9, entry), START + 3_600_000, 1_000, now(0));
        }
        let each = delayed.bytes() as f64 / 1e6;
        eprintln!("one delay for all: {each:.2} bytes each");
        assert!(each < 4.0);
    }
}
