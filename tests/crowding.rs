//! What consumers of all topics together may hold unacked.

use client::{Consumer, ConsumerOptions, Producer};
use geminga_tests::harness::{Broker, Setup, eventually, soon};

use crate::admin::topic_stats;
use crate::talk::{consume, next, numbers, plain, produce, publish, settle};

fn is_blocked(broker: &Broker, topic: &str) -> bool {
    let stats = topic_stats(broker, &format!("persistent/public/default/{topic}"));
    stats["subscriptions"]["s"]["blockedSubscriptionOnUnackedMsgs"].as_bool().expect("a flag")
}

async fn ack_all(consumer: &Consumer) {
    while let Some(message) = consumer.try_recv() {
        consumer.ack(&message);
    }
    settle(consumer).await;
}

#[tokio::test]
async fn when_all_topics_together_hold_too_much_those_that_hold_most_wait_until_half_of_it_is_acked() {
    let broker = Setup::default()
        .set("numIOThreads", 4)
        .set("maxUnackedMessagesPerBroker", 100)
        .set("maxUnackedMessagesPerSubscriptionOnBrokerBlocked", 0.16)
        .start();
    let client = plain(&broker).await;
    let names: Vec<String> = (0..5).map(|n| format!("t{n}")).collect();
    let mut ends: Vec<(Producer, Consumer)> = Vec::new();
    for name in &names {
        ends.push((produce(&client, name).await, consume(&client, name, ConsumerOptions::shared("s")).await));
    }
    for (producer, _) in &ends {
        publish(producer, numbers(0..19)).await;
    }
    eventually("95 messages", || async { ends.iter().all(|(_, consumer)| consumer.waiting() == 19) }).await;
    assert!(!names.iter().any(|name| is_blocked(&broker, name)), "95 may be held");
    publish(&ends[0].0, numbers(19..24)).await;
    eventually("who holds more than 16 waits", || async { names.iter().all(|name| is_blocked(&broker, name)) }).await;

    for (producer, _) in &ends {
        publish(producer, ["waits"]).await;
    }
    let modest = consume(&client, "modest", ConsumerOptions::shared("s")).await;
    publish(&produce(&client, "modest").await, numbers(0..5)).await;
    for _ in 0..5 {
        next(&modest).await;
    }
    for (index, (_, consumer)) in ends.iter().enumerate() {
        settle(consumer).await;
        assert_eq!(consumer.waiting(), if index == 0 { 24 } else { 19 });
    }

    // 100 and 5 are held. Who acks goes on by itself, the others when less than 50 are held: 64 and then 46 are left here.
    for (_, consumer) in &ends[..2] {
        ack_all(consumer).await;
        assert_eq!(next(consumer).await.payload, "waits");
    }
    settle(&ends[4].1).await;
    assert_eq!(ends[4].1.waiting(), 19, "more than half of it is held");
    ack_all(&ends[2].1).await;
    eventually("all go on", || async { ends[3].1.waiting() == 20 && ends[4].1.waiting() == 20 }).await;
    assert!(!names.iter().any(|name| is_blocked(&broker, name)));
}

#[tokio::test]
async fn a_consumer_that_leaves_lets_the_others_go_on() {
    let broker = Setup::default().set("maxUnackedMessagesPerBroker", 10).start();
    let client = plain(&broker).await;
    let (greedy, other) =
        (consume(&client, "a", ConsumerOptions::shared("s")).await, consume(&client, "b", ConsumerOptions::shared("s")).await);
    let (to_greedy, to_other) = (produce(&client, "a").await, produce(&client, "b").await);
    publish(&to_other, numbers(0..3)).await;
    publish(&to_greedy, numbers(0..20)).await;
    eventually("it is too much", || async { is_blocked(&broker, "b") }).await;
    publish(&to_other, ["waits"]).await;
    settle(&other).await;
    assert_eq!(other.waiting(), 3);
    soon("closing", greedy.close()).await.expect("closed");
    eventually("the other one goes on", || async { other.waiting() == 4 }).await;
}
