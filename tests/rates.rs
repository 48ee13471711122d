//! Rates and backlog quotas, as clients see them.

use std::time::{Duration, Instant};

use client::{ConsumerOptions, Message, ProducerOptions, ServerError, Start};
use geminga_tests::harness::{Broker, Setup, eventually, soon};

use crate::admin::{told, topic_stats};
use crate::talk::{consume, next, numbers, persistent, plain, produce, publish, texts};

/// Makes a namespace beside the default one and sets one of its policies.
fn with_policy(broker: &Broker, namespace: &str, policy: &str, value: &str) {
    let path = format!("/admin/v2/namespaces/public/{namespace}");
    assert_eq!(told(broker, "PUT", &path, "").0, 204);
    assert_eq!(told(broker, "POST", &format!("{path}/{policy}"), value).0, 204);
}

/// What a rate lets through in a time that has been measured around it.
fn most(rate: usize, elapsed: Duration) -> usize {
    rate + (elapsed.as_millis() as usize * rate).div_ceil(1_000) + 1
}

#[tokio::test]
async fn a_flooded_topic_does_not_slow_another_that_shares_its_connection() {
    const RATE: usize = 100;
    const STEADY: usize = 2_000;
    let broker = Broker::start();
    with_policy(&broker, "limited", "publishRate", r#"{"publishThrottlingRateInMsg":100,"publishThrottlingRateInByte":-1}"#);
    // One client has one connection.
    let client = plain(&broker).await;
    let flood_options = ProducerOptions { max_pending: 5_000, ..ProducerOptions::default() };
    let flooded = soon("a producer", client.producer("persistent://public/limited/flooded", flood_options)).await.expect("a producer");
    let steady = produce(&client, "steady").await;
    let began = Instant::now();
    for n in 0..5_000 {
        drop(soon("room", flooded.enqueue(Message::new(format!("flood {n}")))).await.expect("taken"));
    }
    // One after the other: each waits for its receipt.
    for n in 0..STEADY {
        soon("a receipt", steady.send(Message::new(format!("steady {n}")))).await.expect("stored");
    }
    let through = 5_000 - flooded.pending();
    let most = most(RATE, began.elapsed());
    assert!((RATE..=most).contains(&through), "{through} of {most} at most went through while {STEADY} of the other topic did");
    assert!(topic_stats(&broker, "persistent/public/limited/flooded")["publishRateLimitedTimes"].as_u64() > Some(0));
    assert_eq!(topic_stats(&broker, "persistent/public/default/steady")["publishRateLimitedTimes"], 0);
    // What waits goes on at once when the rate is lifted, in order.
    assert_eq!(told(&broker, "DELETE", "/admin/v2/namespaces/public/limited/publishRate", "").0, 204);
    eventually("all went through", || async { flooded.pending() == 0 }).await;
    let reader = consume(&client, "persistent://public/limited/flooded", ConsumerOptions::reader(Start::Earliest)).await;
    assert_eq!(texts(&reader, 5_000).await, (0..5_000).map(|n| format!("flood {n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn delivery_keeps_the_rates_of_subscription_topic_and_broker() {
    const RATE: usize = 100;
    for key in ["dispatchThrottlingRatePerSubscriptionInMsg", "dispatchThrottlingRatePerTopicInMsg", "dispatchThrottlingRateInMsg"] {
        let broker = Setup::default().set(key, RATE).start();
        let client = plain(&broker).await;
        publish(&produce(&client, "t").await, numbers(0..RATE * 3)).await;
        let began = Instant::now();
        let consumer = consume(&client, "t", ConsumerOptions { start: Start::Earliest, ..ConsumerOptions::new("s") }).await;
        for n in 0..RATE * 3 {
            assert_eq!(crate::talk::text(&next(&consumer).await), n.to_string());
            assert!(n < most(RATE, began.elapsed()), "{key}: {n} after {:?}", began.elapsed());
        }
        let stats = topic_stats(&broker, "persistent/public/default/t");
        let limit = if key.contains("Subscription") {
            "Subscription"
        } else if key.contains("Topic") {
            "Topic"
        } else {
            "Broker"
        };
        let stopped = &stats["subscriptions"]["s"][format!("dispatchThrottledMsgEventsBy{limit}Limit")];
        assert!(stopped.as_u64() > Some(0), "{stats}");
    }
}

#[tokio::test]
async fn a_full_backlog_closes_producers_who_go_on_by_themselves_when_it_is_drained() {
    for (policy, error) in [
        ("producer_request_hold", ServerError::ProducerBlockedQuotaExceededError),
        ("producer_exception", ServerError::ProducerBlockedQuotaExceededException),
    ] {
        let setup = Setup::default().set("backlogQuotaDefaultLimitBytes", 10_240).set("backlogQuotaCheckIntervalInSeconds", 1);
        let broker = setup.set("backlogQuotaDefaultRetentionPolicy", policy).start();
        let client = persistent(&broker).await;
        let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
        let producer = produce(&client, "t").await;
        publish(&producer, (0..10).map(|n| format!("{n}{}", "x".repeat(1_023)))).await;
        let refused = plain(&broker).await.producer("t", ProducerOptions::default()).await.expect_err("the backlog is full");
        assert_eq!(refused.code(), Some(error), "{refused}");
        eventually("the producer is closed", || async {
            topic_stats(&broker, "persistent/public/default/t")["publishers"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
        let stats = topic_stats(&broker, "persistent/public/default/t");
        assert_eq!(stats["backlogQuotaLimitSize"], 10_240);
        assert!(stats["backlogSize"].as_u64() >= Some(10_240), "{stats}");
        let held = soon("room", producer.enqueue(Message::new("after"))).await.expect("taken");
        for _ in 0..10 {
            consumer.ack(&next(&consumer).await);
        }
        soon("it goes on", held).await.expect("stored");
        assert_eq!(texts(&consumer, 1).await, ["after"]);
    }
}

#[tokio::test]
async fn the_oldest_messages_go_where_the_policy_says_so() {
    let setup = Setup::default().set("backlogQuotaDefaultLimitBytes", 100_000).set("backlogQuotaCheckIntervalInSeconds", 1);
    let broker = setup.set("backlogQuotaDefaultRetentionPolicy", "consumer_backlog_eviction").start();
    let client = plain(&broker).await;
    soon("closing", consume(&client, "t", ConsumerOptions::new("s")).await.close()).await.expect("closed");
    let producer = produce(&client, "t").await;
    publish(&producer, (0..200).map(|n| format!("{n} {}", "x".repeat(1_000)))).await;
    let stats = || topic_stats(&broker, "persistent/public/default/t");
    eventually("a tenth is free", || async { stats()["backlogSize"].as_u64().is_some_and(|bytes| (1..=90_000).contains(&bytes)) }).await;
    assert_eq!(stats()["publishers"].as_array().map(Vec::len), Some(1));
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let backlog = stats()["subscriptions"]["s"]["msgBacklog"].as_u64().expect("a number");
    let first = crate::talk::text(&next(&consumer).await);
    assert!(first.starts_with(&format!("{} ", 200 - backlog)), "{first} of {backlog}");
}

#[tokio::test]
async fn a_consumer_that_subscribes_too_often_is_refused() {
    let broker = Setup::default().set("subscribeThrottlingRatePerConsumer", 2).start();
    let client = plain(&broker).await;
    let mut refused = None;
    // Each consumer of a client has an id of its own; over new connections it is the same one.
    for _ in 0..3 {
        let client = plain(&broker).await;
        let options = ConsumerOptions { name: Some("again".into()), ..ConsumerOptions::shared("s") };
        refused = soon("an answer", client.consumer("t", options)).await.err();
    }
    assert_eq!(refused.and_then(|error| error.code()), Some(ServerError::NotAllowedError));
    consume(&client, "other", ConsumerOptions::new("s")).await;
}

#[tokio::test]
async fn consumed_messages_are_kept_as_long_as_retention_says() {
    let small = || {
        let setup = Setup::default().set("managedLedgerMaxEntriesPerLedger", 10).set("managedLedgerMinLedgerRolloverTimeMinutes", 0);
        setup.set("retentionCheckIntervalInSeconds", 1)
    };
    for (minutes, megabytes, kept) in [(0, 0, false), (-1, -1, true), (10, 100, true)] {
        let setup = small().set("defaultRetentionTimeInMinutes", minutes).set("defaultRetentionSizeInMB", megabytes);
        let broker = setup.start();
        let client = plain(&broker).await;
        let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
        let producer = produce(&client, "t").await;
        publish(&producer, numbers(0..45)).await;
        for _ in 0..44 {
            next(&consumer).await;
        }
        consumer.ack_cumulative(&next(&consumer).await);
        publish(&producer, ["last"]).await;
        let backlog = || topic_stats(&broker, "persistent/public/default/t")["subscriptions"]["s"]["msgBacklog"].as_u64();
        eventually("all but one is acknowledged", || async { backlog() == Some(1) }).await;
        let size = || topic_stats(&broker, "persistent/public/default/t")["storageSize"].as_u64().expect("a number");
        let stored = size();
        if !kept {
            eventually("consumed ledgers go", || async { size() < stored / 2 || size() < 1_000 }).await;
        }
        let reader = consume(&client, "t", ConsumerOptions::reader(Start::Earliest)).await;
        let first = crate::talk::text(&next(&reader).await);
        assert_eq!(first == "0", kept, "{first} is the first of {minutes} minutes and {megabytes} MB");
    }
}
