//! Entries that wait for the owner of their key, and what is in flight of each key.
//!
//! A key is draining while somebody who no longer owns it holds entries of it. Nothing is noted for that: it follows from who holds and
//! who owns, so a range that returns to its old owner finds its counts as they are.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use ledger::Position;

use super::parts::Parts;
use super::ranges::Ranges;
use super::slots::Slots;
use crate::consumer::ConsumerIndex;
use crate::event::{HashRange, KeySharedPolicy};
use crate::pending::Waiting;

/// An entry that waits, lowest position first.
type Place = Reverse<(Position, u16)>;

/// Waiting entries by who is to get them.
#[derive(Debug, Default)]
pub(super) struct Replay {
    ranges: Ranges,
    slots: Slots,
    parts: Parts,
    policy: KeySharedPolicy,
    /// What each owner may be sent at once. Entries acked while they waited are dropped when they come up.
    ready: Vec<BinaryHeap<Place>>,
    /// What nobody may be sent yet: the key is draining, or has no owner.
    blocked: BTreeSet<(u16, Position)>,
    waiting: usize,
    /// Entries in `ready` that were acked.
    stale: usize,
    /// Whether dispatch stopped because no more may wait.
    full: bool,
    /// Whether something may be sent since that could not be before.
    stirred: bool,
}

impl Replay {
    /// How many entries wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// How many entries a consumer may be sent of what waits, about.
    pub(super) fn ready(&self, consumer: ConsumerIndex) -> usize {
        self.ready.get(consumer as usize).map_or(0, BinaryHeap::len)
    }

    /// The consumers' policy.
    pub(super) fn policy(&self) -> &KeySharedPolicy {
        &self.policy
    }

