//! Failover subscriptions: one consumer at a time, and who is told of it.

use std::time::{Duration, Instant};

use client::{Consumer, ConsumerOptions, Message, SubscriptionType};
use geminga_tests::harness::{Broker, Setup, eventually, soon};
use wire::{Command, proto};

use crate::talk::{Wire, consume, next, numbers, plain, produce, publish, settle, subscribe, text, texts};

fn failover(name: &str, priority: i32) -> ConsumerOptions {
    ConsumerOptions { name: Some(name.into()), priority, ..ConsumerOptions::failover("s") }
}

async fn becomes(consumer: &Consumer, active: bool) {
    eventually("told whether it is active", || async { consumer.is_active() == Some(active) }).await;
}

#[tokio::test]
async fn the_next_takes_over_what_the_active_one_did_not_ack() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let first = consume(&client, "t", failover("a", 0)).await;
    let second = consume(&client, "t", failover("b", 1)).await;
    becomes(&first, true).await;
    becomes(&second, false).await;
    publish(&produce(&client, "t").await, numbers(0..10)).await;
    for expected in numbers(0..4) {
        let message = next(&first).await;
        assert_eq!(text(&message), expected);
        first.ack(&message);
    }
    settle(&first).await;
    let left = Instant::now();
    soon("closing", first.close()).await.unwrap();
    assert_eq!(texts(&second, 6).await, numbers(4..10));
    becomes(&second, true).await;
    assert!(left.elapsed() >= Duration::from_millis(900), "it waited for acks that may be on their way: {:?}", left.elapsed());
}

#[tokio::test]
async fn one_of_a_lower_number_takes_over_from_one_that_is_there() {
    let broker = Setup::default().set("activeConsumerFailoverDelayTimeMillis", 50).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let first = consume(&client, "t", failover("a", 1)).await;
    publish(&producer, numbers(0..3)).await;
    let mut message = next(&first).await;
    for _ in 1..3 {
        message = next(&first).await;
    }
    first.ack_cumulative(&message);
    settle(&first).await;
    let second = consume(&client, "t", failover("b", 0)).await;
    becomes(&first, false).await;
    becomes(&second, true).await;
    publish(&producer, numbers(3..6)).await;
    assert_eq!(texts(&second, 3).await, numbers(3..6));
    assert!(first.try_recv().is_none());
}

#[tokio::test]
async fn each_change_is_told_once_and_to_those_who_listen() {
    let broker = Setup::default().set("activeConsumerFailoverDelayTimeMillis", 50).start();
    let mut wire = Wire::connect(&broker).await;
    let told = |command: Command| match command {
        Command::ActiveConsumerChange(change) => (change.consumer_id, change.is_active()),
        other => panic!("unexpected {other:?}"),
    };
    let named = |id: u64, priority: i32| proto::CommandSubscribe {
        consumer_name: Some(format!("c{id}")),
        priority_level: Some(priority),
        ..subscribe("t", "s", SubscriptionType::Failover, id)
    };
    wire.subscribe(named(1, 1)).await;
    wire.raw.send(wire::Flow { consumer_id: 1, permits: 1 }).await.unwrap();
    assert_eq!(told(wire.next().await.command), (1, true));
    wire.subscribe(named(2, 2)).await;
    wire.raw.send(wire::Flow { consumer_id: 2, permits: 1 }).await.unwrap();
    assert_eq!(told(wire.next().await.command), (2, false));
    wire.subscribe(named(3, 0)).await;
    wire.raw.send(wire::Flow { consumer_id: 3, permits: 1 }).await.unwrap();
    assert_eq!(told(wire.next().await.command), (1, false));
    assert_eq!(told(wire.next().await.command), (3, true));
    wire.raw.send(proto::CommandCloseConsumer { consumer_id: 3, request_id: 77, ..Default::default() }).await.unwrap();
    let done = wire.next().await.command;
    assert!(matches!(done, Command::Success(ref success) if success.request_id == 77), "{done:?}");
    assert_eq!(told(wire.next().await.command), (1, true));
    // Nothing is told again: the next thing heard is the answer to a question.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answer = wire.request(|request_id| proto::CommandGetLastMessageId { consumer_id: 1, request_id }.into()).await;
    assert!(matches!(answer, Command::GetLastMessageIdResponse(_)), "{answer:?}");
}

#[tokio::test]
async fn partitions_spread_evenly_and_are_covered_when_one_leaves() {
    let broker = Setup::default()
        .set("activeConsumerFailoverDelayTimeMillis", 50)
        .set("allowAutoTopicCreationType", "partitioned")
        .set("defaultNumPartitions", 6)
        .start();
    let client = plain(&broker).await;
    let partitions = soon("partitions", client.partitions("t")).await.unwrap();
    assert_eq!(partitions.len(), 6);
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        let mut of_all = Vec::new();
        for partition in &partitions {
            of_all.push(consume(&client, partition, failover(name, 0)).await);
        }
        members.push(of_all);
    }
    let active = |of_all: &[Consumer]| of_all.iter().filter(|consumer| consumer.is_active() == Some(true)).count();
    eventually("two partitions for each of three", || async { members.iter().all(|of_all| active(of_all) == 2) }).await;
    for consumer in members.remove(1) {
        soon("closing", consumer.close()).await.unwrap();
    }
    eventually("three for each of two", || async { members.iter().all(|of_all| active(of_all) == 3) }).await;
    for partition in &partitions {
        soon("a receipt", produce(&client, partition).await.send(Message::new("hello"))).await.unwrap();
    }
    for of_all in &members {
        for consumer in of_all.iter().filter(|consumer| consumer.is_active() == Some(true)) {
            assert_eq!(texts(consumer, 1).await, ["hello"]);
        }
    }
}
