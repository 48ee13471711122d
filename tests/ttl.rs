//! Messages that nobody acknowledges in time are left behind.

use std::time::Duration;

use client::{ConsumerOptions, Start};
use geminga_tests::harness::{Broker, Setup, eventually, soon};

use crate::admin::{told, topic_stats};
use crate::talk::{consume, next, numbers, plain, produce, publish, settle, text, texts};

#[tokio::test]
async fn expired_messages_are_gone_from_durable_subscriptions_and_young_ones_are_not() {
    let mut broker = Setup::default().set("ttlDurationDefaultInSeconds", 3).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    for kind in [ConsumerOptions::new("exclusive"), ConsumerOptions::shared("shared")] {
        let consumer = consume(&client, "t", kind).await;
        soon("closing", consumer.close()).await.expect("closed");
    }
    publish(&producer, numbers(0..500)).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    publish(&producer, ["young"]).await;
    // A topic is looked through when it is loaded, and then every few minutes.
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    for kind in [ConsumerOptions::new("exclusive"), ConsumerOptions::shared("shared")] {
        let consumer = consume(&client, "t", kind).await;
        let mut last = String::new();
        // The look goes on while consumers come; what they were sent before it ended is theirs.
        eventually("the young one", || {
            while let Some(message) = consumer.try_recv() {
                last = text(&message);
                consumer.ack(&message);
            }
            let is_young = last == "young";
            async move { is_young }
        })
        .await;
        settle(&consumer).await;
        let stats = soon("stats", consumer.stats()).await.expect("stats");
        assert_eq!(stats.msg_backlog(), 0);
        soon("closing", consumer.close()).await.expect("closed");
    }
}

#[tokio::test]
async fn without_a_limit_nothing_expires() {
    let mut broker = Setup::default().start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    publish(&producer, numbers(0..10)).await;
    next(&consumer).await;
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions { start: Start::Latest, ..ConsumerOptions::new("s") }).await;
    assert_eq!(texts(&consumer, 10).await, numbers(0..10));
}

#[tokio::test]
async fn a_namespaces_limit_acts_on_topics_that_are_in_use() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let policy = "/admin/v2/namespaces/public/default/messageTTL";
    let producer = produce(&client, "t").await;
    soon("closing", consume(&client, "t", ConsumerOptions::new("s")).await.close()).await.expect("closed");
    publish(&producer, numbers(0..50)).await;
    let backlog = || topic_stats(&broker, "persistent/public/default/t")["subscriptions"]["s"]["msgBacklog"].as_u64();
    assert_eq!(told(&broker, "GET", policy, ""), (204, String::new()));
    assert_eq!(backlog(), Some(50));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(told(&broker, "POST", policy, "1").0, 204);
    eventually("the backlog goes", || async { backlog() == Some(0) }).await;
    publish(&producer, ["it goes on"]).await;
}
