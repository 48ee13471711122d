//! A topic that stores nothing: what is published goes to the consumers that take it now, and is gone.
//!
//! There are no positions, so every id is 0:0, nothing waits for acks, and there is nothing to seek in. A subscription is there
//! as long as it has consumers, the topic as long as it has a producer or a subscription.

mod subscription;

use std::collections::HashMap;

use ledger::{EntryId, LedgerId, Position};
use slab::Slab;
use wire::{ServerError, TopicName};

use crate::access::{Access, Admission};
use crate::attach::Refusal;
use crate::consumer::Consumer;
use crate::event::{Ack, AttachConsumer, AttachProducer, Publish};
use crate::lent::Tally;
use crate::peek::entry_meta;
use crate::producers::Producers;
use crate::stats::{SubscriptionStats, TopicStats};
use crate::throttle::Throttle;
use crate::{AccessMode, ConnectionKey, ConsumerKey, ConsumerSlot, Effect, Now, ProducerKey, ProducerSlot, Reply, TopicSettings, Turn};

use subscription::Subscription;

/// The id of every message.
const NOWHERE: Position = Position { ledger: LedgerId(0), entry: EntryId(0) };

/// One topic. Every call may add effects to the turn; none waits.
#[derive(Debug)]
pub struct NonPersistentTopic {
    name: TopicName,
    pub(crate) settings: TopicSettings,
    pub(crate) producers: Producers,
    pub(crate) throttle: Option<Box<Throttle>>,
    access: Access,
    subscriptions: Slab<Subscription>,
    by_name: HashMap<String, usize>,
    seats: Slab<Seat>,
    by_key: HashMap<ConsumerKey, ConsumerSlot>,
    pub(crate) closing: bool,
    pub(crate) tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    key: ConsumerKey,
    subscription: usize,
    consumer: usize,
}

impl NonPersistentTopic {
    /// A topic without producers and consumers.
    #[must_use]
    pub fn new(name: TopicName, settings: TopicSettings, now: Now) -> NonPersistentTopic {
        NonPersistentTopic {
            name,
            throttle: Throttle::new(&settings.rates.publish, now),
            settings,
            producers: Producers::default(),
            access: Access::default(),
            subscriptions: Slab::new(),
            by_name: HashMap::new(),
            seats: Slab::new(),
            by_key: HashMap::new(),
            closing: false,
            tally: Tally::default(),
        }
    }

    /// Its full name.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Producers attached.
    pub fn producers(&self) -> usize {
        self.producers.len()
    }

    /// Consumers attached.
    pub fn consumers(&self) -> usize {
        self.seats.len()
    }

    /// Whether nobody has a use for it any more.
    pub fn is_deserted(&self) -> bool {
        self.producers.is_empty() && self.access.waiting() == 0 && self.subscriptions.is_empty()
    }

    /// Answers with `ProducerReady`, `ProducerWaiting` or `Error` (ProducerBusy, ProducerFenced, ServiceNotReady while unloading).
    pub fn attach_producer(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let (producer, request) = (attach.key, attach.request);
        if self.closing {
            return refuse(turn, producer.connection, request, ServerError::ServiceNotReady, "the topic is being unloaded");
        }
        if let Err((error, message)) = self.producers.have_room_for(&attach, &self.settings.limits) {
            return refuse(turn, producer.connection, request, error, &message);
        }
        match self.access.admit(attach, &mut self.producers, &self.settings.producer_name_prefix, turn) {
            Admission::Known(slot, name, mode) => self.producer_ready(turn, producer, request, slot, name, mode),
            Admission::Enters(attach) => self.let_in(turn, attach),
            Admission::Claims(attach) => self.claim(turn, attach),
            Admission::Answered => {}
        }
        self.forget_held(turn);
    }

    /// Gives a producer the topic. Its epoch is known as long as the topic is, as there is nowhere to record it.
    fn claim(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        self.access.take(&attach);
        self.access.alone();
        self.let_in(turn, attach);
    }

