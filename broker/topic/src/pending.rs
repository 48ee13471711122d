//! What a subscription has read and nobody has acked: who holds it, how much of it is left, how often it was sent.
//!
//! Entries come in in position order, because new ones are read in that order, and mostly leave near the front. So they lie in
//! one deque, where an entry's number says where to look: an ack costs one probe, or a short binary search once gaps were closed.

use std::collections::VecDeque;

use ledger::Position;

use crate::consumer::ConsumerIndex;
use crate::redelivery::Redelivery;

/// The entries in flight of a subscription whose consumers take whatever comes.
pub(crate) type PendingAcks = Unacked<Redelivery>;

/// Where entries wait that nobody holds, and who wants to know what else becomes of entries.
pub(crate) trait Waiting {
    /// An entry that was never sent went to a consumer.
    fn sent(&mut self, slot: u16, to: ConsumerIndex);
    /// An entry that was never sent has to wait.
    fn parked(&mut self, at: Position, slot: u16);
    /// A consumer no longer holds an entry, which waits now.
    fn returned(&mut self, at: Position, slot: u16);
    /// A waiting entry went to a consumer.
    fn sent_again(&mut self, at: Position, slot: u16, to: ConsumerIndex);
    /// An entry is acked, or trimmed; it was waiting, or a consumer held it.
    fn gone(&mut self, at: Position, slot: u16, waited: bool);
}

/// One entry not acked.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Position,
    holder: Holder,
    messages: u32,
    remaining: u32,
    redeliveries: u32,
    /// The slot of its key.
    slot: u16,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Consumer(ConsumerIndex),
    /// To be delivered again.
    Nobody,
    /// Acked; its place is swept later.
    Done,
}

/// What an ack took away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Who held it; none if it waited for redelivery.
    pub(crate) holder: Option<ConsumerIndex>,
    /// Messages that were not acked.
    pub(crate) messages: u32,
}

/// The entries in flight of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Unacked<W> {
    entries: VecDeque<Pending>,
    live: usize,
    held: u64,
    again: W,
}

impl PendingAcks {
    /// A new entry of `messages` went to a consumer, of which `remaining` are not acked.
    pub(crate) fn delivered(&mut self, at: Position, to: ConsumerIndex, messages: u32, remaining: u32) {
        self.delivered_by_key(at, 0, to, messages, remaining);
    }

    /// An entry of `messages` that was passed over when it was read went to a consumer now.
    pub(crate) fn delivered_late(&mut self, at: Position, to: ConsumerIndex, messages: u32, remaining: u32) {
        self.delivered_late_by_key(at, 0, to, messages, remaining);
    }

    /// An entry that was never delivered waits for a consumer that takes nothing now; it does not count as one to deliver again.
    pub(crate) fn set_aside_late(&mut self, at: Position, messages: u32, remaining: u32) {
        self.insert(Pending { at, holder: Holder::Nobody, messages, remaining, redeliveries: 0, slot: 0 });
    }

    /// An entry to deliver again waits for a consumer that takes nothing now.
    pub(crate) fn set_aside(&mut self, at: Position) {
        self.again.remove(at);
    }

    /// An entry that was set aside waits no longer: anybody may have it.
    pub(crate) fn give_to_anybody(&mut self, at: Position) {
        if self.waiting(at).is_some() {
            self.again.add(at);
        }
    }
}

impl<W: Waiting + Default> Unacked<W> {
    /// Messages that consumers hold.
    pub(crate) fn held_messages(&self) -> u64 {
        self.held
    }

    /// What waits to be delivered again.
    pub(crate) fn again(&self) -> &W {
        &self.again
    }

    /// See [`again`](Self::again).
    pub(crate) fn again_mut(&mut self) -> &mut W {
        &mut self.again
    }

    /// A new entry of `messages` went to a consumer, of which `remaining` are not acked.
    pub(crate) fn delivered_by_key(&mut self, at: Position, slot: u16, to: ConsumerIndex, messages: u32, remaining: u32) {
        self.take_in(Pending { at, holder: Holder::Consumer(to), messages, remaining, redeliveries: 0, slot });
        self.held += u64::from(remaining);
        self.again.sent(slot, to);
    }

    /// A new entry of `messages`, of which `remaining` are not acked, cannot be sent yet.
    pub(crate) fn parked(&mut self, at: Position, slot: u16, messages: u32, remaining: u32) {
        self.take_in(Pending { at, holder: Holder::Nobody, messages, remaining, redeliveries: 0, slot });
        self.again.parked(at, slot);
    }

    fn take_in(&mut self, entry: Pending) {
        debug_assert!(self.entries.back().is_none_or(|last| last.at < entry.at), "new entries come in order");
        self.entries.push_back(entry);
        self.live += 1;
    }

    /// The oldest entry in flight.
    pub(crate) fn first(&self) -> Option<Position> {
        self.entries.front().map(|entry| entry.at)
    }

