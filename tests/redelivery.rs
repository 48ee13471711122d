//! What is not acknowledged comes again, each time counted once more. Dead-letter queues stand on these counts.

use client::{Client, Consumer, ConsumerOptions, Received};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, SubscriptionType};

use crate::talk::{Wire, by_hand, consume, next, numbers, plain, produce, publish, publish_batch, settle, subscribe, text, texts};

async fn shared(client: &Client) -> Consumer {
    consume(client, "t", ConsumerOptions::shared("s")).await
}

/// The next messages, as text and redelivery count.
async fn counted(consumer: &Consumer, count: usize) -> Vec<(String, u32)> {
    let mut got = Vec::new();
    for _ in 0..count {
        let message = next(consumer).await;
        got.push((text(&message), message.redelivery_count));
    }
    got
}

fn all(range: std::ops::Range<usize>, count: u32) -> Vec<(String, u32)> {
    numbers(range).into_iter().map(|text| (text, count)).collect()
}

#[tokio::test]
async fn a_close_raises_the_count_by_one() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..5)).await;
    for round in 0..3 {
        let consumer = shared(&client).await;
        assert_eq!(counted(&consumer, 5).await, all(0..5, round));
        soon("closing", consumer.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_lost_connection_raises_the_count_by_one() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..5)).await;
    let witness = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    let mut lost = Wire::connect(&broker).await;
    lost.subscribe(subscribe("persistent://public/default/t", "s", SubscriptionType::Shared, 0)).await;
    lost.raw.send(wire::Flow { consumer_id: 0, permits: 5 }).await.unwrap();
    for _ in 0..5 {
        match lost.next().await.command {
            Command::Message(message) => assert_eq!(message.redelivery_count.unwrap_or(0), 0),
            other => panic!("{other:?} in place of a message"),
        }
    }
    // The connection ends without a word about the consumer.
    drop(lost);
    witness.flow(100);
    assert_eq!(counted(&witness, 5).await, all(0..5, 1));
}

#[tokio::test]
async fn messages_that_were_only_under_way_are_counted_like_those_that_were_seen() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..5)).await;
    let consumer = shared(&client).await;
    // One was taken by the application, four wait: the broker cannot know the difference.
    next(&consumer).await;
    soon("closing", consumer.close()).await.unwrap();
    assert_eq!(counted(&shared(&client).await, 5).await, all(0..5, 1));
}

#[tokio::test]
async fn a_nack_brings_exactly_these_messages_back_with_the_count_raised_by_one() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..10)).await;
    let consumer = shared(&client).await;
    let mut messages = Vec::new();
    for _ in 0..10 {
        messages.push(next(&consumer).await);
    }
    for round in 1..=3 {
        consumer.nack(&[messages[2].id, messages[5].id]);
        assert_eq!(counted(&consumer, 2).await, [("2".to_owned(), round), ("5".to_owned(), round)]);
        settle(&consumer).await;
        assert!(consumer.try_recv().is_none(), "only what was asked for comes again");
    }
    // The others were not touched: they come with a count of one when the consumer leaves.
    soon("closing", consumer.close()).await.unwrap();
    let expected: Vec<_> = (0..10).map(|n| (n.to_string(), if n == 2 || n == 5 { 4 } else { 1 })).collect();
    assert_eq!(counted(&shared(&client).await, 10).await, expected);
}

#[tokio::test]
async fn asking_for_everything_brings_everything_unacknowledged_in_order() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..10)).await;
    let consumer = shared(&client).await;
    for n in 0..10 {
        let message = next(&consumer).await;
        if n % 2 == 0 {
            consumer.ack(&message);
        }
    }
    consumer.redeliver_unacknowledged();
    let odd: Vec<_> = (0..10).filter(|n| n % 2 == 1).map(|n| (n.to_string(), 1)).collect();
    assert_eq!(counted(&consumer, 5).await, odd);
}

#[tokio::test]
async fn an_exclusive_consumer_that_asks_for_everything_starts_over_at_the_first_unacknowledged() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..10)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    for n in 0..7 {
        let message = next(&consumer).await;
        if n < 3 {
            consumer.ack(&message);
        }
    }
    consumer.redeliver_unacknowledged();
    assert_eq!(texts(&consumer, 7).await, numbers(3..10));
    publish(&producer, ["new"]).await;
    assert_eq!(texts(&consumer, 1).await, ["new"]);
}

#[tokio::test]
async fn what_comes_again_comes_before_what_is_new() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..5)).await;
    let consumer = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    consumer.flow(5);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(next(&consumer).await.id);
    }
    publish(&producer, numbers(5..10)).await;
    ids.reverse();
    consumer.nack(&ids);
    settle(&consumer).await;
    consumer.flow(10);
    let expected: Vec<_> = all(0..5, 1).into_iter().chain(all(5..10, 0)).collect();
    assert_eq!(counted(&consumer, 10).await, expected);
}

#[tokio::test]
async fn an_acknowledged_message_does_not_come_again_however_it_is_asked_for() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..3)).await;
    let consumer = shared(&client).await;
    let mut messages: Vec<Received> = Vec::new();
    for _ in 0..3 {
        messages.push(next(&consumer).await);
    }
    messages[..2].iter().for_each(Received::ack);
    consumer.nack(&[messages[0].id, messages[1].id]);
    consumer.redeliver_unacknowledged();
    assert_eq!(counted(&consumer, 1).await, [("2".to_owned(), 1)]);
    settle(&consumer).await;
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn a_batch_is_counted_once_for_all_its_messages() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    publish_batch(&produce(&client, "t").await, 0, 5).await;
    for round in 0..3 {
        let consumer = shared(&client).await;
        assert_eq!(counted(&consumer, 5).await, all(0..5, round));
        soon("closing", consumer.close()).await.unwrap();
    }
}
