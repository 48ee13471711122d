//! Parts of larger messages: all parts of one go to the consumer that got the first, in order, even if the range of their key moves
//! meanwhile. The new owner could do nothing with the rest, and the old one would never ack what it has, so the key would never drain.
//!
//! That holds until the last part was sent. What is given back after that goes to the owner of the key, again as a whole.

use std::collections::{BTreeMap, HashMap};

use ledger::Position;

use crate::consumer::ConsumerIndex;

/// Messages remembered at most; beyond it the oldest is forgotten, which costs its parts their common consumer.
const MOST_MESSAGES: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Oldest first.
    messages: BTreeMap<u64, Message>,
    by_uuid: HashMap<Box<[u8]>, u64>,
    /// Parts that are not acked. What they belong to may be forgotten.
    by_position: HashMap<Position, u64>,
    next: u64,
}

#[derive(Debug)]
struct Message {
    uuid: Box<[u8]>,
    /// Who was sent some parts, but not the last one.
    holder: Option<ConsumerIndex>,
    /// Parts that are not acked.
    pending: usize,
    /// Those of them that wait.
    waiting: usize,
}

impl Parts {
    /// Whether there are none.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// Who gets the rest of a message, and whether some of it waits for that.
    pub(super) fn holder(&self, uuid: &[u8]) -> Option<(ConsumerIndex, bool)> {
        let message = self.messages.get(self.by_uuid.get(uuid)?)?;
        message.holder.map(|holder| (holder, message.waiting > 0))
    }

    /// Who gets this part, if it is one and others of its message were sent.
    #[inline]
    pub(super) fn holder_of(&self, at: Position) -> Option<ConsumerIndex> {
        if self.by_position.is_empty() { None } else { self.messages.get(self.by_position.get(&at)?)?.holder }
    }

    /// There is this part, which neither waits nor is acked. May be told twice.
    pub(super) fn add(&mut self, uuid: &[u8], at: Position) {
        let known = self.by_position.get(&at).is_some_and(|id| self.messages.contains_key(id));
        if known {
            return;
        }
        let id = self.by_uuid.get(uuid).copied().unwrap_or_else(|| self.begin(uuid));
        self.by_position.insert(at, id);
        if let Some(message) = self.messages.get_mut(&id) {
            message.pending += 1;
        }
    }

    fn begin(&mut self, uuid: &[u8]) -> u64 {
        if self.messages.len() >= MOST_MESSAGES
            && let Some((_, oldest)) = self.messages.pop_first()
        {
            self.by_uuid.remove(&oldest.uuid);
        }
        let id = self.next;
        self.next += 1;
        self.messages.insert(id, Message { uuid: uuid.into(), holder: None, pending: 0, waiting: 0 });
        self.by_uuid.insert(uuid.into(), id);
        id
    }

    /// A part was sent. Returns whether some that wait are no longer bound to who got it.
    pub(super) fn sent(&mut self, at: Position, to: ConsumerIndex, is_last: bool) -> bool {
        let Some(message) = self.message(at) else { return false };
        message.holder = (!is_last).then_some(to);
        is_last && message.waiting > 0
    }

    /// An entry waits; it may be a part.
    pub(super) fn waits(&mut self, at: Position) {
        if let Some(message) = self.message(at) {
            message.waiting += 1;
        }
    }

    /// An entry that waited was sent; it may be a part.
    pub(super) fn waits_no_more(&mut self, at: Position) {
        if let Some(message) = self.message(at) {
            message.waiting = message.waiting.saturating_sub(1);
        }
    }

    /// An entry is acked; it may be a part.
    pub(super) fn gone(&mut self, at: Position, waited: bool) {
        if self.by_position.is_empty() {
            return;
        }
        let Some(id) = self.by_position.remove(&at) else { return };
        let Some(message) = self.messages.get_mut(&id) else { return };
        message.pending = message.pending.saturating_sub(1);
        message.waiting = message.waiting.saturating_sub(usize::from(waited));
        if message.pending == 0 && message.holder.is_none() {
            self.forget(id);
        }
    }

    /// The consumer is gone: whoever is sent a part next gets the others, too.
    pub(super) fn left(&mut self, consumer: ConsumerIndex) {
        for message in self.messages.values_mut().filter(|message| message.holder == Some(consumer)) {
            message.holder = None;
        }
        let done = self.messages.iter().filter(|(_, message)| message.pending == 0 && message.holder.is_none());
        for id in done.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    fn message(&mut self, at: Position) -> Option<&mut Message> {
        if self.by_position.is_empty() { None } else { self.messages.get_mut(self.by_position.get(&at)?) }
    }

    fn forget(&mut self, id: u64) {
        if let Some(message) = self.messages.remove(&id) {
            self.by_uuid.remove(&message.uuid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(entry: i64) -> Position {
        Position::new(1, entry)
    }

    #[test]
    fn who_was_sent_the_first_part_gets_the_others_until_the_last_was_sent() {
        let mut parts = Parts::default();
        for entry in 0..3 {
            parts.add(b"m", at(entry));
        }
        parts.waits(at(1));
        parts.waits(at(2));
        assert_eq!((parts.holder(b"m"), parts.holder_of(at(1))), (None, None));
        assert!(!parts.sent(at(0), 4, false));
        assert_eq!((parts.holder(b"m"), parts.holder_of(at(2))), (Some((4, true)), Some(4)));
        parts.waits_no_more(at(2));
        assert!(parts.sent(at(2), 4, true), "one still waits");
        assert_eq!((parts.holder(b"m"), parts.holder_of(at(1))), (None, None));
        for (entry, waited) in [(0, false), (1, true), (2, false)] {
            parts.gone(at(entry), waited);
        }
        assert!(parts.messages.is_empty() && parts.by_uuid.is_empty() && parts.by_position.is_empty());
    }

    #[test]
    fn acked_parts_do_not_make_a_message_forgotten_before_the_last_was_sent_or_the_holder_is_gone() {
        let mut parts = Parts::default();
        for uuid in [b"a", b"b"] {
            let entry = at(i64::from(uuid[0]));
            parts.add(uuid, entry);
            parts.sent(entry, 1, false);
            parts.gone(entry, false);
            assert_eq!(parts.holder(uuid), Some((1, false)));
        }
        parts.add(b"a", at(0));
        parts.sent(at(0), 1, true);
        parts.gone(at(0), false);
        parts.left(1);
        assert!(parts.messages.is_empty() && parts.by_uuid.is_empty());
    }

    #[test]
    fn messages_that_are_never_completed_do_not_pile_up() {
        let mut parts = Parts::default();
        for n in 0..10_000_i64 {
            parts.add(&n.to_be_bytes(), at(n));
            parts.sent(at(n), 1, false);
        }
        assert_eq!((parts.messages.len(), parts.by_uuid.len()), (MOST_MESSAGES, MOST_MESSAGES));
        (0..10_000).for_each(|n| parts.gone(at(n), false));
        assert!(parts.by_position.is_empty());
    }
}
