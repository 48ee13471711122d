//! What follows a SEND or MESSAGE command: an optional broker entry metadata, an optional checksum, the message's metadata, its bytes.
//!
//! ```text
//! [0x0e02, size u32, BrokerEntryMetadata]  [0x0e01, CRC-32C u32]  size u32, MessageMetadata, bytes
//!                                                                 |------- checksum covers -------|
//! ```
//! A producer's payload is stored and delivered as it came; nothing here changes it.

mod batch;
mod broker_entry;
mod compression;
mod key;
mod outline;
mod peek;
mod raw;

pub use batch::{SingleMessages, push_single_message};
pub use broker_entry::{broker_entry_metadata, encode_broker_entry_metadata, without_broker_entry_metadata};
pub use compression::{compress, decompress};
pub use key::{NO_KEY, StickyKey, sticky_key};
pub use outline::{Outline, outline};
pub use peek::{Chunk, Peek, peek};
pub use raw::RawMessage;

use bytes::{BufMut, BytesMut};
use prost::Message as _;

use crate::proto::MessageMetadata;

/// Marks a checksum.
pub const MAGIC_CHECKSUM: u16 = 0x0e01;

/// Marks a broker entry metadata.
pub const MAGIC_BROKER_ENTRY_METADATA: u16 = 0x0e02;

/// Why the bytes are no payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload ends within the named part.
    #[error("payload ends within its {0}")]
    Truncated(&'static str),
    /// A part is said to be longer than what is left.
    #[error("{part} of {size} bytes in a payload with {available} bytes left")]
    TooLong {
        /// The part.
        part: &'static str,
        /// Its size.
        size: usize,
        /// What is left.
        available: usize,
    },
    /// The bytes are not those that were sent.
    #[error("checksum 0x{stated:08x} was sent, 0x{computed:08x} is right")]
    Checksum {
        /// What the payload states.
        stated: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The named part is not the message it should be.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A field is missing that the message's metadata cannot be without.
    #[error("message metadata without {0}")]
    MissingField(&'static str),
}

/// The parts of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// An encoded broker entry metadata.
    pub broker_entry: Option<&'a [u8]>,
    /// The checksum as sent.
    pub checksum: Option<u32>,
    /// What the checksum covers: the metadata's size and all after it.
    pub covered: &'a [u8],
    /// The encoded message metadata.
    pub metadata: &'a [u8],
    /// The message's bytes, perhaps compressed, encrypted or a batch.
    pub message: &'a [u8],
}

/// Finds the parts. The checksum is not verified.
pub fn parts(payload: &[u8]) -> Result<Parts<'_>, PayloadError> {
    let (broker_entry, rest) = broker_entry::split(payload)?;
    let (checksum, covered) = match strip_magic(rest, MAGIC_CHECKSUM) {
        Some(rest) => take_u32(rest, "checksum").map(|(checksum, rest)| (Some(checksum), rest))?,
        None => (None, rest),
    };
    let (metadata, message) = take_sized(covered, "message metadata")?;
    Ok(Parts { broker_entry, checksum, covered, metadata, message })
}

/// The message's metadata, whole. To look at a field or two, see [`peek()`].
pub fn metadata(payload: &[u8]) -> Result<MessageMetadata, PayloadError> {
    MessageMetadata::decode(parts(payload)?.metadata).map_err(|_| PayloadError::Malformed("message metadata"))
}

/// Whether the payload's bytes match its checksum; without one there is nothing to hold against it.
pub fn verify(payload: &[u8]) -> Result<(), PayloadError> {
    let Parts { checksum, covered, .. } = parts(payload)?;
    let Some(stated) = checksum else {
        return Ok(());
    };
    let computed = crc32c::crc32c(covered);
    if stated == computed { Ok(()) } else { Err(PayloadError::Checksum { stated, computed }) }
}

/// Appends a payload with its checksum.
pub fn build(metadata: &MessageMetadata, message: &[u8], out: &mut BytesMut) {
    let length = metadata.encoded_len();
    out.reserve(built_length(metadata, message));
    out.put_u16(MAGIC_CHECKSUM);
    let checksum_at = out.len();
    out.put_u32(0);
    let covered_at = out.len();
    out.put_u32(u32::try_from(length).expect("metadata is smaller than 4 GiB"));
    metadata.encode_raw(out);
    out.put_slice(message);
    let checksum = crc32c::crc32c(out.get(covered_at..).unwrap_or_default());
    if let Some(place) = out.get_mut(checksum_at..covered_at) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// How many bytes [`build`] appends.
pub fn built_length(metadata: &MessageMetadata, message: &[u8]) -> usize {
    size_of::<u16>() + 2 * size_of::<u32>() + metadata.encoded_len() + message.len()
}

fn strip_magic(bytes: &[u8], magic: u16) -> Option<&[u8]> {
    bytes.strip_prefix(&magic.to_be_bytes())
}

fn take_u32<'a>(bytes: &'a [u8], part: &'static str) -> Result<(u32, &'a [u8]), PayloadError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(PayloadError::Truncated(part))?;
    Ok((u32::from_be_bytes(*number), rest))
}

fn take_sized<'a>(bytes: &'a [u8], part: &'static str) -> Result<(&'a [u8], &'a [u8]), PayloadError> {
    let (size, rest) = take_u32(bytes, part)?;
    let size = size as usize;
    rest.split_at_checked(size).ok_or(PayloadError::TooLong { part, size, available: rest.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> MessageMetadata {
        MessageMetadata { producer_name: "p".to_owned(), sequence_id: 7, publish_time: 1_700_000_000_000, ..Default::default() }
    }

    fn built() -> BytesMut {
        let mut out = BytesMut::new();
        build(&metadata(), b"hello", &mut out);
        out
    }

    #[test]
    fn what_is_built_has_the_announced_length_and_its_parts() {
        let payload = built();
        assert_eq!(payload.len(), built_length(&metadata(), b"hello"));
        let found = parts(&payload).unwrap();
        assert_eq!((found.metadata, found.message), (&metadata().encode_to_vec()[..], &b"hello"[..]));
        assert_eq!(verify(&payload), Ok(()));
    }

    #[test]
    fn the_checksum_is_castagnoli() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(parts(&built()).unwrap().checksum, Some(crc32c::crc32c(parts(&built()).unwrap().covered)));
    }

    #[test]
    fn any_flipped_bit_after_the_checksum_is_noticed() {
        for at in 10..built().len() {
            let mut payload = built();
            payload[at] ^= 1;
            assert!(matches!(verify(&payload), Err(PayloadError::Checksum { .. })), "byte {at}");
        }
    }

    #[test]
    fn a_payload_without_a_checksum_is_accepted() {
        let payload = built().split_off(6);
        assert_eq!(verify(&payload), Ok(()));
        assert_eq!(parts(&payload).unwrap().checksum, None);
    }

    #[test]
    fn every_truncation_of_the_head_is_refused() {
        let payload = built();
        let head = payload.len() - b"hello".len();
        for end in 0..head {
            assert!(parts(&payload[..end]).is_err(), "cut at {end}");
        }
        assert!(parts(&payload[..head]).is_ok());
    }
}
