//! What is published and what is received.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use base64::prelude::*;
use bytes::{Bytes, BytesMut};
use wire::{CompressionType, proto};

use crate::{Error, consumer, metadata::Metadata};

/// Where a message is stored, and which message of its batch it is. −1 in ledger and entry is `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The ledger.
    pub ledger: u64,
    /// The entry in it.
    pub entry: u64,
    /// The index in the batch; −1 outside one.
    pub batch_index: i32,
    /// How many messages the batch has; 0 outside one.
    pub batch_size: i32,
    /// The partition; −1 for a topic that is none.
    pub partition: i32,
}

impl MessageId {
    /// Before the first message of a topic.
    pub const EARLIEST: Self = Self::new(u64::MAX, u64::MAX);
    /// After the last message of a topic.
    pub const LATEST: Self = Self::new(i64::MAX as u64, i64::MAX as u64);

    /// An entry that is no batch, of a topic that is no partition.
    #[must_use]
    pub const fn new(ledger: u64, entry: u64) -> Self {
        Self { ledger, entry, batch_index: -1, batch_size: 0, partition: -1 }
    }

    /// The entry that holds the message.
    #[must_use]
    pub const fn whole_entry(self) -> Self {
        Self { batch_index: -1, batch_size: 0, ..self }
    }

    /// Whether it stands for no message at all: the last id of an empty topic, or the receipt of a duplicate.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.entry == u64::MAX
    }

    pub(crate) fn from_wire(id: &wire::MessageId) -> Self {
        Self {
            ledger: id.ledger,
            entry: id.entry,
            batch_index: id.batch_index(),
            batch_size: id.batch_size.unwrap_or(0),
            partition: id.partition(),
        }
    }

    /// For the wire, as an entry: nothing is said about batches.
    pub(crate) fn to_wire(self) -> wire::MessageId {
        wire::MessageId::of_partition(self.ledger, self.entry, self.partition)
    }

    /// For the wire, with the place in the batch.
    pub(crate) fn to_wire_exact(self) -> wire::MessageId {
        let mut id = self.to_wire();
        if self.batch_index >= 0 {
            id.batch_index = Some(self.batch_index);
            id.batch_size = Some(self.batch_size);
        }
        id
    }
}

/// `ledger:entry[:partition[:index]]`, −1 written as such.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ledger.cast_signed(), self.entry.cast_signed())?;
        if self.partition >= 0 || self.batch_index >= 0 {
            write!(f, ":{}", self.partition)?;
        }
        if self.batch_index >= 0 {
            write!(f, ":{}", self.batch_index)?;
        }
        Ok(())
    }
}

/// A message to publish.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// What it says.
    pub payload: Bytes,
    /// Its key.
    pub key: Option<Key>,
    /// What to order by where that is not the key.
    pub ordering_key: Option<Bytes>,
    /// Named values beside the payload.
    pub properties: Vec<(String, String)>,
    /// When it happened, in milliseconds since the epoch.
    pub event_time: Option<u64>,
    /// Its sequence id; without one it gets the producer's next.
    pub sequence: Option<u64>,
    /// Not to be delivered before, in milliseconds since the epoch.
    pub deliver_at: Option<u64>,
}

impl Message {
    /// A message with a payload and nothing else.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// With a key in text.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Key::text(key));
        self
    }

    /// With a sequence id.
    #[must_use]
    pub fn sequence(mut self, sequence: u64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// With one more property.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }
}

/// A message's key, as the wire has it. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// UTF-8, always.
    pub(crate) text: Bytes,
    pub(crate) is_base64: bool,
}

impl Key {
    /// A key in text.
    pub fn text(key: impl Into<String>) -> Self {
        Self { text: key.into().into(), is_base64: false }
    }

    /// A key of any bytes; the wire carries it in base 64 and says so.
    #[must_use]
    pub fn binary(key: &[u8]) -> Self {
        Self { text: BASE64_STANDARD.encode(key).into(), is_base64: true }
    }

    /// The same in memory that many keys and payloads share: it is written behind what the arena holds and taken out of it
    /// together with that, so the arena should be empty. Allocates only when the arena has no room.
    #[must_use]
    pub fn binary_in(arena: &mut BytesMut, key: &[u8]) -> Self {
        let begin = arena.len();
        arena.resize(begin + key.len().div_ceil(3) * 4, 0);
        let length = BASE64_STANDARD.encode_slice(key, &mut arena[begin..]).expect("there is room for it");
        arena.truncate(begin + length);
        Self { text: arena.split().freeze().split_off(begin), is_base64: true }
    }
}

