//! Who gets the next entry: the seam between a subscription and its type.
//!
//! A type is one file beside this one and one variant of [`Dispatcher`]. It picks consumers and remembers what they hold; the
//! [`Lane`] knows where the subscription stands and how entries are come by.

pub(crate) mod failover;
mod held;
mod key_shared;
mod shared;
mod single_active;

use ledger::{AckSet, Cursor, Entry, Position};
use slab::Slab;

use crate::compaction::view::View;
use crate::consumer::{Consumer, ConsumerIndex, Parcel};
use crate::delayed::Delayed;
use crate::errand::SubscriptionIndex;
use crate::growth::Growth;
use crate::lent::Lent;
use crate::pace::Stride;
use crate::rate::Allowance;
use crate::read_ahead::{Range, ReadAhead, Wanted};
use crate::stats::SubscriptionRates;
use crate::{Effect, Now, SubscriptionKind, Turn};

use key_shared::KeyShared;
use shared::Shared;
use single_active::SingleActive;

/// What every type works on: the cursor, the consumers and the entries read for them.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) index: SubscriptionIndex,
    pub(crate) cursor: Cursor,
    pub(crate) consumers: Slab<Consumer>,
    pub(crate) reads: ReadAhead,
    /// Where it is in the compacted ledger, if a consumer reads that.
    pub(crate) view: Option<Box<View>>,
    /// Up to here all is acked, or was not asked for, of what only a compacted ledger has; none if that is not known.
    pub(crate) floor: Option<Position>,
    pub(crate) delayed: Delayed,
    pub(crate) stride: Stride,
    pub(crate) messages_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) messages_redelivered: u64,
    pub(crate) messages_expired: u64,
    growth: Growth<4>,
    /// Messages per entry of late, in sixteenths; for reading no more than permits allow.
    per_entry: u32,
}

/// Whether a dispatch step stopped for want of budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Step {
    /// Nothing to do until something happens.
    Idle,
    /// More could be sent at once.
    More,
}

/// What one dispatch step may send.
struct Budget {
    entries: usize,
    bytes: usize,
    messages: u64,
}

/// The types of subscription.
#[derive(Debug)]
pub(crate) enum Dispatcher {
    SingleActive(SingleActive),
    Shared(Box<Shared>),
    KeyShared(Box<KeyShared>),
}

impl Dispatcher {
    pub(crate) fn new(kind: SubscriptionKind) -> Dispatcher {
        match kind {
            SubscriptionKind::Exclusive => Dispatcher::SingleActive(SingleActive::new(false)),
            SubscriptionKind::Failover => Dispatcher::SingleActive(SingleActive::new(true)),
            SubscriptionKind::Shared => Dispatcher::Shared(Box::default()),
            SubscriptionKind::KeyShared => Dispatcher::KeyShared(Box::default()),
        }
    }

    /// Whether a consumer may join those that are there.
    pub(crate) fn admits(&self, attach: &crate::AttachConsumer) -> Result<(), (wire::ServerError, String)> {
        match self {
            Dispatcher::KeyShared(keys) => keys.admits(&attach.key_shared),
            _ => Ok(()),
        }
    }

    /// A consumer joined the lane.
    pub(crate) fn joined(&mut self, lane: &Lane, consumer: ConsumerIndex, lent: &Lent<'_>) {
        match self {
            Dispatcher::SingleActive(single) => single.joined(consumer),
            Dispatcher::Shared(shared) => shared.joined(lane, consumer),
            Dispatcher::KeyShared(keys) => keys.joined(lane, consumer, lent),
        }
    }

    /// A consumer has left the lane; what it held goes to others.
    pub(crate) fn left(&mut self, lane: &mut Lane, consumer: ConsumerIndex, lent: &Lent<'_>) {
        match self {
            Dispatcher::SingleActive(single) => single.left(lane, consumer, lent),
            Dispatcher::Shared(shared) => shared.left(consumer, lent),
            Dispatcher::KeyShared(keys) => keys.left(consumer, lent),
        }
    }

    /// Consumers came or went, and those who came know that they are attached: where one is active, it may be another now.
    pub(crate) fn appoint(&mut self, lane: &mut Lane, lent: &Lent<'_>, turn: &mut Turn<'_>) {
        if let Dispatcher::SingleActive(single) = self {
            single.appoint(lane, lent, turn);
        }
    }

    /// The consumer that gets everything, where there is one.
    pub(crate) fn active(&self) -> Option<ConsumerIndex> {
        match self {
            Dispatcher::SingleActive(single) => single.active(),
            Dispatcher::Shared(_) | Dispatcher::KeyShared(_) => None,
        }
    }

