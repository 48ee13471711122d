//! The key that decides which Key_Shared consumer gets an entry.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{PayloadError, Peek, batch::first_fields};
use crate::{field::Unexpected, hash::key_slot};

/// What stands for the key of an entry that has none; all of them go to one consumer.
pub const NO_KEY: &[u8] = b"NONE_KEY";

/// A key as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StickyKey<'a> {
    /// The key's text or bytes.
    pub bytes: &'a [u8],
    /// Whether the key is in base64.
    pub base64: bool,
}

/// The key of an entry: the ordering key, else the partition key, else, in a batch that can be read, that of its first message.
pub fn sticky_key<'a>(peek: &Peek<'a>) -> Result<Option<StickyKey<'a>>, PayloadError> {
    let own = Keys { ordering: peek.ordering_key, partition: peek.partition_key, base64: peek.partition_key_b64 }.choose();
    if own.is_some() || !peek.is_plain_batch() {
        return Ok(own);
    }
    let mut fields = first_fields(peek.message)?;
    let mut keys = Keys::default();
    let malformed = |Unexpected| PayloadError::Malformed("single message metadata");
    while let Some((number, value)) = fields.next().map_err(malformed)? {
        match number {
            2 => keys.partition = Some(value.bytes().map_err(malformed)?),
            6 => keys.base64 = value.bool().map_err(malformed)?,
            7 => keys.ordering = Some(value.bytes().map_err(malformed)?),
            _ => {}
        }
    }
    Ok(keys.choose())
}

#[derive(Default)]
struct Keys<'a> {
    ordering: Option<&'a [u8]>,
    partition: Option<&'a [u8]>,
    base64: bool,
}

impl<'a> Keys<'a> {
    fn choose(self) -> Option<StickyKey<'a>> {
        let ordering = self.ordering.map(|bytes| StickyKey { bytes, base64: false });
        ordering.or(self.partition.map(|bytes| StickyKey { bytes, base64: self.base64 }))
    }
}

impl StickyKey<'_> {
    /// The slot of the key, see [`key_slot`]. What claims to be base64 and is not is taken as it is.
    pub fn slot(&self) -> u16 {
        if !self.base64 {
            return key_slot(self.bytes);
        }
        // Nearly every key fits here, which saves an allocation per message.
        let mut short = [0; 96];
        if let Ok(length) = BASE64.decode_slice(self.bytes, &mut short) {
            return key_slot(short.get(..length).unwrap_or_default());
        }
        BASE64.decode(self.bytes).map_or_else(|_| key_slot(self.bytes), |decoded| key_slot(&decoded))
    }
}

const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::{
        payload::{build, peek, push_single_message},
        proto::{MessageMetadata, SingleMessageMetadata},
    };

    fn key_of(metadata: &MessageMetadata, message: &[u8]) -> Option<StickyKey<'static>> {
        let mut payload = BytesMut::new();
        build(metadata, message, &mut payload);
        let payload = Box::leak(payload.freeze().to_vec().into_boxed_slice());
        sticky_key(&peek(payload).unwrap()).unwrap()
    }

    fn batch() -> (MessageMetadata, BytesMut) {
        let mut batch = BytesMut::new();
        for key in ["first", "second"] {
            push_single_message(&mut batch, &mut SingleMessageMetadata { partition_key: Some(key.to_owned()), ..Default::default() }, b"m");
        }
        (MessageMetadata { num_messages_in_batch: Some(2), ..Default::default() }, batch)
    }

    #[test]
    fn the_ordering_key_is_stronger_than_the_partition_key() {
        let mut metadata =
            MessageMetadata { partition_key: Some("cA==".to_owned()), partition_key_b64_encoded: Some(true), ..Default::default() };
        assert_eq!(key_of(&metadata, b""), Some(StickyKey { bytes: b"cA==", base64: true }));
        metadata.ordering_key = Some(Bytes::from_static(b"o"));
        assert_eq!(key_of(&metadata, b""), Some(StickyKey { bytes: b"o", base64: false }));
    }

    #[test]
    fn a_batch_has_the_key_of_its_first_message() {
        let (metadata, batch) = batch();
        assert_eq!(key_of(&metadata, &batch), Some(StickyKey { bytes: b"first", base64: false }));
    }

    #[test]
    fn a_compressed_batch_is_not_read() {
        let (mut metadata, batch) = batch();
        metadata.compression = Some(1);
        assert_eq!(key_of(&metadata, &batch), None);
    }

    #[test]
    fn a_key_in_base64_has_the_slot_of_its_bytes() {
        let slot = |bytes: &[u8], base64| StickyKey { bytes, base64 }.slot();
        assert_eq!(slot(b"a2V5", true), key_slot(b"key"));
        assert_eq!(slot(b"a2V5", false), key_slot(b"a2V5"));
        assert_eq!(slot(b"not base64!", true), key_slot(b"not base64!"));
        assert_eq!(slot("QUFB".repeat(200).as_bytes(), true), key_slot("A".repeat(600).as_bytes()));
    }
}
