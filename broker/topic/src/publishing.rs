//! Publishes on their way to storage: in the order they came, from the producer's bytes to the receipt.

use std::collections::VecDeque;

use bytes::Bytes;
use ledger::{AppendError, Entry, EntryMeta, Position, StoreError};
use wire::ServerError;

use crate::dedup::Known;
use crate::event::Publish;
use crate::peek::{entry_meta, is_unfinished};
use crate::terminate::TERMINATED;
use crate::{Effect, ProducerKey, ProducerSlot, Topic, TopicSettings, Turn};

/// A publish that is not answered.
#[derive(Debug)]
struct Waiting {
    /// Where it goes; meaningless until a position is assigned.
    at: Position,
    producer: ProducerSlot,
    sequence: u64,
    highest_sequence: u64,
    /// Where its sequence ids count.
    known: Option<Known>,
    fate: Fate,
    meta: EntryMeta,
    bytes: Bytes,
}

/// What becomes of a publish. Whatever it is, it is answered in its turn: clients look for an answer to the oldest one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stored,
    /// It was stored before, and gets a receipt.
    Duplicate,
    /// It asks to be delivered later than it may, and is refused alone: it will never be taken, so no later one can overtake it.
    TooLate,
}

/// The publishes not answered, oldest first; those at the front have positions, the rest wait for a rollover to end.
#[derive(Debug, Default)]
pub(crate) struct Publishes {
    waiting: VecDeque<Waiting>,
    assigned: usize,
}

impl Publishes {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The oldest publish if it lies at or before `upto`.
    fn pop_through(&mut self, upto: Position) -> Option<Waiting> {
        let front = self.waiting.front()?;
        if self.assigned == 0 || front.at > upto {
            return None;
        }
        self.assigned -= 1;
        self.waiting.pop_front()
    }
}

