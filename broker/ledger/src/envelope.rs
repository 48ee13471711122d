//! The envelope around compressed metadata values, as Pulsar writes it above 16 KiB
//! (`managedLedgerInfoCompressionType`, `managedCursorInfoCompressionType`): magic, header length, header, body.
//!
//! We read `none` and `lz4` and write values plain, which every Pulsar reads.

use std::borrow::Cow;

use prost::Message;

use crate::proto::EnvelopeHeader;

/// What a compressed value begins with. As protobuf it would be field 8 of wire type 7, which does not exist:
/// no plain value begins so.
const MAGIC: [u8; 2] = [0x47, 0x78];

/// An LZ4 block cannot grow by more than this when it is opened; a header that says so lies.
const LZ4_MAX_GROWTH: usize = 255;

/// The protobuf bytes inside `value`, whether or not it is in an envelope.
pub(crate) fn open(value: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(rest) = value.strip_prefix(&MAGIC) else { return Ok(Cow::Borrowed(value)) };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Err("envelope ends in its header length".into()) };
    let length = u32::from_be_bytes(*length) as usize;
    let Some((header, body)) = rest.split_at_checked(length) else {
        return Err(format!("envelope header of {length} bytes, {} left", rest.len()));
    };
    let header = EnvelopeHeader::decode(header).map_err(|error| format!("envelope header: {error}"))?;
    let size = usize::try_from(header.uncompressed_size).map_err(|_| format!("envelope of {} bytes", header.uncompressed_size))?;
    match header.compression_type {
        0 => Ok(Cow::Borrowed(body)),
        1 if size > body.len().saturating_mul(LZ4_MAX_GROWTH) => Err(format!("{} lz4 bytes cannot hold {size}", body.len())),
        1 => match lz4_flex::block::decompress(body, size) {
            Ok(plain) if plain.len() == size => Ok(Cow::Owned(plain)),
            Ok(plain) => Err(format!("envelope promises {size} bytes and holds {}", plain.len())),
            Err(error) => Err(format!("envelope: {error}")),
        },
        2 => Err("compressed with zlib; only lz4 can be read".into()),
        3 => Err("compressed with zstd; only lz4 can be read".into()),
        4 => Err("compressed with snappy; only lz4 can be read".into()),
        other => Err(format!("unknown compression {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(compression_type: i32, uncompressed_size: i32, body: &[u8]) -> Vec<u8> {
        let header = EnvelopeHeader { compression_type, uncompressed_size }.encode_to_vec();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u32).to_be_bytes());
        bytes.extend(header);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_value_without_magic_is_itself() {
        assert_eq!(open(b"\x0a\x02xy").unwrap().as_ref(), b"\x0a\x02xy");
        assert_eq!(open(b"").unwrap().as_ref(), b"");
    }

    #[test]
    fn lz4_and_none_are_opened() {
        let plain = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".repeat(20);
        let lz4 = lz4_flex::block::compress(&plain);
        assert!(lz4.len() < plain.len());
        assert_eq!(open(&envelope(1, plain.len() as i32, &lz4)).unwrap().as_ref(), plain);
        assert_eq!(open(&envelope(0, 3, b"xyz")).unwrap().as_ref(), b"xyz");
    }

    #[test]
    fn other_codecs_are_named() {
        assert!(open(&envelope(3, 3, b"xyz")).unwrap_err().contains("zstd"));
        assert!(open(&envelope(9, 3, b"xyz")).unwrap_err().contains("unknown compression 9"));
    }

    #[test]
    fn a_size_no_lz4_block_can_reach_is_refused_before_anything_is_allocated() {
        assert!(open(&envelope(1, i32::MAX, b"xyz")).unwrap_err().contains("cannot hold"));
        assert!(open(&envelope(1, -1, b"xyz")).is_err());
    }

    #[test]
    fn a_cut_envelope_is_refused() {
        let whole = envelope(0, 3, b"xyz");
        for end in 2..whole.len() - 3 {
            assert!(open(&whole[..end]).is_err(), "{end} bytes");
        }
    }
}
