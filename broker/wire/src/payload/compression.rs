//! A message's bytes, compressed and as they were.

use std::io::{Read, Write};

use super::PayloadError;
use crate::CompressionType;

/// What the bytes were before they were compressed. `kind` is the number of a [`CompressionType`]; what claims to be, or is, larger
/// than `limit` is refused before it takes that much memory.
///
/// # Errors
/// [`PayloadError::Malformed`] for bytes that cannot be, [`PayloadError::TooLong`] over the limit.
pub fn decompress(kind: i32, bytes: &[u8], size: u32, limit: usize) -> Result<Vec<u8>, PayloadError> {
    let kind = CompressionType::try_from(kind).map_err(|_| PayloadError::Malformed("compression type"))?;
    let size = size as usize;
    if size > limit {
        return Err(PayloadError::TooLong { part: PART, size, available: limit });
    }
    match kind {
        CompressionType::None => Ok(bytes.to_vec()),
        CompressionType::Lz4 => lz4_flex::block::decompress(bytes, size).map_err(|_| MALFORMED),
        CompressionType::Snappy => {
            let size = snap::raw::decompress_len(bytes).map_err(|_| MALFORMED)?;
            if size > limit {
                return Err(PayloadError::TooLong { part: PART, size, available: limit });
            }
            snap::raw::Decoder::new().decompress_vec(bytes).map_err(|_| MALFORMED)
        }
        CompressionType::Zlib => drain(flate2::read::ZlibDecoder::new(bytes), limit),
        CompressionType::Zstd => drain(ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|_| MALFORMED)?, limit),
    }
}

/// The bytes compressed; `kind` is the number of a [`CompressionType`].
///
/// # Errors
/// [`PayloadError::Malformed`] for a kind that there is not.
pub fn compress(kind: i32, bytes: &[u8]) -> Result<Vec<u8>, PayloadError> {
    let kind = CompressionType::try_from(kind).map_err(|_| PayloadError::Malformed("compression type"))?;
    match kind {
        CompressionType::None => Ok(bytes.to_vec()),
        CompressionType::Lz4 => Ok(lz4_flex::block::compress(bytes)),
        CompressionType::Snappy => snap::raw::Encoder::new().compress_vec(bytes).map_err(|_| MALFORMED),
        CompressionType::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|_| MALFORMED)
        }
        CompressionType::Zstd => Ok(ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)),
    }
}

const PART: &str = "compressed message";
const MALFORMED: PayloadError = PayloadError::Malformed(PART);

fn drain(from: impl Read, limit: usize) -> Result<Vec<u8>, PayloadError> {
    let mut bytes = Vec::new();
    from.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|_| MALFORMED)?;
    if bytes.len() > limit {
        return Err(PayloadError::TooLong { part: PART, size: bytes.len(), available: limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [i32; 5] = [0, 1, 2, 3, 4];

    #[test]
    fn every_kind_gives_back_what_it_took() {
        for text in [&b""[..], b"a", &b"over and over again, ".repeat(500)] {
            for kind in ALL {
                let packed = compress(kind, text).unwrap();
                assert_eq!(decompress(kind, &packed, text.len() as u32, 1 << 20).as_deref(), Ok(text), "{kind}");
            }
        }
        assert!(compress(9, b"").is_err() && decompress(9, b"", 0, 9).is_err());
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        let text = vec![7; 100_000];
        for kind in [1, 2, 3, 4] {
            let packed = compress(kind, &text).unwrap();
            assert!(decompress(kind, &packed, 100_000, 99_999).is_err(), "{kind}");
            assert!(decompress(kind, &packed, 10, 99_999).is_err(), "{kind} lies about its size");
        }
    }

    /// Made by other programs: Python's zlib, and the zstd and snappy commands' own libraries write frames like these.
    #[test]
    fn what_others_compressed_is_read() {
        let zlib = [0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x06, 0x2c, 0x02, 0x15];
        assert_eq!(decompress(2, &zlib, 5, 100).as_deref(), Ok(&b"hello"[..]));
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x05, 0x29, 0x00, 0x00, b'h', b'e', b'l', b'l', b'o'];
        assert_eq!(decompress(3, &zstd, 5, 100).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(decompress(4, &[5, 16, b'h', b'e', b'l', b'l', b'o'], 5, 100).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(decompress(1, &[0x50, b'h', b'e', b'l', b'l', b'o'], 5, 100).as_deref(), Ok(&b"hello"[..]));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(kind in 0i32..6, bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 0u32..10_000) {
            let _ = decompress(kind, &bytes, size, 5_000);
        }

        #[test]
        fn damage_does_no_harm(kind in 1i32..5, at in 0usize..300, with in any::<u8>(), text in proptest::collection::vec(0u8..4, 0..600)) {
            let mut packed = compress(kind, &text).unwrap();
            if let Some(byte) = packed.get_mut(at) {
                *byte = with;
            }
            let _ = decompress(kind, &packed, text.len() as u32, 5_000);
        }
    }
}