/// A message as it was received. It gives its permit back when it leaves the inbox.
#[derive(Clone, Debug)]
pub struct Received {
    /// Where it is stored.
    pub id: MessageId,
    /// How often the broker has delivered it before.
    pub redelivery_count: u32,
    /// What it says.
    pub payload: Bytes,
    pub(crate) entry: Bytes,
    /// Where in the entry's metadata its key stands.
    pub(crate) key: Option<(u32, u32)>,
    pub(crate) single: Option<Arc<proto::SingleMessageMetadata>>,
    pub(crate) compression: CompressionType,
    pub(crate) batch: Option<Arc<Batch>>,
    pub(crate) from: Arc<consumer::Core>,
}

impl Received {
    /// The tag of the consumer that got it, from its options.
    #[must_use]
    pub fn consumer(&self) -> u64 {
        self.from.tag()
    }

    /// The topic that it came from.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.from.topic()
    }

    /// Key, properties, times and sequence; read from the wire format at each call.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        Metadata::read(&self.entry, self.single.as_deref())
    }

    /// The key as the wire has it, base 64 of a binary one; read without an allocation.
    #[must_use]
    pub fn wire_key(&self) -> Option<&[u8]> {
        match &self.single {
            Some(single) => single.partition_key.as_deref().map(str::as_bytes),
            None => {
                let (begin, end) = self.key?;
                self.entry.get(begin as usize..end as usize)
            }
        }
    }

    /// How the payload is compressed. This client hands compressed payloads on as they are.
    #[must_use]
    pub fn compression(&self) -> CompressionType {
        self.compression
    }

    /// Acknowledges it, without waiting for an answer; of a batch, the entry is acknowledged with its last message
    /// (or bit by bit, if the consumer's options say so).
    pub fn ack(&self) {
        self.from.ack(self);
    }

    pub(crate) fn taken(&self) {
        self.from.took(self.id);
    }
}

/// What is left to acknowledge of an entry that is a batch.
#[derive(Debug)]
pub(crate) struct Batch {
    /// A bit per message; set: not acknowledged.
    left: Mutex<Vec<u64>>,
}

impl Batch {
    pub(crate) fn new(size: usize) -> Self {
        let mut left = vec![u64::MAX; size.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (left.last_mut(), size % 64) {
            *last = (1 << rest) - 1;
        }
        Self { left: Mutex::new(left) }
    }

    /// Notes that a message is acknowledged; returns what is left, which is empty when nothing is.
    pub(crate) fn ack(&self, index: usize) -> Vec<u64> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = left.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
        if left.iter().all(|word| *word == 0) { Vec::new() } else { left.clone() }
    }

    /// The same for all messages up to this one.
    pub(crate) fn ack_up_to(&self, index: usize) -> Vec<u64> {
        (0..=index).map(|index| self.ack(index)).last().unwrap_or_default()
    }
}

/// What a consumer's topic ends with, and how far the subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// The last message that can be read; [`MessageId::is_none`] on an empty topic.
    pub id: MessageId,
    /// The subscription's mark-delete position, if the broker said so.
    pub mark_delete: Option<MessageId>,
}

/// Turns a refused message back together with the reason.
#[derive(Debug)]
pub enum TrySendError {
    /// As many messages as the options allow wait for their receipts.
    Full(Message),
    /// It cannot be sent.
    Failed(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_shortly_and_minus_one_as_such() {
        assert_eq!(MessageId::new(3, 4).to_string(), "3:4");
        assert_eq!(MessageId { batch_index: 2, ..MessageId::new(3, 4) }.to_string(), "3:4:-1:2");
        assert_eq!(MessageId { partition: 7, ..MessageId::new(3, 4) }.to_string(), "3:4:7");
        assert_eq!(MessageId::EARLIEST.to_string(), "-1:-1");
    }

    #[test]
    fn a_batch_is_done_with_its_last_message_whatever_the_order() {
        let batch = Batch::new(65);
        for index in (1..65).rev() {
            assert!(!batch.ack(index).is_empty());
        }
        assert!(batch.ack(0).is_empty());
        let batch = Batch::new(64);
        assert_eq!(batch.ack_up_to(62), [1 << 63]);
        assert!(batch.ack_up_to(63).is_empty());
    }
}
