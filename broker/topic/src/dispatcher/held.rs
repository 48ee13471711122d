//! Entries that several consumers hold: acks, returns and limits, alike for all types that share entries.

use ledger::Position;

use super::{Lane, Part};
use crate::consumer::ConsumerIndex;
use crate::lent::Lent;
use crate::pending::{Released, Unacked, Waiting};

/// Acks one entry. Returns whether that lifted a limit that held dispatch back.
pub(super) fn ack<W: Waiting + Default>(
    pending: &mut Unacked<W>,
    lane: &mut Lane,
    by: ConsumerIndex,
    at: Position,
    lent: &Lent<'_>,
) -> bool {
    let held_back = is_over_limit(pending, lent);
    let newly = lane.cursor.ack(at, lent.ledger);
    // An entry of one message that was sent twice may be acked twice; only what is pending counts.
    let released = pending.ack(at);
    if newly && let Some(consumer) = lane.consumer_mut(by) {
        consumer.acked(released.map_or(1, |released| u64::from(released.messages)));
    }
    lift(pending, lane, released, held_back, lent)
}

/// Acks part of a batch. Returns whether that lifted a limit that held dispatch back.
pub(super) fn ack_part<W: Waiting + Default>(
    pending: &mut Unacked<W>,
    lane: &mut Lane,
    by: ConsumerIndex,
    part: Part<'_>,
    lent: &Lent<'_>,
) -> bool {
    let held_back = is_over_limit(pending, lent);
    let messages = part.messages_or(pending.batch_size(part.at));
    let acked = lane.cursor.ack_batch(part.at, part.remaining, messages, lent.ledger);
    let released = match acked.entry_done {
        true => pending.ack(part.at),
        false => pending.ack_part(part.at, acked.newly_acked),
    };
    if let Some(consumer) = lane.consumer_mut(by) {
        consumer.acked(u64::from(acked.newly_acked));
    }
    lift(pending, lane, released, held_back, lent)
}

/// The consumer wants these entries again, or all that it holds.
pub(super) fn redeliver<W: Waiting + Default>(pending: &mut Unacked<W>, lane: &mut Lane, consumer: ConsumerIndex, ids: &[Position]) {
    let Some(holder) = lane.consumer_mut(consumer) else { return };
    if ids.is_empty() {
        pending.hand_back_all(consumer, 1);
        holder.unacked = 0;
    }
    for at in ids {
        if let Some(messages) = pending.hand_back(*at, consumer) {
            holder.unacked -= u64::from(messages);
        }
    }
}

/// Ledgers were trimmed below the cursor.
pub(super) fn trimmed<W: Waiting + Default>(pending: &mut Unacked<W>, lane: &mut Lane) {
    let gone = lane.cursor.mark_delete();
    pending.release_through(gone, |released| release(lane, released));
}

/// Whether the subscription's consumers hold as much as they may.
pub(super) fn is_over_limit<W: Waiting + Default>(pending: &Unacked<W>, lent: &Lent<'_>) -> bool {
    pending.held_messages() >= lent.max_held
}

/// Gives released messages back to their holder; tells whether it, or the subscription, was held back and no longer is.
fn lift<W: Waiting + Default>(pending: &Unacked<W>, lane: &mut Lane, released: Option<Released>, held_back: bool, lent: &Lent<'_>) -> bool {
    let Some(released) = released else { return false };
    let limit = lent.settings.max_unacked_per_consumer;
    let over = |lane: &Lane| released.holder.and_then(|holder| lane.consumer(holder)).is_some_and(|consumer| consumer.is_over(limit));
    let was_over = over(lane);
    release(lane, released);
    (was_over && !over(lane)) || (held_back && !is_over_limit(pending, lent))
}

fn release(lane: &mut Lane, released: Released) {
    if let Some(consumer) = released.holder.and_then(|holder| lane.consumer_mut(holder)) {
        consumer.unacked -= u64::from(released.messages);
    }
}
