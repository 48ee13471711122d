//! What stands beside a received payload.

use bytes::Bytes;
use prost::Message as _;
use wire::{
    CompressionType,
    payload::{PayloadError, parts, peek, verify},
    proto,
};

/// A received message's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The producer's name.
    pub producer: String,
    /// The sequence id.
    pub sequence: u64,
    /// When it was published, by the producer's clock, in milliseconds since the epoch.
    pub publish_time: u64,
    /// When it happened, if the producer said so, in milliseconds since the epoch.
    pub event_time: Option<u64>,
    /// The key, as the wire has it.
    pub key: Option<String>,
    /// Whether the key is base 64 of a binary one.
    pub key_is_base64: bool,
    /// What to order by where that is not the key.
    pub ordering_key: Option<Bytes>,
    /// Named values beside the payload.
    pub properties: Vec<(String, String)>,
}

impl Metadata {
    /// From the entry's metadata and, in a batch, the message's own. What cannot be read is left empty.
    pub(crate) fn read(entry: &Bytes, single: Option<&proto::SingleMessageMetadata>) -> Self {
        let entry = proto::MessageMetadata::decode(entry.clone()).unwrap_or_default();
        let whole =
            Self { producer: entry.producer_name, sequence: entry.sequence_id, publish_time: entry.publish_time, ..Self::default() };
        match single.cloned() {
            None => Self {
                event_time: entry.event_time.filter(|time| *time > 0),
                key: entry.partition_key,
                key_is_base64: entry.partition_key_b64_encoded.unwrap_or(false),
                ordering_key: entry.ordering_key,
                properties: pairs(entry.properties),
                ..whole
            },
            Some(single) => Self {
                sequence: single.sequence_id.unwrap_or(whole.sequence),
                event_time: single.event_time.filter(|time| *time > 0),
                key: single.partition_key,
                key_is_base64: single.partition_key_b64_encoded.unwrap_or(false),
                ordering_key: single.ordering_key,
                properties: pairs(single.properties),
                ..whole
            },
        }
    }
}

fn pairs(properties: Vec<proto::KeyValue>) -> Vec<(String, String)> {
    properties.into_iter().map(|property| (property.key, property.value)).collect()
}

/// An entry as a consumer gets it, its checksum verified.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The encoded message metadata.
    pub(crate) metadata: Bytes,
    /// Where in the metadata the key stands.
    pub(crate) key: Option<(u32, u32)>,
    pub(crate) body: Bytes,
    pub(crate) compression: CompressionType,
    /// How many messages it counts for.
    pub(crate) messages: u32,
    /// Whether the body is in batch format and can be taken apart.
    pub(crate) is_plain_batch: bool,
}

impl Opened {
    pub(crate) fn new(payload: &Bytes) -> Result<Self, PayloadError> {
        verify(payload)?;
        let metadata = payload.slice_ref(parts(payload)?.metadata);
        let peek = peek(payload)?;
        let key = peek.partition_key.and_then(|key| place(&metadata, key));
        Ok(Self {
            metadata,
            key,
            body: payload.slice_ref(peek.message),
            compression: peek.compression.try_into().unwrap_or(CompressionType::None),
            messages: peek.messages,
            is_plain_batch: peek.is_plain_batch(),
        })
    }
}

/// Where a part of the bytes begins and ends.
fn place(all: &[u8], part: &[u8]) -> Option<(u32, u32)> {
    let begin = part.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
    let end = begin.checked_add(part.len()).filter(|end| *end <= all.len())?;
    Some((u32::try_from(begin).ok()?, u32::try_from(end).ok()?))
}
