//! Shared subscriptions: each message to one consumer, as many as it has permits for.

use std::collections::BTreeSet;

use client::{Consumer, ConsumerOptions};
use geminga_tests::harness::{Broker, eventually, soon};

use crate::talk::{by_hand, consume, next, numbers, plain, produce, publish, publish_batch, settle, text, texts};

#[tokio::test]
async fn consumers_take_turns_and_together_get_each_message_once() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let mut consumers = Vec::new();
    for _ in 0..3 {
        // Few permits at a time: one consumer cannot take everything before the others' turn.
        consumers.push(consume(&client, "t", ConsumerOptions { receiver_queue: 10, ..ConsumerOptions::shared("s") }).await);
    }
    publish(&producer, numbers(0..300)).await;
    let mut got = Vec::new();
    let mut counts = vec![0; consumers.len()];
    eventually("all messages", || {
        for (consumer, count) in consumers.iter().zip(&mut counts) {
            while let Some(message) = consumer.try_recv() {
                got.push(text(&message).parse::<usize>().unwrap());
                consumer.ack(&message);
                *count += 1;
            }
        }
        let is_complete = got.len() >= 300;
        async move { is_complete }
    })
    .await;
    got.sort_unstable();
    assert_eq!(got, (0..300).collect::<Vec<_>>());
    assert!(counts.iter().all(|count| *count > 30), "not everyone had a turn: {counts:?}");
}

#[tokio::test]
async fn with_equal_permits_turns_are_even() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let (one, two) = (consume(&client, "t", ConsumerOptions::shared("s")).await, consume(&client, "t", ConsumerOptions::shared("s")).await);
    for n in 0..40 {
        publish(&producer, [n.to_string()]).await;
    }
    let all = || one.waiting() + two.waiting() == 40;
    eventually("all messages", || async { all() }).await;
    assert!((15..=25).contains(&one.waiting()), "one consumer got {}, the other {}", one.waiting(), two.waiting());
}

/// Everything the broker has sent to this consumer, and will not send more without new permits or messages.
async fn arrived(consumer: &Consumer) -> usize {
    settle(consumer).await;
    consumer.waiting()
}

#[tokio::test]
async fn shared_dispatch_stops_at_zero_permits() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..20)).await;
    for options in [ConsumerOptions::shared("shared"), ConsumerOptions::new("exclusive")] {
        let consumer = consume(&client, "t", by_hand(options)).await;
        assert_eq!(arrived(&consumer).await, 0, "before the first permit");
        consumer.flow(5);
        assert_eq!(texts(&consumer, 5).await, numbers(0..5));
        assert_eq!(arrived(&consumer).await, 0, "after the last permit");
        consumer.flow(3);
        consumer.flow(4);
        assert_eq!(texts(&consumer, 7).await, numbers(5..12));
        assert_eq!(arrived(&consumer).await, 0, "permits add up");
        soon("closing", consumer.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_new_message_does_not_go_to_a_consumer_without_permits() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let poor = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    let rich = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    poor.flow(1);
    rich.flow(9);
    settle(&poor).await;
    settle(&rich).await;
    publish(&producer, numbers(0..20)).await;
    eventually("ten messages", || async { poor.waiting() + rich.waiting() >= 10 }).await;
    assert_eq!((arrived(&poor).await, arrived(&rich).await), (1, 9));
}

#[tokio::test]
async fn permits_count_messages_and_not_entries() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    for batch in 0..10 {
        publish_batch(&producer, batch * 10, 10).await;
    }
    for options in [ConsumerOptions::shared("shared"), ConsumerOptions::new("exclusive")] {
        let consumer = consume(&client, "t", by_hand(options)).await;
        // Whole entries are sent while there are permits: 25 suffice for three batches, and five are owed.
        consumer.flow(25);
        assert_eq!(texts(&consumer, 30).await, numbers(0..30));
        assert_eq!(arrived(&consumer).await, 0, "25 permits are three batches of ten");
        consumer.flow(5);
        assert_eq!(arrived(&consumer).await, 0, "five pay the debt");
        consumer.flow(1);
        assert_eq!(texts(&consumer, 10).await, numbers(30..40));
        assert_eq!(arrived(&consumer).await, 0);
        soon("closing", consumer.close()).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_leaving_consumer_held_goes_to_the_others() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let leaving = consume(&client, "t", ConsumerOptions::shared("s")).await;
    publish(&producer, numbers(0..30)).await;
    let held = texts(&leaving, 30).await;
    let staying = consume(&client, "t", ConsumerOptions::shared("s")).await;
    drop(leaving);
    let mut got = BTreeSet::new();
    while got.len() < 30 {
        let message = next(&staying).await;
        assert!(got.insert(text(&message)), "{} came twice", text(&message));
        staying.ack(&message);
    }
    assert_eq!(got, held.into_iter().collect());
}

#[tokio::test]
async fn what_the_broker_counts_for_a_consumer_is_what_happened() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", by_hand(ConsumerOptions { name: Some("me".into()), ..ConsumerOptions::shared("s") })).await;
    publish(&producer, numbers(0..10)).await;
    consumer.flow(7);
    for _ in 0..4 {
        next(&consumer).await;
    }
    consumer.ack(&next(&consumer).await);
    settle(&consumer).await;
    let stats = soon("stats", consumer.stats()).await.unwrap();
    assert_eq!((stats.consumer_name(), stats.r#type()), ("me", "Shared"));
    assert_eq!((stats.available_permits(), stats.unacked_messages(), stats.msg_backlog()), (0, 6, 9));
}
