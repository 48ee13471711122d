//! Frames of commands that are nearly always short: then each length takes one byte, so that everything is written once, in place, and the
//! lengths are filled in afterwards.

use bytes::BytesMut;

use crate::{
    command::{TYPE_TAG, body_tag, envelope, frame_size},
    field::{Body, Sink},
};

/// Two sizes, the type, the body's tag and its length.
const HEAD: usize = 2 * size_of::<u32>() + 4;
/// The longest body whose length takes one byte.
const MOST: usize = 127;

/// A frame that is being written. What does not fit is counted and lost.
struct Short {
    bytes: [u8; HEAD + MOST],
    end: usize,
}

/// Writes sizes, type and body, for a command whose number takes less than four bits.
#[inline]
pub(crate) fn short_envelope(out: &mut BytesMut, number: u64, body: &impl Body, payload: usize) {
    let mut short = Short { bytes: [0; HEAD + MOST], end: HEAD };
    body.fields(&mut short);
    let command = short.end - 2 * size_of::<u32>();
    let Some(frame) = short.bytes.get_mut(..short.end) else { return envelope(out, number, body, payload) };
    let body_length = command - 4;
    let sizes = [frame_size(size_of::<u32>() + command + payload), frame_size(command)];
    if let Some((head, _)) = frame.split_first_chunk_mut::<HEAD>() {
        let [[a, b, c, d], [e, f, g, h]] = sizes.map(u32::to_be_bytes);
        *head = [a, b, c, d, e, f, g, h, TYPE_TAG as u8, number as u8, body_tag(number) as u8, body_length as u8];
    }
    out.extend_from_slice(frame);
}

impl Short {
    #[inline]
    fn put(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.end) {
            *place = byte;
        }
        self.end += 1;
    }
}

impl Sink for Short {
    #[inline]
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(value as u8 | 0x80);
            value >>= 7;
        }
        self.put(value as u8);
    }

    fn raw_bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.put(*byte));
    }

    /// Whoever is measured beforehand is not written here.
    fn nested(&mut self, length: usize, _: impl FnOnce(&mut BytesMut)) {
        self.end += length.max(MOST + 1);
    }

    #[inline]
    fn message(&mut self, field: u32, message: &impl Body) {
        self.raw_varint(u64::from(field) << 3 | 2);
        let length_at = self.end;
        self.put(0);
        message.fields(self);
        let length = self.end - length_at - 1;
        if let Some(place) = self.bytes.get_mut(length_at) {
            *place = length as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delivery;

    #[test]
    fn a_short_frame_and_one_that_is_too_long_are_spelt_as_others_are() {
        for words in 0..40 {
            let ack_set = vec![u64::MAX >> words; words];
            for entry in [0, 127, 128, 300, u64::MAX] {
                let delivery = Delivery {
                    consumer_id: entry,
                    ledger: entry / 2,
                    entry,
                    partition: words as i32 - 1,
                    redelivery_count: words as u32,
                    ack_set: &ack_set,
                    consumer_epoch: (words % 2 == 0).then_some(entry),
                };
                let (mut short, mut usual) = (BytesMut::new(), BytesMut::new());
                short_envelope(&mut short, 9, &delivery, 1000);
                envelope(&mut usual, 9, &delivery, 1000);
                assert_eq!(short, usual, "{delivery:?}");
            }
        }
    }
}
