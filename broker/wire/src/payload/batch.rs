//! Batches: single messages one after the other, each with its size and metadata in front.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::{PayloadError, take_sized};
use crate::{field::Fields, proto::SingleMessageMetadata};

const METADATA: &str = "single message metadata";

/// The messages of a batch that is neither compressed nor encrypted (any more). Each shares the batch's memory.
///
/// After an error there is nothing more: where the next message would begin is not known.
#[derive(Clone, Debug)]
pub struct SingleMessages {
    rest: Bytes,
    left: u32,
}

impl SingleMessages {
    /// The messages of `batch`, which holds `count` of them.
    pub fn new(batch: Bytes, count: u32) -> Self {
        Self { rest: batch, left: count }
    }

    fn take(&mut self) -> Result<(SingleMessageMetadata, Bytes), PayloadError> {
        let (encoded, rest) = take_sized(&self.rest, METADATA)?;
        let after_metadata = self.rest.len() - rest.len();
        let encoded = self.rest.slice_ref(encoded);
        let metadata = SingleMessageMetadata::decode(encoded).map_err(|_| PayloadError::Malformed(METADATA))?;
        let available = rest.len();
        let size = usize::try_from(metadata.payload_size).map_err(|_| PayloadError::Malformed("single message size"))?;
        if size > available {
            return Err(PayloadError::TooLong { part: "single message", size, available });
        }
        self.rest.advance(after_metadata);
        Ok((metadata, self.rest.split_to(size)))
    }
}

impl Iterator for SingleMessages {
    type Item = Result<(SingleMessageMetadata, Bytes), PayloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let taken = self.take();
        if taken.is_err() {
            self.left = 0;
        }
        Some(taken)
    }
}

/// Appends a message to a batch; its size in the metadata is set here.
pub fn push_single_message(batch: &mut BytesMut, metadata: &mut SingleMessageMetadata, message: &[u8]) {
    metadata.payload_size = i32::try_from(message.len()).expect("a message is smaller than 2 GiB");
    let length = metadata.encoded_len();
    batch.reserve(size_of::<u32>() + length + message.len());
    batch.put_u32(u32::try_from(length).expect("metadata is smaller than 4 GiB"));
    metadata.encode_raw(batch);
    batch.put_slice(message);
}

/// The fields of a batch's first message metadata, without building it.
pub(super) fn first_fields(batch: &[u8]) -> Result<Fields<'_>, PayloadError> {
    take_sized(batch, METADATA).map(|(encoded, _)| Fields(encoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(messages: &[&str]) -> Bytes {
        let mut batch = BytesMut::new();
        for message in messages {
            let mut metadata = SingleMessageMetadata { partition_key: Some(format!("key of {message}")), ..Default::default() };
            push_single_message(&mut batch, &mut metadata, message.as_bytes());
        }
        batch.freeze()
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let batch = batch_of(&["one", "", "three"]);
        let messages: Vec<_> = SingleMessages::new(batch, 3).collect::<Result<_, _>>().unwrap();
        let texts: Vec<_> = messages.iter().map(|(metadata, bytes)| (metadata.partition_key(), &bytes[..])).collect();
        assert_eq!(texts, [("key of one", &b"one"[..]), ("key of ", b""), ("key of three", b"three")]);
    }

    #[test]
    fn a_batch_shorter_than_its_count_ends_with_an_error() {
        let mut messages = SingleMessages::new(batch_of(&["one"]), 3);
        assert!(messages.next().unwrap().is_ok());
        assert_eq!(messages.next(), Some(Err(PayloadError::Truncated(METADATA))));
        assert_eq!(messages.next(), None);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        let sized = |size: i32| {
            let mut batch = BytesMut::new();
            let metadata = SingleMessageMetadata { payload_size: size, ..Default::default() };
            batch.put_u32(metadata.encoded_len() as u32);
            metadata.encode_raw(&mut batch);
            batch.put_slice(b"ab");
            SingleMessages::new(batch.freeze(), 1).next().unwrap()
        };
        assert!(sized(2).is_ok());
        assert_eq!(sized(3), Err(PayloadError::TooLong { part: "single message", size: 3, available: 2 }));
        assert_eq!(sized(-1), Err(PayloadError::Malformed("single message size")));
    }
}
