//! The producers of a topic: slots on the road, names off it.

use std::collections::{HashMap, VecDeque};

use slab::Slab;

use crate::attach::Refusal;
use crate::dedup::Known;
use crate::event::{AttachProducer, Publish};
use crate::growth::Growth;
use crate::stats::ProducerRates;
use crate::stats::ProducerStats;
use crate::{AccessMode, Effect, Effects, Limits, Now, ProducerKey, ProducerSlot, Reply};

/// One attached producer, or one that has left and whose publishes are not all answered.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) key: ProducerKey,
    name: String,
    user_provided_name: bool,
    epoch: u64,
    access: AccessMode,
    /// Where its sequence ids are kept, if they are.
    pub(crate) known: Option<Known>,
    /// Publishes not answered.
    pub(crate) pending: u32,
    /// Those of them that wait for the topic's publish rate.
    pub(crate) held: VecDeque<Publish>,
    /// A publish was refused: none is taken until it attaches again, so that no later one overtakes it.
    pub(crate) refused: bool,
    presence: Presence,
    messages_in: u64,
    bytes_in: u64,
    growth: Growth<2>,
    address: String,
    client_version: String,
    properties: Vec<(String, String)>,
    connected_since_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Attached,
    /// Closing; the request is answered when its publishes are.
    Leaving {
        request: u64,
    },
    /// The topic wants it closed; it is, when its publishes are answered.
    Dismissed,
    /// Its connection is gone, or another took its place.
    Gone,
}

/// Why a producer was not let in.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("producer with name '{0}' is already connected to the topic")]
pub(crate) struct NameTaken(pub(crate) String);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    slots: Slab<Producer>,
    by_key: HashMap<ProducerKey, u32>,
    by_name: HashMap<String, u32>,
    names_made: u64,
}

impl Producers {
    /// A period of statistics has ended.
    pub(crate) fn period_ended(&mut self, seconds: f64) {
        for (_, producer) in &mut self.slots {
            producer.growth.period_ended([producer.messages_in, producer.bytes_in], seconds);
        }
    }

    /// The producer behind a slot if it is still this one and takes publishes, as one that is leaving does: they were sent before.
    pub(crate) fn on_road(&mut self, key: ProducerKey, slot: ProducerSlot) -> Option<&mut Producer> {
        let producer = self.slots.get_mut(slot.0 as usize)?;
        let takes = matches!(producer.presence, Presence::Attached | Presence::Leaving { .. });
        (producer.key == key && takes).then_some(producer)
    }

    /// Whoever is in a slot.
    pub(crate) fn at(&mut self, slot: ProducerSlot) -> Option<&mut Producer> {
        self.slots.get_mut(slot.0 as usize)
    }

    /// Whether this very producer is attached; its slot, its name and how it shares.
    pub(crate) fn attached(&self, key: ProducerKey) -> Option<(ProducerSlot, &str, AccessMode)> {
        let slot = *self.by_key.get(&key)?;
        let producer = self.slots.get(slot as usize)?;
        (producer.presence == Presence::Attached).then_some((ProducerSlot(slot), producer.name.as_str(), producer.access))
    }

    /// Lets a producer in under the name it asks for, or one made for it.
    pub(crate) fn attach(&mut self, attach: AttachProducer, prefix: &str, now: Now) -> Result<(ProducerSlot, String), NameTaken> {
        let name = self.name_for(&attach, prefix);
        if let Some(other) = self.by_name.get(&name).copied() {
            self.make_room(other, &attach)?;
        }
        let producer = Producer {
            key: attach.key,
            name: name.clone(),
            user_provided_name: attach.user_provided_name,
            epoch: attach.epoch,
            access: attach.access,
            known: None,
            pending: 0,
            held: VecDeque::new(),
            refused: false,
            presence: Presence::Attached,
            messages_in: 0,
            bytes_in: 0,
            growth: Growth::default(),
            address: attach.address,
            client_version: attach.client_version,
            properties: attach.properties,
            connected_since_ms: now.wall_ms,
        };
        let slot = u32::try_from(self.slots.insert(producer)).unwrap_or(u32::MAX);
        self.by_key.insert(attach.key, slot);
        self.by_name.insert(name.clone(), slot);
        Ok((ProducerSlot(slot), name))
    }