    /// The last waiting entry of the next `limit` from `at` on, in the same ledger, that is `wanted`; `at` if there is no other.
    pub(crate) fn last_waiting(&self, at: Position, limit: usize, wanted: impl Fn(Position, u16) -> bool) -> Position {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let from = self.find(at).unwrap_or(self.entries.len());
        let near = self.entries.range(from..);
        let near = near.take_while(|entry| entry.at.ledger == at.ledger && entry.at.entry.0 - at.entry.0 < limit);
        let wanted = near.filter(|entry| entry.holder == Holder::Nobody && wanted(entry.at, entry.slot));
        wanted.last().map_or(at, |entry| entry.at)
    }

    /// Has what waits forget entries that were acked meanwhile.
    pub(crate) fn sweep_again(&mut self, sweep: impl FnOnce(&mut W, &dyn Fn(Position) -> bool)) {
        let mut again = std::mem::take(&mut self.again);
        sweep(&mut again, &|at| self.waiting(at).is_some());
        self.again = again;
    }

    /// The slot of a waiting entry's key.
    pub(crate) fn waiting_slot(&self, at: Position) -> Option<u16> {
        let entry = self.entries.get(self.find(at)?)?;
        (entry.holder == Holder::Nobody).then_some(entry.slot)
    }

    /// An entry of `messages` that was passed over when it was read went to a consumer now.
    pub(crate) fn delivered_late_by_key(&mut self, at: Position, slot: u16, to: ConsumerIndex, messages: u32, remaining: u32) {
        if self.insert(Pending { at, holder: Holder::Consumer(to), messages, remaining, redeliveries: 0, slot }) {
            self.held += u64::from(remaining);
            self.again.sent(slot, to);
        }
    }

    /// An entry of `messages` that was passed over when it was read waits now.
    pub(crate) fn parked_late(&mut self, at: Position, slot: u16, messages: u32, remaining: u32) {
        if self.insert(Pending { at, holder: Holder::Nobody, messages, remaining, redeliveries: 0, slot }) {
            self.again.parked(at, slot);
        }
    }

    /// Puts an entry in its place; false if it is known already.
    fn insert(&mut self, entry: Pending) -> bool {
        let index = self.first_not_before(entry.at, self.entries.len());
        match self.entries.get_mut(index) {
            Some(known) if known.at == entry.at && known.holder != Holder::Done => return false,
            Some(known) if known.at == entry.at => *known = entry,
            _ => self.entries.insert(index, entry),
        }
        self.live += 1;
        true
    }

    /// How often a waiting entry was delivered before, and how many of its messages are left.
    pub(crate) fn waiting(&self, at: Position) -> Option<(u32, u32)> {
        let entry = self.entries.get(self.find(at)?)?;
        (entry.holder == Holder::Nobody).then_some((entry.redeliveries, entry.remaining))
    }

    /// A waiting entry went to a consumer.
    pub(crate) fn redelivered(&mut self, at: Position, to: ConsumerIndex) {
        if let Some(entry) = self.find(at).and_then(|index| self.entries.get_mut(index)) {
            entry.holder = Holder::Consumer(to);
            self.held += u64::from(entry.remaining);
            self.again.sent_again(at, entry.slot, to);
        }
    }

    /// Messages of the entry, acked or not.
    pub(crate) fn batch_size(&self, at: Position) -> Option<u32> {
        self.find(at).and_then(|index| self.entries.get(index)).map(|entry| entry.messages)
    }

    /// The whole entry is acked.
    pub(crate) fn ack(&mut self, at: Position) -> Option<Released> {
        let entry = self.entries.get_mut(self.find(at)?)?;
        let released = Released { holder: entry.holder.consumer(), messages: entry.remaining };
        let slot = entry.slot;
        entry.holder = Holder::Done;
        self.live -= 1;
        if released.holder.is_some() {
            self.held -= u64::from(released.messages);
        }
        self.again.gone(at, slot, released.holder.is_none());
        self.sweep();
        Some(released)
    }

    /// `messages` more of the entry are acked, but not all.
    pub(crate) fn ack_part(&mut self, at: Position, messages: u32) -> Option<Released> {
        let entry = self.entries.get_mut(self.find(at)?)?;
        let released = Released { holder: entry.holder.consumer(), messages: messages.min(entry.remaining) };
        entry.remaining -= released.messages;
        if released.holder.is_some() {
            self.held -= u64::from(released.messages);
        }
        Some(released)
    }

    /// The consumer gives an entry back; returns its messages, none if the consumer does not hold it.
    pub(crate) fn hand_back(&mut self, at: Position, from: ConsumerIndex) -> Option<u32> {
        let entry = self.entries.get_mut(self.find(at)?)?;
        if entry.holder != Holder::Consumer(from) {
            return None;
        }
        entry.holder = Holder::Nobody;
        entry.redeliveries += 1;
        self.held -= u64::from(entry.remaining);
        self.again.returned(at, entry.slot);
        Some(entry.remaining)
    }

    /// The consumer gives back all it holds, each delivered `raise` times more.
    pub(crate) fn hand_back_all(&mut self, from: ConsumerIndex, raise: u32) {
        for entry in self.entries.iter_mut().filter(|entry| entry.holder == Holder::Consumer(from)) {
            entry.holder = Holder::Nobody;
            entry.redeliveries += raise;
            self.held -= u64::from(entry.remaining);
            self.again.returned(entry.at, entry.slot);
        }
    }

