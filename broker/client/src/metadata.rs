//! What stands beside a received payload.

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::decode_varint;
use wire::{CompressionType, proto};

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
    pub(crate) fn read(entry: &Bytes, single: Option<&Bytes>) -> Self {
        let entry = proto::MessageMetadata::decode(entry.clone()).unwrap_or_default();
        let whole =
            Self { producer: entry.producer_name, sequence: entry.sequence_id, publish_time: entry.publish_time, ..Self::default() };
        match single.map(|single| proto::SingleMessageMetadata::decode(single.clone()).unwrap_or_default()) {
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

/// What must be known of an entry before its messages can be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many messages, if the payload is in batch format.
    pub(crate) batch: Option<u32>,
    pub(crate) compression: CompressionType,
}

/// Reads the shape without reading the rest.
pub(crate) fn shape(metadata: &[u8]) -> Result<Shape, &'static str> {
    let mut shape = Shape { batch: None, compression: CompressionType::None };
    numbers(metadata, |field, value| match field {
        8 => shape.compression = i32::try_from(value).ok().and_then(|n| n.try_into().ok()).unwrap_or(CompressionType::None),
        11 => shape.batch = u32::try_from(value).ok(),
        _ => {}
    })?;
    Ok(shape)
}

/// The payload size that a message's own metadata in a batch states.
pub(crate) fn payload_size(single: &[u8]) -> Result<usize, &'static str> {
    let mut size = None;
    numbers(single, |field, value| {
        if field == 3 {
            size = usize::try_from(value).ok();
        }
    })?;
    size.ok_or("a message of a batch does not say how long it is")
}

/// Calls `see` with each field that is a number and skips the others.
fn numbers(mut fields: &[u8], mut see: impl FnMut(u64, u64)) -> Result<(), &'static str> {
    const MALFORMED: &str = "a message's metadata is malformed";
    while !fields.is_empty() {
        let tag = decode_varint(&mut fields).map_err(|_| MALFORMED)?;
        let skipped = match tag & 7 {
            0 => {
                see(tag >> 3, decode_varint(&mut fields).map_err(|_| MALFORMED)?);
                0
            }
            1 => 8,
            2 => usize::try_from(decode_varint(&mut fields).map_err(|_| MALFORMED)?).map_err(|_| MALFORMED)?,
            5 => 4,
            _ => return Err(MALFORMED),
        };
        fields = fields.get(skipped..).ok_or(MALFORMED)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_found_among_everything_else() {
        let metadata = proto::MessageMetadata {
            producer_name: "me".into(),
            publish_time: u64::MAX,
            partition_key: Some("key".into()),
            compression: Some(CompressionType::Zstd.into()),
            num_messages_in_batch: Some(7),
            deliver_at_time: Some(-1),
            ..Default::default()
        };
        let bytes = metadata.encode_to_vec();
        assert_eq!(shape(&bytes), Ok(Shape { batch: Some(7), compression: CompressionType::Zstd }));
        for end in 1..bytes.len() {
            let _ = shape(&bytes[..end]);
        }
        assert!(shape(&bytes[..1]).is_err());
    }
}
