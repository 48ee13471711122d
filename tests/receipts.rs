//! Receipts: in order, with the sequence ids exactly as they were sent. Go's client closes the connection on anything else.

use client::Message;
use geminga_tests::harness::Broker;
use wire::{Command, SendReceipt, ServerError};

use crate::talk::Wire;

async fn receipt(wire: &mut Wire) -> SendReceipt {
    match wire.next().await.command {
        Command::SendReceipt(receipt) => receipt,
        other => panic!("SEND was answered with {other:?}"),
    }
}

#[tokio::test]
async fn a_receipt_echoes_the_sequence_id_of_its_send() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let name = wire.producer("persistent://public/default/t", 3).await;
    let mut last = None;
    for sequence in [0, 1, 17, 1 << 40] {
        wire.raw.publish(3, &name, sequence, Message::new("x")).await.unwrap();
        let receipt = receipt(&mut wire).await;
        assert_eq!((receipt.producer_id, receipt.sequence_id), (3, sequence));
        assert!(receipt.highest_sequence_id.is_none_or(|highest| highest == 0 || highest == sequence), "{receipt:?}");
        let id = receipt.message_id.expect("a place");
        assert!(id.ack_set.is_empty() && id.batch_index.is_none_or(|index| index == -1), "{id:?}");
        assert!(last < Some((id.ledger, id.entry)), "{last:?} then {id:?}");
        last = Some((id.ledger, id.entry));
    }
}

#[tokio::test]
async fn the_receipt_of_a_batch_has_its_first_and_its_highest_sequence_id() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let name = wire.producer("persistent://public/default/t", 0).await;
    for first in [100, 200] {
        wire.raw.publish_batch(0, &name, first, (0..10).map(|n| Message::new(n.to_string())).collect()).await.unwrap();
    }
    for first in [100, 200] {
        let receipt = receipt(&mut wire).await;
        assert_eq!((receipt.sequence_id, receipt.highest_sequence_id), (first, Some(first + 9)));
    }
}

#[tokio::test]
async fn receipts_come_in_the_order_of_the_sends_for_every_producer() {
    const EACH: u64 = 500;
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let topics = ["persistent://public/default/a", "persistent://public/default/b"];
    let mut names = Vec::new();
    for (id, topic) in topics.iter().enumerate() {
        names.push(wire.producer(topic, id as u64).await);
    }
    for sequence in 0..EACH {
        for (id, name) in names.iter().enumerate() {
            wire.raw.publish(id as u64, name, sequence, Message::new("x")).await.unwrap();
        }
    }
    let mut expected = [0, 0];
    while expected != [EACH, EACH] {
        let receipt = receipt(&mut wire).await;
        let of = &mut expected[usize::try_from(receipt.producer_id).unwrap()];
        assert_eq!(receipt.sequence_id, *of);
        *of += 1;
    }
}

#[tokio::test]
async fn a_send_whose_checksum_is_wrong_is_refused_and_not_stored() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let name = wire.producer("persistent://public/default/t", 0).await;
    let mut payload = bytes::BytesMut::new();
    let metadata = wire::proto::MessageMetadata { producer_name: name.clone(), publish_time: 1, ..Default::default() };
    wire::payload::build(&metadata, b"right", &mut payload);
    let last = payload.len() - 1;
    payload[last] ^= 1;
    let mut frame = bytes::BytesMut::new();
    wire::encode_send(&mut frame, &wire::Send { producer_id: 0, sequence_id: 0, ..Default::default() }, &payload);
    wire.raw.send_bytes(&frame).await.unwrap();
    match wire.next().await.command {
        Command::SendError(error) => assert_eq!((error.error(), error.producer_id, error.sequence_id), (ServerError::ChecksumError, 0, 0)),
        other => panic!("a wrong checksum was answered with {other:?}"),
    }
    wire.raw.publish(0, &name, 1, Message::new("x")).await.unwrap();
    assert_eq!(receipt(&mut wire).await.sequence_id, 1);
}

#[tokio::test]
async fn everything_sent_before_closing_has_its_receipt_before_the_answer() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let name = wire.producer("persistent://public/default/t", 0).await;
    for sequence in 0..100 {
        wire.raw.publish(0, &name, sequence, Message::new("x")).await.unwrap();
    }
    wire.raw.send(wire::proto::CommandCloseProducer { producer_id: 0, request_id: 77, ..Default::default() }).await.unwrap();
    for sequence in 0..100 {
        assert_eq!(receipt(&mut wire).await.sequence_id, sequence);
    }
    match wire.next().await.command {
        Command::Success(success) => assert_eq!(success.request_id, 77),
        other => panic!("CLOSE_PRODUCER was answered with {other:?}"),
    }
}
