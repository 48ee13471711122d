//! Readers: consumers whose place is their own and is forgotten with them.

use client::{Client, Consumer, ConsumerOptions, MessageId, Start};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, SubscriptionType};

use crate::talk::{Wire, consume, next, numbers, plain, produce, publish, publish_batch, settle, subscribe, text, texts};

async fn read(client: &Client, start: Start) -> Consumer {
    consume(client, "t", ConsumerOptions::reader(start)).await
}

#[tokio::test]
async fn a_reader_starts_where_it_is_told() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let ids = publish(&producer, numbers(0..10)).await;
    let latest = read(&client, Start::Latest).await;
    assert_eq!(texts(&read(&client, Start::Earliest).await, 10).await, numbers(0..10));
    assert_eq!(texts(&read(&client, Start::At(ids[4])).await, 6).await, numbers(4..10), "the start is part of what is read");
    assert_eq!(texts(&read(&client, Start::After(ids[4])).await, 5).await, numbers(5..10));
    settle(&latest).await;
    publish(&producer, ["new"]).await;
    assert_eq!(texts(&latest, 1).await, ["new"]);
}

#[tokio::test]
async fn the_start_message_is_delivered_and_clients_that_do_not_want_it_drop_it() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let ids = publish(&produce(&client, "t").await, numbers(0..3)).await;
    let mut wire = Wire::connect(&broker).await;
    let mut reader = subscribe("persistent://public/default/t", "r", SubscriptionType::Exclusive, 0);
    reader.durable = Some(false);
    reader.start_message_id = Some(wire::MessageId::new(ids[1].ledger, ids[1].entry).into());
    wire.subscribe(reader).await;
    wire.raw.send(wire::Flow { consumer_id: 0, permits: 10 }).await.unwrap();
    match wire.next().await.command {
        Command::Message(message) => {
            assert_eq!((message.message_id.ledger, message.message_id.entry), (ids[1].ledger, ids[1].entry));
            assert_eq!(message.message_id.batch_index(), -1, "clients number messages of batches themselves");
        }
        other => panic!("{other:?} in place of a message"),
    }
}

#[tokio::test]
async fn readers_do_not_disturb_each_other_or_subscriptions() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..10)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let (one, two) = (read(&client, Start::Earliest).await, read(&client, Start::Earliest).await);
    assert_eq!(texts(&one, 10).await, numbers(0..10));
    assert_eq!(texts(&consumer, 10).await, numbers(0..10));
    assert_eq!(texts(&two, 10).await, numbers(0..10));
}

#[tokio::test]
async fn a_start_within_a_batch_skips_the_messages_before_it() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish_batch(&producer, 0, 10).await;
    publish(&producer, ["10"]).await;
    let first = read(&client, Start::Earliest).await;
    let mut ids: Vec<MessageId> = Vec::new();
    for _ in 0..10 {
        ids.push(next(&first).await.id);
    }
    assert_eq!(texts(&read(&client, Start::At(ids[7])).await, 4).await, numbers(7..11));
    assert_eq!(texts(&read(&client, Start::After(ids[7])).await, 3).await, numbers(8..11));
}

#[tokio::test]
async fn a_reader_reads_what_every_subscription_has_acknowledged_as_long_as_it_is_kept() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let reader = read(&client, Start::Earliest).await;
    publish(&producer, numbers(0..10)).await;
    for _ in 0..10 {
        consumer.ack(&next(&consumer).await);
    }
    settle(&consumer).await;
    assert_eq!(texts(&reader, 10).await, numbers(0..10), "a reader's place keeps messages while it is connected");
}

#[tokio::test]
async fn several_consumers_may_share_a_place_that_is_forgotten_with_the_last() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..20)).await;
    let options = || ConsumerOptions {
        receiver_queue: 10,
        subscription: "r".into(),
        kind: SubscriptionType::Shared,
        ..ConsumerOptions::reader(Start::Earliest)
    };
    let (one, two) = (consume(&client, "t", options()).await, consume(&client, "t", options()).await);
    let mut got = Vec::new();
    while got.len() < 20 {
        let message = soon("a message at either", async {
            tokio::select! {
                message = one.recv() => message,
                message = two.recv() => message,
            }
        });
        let message = message.await.unwrap();
        got.push(text(&message).parse::<usize>().unwrap());
        message.ack();
    }
    got.sort_unstable();
    assert_eq!(got, (0..20).collect::<Vec<_>>());
}
