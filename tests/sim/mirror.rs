//! What a subscription may be sent and must have been sent, kept from what its clients saw.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{AckSet, Position};
use topic::SubscriptionKind;

use super::keys::{Owners, Split, slot_of};
use super::producer::{Acknowledged, Sent};

/// Which of the simulated consumers.
pub(crate) type Index = usize;

/// One delivery.
pub(crate) struct Delivery {
    /// To whom.
    pub(crate) to: Index,
    /// The entry.
    pub(crate) at: Position,
    /// Its messages.
    pub(crate) messages: u32,
    /// How often it was delivered before, as told.
    pub(crate) redeliveries: u32,
    /// What is left of a batch, as told.
    pub(crate) left: Option<AckSet>,
    /// The slot of its key.
    pub(crate) slot: u16,
    /// When it may come, 0 at once.
    pub(crate) deliver_at: u64,
    /// The larger message that it is a part of, and whether it is the last part.
    pub(crate) part: Option<(Vec<u8>, bool)>,
}

/// What a stored entry says of itself.
pub(crate) struct Stored {
    /// The slot of its key.
    pub(crate) slot: u16,
    /// When it must be there, by the wall clock; 0: at once.
    pub(crate) due: u64,
    /// The larger message that it is a part of.
    pub(crate) part_of: Option<Vec<u8>>,
}

/// A subscription as its clients know it.
pub(crate) struct Mirror {
    kind: SubscriptionKind,
    /// Whether it holds back trimming.
    durable: bool,
    /// Whatever lies below need not come.
    floor: Position,
    /// Every entry that came.
    delivered: BTreeSet<Position>,
    /// Every entry that was acked as a whole.
    acked: BTreeSet<Position>,
    /// Those whose ack must not be forgotten, as no crash came since.
    kept: BTreeSet<Position>,
    /// What is left of batches that were partly acked since the last crash.
    partial: BTreeMap<Position, Vec<u64>>,
    /// Who holds what.
    held: BTreeMap<Position, Held>,
    /// Given back, with the count it must come again with.
    waiting: BTreeMap<Position, (u32, u16)>,
    /// The newest entry that came for the first time since the cursor was last moved.
    last: Option<Position>,
    /// Who has the first parts of larger messages whose last part has not come.
    parts: BTreeMap<Vec<u8>, Index>,
    /// Which larger messages entries that came are parts of.
    part_of: BTreeMap<Position, Vec<u8>>,
    /// Larger messages whose last part came.
    complete: BTreeSet<Vec<u8>>,
    /// Entries given back that are parts of larger messages.
    waiting_parts: BTreeSet<Position>,
    /// On a Key_Shared subscription.
    keys: Option<Keys>,
}

/// What is known of keys.
struct Keys {
    owners: Owners,
    /// For each slot, the newest entry that came for the first time.
    last: BTreeMap<u16, Position>,
}

#[derive(Clone, Copy)]
struct Held {
    by: Index,
    messages: u32,
    redeliveries: u32,
    slot: u16,
}

impl Mirror {
    /// A subscription that begins at `floor`.
    pub(crate) fn new(kind: SubscriptionKind, durable: bool, split: Split, floor: Position) -> Mirror {
        let keys = || Keys { owners: Owners::new(split), last: BTreeMap::new() };
        Mirror {
            kind,
            durable,
            floor,
            delivered: BTreeSet::new(),
            acked: BTreeSet::new(),
            kept: BTreeSet::new(),
            partial: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            last: None,
            parts: BTreeMap::new(),
            part_of: BTreeMap::new(),
            complete: BTreeSet::new(),
            waiting_parts: BTreeSet::new(),
            keys: (kind == SubscriptionKind::KeyShared).then(keys),
        }
    }

    /// A consumer was let in.
    pub(crate) fn joined(&mut self, index: Index) {
        if let Some(keys) = &mut self.keys {
            keys.owners.join(index);
        }
    }