    /// When [`tick`](Self::tick) wants to be called.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self {
            Dispatcher::SingleActive(single) => single.deadline(),
            Dispatcher::Shared(_) => None,
            Dispatcher::KeyShared(keys) => keys.deadline(),
        }
    }

    /// Does what is due. Returns whether there may be something to dispatch.
    pub(crate) fn tick(&mut self, lane: &mut Lane, lent: &Lent<'_>, turn: &mut Turn<'_>) -> bool {
        match self {
            Dispatcher::SingleActive(single) => single.tick(lane, lent, turn),
            Dispatcher::Shared(_) => false,
            Dispatcher::KeyShared(keys) => keys.tick(turn.now),
        }
    }

    /// Entries that were read and wait for consumers who take what comes.
    pub(crate) fn waiting_for_active(&self, lane: &Lane, now: Now) -> u64 {
        match self {
            Dispatcher::KeyShared(keys) => keys.waiting_for_active(lane, now),
            Dispatcher::SingleActive(_) | Dispatcher::Shared(_) => 0,
        }
    }

    /// Sends what can be sent, within one step's budget.
    pub(crate) fn dispatch(&mut self, lane: &mut Lane, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        match self {
            Dispatcher::SingleActive(single) => single.dispatch(lane, lent, turn),
            Dispatcher::Shared(shared) => shared.dispatch(lane, lent, turn),
            Dispatcher::KeyShared(keys) => keys.dispatch(lane, lent, turn),
        }
    }

    /// Acks one entry. Returns whether that lifted a limit that held dispatch back.
    pub(crate) fn ack(&mut self, lane: &mut Lane, by: ConsumerIndex, at: Position, lent: &Lent<'_>) -> bool {
        match self {
            Dispatcher::SingleActive(single) => single.ack(lane, by, at, lent),
            Dispatcher::Shared(shared) => shared.ack(lane, by, at, lent),
            Dispatcher::KeyShared(keys) => keys.ack(lane, by, at, lent),
        }
    }

    /// Acks part of a batch. Returns whether that lifted a limit that held dispatch back.
    pub(crate) fn ack_part(&mut self, lane: &mut Lane, by: ConsumerIndex, part: Part<'_>, lent: &Lent<'_>) -> bool {
        match self {
            Dispatcher::SingleActive(single) => single.ack_part(lane, by, part, lent),
            Dispatcher::Shared(shared) => shared.ack_part(lane, by, part, lent),
            Dispatcher::KeyShared(keys) => keys.ack_part(lane, by, part, lent),
        }
    }

    /// Whether acks may be cumulative.
    pub(crate) fn acks_cumulatively(&self) -> bool {
        matches!(self, Dispatcher::SingleActive(_))
    }

    /// The consumer wants these entries again, or all that it holds.
    pub(crate) fn redeliver(&mut self, lane: &mut Lane, consumer: ConsumerIndex, ids: &[Position], lent: &Lent<'_>) {
        match self {
            Dispatcher::SingleActive(single) => single.redeliver(lane, consumer, lent),
            Dispatcher::Shared(shared) => shared.redeliver(lane, consumer, ids),
            Dispatcher::KeyShared(keys) => keys.redeliver(lane, consumer, ids),
        }
    }

    /// A read has ended. Returns whether there may be something to dispatch.
    pub(crate) fn read_done(&self, lane: &mut Lane, outcome: crate::ReadOutcome, turn: &mut Turn<'_>) -> bool {
        if let Some(view) = &mut lane.view
            && view.reads.expects(outcome.tag)
        {
            return view.reads.arrived(outcome, |_| true, turn);
        }
        let Lane { cursor, reads, consumers, delayed, .. } = lane;
        let next = cursor.read_position();
        let wanted = |at| at >= next || self.wants_again(at, consumers) || delayed.is_due(at);
        reads.arrived(outcome, |at| !cursor.is_acked(at) && wanted(at), turn)
    }

    /// The cursor has left entries behind that nobody acked: they were trimmed, or have expired.
    pub(crate) fn trimmed(&mut self, lane: &mut Lane) {
        match self {
            Dispatcher::SingleActive(_) => {}
            Dispatcher::Shared(shared) => shared.trimmed(lane),
            Dispatcher::KeyShared(keys) => keys.trimmed(lane),
        }
    }

    /// Messages that consumers hold, for statistics.
    pub(crate) fn unacked(&self, lane: &Lane, lent_ledger: &ledger::ManagedLedger) -> u64 {
        match self {
            Dispatcher::SingleActive(_) => {
                let delivered = lent_ledger.count(lane.cursor.mark_delete(), lent_ledger.previous(lane.cursor.read_position()));
                delivered.saturating_sub(lane.cursor.acked_beyond())
            }
            Dispatcher::Shared(_) | Dispatcher::KeyShared(_) => self.held_messages(),
        }
    }

    /// Messages that consumers hold, where several share what there is.
    pub(crate) fn held_messages(&self) -> u64 {
        match self {
            Dispatcher::SingleActive(_) => 0,
            Dispatcher::Shared(shared) => shared.held_messages(),
            Dispatcher::KeyShared(keys) => keys.held_messages(),
        }
    }

    /// The oldest entry that may be wanted from the cache soon.
    pub(crate) fn needs_from(&self, lane: &Lane) -> Position {
        match self {
            Dispatcher::KeyShared(keys) => keys.needs_from(lane),
            _ => lane.cursor.read_position(),
        }
    }

    fn wants_again(&self, at: Position, consumers: &Slab<Consumer>) -> bool {
        match self {
            Dispatcher::SingleActive(_) => false,
            Dispatcher::Shared(shared) => shared.wants_again(at),
            Dispatcher::KeyShared(keys) => keys.wants_again(at, consumers),
        }
    }
}

