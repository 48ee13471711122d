//! A subscription that stores nothing: each entry goes to a consumer that takes it now, or is dropped.

use bytes::Bytes;
use ledger::{EntryMeta, Position};
use slab::Slab;
use wire::TopicName;

use super::NOWHERE;
use crate::consumer::{Consumer, ConsumerIndex};
use crate::dispatcher::failover::{announce, elect};
use crate::growth::Growth;
use crate::stats::SubscriptionRates;
use crate::stats::SubscriptionStats;
use crate::{Effect, SubscriptionKind, Turn};

/// See the module.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) name: String,
    pub(super) kind: SubscriptionKind,
    pub(super) consumers: Slab<Consumer>,
    /// By priority, then by when they came.
    order: Vec<(i32, usize)>,
    /// Who gets everything, on a Failover subscription.
    active: Option<ConsumerIndex>,
    /// Where the next turn begins.
    next: usize,
    messages_out: u64,
    bytes_out: u64,
    messages_dropped: u64,
    growth: Growth<3>,
}

impl Subscription {
    pub(super) fn new(name: String, kind: SubscriptionKind) -> Subscription {
        Subscription {
            name,
            kind,
            consumers: Slab::new(),
            order: Vec::new(),
            active: None,
            next: 0,
            messages_out: 0,
            bytes_out: 0,
            messages_dropped: 0,
            growth: Growth::default(),
        }
    }

    /// Why a consumer of this type cannot join, if it cannot.
    pub(super) fn refuses(&self, kind: SubscriptionKind) -> Option<String> {
        if self.consumers.is_empty() {
            None
        } else if self.kind != kind {
            Some(format!("subscription '{}' is in use as {}", self.name, self.kind.name()))
        } else if kind == SubscriptionKind::Exclusive {
            Some(format!("the Exclusive subscription '{}' has a consumer", self.name))
        } else {
            None
        }
    }

    /// A consumer joins; it knows of it before [`appoint`](Self::appoint) is called.
    pub(super) fn join(&mut self, consumer: Consumer) -> usize {
        let priority = consumer.priority;
        let index = self.consumers.insert(consumer);
        let place = self.order.partition_point(|(other, _)| *other <= priority);
        self.order.insert(place, (priority, index));
        index
    }

    /// Consumers came or went: of a Failover subscription another may be the active one now. Nothing is waited for, as nothing
    /// comes again.
    pub(super) fn appoint(&mut self, topic: &TopicName, turn: &mut Turn<'_>) {
        if self.kind == SubscriptionKind::Failover {
            self.active = elect(&self.consumers, topic);
            announce(&mut self.consumers, self.active, turn);
        }
    }

    /// A consumer is gone.
    pub(super) fn leave(&mut self, consumer: usize) {
        self.order.retain(|(_, other)| *other != consumer);
        self.consumers.try_remove(consumer);
    }

    /// Gives an entry to a consumer that takes it now, or drops it.
    pub(super) fn pass_on(&mut self, bytes: &Bytes, meta: EntryMeta, turn: &mut Turn<'_>) {
        let Some(consumer) = self.pick(bytes).and_then(|index| self.consumers.get_mut(index)) else {
            self.messages_dropped += u64::from(meta.messages);
            return;
        };
        consumer.permits -= i64::from(meta.messages);
        consumer.sent(meta.messages, bytes.len(), false);
        self.messages_out += u64::from(meta.messages);
        self.bytes_out += bytes.len() as u64;
        let (to, epoch, messages) = (consumer.key, consumer.epoch, meta.messages);
        turn.out.push(Effect::Deliver { to, at: NOWHERE, messages, redeliveries: 0, ack_set: None, epoch, bytes: bytes.clone() });
    }

    /// The consumer of the next entry, if it takes it: one that is out of permits does not hold others back, where another may have it.
    fn pick(&mut self, bytes: &Bytes) -> Option<usize> {
        let takes = |place: usize| {
            let (_, index) = *self.order.get(place)?;
            self.consumers.get(index).is_some_and(|consumer| consumer.takes(0)).then_some(index)
        };
        match self.kind {
            SubscriptionKind::Exclusive => takes(0),
            SubscriptionKind::Failover => {
                let active = self.active? as usize;
                self.consumers.get(active).is_some_and(|consumer| consumer.takes(0)).then_some(active)
            }
            SubscriptionKind::Shared => {
                let first = (0..self.order.len()).find(|place| takes(*place).is_some())?;
                let priority = self.order.get(first)?.0;
                let end = self.order.partition_point(|(other, _)| *other <= priority);
                let from = if (first..end).contains(&self.next) { self.next } else { first };
                let place = (from..end).chain(first..from).find(|place| takes(*place).is_some())?;
                self.next = place + 1;
                takes(place)
            }
            SubscriptionKind::KeyShared => {
                let key = wire::payload::peek(bytes).map(|peek| peek.ordering_key.or(peek.partition_key).unwrap_or_default().to_vec());
                let hash = key.unwrap_or_default().iter().fold(5_381_usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(*byte));
                takes(hash % self.order.len().max(1))
            }
        }
    }

    pub(super) fn messages_out(&self) -> u64 {
        self.messages_out
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    /// A period of statistics has ended.
    pub(super) fn period_ended(&mut self, seconds: f64) {
        self.growth.period_ended([self.messages_out, self.bytes_out, self.messages_dropped], seconds);
        self.consumers.iter_mut().for_each(|(_, consumer)| consumer.period_ended(seconds));
    }

    pub(super) fn stats(&self) -> SubscriptionStats {
        let [messages_out, bytes_out, messages_dropped] = self.growth.rates();
        SubscriptionStats {
            name: self.name.clone(),
            kind: self.kind.name(),
            messages_out: self.messages_out,
            bytes_out: self.bytes_out,
            messages_dropped: self.messages_dropped,
            rates: SubscriptionRates { messages_out, bytes_out, messages_dropped, ..SubscriptionRates::default() },
            mark_delete: Position::EARLIEST.to_string(),
            read_position: Position::EARLIEST.to_string(),
            active_consumer: self.active.and_then(|active| self.consumers.get(active as usize)).map(|active| active.name().to_owned()),
            consumers: self.consumers.iter().map(|(_, consumer)| consumer.stats(self.kind.name(), 0, 0)).collect(),
            ..SubscriptionStats::default()
        }
    }
}