impl Topic {
    /// Stores a publish. It is answered by a receipt when it is durable, or refused, or forgotten because its producer is being closed.
    pub fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        if self.throttle.is_some() { self.publish_in_time(turn, publish) } else { self.publish_now(turn, publish) }
    }

    /// Gives a publish its place, unless something stands against it.
    pub(crate) fn publish_now(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let Publish { key, slot, sequence, highest_sequence, bytes } = publish;
        let held = held_bytes(&bytes);
        if self.closing || self.fenced.is_some() {
            return turn.out.push(Effect::Forgotten { to: key, bytes: held });
        }
        let Some(producer) = self.producers.on_road(key, slot) else {
            return turn.out.push(Effect::Forgotten { to: key, bytes: held });
        };
        if self.end.is_near {
            producer.refused = true;
            return turn.out.push(refused_by_end(key, sequence, held));
        }
        if let Some((error, message)) = refusal(producer.refused, self.refusal.as_deref(), self.settings.max_entry_bytes, bytes.len()) {
            producer.refused = true;
            return turn.out.push(Effect::Refused { to: key, sequence, error, message, bytes: held });
        }
        let meta = entry_meta(&bytes);
        let fate = if delay_is_over_limit(&meta, &self.settings) { Fate::TooLate } else { Fate::Stored };
        let mut waiting = Waiting { at: Position::EARLIEST, producer: slot, sequence, highest_sequence, known: None, fate, meta, bytes };
        if let (Some(dedup), Some(known), Fate::Stored) = (&mut self.dedup, producer.known, fate) {
            // Of a larger message the last part tells that it is complete: the others do not count, but need not be there again.
            let counts = !(meta.is_chunk && is_unfinished(&waiting.bytes));
            waiting.known = counts.then_some(known);
            let is_new = if counts { dedup.is_new(known, sequence, highest_sequence) } else { dedup.is_beyond(known, sequence) };
            if !is_new && !self.faults.duplicates_are_new {
                waiting.fate = Fate::Duplicate;
            }
        }
        producer.pending += 1;
        if waiting.fate != Fate::Stored {
            return self.answer_in_turn(turn, waiting);
        }
        if self.publishes.assigned == self.publishes.waiting.len() {
            match self.ledgers.chain.append(waiting.bytes.len()) {
                Ok(at) => {
                    waiting.at = at;
                    self.publishes.assigned += 1;
                    turn.out.push(Effect::Append { at, bytes: waiting.bytes.clone() });
                }
                Err(AppendError::RollingOver) => {}
                Err(AppendError::Terminated) => {
                    producer.refused = true;
                    producer.pending -= 1;
                    return turn.out.push(refused_by_end(key, sequence, held));
                }
                Err(AppendError::Fenced) => {
                    producer.pending -= 1;
                    return turn.out.push(Effect::Forgotten { to: key, bytes: held });
                }
            }
        }
        producer.published(meta.messages, waiting.bytes.len());
        self.tally.messages_in += u64::from(meta.messages);
        self.tally.bytes_in += waiting.bytes.len() as u64;
        self.tally.entries_in += 1;
        self.tally.sizes.count(waiting.bytes.len() as u64, 1);
        self.publishes.waiting.push_back(waiting);
        self.ledgers.roll_if_full(&mut self.errands, turn);
    }

    /// What is not stored is answered when everything that was published before it is durable.
    fn answer_in_turn(&mut self, turn: &mut Turn<'_>, mut waiting: Waiting) {
        let Publishes { waiting: before, assigned } = &mut self.publishes;
        match before.back() {
            None => return self.answer(turn, waiting),
            Some(last) if *assigned == before.len() => {
                waiting.at = last.at;
                *assigned += 1;
            }
            Some(_) => {}
        }
        before.push_back(waiting);
    }

    /// A rollover has ended: the publishes that came meanwhile go on, in order.
    pub(crate) fn flush_publishes(&mut self, turn: &mut Turn<'_>) {
        let mut last = self.publishes.assigned.checked_sub(1).and_then(|last| self.publishes.waiting.get(last)).map(|last| last.at);
        while let Some(waiting) = self.publishes.waiting.get_mut(self.publishes.assigned) {
            if waiting.fate != Fate::Stored
                && let Some(last) = last
            {
                waiting.at = last;
                self.publishes.assigned += 1;
                continue;
            }
            let Ok(at) = self.ledgers.chain.append(waiting.bytes.len()) else { return };
            waiting.at = at;
            last = Some(at);
            turn.out.push(Effect::Append { at, bytes: waiting.bytes.clone() });
            self.publishes.assigned += 1;
            self.ledgers.roll_if_full(&mut self.errands, turn);
        }
    }

    /// Every append up to `upto` is durable: its producers get their receipts, then consumers get the entries.
    pub fn appended(&mut self, turn: &mut Turn<'_>, upto: Position) {
        if self.fenced.is_some() {
            return;
        }
        let mut confirmed = None;
        while let Some(waiting) = self.publishes.pop_through(upto) {
            confirmed = Some(waiting.at);
            self.answer(turn, waiting);
        }
        let Some(confirmed) = confirmed else { return };
        self.ledgers.chain.confirm(confirmed);
        self.ledgers.advance(&mut self.errands, turn);
        self.save_sequences_if_due(turn);
        self.want_all();
        self.finish_unload(turn);
    }

    /// The write of so many entries took so long, whatever became of it.
    pub fn written(&mut self, entries: u64, micros: u64) {
        self.tally.latencies.count(micros, entries);
    }

    fn answer(&mut self, turn: &mut Turn<'_>, waiting: Waiting) {
        let Waiting { at, producer, sequence, highest_sequence, known, fate, meta, bytes } = waiting;
        let is_new = fate == Fate::Stored;
        if let Some(dedup) = self.dedup.as_mut().filter(|_| is_new) {
            dedup.stored(known, sequence, highest_sequence);
        }
        let answered = self.producers.answered(producer);
        let held = held_bytes(&bytes);
        match (answered.to, answered.key) {
            (Some(to), _) if fate == Fate::TooLate => turn.out.push(too_late(to, sequence, held, self.settings.max_delay_ms)),
            (Some(to), _) => {
                let sequence = if self.faults.highest_id_in_receipt { sequence.max(highest_sequence) } else { sequence };
                turn.out.push(Effect::Receipt { to, sequence, highest_sequence, at: is_new.then_some(at), bytes: held });
            }
            (None, Some(key)) => turn.out.push(Effect::Forgotten { to: key, bytes: held }),
            (None, None) => {}
        }
        answered.close(turn.out);
        if answered.closed.is_some() || answered.dismissed {
            self.promote(turn);
        }
        // Without consumers nobody is about to read it.
        if is_new && !self.seats.is_empty() {
            turn.cache.insert(self.cache, Entry { at, bytes, meta });
        }
    }

    /// An append failed or its outcome is unknown: nothing from `from` on is ever acknowledged, and the topic asks to be unloaded,
    /// so that producers attach and send again. To refuse publishes beforehand, see [`set_store_writable`](Self::set_store_writable).
    pub fn append_failed(&mut self, turn: &mut Turn<'_>, from: Position, error: &StoreError) {
        let lost = matches!(error, StoreError::Fenced(_));
        self.fence(turn, format!("append from {from} on failed: {error}"), lost);
    }

    /// Whether the store takes publishes: a reason refuses them before they get a position, while consuming and trimming go on.
    pub fn set_store_writable(&mut self, _turn: &mut Turn<'_>, refusal: Option<String>) {
        self.refusal = refusal;
    }

    /// The topic ends: publishes that have no position yet will never have one.
    pub(crate) fn refuse_publishes_without_place(&mut self, turn: &mut Turn<'_>) {
        let late: Vec<Waiting> = self.publishes.waiting.drain(self.publishes.assigned..).collect();
        for Waiting { producer, sequence, bytes, .. } in late {
            let answered = self.producers.answered(producer);
            match (answered.to, answered.key) {
                (Some(to), _) => turn.out.push(refused_by_end(to, sequence, held_bytes(&bytes))),
                (None, Some(to)) => turn.out.push(Effect::Forgotten { to, bytes: held_bytes(&bytes) }),
                (None, None) => {}
            }
            answered.close(turn.out);
        }
    }

    /// Lets go of publishes that will never be answered: all of them, or those that have no position yet.
    pub(crate) fn forget_publishes(&mut self, turn: &mut Turn<'_>, all: bool) {
        self.forget_held(turn, true);
        let keep = if all { 0 } else { self.publishes.assigned };
        self.publishes.assigned = keep;
        while self.publishes.waiting.len() > keep {
            // From the back or the front makes no difference to the producers: none of these is answered.
            let Some(waiting) = self.publishes.waiting.pop_back() else { return };
            let answered = self.producers.answered(waiting.producer);
            if let Some(to) = answered.key {
                turn.out.push(Effect::Forgotten { to, bytes: held_bytes(&waiting.bytes) });
            }
            answered.close(turn.out);
        }
    }
}

