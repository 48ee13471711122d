//! Parts of larger messages on a Shared subscription: all parts of one go to the same consumer, in order.
//!
//! Who gets the first part that is seen gets the rest. Parts whose consumer takes nothing just now are set aside, so that they
//! do not hold back what others could take.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use ledger::Position;

use crate::consumer::ConsumerIndex;

/// Messages in parts under way at most; beyond it the oldest is forgotten, which costs its stickiness.
const MOST_MESSAGES: usize = 1_000;
/// Parts set aside at most: beyond it nothing new is read.
const MOST_ASIDE: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    holders: HashMap<Box<[u8]>, ConsumerIndex>,
    /// Oldest first; may name messages that are complete.
    order: VecDeque<Box<[u8]>>,
    aside: BTreeMap<ConsumerIndex, BTreeSet<Position>>,
    aside_count: usize,
}

impl Chunks {
    /// The consumer that gets the parts of this message; the first to ask settles it.
    pub(crate) fn holder(&mut self, uuid: &[u8], first: ConsumerIndex) -> ConsumerIndex {
        if let Some(holder) = self.holders.get(uuid) {
            return *holder;
        }
        if self.order.len() >= MOST_MESSAGES
            && let Some(oldest) = self.order.pop_front()
        {
            self.holders.remove(&oldest);
        }
        self.holders.insert(uuid.into(), first);
        self.order.push_back(uuid.into());
        first
    }

    /// The last part was sent. While its consumer has parts set aside the message is remembered: a producer that did not hear of
    /// a part sends the message again, and what waits may be of that second time.
    pub(crate) fn complete(&mut self, uuid: &[u8]) {
        if self.holders.get(uuid).is_some_and(|holder| self.aside.contains_key(holder)) {
            return;
        }
        if self.holders.remove(uuid).is_some() {
            match self.order.back() {
                Some(newest) if **newest == *uuid => drop(self.order.pop_back()),
                _ => self.order.retain(|other| **other != *uuid),
            }
        }
    }

    /// A part waits until its consumer takes entries.
    pub(crate) fn set_aside(&mut self, at: Position, holder: ConsumerIndex) {
        if self.aside.entry(holder).or_default().insert(at) {
            self.aside_count += 1;
        }
    }

    /// Whether any part waits.
    #[inline]
    pub(crate) fn has_aside(&self) -> bool {
        self.aside_count > 0
    }

    /// Whether so many parts wait that nothing new should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.aside_count >= MOST_ASIDE
    }

    /// The first part of a consumer that takes entries now.
    pub(crate) fn ready(&self, takes: impl Fn(ConsumerIndex) -> bool) -> Option<(ConsumerIndex, Position)> {
        let (holder, parts) = self.aside.iter().find(|(holder, _)| takes(**holder))?;
        parts.first().map(|at| (*holder, *at))
    }

    /// Whether the part waits.
    pub(crate) fn is_aside(&self, at: Position) -> bool {
        self.has_aside() && self.aside.values().any(|parts| parts.contains(&at))
    }

    /// The part waits no more.
    pub(crate) fn taken(&mut self, at: Position, holder: ConsumerIndex) {
        if let Some(parts) = self.aside.get_mut(&holder) {
            self.aside_count -= usize::from(parts.remove(&at));
            if parts.is_empty() {
                self.aside.remove(&holder);
            }
        }
    }

    /// The consumer is gone: others take over. Returns what waited for it.
    pub(crate) fn left(&mut self, consumer: ConsumerIndex) -> BTreeSet<Position> {
        self.holders.retain(|_, holder| *holder != consumer);
        self.order.retain(|uuid| self.holders.contains_key(uuid));
        let aside = self.aside.remove(&consumer).unwrap_or_default();
        self.aside_count -= aside.len();
        aside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_ask_keeps_a_message_until_it_is_complete_or_gone() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.holder(b"a", 1), 1);
        assert_eq!(chunks.holder(b"a", 2), 1);
        assert_eq!(chunks.holder(b"b", 2), 2);
        chunks.complete(b"a");
        assert_eq!(chunks.holder(b"a", 3), 3);
        chunks.left(3);
        assert_eq!(chunks.holder(b"a", 1), 1);
        assert_eq!(chunks.order.len(), 2);
    }

    #[test]
    fn a_message_sent_twice_stays_with_its_consumer_while_parts_of_the_second_time_wait() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.holder(b"a", 1), 1);
        chunks.set_aside(Position::new(1, 9), 1);
        chunks.complete(b"a");
        assert_eq!(chunks.holder(b"a", 2), 1);
        chunks.taken(Position::new(1, 9), 1);
        chunks.complete(b"a");
        assert_eq!(chunks.holder(b"a", 2), 2);
    }

    #[test]
    fn messages_that_are_never_completed_do_not_pile_up() {
        let mut chunks = Chunks::default();
        for n in 0..10_000_u32 {
            chunks.holder(&n.to_be_bytes(), 1);
        }
        assert_eq!((chunks.holders.len(), chunks.order.len()), (MOST_MESSAGES, MOST_MESSAGES));
    }

    #[test]
    fn what_waits_for_a_consumer_is_ready_when_it_takes_and_given_back_when_it_leaves() {
        let mut chunks = Chunks::default();
        for entry in [7, 5] {
            chunks.set_aside(Position::new(1, entry), 4);
        }
        assert_eq!(chunks.ready(|_| false), None);
        assert_eq!(chunks.ready(|holder| holder == 4), Some((4, Position::new(1, 5))));
        chunks.taken(Position::new(1, 5), 4);
        assert!(!chunks.is_aside(Position::new(1, 5)));
        assert_eq!(chunks.left(4), BTreeSet::from([Position::new(1, 7)]));
        assert_eq!(chunks.aside_count, 0);
    }
}
