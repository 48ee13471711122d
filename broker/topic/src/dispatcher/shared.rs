//! Entries go round over the consumers that have permits; what a consumer gives back goes out first, in position order.

use ledger::{Entry, Position};
use wire::payload::Peek;

use super::{Budget, Lane, Part, Step, held};
use crate::Turn;
use crate::chunks::Chunks;
use crate::consumer::{ConsumerIndex, Parcel};
use crate::lent::Lent;
use crate::pending::PendingAcks;
use crate::read_ahead::{Range, Wanted};

/// Shared subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pending: PendingAcks,
    chunks: Chunks,
    round: Round,
}

/// What to do with the next entry.
enum Next {
    Send(ConsumerIndex, Parcel),
    /// Not to be sent now; others may be.
    PassedOver,
    /// There is none, or it is being read.
    Nothing,
}

impl Shared {
    pub(super) fn joined(&mut self, lane: &Lane, consumer: ConsumerIndex) {
        let priority = lane.consumer(consumer).map_or(0, |consumer| consumer.priority);
        self.round.join(consumer, priority);
    }

    pub(super) fn left(&mut self, consumer: ConsumerIndex, lent: &Lent<'_>) {
        self.round.leave(consumer);
        self.pending.hand_back_all(consumer, u32::from(!lent.faults.count_not_raised_on_close));
        for at in self.chunks.left(consumer) {
            self.pending.give_to_anybody(at);
        }
    }

