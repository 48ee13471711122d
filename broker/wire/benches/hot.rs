//! What a message costs at the sockets' side: `hot FLOOR COUNT` does it so often, so that instructions can be counted.

extern crate geminga_wire as wire;

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use wire::{Ack, AckIds, AckType, Command, Delivery, Flow, FrameDecoder, MessageId, Receipt, Send};

/// Frames in one read.
const READ: usize = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (floor, count) = (arguments.next().unwrap_or_default(), arguments.next().and_then(|count| count.parse().ok()));
    // Called by `cargo bench` or `cargo test`: there is nothing to count.
    let Some(count) = count else { return };
    match floor.as_str() {
        "decode" => decode(count, &publishes()),
        "ack" => decode(count, &acks()),
        "deliver" => deliver(count),
        "receipt" => receipt(count),
        other => panic!("there is no floor {other}"),
    }
}

/// Whole reads are cut into frames, and payloads verified.
fn decode(count: usize, read: &[u8]) {
    let decoder = FrameDecoder::new(5 << 20);
    let mut buffer = BytesMut::new();
    for _ in 0..count / READ {
        buffer.extend_from_slice(read);
        while let Ok(Some(frame)) = decoder.decode(&mut buffer) {
            if let Command::Send(_) = frame.command {
                wire::payload::verify(&frame.payload).expect("an intact payload");
            }
            black_box(frame);
        }
    }
}

fn publishes() -> BytesMut {
    let (mut read, payload) = (BytesMut::new(), payload());
    for sequence_id in 0..READ as u64 {
        wire::encode_send(&mut read, &Send { producer_id: 3, sequence_id: 1000 + sequence_id, ..Send::default() }, &payload);
    }
    read
}

/// Half of them acks of one message, the other half permits.
fn acks() -> BytesMut {
    let mut read = BytesMut::new();
    for entry in 0..READ as u64 / 2 {
        let ack = Ack {
            consumer_id: 1,
            ack_type: AckType::Individual,
            ids: AckIds::One(MessageId::new(7, 1000 + entry)),
            validation_error: None,
            properties: Vec::new(),
            txn: None,
            request_id: None,
        };
        Command::from(ack).encode(&mut read);
        Command::from(Flow { consumer_id: 1, permits: 500 }).encode(&mut read);
    }
    read
}

fn payload() -> Bytes {
    let partition_key = Some("device-1234567".to_owned());
    let metadata =
        wire::proto::MessageMetadata { producer_name: "bench-0".to_owned(), publish_time: 1, partition_key, ..Default::default() };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, &[7; 128], &mut bytes);
    bytes.freeze()
}

fn deliver(count: usize) {
    let (mut out, payload) = (BytesMut::new(), payload());
    for entry in 0..count as u64 {
        if entry.is_multiple_of(READ as u64) {
            out.clear();
        }
        let delivery = Delivery { consumer_id: 1, ledger: 7, entry: 1000 + entry, partition: -1, ..Delivery::default() };
        wire::encode_message_header(&mut out, &delivery, payload.len());
        out.extend_from_slice(&payload);
        black_box(&out);
    }
}

fn receipt(count: usize) {
    let mut out = BytesMut::new();
    for entry in 0..count as u64 {
        if entry.is_multiple_of(READ as u64) {
            out.clear();
        }
        let receipt =
            Receipt { producer_id: 3, sequence_id: 1000 + entry, ledger: 7, entry: 1000 + entry, partition: -1, ..Receipt::default() };
        wire::encode_receipt(&mut out, &receipt);
        black_box(&out);
    }
}
