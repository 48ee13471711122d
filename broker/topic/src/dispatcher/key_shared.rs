//! Each key goes to the consumer that owns its slot, in order. What cannot be sent yet waits, and so does what follows of the same key;
//! other keys go past it, so that no consumer holds back another.
//!
//! When a range moves, its keys stay where they are until the old owner's entries are acked or the old owner is gone (PIP-379).

mod courtesy;
mod even;
mod parts;
mod ranges;
mod replay;
mod ring;
mod sieve;
mod slots;

use ledger::{Entry, Position};
use slab::Slab;
use wire::ServerError;
use wire::payload::Chunk;

use super::{Budget, Lane, Part, Step, held};
use crate::consumer::{Consumer, ConsumerIndex, Parcel};
use crate::event::{KeySharedPolicy, KeySplit, TopicSettings};
use crate::lent::Lent;
use crate::pending::Unacked;
use crate::read_ahead::{Range, Wanted};
use crate::{Now, Turn};

use courtesy::Courtesy;
use replay::Replay;
use sieve::Sieve;

/// Key_Shared subscriptions.
#[derive(Debug, Default)]
pub(crate) struct KeyShared {
    pending: Unacked<Replay>,
    /// In the order they joined.
    consumers: Vec<ConsumerIndex>,
    /// Whose waiting entries go first in the next step.
    next: usize,
    /// One who took an entry of late; asked first whether anybody takes more.
    taker: ConsumerIndex,
    sieve: Sieve,
    courtesy: Courtesy,
}

impl KeyShared {
    /// Whether a consumer of this policy may join those that are there.
    pub(super) fn admits(&self, policy: &KeySharedPolicy) -> Result<(), (ServerError, String)> {
        let refuse = |message: String| Err((ServerError::ConsumerAssignError, message));
        if let KeySplit::Sticky(wanted) = &policy.split {
            if wanted.is_empty() {
                return refuse("a sticky consumer must bring hash ranges".to_owned());
            }
            let own = wanted.iter().enumerate().find(|(place, range)| wanted.iter().skip(place + 1).any(|other| other.overlaps(**range)));
            if let Some((_, range)) = own {
                return refuse(format!("hash range {range} overlaps with another one of the same consumer"));
            }
        }
        if self.consumers.is_empty() {
            return Ok(());
        }
        let present = self.pending.again().policy();
        match (&present.split, &policy.split) {
            (KeySplit::Auto, KeySplit::Auto) => {}
            (KeySplit::Sticky(_), KeySplit::Sticky(wanted)) => {
                if let Some(range) = self.pending.again().taken(wanted) {
                    return refuse(format!("hash range {range} overlaps with one of another consumer"));
                }
            }
            _ => return refuse("the subscription's consumers split its keys in another way".to_owned()),
        }
        if present.allow_out_of_order != policy.allow_out_of_order {
            return refuse("the subscription's consumers differ in whether keys may come out of order".to_owned());
        }
        Ok(())
    }

    pub(super) fn joined(&mut self, lane: &Lane, consumer: ConsumerIndex, lent: &Lent<'_>) {
        let Some(newcomer) = lane.consumer(consumer) else { return };
        let replay = self.pending.again_mut();
        if self.consumers.is_empty() {
            replay.settle(newcomer.key_shared.clone(), lent.settings.key_shared_points);
        }
        replay.join(consumer, newcomer.name(), &newcomer.key_shared);
        self.consumers.push(consumer);
    }

    pub(super) fn left(&mut self, consumer: ConsumerIndex, lent: &Lent<'_>) {
        self.consumers.retain(|other| *other != consumer);
        self.pending.again_mut().leave(consumer);
        self.pending.hand_back_all(consumer, u32::from(!lent.faults.count_not_raised_on_close));
    }

