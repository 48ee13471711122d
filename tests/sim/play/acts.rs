//! What producers and consumers do.

use ledger::Position;
use topic::{Ack, AckIds, AttachConsumer, ConsumerKey, ConsumerSlot, SeekTo, StartAt, SubscriptionKind};

use super::super::keys::name_of;
use super::super::mirror::Index;
use super::{Play, Request, SUBSCRIPTIONS};

impl Play {
    pub(super) fn produce(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.producers.len());
        if !self.producers[index].is_attached() {
            return self.attach_producer(index);
        }
        for _ in 0..self.rng.usize(1..6) {
            let time = self.owner.now.wall_ms;
            match self.rng.u8(..20) {
                0..2 if !self.undelayed => {
                    let most = 1 << self.rng.u32(1..15);
                    let deliver_at = time + self.rng.u64(1..=most);
                    self.producers[index].produce_delayed(deliver_at, time);
                }
                2 => self.producers[index].produce_parts(self.rng.i32(1..6), time),
                0..12 => self.producers[index].produce(1, time),
                _ => self.producers[index].produce(self.rng.u32(2..9), time),
            }
        }
        self.send(index)
    }

    pub(super) fn attach_producer(&mut self, index: usize) -> Result<(), String> {
        let request = self.request(Request::Producer(index));
        let attach = self.producers[index].attach(request);
        self.note(|| format!("producer {index} attaches"));
        self.owner.call(|topic, turn| topic.attach_producer(turn, attach));
        self.listen()?;
        self.send(index)
    }

    pub(super) fn send(&mut self, index: usize) -> Result<(), String> {
        while let Some(publish) = self.producers[index].next() {
            self.owner.call(|topic, turn| topic.publish(turn, publish));
        }
        self.listen()
    }

    pub(super) fn detach_producer(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.producers.len());
        if self.producers[index].is_attached() {
            let key = self.producers[index].key();
            self.note(|| format!("producer {index} loses its connection"));
            self.owner.call(|topic, turn| topic.detach_producer(turn, key, None));
            self.listen()?;
            self.producers[index].closed();
        }
        Ok(())
    }

    pub(super) fn attach_consumer(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.consumers.len());
        self.attach_this(index)
    }

    pub(super) fn attach_this(&mut self, index: Index) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        if consumer.slot.is_some() || consumer.asking {
            return Ok(());
        }
        let name = consumer.subscription;
        let (_, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(other, ..)| *other == name).expect("known");
        consumer.key.connection.generation += 1;
        consumer.asking = true;
        let (key, known) = (consumer.key, self.mirrors.contains_key(name));
        let (start, floor) = match (durable, known, name) {
            (false, ..) => {
                let at = self.some_position();
                // One that is there was sent somewhere by a seek, which the start does not undo.
                let sent_elsewhere = self.owner.topic.stats().subscriptions.iter().any(|subscription| subscription.name == name);
                (StartAt::At(at), Some(at).filter(|_| !sent_elsewhere))
            }
            (_, false, "latest") => (StartAt::Latest, Some(self.end())),
            _ => (StartAt::Earliest, None),
        };
        let request = self.request(Request::Consumer(index, floor));
        self.note(|| format!("consumer {index} asks for {name} from {start:?}"));
        let attach = AttachConsumer {
            key,
            request,
            subscription: name.to_owned(),
            kind,
            durable,
            start: Some(start),
            name: if kind == SubscriptionKind::KeyShared { name_of(index) } else { format!("c{index}") },
            priority: i32::from(index == 3 || index == 10),
            epoch: None,
            read_compacted: false,
            subscription_properties: Vec::new(),
            key_shared: self.split_of(name).policy(index),
            properties: Vec::new(),
            address: String::new(),
            client_version: String::new(),
        };
        self.owner.call(|topic, turn| topic.attach_consumer(turn, attach));
        self.listen()
    }

    fn some_position(&mut self) -> Position {
        let count = self.acknowledged.len();
        let index = self.rng.usize(..=count);
        self.acknowledged.keys().nth(index).copied().unwrap_or(Position::EARLIEST)
    }

    fn attached(&mut self) -> Option<(Index, ConsumerKey, ConsumerSlot)> {
        let index = self.rng.usize(..self.consumers.len());
        let consumer = &self.consumers[index];
        consumer.slot.map(|slot| (index, consumer.key, slot))
    }

    pub(super) fn detach_consumer(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        self.note(|| format!("consumer {index} leaves"));
        self.gone(index);
        self.owner.call(|topic, turn| topic.detach_consumer(turn, key, None));
        self.listen()
    }

    pub(super) fn flow(&mut self) -> Result<(), String> {
        let Some((index, ..)) = self.attached() else { return Ok(()) };
        let permits = self.rng.u32(1..20);
        self.flow_to(index, permits)
    }

    pub(super) fn flow_to(&mut self, index: Index, permits: u32) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        let (Some(slot), key) = (consumer.slot, consumer.key) else { return Ok(()) };
        consumer.permits += i64::from(permits);
        self.note(|| format!("consumer {index} gives {permits} permits"));
        self.owner.call(|topic, turn| topic.flow(turn, key, slot, permits));
        self.listen()
    }

    pub(super) fn toggle_writable(&mut self) -> Result<(), String> {
        match self.attached() {
            Some((index, ..)) => self.toggle_this(index),
            None => Ok(()),
        }
    }

    pub(super) fn toggle_this(&mut self, index: Index) -> Result<(), String> {
        let (Some(slot), key) = (self.consumers[index].slot, self.consumers[index].key) else { return Ok(()) };
        let writable = !self.consumers[index].writable;
        self.consumers[index].writable = writable;
        self.owner.call(|topic, _| topic.set_writable(key, slot, writable));
        self.listen()
    }

    pub(super) fn ack(&mut self) -> Result<(), String> {
        let Some((index, key, slot)) = self.attached() else { return Ok(()) };
        let Some(mirror) = self.mirrors.get_mut(self.consumers[index].subscription) else { return Ok(()) };
        // On a Shared subscription anybody may ack what another was sent.
        let held = if self.rng.u8(..4) == 0 { mirror.all_held() } else { mirror.held_by(index) };
        let Some(at) = self.rng.choice(held.iter().copied()) else { return Ok(()) };
        let ids = match self.rng.u8(..6) {
            0 if !mirror.is_shared() => {
                mirror.ack_through(at, &self.acknowledged);
                AckIds::Cumulative(at, None, None)
            }
            1 if mirror.messages(at) > 1 => {
                let messages = mirror.messages(at);
                let left = mirror.ack_part(at, &[self.rng.u64(..)]);
                AckIds::Many(vec![(at, Some(left), self.rng.bool().then_some(messages))])
            }
            2 => {
                let some: Vec<Position> = held.into_iter().filter(|_| self.rng.bool()).collect();
                some.iter().for_each(|at| mirror.ack(*at));
                AckIds::Many(some.into_iter().map(|at| (at, None, None)).collect())
            }
            _ => {
                mirror.ack(at);
                AckIds::One(at)
            }
        };
        self.note(|| format!("consumer {index} acks {ids:?}"));
        self.owner.call(|topic, turn| topic.ack(turn, Ack { key, slot, request: None, ids }));
        self.listen()
    }

    pub(super) fn redeliver(&mut self) -> Result<(), String> {
        let Some((index, key, slot)) = self.attached() else { return Ok(()) };
        let Some(mirror) = self.mirrors.get_mut(self.consumers[index].subscription) else { return Ok(()) };
        let mut ids = mirror.held_by(index);
        let all = self.rng.bool() || !mirror.is_shared();
        if !all {
            ids.retain(|_| self.rng.bool());
            if ids.is_empty() {
                return Ok(());
            }
        }
        mirror.give_back(index, &ids);
        self.note(|| format!("consumer {index} wants again {ids:?}, all: {all}"));
        let ids = if all { Vec::new() } else { ids };
        self.owner.call(|topic, _| topic.redeliver(key, slot, ids, None));
        self.listen()
    }

    pub(super) fn seek(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        let (to, floor) = match self.rng.u8(..5) {
            // Publishes that are sent again make times go back, so what a time means is checked elsewhere.
            0 => (SeekTo::Time(self.owner.now.wall_ms - self.rng.u64(..50_000)), Position::LATEST),
            1 => (SeekTo::Message(Position::EARLIEST), Position::EARLIEST),
            _ => {
                let at = self.some_position();
                (SeekTo::Message(at), at)
            }
        };
        let name = self.consumers[index].subscription;
        let request = self.request(Request::Seek(name, floor));
        self.note(|| format!("consumer {index} moves {name} to {to:?}"));
        self.owner.call(|topic, turn| topic.seek(turn, key, request, to));
        self.listen()
    }

    pub(super) fn unsubscribe(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        let name = self.consumers[index].subscription;
        let request = self.request(Request::Unsubscribe(name, index));
        self.note(|| format!("consumer {index} removes {name}"));
        self.owner.call(|topic, turn| topic.unsubscribe(turn, key, request, true));
        self.listen()
    }
}
