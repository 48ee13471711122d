//! Coming to rest: when nothing is under way any more, nobody may be waiting for something that is there.

use std::collections::BTreeMap;

use ledger::Position;
use topic::stats::SubscriptionStats;
use topic::{Ack, AckIds};

use super::super::mirror::{Index, Mirror, Stored};
use super::{Consumer, Play};

impl Play {
    pub(super) fn check_rest(&mut self, last: bool) -> Result<(), String> {
        for _ in 0..4 {
            self.owner.sync();
            self.owner.settle();
            self.listen()?;
            self.owner.wait(6_000);
        }
        self.owner.sync();
        self.owner.settle();
        self.listen()?;
        self.wait_for_rates()?;
        if self.owner.unload_reason.is_some() {
            return Ok(());
        }
        if self.held_bytes > 0 {
            return Err(format!("{} bytes of publishes are held back for ever", self.held_bytes));
        }
        let stats = self.owner.topic.stats();
        for subscription in &stats.subscriptions {
            let Some(mirror) = self.mirrors.get(subscription.name.as_str()) else { continue };
            let attached = |consumer: &&Consumer| consumer.subscription == subscription.name && consumer.slot.is_some();
            for (index, consumer) in self.consumers.iter().enumerate().filter(|(_, consumer)| attached(consumer)) {
                let known = subscription.consumers.iter().find(|known| known.id == consumer.key.id).ok_or("a consumer is not counted")?;
                if known.available_permits != consumer.permits {
                    return Err(format!("consumer {index} has {} permits, the topic counts {}", consumer.permits, known.available_permits));
                }
                if mirror.is_shared() && known.unacked_messages != mirror.unacked(index) {
                    return Err(format!("consumer {index} holds {}, the topic counts {}", mirror.unacked(index), known.unacked_messages));
                }
                let over = mirror.is_shared() && self.is_over_a_limit(known.unacked_messages, subscription.unacked_messages);
                let standby = consumer.subscription == "failover" && consumer.active != Some(true);
                let takes = consumer.permits > 0 && consumer.writable && !over && !standby;
                if mirror.has_keys() {
                    continue;
                }
                let here = |other: Index| self.consumers.get(other).is_some_and(|other| other.permits > 0 && other.writable);
                let limited = self.settings.max_unacked_per_consumer > 0;
                if !takes || (mirror.is_shared() && mirror.waits_for_parts(|other| here(other) && !limited)) {
                    continue;
                }
                if mirror.is_shared()
                    && let Some(late) = mirror.overdue(&self.acknowledged, self.owner.now.wall_ms - self.settings.delayed_tick_ms)
                {
                    return Err(format!("{late} is more than a tick late and does not come to consumer {index} of {}", subscription.name));
                }
                let accounted = mirror.held() as u64 + subscription.delayed;
                if subscription.backlog > accounted {
                    let more = subscription.backlog - accounted;
                    return Err(format!("consumer {index} of {} has permits and {more} entries do not come", subscription.name));
                }
            }
            self.check_keys_come(mirror, subscription)?;
        }
        self.check_failover()?;
        if last { Ok(()) } else { self.check_nothing_lost() }
    }

    /// At rest exactly one consumer is the active one, and no other goes before it.
    fn check_failover(&self) -> Result<(), String> {
        let attached =
            || self.consumers.iter().enumerate().filter(|(_, consumer)| consumer.subscription == "failover" && consumer.slot.is_some());
        if attached().next().is_none() {
            return Ok(());
        }
        let Some((active, _)) = attached().find(|(_, consumer)| consumer.active == Some(true)) else {
            return Err("of the consumers of failover none is active".to_owned());
        };
        match attached().find(|(_, consumer)| consumer.active.is_none()) {
            Some((silent, _)) => Err(format!("consumer {silent} was never told whether it is active")),
            None if active == 10 && attached().count() > 1 => Err("consumer 10 is active before others of a lower number".to_owned()),
            None => Ok(()),
        }
    }

    /// Nobody may be waiting for a key, although nothing happens but what storage still has to bring: no publish, no permit.
    pub(super) fn check_keys(&mut self) -> Result<(), String> {
        // With rates it takes longer than this; coming to rest waits for them.
        if self.rated || !self.mirrors.values().any(Mirror::has_keys) {
            return Ok(());
        }
        self.owner.sync();
        for _ in 0..3 {
            while self.owner.finish_read(0) || self.owner.finish_write() || self.owner.tick() {}
            self.listen()?;
            self.owner.wait(6_000);
        }
        while self.owner.finish_read(0) || self.owner.finish_write() || self.owner.tick() {}
        self.listen()?;
        if self.owner.unload_reason.is_some() {
            return Ok(());
        }
        for subscription in &self.owner.topic.stats().subscriptions {
            if let Some(mirror) = self.mirrors.get(subscription.name.as_str()) {
                self.check_keys_come(mirror, subscription)?;
            }
        }
        Ok(())
    }

