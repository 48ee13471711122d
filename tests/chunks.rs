//! Messages that come in parts: every part of one goes to the same consumer, and parts are entries like any other.

use bytes::BytesMut;
use geminga_tests::harness::Broker;
use wire::proto::MessageMetadata;
use wire::{Command, SubscriptionType, proto};

use crate::talk::{Wire, subscribe};

/// One part of a message, published and stored.
async fn publish_part(wire: &mut Wire, producer: &str, sequence: u64, (uuid, part, parts): (&str, i32, i32)) {
    let metadata = MessageMetadata {
        producer_name: producer.to_owned(),
        sequence_id: sequence,
        publish_time: 1,
        uuid: Some(uuid.to_owned()),
        chunk_id: Some(part),
        num_chunks_from_msg: Some(parts),
        total_chunk_msg_size: Some(parts * 4),
        ..Default::default()
    };
    let (mut payload, mut frame) = (BytesMut::new(), BytesMut::new());
    wire::payload::build(&metadata, format!("{uuid}:{part}").as_bytes(), &mut payload);
    let send = wire::Send { producer_id: 1, sequence_id: sequence, is_chunk: Some(true), ..Default::default() };
    wire::encode_send(&mut frame, &send, &payload);
    wire.raw.send_bytes(&frame).await.expect("sent");
    match wire.next().await.command {
        Command::SendReceipt(receipt) => assert_eq!(receipt.sequence_id, sequence),
        other => panic!("SEND was answered with {other:?}"),
    }
}

/// What the consumers of a connection get next: who, and which part.
async fn part(wire: &mut Wire) -> (u64, String) {
    loop {
        let frame = wire.next().await;
        if let Command::Message(message) = frame.command {
            let peek = wire::payload::peek(&frame.payload).expect("a good payload");
            return (message.consumer_id, String::from_utf8(peek.message.to_vec()).expect("text"));
        }
    }
}

async fn flow(wire: &mut Wire, consumer_id: u64, permits: u32) {
    wire.raw.send(wire::Flow { consumer_id, permits }).await.expect("sent");
}

#[tokio::test]
async fn interleaved_messages_keep_their_consumers_and_their_order() {
    let broker = Broker::start();
    let mut sender = Wire::connect(&broker).await;
    let name = sender.producer("t", 1).await;
    let mut receiver = Wire::connect(&broker).await;
    for consumer in 1..=3 {
        receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, consumer)).await;
    }
    for consumer in 1..=3 {
        flow(&mut receiver, consumer, 100).await;
    }
    let uuids = ["a", "b", "c", "d", "e"];
    let mut sequence = 0;
    for part in 0..6 {
        for uuid in uuids {
            publish_part(&mut sender, &name, sequence, (uuid, part, 6)).await;
            sequence += 1;
        }
    }
    let mut got: Vec<(u64, String)> = Vec::new();
    for _ in 0..30 {
        got.push(part(&mut receiver).await);
    }
    let mut holders = std::collections::BTreeSet::new();
    for uuid in uuids {
        let parts: Vec<&(u64, String)> = got.iter().filter(|(_, text)| text.starts_with(uuid)).collect();
        assert_eq!(parts.len(), 6, "{uuid}");
        assert!(parts.iter().all(|(consumer, _)| *consumer == parts[0].0), "the parts of {uuid} went to several: {parts:?}");
        assert!(parts.iter().enumerate().all(|(n, (_, text))| *text == format!("{uuid}:{n}")), "{parts:?}");
        holders.insert(parts[0].0);
    }
    assert!(holders.len() > 1, "one consumer got everything: {got:?}");
}

#[tokio::test]
async fn parts_wait_for_their_consumer_while_others_get_what_is_theirs() {
    let broker = Broker::start();
    let mut sender = Wire::connect(&broker).await;
    let name = sender.producer("t", 1).await;
    let mut receiver = Wire::connect(&broker).await;
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, 1)).await;
    flow(&mut receiver, 1, 1).await;
    publish_part(&mut sender, &name, 0, ("a", 0, 3)).await;
    assert_eq!(part(&mut receiver).await, (1, "a:0".to_owned()));
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, 2)).await;
    flow(&mut receiver, 2, 10).await;
    publish_part(&mut sender, &name, 1, ("a", 1, 3)).await;
    publish_part(&mut sender, &name, 2, ("a", 2, 3)).await;
    publish_part(&mut sender, &name, 3, ("b", 0, 1)).await;
    assert_eq!(part(&mut receiver).await, (2, "b:0".to_owned()), "the first consumer has no permits");
    flow(&mut receiver, 1, 1).await;
    assert_eq!(part(&mut receiver).await, (1, "a:1".to_owned()));
    flow(&mut receiver, 1, 1).await;
    assert_eq!(part(&mut receiver).await, (1, "a:2".to_owned()));
}

#[tokio::test]
async fn parts_of_a_consumer_that_leaves_go_to_one_other_from_the_first_on() {
    let broker = Broker::start();
    let mut sender = Wire::connect(&broker).await;
    let name = sender.producer("t", 1).await;
    let mut receiver = Wire::connect(&broker).await;
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, 1)).await;
    flow(&mut receiver, 1, 2).await;
    for n in 0..4 {
        publish_part(&mut sender, &name, n, ("a", n as i32, 4)).await;
    }
    assert_eq!(part(&mut receiver).await.1, "a:0");
    assert_eq!(part(&mut receiver).await.1, "a:1");
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, 2)).await;
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Shared, 3)).await;
    flow(&mut receiver, 2, 10).await;
    flow(&mut receiver, 3, 10).await;
    let answer =
        receiver.request(|request_id| proto::CommandCloseConsumer { consumer_id: 1, request_id, ..Default::default() }.into()).await;
    assert!(matches!(answer, Command::Success(_) | Command::Message(_)), "{answer:?}");
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(part(&mut receiver).await);
    }
    assert!(got.iter().all(|(consumer, _)| *consumer == got[0].0), "{got:?}");
    assert_eq!(got.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["a:0", "a:1", "a:2", "a:3"]);
}

#[tokio::test]
async fn a_part_that_is_sent_twice_comes_twice() {
    let broker = Broker::start();
    let mut sender = Wire::connect(&broker).await;
    let name = sender.producer("t", 1).await;
    let mut receiver = Wire::connect(&broker).await;
    receiver.subscribe(subscribe("t", "s", SubscriptionType::Exclusive, 1)).await;
    flow(&mut receiver, 1, 10).await;
    for (sequence, number) in [0, 1, 1, 0, 1, 2].into_iter().enumerate() {
        publish_part(&mut sender, &name, sequence as u64, ("a", number, 3)).await;
    }
    for number in [0, 1, 1, 0, 1, 2] {
        assert_eq!(part(&mut receiver).await, (1, format!("a:{number}")));
    }
}
