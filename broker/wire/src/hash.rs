//! Hashes that clients and brokers must agree on.

/// How many slots keys are spread over.
pub const KEY_SLOTS: u32 = 1 << 16;

/// The slot of a Key_Shared key: MurmurHash3 without its sign bit, modulo [`KEY_SLOTS`].
pub fn key_slot(key: &[u8]) -> u16 {
    ((murmur3(key) & 0x7fff_ffff) % KEY_SLOTS) as u16
}

/// MurmurHash3, x86, 32 bits, seed zero.
pub fn murmur3(bytes: &[u8]) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = blocks
        .iter()
        .fold(0u32, |hash, block| (hash ^ scramble(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64));
    let last = tail.iter().rev().fold(0u32, |last, &byte| last << 8 | u32::from(byte));
    // Zero scrambles to zero, so an empty tail changes nothing.
    hash ^= scramble(last);
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn scramble(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

/// What a client compares to see whether the topics of a namespace changed: CRC-32C of the sorted full names joined with commas, as eight hex
/// digits, low byte first.
pub fn topics_hash<'a>(sorted: impl IntoIterator<Item = &'a str>) -> String {
    let mut crc = 0;
    for (i, name) in sorted.into_iter().enumerate() {
        if i > 0 {
            crc = crc32c::crc32c_append(crc, b",");
        }
        crc = crc32c::crc32c_append(crc, name.as_bytes());
    }
    format!("{:08x}", crc.swap_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur3_gives_its_published_values() {
        let known = [("", 0), ("a", 0x3c25_69b2), ("abc", 0xb3dd_93fa), ("Hello, world!", 0xc036_3e43)];
        for (text, hash) in known {
            assert_eq!(murmur3(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn murmur3_agrees_with_another_implementation() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for end in 0..bytes.len() {
            let other = murmur3::murmur3_32(&mut &bytes[..end], 0).unwrap();
            assert_eq!(murmur3(&bytes[..end]), other, "{end} bytes");
        }
    }

    #[test]
    fn a_slot_has_sixteen_bits_of_the_hash() {
        assert_eq!(key_slot(b"Hello, world!"), 0x3e43);
    }

    #[test]
    fn the_hash_of_topics_is_that_of_the_joined_names() {
        let joined = crc32c::crc32c(b"a,b");
        assert_eq!(
            topics_hash(["a", "b"]),
            format!("{:02x}{:02x}{:02x}{:02x}", joined as u8, (joined >> 8) as u8, (joined >> 16) as u8, joined >> 24)
        );
        assert_eq!(topics_hash([]), "00000000");
    }
}
