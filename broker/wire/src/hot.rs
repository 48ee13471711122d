//! The commands that pass once per message, decoded and encoded without the generated types.
//!
//! An optional field that was not sent stays `None` and is not sent again, so that what was decoded encodes to the same bytes.

use crate::{
    AckType, MessageId, TxnId,
    field::{Body, Fields, Sink, Unexpected},
    proto,
};

/// SEND: a producer publishes the payload that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// The producer, by the id that its connection chose.
    pub producer_id: u64,
    /// The sequence id, of a batch its first one.
    pub sequence_id: u64,
    /// How many messages the payload holds.
    pub num_messages: Option<i32>,
    /// The transaction that it belongs to.
    pub txn: Option<TxnId>,
    /// Of a batch: its last sequence id.
    pub highest_sequence_id: Option<u64>,
    /// Whether the payload is a chunk of a larger message.
    pub is_chunk: Option<bool>,
    /// Whether the payload is a marker and not a message.
    pub marker: Option<bool>,
    /// Where the message was stored in the cluster that it is replicated from.
    pub message_id: Option<Box<MessageId>>,
}

impl Send {
    /// How many messages the payload holds, never less than one.
    pub fn messages(&self) -> u32 {
        self.num_messages.and_then(|n| u32::try_from(n).ok()).map_or(1, |n| n.max(1))
    }

    /// The highest sequence id of the payload, for deduplication.
    pub fn last_sequence_id(&self) -> u64 {
        self.highest_sequence_id.unwrap_or(0).max(self.sequence_id)
    }

    /// Whether the payload is a chunk of a larger message.
    pub fn is_chunk(&self) -> bool {
        self.is_chunk.unwrap_or(false)
    }

    /// Whether the payload is a marker and not a message.
    pub fn is_marker(&self) -> bool {
        self.marker.unwrap_or(false)
    }
}

/// SEND_RECEIPT: what a SEND published is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendReceipt {
    /// The producer.
    pub producer_id: u64,
    /// The sequence id of the SEND, unchanged.
    pub sequence_id: u64,
    /// Where it is stored; −1:−1 for a duplicate.
    pub message_id: Option<MessageId>,
    /// The highest sequence id of the SEND, unchanged.
    pub highest_sequence_id: Option<u64>,
}

/// MESSAGE: a consumer gets the payload that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The consumer.
    pub consumer_id: u64,
    /// Where the message is stored.
    pub message_id: MessageId,
    /// How often it was delivered before.
    pub redelivery_count: Option<u32>,
    /// Which messages of the batch are still unacked; empty: all.
    pub ack_set: Vec<u64>,
    /// The epoch of the consumer that the delivery belongs to.
    pub consumer_epoch: Option<u64>,
}

/// ACK: a consumer is done with messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The consumer.
    pub consumer_id: u64,
    /// These alone, or all up to this one.
    pub ack_type: AckType,
    /// Which.
    pub ids: AckIds,
    /// Why the client gives the entry up, by the number of [`proto::AckValidationError`].
    pub validation_error: Option<i32>,
    /// What the cursor shall remember with its position.
    pub properties: Vec<proto::KeyLongValue>,
    /// The transaction that decides on the acknowledgement.
    pub txn: Option<TxnId>,
    /// Set when the client wants an ACK_RESPONSE.
    pub request_id: Option<u64>,
}

/// The ids of an ACK. The usual one does not allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckIds {
    /// Exactly one.
    One(MessageId),
    /// None, or more than one.
    Many(Vec<MessageId>),
}

impl AckIds {
    /// The ids in the order they were sent.
    pub fn as_slice(&self) -> &[MessageId] {
        match self {
            AckIds::One(id) => std::slice::from_ref(id),
            AckIds::Many(ids) => ids,
        }
    }

    fn push(&mut self, id: MessageId) {
        match self {
            AckIds::Many(ids) if ids.is_empty() => *self = AckIds::One(id),
            AckIds::Many(ids) => ids.push(id),
            AckIds::One(_) => {
                let first = std::mem::replace(self, AckIds::Many(Vec::with_capacity(8)));
                if let (AckIds::One(first), AckIds::Many(ids)) = (first, self) {
                    ids.extend([first, id]);
                }
            }
        }
    }
}

