//! What producers and consumers hear, and what it tells the mirrors.

use ledger::Position;
use topic::{ConsumerSlot, Effect, Reply};

use super::super::mirror::{Delivery, Index, Mirror};
use super::super::producer::Producer;
use super::{Play, Request, SUBSCRIPTIONS, first};

impl Play {
    pub(super) fn listen(&mut self) -> Result<(), String> {
        for effect in std::mem::take(&mut self.owner.heard) {
            match effect {
                Effect::Receipt { to, sequence, highest_sequence, at, .. } => {
                    let index = self.producers.iter().position(|producer| producer.key() == to).ok_or("a receipt for nobody")?;
                    let at = if at.is_none() { self.stored_before(index, sequence)? } else { at };
                    self.producers[index].receipt(sequence, highest_sequence, at, &mut self.acknowledged)?;
                    self.tally.acknowledged += 1;
                }
                Effect::Refused { to, .. } => {
                    if let Some(index) = self.producers.iter().position(|producer| producer.key() == to && producer.is_attached()) {
                        self.producers[index].closed();
                        self.owner.call(|topic, turn| topic.detach_producer(turn, to, None));
                    }
                }
                Effect::Deliver { to, at, redeliveries, ack_set, bytes, .. } => {
                    let peek = wire::payload::peek(&bytes).map_err(|error| format!("{at} is damaged: {error}"))?;
                    let index = self.consumers.iter().position(|consumer| consumer.key == to && consumer.slot.is_some());
                    let to = index.ok_or_else(|| format!("{at} came to a consumer that is not there"))?;
                    if let Some(sent) = self.acknowledged.get(&at)
                        && (peek.producer_name != format!("p{}", sent.producer) || peek.sequence_id != sent.sequence)
                    {
                        return Err(format!("{at} holds another message than was acknowledged"));
                    }
                    let slot = wire::payload::sticky_key(&peek).ok().flatten().map(|key| key.slot()).ok_or("an entry without its key")?;
                    let deliver_at = peek.deliver_at.unwrap_or(0) as u64;
                    let part = peek.chunk.map(|chunk| (chunk.uuid.to_vec(), chunk.is_last()));
                    let left = ack_set.map(|left| *left);
                    let delivery = Delivery { to, at, messages: peek.messages, redeliveries, left, deliver_at, part, slot };
                    self.delivered(&delivery)?;
                }
                Effect::Held { bytes, .. } => {
                    self.tally.held += 1;
                    self.held_bytes += u64::from(bytes);
                }
                Effect::Released { bytes, .. } => {
                    self.held_bytes = self.held_bytes.checked_sub(u64::from(bytes)).ok_or("more is released than was held")?;
                }
                Effect::Reply { reply, .. } => self.answered(reply)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a message is of which a producer was told that it is stored already; none if it was let go of since.
    fn stored_before(&mut self, producer: usize, sequence: u64) -> Result<Option<Position>, String> {
        if !self.settings.deduplication.enabled {
            return Err("a receipt without a position".to_owned());
        }
        self.tally.duplicates += 1;
        let name = format!("p{producer}");
        let found = self.stored().filter(|stored| stored.name == name && stored.sequence == sequence).last().map(|stored| stored.at);
        // A ledger that was trimmed leaves the topic's list before it is deleted.
        let is_this =
            |bytes: &bytes::Bytes| wire::payload::peek(bytes).is_ok_and(|peek| peek.producer_name == name && peek.sequence_id == sequence);
        match found {
            None if self.owner.world.deleted.is_empty() && !self.owner.world.everything().any(is_this) => {
                Err(format!("{sequence} of {name} is said to be stored and is lost"))
            }
            found => Ok(found),
        }
    }

    fn active_change(&mut self, key: topic::ConsumerKey, active: bool) -> Result<(), String> {
        let Some(index) = self.consumers.iter().position(|known| known.key == key) else { return Ok(()) };
        self.note(|| format!("consumer {index} is told that it is active: {active}"));
        self.tally.takeovers += usize::from(active);
        let consumer = &self.consumers[index];
        if consumer.slot.is_none() {
            return Err(format!("consumer {index} is told that it is active: {active}, and is not attached"));
        }
        if consumer.active == Some(active) {
            return Err(format!("consumer {index} is told again that it is active: {active}"));
        }
        let subscription = consumer.subscription;
        let others = |(other, known): (usize, &super::Consumer)| {
            (other != index && known.subscription == subscription && known.slot.is_some() && known.active == Some(true)).then_some(other)
        };
        if active && let Some(other) = self.consumers.iter().enumerate().find_map(others) {
            return Err(format!("consumer {index} is told that it is active while {other} is"));
        }
        self.consumers[index].active = Some(active);
        if !active && let Some(mirror) = self.mirrors.get_mut(subscription) {
            mirror.left(index);
        }
        Ok(())
    }

    fn delivered(&mut self, delivery: &Delivery) -> Result<(), String> {
        let index = delivery.to;
        self.note(|| format!("consumer {index} gets {} (count {})", delivery.at, delivery.redeliveries));
        self.tally.delivered += 1;
        self.tally.redelivered += usize::from(delivery.redeliveries > 0);
        let consumer = &mut self.consumers[index];
        if consumer.permits <= 0 {
            return Err(format!("{} came to {index}, which has {} permits", delivery.at, consumer.permits));
        }
        if !consumer.writable {
            return Err(format!("{} came to {index}, whose connection is full", delivery.at));
        }
        if consumer.subscription == "failover" && consumer.active != Some(true) {
            return Err(format!("{} came to {index}, which is not the active one", delivery.at));
        }
        let mirror = self.mirrors.get_mut(consumer.subscription).ok_or("a delivery of no subscription")?;
        let now = self.owner.now.wall_ms;
        if mirror.is_shared() && delivery.deliver_at > now {
            return Err(format!("{} came {} ms early", delivery.at, delivery.deliver_at - now));
        }
        self.tally.delayed += usize::from(mirror.is_shared() && delivery.deliver_at > 0 && delivery.redeliveries == 0);
        self.tally.parts += usize::from(mirror.is_shared() && delivery.part.is_some());
        let topic = &self.owner.topic;
        let used = mirror.deliver(delivery, &self.acknowledged, || first(topic))?;
        consumer.permits -= i64::from(used);
        Ok(())
    }

    fn answered(&mut self, reply: Reply) -> Result<(), String> {
        match reply {
            Reply::ProducerReady { request, slot, .. } => {
                if let Some(Request::Producer(index)) = self.requests.remove(&request) {
                    self.producers[index].ready(slot);
                }
            }
            Reply::CloseProducer { producer } => {
                self.producers.iter_mut().filter(|known| known.key() == producer).for_each(Producer::closed);
            }
            Reply::ConsumerReady { request, slot, .. } => {
                if let Some(Request::Consumer(index, floor)) = self.requests.remove(&request) {
                    self.note(|| format!("consumer {index} is attached"));
                    self.consumer_ready(index, slot, floor);
                }
            }
            Reply::ActiveChange { consumer, active } => self.active_change(consumer, active)?,
            Reply::CloseConsumer { consumer } => {
                if let Some(index) = self.consumers.iter().position(|known| known.key == consumer) {
                    self.gone(index);
                }
            }
            Reply::Success { request } => match self.requests.remove(&request) {
                Some(Request::Seek(name, floor)) => {
                    self.tally.seeks += 1;
                    self.note(|| format!("{name} was moved to {floor}"));
                    let floor = self.bounded(floor);
                    if let Some(mirror) = self.mirrors.get_mut(name) {
                        mirror.moved(floor);
                    }
                }
                Some(Request::Unsubscribe(name, index)) => {
                    self.consumers[index].slot = None;
                    self.mirrors.remove(name);
                }
                _ => {}
            },
            Reply::Error { request, error, .. } => match self.requests.remove(&request) {
                Some(Request::Producer(index)) => {
                    self.note(|| format!("producer {index} is turned away: {error:?}"));
                    let over =
                        [wire::ServerError::ProducerBlockedQuotaExceededError, wire::ServerError::ProducerBlockedQuotaExceededException];
                    self.tally.over_quota += usize::from(over.contains(&error));
                }
                Some(Request::Consumer(index, _)) => self.consumers[index].asking = false,
                Some(seek @ Request::Seek(..)) => self.uncertain_if_closed(seek),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn uncertain_if_closed(&mut self, seek: Request) {
        let Request::Seek(name, _) = &seek else { return };
        if self.consumers.iter().all(|consumer| consumer.subscription != *name || consumer.slot.is_none()) {
            self.uncertain(seek);
        }
    }

    fn consumer_ready(&mut self, index: Index, slot: ConsumerSlot, floor: Option<Position>) {
        let consumer = &mut self.consumers[index];
        let name = consumer.subscription;
        (consumer.slot, consumer.asking, consumer.permits, consumer.writable) = (Some(slot), false, 0, true);
        consumer.active = None;
        let (_, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(known, ..)| *known == name).expect("known");
        let begins = floor.is_some();
        let floor = floor.unwrap_or(Position::EARLIEST).max(first(&self.owner.topic));
        let split = self.split_of(name);
        if !durable && begins {
            // A reader that is late starts where the chain begins.
            self.mirrors.insert(name, Mirror::new(kind, false, split, floor));
        }
        self.mirrors.entry(name).or_insert_with(|| Mirror::new(kind, durable, split, floor)).joined(index);
    }

    pub(super) fn uncertain(&mut self, request: Request) {
        let Request::Seek(name, floor) = request else { return };
        let floor = self.bounded(floor);
        if let Some(mirror) = self.mirrors.get_mut(name) {
            mirror.perhaps_moved(floor);
        }
    }

    fn bounded(&self, floor: Position) -> Position {
        floor.min(self.end()).max(first(&self.owner.topic))
    }

    pub(super) fn gone(&mut self, index: Index) {
        let consumer = &mut self.consumers[index];
        consumer.slot = None;
        consumer.asking = false;
        if let Some(mirror) = self.mirrors.get_mut(consumer.subscription) {
            mirror.left(index);
        }
    }
}
