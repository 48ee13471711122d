//! The message metadata that a broker looks at, found without building or allocating anything.

use super::{Parts, PayloadError, parts};
use crate::{
    TxnId,
    field::{Fields, Unexpected, Value},
};

/// What a broker wants to know of a message. Everything borrows from the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peek<'a> {
    /// How many messages the entry holds, at least one whatever the producer claims.
    pub messages: u32,
    /// Whether the bytes are in batch format, even if only of one message.
    pub is_batch: bool,
    /// The producer's name.
    pub producer_name: &'a str,
    /// The sequence id, of a batch its first one.
    pub sequence_id: u64,
    /// Of a batch: its last sequence id.
    pub highest_sequence_id: Option<u64>,
    /// When it was published, in milliseconds since the epoch by the producer's clock.
    pub publish_time: u64,
    /// The application's own time, in milliseconds since the epoch.
    pub event_time: Option<u64>,
    /// Not to be delivered before, in milliseconds since the epoch.
    pub deliver_at: Option<i64>,
    /// The key, perhaps in base64: see [`Peek::partition_key_b64`].
    pub partition_key: Option<&'a [u8]>,
    /// Whether the key is in base64.
    pub partition_key_b64: bool,
    /// The key that decides on order, where it differs from the partition key.
    pub ordering_key: Option<&'a [u8]>,
    /// Which part of a larger message it is.
    pub chunk: Option<Chunk<'a>>,
    /// How the bytes are compressed, by the number of [`crate::CompressionType`].
    pub compression: i32,
    /// How many bytes they are when not compressed.
    pub uncompressed_size: u32,
    /// Whether the bytes are encrypted.
    pub encrypted: bool,
    /// What kind of marker it is, if it is no message.
    pub marker_type: Option<i32>,
    /// The transaction that it belongs to.
    pub txn: Option<TxnId>,
    /// The version of the schema that it follows.
    pub schema_version: Option<&'a [u8]>,
    /// The cluster that it was replicated from.
    pub replicated_from: Option<&'a [u8]>,
    /// Whether it says that its key has no value any more.
    pub null_value: bool,
    /// The message's bytes.
    pub message: &'a [u8],
}

/// A part of a larger message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Names the larger message.
    pub uuid: &'a [u8],
    /// Which part, from zero.
    pub id: i32,
    /// How many parts there are.
    pub count: i32,
    /// How many bytes they have together.
    pub total_size: i32,
}

impl Chunk<'_> {
    /// Whether it is the last part.
    pub fn is_last(&self) -> bool {
        self.id.saturating_add(1) >= self.count
    }
}

impl Peek<'_> {
    /// The highest sequence id of the entry, for deduplication.
    pub fn last_sequence_id(&self) -> u64 {
        self.highest_sequence_id.unwrap_or(0).max(self.sequence_id)
    }

    /// Whether single messages can be read without decompression or keys.
    pub fn is_plain_batch(&self) -> bool {
        self.is_batch && self.compression == 0 && !self.encrypted
    }
}

/// Looks into a payload's metadata. The checksum is not verified.
pub fn peek(payload: &[u8]) -> Result<Peek<'_>, PayloadError> {
    let Parts { metadata, message, .. } = parts(payload)?;
    let mut scan = Scan { peek: Peek { messages: 1, message, ..Peek::default() }, ..Scan::default() };
    let mut fields = Fields(metadata);
    while let Some((number, value)) = fields.next().map_err(|Unexpected| MALFORMED)? {
        scan.field(number, value).map_err(|Unexpected| MALFORMED)?;
    }
    scan.finish()
}

const MALFORMED: PayloadError = PayloadError::Malformed("message metadata");

#[derive(Default)]
struct Scan<'a> {
    peek: Peek<'a>,
    producer_name: Option<&'a [u8]>,
    sequence_id: Option<u64>,
    publish_time: Option<u64>,
    least: Option<u64>,
    most: Option<u64>,
    chunk: Chunk<'a>,
    has_chunk_id: bool,
}

