//! A payload with its message id in front, as Pulsar keeps it in a compacted ledger:
//!
//! ```text
//! size u32, MessageIdData, size u32, payload
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::{PayloadError, take_sized};
use crate::proto::MessageIdData;

const ID: &str = "message id";

/// A payload and where it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// The ledger.
    pub ledger: i64,
    /// The entry.
    pub entry: i64,
    /// The partition, -1 for none.
    pub partition: i32,
    /// What was published.
    pub payload: Bytes,
}

impl RawMessage {
    /// Appends it.
    pub fn encode(&self, out: &mut BytesMut) {
        let id = MessageIdData {
            ledger_id: self.ledger.cast_unsigned(),
            entry_id: self.entry.cast_unsigned(),
            partition: Some(self.partition),
            batch_index: Some(-1),
            ..MessageIdData::default()
        };
        let length = id.encoded_len();
        out.reserve(2 * size_of::<u32>() + length + self.payload.len());
        out.put_u32(u32::try_from(length).expect("an id is small"));
        id.encode_raw(out);
        out.put_u32(u32::try_from(self.payload.len()).expect("an entry is smaller than 4 GiB"));
        out.put_slice(&self.payload);
    }

    /// Takes it apart; the payload shares the memory.
    ///
    /// # Errors
    /// [`PayloadError`] for bytes that are none.
    pub fn decode(bytes: &Bytes) -> Result<RawMessage, PayloadError> {
        let (id, rest) = take_sized(bytes, ID)?;
        let id = MessageIdData::decode(id).map_err(|_| PayloadError::Malformed(ID))?;
        let (payload, _) = take_sized(rest, "payload")?;
        Ok(RawMessage {
            ledger: id.ledger_id.cast_signed(),
            entry: id.entry_id.cast_signed(),
            partition: id.partition(),
            payload: bytes.slice_ref(payload),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_put_down() {
        let message = RawMessage { ledger: 7, entry: 12, partition: -1, payload: Bytes::from_static(b"payload") };
        let mut out = BytesMut::new();
        message.encode(&mut out);
        let out = out.freeze();
        assert_eq!(RawMessage::decode(&out), Ok(message));
        for end in 0..out.len() {
            assert!(RawMessage::decode(&out.slice(..end)).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn the_bytes_are_pulsars() {
        let mut out = BytesMut::new();
        RawMessage { ledger: 3, entry: 5, partition: 2, payload: Bytes::from_static(b"x") }.encode(&mut out);
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let id = [&[0x08, 3, 0x10, 5, 0x18, 2, 0x20][..], &minus_one].concat();
        assert_eq!(out, [&[0, 0, 0, 17][..], &id, &[0, 0, 0, 1, b'x']].concat());
    }
}
