//! What is being read from storage for a subscription, and what has come back and waits to be dispatched.

use std::collections::VecDeque;

use ledger::{Entry, Position, StoreError, StoredEntry};

use crate::errand::{Errand, SubscriptionIndex};
use crate::lent::{BackOff, Lent};
use crate::peek::entry_meta;
use crate::{Effect, ReadOutcome, Tag, TopicSettings, Turn};

/// Which of the two reads a subscription may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Entries from the read position on.
    New,
    /// Entries to be delivered again.
    Again,
}

/// Read-ahead of one subscription: at most one read for new entries and one for redelivery.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    staged: VecDeque<Entry>,
    /// So many are staged when those that are not needed any more are dropped.
    sweep_at: usize,
    new: Option<Open>,
    again: Option<Open>,
    back_off: BackOff,
    /// How often a read has worked since one failed; none once reads are as large as they may be.
    recovering: Option<u32>,
}

/// A read in flight.
#[derive(Clone, Copy, Debug)]
struct Open {
    tag: Tag,
    from: Position,
}

impl ReadAhead {
    /// The entry at `at`, if a read has brought it.
    pub(crate) fn take(&mut self, at: Position) -> Option<Entry> {
        let front = self.staged.front()?;
        if front.at == at {
            return self.staged.pop_front();
        }
        let index = self.staged.binary_search_by(|entry| entry.at.cmp(&at)).ok()?;
        self.staged.remove(index)
    }

    /// An entry that was taken is not wanted yet after all.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        if let Err(index) = self.staged.binary_search_by(|other| other.at.cmp(&entry.at)) {
            self.staged.insert(index, entry);
        }
    }

    /// Asks for entries of one ledger, unless a read of this kind is in flight or a failed one is to be waited out.
    pub(crate) fn ask(&mut self, wanted: Wanted, range: Range, index: SubscriptionIndex, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        if self.back_off.is_waiting() {
            return;
        }
        let max_entries = self.size(range.max_entries, lent.settings);
        let place = match wanted {
            Wanted::New => &mut self.new,
            Wanted::Again => &mut self.again,
        };
        if place.is_some() {
            return;
        }
        let tag = lent.errands.begin(Errand::Read(index));
        *place = Some(Open { tag, from: range.from });
        turn.out.push(Effect::Read { tag, from: range.from, last: range.last, max_entries, max_bytes: lent.settings.max_read_bytes });
    }

    /// Whether a read of this tag is in flight.
    pub(crate) fn expects(&self, tag: Tag) -> bool {
        [self.new, self.again].into_iter().flatten().any(|open| open.tag == tag)
    }

    /// A read has ended. Entries that `needed` refuses are not kept. Returns whether there may be something to dispatch.
    pub(crate) fn arrived(&mut self, outcome: ReadOutcome, needed: impl Fn(Position) -> bool, turn: &mut Turn<'_>) -> bool {
        let Some(open) = self.close(outcome.tag) else { return false };
        let entries = match outcome.entries {
            Ok(entries) if entries.first().is_some_and(|first| first.id == open.from.entry) => entries,
            Ok(_) => {
                let missing = StoreError::Io(format!("nothing was read at {}", open.from));
                return self.failed(&missing, open.from, turn);
            }
            Err(error) => return self.failed(&error, open.from, turn),
        };
        self.back_off.worked();
        self.recovering = self.recovering.map(|worked| worked.saturating_add(1));
        // Not each time, as what is staged may be much.
        if self.staged.len() >= self.sweep_at {
            self.staged.retain(|entry| needed(entry.at));
            self.sweep_at = LEAST_SWEPT.max(self.staged.len() * 2);
        }
        for entry in entries {
            self.stage(outcome.ledger, entry, &needed);
        }
        true
    }

    /// A damaged or missing entry is never skipped: reading stops there and is tried again, later and later.
    fn failed(&mut self, error: &StoreError, from: Position, turn: &mut Turn<'_>) -> bool {
        self.recovering = Some(0);
        if self.back_off.failed(turn.now) {
            turn.out.push(Effect::Report { message: format!("reading from {from} failed and is tried again: {error}") });
        }
        false
    }

    /// Entries to ask for: few after a failure, so that storage in trouble is not asked for much that is thrown away, and twice as many
    /// after each read that works.
    fn size(&mut self, wanted: usize, settings: &TopicSettings) -> usize {
        let Some(worked) = self.recovering else { return wanted };
        let most = settings.min_read_entries.max(1).saturating_mul(1_usize.checked_shl(worked).unwrap_or(usize::MAX));
        if most >= settings.max_read_entries {
            self.recovering = None;
        }
        wanted.min(most)
    }

    /// When a failed read is tried again.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        self.back_off.until()
    }

    /// Whether the wait after a failed read just ended.
    pub(crate) fn may_retry(&mut self, now: crate::Now) -> bool {
        self.back_off.is_over(now)
    }

    /// The read position jumped: what is on its way or staged belongs to the past.
    pub(crate) fn forget(&mut self) {
        *self = ReadAhead::default();
    }

    /// The read position went back: a read in flight would leave a gap.
    pub(crate) fn forget_new(&mut self) {
        self.new = None;
    }

    fn close(&mut self, tag: Tag) -> Option<Open> {
        for place in [&mut self.new, &mut self.again] {
            if place.is_some_and(|open| open.tag == tag) {
                return place.take();
            }
        }
        None
    }

    fn stage(&mut self, ledger: ledger::LedgerId, stored: StoredEntry, needed: &impl Fn(Position) -> bool) {
        let at = Position { ledger, entry: stored.id };
        if !needed(at) {
            return;
        }
        let entry = Entry { at, meta: entry_meta(&stored.bytes), bytes: stored.bytes };
        if self.staged.back().is_none_or(|last| last.at < at) {
            self.staged.push_back(entry);
        } else if let Err(index) = self.staged.binary_search_by(|other| other.at.cmp(&at)) {
            self.staged.insert(index, entry);
        }
    }
}

/// With fewer entries staged it is not worth looking for those that are not needed.
const LEAST_SWEPT: usize = 512;

/// Entries wanted of one ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: Position,
    pub(crate) last: Position,
    pub(crate) max_entries: usize,
}