impl<'a> Scan<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Unexpected> {
        let peek = &mut self.peek;
        match number {
            1 => self.producer_name = Some(value.bytes()?),
            2 => self.sequence_id = Some(value.varint()?),
            3 => self.publish_time = Some(value.varint()?),
            5 => peek.replicated_from = Some(value.bytes()?),
            6 => peek.partition_key = Some(value.bytes()?),
            8 => peek.compression = value.i32()?,
            9 => peek.uncompressed_size = value.u32()?,
            11 => {
                peek.is_batch = true;
                peek.messages = u32::try_from(value.i32()?).unwrap_or(1).max(1);
            }
            12 => peek.event_time = Some(value.varint()?),
            13 => peek.encrypted = true,
            16 => peek.schema_version = Some(value.bytes()?),
            17 => peek.partition_key_b64 = value.bool()?,
            18 => peek.ordering_key = Some(value.bytes()?),
            19 => peek.deliver_at = Some(value.varint()? as i64),
            20 => peek.marker_type = Some(value.i32()?),
            22 => self.least = Some(value.varint()?),
            23 => self.most = Some(value.varint()?),
            24 => peek.highest_sequence_id = Some(value.varint()?),
            25 => peek.null_value = value.bool()?,
            26 => self.chunk.uuid = value.bytes()?,
            27 => self.chunk.count = value.i32()?,
            28 => self.chunk.total_size = value.i32()?,
            29 => {
                self.chunk.id = value.i32()?;
                self.has_chunk_id = true;
            }
            // Properties and what later versions add are the client's business.
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Peek<'a>, PayloadError> {
        let name = self.producer_name.ok_or(PayloadError::MissingField("producer_name"))?;
        let mut peek = self.peek;
        peek.producer_name = str::from_utf8(name).map_err(|_| PayloadError::Malformed("producer name"))?;
        peek.sequence_id = self.sequence_id.ok_or(PayloadError::MissingField("sequence_id"))?;
        peek.publish_time = self.publish_time.ok_or(PayloadError::MissingField("publish_time"))?;
        peek.txn = TxnId::from_halves(self.most, self.least);
        peek.chunk = (self.has_chunk_id && self.chunk.count > 0).then_some(self.chunk);
        Ok(peek)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes, BytesMut};
    use prost::Message as _;

    use super::*;
    use crate::{
        payload::build,
        proto::{EncryptionKeys, KeyValue, MessageMetadata},
    };

    fn least() -> MessageMetadata {
        MessageMetadata { producer_name: "p".to_owned(), sequence_id: 7, publish_time: 9, ..Default::default() }
    }

    fn payload_of(metadata: &MessageMetadata) -> BytesMut {
        let mut out = BytesMut::new();
        build(metadata, b"bytes", &mut out);
        out
    }

    #[test]
    fn the_least_metadata_is_one_message_that_is_no_batch() {
        let payload = payload_of(&least());
        let expected = Peek { messages: 1, producer_name: "p", sequence_id: 7, publish_time: 9, message: b"bytes", ..Peek::default() };
        assert_eq!(peek(&payload).unwrap(), expected);
    }

    #[test]
    fn every_field_of_interest_is_found() {
        let metadata = MessageMetadata {
            properties: vec![KeyValue { key: "a".to_owned(), value: "b".to_owned() }],
            replicated_from: Some("r".to_owned()),
            partition_key: Some("a2V5".to_owned()),
            compression: Some(3),
            uncompressed_size: Some(1000),
            num_messages_in_batch: Some(4),
            event_time: Some(5),
            encryption_keys: vec![EncryptionKeys { key: "k".to_owned(), value: Bytes::from_static(b"v"), metadata: Vec::new() }],
            schema_version: Some(Bytes::from_static(b"12345678")),
            partition_key_b64_encoded: Some(true),
            ordering_key: Some(Bytes::from_static(b"order")),
            deliver_at_time: Some(-6),
            marker_type: Some(21),
            txnid_least_bits: Some(1),
            txnid_most_bits: Some(2),
            highest_sequence_id: Some(10),
            null_value: Some(true),
            uuid: Some("u".to_owned()),
            num_chunks_from_msg: Some(3),
            total_chunk_msg_size: Some(300),
            chunk_id: Some(2),
            entry_hash_max: Some(1),
            ..least()
        };
        let payload = payload_of(&metadata);
        let expected = Peek {
            messages: 4,
            is_batch: true,
            producer_name: "p",
            sequence_id: 7,
            highest_sequence_id: Some(10),
            publish_time: 9,
            event_time: Some(5),
            deliver_at: Some(-6),
            partition_key: Some(b"a2V5"),
            partition_key_b64: true,
            ordering_key: Some(b"order"),
            chunk: Some(Chunk { uuid: b"u", id: 2, count: 3, total_size: 300 }),
            compression: 3,
            uncompressed_size: 1000,
            encrypted: true,
            marker_type: Some(21),
            txn: Some(TxnId { most: 2, least: 1 }),
            schema_version: Some(b"12345678"),
            replicated_from: Some(b"r"),
            null_value: true,
            message: b"bytes",
        };
        assert_eq!(peek(&payload).unwrap(), expected);
        assert!(expected.chunk.unwrap().is_last());
    }

    #[test]
    fn a_nonsensical_count_is_one() {
        for count in [0, -1, i32::MIN] {
            let payload = payload_of(&MessageMetadata { num_messages_in_batch: Some(count), ..least() });
            let found = peek(&payload).unwrap();
            assert_eq!((found.messages, found.is_batch), (1, true), "{count}");
        }
    }

    #[test]
    fn a_batch_of_one_is_a_batch() {
        assert!(peek(&payload_of(&MessageMetadata { num_messages_in_batch: Some(1), ..least() })).unwrap().is_batch);
    }

    #[test]
    fn metadata_without_its_required_fields_is_refused() {
        let mut fields = BytesMut::new();
        for (field, encoded) in [("producer_name", &[0x0a, 1, b'p'][..]), ("sequence_id", &[0x10, 7]), ("publish_time", &[0x18, 9])] {
            let mut payload = BytesMut::new();
            payload.put_u32(fields.len() as u32);
            payload.put_slice(&fields);
            assert_eq!(peek(&payload), Err(PayloadError::MissingField(field)));
            fields.put_slice(encoded);
        }
        assert_eq!(fields, least().encode_to_vec());
    }

    #[test]
    fn a_name_that_is_no_text_is_refused() {
        assert_eq!(peek(&[0, 0, 0, 7, 0x0a, 1, 0xff, 0x10, 7, 0x18, 9]), Err(PayloadError::Malformed("producer name")));
    }
}