    fn let_in(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let (producer, request, mode) = (attach.key, attach.request, attach.access);
        match self.producers.attach(attach, &self.settings.producer_name_prefix, turn.now) {
            Ok((slot, name)) => self.producer_ready(turn, producer, request, slot, name, mode),
            Err(taken) => refuse(turn, producer.connection, request, ServerError::ProducerBusy, &taken.to_string()),
        }
        self.forget_held(turn);
    }

    fn producer_ready(&self, turn: &mut Turn<'_>, producer: ProducerKey, request: u64, slot: ProducerSlot, name: String, mode: AccessMode) {
        let topic_epoch = self.access.epoch_of(mode);
        let reply = Reply::ProducerReady { request, producer, slot, name, last_sequence: -1, topic_epoch };
        turn.out.push(Effect::Reply { to: producer.connection, reply });
    }

    /// The producer is gone; nothing of it is under way. The first that waits may have the topic then.
    pub fn detach_producer(&mut self, turn: &mut Turn<'_>, key: ProducerKey, request: Option<u64>) {
        if !self.access.withdraw(key) {
            self.producers.detach(key, None);
            self.forget_held(turn);
        }
        success(turn, key.connection, request);
        while !self.closing {
            let Some(attach) = self.access.next_waiting(&self.producers) else { return };
            self.claim(turn, attach);
        }
    }

