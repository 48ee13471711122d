//! A small map from the ids clients choose, which are dense, to what they stand for.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Ids are chosen by the peer, but a peer that makes them collide only slows its own connection, which is limited in what it may open.
pub(crate) type IdMap<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// Spreads an integer by one multiplication.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The odd constant is 2^64 divided by the golden ratio; the table takes its index from the top bits and from the low ones.
        let spread = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = spread ^ (spread >> 32);
    }
}