    /// A name is free for a newcomer when its owner's connection is gone, or when the owner is an earlier life of the same client.
    fn make_room(&mut self, slot: u32, attach: &AttachProducer) -> Result<(), NameTaken> {
        let Some(other) = self.slots.get_mut(slot as usize) else { return Ok(()) };
        let earlier_life = attach.epoch > other.epoch && !attach.user_provided_name && !other.user_provided_name;
        if other.presence != Presence::Gone && !earlier_life {
            return Err(NameTaken(other.name.clone()));
        }
        other.presence = Presence::Gone;
        let (key, idle) = (other.key, other.pending == 0);
        self.unkey(key, slot);
        if idle {
            self.remove(slot);
        }
        Ok(())
    }

    /// The name it asks for, or one made for it.
    pub(crate) fn name_for(&mut self, attach: &AttachProducer, prefix: &str) -> String {
        match attach.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => self.make_name(prefix),
        }
    }

    fn make_name(&mut self, prefix: &str) -> String {
        loop {
            let name = format!("{prefix}-{}", self.names_made);
            self.names_made += 1;
            if !self.by_name.contains_key(&name) {
                return name;
            }
        }
    }

    /// A producer leaves; with a request it is told when its publishes are answered. Returns whether that is so already.
    pub(crate) fn detach(&mut self, key: ProducerKey, request: Option<u64>) -> bool {
        let Some(slot) = self.by_key.get(&key).copied() else { return true };
        let Some(producer) = self.slots.get_mut(slot as usize) else { return true };
        producer.presence = match request {
            Some(request) => Presence::Leaving { request },
            None => Presence::Gone,
        };
        let idle = producer.pending == 0;
        if idle || request.is_none() {
            self.by_key.remove(&key);
        }
        if idle {
            self.remove(slot);
        }
        idle
    }

    /// One publish of the producer in this slot is answered. Returns whom to answer, and the request of a close that waited for this.
    pub(crate) fn answered(&mut self, slot: ProducerSlot) -> Answered {
        let Some(producer) = self.slots.get_mut(slot.0 as usize) else { return Answered::default() };
        producer.pending = producer.pending.saturating_sub(1);
        let to = (producer.presence != Presence::Gone).then_some(producer.key);
        let key = producer.key;
        let closed = match producer.presence {
            Presence::Leaving { request } if producer.pending == 0 => Some(request),
            _ => None,
        };
        let dismissed = producer.presence == Presence::Dismissed && producer.pending == 0;
        if producer.pending == 0 && producer.presence != Presence::Attached {
            self.unkey(key, slot.0);
            self.remove(slot.0);
        }
        Answered { to, key: Some(key), closed, dismissed }
    }

    /// Forgets a key, unless a newer producer has it.
    fn unkey(&mut self, key: ProducerKey, slot: u32) {
        if self.by_key.get(&key) == Some(&slot) {
            self.by_key.remove(&key);
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some(producer) = self.slots.try_remove(slot as usize)
            && self.by_name.get(&producer.name) == Some(&slot)
        {
            self.by_name.remove(&producer.name);
        }
    }

    /// Takes all that are attached, for closing them.
    pub(crate) fn take_attached(&mut self) -> Vec<ProducerKey> {
        let attached = self.slots.iter().filter(|(_, producer)| producer.presence == Presence::Attached);
        let keys: Vec<ProducerKey> = attached.map(|(_, producer)| producer.key).collect();
        for key in &keys {
            self.detach(*key, None);
        }
        keys
    }

    /// Has all that are attached closed, each after its last answer.
    pub(crate) fn dismiss(&mut self, out: &mut Effects) {
        for (_, producer) in &mut self.slots {
            if producer.presence == Presence::Attached {
                producer.presence = Presence::Dismissed;
            }
        }
        let idle = |(_, producer): &(usize, &Producer)| producer.presence == Presence::Dismissed && producer.pending == 0;
        let idle: Vec<ProducerKey> = self.slots.iter().filter(idle).map(|(_, producer)| producer.key).collect();
        for producer in idle {
            self.detach(producer, None);
            out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
        }
    }

    /// Where the sequence ids of a producer are kept.
    pub(crate) fn set_known(&mut self, slot: ProducerSlot, known: Option<Known>) {
        if let Some(producer) = self.slots.get_mut(slot.0 as usize) {
            producer.known = known;
        }
    }

    /// Where the sequence ids of all producers are kept that are attached or have publishes that are not answered.
    pub(crate) fn known(&self) -> Vec<Known> {
        self.slots.iter().filter_map(|(_, producer)| producer.known).collect()
    }

    /// Whether there is anybody, be it one that is gone with publishes that are not answered.
    pub(crate) fn has_any(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Producers that are attached, or closing with publishes that are not answered.
    pub(crate) fn present(&self) -> usize {
        self.slots.iter().filter(|(_, producer)| producer.presence != Presence::Gone).count()
    }

    /// Whether one that is present has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let slot = self.by_name.get(name).and_then(|slot| self.slots.get(*slot as usize));
        slot.is_some_and(|producer| producer.presence != Presence::Gone)
    }

    /// Whether one that is not here yet may come.
    pub(crate) fn have_room_for(&self, attach: &AttachProducer, limits: &Limits) -> Result<(), Refusal> {
        if (limits.producers == 0 && limits.producers_of_address == 0) || self.attached(attach.key).is_some() {
            return Ok(());
        }
        // Whoever comes back by its name takes its own place.
        let others = self.slots.iter().map(|(_, producer)| producer);
        let others = others.filter(|other| other.presence == Presence::Attached && Some(other.name.as_str()) != attach.name.as_deref());
        limits.producer(attach, others.map(|other| other.address.as_str()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.slots.iter().any(|(_, producer)| producer.presence == Presence::Attached)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|(_, producer)| producer.presence == Presence::Attached).count()
    }

    pub(crate) fn stats(&self) -> Vec<ProducerStats> {
        self.slots.iter().filter(|(_, producer)| producer.presence == Presence::Attached).map(|(_, producer)| producer.stats()).collect()
    }
}

/// Whom an answer goes to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answered {
    /// The producer, if it is there to hear it.
    pub(crate) to: Option<ProducerKey>,
    /// The producer, there or not.
    pub(crate) key: Option<ProducerKey>,
    /// A close request that waited for this answer.
    pub(crate) closed: Option<u64>,
    /// Whether the producer is to be closed after this answer.
    pub(crate) dismissed: bool,
}

impl Answered {
    /// A close that waited for the last answer follows it.
    pub(crate) fn close(self, out: &mut Effects) {
        let Some(producer) = self.key else { return };
        if let Some(request) = self.closed {
            out.push(Effect::Reply { to: producer.connection, reply: Reply::Success { request } });
        }
        if self.dismissed {
            out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
        }
    }
}

impl Producer {
    /// Whether its connection is gone, or another took its place.
    pub(crate) fn is_gone(&self) -> bool {
        self.presence == Presence::Gone
    }

    pub(crate) fn published(&mut self, messages: u32, bytes: usize) {
        self.messages_in += u64::from(messages);
        self.bytes_in += bytes as u64;
    }

    fn stats(&self) -> ProducerStats {
        let [messages_in, bytes_in] = self.growth.rates();
        ProducerStats {
            rates: ProducerRates { messages_in, bytes_in },
            name: self.name.clone(),
            id: self.key.id,
            access_mode: self.access.name(),
            messages_in: self.messages_in,
            bytes_in: self.bytes_in,
            address: self.address.clone(),
            client_version: self.client_version.clone(),
            connected_since_ms: self.connected_since_ms,
            properties: self.properties.clone(),
        }
    }
}