    pub(super) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let mut budget = Budget::new(lent);
        lane.delayed.advance(turn.now);
        self.pending.again_mut().is_stirred();
        if self.pending.again().len() > 0 && self.send_waiting(&mut budget, lane, lent, turn) == Step::More {
            return Step::More;
        }
        if lane.delayed.len() > 0 && self.send_due(&mut budget, lane, lent, turn) == Step::More {
            return Step::More;
        }
        match self.send_new(&mut budget, lane, lent, turn) {
            // What waits was given to somebody else meanwhile, who may take it.
            Step::Idle if self.pending.again_mut().is_stirred() => Step::More,
            step => step,
        }
    }

    /// Sends what waits, to each consumer in turn as much as it takes. What has to be read for that is read from the oldest on: then
    /// consumers that are at different places come together, and an entry is hardly ever read for one of them and again for another.
    fn send_waiting(&mut self, budget: &mut Budget, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let count = self.consumers.len().max(1);
        let start = self.next;
        self.next = (start + 1) % count;
        let mut missing: Option<Position> = None;
        let mut step = Step::Idle;
        'all: for place in (start..start + count).map(|place| place % count) {
            let Some(to) = self.consumers.get(place).copied() else { continue };
            while takes(lane, to, lent) && !held::is_over_limit(&self.pending, lent) {
                let Some(at) = self.pending.again().first(to) else { break };
                let Some((redeliveries, messages)) = self.pending.waiting(at) else {
                    self.pending.again_mut().drop_stale(to);
                    continue;
                };
                if budget.is_spent() {
                    self.next = place;
                    step = Step::More;
                    break 'all;
                }
                let Some(entry) = lane.entry(at, lent, turn) else {
                    missing = Some(missing.map_or(at, |other| other.min(at)));
                    break;
                };
                self.pending.again_mut().take(to);
                self.pending.redelivered(at, to);
                self.part_sent(&entry, to, lent);
                self.send(to, Parcel { at, messages, redeliveries, bytes: entry.bytes }, budget, lane, lent, turn);
            }
        }
        if let Some(at) = missing {
            self.read_again(at, lane, lent, turn);
        }
        step
    }

    /// Sends what is due to whoever owns its key now, or has it wait like anything else of that key.
    fn send_due(&mut self, budget: &mut Budget, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        while !held::is_over_limit(&self.pending, lent) && self.anyone_takes(lane, lent) {
            let Some(at) = lane.delayed.first_due(lent.settings.max_read_entries) else { return Step::Idle };
            if budget.is_spent() {
                return Step::More;
            }
            if lane.cursor.is_acked(at) {
                lane.delayed.done(at);
                continue;
            }
            let Some(entry) = lane.entry(at, lent, turn) else {
                lane.read_due(at, lent, turn);
                return Step::Idle;
            };
            let (slot, messages) = (entry.meta.key_slot, lane.remaining(at, entry.meta.messages));
            match self.receiver(&entry, lane, lent) {
                Some(to) => {
                    lane.delayed.done(at);
                    self.pending.delivered_late_by_key(at, slot, to, entry.meta.messages, messages);
                    self.part_sent(&entry, to, lent);
                    self.send(to, Parcel { at, messages, redeliveries: 0, bytes: entry.bytes }, budget, lane, lent, turn);
                }
                None if self.is_full(lent.settings) => {
                    lane.put_back(entry, lent, turn);
                    return Step::Idle;
                }
                None => {
                    lane.delayed.done(at);
                    self.part_waits(&entry, lent);
                    self.pending.parked_late(at, slot, entry.meta.messages, messages);
                    self.set_going(at, slot, lane, lent);
                    budget.pass();
                }
            }
        }
        Step::Idle
    }

    /// Who is sent an entry that never was: the owner of its slot, if nothing older of the key is in the way, or who has the parts
    /// before it; none if that one takes nothing now.
    #[inline]
    fn receiver(&self, entry: &Entry, lane: &Lane, lent: &Lent<'_>) -> Option<ConsumerIndex> {
        if let Some(part) = part(entry, lent)
            && let Some((holder, some_wait)) = self.pending.again().parts().holder(part.uuid)
        {
            return (!some_wait && takes(lane, holder, lent)).then_some(holder);
        }
        let slot = entry.meta.key_slot;
        let owner = self.pending.again().owner(slot).filter(|owner| takes(lane, *owner, lent))?;
        self.pending.again().lets_pass(slot, owner, lent.faults).then_some(owner)
    }

    /// Whether it is only a matter of a moment until the owner of an entry takes it, and nothing of it waits already.
    fn awaits_permits(&mut self, entry: &Entry, lane: &Lane, lent: &Lent<'_>, now: Now) -> bool {
        let replay = self.pending.again();
        let Some(owner) = replay.owner(entry.meta.key_slot) else { return false };
        let is_usual = |consumer: &Consumer| {
            let limit = lent.settings.max_unacked_per_consumer;
            consumer.permits <= 0
                && consumer.last_grant >= MANY
                && consumer.writable
                && !consumer.is_over(limit)
                && is_active(consumer, now)
        };
        let may_wait = !entry.meta.is_chunk && replay.first(owner).is_none() && lane.consumer(owner).is_some_and(is_usual);
        may_wait && replay.lets_pass(entry.meta.key_slot, owner, lent.faults) && self.courtesy.waits(now)
    }

    /// When a wait for permits ends.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.courtesy.deadline()
    }

    /// Returns whether a wait for permits has ended.
    pub(super) fn tick(&mut self, now: Now) -> bool {
        self.courtesy.tick(now)
    }

    /// An entry waits behind parts that may be bound for somebody else: the consumer that it waits for may take it now.
    fn set_going(&mut self, at: Position, slot: u16, lane: &Lane, lent: &Lent<'_>) {
        let replay = self.pending.again_mut();
        if !replay.parts().is_idle() && replay.open_for(at, slot).is_some_and(|owner| takes(lane, owner, lent)) {
            replay.stir();
        }
    }

    #[inline]
    fn part_sent(&mut self, entry: &Entry, to: ConsumerIndex, lent: &Lent<'_>) {
        if let Some(part) = part(entry, lent) {
            self.pending.again_mut().part_sent(part.uuid, entry.at, to, part.is_last());
        }
    }

    #[inline]
    fn part_waits(&mut self, entry: &Entry, lent: &Lent<'_>) {
        if let Some(part) = part(entry, lent) {
            self.pending.again_mut().part_waits(part.uuid, entry.at);
        }
    }

    /// Whether no more may wait; then dispatch goes on when fewer do.
    fn is_full(&mut self, settings: &TopicSettings) -> bool {
        let full = self.pending.again().len() >= self.most_waiting(settings);
        if full {
            self.pending.again_mut().set_full();
        }
        full
    }

    /// Reads on. What its owner cannot take yet waits, so that others get theirs.
    fn send_new(&mut self, budget: &mut Budget, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        loop {
            if held::is_over_limit(&self.pending, lent) || !self.anyone_wants_new(lane, lent) {
                return Step::Idle;
            }
            let Some(at) = lane.next_new(lent).filter(|_| !lane.delayed.is_full()) else { return Step::Idle };
            if budget.is_spent() {
                return Step::More;
            }
            let Some(entry) = lane.entry(at, lent, turn) else {
                lane.read_new(at, self.sieve.to_find(self.permits(lane, lent)), lent, turn);
                return Step::Idle;
            };
            if lane.put_off(&entry, lent, turn) {
                lane.cursor.read_from(at.following());
                budget.pass();
                continue;
            }
            let (slot, messages) = (entry.meta.key_slot, lane.remaining(at, entry.meta.messages));
            match self.receiver(&entry, lane, lent) {
                Some(to) => {
                    lane.cursor.read_from(at.following());
                    self.pending.delivered_by_key(at, slot, to, entry.meta.messages, messages);
                    self.part_sent(&entry, to, lent);
                    self.taker = to;
                    self.sieve.let_through();
                    self.courtesy.ended();
                    self.send(to, Parcel { at, messages, redeliveries: 0, bytes: entry.bytes }, budget, lane, lent, turn);
                }
                None if self.awaits_permits(&entry, lane, lent, turn.now) || self.is_full(lent.settings) => {
                    lane.put_back(entry, lent, turn);
                    return Step::Idle;
                }
                None => {
                    lane.cursor.read_from(at.following());
                    self.part_waits(&entry, lent);
                    self.pending.parked(at, slot, entry.meta.messages, messages);
                    self.sieve.held_back();
                    self.set_going(at, slot, lane, lent);
                    budget.pass();
                }
            }
        }
    }

    fn send(&mut self, to: ConsumerIndex, parcel: Parcel, budget: &mut Budget, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        if let Some(consumer) = lane.consumer_mut(to) {
            consumer.unacked += u64::from(parcel.messages);
            consumer.sent_at_ms = turn.now.monotonic_ms;
        }
        budget.spend(parcel.bytes.len(), parcel.messages);
        lane.send(to, parcel, lent, turn);
    }

    pub(super) fn ack(&mut self, lane: &mut Lane, by: ConsumerIndex, at: Position, lent: &Lent<'_>) -> bool {
        let lifted = held::ack(&mut self.pending, lane, by, at, lent);
        self.stirred() || lifted
    }

    pub(super) fn ack_part(&mut self, lane: &mut Lane, by: ConsumerIndex, part: Part<'_>, lent: &Lent<'_>) -> bool {
        let lifted = held::ack_part(&mut self.pending, lane, by, part, lent);
        self.stirred() || lifted
    }

    pub(super) fn redeliver(&mut self, lane: &mut Lane, consumer: ConsumerIndex, ids: &[Position]) {
        held::redeliver(&mut self.pending, lane, consumer, ids);
    }

    pub(super) fn trimmed(&mut self, lane: &mut Lane) {
        held::trimmed(&mut self.pending, lane);
    }

    pub(super) fn held_messages(&self) -> u64 {
        self.pending.held_messages()
    }

    /// Whether an entry that was read for redelivery would be sent at once; others are read when they are.
    pub(super) fn wants_again(&self, at: Position, consumers: &Slab<Consumer>) -> bool {
        self.pending.waiting_slot(at).is_some_and(|slot| self.reaches(at, slot, consumers))
    }

    /// Entries that wait for consumers who take what comes, and get it a little later. What waits for one who has stopped does not count.
    pub(super) fn waiting_for_active(&self, lane: &Lane, now: Now) -> u64 {
        let replay = self.pending.again();
        if replay.len() == 0 {
            return 0;
        }
        let active = self.consumers.iter().filter(|index| lane.consumer(**index).is_some_and(|consumer| is_active(consumer, now)));
        active.map(|index| replay.ready(*index) as u64).sum()
    }

    /// The oldest entry that is worth a place in the cache: what waits is often wanted soon, but not what lies far back.
    pub(super) fn needs_from(&self, lane: &Lane) -> Position {
        let next = lane.cursor.read_position();
        let near = Position::new(next.ledger.0, (next.entry.0 - KEPT).max(0));
        match self.pending.first().filter(|_| self.pending.again().len() > 0) {
            Some(first) => first.max(near).min(next),
            None => next,
        }
    }

    fn stirred(&mut self) -> bool {
        if self.pending.again().is_stale() {
            self.pending.sweep_again(Replay::retain);
        }
        self.pending.again_mut().is_stirred()
    }

    /// One read brings all that waits near by and can be sent.
    fn read_again(&mut self, at: Position, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let max_entries = lent.settings.max_read_entries.max(1);
        let last = self.pending.last_waiting(at, max_entries, |at, slot| self.reaches(at, slot, &lane.consumers));
        lane.reads.ask(Wanted::Again, Range { from: at, last, max_entries }, lane.index, lent, turn);
    }

    fn reaches(&self, at: Position, slot: u16, consumers: &Slab<Consumer>) -> bool {
        let owner = self.pending.again().open_for(at, slot).and_then(|owner| consumers.get(owner as usize));
        owner.is_some_and(|owner| owner.takes(0))
    }

    fn anyone_takes(&mut self, lane: &Lane, lent: &Lent<'_>) -> bool {
        self.find_taker(|_, consumer| takes(lane, consumer, lent))
    }

    /// Whether there is somebody to look for new entries for: who takes entries and has none waiting. Whoever has gets those first, even
    /// if they have to be read again; looking further meanwhile would only add to what waits, and to what has to be read twice.
    fn anyone_wants_new(&mut self, lane: &Lane, lent: &Lent<'_>) -> bool {
        self.find_taker(|replay, consumer| takes(lane, consumer, lent) && replay.first(consumer).is_none())
    }

    /// Whether there is a consumer that will do; whoever took an entry of late is asked first.
    fn find_taker(&mut self, will_do: impl Fn(&Replay, ConsumerIndex) -> bool) -> bool {
        let replay = self.pending.again();
        if will_do(replay, self.taker) {
            return true;
        }
        let taker = self.consumers.iter().copied().find(|consumer| will_do(replay, *consumer));
        taker.inspect(|taker| self.taker = *taker).is_some()
    }

    /// Permits of the consumers that take entries.
    fn permits(&self, lane: &Lane, lent: &Lent<'_>) -> i64 {
        let consumers = self.consumers.iter().filter(|consumer| takes(lane, **consumer, lent));
        consumers.filter_map(|consumer| lane.consumer(*consumer)).map(|consumer| consumer.permits).sum()
    }

    /// How many entries may wait while others are looked for behind them.
    fn most_waiting(&self, settings: &TopicSettings) -> usize {
        let limit = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let by_consumers = limit(settings.max_look_ahead_per_consumer.saturating_mul(self.consumers.len()));
        by_consumers.min(limit(settings.max_look_ahead_per_subscription))
    }
}

/// What an entry says of the larger message that it is a part of, if it is one.
#[inline]
fn part<'a>(entry: &'a Entry, lent: &Lent<'_>) -> Option<Chunk<'a>> {
    if entry.meta.is_chunk && !lent.faults.parts_go_round { wire::payload::peek(&entry.bytes).ok()?.chunk } else { None }
}

fn takes(lane: &Lane, consumer: ConsumerIndex, lent: &Lent<'_>) -> bool {
    lane.consumer(consumer).is_some_and(|consumer| consumer.takes(lent.settings.max_unacked_per_consumer))
}

/// Whether a consumer takes what comes.
fn is_active(consumer: &Consumer, now: Now) -> bool {
    now.monotonic_ms < consumer.sent_at_ms + STOPPED_AFTER_MS
}

/// A consumer that gives so many permits at once has as many messages left to do when it gives them, about.
const MANY: u32 = 64;

/// A consumer that has been sent nothing for so long has stopped, as far as publishing is concerned.
const STOPPED_AFTER_MS: u64 = 100;

/// Entries behind the read position that stay in the cache while something waits.
const KEPT: i64 = 50_000;
