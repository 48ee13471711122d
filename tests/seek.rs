//! Seeking: the consumer is sent away, then the answer comes, then the consumer is back at the new place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{ConsumerOptions, MessageId, Start};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, ServerError, SubscriptionType, proto};

use crate::talk::{Wire, consume, next, numbers, persistent, plain, produce, publish, settle, subscribe, texts};

const TOPIC: &str = "persistent://public/default/t";

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn the_consumer_is_closed_before_the_seek_is_answered() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..5)).await;
    let mut wire = Wire::connect(&broker).await;
    wire.subscribe(subscribe(TOPIC, "s", SubscriptionType::Shared, 4)).await;
    wire.subscribe(subscribe(TOPIC, "s", SubscriptionType::Shared, 5)).await;
    let seek =
        proto::CommandSeek { consumer_id: 4, request_id: 99, message_id: Some(wire::MessageId::EARLIEST.into()), ..Default::default() };
    wire.raw.send(seek).await.unwrap();
    let mut closed = Vec::new();
    for _ in 0..2 {
        match wire.next().await.command {
            Command::CloseConsumer(close) => {
                assert_eq!(close.request_id, u64::MAX);
                closed.push(close.consumer_id);
            }
            other => panic!("{other:?} before every consumer was closed"),
        }
    }
    closed.sort_unstable();
    assert_eq!(closed, [4, 5]);
    match wire.next().await.command {
        Command::Success(success) => assert_eq!(success.request_id, 99),
        other => panic!("SEEK was answered with {other:?}"),
    }
    // The connection is good for coming back.
    wire.subscribe(subscribe(TOPIC, "s", SubscriptionType::Shared, 4)).await;
}

#[tokio::test]
async fn a_subscription_goes_on_with_the_message_it_was_sent_to() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, "t").await;
    let ids = publish(&producer, numbers(0..10)).await;
    for options in [ConsumerOptions::new("exclusive"), ConsumerOptions::shared("shared"), ConsumerOptions::reader(Start::Earliest)] {
        let consumer = consume(&client, "t", options).await;
        for _ in 0..6 {
            consumer.ack(&next(&consumer).await);
        }
        soon("back", consumer.seek(ids[3])).await.unwrap();
        assert_eq!(texts(&consumer, 7).await, numbers(3..10));
        soon("forth", consumer.seek(ids[8])).await.unwrap();
        assert_eq!(texts(&consumer, 2).await, numbers(8..10));
        soon("to the start", consumer.seek(MessageId::EARLIEST)).await.unwrap();
        assert_eq!(texts(&consumer, 10).await, numbers(0..10));
        soon("to the end", consumer.seek(MessageId::LATEST)).await.unwrap();
        settle(&consumer).await;
        assert!(consumer.try_recv().is_none(), "there is nothing after the end");
    }
}

#[tokio::test]
async fn after_a_seek_redelivery_counts_begin_anew() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let ids = publish(&produce(&client, "t").await, numbers(0..3)).await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    let first = next(&consumer).await;
    consumer.nack(&[first.id]);
    while next(&consumer).await.redelivery_count == 0 {}
    soon("back", consumer.seek(ids[0])).await.unwrap();
    assert_eq!(next(&consumer).await.redelivery_count, 0);
}

/// A client that comes back after a seek by time says no place: it relies on the one the broker has.
#[tokio::test]
async fn a_place_that_is_not_durable_survives_a_seek_by_time() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..5)).await;
    // Publish times count in milliseconds; these pauses keep the two halves apart.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = now_ms();
    tokio::time::sleep(Duration::from_millis(20)).await;
    publish(&producer, numbers(5..10)).await;
    for options in [ConsumerOptions::reader(Start::Latest), ConsumerOptions::new("s")] {
        let consumer = consume(&client, "t", options).await;
        soon("to a time", consumer.seek_time(between)).await.unwrap();
        assert_eq!(texts(&consumer, 5).await, numbers(5..10));
        soon("before all", consumer.seek_time(0)).await.unwrap();
        assert_eq!(texts(&consumer, 10).await, numbers(0..10));
        soon("after all", consumer.seek_time(now_ms() + 3_600_000)).await.unwrap();
        settle(&consumer).await;
        assert!(consumer.try_recv().is_none());
    }
}

#[tokio::test]
async fn a_seek_of_nobody_or_to_nowhere_is_refused() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    wire.subscribe(subscribe(TOPIC, "s", SubscriptionType::Exclusive, 0)).await;
    let earliest = Some(wire::MessageId::EARLIEST.into());
    for (consumer_id, message_id) in [(7, earliest), (0, None)] {
        let seek = |request_id| proto::CommandSeek { consumer_id, request_id, message_id, ..Default::default() }.into();
        match wire.request(seek).await {
            Command::Error(error) => assert_eq!(error.error(), ServerError::MetadataError),
            other => panic!("SEEK was answered with {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_before_a_seek_back_comes_again_and_stays_away_once_acknowledged() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let ids = publish(&produce(&client, "t").await, numbers(0..10)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    for _ in 0..10 {
        consumer.ack(&next(&consumer).await);
    }
    soon("back", consumer.seek(ids[5])).await.unwrap();
    for _ in 0..3 {
        consumer.ack(&next(&consumer).await);
    }
    soon("closing", consumer.close()).await.unwrap();
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    assert_eq!(texts(&consumer, 2).await, numbers(8..10));
}
