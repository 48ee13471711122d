//! Messages that are sent twice are stored once: of each producer name the highest sequence id is known, and what is not above it
//! was stored before.
//!
//! The ids are kept in a cursor of their own, as Pulsar does: every so many entries its mark-delete position moves to the end and
//! takes the ids along. A load replays the entries after it. So the ids and the log never contradict each other, whatever was lost.

use std::collections::HashMap;

use ledger::Position;
use slab::Slab;

use crate::errand::SubscriptionIndex;
use crate::event::{Deduplication, StartAt};
use crate::{Now, Topic, Turn};

/// The name of the cursor; Pulsar's, so that either finds what the other kept.
pub const DEDUPLICATION_CURSOR: &str = "pulsar.dedup";

/// The highest sequence ids by producer name, as a load finds them.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    highest: HashMap<String, i64>,
    replayed: u64,
}

impl Sequences {
    /// From the properties that travel with the cursor's mark-delete position.
    #[must_use]
    pub fn from_snapshot(properties: &[(String, i64)]) -> Sequences {
        Sequences { highest: properties.iter().cloned().collect(), replayed: 0 }
    }

    /// Takes an entry into account that lies after the cursor's mark-delete position.
    pub fn replay(&mut self, entry: &[u8]) {
        self.replayed += 1;
        let Ok(peek) = wire::payload::peek(entry) else { return };
        if peek.marker_type.is_some() || peek.chunk.is_some_and(|chunk| !chunk.is_last()) {
            return;
        }
        let sequence = signed(peek.last_sequence_id());
        match self.highest.get_mut(peek.producer_name) {
            Some(highest) => *highest = sequence.max(*highest),
            None => drop(self.highest.insert(peek.producer_name.to_owned(), sequence)),
        }
    }
}

/// A producer name's index; a producer keeps it, so that a publish needs no look at the name.
pub(crate) type Known = u32;

/// What is known of all producer names.
#[derive(Debug)]
pub(crate) struct Dedup {
    cursor: SubscriptionIndex,
    names: Slab<Name>,
    by_name: HashMap<String, Known>,
    /// Entries stored since the last snapshot.
    unsaved: u64,
    check_at: u64,
}

#[derive(Debug)]
struct Name {
    name: String,
    /// The highest sequence id on its way to storage or stored; [`NOTHING`] before the first.
    pushed: i64,
    /// The highest sequence id stored.
    persisted: i64,
    /// When it was last known to have a producer.
    seen_ms: u64,
}

/// Below every sequence id.
const NOTHING: i64 = i64::MIN;

impl Dedup {
    fn new(cursor: SubscriptionIndex, found: Sequences, now: Now, settings: &Deduplication) -> Dedup {
        let mut dedup = Dedup {
            cursor,
            names: Slab::new(),
            by_name: HashMap::new(),
            unsaved: found.replayed,
            check_at: now.monotonic_ms + settings.snapshot_ms,
        };
        for (name, highest) in found.highest {
            dedup.add(name, highest, now);
        }
        dedup
    }

    fn add(&mut self, name: String, highest: i64, now: Now) -> Known {
        let known = Name { name: name.clone(), pushed: highest, persisted: highest, seen_ms: now.monotonic_ms };
        let index = Known::try_from(self.names.insert(known)).unwrap_or(Known::MAX);
        self.by_name.insert(name, index);
        index
    }

