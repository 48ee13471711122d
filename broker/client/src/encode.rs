//! A publish as bytes, written straight into the connection's buffer: no metadata object, no allocation per message.

use bytes::{BufMut, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};
use wire::{Command, Send, payload::MAGIC_CHECKSUM};

use crate::{Message, message::Key};

/// What one SEND carries.
#[derive(Debug)]
pub(crate) enum Entry {
    One(Message),
    Batch(Vec<Message>),
}

impl Entry {
    pub(crate) fn messages(&self) -> &[Message] {
        match self {
            Self::One(message) => std::slice::from_ref(message),
            Self::Batch(messages) => messages,
        }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.messages().iter().map(|message| message.payload.len()).sum()
    }
}

/// Appends a SEND frame. `sequence` is that of the first message.
pub(crate) fn publish(out: &mut BytesMut, producer_id: u64, name: &str, sequence: u64, publish_time: u64, entry: &Entry) {
    let messages = entry.messages();
    let is_batch = matches!(entry, Entry::Batch(_));
    let highest = messages.last().and_then(|message| message.sequence).unwrap_or(sequence + messages.len() as u64 - 1);
    let send = Send {
        producer_id,
        sequence_id: sequence,
        num_messages: is_batch.then(|| i32::try_from(messages.len()).unwrap_or(i32::MAX)),
        highest_sequence_id: is_batch.then_some(highest),
        ..Send::default()
    };
    let frame = out.len();
    Command::Send(send).encode(out);
    let payload = out.len();
    out.put_u16(MAGIC_CHECKSUM);
    let checksum = hole(out);
    let metadata_size = hole(out);
    match entry {
        Entry::One(message) => {
            head(out, name, sequence, publish_time);
            single(out, message, &ENTRY_FIELDS);
            if let Some(at) = message.deliver_at {
                number(out, 19, at);
            }
            fill(out, metadata_size, metadata_size + 4);
            out.extend_from_slice(&message.payload);
        }
        Entry::Batch(messages) => {
            head(out, name, sequence, publish_time);
            let key = messages.first().and_then(|first| first.key.as_ref());
            if let Some(key) = key {
                bytes(out, 6, &key.text);
            }
            number(out, 11, messages.len() as u64);
            flag(out, 17, key.is_some_and(|key| key.is_base64));
            number(out, 24, highest);
            fill(out, metadata_size, metadata_size + 4);
            messages.iter().enumerate().for_each(|(index, message)| in_batch(out, message, sequence + index as u64));
        }
    }
    let sum = crc32c::crc32c(&out[metadata_size..]);
    out[checksum..checksum + 4].copy_from_slice(&sum.to_be_bytes());
    let before = u32::from_be_bytes(out[frame..frame + 4].try_into().expect("four bytes")) as usize;
    put_size(out, frame, before + out.len() - payload);
}

fn head(out: &mut BytesMut, name: &str, sequence: u64, publish_time: u64) {
    text(out, 1, name);
    number(out, 2, sequence);
    number(out, 3, publish_time);
}

/// Numbers of the fields that a message's own metadata has in both places where it may stand.
struct Fields {
    properties: u32,
    key: u32,
    event_time: u32,
    key_is_base64: u32,
    ordering_key: u32,
}

const ENTRY_FIELDS: Fields = Fields { properties: 4, key: 6, event_time: 12, key_is_base64: 17, ordering_key: 18 };
const BATCH_FIELDS: Fields = Fields { properties: 1, key: 2, event_time: 5, key_is_base64: 6, ordering_key: 7 };

fn single(out: &mut BytesMut, message: &Message, fields: &Fields) {
    for (name, value) in &message.properties {
        let length = text_length(name) + text_length(value);
        encode_varint(u64::from(fields.properties) << 3 | 2, out);
        encode_varint(length as u64, out);
        text(out, 1, name);
        text(out, 2, value);
    }
    if let Some(key) = &message.key {
        bytes(out, fields.key, &key.text);
    }
    if let Some(time) = message.event_time {
        number(out, fields.event_time, time);
    }
    if let Some(Key { is_base64, .. }) = &message.key {
        flag(out, fields.key_is_base64, *is_base64);
    }
    if let Some(key) = &message.ordering_key {
        bytes(out, fields.ordering_key, key);
    }
}

fn in_batch(out: &mut BytesMut, message: &Message, sequence: u64) {
    let size = hole(out);
    number(out, 3, message.payload.len() as u64);
    single(out, message, &BATCH_FIELDS);
    number(out, 8, message.sequence.unwrap_or(sequence));
    fill(out, size, size + 4);
    out.extend_from_slice(&message.payload);
}

/// Leaves room for a size or checksum that is known later.
fn hole(out: &mut BytesMut) -> usize {
    out.put_u32(0);
    out.len() - 4
}

