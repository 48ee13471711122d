//! Entries go round over the consumers that have permits; what a consumer gives back goes out first, in position order.

use ledger::Position;

use super::{Budget, Lane, Part, Step, held};
use crate::Turn;
use crate::consumer::{ConsumerIndex, Parcel};
use crate::lent::Lent;
use crate::pending::PendingAcks;
use crate::read_ahead::{Range, Wanted};

/// Shared subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pending: PendingAcks,
    round: Round,
}

impl Shared {
    pub(super) fn joined(&mut self, lane: &Lane, consumer: ConsumerIndex) {
        let priority = lane.consumer(consumer).map_or(0, |consumer| consumer.priority);
        self.round.join(consumer, priority);
    }

    pub(super) fn left(&mut self, consumer: ConsumerIndex, lent: &Lent<'_>) {
        self.round.leave(consumer);
        self.pending.hand_back_all(consumer, u32::from(!lent.faults.count_not_raised_on_close));
    }

    pub(super) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let mut budget = Budget::new(lent);
        self.round.start();
        loop {
            if held::is_over_limit(&self.pending, lent) {
                return Step::Idle;
            }
            let Some(to) = self.round.pick(lane, lent) else { return Step::Idle };
            let parcel = match self.pending.again().first() {
                Some(at) => self.take_again(at, lane, lent, turn),
                None => match lane.next_new(lent) {
                    Some(at) if !budget.is_spent() => self.take_new(at, to, lane, lent, turn),
                    Some(_) => return Step::More,
                    None => return Step::Idle,
                },
            };
            let Some(parcel) = parcel else { return Step::Idle };
            if parcel.redeliveries > 0 || self.pending.again().contains(parcel.at) {
                self.pending.redelivered(parcel.at, to);
            }
            if let Some(consumer) = lane.consumer_mut(to) {
                consumer.unacked += u64::from(parcel.messages);
            }
            self.round.sent();
            budget.spend(parcel.bytes.len());
            lane.send(to, parcel, lent, turn);
            if budget.is_spent() && self.pending.again().first().is_some() {
                return Step::More;
            }
        }
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
        self.pending.again().contains(at)
    }

    /// The first waiting entry, or a read for it.
    fn take_again(&mut self, at: Position, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Option<Parcel> {
        let Some(entry) = lane.entry(at, lent, turn) else {
            let max_entries = lent.settings.max_read_entries.max(1);
            let last = self.pending.again().end_of_first_run(max_entries)?;
            lane.reads.ask(Wanted::Again, Range { from: at, last, max_entries }, lane.index, lent, turn);
            return None;
        };
        let (redeliveries, messages) = self.pending.waiting(at)?;
        Some(Parcel { at, messages, redeliveries, bytes: entry.bytes })
    }

    /// The next new entry, or a read for it.
    fn take_new(&mut self, at: Position, to: ConsumerIndex, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Option<Parcel> {
        let Some(entry) = lane.entry(at, lent, turn) else {
            let permits = self.round.permits(lane, lent);
            lane.read_new(at, permits, lent, turn);
            return None;
        };
        lane.cursor.read_from(at.following());
        let messages = lane.remaining(at, entry.meta.messages);
        self.pending.delivered(at, to, entry.meta.messages, messages);
        Some(Parcel { at, messages, redeliveries: 0, bytes: entry.bytes })
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