    /// A producer attached: its name's index, and its last stored sequence id, or -1.
    pub(crate) fn know(&mut self, name: &str, now: Now) -> (Known, i64) {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => self.add(name.to_owned(), NOTHING, now),
        };
        (index, self.last_sequence(index))
    }

    /// The last stored sequence id, or -1.
    pub(crate) fn last_sequence(&self, known: Known) -> i64 {
        self.names.get(known as usize).map_or(-1, |name| name.persisted.max(-1))
    }

    /// Whether a publish is new; then it counts as on its way. One that is not is stored, or will be when everything before it is.
    pub(crate) fn is_new(&mut self, known: Known, sequence: u64, highest: u64) -> bool {
        let Some(name) = self.names.get_mut(known as usize) else { return true };
        let new = signed(sequence) > name.pushed;
        if new {
            name.pushed = signed(sequence.max(highest));
        }
        new
    }

    /// Whether a sequence id is above all that are stored or on their way.
    pub(crate) fn is_beyond(&self, known: Known, sequence: u64) -> bool {
        self.names.get(known as usize).is_none_or(|name| signed(sequence) > name.pushed)
    }

    /// A publish is stored.
    pub(crate) fn stored(&mut self, known: Option<Known>, sequence: u64, highest: u64) {
        self.unsaved += 1;
        if let Some(name) = known.and_then(|known| self.names.get_mut(known as usize)) {
            name.persisted = name.persisted.max(signed(sequence.max(highest)));
        }
    }

    /// What to keep: of the names that published something those that were seen last.
    fn snapshot(&self, most: usize) -> Vec<(String, i64)> {
        let mut names: Vec<&Name> = self.names.iter().map(|(_, name)| name).filter(|name| name.persisted != NOTHING).collect();
        if names.len() > most {
            names.sort_by_key(|name| std::cmp::Reverse(name.seen_ms));
            names.truncate(most);
        }
        names.into_iter().map(|name| (name.name.clone(), name.persisted)).collect()
    }

    /// Forgets names that had no producer for too long; returns whether there were any that published.
    fn forget_idle(&mut self, in_use: &[Known], now: Now, after_ms: u64) -> bool {
        for known in in_use {
            if let Some(name) = self.names.get_mut(*known as usize) {
                name.seen_ms = now.monotonic_ms;
            }
        }
        let mut forgotten = false;
        let by_name = &mut self.by_name;
        self.names.retain(|index, name| {
            let used = Known::try_from(index).is_ok_and(|index| in_use.contains(&index));
            let keep = used || (name.persisted != NOTHING && now.monotonic_ms.saturating_sub(name.seen_ms) <= after_ms);
            if !keep {
                by_name.remove(&name.name);
                forgotten |= name.persisted != NOTHING;
            }
            keep
        });
        forgotten
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        (self.unsaved > 0 || !self.names.is_empty()).then_some(self.check_at)
    }
}

impl Topic {
    /// From now on messages that are sent twice are stored once. For a topic that was just loaded, with what the load found.
    pub fn deduplicate(&mut self, turn: &mut Turn<'_>, found: Sequences) {
        let cursor = match self.by_name.get(DEDUPLICATION_CURSOR) {
            Some(index) => *index,
            None => self.begin_subscription(turn, DEDUPLICATION_CURSOR.to_owned(), true, StartAt::Earliest, Vec::new()),
        };
        self.dedup = Some(Dedup::new(cursor, found, turn.now, &self.settings.deduplication));
        self.save_sequences_if_due(turn);
    }

    /// Whether messages that are sent twice are recognised.
    #[must_use]
    pub fn deduplicates(&self) -> bool {
        self.dedup.is_some()
    }

    /// Saves the sequence ids if enough entries were stored since they were.
    pub(crate) fn save_sequences_if_due(&mut self, turn: &mut Turn<'_>) {
        if self.dedup.as_ref().is_some_and(|dedup| dedup.unsaved >= self.settings.deduplication.snapshot_entries.max(1)) {
            self.save_sequences(turn);
        }
    }

    /// Saves the sequence ids, as far as anything was stored since they were.
    pub(crate) fn save_sequences_now(&mut self, turn: &mut Turn<'_>) {
        if self.has_unsaved_sequences() {
            self.save_sequences(turn);
        }
    }

