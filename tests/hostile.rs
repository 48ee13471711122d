//! Bad input ends the connection that sent it, and nothing else.

use client::raw::RawConnection;
use geminga_tests::harness::{Broker, soon};
use wire::{Command, SubscriptionType, proto};

use crate::talk::{Wire, numbers, plain, produce, publish, subscribe};

/// Sends bytes on a connection of their own, with or without a handshake, and waits until the broker has closed it.
async fn is_closed_after(broker: &Broker, shakes_hands: bool, bytes: &[u8]) -> Vec<Command> {
    let mut raw = match shakes_hands {
        true => RawConnection::connect(broker.url()).await.unwrap(),
        false => RawConnection::open(broker.url()).await.unwrap(),
    };
    raw.send_bytes(bytes).await.unwrap();
    raw.until_closed().await.unwrap_or_else(|error| panic!("the connection stays after {bytes:02x?}: {error}"))
}

fn frame(command: &[u8]) -> Vec<u8> {
    let size = u32::try_from(command.len()).unwrap();
    [&(size + 4).to_be_bytes()[..], &size.to_be_bytes()[..], command].concat()
}

#[tokio::test]
async fn bytes_that_are_no_frame_end_their_connection_and_no_other() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let cases: [(&str, Vec<u8>); 8] = [
        ("random bytes", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("a frame of no size", vec![0, 0, 0, 0]),
        ("a frame too small for a command size", vec![0, 0, 0, 3, 0, 0, 0]),
        ("a frame over the limit", (64u32 << 20).to_be_bytes().to_vec()),
        ("the largest size there is", vec![0xff; 8]),
        ("an empty command", vec![0, 0, 0, 4, 0, 0, 0, 0]),
        ("a command longer than its frame", vec![0, 0, 0, 8, 0, 0, 0, 9, 8, 18, 0x92, 1]),
        ("a command that is no protobuf", frame(&[0xff; 12])),
    ];
    for (what, bytes) in cases {
        for shakes_hands in [true, false] {
            is_closed_after(&broker, shakes_hands, &bytes).await;
            assert!(broker.is_alive(), "{what} ended the broker");
            publish(&producer, [what]).await;
        }
    }
}

#[tokio::test]
async fn commands_that_lack_what_they_need_end_the_connection_or_are_refused() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    // SEND, MESSAGE, ACK and FLOW with nothing in them: type, then an empty body.
    for kind in [6u8, 9, 10, 11] {
        is_closed_after(&broker, true, &frame(&[8, kind, kind << 3 | 2, 0])).await;
        publish(&producer, numbers(0..1)).await;
    }
    assert!(broker.is_alive());
}

#[tokio::test]
async fn a_flow_of_no_permits_gives_none() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..5)).await;
    let mut wire = Wire::connect(&broker).await;
    wire.subscribe(subscribe("persistent://public/default/t", "s", SubscriptionType::Shared, 0)).await;
    wire.raw.send(wire::Flow { consumer_id: 0, permits: 0 }).await.unwrap();
    // The connection may end over it; what may not happen is a message.
    let ask = proto::CommandGetLastMessageId { consumer_id: 0, request_id: 9 };
    if wire.raw.send(ask).await.is_ok()
        && let Ok(answer) = wire.raw.recv_command().await
    {
        assert!(matches!(answer, Command::GetLastMessageIdResponse(_)), "{answer:?} without a permit");
    }
    assert!(broker.is_alive());
}

#[tokio::test]
async fn a_command_before_connect_ends_the_connection() {
    let mut broker = Broker::start();
    let ping = Command::Ping;
    let lookup = proto::CommandLookupTopic { topic: "persistent://public/default/t".into(), request_id: 1, ..Default::default() }.into();
    let producer = proto::CommandProducer { topic: "persistent://public/default/t".into(), request_id: 1, ..Default::default() }.into();
    for command in [ping, lookup, producer] {
        let mut raw = RawConnection::open(broker.url()).await.unwrap();
        raw.send(command.clone()).await.unwrap();
        let answers = raw.until_closed().await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Command::Error(_))), "{} was answered with {answers:?}", command.name());
    }
    assert!(broker.is_alive());
}

#[tokio::test]
async fn a_second_connect_ends_the_connection() {
    let broker = Broker::start();
    let mut raw = RawConnection::connect(broker.url()).await.unwrap();
    let again = proto::CommandConnect { client_version: "again".into(), protocol_version: Some(21), ..Default::default() };
    raw.send(again).await.unwrap();
    raw.until_closed().await.unwrap();
}

#[tokio::test]
async fn an_unknown_command_does_no_harm() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    // Type 2000 with a body of its own number; whether its connection stays is the broker's choice.
    let mut raw = RawConnection::connect(broker.url()).await.unwrap();
    raw.send_bytes(&frame(&[8, 0xd0, 0x0f, 0x82, 0x7d, 0])).await.unwrap();
    publish(&producer, numbers(0..10)).await;
    assert!(broker.is_alive());
}

#[tokio::test]
async fn a_send_to_a_producer_that_never_was_ends_the_connection() {
    let mut broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    wire.raw.publish(9, "nobody", 0, client::Message::new("x")).await.unwrap();
    wire.raw.until_closed().await.unwrap();
    assert!(broker.is_alive());
}

#[tokio::test]
async fn strange_names_are_refused_and_the_connection_stays() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    for topic in ["", "persistent://", "persistent://public/default/", "http://public/default/t", "persistent://public//t", "\u{0}"] {
        let producer = |request_id| proto::CommandProducer { topic: topic.into(), request_id, ..Default::default() }.into();
        match wire.request(producer).await {
            Command::Error(error) => assert!(!error.message.is_empty(), "`{topic}` is refused without a reason"),
            other => panic!("a producer on `{topic}` was answered with {other:?}"),
        }
    }
    wire.producer("persistent://public/default/t", 1).await;
}

#[tokio::test]
async fn hundreds_of_half_open_connections_keep_nobody_from_publishing() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let mut open = Vec::new();
    for n in 0..300 {
        let mut raw = RawConnection::open(broker.url()).await.unwrap();
        if n % 3 != 0 {
            // A frame that begins and never ends.
            raw.send_bytes(&[0, 0, 1, 0, 0]).await.unwrap();
        }
        open.push(raw);
    }
    soon("publishing", publish(&producer, numbers(0..100))).await;
    drop(open);
    soon("publishing", publish(&producer, numbers(0..100))).await;
    assert!(broker.is_alive());
}