    pub(super) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let mut budget = Budget::new(lent);
        lane.delayed.advance(turn.now);
        self.round.start();
        loop {
            if held::is_over_limit(&self.pending, lent) {
                return Step::Idle;
            }
            let Some(to) = self.round.pick(lane, lent) else { return Step::Idle };
            if budget.is_spent() {
                return if self.has_work(lane, lent) { Step::More } else { Step::Idle };
            }
            match self.next(to, lane, lent, turn) {
                Next::Send(receiver, parcel) => {
                    if let Some(consumer) = lane.consumer_mut(receiver) {
                        consumer.unacked += u64::from(parcel.messages);
                    }
                    if receiver == to {
                        self.round.sent();
                    }
                    budget.spend(parcel.bytes.len(), parcel.messages);
                    lane.send(receiver, parcel, lent, turn);
                }
                Next::PassedOver => budget.pass(),
                Next::Nothing => return Step::Idle,
            }
        }
    }

    /// What comes next, in this order: what was set aside, what is to be delivered again, what is due, what is new.
    fn next(&mut self, to: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Next {
        if self.chunks.has_aside() {
            let max_unacked = lent.settings.max_unacked_per_consumer;
            let takes = |holder| lane.consumer(holder).is_some_and(|consumer| consumer.takes(max_unacked));
            if let Some((holder, at)) = self.chunks.ready(takes) {
                return self.take_aside(at, holder, lane, lent, turn);
            }
        }
        if let Some(at) = self.pending.again().first() {
            return self.take_again(at, to, lane, lent, turn);
        }
        // While a due entry is being read, new ones go on.
        if lane.delayed.len() > 0
            && let Some(at) = lane.delayed.first_due(lent.settings.max_read_entries)
            && let Some(next) = self.take_due(at, to, lane, lent, turn)
        {
            return next;
        }
        match lane.next_new(lent) {
            Some(at) if !lane.delayed.is_full() && !self.chunks.is_full() => self.take_new(at, to, lane, lent, turn),
            _ => Next::Nothing,
        }
    }

    fn has_work(&self, lane: &mut Lane, lent: &Lent<'_>) -> bool {
        let max_unacked = lent.settings.max_unacked_per_consumer;
        let takes = |holder| lane.consumer(holder).is_some_and(|consumer| consumer.takes(max_unacked));
        self.pending.again().first().is_some()
            || self.chunks.ready(takes).is_some()
            || lane.delayed.first_due(lent.settings.max_read_entries).is_some()
            || lane.next_new(lent).is_some()
    }

    pub(super) fn ack(&mut self, lane: &mut Lane, by: ConsumerIndex, at: Position, lent: &Lent<'_>) -> bool {
        held::ack(&mut self.pending, lane, by, at, lent)
    }

    pub(super) fn ack_part(&mut self, lane: &mut Lane, by: ConsumerIndex, part: Part<'_>, lent: &Lent<'_>) -> bool {
        held::ack_part(&mut self.pending, lane, by, part, lent)
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

    pub(super) fn wants_again(&self, at: Position) -> bool {
        self.pending.again().contains(at) || self.chunks.is_aside(at)
    }

    /// The first part that was set aside, for the consumer it waited for.
    fn take_aside(&mut self, at: Position, holder: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Next {
        let Some((redeliveries, messages)) = self.pending.waiting(at) else {
            self.chunks.taken(at, holder);
            return Next::PassedOver;
        };
        let Some(entry) = lane.entry(at, lent, turn) else {
            lane.reads.ask(Wanted::Again, Range { from: at, last: at, max_entries: 1 }, lane.index, lent, turn);
            return Next::Nothing;
        };
        self.chunks.taken(at, holder);
        self.pending.redelivered(at, holder);
        self.sent_part(&entry);
        Next::Send(holder, Parcel { at, messages, redeliveries, bytes: entry.bytes })
    }

    /// The first waiting entry, or a read for it.
    fn take_again(&mut self, at: Position, to: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Next {
        let Some(entry) = lane.entry(at, lent, turn) else {
            let max_entries = lent.settings.max_read_entries.max(1);
            if let Some(last) = self.pending.again().end_of_first_run(max_entries) {
                lane.reads.ask(Wanted::Again, Range { from: at, last, max_entries }, lane.index, lent, turn);
            }
            return Next::Nothing;
        };
        let Some((redeliveries, messages)) = self.pending.waiting(at) else { return Next::Nothing };
        let Some(to) = self.receiver(&entry, to, lane, lent) else {
            self.pending.set_aside(at);
            return Next::PassedOver;
        };
        self.pending.redelivered(at, to);
        self.sent_part(&entry);
        Next::Send(to, Parcel { at, messages, redeliveries, bytes: entry.bytes })
    }

    /// An entry whose time has come; none while it is being read.
    fn take_due(&mut self, at: Position, to: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Option<Next> {
        if lane.cursor.is_acked(at) {
            lane.delayed.done(at);
            return Some(Next::PassedOver);
        }
        let Some(entry) = lane.entry(at, lent, turn) else {
            lane.read_due(at, lent, turn);
            return None;
        };
        lane.delayed.done(at);
        let messages = lane.remaining(at, entry.meta.messages);
        let Some(to) = self.receiver(&entry, to, lane, lent) else {
            self.pending.set_aside_late(at, entry.meta.messages, messages);
            return Some(Next::PassedOver);
        };
        self.pending.delivered_late(at, to, entry.meta.messages, messages);
        self.sent_part(&entry);
        Some(Next::Send(to, Parcel { at, messages, redeliveries: 0, bytes: entry.bytes }))
    }

    /// The next new entry, or a read for it.
    fn take_new(&mut self, at: Position, to: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Next {
        let Some(entry) = lane.entry(at, lent, turn) else {
            let permits = self.round.permits(lane, lent);
            lane.read_new(at, permits, lent, turn);
            return Next::Nothing;
        };
        lane.cursor.read_from(at.following());
        if lane.put_off(&entry, lent, turn) {
            return Next::PassedOver;
        }
        let messages = lane.remaining(at, entry.meta.messages);
        let Some(to) = self.receiver(&entry, to, lane, lent) else {
            self.pending.set_aside_late(at, entry.meta.messages, messages);
            return Next::PassedOver;
        };
        self.pending.delivered(at, to, entry.meta.messages, messages);
        self.sent_part(&entry);
        Next::Send(to, Parcel { at, messages, redeliveries: 0, bytes: entry.bytes })
    }

    /// Who gets the entry: whoever's turn it is, but a part of a larger message goes where the other parts went. None if that
    /// consumer takes nothing now: then the part was set aside for it.
    #[inline]
    fn receiver(&mut self, entry: &Entry, to: ConsumerIndex, lane: &Lane, lent: &Lent<'_>) -> Option<ConsumerIndex> {
        if entry.meta.is_chunk && !lent.faults.parts_go_round { self.holder_of_part(entry, to, lane, lent) } else { Some(to) }
    }

    fn holder_of_part(&mut self, entry: &Entry, to: ConsumerIndex, lane: &Lane, lent: &Lent<'_>) -> Option<ConsumerIndex> {
        let holder = wire::payload::peek(&entry.bytes).ok()?.chunk.map_or(to, |chunk| self.chunks.holder(chunk.uuid, to));
        let max_unacked = lent.settings.max_unacked_per_consumer;
        if holder == to || lane.consumer(holder).is_some_and(|consumer| consumer.takes(max_unacked)) {
            return Some(holder);
        }
        self.chunks.set_aside(entry.at, holder);
        None
    }

    #[inline]
    fn sent_part(&mut self, entry: &Entry) {
        if entry.meta.is_chunk
            && let Ok(Peek { chunk: Some(chunk), .. }) = wire::payload::peek(&entry.bytes)
            && chunk.is_last()
        {
            self.chunks.complete(chunk.uuid);
        }
    }
}

/// Whose turn it is: lower priority numbers first, within one number round and round.
#[derive(Debug, Default)]
struct Round {
    /// By priority, then by when they joined.
    order: Vec<(i32, ConsumerIndex)>,
    /// Where the next turn begins.
    next: usize,
    current: Option<ConsumerIndex>,
    sent: usize,
}

impl Round {
    fn join(&mut self, consumer: ConsumerIndex, priority: i32) {
        let place = self.order.partition_point(|(other, _)| *other <= priority);
        self.order.insert(place, (priority, consumer));
        self.current = None;
    }

    fn leave(&mut self, consumer: ConsumerIndex) {
        self.order.retain(|(_, other)| *other != consumer);
        self.current = None;
    }

    /// A new dispatch step begins with the next consumer.
    fn start(&mut self) {
        self.current = None;
    }

    fn sent(&mut self) {
        self.sent += 1;
    }

    /// The consumer for the next entry.
    fn pick(&mut self, lane: &Lane, lent: &Lent<'_>) -> Option<ConsumerIndex> {
        let max_unacked = lent.settings.max_unacked_per_consumer;
        let takes = |consumer: ConsumerIndex| lane.consumer(consumer).is_some_and(|consumer| consumer.takes(max_unacked));
        if let Some(current) = self.current
            && self.sent < lent.settings.max_round_robin.max(1)
            && takes(current)
        {
            return Some(current);
        }
        let first = self.order.iter().position(|(_, consumer)| takes(*consumer))?;
        let priority = self.order.get(first)?.0;
        let end = self.order.partition_point(|(other, _)| *other <= priority);
        let begin = self.order.partition_point(|(other, _)| *other < priority);
        let from = if (begin..end).contains(&self.next) { self.next } else { begin };
        let place = (from..end).chain(begin..from).find(|place| self.order.get(*place).is_some_and(|(_, consumer)| takes(*consumer)))?;
        self.next = place + 1;
        self.sent = 0;
        self.current = self.order.get(place).map(|(_, consumer)| *consumer);
        self.current
    }

    /// Permits of the consumers that take entries.
    fn permits(&self, lane: &Lane, lent: &Lent<'_>) -> i64 {
        let max_unacked = lent.settings.max_unacked_per_consumer;
        let consumers = self.order.iter().filter_map(|(_, consumer)| lane.consumer(*consumer));
        consumers.filter(|consumer| consumer.takes(max_unacked)).map(|consumer| consumer.permits).sum()
    }
}
