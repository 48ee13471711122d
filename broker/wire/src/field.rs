//! Protobuf fields, read and written one by one: what the hand-made codecs of hot commands are built from.

use bytes::{BufMut, BytesMut};
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

/// A value on the wire, before its field's type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The bytes are not the fields that were expected; the generated decoder may know better, or tell what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected;

impl<'a> Value<'a> {
    pub(crate) fn varint(self) -> Result<u64, Unexpected> {
        if let Value::Varint(value) = self { Ok(value) } else { Err(Unexpected) }
    }

    /// As protobuf reads 32-bit numbers from a longer varint: by the low half.
    pub(crate) fn u32(self) -> Result<u32, Unexpected> {
        self.varint().map(|value| value as u32)
    }

    pub(crate) fn i32(self) -> Result<i32, Unexpected> {
        self.varint().map(|value| value as i32)
    }

    pub(crate) fn bool(self) -> Result<bool, Unexpected> {
        self.varint().map(|value| value != 0)
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Unexpected> {
        if let Value::Bytes(value) = self { Ok(value) } else { Err(Unexpected) }
    }

    /// A repeated number comes as one value per field or packed into one field.
    pub(crate) fn push_to(self, numbers: &mut Vec<u64>) -> Result<(), Unexpected> {
        match self {
            Value::Varint(value) => numbers.push(value),
            Value::Bytes(mut packed) => {
                while !packed.is_empty() {
                    numbers.push(take_varint(&mut packed)?);
                }
            }
            _ => return Err(Unexpected),
        }
        Ok(())
    }
}

/// The fields of one message, in the order of their bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field's number and value, `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Unexpected> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(take_varint(&mut self.0)?).map_err(|_| Unexpected)?;
        let value = match tag & 7 {
            0 => Value::Varint(take_varint(&mut self.0)?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.0.split_off(..8).and_then(<[u8]>::as_array).ok_or(Unexpected)?)),
            2 => Value::Bytes(take_bytes(&mut self.0)?),
            5 => Value::Fixed32(u32::from_le_bytes(*self.0.split_off(..4).and_then(<[u8]>::as_array).ok_or(Unexpected)?)),
            _ => return Err(Unexpected),
        };
        match tag >> 3 {
            0 => Err(Unexpected),
            number => Ok(Some((number, value))),
        }
    }
}

#[inline]
pub(crate) fn take_varint(from: &mut &[u8]) -> Result<u64, Unexpected> {
    match from.split_first() {
        Some((&byte, rest)) if byte < 0x80 => {
            *from = rest;
            Ok(u64::from(byte))
        }
        _ => decode_varint(from).map_err(|_| Unexpected),
    }
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Unexpected> {
    let length = usize::try_from(take_varint(from)?).map_err(|_| Unexpected)?;
    from.split_off(..length).ok_or(Unexpected)
}

/// Where fields are written to. A message is described once and runs twice: to be measured, then to be written.
pub(crate) trait Sink {
    fn raw_varint(&mut self, value: u64);
    fn raw_bytes(&mut self, bytes: &[u8]);
    fn nested(&mut self, length: usize, write: impl FnOnce(&mut BytesMut));

    fn varint(&mut self, field: u32, value: u64) {
        self.raw_varint(u64::from(field) << 3);
        self.raw_varint(value);
    }

    fn i32(&mut self, field: u32, value: i32) {
        // Negative numbers are sign-extended to ten bytes; that is protobuf's `int32`.
        self.varint(field, i64::from(value) as u64);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.raw_varint(u64::from(field) << 3 | 2);
        self.raw_varint(bytes.len() as u64);
        self.raw_bytes(bytes);
    }

    fn message(&mut self, field: u32, message: &impl Body) {
        let length = message.length();
        self.raw_varint(u64::from(field) << 3 | 2);
        self.raw_varint(length as u64);
        self.nested(length, |out| message.write(out));
    }
}

/// Counts what would be written.
#[derive(Default)]
pub(crate) struct Length(pub(crate) usize);

impl Sink for Length {
    fn raw_varint(&mut self, value: u64) {
        self.0 += encoded_len_varint(value);
    }

    fn raw_bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn nested(&mut self, length: usize, _: impl FnOnce(&mut BytesMut)) {
        self.0 += length;
    }
}

impl Sink for BytesMut {
    fn raw_varint(&mut self, value: u64) {
        encode_varint(value, self);
    }

    fn raw_bytes(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }

    fn nested(&mut self, _: usize, write: impl FnOnce(&mut BytesMut)) {
        write(self);
    }
}

/// A message that can be written.
pub(crate) trait Body {
    fn fields(&self, out: &mut impl Sink);

    fn length(&self) -> usize {
        let mut length = Length::default();
        self.fields(&mut length);
        length.0
    }

    fn write(&self, out: &mut BytesMut) {
        self.fields(out);
    }
}
