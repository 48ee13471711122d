//! A producer that sends again whatever was not acknowledged, and notices a receipt that is not the next one.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use ledger::Position;
use topic::{AccessMode, AttachProducer, ConnectionKey, ProducerKey, ProducerSlot, Publish};
use wire::proto::{MessageMetadata, SingleMessageMetadata};

use super::keys::key_of;

/// What was acknowledged, by position.
pub(crate) type Acknowledged = BTreeMap<Position, Sent>;

/// One publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The producer.
    pub(crate) producer: usize,
    /// The sequence id.
    pub(crate) sequence: u64,
    /// When it may be delivered, 0 at once.
    pub(crate) deliver_at: u64,
    /// Whether it is a part of a larger message.
    pub(crate) is_part: bool,
}

impl Sent {
    /// Whether consumers that share a subscription may get later ones before it.
    pub(crate) fn may_be_late(&self) -> bool {
        self.deliver_at > 0 || self.is_part
    }
}

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
    deliver_at: u64,
    is_part: bool,
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
            access: AccessMode::Shared,
            topic_epoch: None,
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
        self.enqueue(messages, MessageMetadata { publish_time: time, ..MessageMetadata::default() });
    }

    /// Has a message to send that is not to be delivered before `deliver_at`.
    pub(crate) fn produce_delayed(&mut self, deliver_at: u64, time: u64) {
        let deliver_at_time = Some(deliver_at as i64);
        self.enqueue(1, MessageMetadata { publish_time: time, deliver_at_time, ..MessageMetadata::default() });
    }

    /// Has a message in `parts` to send.
    pub(crate) fn produce_parts(&mut self, parts: i32, time: u64) {
        let uuid = format!("p{}-{}", self.index, self.next_sequence);
        let partition_key = Some(key_of(self.index, self.next_sequence));
        for part in 0..parts {
            let (uuid, num_chunks_from_msg) = (Some(uuid.clone()), Some(parts));
            let (chunk_id, partition_key) = (Some(part), partition_key.clone());
            let what =
                MessageMetadata { publish_time: time, uuid, num_chunks_from_msg, chunk_id, partition_key, ..MessageMetadata::default() };
            self.enqueue(1, what);
        }
    }

    fn enqueue(&mut self, messages: u32, what: MessageMetadata) {
        let sequence = self.next_sequence;
        self.next_sequence += u64::from(messages);
        let metadata = MessageMetadata {
            producer_name: format!("p{}", self.index),
            sequence_id: sequence,
            num_messages_in_batch: (messages > 1).then_some(messages as i32),
            partition_key: what.partition_key.clone().or_else(|| Some(key_of(self.index, sequence))),
            ..what
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
        let deliver_at = metadata.deliver_at_time.unwrap_or(0) as u64;
        let is_part = metadata.chunk_id.is_some();
        self.unacknowledged.push_back(Send { sequence, highest_sequence, deliver_at, is_part, bytes: bytes.freeze() });
    }

    /// The next publish to go out, if it is attached and has one.
    pub(crate) fn next(&mut self) -> Option<Publish> {
        let slot = self.slot?;
        let Send { sequence, highest_sequence, bytes, .. } = self.unacknowledged.get(self.sent)?.clone();
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
        let head = self.unacknowledged.front().filter(|_| self.sent > 0).ok_or("a receipt for nothing")?;
        if (head.sequence, head.highest_sequence) != (sequence, highest_sequence) {
            return Err(format!("receipt {sequence}/{highest_sequence} for send {}/{}", head.sequence, head.highest_sequence));
        }
        let sent = Sent { producer: self.index, sequence, deliver_at: head.deliver_at, is_part: head.is_part };
        self.sent -= 1;
        self.unacknowledged.pop_front();
        // It was stored before, and let go of since.
        let Some(at) = at else { return Ok(()) };
        if self.last.is_some_and(|last| last >= at) {
            return Err(format!("receipt at {at} after one at {:?}", self.last));
        }
        self.last = Some(at);
        match acknowledged.insert(at, sent) {
            Some(other) => Err(format!("{at} was acknowledged twice, first to {other:?}")),
            None => Ok(()),
        }
    }
}
