//! Frames that official clients wrote decode, and encode to the same bytes again.

#![allow(clippy::disallowed_methods, reason = "the ban is for the crate; this test reads recorded files")]

use std::{fs, path::PathBuf};

use bytes::BytesMut;
use geminga_wire as wire;
use wire::{AckIds, AckType, Command, Frame, FrameDecoder, payload};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/vectors/pulsar-client-python-3.13.0"].iter().collect()
}

fn read(name: &str) -> Frame {
    let bytes = fs::read(folder().join(name).with_extension("bin")).expect("the vector is there");
    let mut received = BytesMut::from(&bytes[..]);
    let frame = FrameDecoder::new(1 << 20).decode(&mut received).expect("it is a frame").expect("it is whole");
    assert!(received.is_empty(), "{name}");
    frame
}

#[test]
fn every_recorded_frame_encodes_to_the_same_bytes() {
    let mut seen = 0;
    for file in fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let frame = read(path.file_stem().unwrap().to_str().unwrap());
        let mut again = BytesMut::new();
        frame.command.encode_before_payload(&mut again, frame.payload.len());
        again.extend_from_slice(&frame.payload);
        assert_eq!(again, fs::read(&path).unwrap(), "{}", path.display());
        assert!(!matches!(frame.command, Command::Unknown(_)), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 28, "only {seen} vectors");
}

#[test]
fn recorded_payloads_have_right_checksums() {
    for name in ["send", "send-keyed", "send-delayed", "send-batch", "send-chunk"] {
        let frame = read(name);
        assert_eq!(payload::verify(&frame.payload), Ok(()), "{name}");
        assert!(payload::parts(&frame.payload).unwrap().checksum.is_some(), "{name}");
    }
}

#[test]
fn a_recorded_message_is_seen_with_its_key_and_time() {
    let frame = read("send-keyed");
    let peek = payload::peek(&frame.payload).unwrap();
    assert_eq!((peek.partition_key, peek.ordering_key, peek.message), (Some(&b"key"[..]), Some(&b"order"[..]), &b"keyed"[..]));
    assert_eq!((peek.messages, peek.is_batch, peek.event_time), (1, false, Some(1_700_000_000_000)));
    assert_eq!(payload::peek(&read("send-delayed").payload).unwrap().deliver_at, Some(1_700_000_000_000));
}

#[test]
fn a_recorded_batch_has_its_three_messages() {
    let frame = read("send-batch");
    let peek = payload::peek(&frame.payload).unwrap();
    assert_eq!((peek.messages, peek.is_batch, peek.producer_name), (3, true, "batching"));
    let batch = frame.payload.slice_ref(peek.message);
    let texts: Vec<_> = payload::SingleMessages::new(batch, peek.messages).map(|message| message.unwrap().1).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let Command::Send(send) = frame.command else { panic!("{:?}", frame.command) };
    assert_eq!((send.messages(), send.sequence_id, send.last_sequence_id()), (3, peek.sequence_id, peek.last_sequence_id()));
}

#[test]
fn a_recorded_chunk_knows_its_place() {
    let frame = read("send-chunk");
    let chunk = payload::peek(&frame.payload).unwrap().chunk.unwrap();
    assert_eq!((chunk.id, chunk.total_size, chunk.is_last()), (0, 1000, false));
    let Command::Send(send) = frame.command else { panic!("{:?}", frame.command) };
    assert!(send.is_chunk());
}

#[test]
fn recorded_acks_are_told_apart() {
    let ack = |name| match read(name).command {
        Command::Ack(ack) => ack,
        other => panic!("{other:?}"),
    };
    assert!(matches!(ack("ack").ids, AckIds::One(_)));
    assert_eq!(ack("ack-cumulative").ack_type, AckType::Cumulative);
    let batch = ack("ack-shared");
    assert!(batch.ids.as_slice().iter().any(|id| !id.ack_set.is_empty()), "{batch:?}");
}