/// Writes how many bytes stand between `from` and the end.
fn fill(out: &mut BytesMut, at: usize, from: usize) {
    let size = out.len() - from;
    put_size(out, at, size);
}

fn put_size(out: &mut BytesMut, at: usize, size: usize) {
    let size = u32::try_from(size).expect("payloads are checked against the broker's limit, which is an i32");
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

fn number(out: &mut BytesMut, field: u32, value: u64) {
    encode_varint(u64::from(field) << 3, out);
    encode_varint(value, out);
}

/// A flag is not sent when it is down.
fn flag(out: &mut BytesMut, field: u32, value: bool) {
    if value {
        number(out, field, 1);
    }
}

fn bytes(out: &mut BytesMut, field: u32, value: &[u8]) {
    encode_varint(u64::from(field) << 3 | 2, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn text(out: &mut BytesMut, field: u32, value: &str) {
    bytes(out, field, value.as_bytes());
}

/// Of a text field whose number is below 16.
fn text_length(value: &str) -> usize {
    1 + encoded_len_varint(value.len() as u64) + value.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::{FrameDecoder, payload, proto};

    use crate::metadata::Opened;

    use super::*;

    fn sent(entry: &Entry) -> (Send, proto::MessageMetadata, Bytes) {
        let mut out = BytesMut::from(&b"before"[..]);
        publish(&mut out, 7, "me", 40, 1_700_000_000_000, entry);
        let mut out = out.split_off(6);
        let frame = FrameDecoder::new(1 << 20).decode(&mut out).unwrap().expect("a whole frame");
        assert!(out.is_empty());
        let Command::Send(send) = frame.command else { panic!("not a SEND") };
        let opened = Opened::new(&frame.payload).unwrap();
        (send, prost::Message::decode(opened.metadata).unwrap(), opened.body)
    }

    fn full() -> Message {
        Message {
            payload: Bytes::from_static(b"hello"),
            key: Some(Key::binary(&[1, 2, 3])),
            ordering_key: Some(Bytes::from_static(b"order")),
            properties: vec![("colour".into(), "green".into()), ("empty".into(), String::new())],
            event_time: Some(99),
            sequence: None,
            deliver_at: Some(1234),
        }
    }

    #[test]
    fn everything_about_a_single_message_arrives() {
        let (send, metadata, payload) = sent(&Entry::One(full()));
        assert_eq!((send.producer_id, send.sequence_id, send.num_messages, send.highest_sequence_id), (7, 40, None, None));
        assert_eq!((metadata.producer_name.as_str(), metadata.sequence_id, metadata.publish_time), ("me", 40, 1_700_000_000_000));
        assert_eq!((metadata.partition_key(), metadata.partition_key_b64_encoded()), ("AQID", true));
        assert_eq!((metadata.ordering_key(), metadata.event_time(), metadata.deliver_at_time()), (&b"order"[..], 99, 1234));
        assert_eq!(metadata.num_messages_in_batch, None);
        let properties: Vec<_> = metadata.properties.iter().map(|p| (p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(properties, [("colour", "green"), ("empty", "")]);
        assert_eq!(payload, "hello");
    }

    #[test]
    fn a_batch_names_its_first_and_its_highest_sequence() {
        let messages = vec![full(), Message::new("second").key("k").sequence(77), Message::new("")];
        let (send, metadata, payload) = sent(&Entry::Batch(messages));
        assert_eq!((send.sequence_id, send.num_messages, send.highest_sequence_id), (40, Some(3), Some(42)));
        assert_eq!((metadata.sequence_id, metadata.num_messages_in_batch, metadata.highest_sequence_id), (40, Some(3), Some(42)));
        let messages: Vec<_> = payload::SingleMessages::new(payload, 3).map(Result::unwrap).collect();
        let sequences: Vec<_> = messages.iter().map(|(metadata, _)| metadata.sequence_id()).collect();
        assert_eq!(sequences, [40, 77, 42]);
        assert_eq!((messages[0].0.partition_key(), messages[0].0.partition_key_b64_encoded()), ("AQID", true));
        assert_eq!((messages[0].0.event_time(), messages[0].0.ordering_key(), messages[0].0.properties.len()), (99, &b"order"[..], 2));
        assert_eq!((messages[1].0.partition_key(), messages[1].1.as_ref()), ("k", &b"second"[..]));
        assert!(messages[2].1.is_empty());
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut out = BytesMut::new();
        publish(&mut out, 7, "me", 40, 1, &Entry::One(Message::new("hello")));
        let last = out.len() - 1;
        out[last] ^= 1;
        let frame = FrameDecoder::new(1 << 20).decode(&mut out).unwrap().expect("a whole frame");
        assert!(matches!(Opened::new(&frame.payload), Err(payload::PayloadError::Checksum { .. })));
    }
}