    fn save_sequences(&mut self, turn: &mut Turn<'_>) {
        let Some(cursor) = self.note_sequences() else { return };
        let (subscriptions, mut lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(cursor).filter(|subscription| subscription.is_open()) else { return };
        if let Some(persistence) = &mut subscription.persistence {
            persistence.hurry(&subscription.lane.cursor, &mut lent, turn);
        }
        self.ledgers.want_trim();
        self.trim(turn);
    }

    /// Moves the cursor to the end and gives it the sequence ids; returns the cursor, to be written.
    pub(crate) fn note_sequences(&mut self) -> Option<SubscriptionIndex> {
        let dedup = self.dedup.as_mut()?;
        dedup.unsaved = 0;
        let (cursor, properties) = (dedup.cursor, dedup.snapshot(self.settings.deduplication.max_producers));
        let last = self.ledgers.chain.last_confirmed();
        let (subscriptions, lent) = self.lend();
        let lane = &mut subscriptions.get_mut(cursor)?.lane;
        if last.entry >= Position::new(0, 0).entry {
            lane.cursor.ack_cumulative(last, lent.ledger);
        }
        lane.cursor.set_properties(properties);
        Some(cursor)
    }

    /// Whether there are sequence ids that no snapshot has.
    pub(crate) fn has_unsaved_sequences(&self) -> bool {
        self.dedup.as_ref().is_some_and(|dedup| dedup.unsaved > 0)
    }

    /// Saves what was not saved for a while, and forgets producers that are gone for long.
    pub(crate) fn tick_sequences(&mut self, turn: &mut Turn<'_>) {
        let settings = self.settings.deduplication;
        let Some(dedup) = self.dedup.as_mut().filter(|dedup| dedup.check_at <= turn.now.monotonic_ms) else { return };
        dedup.check_at = turn.now.monotonic_ms + settings.snapshot_ms.max(1_000);
        let forgotten = dedup.forget_idle(&self.producers.known(), turn.now, settings.forget_after_ms);
        if forgotten || dedup.unsaved > 0 {
            self.save_sequences(turn);
        }
    }
}

/// Sequence ids are Java's longs.
fn signed(sequence: u64) -> i64 {
    sequence.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { monotonic_ms: 0, wall_ms: 0 };

    fn settings() -> Deduplication {
        Deduplication::default()
    }

    fn dedup(found: &[(&str, i64)]) -> Dedup {
        let properties: Vec<_> = found.iter().map(|(name, highest)| ((*name).to_owned(), *highest)).collect();
        Dedup::new(0, Sequences::from_snapshot(&properties), NOW, &settings())
    }

    #[test]
    fn what_is_not_above_the_highest_id_is_not_new() {
        let mut dedup = dedup(&[("old", 7)]);
        let (old, last) = dedup.know("old", NOW);
        assert_eq!(last, 7);
        assert!(!dedup.is_new(old, 7, 0));
        assert!(dedup.is_new(old, 8, 12));
        assert!(!dedup.is_new(old, 12, 0), "a batch counts with its highest id");
        assert!(dedup.is_new(old, 13, 0));
        assert_eq!(dedup.last_sequence(old), 7, "nothing of it is stored yet");
        dedup.stored(Some(old), 8, 12);
        assert_eq!(dedup.last_sequence(old), 12);
        let (fresh, last) = dedup.know("fresh", NOW);
        assert_eq!(last, -1);
        assert!(dedup.is_new(fresh, 0, 0));
    }

    #[test]
    fn names_are_forgotten_when_nobody_uses_them_for_long() {
        let mut dedup = dedup(&[("idle", 1), ("busy", 2)]);
        let (busy, _) = dedup.know("busy", NOW);
        dedup.know("silent", NOW);
        let later = Now { monotonic_ms: 1_000, wall_ms: 0 };
        assert!(!dedup.forget_idle(&[busy], later, 1_000));
        assert_eq!(dedup.by_name.len(), 2, "a name that never published is not worth keeping");
        let later = Now { monotonic_ms: 1_001, wall_ms: 0 };
        assert!(dedup.forget_idle(&[busy], later, 1_000));
        assert_eq!(dedup.snapshot(10), [("busy".to_owned(), 2)]);
    }

    #[test]
    fn a_snapshot_that_cannot_hold_all_names_keeps_those_seen_last() {
        let mut dedup = dedup(&[("a", 1), ("b", 2), ("c", 3)]);
        let (b, _) = dedup.know("b", NOW);
        let later = Now { monotonic_ms: 5, wall_ms: 0 };
        dedup.forget_idle(&[b], later, 1_000);
        assert_eq!(dedup.snapshot(1), [("b".to_owned(), 2)]);
        assert_eq!(dedup.snapshot(3).len(), 3);
    }
}
