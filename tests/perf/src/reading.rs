//! One reading of a device as it travels: who, which, when, and a checksum over all of it, so that nothing passes for something else.
//!
//! ```text
//! device u32 | number u32 | time u64, microseconds of the run's clock | CRC-32C u32 of everything else | filler
//! ```

use std::time::Instant;

use bytes::{BufMut, BytesMut};
use client::{Key, Message};

use crate::{devices, scenario::SMALLEST_MESSAGE};

/// A reading without its filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whose it is.
    pub device: u32,
    /// Which of the device's it is, from 0 on.
    pub number: u32,
    /// When it was due, on the run's clock.
    pub time: u64,
}

/// Microseconds since the run began; one clock for everything in the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Now.
    #[must_use]
    pub fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

const CHECKSUM: usize = 16;
const FILLER: usize = CHECKSUM + 4;
/// Where fillers begin in the noise differs from reading to reading.
const SHIFTS: usize = 1024;
const ARENA: usize = 256 * 1024;

/// Spells readings out as messages, in one piece of memory for many.
#[derive(Debug)]
pub struct Speller {
    bytes: usize,
    noise: Vec<u8>,
    arena: BytesMut,
}

impl Speller {
    /// For messages of this size.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let mut noise = vec![0; bytes.max(SMALLEST_MESSAGE) - FILLER + SHIFTS];
        fastrand::Rng::with_seed(1).fill(&mut noise);
        Self { bytes, noise, arena: BytesMut::new() }
    }

    /// The message of a reading, with the device's id as its key.
    pub fn message(&mut self, reading: Reading) -> Message {
        if self.arena.capacity() < self.bytes + 64 {
            self.arena = BytesMut::with_capacity(ARENA.max(self.bytes + 64));
        }
        let key = Key::binary_in(&mut self.arena, &devices::id(reading.device));
        let out = &mut self.arena;
        out.put_u32(reading.device);
        out.put_u32(reading.number);
        out.put_u64(reading.time);
        let shift = reading.number as usize % SHIFTS;
        let filler = &self.noise[shift..shift + self.bytes - FILLER];
        out.put_u32(crc32c::crc32c_append(crc32c::crc32c(&out[..CHECKSUM]), filler));
        out.put_slice(filler);
        Message { payload: out.split().freeze(), key: Some(key), ..Message::default() }
    }
}

impl Reading {
    /// Reads a payload; nothing if it is not what was sent.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (head, rest) = payload.split_first_chunk::<CHECKSUM>()?;
        let (stated, filler) = rest.split_first_chunk::<4>()?;
        let right = crc32c::crc32c_append(crc32c::crc32c(head), filler);
        if u32::from_be_bytes(*stated) != right {
            return None;
        }
        let (device, rest) = head.split_first_chunk::<4>()?;
        let (number, time) = rest.split_first_chunk::<4>()?;
        let time = u64::from_be_bytes(time.try_into().ok()?);
        Some(Self { device: u32::from_be_bytes(*device), number: u32::from_be_bytes(*number), time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_comes_back_as_it_was_said() {
        for bytes in [24, 64, 8192] {
            let mut speller = Speller::new(bytes);
            for number in [0, 1, 5000] {
                let reading = Reading { device: 77, number, time: 123_456 };
                let message = speller.message(reading);
                assert_eq!((message.payload.len(), Reading::read(&message.payload)), (bytes, Some(reading)));
                assert_eq!(message.key, Some(Key::binary(&devices::id(77))));
            }
        }
    }

    #[test]
    fn any_flipped_bit_makes_it_unreadable() {
        let message = Speller::new(40).message(Reading { device: 1, number: 2, time: 3 });
        for bit in 0..40 * 8 {
            let mut payload = message.payload.to_vec();
            payload[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Reading::read(&payload), None, "bit {bit}");
        }
        assert_eq!(Reading::read(&message.payload[..39]), None);
        assert_eq!(Reading::read(b""), None);
    }
}
