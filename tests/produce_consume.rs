//! Messages go in at one end and come out at the other.

use std::time::{Duration, Instant};

use client::{ConsumerOptions, Error, Message, Start};
use geminga_tests::harness::{Broker, soon};

use crate::talk::{consume, next, numbers, plain, produce, publish, publish_batch, text, texts};

#[tokio::test]
async fn what_is_published_comes_in_order_with_all_that_was_said_about_it() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let message = Message { event_time: Some(99), ..Message::new("hello").key("k").property("colour", "green").sequence(5) };
    let id = soon("a receipt", producer.send(message)).await.unwrap();
    let got = next(&consumer).await;
    assert_eq!((text(&got), got.id, got.redelivery_count), ("hello".to_owned(), id, 0));
    let metadata = got.metadata();
    assert_eq!((metadata.key.as_deref(), metadata.event_time, metadata.sequence), (Some("k"), Some(99), 5));
    assert_eq!(metadata.properties, [("colour".to_owned(), "green".to_owned())]);
    assert_eq!(metadata.producer, &*producer.name());

    publish(&producer, numbers(0..2000)).await;
    assert_eq!(texts(&consumer, 2000).await, numbers(0..2000));
}

#[tokio::test]
async fn a_batch_is_one_entry_and_comes_as_its_messages() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let entry = publish_batch(&producer, 0, 10).await;
    publish_batch(&producer, 10, 1).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    for n in 0..10 {
        let message = next(&consumer).await;
        assert_eq!(text(&message), n.to_string());
        assert_eq!((message.id.whole_entry(), message.id.batch_index, message.id.batch_size), (entry, n, 10));
    }
    let single = next(&consumer).await;
    assert_eq!((text(&single), single.id.batch_index, single.id.batch_size), ("10".to_owned(), 0, 1));
}

#[tokio::test]
async fn every_subscription_gets_every_message() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let early = consume(&client, "t", ConsumerOptions::new("early")).await;
    publish(&producer, numbers(0..50)).await;
    let late = consume(&client, "t", ConsumerOptions::new("late")).await;
    assert_eq!(texts(&early, 50).await, numbers(0..50));
    assert_eq!(texts(&late, 50).await, numbers(0..50));
}

#[tokio::test]
async fn a_new_subscription_at_the_latest_gets_only_what_follows() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, ["before"]).await;
    let consumer = consume(&client, "t", ConsumerOptions { start: Start::Latest, ..ConsumerOptions::new("s") }).await;
    publish(&producer, ["after"]).await;
    assert_eq!(texts(&consumer, 1).await, ["after"]);
}

#[tokio::test]
async fn what_was_acknowledged_does_not_come_again_and_what_was_not_does() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..20)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    for n in 0..20 {
        let message = next(&consumer).await;
        if n % 3 != 0 {
            consumer.ack(&message);
        }
    }
    soon("closing", consumer.close()).await.unwrap();
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let left: Vec<_> = (0..20).filter(|n| n % 3 == 0).map(|n| n.to_string()).collect();
    assert_eq!(texts(&consumer, left.len()).await, left);
    publish(&producer, ["last"]).await;
    assert_eq!(texts(&consumer, 1).await, ["last"]);
}

#[tokio::test]
async fn a_cumulative_ack_covers_everything_up_to_its_message() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..20)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let mut messages = Vec::new();
    for _ in 0..20 {
        messages.push(next(&consumer).await);
    }
    consumer.ack_cumulative(&messages[14]);
    soon("closing", consumer.close()).await.unwrap();
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    assert_eq!(texts(&consumer, 5).await, numbers(15..20));
}

#[tokio::test]
async fn a_batch_comes_again_until_its_last_message_is_acknowledged() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish_batch(&producer, 0, 3).await;
    publish_batch(&producer, 3, 3).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    for _ in 0..5 {
        consumer.ack(&next(&consumer).await);
    }
    soon("closing", consumer.close()).await.unwrap();
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    assert_eq!(texts(&consumer, 3).await, numbers(3..6));
}

#[tokio::test]
async fn an_ack_that_asks_for_an_answer_gets_one() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..2)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let message = next(&consumer).await;
    soon("an answer", consumer.ack_confirmed(message.id)).await.unwrap();
    soon("an answer to the same again", consumer.ack_confirmed(message.id)).await.unwrap();
    let stats = soon("stats", consumer.stats()).await.unwrap();
    assert_eq!((stats.msg_backlog(), stats.r#type()), (1, "Exclusive"));
}

#[tokio::test]
async fn a_message_of_four_mebibytes_passes_and_one_over_the_limit_does_not() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let large: Vec<u8> = (0..4 << 20).map(|n: u32| (n % 251) as u8).collect();
    soon("a receipt", producer.send(Message::new(large.clone()))).await.unwrap();
    assert!(next(&consumer).await.payload == large, "4 MiB came back changed");
    let refused = soon("an answer", producer.send(Message::new(vec![0; 6 << 20]))).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    publish(&producer, ["still here"]).await;
    assert_eq!(texts(&consumer, 1).await, ["still here"]);
}

/// A fraction of what any build does; the point is that delivery goes on while publishing does.
#[tokio::test]
async fn a_consumer_keeps_up_with_a_producer_at_full_speed() {
    const COUNT: usize = 20_000;
    let broker = Broker::start();
    let (sending, receiving) = (plain(&broker).await, plain(&broker).await);
    let producer = produce(&sending, "t").await;
    let consumer = consume(&receiving, "t", ConsumerOptions::new("s")).await;
    let receiver = tokio::spawn(async move {
        for expected in 0..COUNT {
            let message = next(&consumer).await;
            assert_eq!(text(&message), expected.to_string());
            consumer.ack(&message);
        }
        Instant::now()
    });
    for n in 0..COUNT {
        soon("room", producer.enqueue(Message::new(n.to_string()))).await.unwrap();
    }
    soon("the receipts", producer.flush()).await;
    let published = Instant::now();
    let received = soon("all messages", receiver).await.unwrap();
    let behind = received.saturating_duration_since(published);
    assert!(behind < Duration::from_secs(2), "the consumer had everything only {behind:?} after the last receipt");
}

#[tokio::test]
async fn clients_are_told_what_is_wrong_with_a_topic() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let refused = soon("an answer", client.producer("no-such-tenant/nor-namespace/t", Default::default())).await.unwrap_err();
    assert_eq!(refused.code(), Some(client::ServerError::TopicNotFound), "{refused}");
    publish(&produce(&client, "t").await, ["the connection is still good"]).await;
}