    /// A range that another consumer has already.
    pub(super) fn taken<'a>(&self, wanted: &'a [HashRange]) -> Option<&'a HashRange> {
        self.ranges.taken(wanted)
    }

    /// A consumer joins.
    pub(super) fn join(&mut self, consumer: ConsumerIndex, name: &str, policy: &KeySharedPolicy) {
        let place = consumer as usize;
        if self.ready.len() <= place {
            self.ready.resize_with(place + 1, BinaryHeap::new);
        }
        self.ranges.join(consumer, name, &policy.split);
        self.place_again();
    }

    /// The first consumer decides how keys are split, and the settings on how many points of a ring, if it is one.
    pub(super) fn settle(&mut self, policy: KeySharedPolicy, points: u32) {
        self.ranges = Ranges::new(&policy.split, points);
        self.policy = policy;
    }

    /// A consumer leaves. What it holds has to be handed back then.
    pub(super) fn leave(&mut self, consumer: ConsumerIndex) {
        self.ranges.leave(consumer);
        self.parts.left(consumer);
        self.place_again();
    }

    /// Who is to get entries of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<ConsumerIndex> {
        self.ranges.owner(slot)
    }

    /// Who may be sent waiting entries of a slot; nobody while it is draining.
    fn open_to(&self, slot: u16) -> Option<ConsumerIndex> {
        self.ranges.owner(slot).filter(|owner| !self.is_draining(slot, *owner))
    }

    /// Who may be sent a waiting entry: the owner of its slot, or who has what belongs before it.
    pub(super) fn open_for(&self, at: Position, slot: u16) -> Option<ConsumerIndex> {
        self.parts.holder_of(at).or_else(|| self.open_to(slot))
    }

    /// Whether a new entry may be sent to the owner of its slot, as far as older ones are concerned.
    pub(super) fn lets_pass(&self, slot: u16, owner: ConsumerIndex, faults: crate::faults::Faults) -> bool {
        let Some(known) = self.slots.get(slot) else { return true };
        let drained = known.held == 0 || known.holder == owner || self.policy.allow_out_of_order || faults.draining_ignored;
        drained && (known.waiting == 0 || faults.replay_ignored)
    }

    /// Parts of larger messages.
    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// A part of a larger message is about to wait.
    pub(super) fn part_waits(&mut self, uuid: &[u8], at: Position) {
        self.parts.add(uuid, at);
    }

    /// A part of a larger message was sent, and no longer waits.
    pub(super) fn part_sent(&mut self, uuid: &[u8], at: Position, to: ConsumerIndex, is_last: bool) {
        self.parts.add(uuid, at);
        if self.parts.sent(at, to, is_last) {
            self.place_again();
        }
    }

    /// The first entry that a consumer may be sent.
    pub(super) fn first(&self, consumer: ConsumerIndex) -> Option<Position> {
        self.ready.get(consumer as usize)?.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first entry of a consumer off, to be sent.
    pub(super) fn take(&mut self, consumer: ConsumerIndex) {
        if let Some(ready) = self.ready.get_mut(consumer as usize) {
            ready.pop();
        }
    }

    /// Takes the first entry of a consumer off, which was acked.
    pub(super) fn drop_stale(&mut self, consumer: ConsumerIndex) {
        self.take(consumer);
        self.stale = self.stale.saturating_sub(1);
    }

    /// Whether so many acked entries are kept that they should be dropped.
    pub(super) fn is_stale(&self) -> bool {
        self.stale > self.waiting + 1_000
    }

    /// Drops acked entries.
    pub(super) fn retain(&mut self, waits: &dyn Fn(Position) -> bool) {
        for ready in &mut self.ready {
            ready.retain(|Reverse((at, _))| waits(*at));
        }
        self.stale = 0;
    }

    /// No more may wait.
    pub(super) fn set_full(&mut self) {
        self.full = true;
    }

    /// Whether something may be sent that could not be when this was last asked.
    pub(super) fn is_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// Something may be sent that could not be before.
    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Ranges moved: whatever waits may have another owner, or be let go, or be blocked now.
    fn place_again(&mut self) {
        let blocked = std::mem::take(&mut self.blocked);
        let ready: Vec<BinaryHeap<Place>> = self.ready.iter_mut().map(std::mem::take).collect();
        for (slot, at) in blocked {
            self.place(at, slot);
        }
        for Reverse((at, slot)) in ready.into_iter().flatten() {
            self.place(at, slot);
        }
        self.stirred = true;
    }

    fn place(&mut self, at: Position, slot: u16) {
        match self.open_for(at, slot).and_then(|owner| self.ready.get_mut(owner as usize)) {
            Some(ready) => ready.push(Reverse((at, slot))),
            None => {
                self.blocked.insert((slot, at));
            }
        }
    }

    fn is_draining(&self, slot: u16, owner: ConsumerIndex) -> bool {
        !self.policy.allow_out_of_order && self.slots.get(slot).is_some_and(|known| known.held > 0 && known.holder != owner)
    }

    /// A consumer was sent an entry, which waited or did not.
    fn hold(&mut self, slot: u16, to: ConsumerIndex, waited: u32) {
        // A part that follows others to somebody who does not own the key: from now on the key is draining.
        let owner = if self.parts.is_idle() { None } else { self.ranges.owner(slot).filter(|owner| *owner != to) };
        let closes = !self.policy.allow_out_of_order && owner.is_some_and(|owner| !self.is_draining(slot, owner));
        let now = self.slots.change(slot, |known| {
            known.waiting = known.waiting.saturating_sub(waited);
            known.hold(to);
        });
        if closes && now.waiting > 0 {
            self.place_again();
        }
    }

    /// Nobody holds entries of the slot any more: those that wait for that go to the owner.
    fn drained(&mut self, slot: u16) {
        if self.blocked.is_empty() {
            return;
        }
        let Some(ready) = self.ranges.owner(slot).and_then(|owner| self.ready.get_mut(owner as usize)) else { return };
        let after = (slot, Position::EARLIEST);
        while let Some(first) = self.blocked.range(after..).next().copied().filter(|(other, _)| *other == slot) {
            self.blocked.remove(&first);
            ready.push(Reverse((first.1, slot)));
            self.stirred = true;
        }
    }

    fn wait(&mut self, at: Position, slot: u16, released: u32) {
        self.waiting += 1;
        self.parts.waits(at);
        let now = self.slots.change(slot, |known| {
            known.waiting += 1;
            known.held = known.held.saturating_sub(released);
        });
        self.place(at, slot);
        if now.held == 0 {
            self.drained(slot);
        }
    }
}

impl Waiting for Replay {
    fn sent(&mut self, slot: u16, to: ConsumerIndex) {
        self.hold(slot, to, 0);
    }

    fn parked(&mut self, at: Position, slot: u16) {
        self.wait(at, slot, 0);
    }

    fn returned(&mut self, at: Position, slot: u16) {
        self.wait(at, slot, 1);
    }

    fn sent_again(&mut self, at: Position, slot: u16, to: ConsumerIndex) {
        self.waiting -= 1;
        self.parts.waits_no_more(at);
        self.hold(slot, to, 1);
    }

    fn gone(&mut self, at: Position, slot: u16, waited: bool) {
        self.parts.gone(at, waited);
        if waited {
            self.waiting -= 1;
            self.stirred |= std::mem::take(&mut self.full);
            self.slots.change(slot, |known| known.waiting = known.waiting.saturating_sub(1));
            if !self.blocked.remove(&(slot, at)) {
                self.stale += 1;
            }
        } else if self.slots.change(slot, |known| known.held = known.held.saturating_sub(1)).held == 0 {
            self.drained(slot);
        }
    }
}
