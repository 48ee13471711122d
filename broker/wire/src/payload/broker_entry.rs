//! What a broker says about an entry, in front of the producer's bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::{MAGIC_BROKER_ENTRY_METADATA, PayloadError, strip_magic, take_sized};
use crate::proto::BrokerEntryMetadata;

const PART: &str = "broker entry metadata";

/// Appends the metadata with its magic number and size; the producer's payload follows.
pub fn encode_broker_entry_metadata(out: &mut BytesMut, metadata: &BrokerEntryMetadata) {
    out.put_u16(MAGIC_BROKER_ENTRY_METADATA);
    out.put_u32(u32::try_from(metadata.encoded_len()).expect("two numbers are small"));
    metadata.encode_raw(out);
}

/// The metadata in front of a payload, if there is one.
pub fn broker_entry_metadata(payload: &[u8]) -> Result<Option<BrokerEntryMetadata>, PayloadError> {
    let (encoded, _) = split(payload)?;
    encoded.map(BrokerEntryMetadata::decode).transpose().map_err(|_| PayloadError::Malformed(PART))
}

/// The producer's bytes alone, for clients that do not know the metadata.
pub fn without_broker_entry_metadata(mut payload: Bytes) -> Result<Bytes, PayloadError> {
    let (_, rest) = split(&payload)?;
    payload.advance(payload.len() - rest.len());
    Ok(payload)
}

/// The encoded metadata and what follows it.
pub(super) fn split(payload: &[u8]) -> Result<(Option<&[u8]>, &[u8]), PayloadError> {
    match strip_magic(payload, MAGIC_BROKER_ENTRY_METADATA) {
        Some(rest) => take_sized(rest, PART).map(|(encoded, rest)| (Some(encoded), rest)),
        None => Ok((None, payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_comes_off_as_it_was_put_on() {
        let metadata = BrokerEntryMetadata { broker_timestamp: Some(5), index: Some(u64::MAX) };
        let mut out = BytesMut::new();
        encode_broker_entry_metadata(&mut out, &metadata);
        out.put_slice(b"rest");
        assert_eq!(broker_entry_metadata(&out), Ok(Some(metadata)));
        assert_eq!(without_broker_entry_metadata(out.freeze()).unwrap(), "rest");
    }

    #[test]
    fn a_payload_without_it_stays_as_it_is() {
        assert_eq!(broker_entry_metadata(b"rest"), Ok(None));
        assert_eq!(without_broker_entry_metadata(Bytes::from_static(b"rest")).unwrap(), "rest");
    }

    #[test]
    fn a_torn_one_is_refused() {
        assert_eq!(broker_entry_metadata(&[0x0e, 2, 0, 0]), Err(PayloadError::Truncated(PART)));
        assert_eq!(broker_entry_metadata(&[0x0e, 2, 0, 0, 0, 9, 8]), Err(PayloadError::TooLong { part: PART, size: 9, available: 1 }));
        assert_eq!(broker_entry_metadata(&[0x0e, 2, 0, 0, 0, 1, 8]), Err(PayloadError::Malformed(PART)));
    }
}