impl Default for AckIds {
    fn default() -> Self {
        AckIds::Many(Vec::new())
    }
}

impl FromIterator<MessageId> for AckIds {
    fn from_iter<T: IntoIterator<Item = MessageId>>(iter: T) -> Self {
        let mut ids = AckIds::default();
        iter.into_iter().for_each(|id| ids.push(id));
        ids
    }
}

/// FLOW: a consumer is ready for more messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The consumer.
    pub consumer_id: u64,
    /// How many messages it will take beyond what it was ready for.
    pub permits: u32,
}

/// Why the hand-made decoder gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Something it does not know; the generated decoder takes over.
    Unexpected,
    /// A required field is missing; nobody can help.
    Missing(&'static str),
}

impl From<Unexpected> for Stop {
    fn from(Unexpected: Unexpected) -> Self {
        Stop::Unexpected
    }
}

fn required<T>(value: Option<T>, field: &'static str) -> Result<T, Stop> {
    value.ok_or(Stop::Missing(field))
}

impl Send {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut producer_id, mut sequence_id, mut least, mut most) = (None, None, None, None);
        let mut send = Send::default();
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => producer_id = Some(value.varint()?),
                2 => sequence_id = Some(value.varint()?),
                3 => send.num_messages = Some(value.i32()?),
                4 => least = Some(value.varint()?),
                5 => most = Some(value.varint()?),
                6 => send.highest_sequence_id = Some(value.varint()?),
                7 => send.is_chunk = Some(value.bool()?),
                8 => send.marker = Some(value.bool()?),
                9 if send.message_id.is_none() => send.message_id = Some(Box::new(MessageId::decode(value.bytes()?)?)),
                _ => return Err(Stop::Unexpected),
            }
        }
        send.producer_id = required(producer_id, "producer_id")?;
        send.sequence_id = required(sequence_id, "sequence_id")?;
        send.txn = TxnId::from_halves(most, least);
        Ok(send)
    }
}

impl SendReceipt {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut producer_id, mut sequence_id) = (None, None);
        let mut receipt = SendReceipt::default();
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => producer_id = Some(value.varint()?),
                2 => sequence_id = Some(value.varint()?),
                3 if receipt.message_id.is_none() => receipt.message_id = Some(MessageId::decode(value.bytes()?)?),
                4 => receipt.highest_sequence_id = Some(value.varint()?),
                _ => return Err(Stop::Unexpected),
            }
        }
        receipt.producer_id = required(producer_id, "producer_id")?;
        receipt.sequence_id = required(sequence_id, "sequence_id")?;
        Ok(receipt)
    }
}

impl Message {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut consumer_id, mut message_id) = (None, None);
        let mut message = Message::default();
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => consumer_id = Some(value.varint()?),
                2 if message_id.is_none() => message_id = Some(MessageId::decode(value.bytes()?)?),
                3 => message.redelivery_count = Some(value.u32()?),
                4 => value.push_to(&mut message.ack_set)?,
                5 => message.consumer_epoch = Some(value.varint()?),
                _ => return Err(Stop::Unexpected),
            }
        }
        message.consumer_id = required(consumer_id, "consumer_id")?;
        message.message_id = required(message_id, "message_id")?;
        Ok(message)
    }
}

impl Ack {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut consumer_id, mut ack_type, mut least, mut most) = (None, None, None, None);
        let (mut ids, mut validation_error, mut request_id) = (AckIds::default(), None, None);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => consumer_id = Some(value.varint()?),
                2 => ack_type = Some(AckType::try_from(value.i32()?).map_err(|_| Unexpected)?),
                3 => ids.push(MessageId::decode(value.bytes()?)?),
                4 => validation_error = Some(value.i32()?),
                6 => least = Some(value.varint()?),
                7 => most = Some(value.varint()?),
                8 => request_id = Some(value.varint()?),
                // Properties (5) are rare enough for the generated decoder.
                _ => return Err(Stop::Unexpected),
            }
        }
        Ok(Ack {
            consumer_id: required(consumer_id, "consumer_id")?,
            ack_type: required(ack_type, "ack_type")?,
            ids,
            validation_error,
            properties: Vec::new(),
            txn: TxnId::from_halves(most, least),
            request_id,
        })
    }
}