/// Part of a batch that is acked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) at: Position,
    /// What is left of it, as the client sees it.
    pub(crate) remaining: &'a AckSet,
    /// The batch's size, if the client said.
    pub(crate) messages: Option<u32>,
}

impl Part<'_> {
    /// The batch's size, or a bound that acks the same messages when nobody knows.
    fn messages_or(&self, known: Option<u32>) -> u32 {
        known.or(self.messages).unwrap_or_else(|| u32::try_from(self.remaining.0.len()).unwrap_or(1).saturating_mul(64))
    }
}

impl Lane {
    pub(crate) fn new(index: SubscriptionIndex, cursor: Cursor) -> Lane {
        Lane {
            index,
            cursor,
            consumers: Slab::new(),
            reads: ReadAhead::default(),
            view: None,
            floor: None,
            delayed: Delayed::default(),
            stride: Stride::default(),
            messages_out: 0,
            bytes_out: 0,
            messages_redelivered: 0,
            messages_expired: 0,
            growth: Growth::default(),
            per_entry: 16,
        }
    }

    /// A period of statistics has ended.
    pub(crate) fn period_ended(&mut self, seconds: f64) {
        self.growth.period_ended([self.messages_out, self.bytes_out, self.messages_redelivered, self.messages_expired], seconds);
        self.consumers.iter_mut().for_each(|(_, consumer)| consumer.period_ended(seconds));
    }

    /// How fast it goes; acks are those of the consumers that are there.
    pub(crate) fn rates(&self) -> SubscriptionRates {
        let [messages_out, bytes_out, messages_redelivered, messages_expired] = self.growth.rates();
        let messages_acked = self.consumers.iter().map(|(_, consumer)| consumer.acks_per_second()).sum();
        SubscriptionRates { messages_out, bytes_out, messages_redelivered, messages_expired, messages_acked, messages_dropped: 0.0 }
    }

    pub(crate) fn consumer(&self, index: ConsumerIndex) -> Option<&Consumer> {
        self.consumers.get(index as usize)
    }

    pub(crate) fn consumer_mut(&mut self, index: ConsumerIndex) -> Option<&mut Consumer> {
        self.consumers.get_mut(index as usize)
    }

    /// Whether anything waits to be acked.
    pub(crate) fn has_backlog(&self, ledger: &ledger::ManagedLedger) -> bool {
        self.cursor.mark_delete() < ledger.last_confirmed()
    }

    /// The next entry that is new to the subscription, none at the end.
    fn next_new(&self, lent: &Lent<'_>) -> Option<Position> {
        let at = self.cursor.next_unacked(self.cursor.read_position(), lent.ledger);
        (at <= lent.ledger.last_confirmed()).then_some(at)
    }

    /// The entry, from what was read ahead or from the cache.
    fn entry(&mut self, at: Position, lent: &mut Lent<'_>, turn: &Turn<'_>) -> Option<Entry> {
        if let Some(entry) = self.reads.take(at) {
            lent.tally.cache_misses += 1;
            return Some(entry);
        }
        let entry = turn.cache.get(lent.cache, at)?.clone();
        lent.tally.cache_hits += 1;
        Some(entry)
    }

