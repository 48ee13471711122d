//! Finding the first message published at or after a time: a binary search over entry numbers, one entry read per probe.
//!
//! Publish times are the producers', so they need not grow; then the result is approximate, as in Pulsar.

use ledger::{ManagedLedger, Position, StoredEntry};

use crate::errand::Errand;
use crate::lent::{BackOff, Lent};
use crate::peek::entry_meta;
use crate::{Effect, Tag, Turn};

/// How far a producer's clock may differ from ours when ledgers are ruled out by the time they were closed.
const CLOCK_SKEW_MS: u64 = 60_000;

/// A search under way.
#[derive(Debug)]
pub(crate) struct TimeSearch {
    time: u64,
    /// Everything up to here was published before the time.
    before: Position,
    /// The entry found so far, or one past the end.
    found: Position,
    probe: Option<(Tag, Position)>,
    begins_with_first: bool,
    back_off: BackOff,
}

impl TimeSearch {
    /// A search among the entries there are now.
    pub(crate) fn new(time: u64, ledger: &ManagedLedger) -> TimeSearch {
        let mut search = TimeSearch {
            time,
            before: ledger.before_first(),
            found: ledger.next(ledger.last_confirmed()),
            probe: None,
            begins_with_first: false,
            back_off: BackOff::default(),
        };
        search.narrow(ledger);
        search
    }

    /// A search among the entries after `before`, which begins with the first of them: mostly that is young enough.
    pub(crate) fn after(before: Position, time: u64, ledger: &ManagedLedger) -> TimeSearch {
        let mut search = TimeSearch::new(time, ledger);
        search.before = search.before.max(before);
        search.begins_with_first = true;
        search
    }

    /// Closed ledgers tell much without a read.
    fn narrow(&mut self, ledger: &ManagedLedger) {
        for summary in ledger.ledgers() {
            if summary.closed_at_ms == 0 || summary.entries == 0 {
                continue;
            }
            let last = Position { ledger: summary.id, entry: ledger.last_of(summary.id) };
            if summary.closed_at_ms.saturating_add(CLOCK_SKEW_MS) < self.time {
                self.before = self.before.max(last);
            } else if summary.closed_at_ms > self.time.saturating_add(CLOCK_SKEW_MS) {
                self.found = self.found.min(ledger.next(last));
            }
        }
    }

    /// Goes on until a read is needed; returns the place once it is found.
    pub(crate) fn poll(&mut self, errand: Errand, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Option<Position> {
        if self.probe.is_some() || self.back_off.is_waiting() {
            return None;
        }
        loop {
            // Ledgers may have been trimmed since.
            self.before = self.before.max(lent.ledger.before_first());
            self.found = self.found.max(lent.ledger.first());
            let between = lent.ledger.count(self.before, lent.ledger.previous(self.found));
            if between == 0 {
                return Some(self.found);
            }
            let step = if self.begins_with_first { 1 } else { between.div_ceil(2) };
            let middle = lent.ledger.skip(self.before, step);
            let Some(entry) = turn.cache.get(lent.cache, middle) else {
                self.read(middle, errand, lent, turn);
                return None;
            };
            let published = entry.meta.publish_time_ms;
            self.learn(middle, published);
        }
    }

    /// A probe was read. Returns false if it was not this search's.
    pub(crate) fn arrived(&mut self, tag: Tag, entry: Option<StoredEntry>, turn: &Turn<'_>) -> bool {
        let Some((_, at)) = self.probe.take_if(|(asked, _)| *asked == tag) else { return false };
        match entry.filter(|entry| entry.id == at.entry) {
            Some(entry) => {
                self.back_off.worked();
                self.learn(at, entry_meta(&entry.bytes).publish_time_ms);
            }
            None => {
                self.back_off.failed(turn.now);
            }
        }
        true
    }

    pub(crate) fn retry_at(&self) -> Option<u64> {
        self.back_off.until()
    }

    pub(crate) fn may_retry(&mut self, now: crate::Now) -> bool {
        self.back_off.is_over(now)
    }

    fn read(&mut self, at: Position, errand: Errand, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let tag = lent.errands.begin(errand);
        self.probe = Some((tag, at));
        turn.out.push(Effect::Read { tag, from: at, last: at, max_entries: 1, max_bytes: lent.settings.max_read_bytes });
    }

    fn learn(&mut self, at: Position, published: u64) {
        self.begins_with_first = false;
        if published >= self.time {
            self.found = at;
        } else {
            self.before = at;
        }
    }
}