impl Flow {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut consumer_id, mut permits) = (None, None);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => consumer_id = Some(value.varint()?),
                2 => permits = Some(value.u32()?),
                _ => return Err(Stop::Unexpected),
            }
        }
        Ok(Flow { consumer_id: required(consumer_id, "consumer_id")?, permits: required(permits, "message_permits")? })
    }
}

impl MessageId {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Stop> {
        let mut fields = Fields(body);
        let (mut ledger, mut entry) = (None, None);
        let mut id = MessageId::default();
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => ledger = Some(value.varint()?),
                2 => entry = Some(value.varint()?),
                3 => id.partition = Some(value.i32()?),
                4 => id.batch_index = Some(value.i32()?),
                5 => value.push_to(&mut id.ack_set)?,
                6 => id.batch_size = Some(value.i32()?),
                // First chunks (7) nest; the generated decoder bounds how deep.
                _ => return Err(Stop::Unexpected),
            }
        }
        id.ledger = required(ledger, "ledger_id")?;
        id.entry = required(entry, "entry_id")?;
        Ok(id)
    }
}

fn optional(out: &mut impl Sink, field: u32, value: Option<u64>) {
    if let Some(value) = value {
        out.varint(field, value);
    }
}

fn optional_i32(out: &mut impl Sink, field: u32, value: Option<i32>) {
    if let Some(value) = value {
        out.i32(field, value);
    }
}

fn words(out: &mut impl Sink, field: u32, words: &[u64]) {
    for &word in words {
        out.varint(field, word);
    }
}

impl Body for MessageId {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.ledger);
        out.varint(2, self.entry);
        optional_i32(out, 3, self.partition);
        optional_i32(out, 4, self.batch_index);
        words(out, 5, &self.ack_set);
        optional_i32(out, 6, self.batch_size);
        if let Some(first) = &self.first_chunk {
            out.message(7, &**first);
        }
    }
}

impl Body for Send {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.producer_id);
        out.varint(2, self.sequence_id);
        optional_i32(out, 3, self.num_messages);
        optional(out, 4, self.txn.map(|txn| txn.least));
        optional(out, 5, self.txn.map(|txn| txn.most));
        optional(out, 6, self.highest_sequence_id);
        optional(out, 7, self.is_chunk.map(u64::from));
        optional(out, 8, self.marker.map(u64::from));
        if let Some(id) = &self.message_id {
            out.message(9, &**id);
        }
    }
}

impl Body for SendReceipt {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.producer_id);
        out.varint(2, self.sequence_id);
        if let Some(id) = &self.message_id {
            out.message(3, id);
        }
        optional(out, 4, self.highest_sequence_id);
    }
}

impl Body for Message {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.consumer_id);
        out.message(2, &self.message_id);
        optional(out, 3, self.redelivery_count.map(u64::from));
        words(out, 4, &self.ack_set);
        optional(out, 5, self.consumer_epoch);
    }
}

impl Body for Ack {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.consumer_id);
        out.i32(2, self.ack_type.into());
        for id in self.ids.as_slice() {
            out.message(3, id);
        }
        optional_i32(out, 4, self.validation_error);
        for property in &self.properties {
            out.message(5, property);
        }
        optional(out, 6, self.txn.map(|txn| txn.least));
        optional(out, 7, self.txn.map(|txn| txn.most));
        optional(out, 8, self.request_id);
    }
}

impl Body for Flow {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.consumer_id);
        out.varint(2, u64::from(self.permits));
    }
}

impl Body for proto::KeyLongValue {
    fn fields(&self, out: &mut impl Sink) {
        out.bytes(1, self.key.as_bytes());
        out.varint(2, self.value);
    }
}
