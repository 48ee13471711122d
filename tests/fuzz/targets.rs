//! What must hold for any bytes whatsoever. The fuzzer runs these on nightly, a test runs them on stable.

use bytes::{Bytes, BytesMut};
use geminga_wire::{Command, Frame, FrameDecoder, payload, proto};
use prost::Message as _;

/// A stream gives the same frames however it is cut, and each of them can be sent on.
pub(crate) fn frame(bytes: &[u8]) {
    let whole = frames(&[bytes]);
    let cut = bytes.first().map_or(0, |&first| usize::from(first) % (bytes.len() + 1));
    let (first, second) = bytes.split_at(cut);
    assert_eq!(frames(&[first, second]), whole);
    for mut sent in whole.0 {
        let expected = sent.clone();
        let frame = FrameDecoder::new(2 * MAX_MESSAGE_SIZE).decode(&mut sent).expect("what is sent can be read").expect("it is whole");
        assert_eq!(sent_on(&frame), expected);
    }
}

const MAX_MESSAGE_SIZE: usize = 64 * 1024;

/// The frame as we send it, which also compares where numbers do not: NaN has its bits.
fn sent_on(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    frame.command.encode_before_payload(&mut out, frame.payload.len());
    out.extend_from_slice(&frame.payload);
    out
}

/// The frames of a stream that arrives in pieces, as they are sent on, and the error that ended it.
fn frames(pieces: &[&[u8]]) -> (Vec<BytesMut>, Option<String>) {
    let decoder = FrameDecoder::new(MAX_MESSAGE_SIZE);
    let (mut received, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        received.extend_from_slice(piece);
        loop {
            let before = received.len();
            match decoder.decode(&mut received) {
                Ok(Some(frame)) => frames.push(sent_on(&frame)),
                Ok(None) => {
                    assert_eq!(received.len(), before, "an incomplete frame was touched");
                    assert!(decoder.missing(&received).is_ok_and(|missing| missing > 0 && missing <= decoder.limit() + 4));
                    break;
                }
                Err(error) => return (frames, Some(error.to_string())),
            }
        }
    }
    (frames, None)
}

/// What the direct decoder accepts, the generated one accepts too, and it is the same command.
pub(crate) fn command(bytes: &[u8]) {
    let Ok(command) = Command::decode(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let generated = proto::BaseCommand::decode(bytes).expect("the generated decoder accepts it");
    let detour = Command::decode(generated.encode_to_vec().into()).expect("it is a command still");
    assert_eq!(encoded(&detour), encoded(&command));
    let again = Command::decode(encoded(&command)).expect("what is sent can be read");
    assert_eq!(encoded(&again), encoded(&command));
}

fn encoded(command: &Command) -> Bytes {
    let mut frame = BytesMut::new();
    command.encode(&mut frame);
    frame.freeze().slice(8..)
}

/// Looking into metadata finds what decoding it finds.
pub(crate) fn payload(bytes: &[u8]) {
    let verified = payload::verify(bytes);
    let _ = payload::broker_entry_metadata(bytes);
    let Ok(parts) = payload::parts(bytes) else {
        assert!(verified.is_err());
        return;
    };
    let Ok(peek) = payload::peek(bytes) else {
        return;
    };
    assert!(peek.messages >= 1);
    let _ = payload::sticky_key(&peek).map(|key| key.map(|key| key.slot()));
    if let Ok(decoded) = proto::MessageMetadata::decode(parts.metadata) {
        same(&peek, &decoded);
        rebuilt(&decoded, peek.message);
    }
    let bytes_of_messages: usize = payload::SingleMessages::new(Bytes::copy_from_slice(peek.message), peek.messages)
        .map_while(Result::ok)
        .map(|(_, message)| message.len())
        .sum();
    assert!(bytes_of_messages <= peek.message.len());
}

fn same(peek: &payload::Peek<'_>, decoded: &proto::MessageMetadata) {
    assert_eq!(peek.producer_name, decoded.producer_name);
    assert_eq!((peek.sequence_id, peek.publish_time), (decoded.sequence_id, decoded.publish_time));
    assert_eq!((peek.highest_sequence_id, peek.event_time), (decoded.highest_sequence_id, decoded.event_time));
    assert_eq!(peek.is_batch, decoded.num_messages_in_batch.is_some());
    assert_eq!(i64::from(peek.messages), i64::from(decoded.num_messages_in_batch().max(1)));
    assert_eq!(peek.partition_key, decoded.partition_key.as_deref().map(str::as_bytes));
    assert_eq!((peek.ordering_key, peek.deliver_at), (decoded.ordering_key.as_deref(), decoded.deliver_at_time));
    assert_eq!((peek.compression, peek.uncompressed_size), (decoded.compression.unwrap_or(0), decoded.uncompressed_size()));
    assert_eq!(peek.encrypted, !decoded.encryption_keys.is_empty());
    assert_eq!((peek.marker_type, peek.schema_version), (decoded.marker_type, decoded.schema_version.as_deref()));
    if let Some(chunk) = peek.chunk {
        assert_eq!((Some(chunk.id), chunk.count), (decoded.chunk_id, decoded.num_chunks_from_msg()));
    }
}

fn rebuilt(metadata: &proto::MessageMetadata, message: &[u8]) {
    let mut out = BytesMut::new();
    payload::build(metadata, message, &mut out);
    assert_eq!(payload::verify(&out), Ok(()));
    assert_eq!(payload::peek(&out).expect("what was built can be read").message, message);
}