    /// Whether its consumers share the entries.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, SubscriptionKind::Shared | SubscriptionKind::KeyShared)
    }

    /// Whether each key has one owner.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Entries that consumers hold.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// What a consumer holds, with messages that are not acked.
    pub(crate) fn held_by(&self, by: Index) -> Vec<Position> {
        self.held.iter().filter(|(_, held)| held.by == by).map(|(at, _)| *at).collect()
    }

    /// All entries held, by anybody.
    pub(crate) fn all_held(&self) -> Vec<Position> {
        self.held.keys().copied().collect()
    }

    /// Whether the whole entry is acked.
    pub(crate) fn has_acked(&self, at: Position) -> bool {
        self.acked.contains(&at)
    }

    /// All entries held, and by whom.
    pub(crate) fn all_held_by(&self) -> BTreeMap<Position, Index> {
        self.held.iter().map(|(at, held)| (*at, held.by)).collect()
    }

    /// Messages a consumer holds.
    pub(crate) fn unacked(&self, by: Index) -> u64 {
        self.held.iter().filter(|(_, held)| held.by == by).map(|(at, held)| u64::from(self.left_of(*at, held.messages))).sum()
    }

    /// Messages of an entry that is held.
    pub(crate) fn messages(&self, at: Position) -> u32 {
        self.held.get(&at).map_or(1, |held| held.messages)
    }

    fn left_of(&self, at: Position, messages: u32) -> u32 {
        self.partial.get(&at).map_or(messages, |left| left.iter().map(|word| word.count_ones()).sum())
    }

    /// An entry came. Returns how many permits it used.
    pub(crate) fn deliver(
        &mut self,
        delivery: &Delivery,
        acknowledged: &Acknowledged,
        first: impl Fn() -> Position,
    ) -> Result<u32, String> {
        let Delivery { to, at, messages, redeliveries, left, deliver_at, part, slot } = delivery;
        let at = *at;
        if self.kept.contains(&at) {
            return Err(format!("{at} came although it was acked"));
        }
        if let Some(held) = self.held.get(&at) {
            return Err(format!("{at} came to {to} while {} holds it", held.by));
        }
        self.check_left(at, *messages, left.as_ref())?;
        // The rest of a larger message goes where its first parts went, whoever owns the key by now.
        let begun = part.as_ref().filter(|_| self.is_shared()).map(|(uuid, _)| uuid).filter(|uuid| self.parts.contains_key(*uuid));
        match begun {
            Some(uuid) => self.check_follows(at, uuid)?,
            None => self.check_key(at, *slot, *to)?,
        }
        match self.waiting.remove(&at) {
            Some((count, _)) if count == *redeliveries => {}
            Some((count, _)) => return Err(format!("{at} came with count {redeliveries}, not {count}")),
            None if *redeliveries > 0 => return Err(format!("{at} came the first time with count {redeliveries}")),
            None if self.is_shared() && (*deliver_at > 0 || part.is_some()) => {}
            None if self.keys.is_some() => self.check_order_of_key(at, *slot, acknowledged)?,
            None => self.check_order(at, acknowledged, first)?,
        }
        self.check_part(*to, at, part.as_ref())?;
        self.delivered.insert(at);
        if let Some(left) = left {
            self.partial.insert(at, left.0.clone());
        }
        self.held.insert(at, Held { by: *to, messages: *messages, redeliveries: *redeliveries, slot: *slot });
        Ok(left.as_ref().map_or(*messages, |left| left.0.iter().map(|word| word.count_ones()).sum()))
    }

    /// A key comes to its owner, and while another holds older entries of it, not at all.
    fn check_key(&self, at: Position, slot: u16, to: Index) -> Result<(), String> {
        let Some(Keys { owners, .. }) = &self.keys else { return Ok(()) };
        if owners.owner(slot) != Some(to) {
            return Err(format!("{at} came to {to}, but {:?} owns its key", owners.owner(slot)));
        }
        let follows = |older: &Position| self.part_of.get(older).is_some_and(|uuid| self.parts.contains_key(uuid));
        if let Some((older, _)) = self.waiting.range(..at).find(|(older, (_, other))| *other == slot && !follows(older)) {
            return Err(format!("{at} came before {older} of the same key, which waits for redelivery"));
        }
        match self.draining(slot, to) {
            Some((older, by)) => Err(format!("{at} came to {to} while {by} holds {older} of the same key")),
            None => Ok(()),
        }
    }

    /// A part comes after those before it, where keys are kept in order.
    fn check_follows(&self, at: Position, uuid: &Vec<u8>) -> Result<(), String> {
        let older = self.waiting.range(..at).find(|(older, _)| self.part_of.get(older) == Some(uuid));
        match older.filter(|_| self.has_keys()) {
            Some((older, _)) => Err(format!("{at} came before {older} of the same message, which waits for redelivery")),
            None => Ok(()),
        }
    }

    /// Whether it is a part of a larger message whose last part never came.
    pub(crate) fn is_unfinished(&self, at: Position) -> bool {
        self.part_of.get(&at).is_some_and(|uuid| !self.complete.contains(uuid))
    }

    /// An entry of the slot that somebody else holds, who has to let go of it first.
    fn draining(&self, slot: u16, owner: Index) -> Option<(Position, Index)> {
        let Some(Keys { owners, .. }) = &self.keys else { return None };
        let held = self.held.iter().find(|(_, held)| held.slot == slot && held.by != owner);
        held.filter(|_| !owners.split().is_loose()).map(|(at, held)| (*at, held.by))
    }

    /// New entries of a key come in order and leave none out.
    fn check_order_of_key(&mut self, at: Position, slot: u16, acknowledged: &Acknowledged) -> Result<(), String> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let last = keys.last.insert(slot, at);
        if let Some(last) = last.filter(|last| *last >= at) {
            return Err(format!("{at} came after {last} of the same key"));
        }
        let from = last.map_or(self.floor, Position::following).max(self.floor);
        let mut before =
            acknowledged.range(from..at.max(from)).filter(|(_, sent)| !sent.may_be_late() && slot_of(sent.producer, sent.sequence) == slot);
        match before.find(|(older, _)| !self.acked.contains(older) && !self.held.contains_key(older)) {
            Some((older, _)) => Err(format!("{at} came and left out {older} of the same key")),
            None => Ok(()),
        }
    }

    /// The entries, of the `most` oldest that nobody holds, whose owner could be sent them; and that owner.
    /// With `at_once` keys that are draining do not count.
    pub(crate) fn could_come(
        &self,
        stored: &BTreeMap<Position, Stored>,
        now: u64,
        most: usize,
        at_once: bool,
        takes: impl Fn(Index) -> bool,
    ) -> Vec<(Position, Index)> {
        let Some(Keys { owners, .. }) = &self.keys else { return Vec::new() };
        // What lies below the floor may wait, too, and what was acked before a crash.
        let unheld = stored.iter().filter(|(at, _)| !self.kept.contains(at) && !self.held.contains_key(at)).take(most);
        let unheld = unheld.filter(|(at, _)| !self.acked.contains(at));
        // What is due may have to wait for room, wherever it lies.
        let is_due = |stored: &Stored| stored.due == 0 || (most == usize::MAX && stored.due <= now);
        let unheld = unheld.filter(|(at, stored)| **at >= self.floor && is_due(stored));
        let owned = unheld.filter_map(|(at, Stored { slot, part_of, .. })| {
            if let Some(holder) = part_of.as_ref().and_then(|uuid| self.parts.get(uuid)) {
                return takes(*holder).then_some((*at, *holder));
            }
            let owner = owners.owner(*slot)?;
            (takes(owner) && !(at_once && self.draining(*slot, owner).is_some())).then_some((*at, owner))
        });
        owned.collect()
    }

    /// New entries come in order, after all that wait, and leave none out.
    fn check_order(&mut self, at: Position, acknowledged: &Acknowledged, first: impl Fn() -> Position) -> Result<(), String> {
        if let Some((waiting, _)) = self.waiting.iter().find(|(waiting, _)| !self.waiting_parts.contains(waiting)) {
            return Err(format!("{at} came before {waiting}, which waits for redelivery"));
        }
        if self.last.is_some_and(|last| last >= at) {
            return Err(format!("{at} came after {:?}", self.last));
        }
        let from = self.last.map_or(self.floor, Position::following).max(self.floor);
        if from < at {
            let may_be_late = |sent: &Sent| self.kind == SubscriptionKind::Shared && sent.may_be_late();
            let left_out = acknowledged.range(from..at).filter(|(_, sent)| !may_be_late(sent)).map(|(skipped, _)| *skipped);
            let mut left_out = left_out.filter(|skipped| !self.acked.contains(skipped) && !self.held.contains_key(skipped)).peekable();
            // What does not hold back trimming may be left behind by it.
            let gone = if left_out.peek().is_some() && !self.durable { first() } else { Position::EARLIEST };
            if let Some(skipped) = left_out.find(|skipped| *skipped >= gone) {
                return Err(format!("{at} came and left out {skipped}"));
            }
        }
        self.last = Some(at);
        Ok(())
    }

    /// All parts of one message go to one consumer.
    fn check_part(&mut self, to: Index, at: Position, part: Option<&(Vec<u8>, bool)>) -> Result<(), String> {
        self.waiting_parts.remove(&at);
        let Some((uuid, is_last)) = part.filter(|_| self.is_shared()) else { return Ok(()) };
        let holder = *self.parts.entry(uuid.clone()).or_insert(to);
        self.part_of.insert(at, uuid.clone());
        if *is_last {
            self.parts.remove(uuid);
            self.complete.insert(uuid.clone());
        }
        self.waiting_parts.insert(at);
        if holder == to { Ok(()) } else { Err(format!("{at} is a part of what {holder} gets, and went to {to}")) }
    }

    /// Whether somebody waits for parts who takes nothing now: then what is theirs is no sign of being stuck.
    pub(crate) fn waits_for_parts(&self, takes: impl Fn(Index) -> bool) -> bool {
        self.parts.values().any(|holder| !takes(*holder))
    }

    /// Entries that should have come by now, all but those that wait for their time.
    pub(crate) fn overdue(&self, acknowledged: &Acknowledged, now: u64) -> Option<Position> {
        let due = acknowledged.range(self.floor..).filter(|(_, sent)| sent.deliver_at > 0 && sent.deliver_at <= now);
        due.map(|(at, _)| *at).find(|at| !self.delivered.contains(at) && !self.acked.contains(at))
    }

    /// Nothing that is not acked may be missing from the rest of a batch; without a crash it is exact.
    fn check_left(&self, at: Position, messages: u32, left: Option<&AckSet>) -> Result<(), String> {
        let Some(known) = self.partial.get(&at) else { return Ok(()) };
        let told = left.map_or_else(|| all(messages), |left| left.0.clone());
        if *known == told { Ok(()) } else { Err(format!("{at} came with {told:?} left, not {known:?}")) }
    }

    /// The whole entry is acked.
    pub(crate) fn ack(&mut self, at: Position) {
        self.held.remove(&at);
        self.waiting.remove(&at);
        self.partial.remove(&at);
        self.acked.insert(at);
        self.kept.insert(at);
    }

    /// Everything up to `at` is acked.
    pub(crate) fn ack_through(&mut self, at: Position, acknowledged: &Acknowledged) {
        for (at, _) in acknowledged.range(..=at) {
            self.ack(*at);
        }
        for at in self.held.range(..=at).map(|(at, _)| *at).collect::<Vec<_>>() {
            self.ack(at);
        }
    }

    /// All but the messages in `left` are acked. Returns what is left in all.
    pub(crate) fn ack_part(&mut self, at: Position, left: &[u64]) -> AckSet {
        let messages = self.messages(at);
        let known = self.partial.entry(at).or_insert_with(|| all(messages));
        for (word, left) in known.iter_mut().zip(left) {
            *word &= left;
        }
        let known = known.clone();
        if known.iter().all(|word| *word == 0) {
            self.ack(at);
        }
        AckSet(known)
    }

    /// A consumer gives these back.
    pub(crate) fn give_back(&mut self, by: Index, ids: &[Position]) {
        for at in ids {
            let Some(held) = self.held.get(at).copied().filter(|held| held.by == by) else { continue };
            self.held.remove(at);
            if self.is_shared() {
                self.waiting.insert(*at, (held.redeliveries + 1, held.slot));
            }
        }
        if !self.is_shared() {
            self.last = None;
        }
    }

    /// A consumer is gone: all it holds goes back.
    pub(crate) fn left(&mut self, by: Index) {
        self.parts.retain(|_, holder| *holder != by);
        let ids = self.held_by(by);
        self.give_back(by, &ids);
        if let Some(keys) = &mut self.keys {
            keys.owners.leave(by);
        }
    }

    /// The topic was loaded again. After a crash the newest acks may be forgotten.
    pub(crate) fn reloaded(&mut self, crashed: bool) {
        self.held.clear();
        self.waiting.clear();
        self.parts.clear();
        self.last = None;
        if let Some(keys) = &mut self.keys {
            keys.last.clear();
            keys.owners.clear();
        }
        if crashed {
            self.kept.clear();
            self.partial.clear();
        }
    }

    /// The subscription was moved to `floor`.
    pub(crate) fn moved(&mut self, floor: Position) {
        let split = self.keys.as_ref().map_or(Split::Auto(0), |keys| keys.owners.split());
        *self = Mirror::new(self.kind, self.durable, split, floor);
    }

    /// The subscription may have been moved to `floor`, or not.
    pub(crate) fn perhaps_moved(&mut self, floor: Position) {
        self.reloaded(true);
        self.floor = self.floor.max(floor);
    }

    /// What should have come and did not.
    pub(crate) fn missing(&self, acknowledged: &Acknowledged) -> Option<Position> {
        acknowledged.range(self.floor..).map(|(at, _)| *at).find(|at| !self.delivered.contains(at) && !self.acked.contains(at))
    }
}

fn all(messages: u32) -> Vec<u64> {
    let words = (messages as usize).div_ceil(64);
    (0..words)
        .map(|word| if (word + 1) * 64 <= messages as usize { u64::MAX } else { (1 << (messages as usize - word * 64)) - 1 })
        .collect()
}
