//! One consumer gets everything, in order. What it does not ack it gets again by reading again from the mark-delete position.

use ledger::Position;

use super::{Budget, Lane, Part, Step};
use crate::Turn;
use crate::consumer::{ConsumerIndex, Parcel};
use crate::lent::Lent;

/// Exclusive subscriptions.
#[derive(Debug, Default)]
pub(crate) struct SingleActive {
    active: Option<ConsumerIndex>,
}

impl SingleActive {
    pub(super) fn joined(&mut self, consumer: ConsumerIndex) {
        self.active = Some(consumer);
    }

    pub(super) fn left(&mut self, lane: &mut Lane, consumer: ConsumerIndex, lent: &Lent<'_>) {
        if self.active == Some(consumer) {
            self.active = None;
            lane.reads.forget();
            lane.cursor.rewind(lent.ledger);
        }
    }

    pub(super) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let Some(active) = self.active else { return Step::Idle };
        let mut budget = Budget::new(lent);
        loop {
            let permits = match lane.consumer(active) {
                Some(consumer) if consumer.takes(0) => consumer.permits,
                _ => return Step::Idle,
            };
            let Some(at) = lane.next_new(lent) else { return Step::Idle };
            if budget.is_spent() {
                return Step::More;
            }
            let Some(entry) = lane.entry(at, lent, turn) else {
                lane.read_new(at, permits, lent, turn);
                return Step::Idle;
            };
            budget.spend(entry.bytes.len());
            lane.cursor.read_from(at.following());
            let messages = lane.remaining(at, entry.meta.messages);
            lane.send(active, Parcel { at, messages, redeliveries: 0, bytes: entry.bytes }, lent, turn);
        }
    }

    pub(super) fn ack(&mut self, lane: &mut Lane, by: ConsumerIndex, at: Position, lent: &Lent<'_>) -> bool {
        if lane.cursor.ack(at, lent.ledger)
            && let Some(consumer) = lane.consumer_mut(by)
        {
            consumer.acked(1);
        }
        false
    }

    pub(super) fn ack_part(&mut self, lane: &mut Lane, by: ConsumerIndex, part: Part<'_>, lent: &Lent<'_>) -> bool {
        let messages = part.messages_or(None);
        let acked = lane.cursor.ack_batch(part.at, part.remaining, messages, lent.ledger);
        if let Some(consumer) = lane.consumer_mut(by) {
            consumer.acked(u64::from(acked.newly_acked));
        }
        false
    }

    pub(super) fn redeliver(&mut self, lane: &mut Lane, lent: &Lent<'_>) {
        lane.reads.forget_new();
        lane.cursor.rewind(lent.ledger);
    }
}