/// Why a publish is not taken, if it is not. A producer that was refused once stays refused until it attaches again,
/// because a later publish must not overtake the one it has to send again.
fn refusal(refused_before: bool, store: Option<&str>, max_bytes: usize, size: usize) -> Option<(ServerError, String)> {
    if max_bytes > 0 && size > max_bytes {
        return Some((ServerError::NotAllowedError, format!("an entry of {size} bytes is over the limit of {max_bytes} bytes")));
    }
    if let Some(reason) = store {
        return Some((ServerError::PersistenceError, reason.to_owned()));
    }
    refused_before.then(|| (ServerError::PersistenceError, "an earlier publish of this producer was refused".to_owned()))
}

/// Whether a publish asks to be delivered later than it may, by its producer's own clock.
#[inline]
fn delay_is_over_limit(meta: &EntryMeta, settings: &TopicSettings) -> bool {
    let limit = settings.max_delay_ms;
    let limited = meta.deliver_at_ms > 0 && limit > 0 && settings.delayed_tick_ms > 0;
    limited && meta.deliver_at_ms.saturating_sub(meta.publish_time_ms) > limit
}

#[cold]
fn refused_by_end(to: ProducerKey, sequence: u64, bytes: u32) -> Effect {
    Effect::Refused { to, sequence, error: ServerError::TopicTerminatedError, message: TERMINATED.to_owned(), bytes }
}

#[cold]
fn too_late(to: ProducerKey, sequence: u64, bytes: u32, limit: u64) -> Effect {
    let message = format!("Exceeds max allowed delivery delay of {limit} milliseconds");
    Effect::Refused { to, sequence, error: ServerError::NotAllowedError, message, bytes }
}

fn held_bytes(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