    /// No key waits whose owner has permits and which nobody else holds.
    fn check_keys_come(&self, mirror: &Mirror, subscription: &SubscriptionStats) -> Result<(), String> {
        let takes = |index: Index| self.takes(index, mirror.unacked(index), subscription.unacked_messages);
        // A seek that a crash left unanswered may have moved it.
        let mut stored = self.keyed();
        stored.retain(|at, _| *at > position(&subscription.mark_delete));
        match mirror.could_come(&stored, self.owner.now.wall_ms, self.look_ahead(subscription.consumers.len()), true, takes).first() {
            Some((at, owner)) => Err(format!(
                "{}: {at} does not come to {owner}, who owns its key and has permits; nobody else holds the key",
                subscription.name
            )),
            None => Ok(()),
        }
    }

    /// All entries of the topic, with the slots of their keys.
    fn keyed(&self) -> BTreeMap<Position, Stored> {
        self.stored_from(Position::new(0, 0))
    }

    /// The same, from a position on.
    pub(super) fn stored_from(&self, from: Position) -> BTreeMap<Position, Stored> {
        let ledgers = self.owner.topic.stats().ledgers.into_iter().filter(|(id, ..)| *id >= from.ledger.0);
        let positions = ledgers.flat_map(|(id, entries, _)| (0..entries as i64).map(move |entry| Position::new(id, entry)));
        let positions = positions.filter(|at| *at >= from);
        let stored = |at| {
            let peek = wire::payload::peek(self.owner.world.entry(at)?).ok()?;
            let due = peek.deliver_at.map_or(0, |at| at as u64 + self.settings.delayed_tick_ms);
            let part_of = peek.chunk.map(|chunk| chunk.uuid.to_vec());
            Some((at, Stored { slot: wire::payload::sticky_key(&peek).ok()??.slot(), due, part_of }))
        };
        positions.filter_map(stored).collect()
    }

    pub(super) fn takes(&self, index: Index, unacked: u64, of_all: u64) -> bool {
        let consumer = &self.consumers[index];
        consumer.slot.is_some() && consumer.permits > 0 && consumer.writable && !self.is_over_a_limit(unacked, of_all)
    }

    /// How many entries may wait on a Key_Shared subscription while others are looked for.
    pub(super) fn look_ahead(&self, consumers: usize) -> usize {
        let limit = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        limit(self.settings.max_look_ahead_per_consumer * consumers).min(limit(self.settings.max_look_ahead_per_subscription))
    }

    fn is_over_a_limit(&self, consumer: u64, subscription: u64) -> bool {
        let over = |limit: u32, count: u64| limit > 0 && count >= u64::from(limit);
        let crowded = self.crowded.is_some_and(|most| subscription > most);
        crowded || over(self.settings.max_unacked_per_consumer, consumer) || over(self.settings.max_unacked_per_subscription, subscription)
    }

    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        if self.refusing {
            self.toggle_refusal();
        }
        if self.crowded.is_some() {
            self.toggle_crowd();
        }
        self.check_rest(true)?;
        for _ in 0..400 {
            self.owner.wait(1_000);
            self.owner.settle();
            self.listen()?;
            if self.owner.unload_reason.is_some() {
                self.unload(true)?;
            }
            for index in 0..self.producers.len() {
                if self.producers[index].is_attached() { self.send(index)? } else { self.attach_producer(index)? }
            }
            for index in 0..self.consumers.len() {
                self.attach_this(index)?;
                self.drain(index)?;
            }
            if self.is_done() {
                break;
            }
        }
        self.check_rest(true)?;
        if let Some(stuck) = self.producers.iter().position(|producer| producer.open() > 0) {
            return Err(format!("producer {stuck} waits for receipts for ever"));
        }
        for (name, mirror) in self.mirrors.iter().filter(|(name, _)| **name != "reader") {
            if let Some(missing) = mirror.missing(&self.acknowledged) {
                return Err(format!("{missing} never came to {name}"));
            }
        }
        self.owner.sync();
        self.crash()
    }

    fn drain(&mut self, index: Index) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        let (Some(slot), key, name) = (consumer.slot, consumer.key, consumer.subscription) else { return Ok(()) };
        consumer.writable = true;
        self.owner.call(|topic, _| topic.set_writable(key, slot, true));
        self.listen()?;
        self.flow_to(index, 100)?;
        let held = self.mirrors.get(name).map(|mirror| mirror.held_by(index)).unwrap_or_default();
        for at in held {
            if let Some(mirror) = self.mirrors.get_mut(name) {
                mirror.ack(at);
            }
            self.owner.call(|topic, turn| topic.ack(turn, Ack { key, slot, request: None, ids: AckIds::One(at) }));
            self.listen()?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let stats = self.owner.topic.stats();
        self.producers.iter().all(|producer| producer.open() == 0)
            && stats.subscriptions.iter().all(|subscription| subscription.backlog == 0)
    }
}

fn position(text: &str) -> Position {
    let number = |text: Option<&str>| text.and_then(|number| number.parse().ok()).expect("a position");
    let mut parts = text.split(':');
    Position::new(number(parts.next()), number(parts.next()))
}
