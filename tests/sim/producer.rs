//! A producer that sends again whatever was not acknowledged, and notices a receipt that is not the next one.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use ledger::Position;
use topic::{AttachProducer, ConnectionKey, ProducerKey, ProducerSlot, Publish};
use wire::proto::{MessageMetadata, SingleMessageMetadata};

use super::keys::key_of;

/// What was acknowledged: by position, the producer and the sequence id.
pub(crate) type Acknowledged = BTreeMap<Position, (usize, u64)>;

/// One producer.
pub(crate) struct Producer {
    index: usize,
    key: ProducerKey,
    slot: Option<ProducerSlot>,
    epoch: u64,
    next_sequence: u64,
    /// Not acknowledged, oldest first; the first `sent` went out since it attached.
    unacknowledged: VecDeque<Send>,
    sent: usize,
    last: Option<Position>,
}

#[derive(Clone)]
struct Send {
    sequence: u64,
    highest_sequence: u64,
    bytes: Bytes,
}

impl Producer {
    /// A producer that never attached.
    pub(crate) fn new(index: usize) -> Producer {
        let connection = ConnectionKey { worker: 0, slot: index as u32, generation: 0 };
        let key = ProducerKey { connection, id: index as u64 };
        Producer { index, key, slot: None, epoch: 0, next_sequence: 0, unacknowledged: VecDeque::new(), sent: 0, last: None }
    }

    /// Its key on its present connection.
    pub(crate) fn key(&self) -> ProducerKey {
        self.key
    }

    /// Whether it is attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.slot.is_some()
    }

    /// Publishes without an answer.
    pub(crate) fn open(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Attaches over a new connection.
    pub(crate) fn attach(&mut self, request: u64) -> AttachProducer {
        self.key.connection.generation += 1;
        self.epoch += 1;
        self.sent = 0;
        AttachProducer {
            key: self.key,
            request,
            name: Some(format!("p{}", self.index)),
            user_provided_name: false,
            epoch: self.epoch,
            initial_subscription: None,
            properties: Vec::new(),
            address: String::new(),
            client_version: String::new(),
        }
    }

    /// It was let in.
    pub(crate) fn ready(&mut self, slot: ProducerSlot) {
        self.slot = Some(slot);
    }

    /// It lost its place.
    pub(crate) fn closed(&mut self) {
        self.slot = None;
        self.sent = 0;
    }

    /// Has another entry of `messages` to send.
    pub(crate) fn produce(&mut self, messages: u32, time: u64) {
        let sequence = self.next_sequence;
        self.next_sequence += u64::from(messages);
        let metadata = MessageMetadata {
            producer_name: format!("p{}", self.index),
            sequence_id: sequence,
            publish_time: time,
            num_messages_in_batch: (messages > 1).then_some(messages as i32),
            partition_key: Some(key_of(self.index, sequence)),
            ..MessageMetadata::default()
        };
        let mut bytes = BytesMut::new();
        if messages > 1 && sequence.is_multiple_of(2) {
            // As clients do that batch by key without saying so in the batch's own metadata.
            let mut batch = BytesMut::new();
            for _ in 0..messages {
                let mut single =
                    SingleMessageMetadata { partition_key: metadata.partition_key.clone(), ..SingleMessageMetadata::default() };
                wire::payload::push_single_message(&mut batch, &mut single, b"what the application said");
            }
            wire::payload::build(&MessageMetadata { partition_key: None, ..metadata }, &batch, &mut bytes);
        } else {
            wire::payload::build(&metadata, b"what the application said", &mut bytes);
        }
        let highest_sequence = if messages > 1 { sequence + u64::from(messages) - 1 } else { 0 };
        self.unacknowledged.push_back(Send { sequence, highest_sequence, bytes: bytes.freeze() });
    }

    /// The next publish to go out, if it is attached and has one.
    pub(crate) fn next(&mut self) -> Option<Publish> {
        let slot = self.slot?;
        let Send { sequence, highest_sequence, bytes } = self.unacknowledged.get(self.sent)?.clone();
        self.sent += 1;
        Some(Publish { key: self.key, slot, sequence, highest_sequence, bytes })
    }

    /// A receipt came.
    pub(crate) fn receipt(
        &mut self,
        sequence: u64,
        highest_sequence: u64,
        at: Option<Position>,
        acknowledged: &mut Acknowledged,
    ) -> Result<(), String> {
        let at = at.ok_or("a receipt without a position")?;
        let head = self.unacknowledged.front().filter(|_| self.sent > 0).ok_or("a receipt for nothing")?;
        if (head.sequence, head.highest_sequence) != (sequence, highest_sequence) {
            return Err(format!("receipt {sequence}/{highest_sequence} for send {}/{}", head.sequence, head.highest_sequence));
        }
        if self.last.is_some_and(|last| last >= at) {
            return Err(format!("receipt at {at} after one at {:?}", self.last));
        }
        self.last = Some(at);
        self.sent -= 1;
        self.unacknowledged.pop_front();
        match acknowledged.insert(at, (self.index, sequence)) {
            Some(other) => Err(format!("{at} was acknowledged twice, first to {other:?}")),
            None => Ok(()),
        }
    }
}
