//! Reading what a compaction left: up to its horizon from the compacted ledger, from there on from the topic.
//!
//! The read position is that of the topic all along, but may name places that only the compacted ledger has.

use ledger::{Entry, EntryId, LedgerId, ManagedLedger, Position};
use wire::payload::RawMessage;

use super::Compacted;
use crate::dispatcher::Lane;
use crate::errand::SubscriptionIndex;
use crate::lent::Lent;
use crate::peek::entry_meta;
use crate::read_ahead::{Range, ReadAhead, Wanted};
use crate::{Effect, Turn};

/// Where a subscription is in the compacted ledger.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The compacted ledger that the rest is about.
    ledger: Option<LedgerId>,
    /// A position, and the number of the first entry at or after it.
    place: Option<(Position, i64)>,
    /// A position whose place lies between these numbers.
    search: Option<(Position, i64, i64)>,
    pub(crate) reads: ReadAhead,
}

/// What comes next.
pub(crate) enum Viewed {
    Entry(Entry),
    /// Something has to be read first.
    Wait,
    /// The rest is in the topic.
    Beyond,
}

impl Lane {
    /// The next entry from the compacted ledger.
    pub(crate) fn next_viewed(&mut self, permits: i64, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Viewed {
        let Lane { view: Some(view), cursor, index, .. } = self else { return Viewed::Beyond };
        loop {
            let from = cursor.read_position();
            let Some(compacted) = lent.compacted.filter(|compacted| from <= compacted.horizon) else { return Viewed::Beyond };
            let Some(number) = view.find(from, &compacted, *index, lent, turn) else { return Viewed::Wait };
            if number > compacted.last.0 {
                cursor.read_from(compacted.horizon.following());
                return Viewed::Beyond;
            }
            let Some(raw) = view.take(number, permits, &compacted, *index, lent, turn) else { return Viewed::Wait };
            let at = Position::new(raw.ledger, raw.entry);
            view.place = Some((at.following(), number + 1));
            if at > lent.ledger.before_first() && cursor.is_acked(at) {
                cursor.read_from(at.following());
                continue;
            }
            return Viewed::Entry(Entry { at, meta: entry_meta(&raw.payload), bytes: raw.payload });
        }
    }

    /// Reads again from the first entry that is not acked.
    pub(crate) fn rewind(&mut self, ledger: &ManagedLedger) {
        self.cursor.rewind(ledger);
        if self.view.is_some()
            && let Some(floor) = self.floor
            && self.has_consumed_nothing(ledger)
            && floor < ledger.before_first()
        {
            self.cursor.read_from(floor.following());
        }
    }

    /// Whether nothing of what the topic has is acked up to the end of its first entry.
    fn has_consumed_nothing(&self, ledger: &ManagedLedger) -> bool {
        ledger.at_or_previous(self.cursor.mark_delete()) == ledger.before_first()
    }

    /// Everything up to `at` is acked, which may lie before all that the topic has.
    pub(crate) fn raise_floor(&mut self, at: Position) {
        self.floor = self.floor.map(|floor| floor.max(at));
    }

    /// Ledgers are about to be trimmed: the place of a view is noted while it has a name.
    pub(crate) fn before_trim(&mut self, ledger: &ManagedLedger) {
        if self.view.is_some() && !self.has_consumed_nothing(ledger) {
            let consumed = self.cursor.mark_delete();
            self.floor = Some(self.floor.map_or(consumed, |floor| floor.max(consumed)));
        }
    }
}

impl View {
    /// The number of the first compacted entry at or after `from`; none while it is being looked for.
    fn find(
        &mut self,
        from: Position,
        compacted: &Compacted,
        index: SubscriptionIndex,
        lent: &mut Lent<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<i64> {
        if self.ledger != Some(compacted.ledger) {
            *self = View { ledger: Some(compacted.ledger), ..View::default() };
        }
        if let Some((at, number)) = self.place
            && at == from
        {
            return Some(number);
        }
        let all = (0, compacted.last.0 + 1);
        let (mut low, mut high) = match self.search {
            Some((at, low, high)) if at == from => (low, high),
            _ if from.ledger < LedgerId(0) => (0, 0),
            _ => {
                self.reads.forget();
                all
            }
        };
        while low < high {
            let middle = low.midpoint(high);
            let at = Position { ledger: compacted.ledger, entry: EntryId(middle) };
            let Some(entry) = self.reads.take(at) else {
                self.search = Some((from, low, high));
                self.reads.ask(Wanted::New, Range { from: at, last: at, max_entries: 1 }, index, lent, turn);
                return None;
            };
            let before = RawMessage::decode(&entry.bytes).is_ok_and(|raw| Position::new(raw.ledger, raw.entry) < from);
            (low, high) = if before { (middle + 1, high) } else { (low, middle) };
        }
        self.search = None;
        self.place = Some((from, low));
        Some(low)
    }

    /// The entry of this number, if it was read.
    fn take(
        &mut self,
        number: i64,
        permits: i64,
        compacted: &Compacted,
        index: SubscriptionIndex,
        lent: &mut Lent<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<RawMessage> {
        let at = |entry| Position { ledger: compacted.ledger, entry };
        let Some(entry) = self.reads.take(at(EntryId(number))) else {
            let max_entries = usize::try_from(permits).unwrap_or(1).clamp(1, lent.settings.max_read_entries.max(1));
            self.reads.ask(Wanted::New, Range { from: at(EntryId(number)), last: at(compacted.last), max_entries }, index, lent, turn);
            return None;
        };
        match RawMessage::decode(&entry.bytes) {
            Ok(raw) => Some(raw),
            Err(error) => {
                // It passed its checksum, so to read it again would not help. Nothing is delivered past it.
                let message = format!("compacted entry {} cannot be read: {error}; compact the topic again", entry.at);
                turn.out.push(Effect::Report { message });
                None
            }
        }
    }
}
