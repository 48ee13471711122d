//! Restarts, in order and by `kill -9`: what was acknowledged, in either direction, stays so.

use client::{ConsumerOptions, Message, Received};
use geminga_tests::harness::{Broker, soon};

use crate::talk::{consume, next, numbers, persistent, plain, produce, publish, publish_batch, settle, text, texts};

/// How a broker ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Kill,
}

fn end(broker: &mut Broker, how: End) {
    match how {
        End::Stop => {
            let status = broker.stop();
            assert!(status.success(), "SIGTERM ended the broker with {status}\n{}", broker.log());
        }
        End::Kill => broker.kill(),
    }
}

#[tokio::test]
async fn what_has_a_receipt_is_there_after_any_end() {
    let mut broker = Broker::start();
    for (round, how) in [End::Kill, End::Stop, End::Kill].into_iter().enumerate() {
        let client = plain(&broker).await;
        let producer = produce(&client, "t").await;
        publish(&producer, numbers(round * 100..round * 100 + 90)).await;
        publish_batch(&producer, round * 100 + 90, 10).await;
        end(&mut broker, how);
        broker.restart();
        let client = plain(&broker).await;
        let reader = consume(&client, "t", ConsumerOptions::reader(client::Start::Earliest)).await;
        let count = (round + 1) * 100;
        assert_eq!(texts(&reader, count).await, numbers(0..count), "after {how:?}");
    }
}

#[tokio::test]
async fn a_clean_stop_keeps_every_ack_also_those_beyond_a_hole() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..100)).await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    for n in 0..100 {
        let message = next(&consumer).await;
        if n % 3 != 1 {
            consumer.ack(&message);
        }
    }
    settle(&consumer).await;
    end(&mut broker, End::Stop);
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    let left: Vec<_> = (0..100).filter(|n| n % 3 == 1).map(|n| n.to_string()).collect();
    assert_eq!(texts(&consumer, left.len()).await, left);
    settle(&consumer).await;
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn a_subscription_is_there_after_a_kill_and_misses_nothing() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    publish(&producer, numbers(0..20)).await;
    for _ in 0..10 {
        consumer.ack(&next(&consumer).await);
    }
    settle(&consumer).await;
    end(&mut broker, End::Kill);
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    // Acks may be written behind, so messages may come again; none may be missing.
    let first: usize = text(&next(&consumer).await).parse().unwrap();
    assert!(first <= 10, "messages {first} and before were not acknowledged and are missing");
    assert_eq!(texts(&consumer, 19 - first).await, numbers(first + 1..20));
}

#[tokio::test]
async fn clients_come_back_by_themselves_and_nothing_is_lost_between() {
    let mut broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let mut expected = 0;
    for how in [End::Stop, End::Kill] {
        let mut sending = Vec::new();
        for n in 0..200 {
            if n == 100 {
                end(&mut broker, how);
                broker.restart();
            }
            let message = Message::new((expected + n).to_string());
            sending.push(soon("room", producer.enqueue(message)).await.unwrap());
        }
        for sent in sending {
            soon("a receipt", sent).await.unwrap();
        }
        let goal = expected + 200;
        while expected < goal {
            let message = next(&consumer).await;
            let n: usize = text(&message).parse().unwrap();
            assert!(n <= expected, "{n} came before {expected} after {how:?}");
            expected = expected.max(n + 1);
            Received::ack(&message);
        }
    }
}

#[tokio::test]
async fn every_restart_comes_up_with_everything() {
    let rounds = if std::env::var_os("GEMINGA_LONG").is_some() { 100 } else { 10 };
    let mut broker = Broker::start();
    for round in 0..rounds {
        let client = plain(&broker).await;
        let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
        publish(&produce(&client, "t").await, [round.to_string()]).await;
        let how = if round % 2 == 0 { End::Kill } else { End::Stop };
        drop(consumer);
        end(&mut broker, how);
        broker.restart();
    }
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    assert_eq!(texts(&consumer, rounds).await, numbers(0..rounds));
}