    /// An entry that was taken is not wanted yet after all; what is cached need not be kept here.
    fn put_back(&mut self, entry: Entry, lent: &Lent<'_>, turn: &Turn<'_>) {
        if turn.cache.get(lent.cache, entry.at).is_none() {
            self.reads.put_back(entry);
        }
    }

    /// Asks storage for new entries from `at` on, for as many messages as there are permits.
    fn read_new(&mut self, at: Position, permits: i64, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let last = Position { ledger: at.ledger, entry: lent.ledger.last_of(at.ledger) };
        let entries = permits.max(1).unsigned_abs().saturating_mul(16).div_ceil(u64::from(self.per_entry.max(1)));
        // Behind entries that were put off, one that may be sent can be far away.
        let entries = entries.saturating_add(u64::from(self.delayed.in_a_row()) * 2);
        let max_entries = usize::try_from(entries).unwrap_or(usize::MAX).clamp(1, lent.settings.max_read_entries.max(1));
        self.reads.ask(Wanted::New, Range { from: at, last, max_entries }, self.index, lent, turn);
    }

    /// Asks storage for what is due, from `at` on.
    fn read_due(&mut self, at: Position, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let max_entries = lent.settings.max_read_entries.max(1);
        let last = self.delayed.end_of_first_run(max_entries).unwrap_or(at);
        self.reads.ask(Wanted::Again, Range { from: at, last, max_entries }, self.index, lent, turn);
    }

    /// Whether a new entry is not to be delivered yet; then it comes up again when its time has come.
    #[inline]
    fn put_off(&mut self, entry: &Entry, lent: &Lent<'_>, turn: &Turn<'_>) -> bool {
        let (deliver_at, tick) = (entry.meta.deliver_at_ms, lent.settings.delayed_tick_ms);
        if deliver_at <= turn.now.wall_ms || tick == 0 || lent.faults.delays_ignored {
            self.delayed.row_ended();
            return false;
        }
        self.delayed.add(entry.at, deliver_at, tick, turn.now);
        true
    }

    /// Messages of an entry that are not acked.
    fn remaining(&self, at: Position, messages: u32) -> u32 {
        match self.cursor.remaining(at) {
            Some(left) => left.0.iter().map(|word| word.count_ones()).sum::<u32>().min(messages),
            None => messages,
        }
    }

    /// Sends an entry to a consumer and takes its permits.
    fn send(&mut self, to: ConsumerIndex, parcel: Parcel, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let Parcel { at, messages, redeliveries, bytes } = parcel;
        let ack_set = self.cursor.remaining(at).cloned().map(Box::new);
        let Some(consumer) = self.consumers.get_mut(to as usize) else { return };
        let used = if lent.faults.permits_per_entry { 1 } else { messages };
        consumer.permits -= i64::from(used) + i64::from(lent.faults.permit_leaked && redeliveries > 0);
        consumer.sent(messages, bytes.len(), redeliveries > 0);
        self.messages_out += u64::from(messages);
        self.bytes_out += bytes.len() as u64;
        lent.tally.messages_out += u64::from(messages);
        lent.tally.bytes_out += bytes.len() as u64;
        if redeliveries > 0 {
            self.messages_redelivered += u64::from(messages);
        }
        self.per_entry = (self.per_entry * 7 + messages.min(1 << 20) * 16).div_ceil(8);
        turn.out.push(Effect::Deliver { to: consumer.key, at, messages, redeliveries, ack_set, epoch: consumer.epoch, bytes });
    }
}

impl Budget {
    fn new(lent: &Lent<'_>) -> Budget {
        let allowed = |allowed: u64| usize::try_from(allowed).unwrap_or(usize::MAX);
        let Allowance { messages, bytes } = lent.allowance;
        let (entries, bytes) = (lent.settings.max_read_entries.max(1), lent.settings.max_read_bytes.max(1).min(allowed(bytes)));
        match lent.settings.rates.dispatch.batch_counts_once {
            true => Budget { entries: entries.min(allowed(messages)), bytes, messages: u64::MAX },
            false => Budget { entries, bytes, messages },
        }
    }

    fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0 || self.messages == 0
    }

    /// An entry is sent.
    fn spend(&mut self, bytes: usize, messages: u32) {
        self.entries -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.messages = self.messages.saturating_sub(u64::from(messages));
    }

    /// An entry is passed over.
    fn pass(&mut self) {
        self.entries -= 1;
    }
}
