//! The little that the road of a message needs to know of its payload: a shorter way to what [`peek`] and [`sticky_key`] tell.

use super::{PayloadError, StickyKey, parts, peek, sticky_key};
use crate::field::{Fields, Unexpected, Value};

/// What dispatch goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline<'a> {
    /// How many messages the payload holds.
    pub messages: u32,
    /// When its producer says that it was published, in milliseconds since the epoch.
    pub publish_time: u64,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<i64>,
    /// Whether it is a part of a larger message.
    pub is_chunk: bool,
    /// The key that decides which Key_Shared consumer gets it. A batch whose first message cannot be read has none.
    pub key: Option<StickyKey<'a>>,
}

/// Looks into a payload's metadata; fails where [`peek`] does. The checksum is not verified.
pub fn outline(payload: &[u8]) -> Result<Outline<'_>, PayloadError> {
    let mut scan = Scan { outline: Outline { messages: 1, ..Outline::default() }, ..Scan::default() };
    let mut fields = Fields(parts(payload)?.metadata);
    let malformed = |Unexpected| PayloadError::Malformed("message metadata");
    while let Some((number, value)) = fields.next().map_err(malformed)? {
        scan.field(number, value).map_err(malformed)?;
    }
    scan.finish(payload)
}

#[derive(Default)]
struct Scan<'a> {
    outline: Outline<'a>,
    producer_name: Option<&'a [u8]>,
    has_sequence_id: bool,
    has_publish_time: bool,
    is_batch: bool,
    partition_key: Option<&'a [u8]>,
    is_base64: bool,
    ordering_key: Option<&'a [u8]>,
    chunks: i32,
    has_chunk_id: bool,
}

impl<'a> Scan<'a> {
    #[inline]
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Unexpected> {
        match number {
            1 => self.producer_name = Some(value.bytes()?),
            2 => {
                value.varint()?;
                self.has_sequence_id = true;
            }
            3 => {
                self.outline.publish_time = value.varint()?;
                self.has_publish_time = true;
            }
            6 => self.partition_key = Some(value.bytes()?),
            11 => {
                self.is_batch = true;
                self.outline.messages = u32::try_from(value.i32()?).unwrap_or(1).max(1);
            }
            17 => self.is_base64 = value.bool()?,
            18 => self.ordering_key = Some(value.bytes()?),
            19 => self.outline.deliver_at = Some(value.varint()? as i64),
            27 => self.chunks = value.i32()?,
            29 => {
                value.i32()?;
                self.has_chunk_id = true;
            }
            // Of no interest here, but not to be something else either.
            5 | 16 | 26 => drop(value.bytes()?),
            8 | 9 | 12 | 20 | 22 | 23 | 24 | 25 | 28 => drop(value.varint()?),
            _ => {}
        }
        Ok(())
    }

    fn finish(self, payload: &'a [u8]) -> Result<Outline<'a>, PayloadError> {
        let name = self.producer_name.ok_or(PayloadError::MissingField("producer_name"))?;
        str::from_utf8(name).map_err(|_| PayloadError::Malformed("producer name"))?;
        if !self.has_sequence_id {
            return Err(PayloadError::MissingField("sequence_id"));
        }
        if !self.has_publish_time {
            return Err(PayloadError::MissingField("publish_time"));
        }
        let own = match (self.ordering_key, self.partition_key) {
            (Some(bytes), _) => Some(StickyKey { bytes, base64: false }),
            (None, Some(bytes)) => Some(StickyKey { bytes, base64: self.is_base64 }),
            (None, None) => None,
        };
        let key = if own.is_none() && self.is_batch { sticky_key(&peek(payload)?).ok().flatten() } else { own };
        Ok(Outline { is_chunk: self.has_chunk_id && self.chunks > 0, key, ..self.outline })
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};

    use super::*;

    /// What [`peek`] makes of it.
    fn by_peek(payload: &[u8]) -> Result<Outline<'_>, PayloadError> {
        let peek = peek(payload)?;
        Ok(Outline {
            messages: peek.messages,
            publish_time: peek.publish_time,
            deliver_at: peek.deliver_at,
            is_chunk: peek.chunk.is_some(),
            key: sticky_key(&peek).ok().flatten(),
        })
    }

    #[test]
    fn it_says_what_a_peek_says_whatever_the_metadata() {
        let mut rng = fastrand::Rng::with_seed(5);
        let (mut whole, mut broken) = (0, 0);
        for _ in 0..200_000 {
            let mut metadata = BytesMut::new();
            let needed = rng.u8(..20) > 0;
            let mut numbers = if needed { vec![1, 2, 3] } else { Vec::new() };
            numbers.extend((0..rng.usize(..6)).map(|_| rng.u32(1..=31)));
            for number in numbers {
                let bytes = matches!(number, 1 | 5 | 6 | 13 | 16 | 18 | 26) ^ (rng.u8(..100) == 0);
                prost::encoding::encode_varint(u64::from((number << 3) | (u32::from(bytes) * 2)), &mut metadata);
                if bytes {
                    let text = ["a", "a2V5", "", "\u{e9}"][rng.usize(..4)].as_bytes();
                    metadata.put_u8(text.len() as u8);
                    metadata.put_slice(text);
                } else {
                    prost::encoding::encode_varint(rng.u64(..) >> rng.u32(..64), &mut metadata);
                }
            }
            let mut payload = BytesMut::new();
            payload.put_u32(metadata.len() as u32);
            payload.put_slice(&metadata);
            payload.put_slice(&[0; 9][..rng.usize(..9)]);
            let expected = by_peek(&payload);
            assert_eq!(outline(&payload), expected);
            if expected.is_ok() { whole += 1 } else { broken += 1 }
        }
        assert!(whole > 50_000 && broken > 5_000, "{whole} whole, {broken} broken");
    }
}
