//! One consumer gets everything, in order. What it does not ack it gets again by reading again from the mark-delete position.
//!
//! Of a Failover subscription the others stand by: when another becomes the active one, it reads again what the one before did not
//! ack, a little later, so that the acks which are still on their way count.

use ledger::{Entry, Position};

use super::failover::{announce, elect, end_silences, first_end_of_silence, tell};
use super::{Budget, Lane, Part, Step};
use crate::Turn;
use crate::compaction::view::Viewed;
use crate::consumer::{ConsumerIndex, Parcel};
use crate::lent::Lent;

/// Exclusive and Failover subscriptions.
#[derive(Debug, Default)]
pub(crate) struct SingleActive {
    /// Whether others stand by.
    failover: bool,
    /// Who is to get everything.
    active: Option<ConsumerIndex>,
    /// Who gets everything at present; nobody gets anything while a takeover waits.
    serving: Option<ConsumerIndex>,
    takeover_at: Option<u64>,
    /// When a consumer that has said nothing yet is told nevertheless.
    tell_at: Option<u64>,
    /// Whether the one that was served left others behind.
    left_behind: bool,
}

impl SingleActive {
    pub(super) fn new(failover: bool) -> SingleActive {
        SingleActive { failover, ..SingleActive::default() }
    }

    pub(super) fn joined(&mut self, consumer: ConsumerIndex) {
        if !self.failover {
            self.active = Some(consumer);
            self.serving = Some(consumer);
        }
    }

    pub(super) fn left(&mut self, lane: &mut Lane, consumer: ConsumerIndex, lent: &Lent<'_>) {
        if self.active == Some(consumer) {
            self.active = None;
        }
        if self.serving == Some(consumer) {
            self.serving = None;
            self.left_behind = true;
            lane.reads.forget();
            lane.rewind(lent.ledger);
        }
    }

    /// Consumers came or went: whoever comes first now takes over, at once if nobody has to be waited for.
    pub(super) fn appoint(&mut self, lane: &mut Lane, lent: &Lent<'_>, turn: &mut Turn<'_>) {
        if !self.failover {
            return;
        }
        self.active = elect(&lane.consumers, lent.topic);
        let delay = lent.settings.failover_delay_ms;
        let first = self.serving.is_none() && !self.left_behind;
        if self.active.is_none() || self.active == self.serving {
            self.takeover_at = None;
            self.left_behind = false;
        } else if first || delay == 0 {
            self.take_over(lane, lent, turn);
        } else {
            self.takeover_at.get_or_insert(turn.now.monotonic_ms + delay);
        }
        let active = self.active;
        tell(&mut lane.consumers, turn, false, |consumer, told| told.is_none() && Some(consumer) != active);
        self.tell_at = first_end_of_silence(&lane.consumers);
    }

    /// When the next consumer takes over, or is told.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.takeover_at.into_iter().chain(self.tell_at).min()
    }

    /// Lets the next consumer take over if it is time; returns whether it did.
    pub(super) fn tick(&mut self, lane: &mut Lane, lent: &Lent<'_>, turn: &mut Turn<'_>) -> bool {
        let due = self.takeover_at.is_some_and(|at| at <= turn.now.monotonic_ms);
        if due {
            self.take_over(lane, lent, turn);
        }
        if self.tell_at.is_some_and(|at| at <= turn.now.monotonic_ms) {
            end_silences(&mut lane.consumers, turn);
            self.tell_at = first_end_of_silence(&lane.consumers);
        }
        due
    }

    fn take_over(&mut self, lane: &mut Lane, lent: &Lent<'_>, turn: &mut Turn<'_>) {
        self.takeover_at = None;
        self.left_behind = false;
        if self.serving != self.active {
            self.serving = self.active;
            if !lent.faults.takeover_without_rewind {
                lane.reads.forget();
                lane.rewind(lent.ledger);
            }
        }
        announce(&mut lane.consumers, self.active, turn);
    }

    /// Who is the active one.
    pub(super) fn active(&self) -> Option<ConsumerIndex> {
        self.active
    }

    pub(super) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        let Some(active) = self.serving.filter(|_| self.takeover_at.is_none()) else { return Step::Idle };
        let mut budget = Budget::new(lent);
        loop {
            let permits = match lane.consumer(active) {
                Some(consumer) if consumer.takes(0) => consumer.permits,
                _ => return Step::Idle,
            };
            if lane.view.is_some() && lane.consumer(active).is_some_and(|consumer| consumer.read_compacted) {
                if budget.is_spent() {
                    return Step::More;
                }
                match lane.next_viewed(permits, lent, turn) {
                    Viewed::Entry(entry) => {
                        deliver(lane, active, entry, &mut budget, lent, turn);
                        continue;
                    }
                    Viewed::Wait => return Step::Idle,
                    Viewed::Beyond => {}
                }
            }
            let Some(at) = lane.next_new(lent) else { return Step::Idle };
            if budget.is_spent() {
                return Step::More;
            }
            let Some(entry) = lane.entry(at, lent, turn) else {
                lane.read_new(at, permits, lent, turn);
                return Step::Idle;
            };
            deliver(lane, active, entry, &mut budget, lent, turn);
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

    /// Only the one that is served holds anything.
    pub(super) fn redeliver(&mut self, lane: &mut Lane, by: ConsumerIndex, lent: &Lent<'_>) {
        if self.serving == Some(by) {
            lane.reads.forget_new();
            lane.rewind(lent.ledger);
        }
    }
}

/// Sends an entry to the active consumer and reads on behind it.
#[inline]
fn deliver(lane: &mut Lane, active: ConsumerIndex, entry: Entry, budget: &mut Budget, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
    let Entry { at, bytes, meta } = entry;
    lane.cursor.read_from(at.following());
    let messages = lane.remaining(at, meta.messages);
    budget.spend(bytes.len(), messages);
    lane.send(active, Parcel { at, messages, redeliveries: 0, bytes }, lent, turn);
}
