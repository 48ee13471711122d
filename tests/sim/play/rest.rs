//! Coming to rest: when nothing is under way any more, nobody may be waiting for something that is there.

use topic::{Ack, AckIds};

use super::super::mirror::Index;
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
        if self.owner.unload_reason.is_some() {
            return Ok(());
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

    fn is_over_a_limit(&self, consumer: u64, subscription: u64) -> bool {
        let over = |limit: u32, count: u64| limit > 0 && count >= u64::from(limit);
        over(self.settings.max_unacked_per_consumer, consumer) || over(self.settings.max_unacked_per_subscription, subscription)
    }

    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        if self.refusing {
            self.toggle_refusal();
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
        self.owner.call(|topic, turn| topic.set_writable(turn, key, slot, true));
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
