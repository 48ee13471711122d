//! Messages that ask to be delivered later: never early, at most a tick late, and in nobody's way.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{ConsumerOptions, Message, Producer, Received};
use geminga_tests::harness::{Broker, Setup, eventually, soon};

use crate::talk::{by_hand, consume, next, numbers, plain, produce, publish, settle, text, texts};

/// The default of `delayedDeliveryTickTimeMillis`, and what a busy machine may add.
const LATEST_MS: u64 = 1_000 + 2_000;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("before the end")
}

async fn publish_at(producer: &Producer, text: &str, deliver_at: u64) {
    let message = Message { deliver_at: Some(deliver_at), ..Message::new(text.to_owned()) };
    soon("a receipt", producer.send(message)).await.expect("stored");
}

/// A message that was to come at this time; must have.
fn in_time(message: &Received, at: u64) -> String {
    let now = now_ms();
    assert!(now >= at, "{} came {} ms early", text(message), at - now);
    assert!(now <= at + LATEST_MS, "{} came {} ms late", text(message), now - at);
    text(message)
}

#[tokio::test]
async fn a_delayed_message_is_never_early_and_hardly_late_and_holds_back_none() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    let start = now_ms();
    publish_at(&producer, "far", start + 3_600_000).await;
    publish_at(&producer, "later", start + 2_500).await;
    publish_at(&producer, "soon", start + 1_200).await;
    publish_at(&producer, "past", start - 1_000).await;
    publish(&producer, ["at once"]).await;
    assert_eq!(texts(&consumer, 2).await, ["past", "at once"]);
    assert!(now_ms() < start + 1_200, "what is not delayed came at once");
    assert_eq!(in_time(&next(&consumer).await, start + 1_200), "soon");
    assert_eq!(in_time(&next(&consumer).await, start + 2_500), "later");
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn other_types_of_subscription_deliver_at_once() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let start = now_ms();
    publish_at(&producer, "far", start + 3_600_000).await;
    publish(&producer, ["next"]).await;
    assert_eq!(texts(&consumer, 2).await, ["far", "next"]);
}

#[tokio::test]
async fn with_delayed_delivery_off_nothing_waits() {
    let broker = Setup::default().set("delayedDeliveryEnabled", false).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    publish_at(&producer, "far", now_ms() + 3_600_000).await;
    assert_eq!(texts(&consumer, 1).await, ["far"]);
}

#[tokio::test]
async fn delays_go_on_after_a_restart_and_what_was_acked_behind_them_stays_acked() {
    let mut broker = Setup::default().set("delayedDeliveryTickTimeMillis", 100).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    let start = now_ms();
    for n in 0..20 {
        publish_at(&producer, &format!("late {n}"), start + 6_000 + n * 10).await;
    }
    publish(&producer, numbers(0..50)).await;
    for n in 0..50 {
        let message = next(&consumer).await;
        assert_eq!(text(&message), n.to_string());
        consumer.ack(&message);
    }
    settle(&consumer).await;
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    settle(&consumer).await;
    if now_ms() < start + 6_000 {
        assert!(consumer.try_recv().is_none() || now_ms() >= start + 6_000, "something came early or again");
    }
    for n in 0..20 {
        let message = next(&consumer).await;
        assert!(now_ms() >= start + 6_000 + n * 10);
        assert_eq!(text(&message), format!("late {n}"));
        consumer.ack(&message);
    }
    settle(&consumer).await;
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn what_is_due_waits_for_permits_and_uses_them() {
    let broker = Setup::default().set("delayedDeliveryTickTimeMillis", 50).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let poor = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    poor.flow(1);
    let at = now_ms() + 300;
    for n in 0..5 {
        publish_at(&producer, &n.to_string(), at).await;
    }
    assert_eq!(texts(&poor, 1).await, ["0"]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    settle(&poor).await;
    assert_eq!(poor.waiting(), 0);
    poor.flow(4);
    assert_eq!(texts(&poor, 4).await, numbers(1..5));
}

#[tokio::test]
async fn a_message_that_asks_for_too_long_a_delay_is_refused_and_the_next_one_is_not() {
    let broker = Setup::default().set("delayedDeliveryMaxDelayInMillis", 60_000).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let at = |ms: u64| Message { deliver_at: Some(now_ms() + ms), ..Message::new("m") };
    let refusal = soon("an answer", producer.send(at(3_600_000))).await.expect_err("refused");
    assert!(refusal.to_string().contains("delay of 60000 milliseconds"), "{refusal}");
    soon("a receipt", producer.send(at(50_000))).await.expect("stored");
    publish(&producer, ["at once"]).await;
    // The namespace has the last word, in topics that are in use too.
    let policy = "/admin/v2/namespaces/public/default/delayedDelivery";
    let body = r#"{"tickTime":1000,"active":true,"maxDeliveryDelayInMillis":0}"#;
    assert_eq!(crate::admin::told(&broker, "POST", policy, body).0, 204);
    eventually("no limit", || async { soon("an answer", producer.send(at(3_600_000))).await.is_ok() }).await;
}
