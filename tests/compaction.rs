//! Only the newest message of each key, for who asks for no more.

use client::{Client, Consumer, ConsumerOptions, Message, Producer, Received, Start};
use geminga_tests::harness::{Broker, Setup, eventually, soon};

use crate::admin::{json, raw, told, topic_stats};
use crate::talk::{consume, next, plain, produce, publish, text, texts};

const TOPIC: &str = "persistent/public/default/t";

fn path(what: &str) -> String {
    format!("/admin/v2/{TOPIC}/{what}")
}

/// Publishes messages, each key and value.
async fn put(producer: &Producer, messages: &[(&str, &str)]) {
    for (key, value) in messages {
        soon("a receipt", producer.send(Message::new((*value).to_owned()).key(*key))).await.expect("stored");
    }
}

async fn put_batch(producer: &Producer, messages: &[(&str, &str)]) {
    let messages = messages.iter().map(|(key, value)| Message::new((*value).to_owned()).key(*key)).collect();
    soon("a receipt", producer.send_batch(messages)).await.expect("stored");
}

async fn compact(broker: &Broker) {
    assert_eq!(told(broker, "PUT", &path("compaction"), ""), (204, String::new()));
    compacted(broker).await;
}

async fn compacted(broker: &Broker) {
    eventually("the compaction ends", || async {
        told(broker, "GET", &path("compaction"), "").1 == r#"{"status":"SUCCESS","lastError":""}"#
    })
    .await;
}

async fn view(client: &Client) -> Consumer {
    consume(client, "t", ConsumerOptions { read_compacted: true, ..ConsumerOptions::reader(Start::Earliest) }).await
}

/// All messages up to the last one there is, without those that were taken out of their batch.
async fn messages(consumer: &Consumer) -> Vec<Received> {
    let last = soon("the last message", consumer.last_message()).await.expect("answered").id;
    let mut found = Vec::new();
    while !last.is_none() {
        let message = next(consumer).await;
        let id = message.id;
        if !message.payload.is_empty() {
            found.push(message);
        }
        if id.whole_entry() == last.whole_entry() && id.batch_index >= id.batch_size - 1 {
            break;
        }
    }
    found
}

async fn everything(consumer: &Consumer) -> Vec<String> {
    messages(consumer).await.iter().map(text).collect()
}

#[tokio::test]
async fn the_view_survives_a_kill_and_a_stop_and_is_read_by_who_asks() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    put(&producer, &[("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"), ("b", "")]).await;
    assert_eq!(told(&broker, "GET", &path("compaction"), ""), (200, r#"{"status":"NOT_RUN","lastError":""}"#.into()));
    compact(&broker).await;
    for kill in [true, false] {
        if kill {
            broker.kill();
        } else {
            assert!(broker.stop().success());
        }
        broker.restart();
        let client = plain(&broker).await;
        assert_eq!(everything(&view(&client).await).await, ["a2", "c1"]);
        let all = consume(&client, "t", ConsumerOptions::reader(Start::Earliest)).await;
        assert_eq!(texts(&all, 5).await, ["a1", "b1", "a2", "c1", ""]);
        assert_eq!(json(&broker, &path("internalStats"))["compactedLedger"]["entries"], 2);
        assert_eq!(told(&broker, "GET", &path("subscriptions"), ""), (200, "[]".into()), "its cursor is no subscription");
    }
}

#[tokio::test]
async fn what_is_published_later_follows_the_view_and_batches_are_compacted_inside() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    put_batch(&producer, &[("a", "a1"), ("b", "b1"), ("c", "c1")]).await;
    put_batch(&producer, &[("a", "a2"), ("c", "")]).await;
    compact(&broker).await;
    let reader = view(&client).await;
    assert_eq!(everything(&reader).await, ["b1", "a2"]);
    put(&producer, &[("b", "b2")]).await;
    assert_eq!(texts(&reader, 1).await, ["b2"]);
    assert_eq!(topic_stats(&broker, TOPIC)["compaction"]["lastCompactionRemovedEventCount"], 3);
    let metrics = raw(&broker, "GET /metrics HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n");
    assert!(metrics.contains("pulsar_compaction_succeed_count{"), "{metrics}");
    // The next one begins with what the first has left.
    compact(&broker).await;
    assert_eq!(everything(&view(&client).await).await, ["a2", "b2"]);
}

#[tokio::test]
async fn a_topic_is_compacted_by_itself_where_that_is_asked_for() {
    let broker = Setup::default()
        .set("brokerServiceCompactionThresholdInBytes", 2_000)
        .set("brokerServiceCompactionMonitorIntervalInSeconds", 1)
        .start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    for round in 0..50 {
        put(&producer, &[("a", &format!("a{round}")), ("b", &format!("b{round}"))]).await;
    }
    compacted(&broker).await;
    let found = everything(&view(&client).await).await;
    assert!(found.len() < 100 && found.ends_with(&["a49".to_owned(), "b49".to_owned()]), "{found:?}");
}

#[tokio::test]
async fn a_kill_in_the_middle_of_compactions_loses_nothing_of_the_view() {
    let mut broker = Broker::start();
    for round in 0..6 {
        let client = plain(&broker).await;
        let producer = produce(&client, "t").await;
        let values: Vec<String> = (0..300).map(|n| format!("{round}-{n}")).collect();
        let keys: Vec<String> = (0..300).map(|n| (n % 100).to_string()).collect();
        let mut under_way = Vec::new();
        for (key, value) in keys.iter().zip(&values) {
            under_way.push(soon("room", producer.enqueue(Message::new(value.clone()).key(key.as_str()))).await.expect("taken"));
        }
        for sending in under_way {
            soon("a receipt", sending).await.expect("stored");
        }
        told(&broker, "PUT", &path("compaction"), "");
        if round % 2 == 0 {
            // Somewhere in between.
            broker.kill();
            broker.restart();
        } else {
            compacted(&broker).await;
        }
        let client = plain(&broker).await;
        let mut newest = std::collections::BTreeMap::new();
        for message in messages(&view(&client).await).await {
            newest.insert(message.wire_key().map(<[u8]>::to_vec), text(&message));
        }
        assert_eq!(newest.len(), 100);
        assert!(newest.values().all(|value| value.starts_with(&format!("{round}-"))), "{newest:?}");
    }
}

#[tokio::test]
async fn the_compacted_ledger_goes_with_its_topic() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, ["no key"]).await;
    put(&producer, &[("a", "1")]).await;
    compact(&broker).await;
    assert_eq!(everything(&view(&client).await).await, ["1"]);
    soon("closing", producer.close()).await.expect("closed");
    eventually("nobody uses it", || async { told(&broker, "DELETE", &format!("/admin/v2/{TOPIC}"), "").0 == 204 }).await;
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    put(&producer, &[("b", "2")]).await;
    assert_eq!(everything(&view(&client).await).await, ["2"]);
}