    /// Entries up to `at` are gone for good, in the order of their positions.
    pub(crate) fn release_through(&mut self, at: Position, mut released: impl FnMut(Released)) {
        while let Some(entry) = self.entries.front().copied().filter(|entry| entry.at <= at) {
            if entry.holder != Holder::Done {
                released(Released { holder: entry.holder.consumer(), messages: entry.remaining });
                self.live -= 1;
                if entry.holder != Holder::Nobody {
                    self.held -= u64::from(entry.remaining);
                }
                self.again.gone(entry.at, entry.slot, entry.holder == Holder::Nobody);
            }
            self.entries.pop_front();
        }
    }

    /// Acked entries at the front go at once; those behind an old unacked one when they outnumber the rest.
    fn sweep(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.holder == Holder::Done) {
            self.entries.pop_front();
        }
        if self.entries.len() > 256 && self.live * 4 < self.entries.len() {
            self.entries.retain(|entry| entry.holder != Holder::Done);
        }
    }

    /// Index of a live entry.
    fn find(&self, at: Position) -> Option<usize> {
        let front = self.entries.front()?;
        let mut end = self.entries.len();
        if front.at.ledger == at.ledger {
            // Without gaps it lies exactly as far from the front as its number says; gaps can only bring it nearer.
            let distance = usize::try_from(at.entry.0.checked_sub(front.at.entry.0)?).ok()?;
            end = end.min(distance.saturating_add(1));
        }
        let index = match self.entries.get(end - 1) {
            Some(entry) if entry.at == at => end - 1,
            _ => {
                let index = self.first_not_before(at, end);
                (self.entries.get(index)?.at == at).then_some(index)?
            }
        };
        (self.entries.get(index)?.holder != Holder::Done).then_some(index)
    }

    fn first_not_before(&self, at: Position, end: usize) -> usize {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low.midpoint(high);
            if self.entries.get(middle).is_some_and(|entry| entry.at < at) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Holder {
    fn consumer(self) -> Option<ConsumerIndex> {
        match self {
            Holder::Consumer(index) => Some(index),
            Holder::Nobody | Holder::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(entry: i64) -> Position {
        Position::new(1, entry)
    }

    fn three() -> PendingAcks {
        let mut pending = PendingAcks::default();
        for entry in 0..3 {
            pending.delivered(at(entry), 7, 10, 10);
        }
        pending
    }

    #[test]
    fn an_ack_releases_what_was_left_of_the_entry_to_its_holder() {
        let mut pending = three();
        assert_eq!(pending.ack_part(at(1), 4), Some(Released { holder: Some(7), messages: 4 }));
        assert_eq!(pending.held_messages(), 26);
        assert_eq!(pending.ack(at(1)), Some(Released { holder: Some(7), messages: 6 }));
        assert_eq!(pending.ack(at(1)), None);
        assert_eq!(pending.held_messages(), 20);
    }

    #[test]
    fn a_returned_entry_waits_with_its_count_raised_and_keeps_it_when_sent_again() {
        let mut pending = three();
        assert_eq!(pending.hand_back(at(2), 8), None);
        assert_eq!(pending.hand_back(at(2), 7), Some(10));
        assert_eq!(pending.hand_back(at(2), 7), None);
        assert_eq!(pending.again().first(), Some(at(2)));
        assert_eq!(pending.waiting(at(2)), Some((1, 10)));
        pending.redelivered(at(2), 8);
        assert_eq!(pending.again().first(), None);
        pending.hand_back_all(8, 1);
        assert_eq!(pending.waiting(at(2)), Some((2, 10)));
        assert_eq!(pending.held_messages(), 20);
    }

    #[test]
    fn entries_are_found_behind_gaps_and_in_later_ledgers() {
        let mut pending = PendingAcks::default();
        for entry in [0, 1, 5, 9] {
            pending.delivered(at(entry), 1, 1, 1);
        }
        for entry in [0, 4] {
            pending.delivered(Position::new(8, entry), 1, 1, 1);
        }
        assert!(pending.ack(at(9)).is_some());
        assert!(pending.ack(at(2)).is_none());
        assert!(pending.ack(Position::new(8, 4)).is_some());
        assert!(pending.ack(at(0)).is_some());
        assert!(pending.ack(Position::new(8, 0)).is_some());
        assert!(pending.ack(at(5)).is_some());
        assert!(pending.ack(at(1)).is_some());
        assert_eq!(pending.held_messages(), 0);
        assert!(pending.entries.is_empty());
    }

    #[test]
    fn one_old_unacked_entry_does_not_keep_the_places_of_all_that_follow() {
        let mut pending = PendingAcks::default();
        for entry in 0..100_000 {
            pending.delivered(at(entry), 1, 1, 1);
            if entry > 0 {
                pending.ack(at(entry));
            }
        }
        assert!(pending.entries.len() <= 257, "{} places for one entry", pending.entries.len());
        assert!(pending.ack(at(0)).is_some());
    }
}