    /// Answered at once; then it goes to whoever takes it.
    pub fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        if self.throttle.is_some() { self.publish_in_time(turn, publish) } else { self.publish_now(turn, publish) }
    }

    pub(crate) fn publish_now(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let Publish { key, slot, sequence, highest_sequence, bytes } = publish;
        let held = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let limit = self.settings.max_entry_bytes;
        let Some(producer) = self.producers.on_road(key, slot).filter(|_| !self.closing) else {
            return turn.out.push(Effect::Forgotten { to: key, bytes: held });
        };
        if limit > 0 && bytes.len() > limit {
            let message = format!("an entry of {} bytes is over the limit of {limit} bytes", bytes.len());
            return turn.out.push(Effect::Refused { to: key, sequence, error: ServerError::NotAllowedError, message, bytes: held });
        }
        let meta = entry_meta(&bytes);
        producer.published(meta.messages, bytes.len());
        self.producers.answered(slot);
        self.tally.messages_in += u64::from(meta.messages);
        self.tally.bytes_in += bytes.len() as u64;
        self.tally.entries_in += 1;
        self.tally.sizes.count(bytes.len() as u64, 1);
        turn.out.push(Effect::Receipt { to: key, sequence, highest_sequence, at: Some(NOWHERE), bytes: held });
        for (_, subscription) in &mut self.subscriptions {
            subscription.pass_on(&bytes, meta, turn);
        }
    }

    /// Answers with `ConsumerReady` or `Error` (ConsumerBusy, ServiceNotReady while unloading).
    pub fn attach_consumer(&mut self, turn: &mut Turn<'_>, attach: AttachConsumer) {
        let (key, request) = (attach.key, attach.request);
        if self.closing {
            return refuse(turn, key.connection, request, ServerError::ServiceNotReady, "the topic is being unloaded");
        }
        if let Some(slot) = self.by_key.get(&key).copied() {
            return turn.out.push(Effect::Reply { to: key.connection, reply: Reply::ConsumerReady { request, consumer: key, slot } });
        }
        if let Err((error, message)) = self.has_room_for(&attach) {
            return refuse(turn, key.connection, request, error, &message);
        }
        if attach.read_compacted {
            let message = "readCompacted only valid on persistent topics";
            return refuse(turn, key.connection, request, ServerError::NotAllowedError, message);
        }
        let index = match self.by_name.get(&attach.subscription).copied() {
            Some(index) => index,
            None => {
                let index = self.subscriptions.insert(Subscription::new(attach.subscription.clone(), attach.kind));
                self.by_name.insert(attach.subscription.clone(), index);
                index
            }
        };
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        if let Some(reason) = subscription.refuses(attach.kind) {
            return refuse(turn, key.connection, request, ServerError::ConsumerBusy, &reason);
        }
        let consumer = subscription.join(Consumer::new(attach, turn.now));
        let slot = self.seats.insert(Seat { key, subscription: index, consumer });
        let slot = ConsumerSlot(u32::try_from(slot).unwrap_or(u32::MAX));
        self.by_key.insert(key, slot);
        turn.out.push(Effect::Reply { to: key.connection, reply: Reply::ConsumerReady { request, consumer: key, slot } });
        subscription.appoint(&self.name, turn);
    }

    fn has_room_for(&self, attach: &AttachConsumer) -> Result<(), Refusal> {
        let limits = &self.settings.limits;
        limits.kind(attach.kind, &self.name)?;
        let subscription = self.by_name.get(&attach.subscription).and_then(|index| self.subscriptions.get(*index));
        if subscription.is_none() {
            limits.subscription(self.subscriptions.len())?;
        }
        let all = self.subscriptions.iter().flat_map(|(_, subscription)| subscription.consumers.iter());
        let there = subscription.map_or(0, |subscription| subscription.consumers.len());
        limits.consumer(attach, there, all.map(|(_, consumer)| consumer.address()))
    }

    /// The consumer is gone, and with the last one its subscription.
    pub fn detach_consumer(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: Option<u64>) {
        if let Some(seat) = self.leave_seat(key)
            && let Some(subscription) = self.subscriptions.get_mut(seat.subscription)
        {
            subscription.leave(seat.consumer);
            subscription.appoint(&self.name, turn);
            if subscription.consumers.is_empty() {
                self.remove(seat.subscription);
            }
        }
        success(turn, key.connection, request);
    }

    /// Removes a subscription. Other consumers are a reason to refuse, or are closed by `force`.
    pub fn unsubscribe(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64, force: bool) {
        let Some(seat) = self.seat_of(key) else {
            return refuse(turn, key.connection, request, ServerError::MetadataError, "the consumer is not attached");
        };
        let others: Vec<ConsumerKey> = match self.subscriptions.get(seat.subscription) {
            Some(subscription) => subscription.consumers.iter().map(|(_, consumer)| consumer.key).filter(|other| *other != key).collect(),
            None => Vec::new(),
        };
        if !others.is_empty() && !force {
            let message = "other consumers are attached to the subscription";
            return refuse(turn, key.connection, request, ServerError::MetadataError, message);
        }
        for consumer in others {
            self.leave_seat(consumer);
            turn.out.push(Effect::Reply { to: consumer.connection, reply: Reply::CloseConsumer { consumer } });
        }
        self.leave_seat(key);
        self.remove(seat.subscription);
        success(turn, key.connection, Some(request));
    }

    /// `permits` more messages may be sent to the consumer. Its first one shows that it listens: only then a consumer of a
    /// Failover subscription is told whether it is the active one.
    pub fn flow(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, slot: ConsumerSlot, permits: u32) {
        if let Some(consumer) = self.consumer(key, slot) {
            consumer.flow(permits, turn.now);
            if let Some(reply) = consumer.end_silence() {
                turn.out.push(Effect::Reply { to: key.connection, reply });
            }
        }
    }

    /// The consumer's connection takes no more for now, or takes again.
    pub fn set_writable(&mut self, key: ConsumerKey, slot: ConsumerSlot, writable: bool) {
        if let Some(consumer) = self.consumer(key, slot) {
            consumer.writable = writable;
        }
    }

    /// Acks change nothing; whoever wants an answer gets one.
    pub fn ack(&mut self, turn: &mut Turn<'_>, ack: &Ack) {
        if let Some(request) = ack.request {
            let reply = Reply::AckDone { request, consumer: ack.key, error: None };
            turn.out.push(Effect::Reply { to: ack.key.connection, reply });
        }
    }

    /// There is nothing to go back to.
    pub fn seek(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        let message = "a non-persistent topic keeps no messages to seek in";
        refuse(turn, key.connection, request, ServerError::NotAllowedError, message);
    }

    /// Answers with `LastMessageId`: there is none.
    pub fn last_message_id(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        let partition = self.name.partition_index().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        let (at, mark_delete) = (Position::EARLIEST, Position::EARLIEST);
        let reply = Reply::LastMessageId { request, at, partition, batch_index: -1, mark_delete };
        turn.out.push(Effect::Reply { to: key.connection, reply });
    }

    /// Answers with `ConsumerStats` or `Error` (ConsumerNotFound).
    pub fn consumer_stats(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        let found = self.seat_of(key).and_then(|seat| {
            let subscription = self.subscriptions.get(seat.subscription)?;
            subscription.consumers.get(seat.consumer).map(|consumer| consumer.stats(subscription.kind.name(), 0, 0))
        });
        match found {
            Some(stats) => {
                let reply = Reply::ConsumerStats { request, stats: Box::new(stats) };
                turn.out.push(Effect::Reply { to: key.connection, reply });
            }
            None => refuse(turn, key.connection, request, ServerError::ConsumerNotFound, "the consumer is not attached"),
        }
    }

    /// Closes producers and consumers and takes no more.
    pub fn unload(&mut self, turn: &mut Turn<'_>) {
        self.closing = true;
        self.access.refuse_waiting(turn, ServerError::ServiceNotReady, "the topic is being unloaded");
        for producer in self.producers.take_attached() {
            turn.out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
        }
        self.forget_held(turn);
        for Seat { key: consumer, .. } in self.seats.drain() {
            turn.out.push(Effect::Reply { to: consumer.connection, reply: Reply::CloseConsumer { consumer } });
        }
        self.by_key.clear();
        self.by_name.clear();
        self.subscriptions.clear();
    }

    /// Whether it can be dropped.
    pub fn unloaded(&self) -> bool {
        self.closing
    }

    /// A period of statistics of so many seconds has ended: from now on its rates are told.
    pub fn period_ended(&mut self, seconds: f64) {
        let sum = |number: fn(&Subscription) -> u64| self.subscriptions.iter().map(|(_, subscription)| number(subscription)).sum();
        (self.tally.messages_out, self.tally.bytes_out) = (sum(Subscription::messages_out), sum(Subscription::bytes_out));
        self.tally.period_ended(seconds);
        self.producers.period_ended(seconds);
        self.subscriptions.iter_mut().for_each(|(_, subscription)| subscription.period_ended(seconds));
    }

    /// Copies the counters.
    pub fn stats(&self) -> TopicStats {
        let subscriptions: Vec<SubscriptionStats> = self.subscriptions.iter().map(|(_, subscription)| subscription.stats()).collect();
        TopicStats {
            messages_in: self.tally.messages_in,
            bytes_in: self.tally.bytes_in,
            entries_in: self.tally.entries_in,
            rates: self.tally.rates(),
            messages_out: subscriptions.iter().map(|subscription| subscription.messages_out).sum(),
            bytes_out: subscriptions.iter().map(|subscription| subscription.bytes_out).sum(),
            last_confirmed: Position::EARLIEST.to_string(),
            waiting_producers: self.access.waiting(),
            publish_rate_limited: self.throttle.as_ref().map_or(0, |throttle| throttle.times()),
            producers: self.producers.stats(),
            subscriptions,
            ..TopicStats::default()
        }
    }

    fn seat_of(&self, key: ConsumerKey) -> Option<Seat> {
        self.seats.get(self.by_key.get(&key)?.0 as usize).copied()
    }

    fn leave_seat(&mut self, key: ConsumerKey) -> Option<Seat> {
        let slot = self.by_key.remove(&key)?;
        self.seats.try_remove(slot.0 as usize)
    }

    fn consumer(&mut self, key: ConsumerKey, slot: ConsumerSlot) -> Option<&mut Consumer> {
        let seat = self.seats.get(slot.0 as usize).copied().filter(|seat| seat.key == key)?;
        self.subscriptions.get_mut(seat.subscription)?.consumers.get_mut(seat.consumer)
    }

    fn remove(&mut self, index: usize) {
        if let Some(subscription) = self.subscriptions.try_remove(index) {
            self.by_name.remove(&subscription.name);
        }
    }
}

fn success(turn: &mut Turn<'_>, to: ConnectionKey, request: Option<u64>) {
    if let Some(request) = request {
        turn.out.push(Effect::Reply { to, reply: Reply::Success { request } });
    }
}

fn refuse(turn: &mut Turn<'_>, to: ConnectionKey, request: u64, error: ServerError, message: &str) {
    turn.out.push(Effect::Reply { to, reply: Reply::Error { request, error, message: message.to_owned() } });
}
