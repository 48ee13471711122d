//! What administrators do to one topic and its subscriptions, and what its clients see of it.

use client::{ConsumerOptions, Message, ProducerOptions, Start};
use geminga_tests::harness::{Broker, eventually, soon};
use serde_json::{Value, json};

use crate::admin::{json, raw, told, topic_stats};
use crate::talk::{consume, next, numbers, persistent, plain, produce, publish, publish_batch, settle, text, texts};

const TOPIC: &str = "persistent/public/default/t";

fn path(what: &str) -> String {
    format!("/admin/v2/{TOPIC}/{what}")
}

fn done() -> (u16, String) {
    (204, String::new())
}

fn reason(answer: &(u16, String)) -> String {
    let body: Value = serde_json::from_str(&answer.1).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    body["reason"].as_str().unwrap_or_default().to_owned()
}

fn backlog(broker: &Broker, subscription: &str) -> Option<u64> {
    topic_stats(broker, TOPIC)["subscriptions"][subscription]["msgBacklog"].as_u64()
}

/// Headers and body of a message.
fn message(broker: &Broker, what: &str) -> (String, String) {
    let answer = raw(broker, &format!("GET {} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n", path(what)));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    (head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn subscriptions_are_made_moved_and_removed() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let sent = publish(&producer, numbers(0..20)).await;
    let id = json!({"ledgerId": sent[5].ledger, "entryId": sent[5].entry, "partitionIndex": -1}).to_string();
    let earliest = r#"{"ledgerId":-1,"entryId":-1,"partitionIndex":-1,"properties":{"team":"x"}}"#;
    assert_eq!(told(&broker, "PUT", &path("subscription/end"), ""), done());
    assert_eq!(told(&broker, "PUT", &path("subscription/five"), &id), done());
    assert_eq!(told(&broker, "PUT", &path("subscription/a%2Fb"), earliest), done());
    let again = told(&broker, "PUT", &path("subscription/end"), "");
    assert_eq!((again.0, reason(&again)), (409, "Subscription already exists for topic".to_owned()));
    assert_eq!((backlog(&broker, "end"), backlog(&broker, "five"), backlog(&broker, "a/b")), (Some(0), Some(15), Some(20)));
    assert_eq!(told(&broker, "GET", &path("subscription/a%2Fb/properties"), ""), (200, r#"{"team":"x"}"#.into()));
    assert_eq!(told(&broker, "PUT", &path("subscription/five/properties"), r#"{"a":"b"}"#), done());
    assert_eq!(topic_stats(&broker, TOPIC)["subscriptions"]["five"]["subscriptionProperties"], json!({"a": "b"}));

    assert_eq!(told(&broker, "POST", &path("subscription/five/skip/4"), ""), done());
    assert_eq!(backlog(&broker, "five"), Some(11));
    let scan: Value = serde_json::from_str(&told(&broker, "POST", &path("subscription/five/analyzeBacklog"), "").1).expect("JSON");
    assert_eq!((&scan["entries"], &scan["messages"], &scan["aborted"]), (&json!(11), &json!(11), &json!(false)));
    assert_eq!(told(&broker, "POST", &path("subscription/five/skip_all"), ""), done());
    assert_eq!(backlog(&broker, "five"), Some(0));
    assert_eq!(told(&broker, "POST", &path("subscription/five/resetcursor"), &id), done());
    let consumer = consume(&client, "t", ConsumerOptions::new("five")).await;
    assert_eq!(text(&next(&consumer).await), "5");
    let in_use = told(&broker, "DELETE", &path("subscription/five"), "");
    assert_eq!((in_use.0, reason(&in_use)), (412, "Subscription has active connected consumers".to_owned()));
    assert_eq!(told(&broker, "DELETE", &path("subscription/five?force=true"), ""), done());
    assert_eq!(told(&broker, "DELETE", &path("subscription/a%2Fb"), ""), done());
    let gone = told(&broker, "DELETE", &path("subscription/a%2Fb"), "");
    assert_eq!((gone.0, reason(&gone)), (404, "Subscription a/b not found for topic persistent://public/default/t".to_owned()));
    assert_eq!(told(&broker, "GET", &path("subscriptions"), ""), (200, r#"["end"]"#.into()));
    for (call, body) in [("skip/1", ""), ("skip_all", ""), ("expireMessages/1", ""), ("resetcursor/1", ""), ("resetcursor", id.as_str())] {
        assert_eq!(told(&broker, "POST", &path(&format!("subscription/none/{call}")), body).0, 404, "{call}");
    }
    assert_eq!(told(&broker, "POST", &path("subscription/end/skip/-1"), "").0, 412);
    assert_eq!(told(&broker, "PUT", "/admin/v2/non-persistent/public/default/n/subscription/s", "").0, 405);
}

#[tokio::test]
async fn a_reset_by_time_and_an_expiry_find_their_place() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    publish(&producer, numbers(0..10)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    let between = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let later = publish(&producer, numbers(10..15)).await;
    texts(&consumer, 15).await.iter().for_each(drop);
    let found: Value = json(&broker, &path(&format!("messageid/{between}")));
    assert_eq!((found["ledgerId"].as_u64(), found["entryId"].as_u64()), (Some(later[0].ledger), Some(later[0].entry)));
    assert_eq!(told(&broker, "POST", &path(&format!("subscription/s/resetcursor/{between}")), ""), done());
    assert_eq!(text(&next(&consumer).await), "10", "the consumer came back by itself");
    assert_eq!(told(&broker, "POST", &path("subscription/s/resetcursor"), r#"{"ledgerId":-1,"entryId":-1}"#), done());
    eventually("it begins again", || async { text(&next(&consumer).await) == "0" }).await;
    assert_eq!(told(&broker, "POST", &path("all_subscription/expireMessages/1"), ""), done());
    assert_eq!(backlog(&broker, "s"), Some(5));
    let id = json!({"ledgerId": later[2].ledger, "entryId": later[2].entry}).to_string();
    assert_eq!(told(&broker, "POST", &path("subscription/s/expireMessages"), &id), done());
    assert_eq!(backlog(&broker, "s"), Some(2));
}

#[tokio::test]
async fn messages_are_looked_at_without_being_consumed() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = soon("a producer", client.producer("t", ProducerOptions { name: Some("me".to_owned()), ..ProducerOptions::default() }));
    let producer = producer.await.expect("a producer");
    assert_eq!(told(&broker, "PUT", &path("subscription/s"), ""), done());
    let first = Message::new("one").key("k").property("colour", "grün").property("a", "b");
    let first = soon("a receipt", producer.send(first)).await.expect("stored");
    let batch = publish_batch(&producer, 7, 3).await;
    let (head, body) = message(&broker, "subscription/s/position/1");
    assert_eq!(body, "one");
    for header in [
        format!("x-pulsar-message-id: {}:{}", first.ledger, first.entry),
        "x-pulsar-producer-name: me".to_owned(),
        "x-pulsar-partition-key: k".to_owned(),
        r#"x-pulsar-property: {"colour":"gr\u00fcn","a":"b"}"#.to_owned(),
        "content-type: application/octet-stream".to_owned(),
    ] {
        assert!(head.contains(&header), "{header} in {head}");
    }
    assert!(!head.contains("x-pulsar-num-batch-message"), "{head}");
    for what in
        ["subscription/s/position/2".to_owned(), format!("ledger/{}/entry/{}", batch.ledger, batch.entry), "examinemessage".to_owned()]
    {
        let (head, body) = message(&broker, &what);
        assert!(head.contains("x-pulsar-num-batch-message: 3"), "{head}");
        assert!(body.contains('7') && body.contains('9'), "the whole batch");
    }
    assert_eq!(message(&broker, "examinemessage?initialPosition=earliest&messagePosition=1").1, "one");
    // Tools peek under names of their own, which does not make a subscription.
    assert_eq!(message(&broker, "subscription/none/position/1").1, "one");
    assert_eq!(backlog(&broker, "none"), None);
    assert_eq!(backlog(&broker, "s"), Some(2));
    for what in ["subscription/s/position/3", "ledger/1/entry/99999"] {
        assert_eq!(told(&broker, "GET", &path(what), "").0, 404, "{what}");
    }
    assert_eq!(told(&broker, "PUT", "/admin/v2/persistent/public/default/p/partitions", "2").0, 204);
    let partitioned = told(&broker, "GET", "/admin/v2/persistent/public/default/p/subscription/s/position/1", "");
    assert_eq!((partitioned.0, reason(&partitioned)), (405, "Peek messages on a partitioned topic is not allowed".to_owned()));
}

#[tokio::test]
async fn a_terminated_topic_is_read_to_its_end_and_takes_nothing_more() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let sent = publish(&producer, numbers(0..5)).await;
    let end: Value = serde_json::from_str(&told(&broker, "POST", &path("terminate"), "").1).expect("JSON");
    assert_eq!((end["ledgerId"].as_u64(), end["entryId"].as_u64()), (Some(sent[4].ledger), Some(sent[4].entry)));
    let refused = soon("an answer", producer.send(Message::new("late"))).await.expect_err("the topic has ended");
    let refused = format!("{refused:?}");
    assert!(refused.contains("Terminated") || refused.contains("Closed") || refused.contains("closed"), "{refused}");
    assert_eq!(texts(&consumer, 5).await, numbers(0..5));
    for restart in [false, true] {
        if restart {
            broker.kill();
            broker.restart();
        }
        let client = plain(&broker).await;
        let refused = soon("an answer", client.producer("t", ProducerOptions::default())).await.expect_err("the topic has ended");
        assert!(format!("{refused:?}").contains("Terminated"), "{refused:?}");
        assert_eq!(json(&broker, &path("internalStats"))["state"], "Terminated");
        let reader = consume(&client, "t", ConsumerOptions::reader(Start::Earliest)).await;
        assert_eq!(texts(&reader, 5).await, numbers(0..5));
        settle(&reader).await;
    }
    assert_eq!(told(&broker, "PUT", "/admin/v2/persistent/public/default/p/partitions", "2").0, 204);
    let partitioned = told(&broker, "POST", "/admin/v2/persistent/public/default/p/terminate", "");
    assert_eq!((partitioned.0, reason(&partitioned)), (405, "Termination of a partitioned topic is not allowed".to_owned()));
    let ends: Value =
        serde_json::from_str(&told(&broker, "POST", "/admin/v2/persistent/public/default/p/terminate/partitions", "").1).expect("JSON");
    assert_eq!((&ends["0"]["partitionIndex"], &ends["1"]["partitionIndex"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn a_partitioned_topic_is_administered_as_one() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let topic = "/admin/v2/persistent/public/default/p";
    assert_eq!(told(&broker, "PUT", &format!("{topic}/partitions"), "2").0, 204);
    assert_eq!(told(&broker, "PUT", &format!("{topic}/subscription/s"), r#"{"ledgerId":-1,"entryId":-1}"#), done());
    for n in 0..2 {
        let producer = produce(&client, &format!("p-partition-{n}")).await;
        publish(&producer, numbers(0..3)).await;
    }
    let backlog = || json(&broker, &format!("{topic}/partitioned-stats"))["subscriptions"]["s"]["msgBacklog"].as_u64();
    assert_eq!(backlog(), Some(6));
    assert_eq!(told(&broker, "POST", &format!("{topic}/subscription/s/skip/1"), "").0, 405);
    assert_eq!(told(&broker, "POST", &format!("{topic}/subscription/s/skip_all"), ""), done());
    assert_eq!(backlog(), Some(0));
    assert_eq!(told(&broker, "POST", &format!("{topic}/subscription/s/resetcursor/0"), ""), done());
    assert_eq!(backlog(), Some(6));
    assert_eq!(told(&broker, "PUT", &format!("{topic}/compaction"), ""), done());
    eventually("compacted", || async { told(&broker, "GET", &format!("{topic}/compaction"), "").1.contains("SUCCESS") }).await;
    assert_eq!(told(&broker, "DELETE", &format!("{topic}/truncate"), ""), done());
    assert_eq!(backlog(), Some(0));
    assert_eq!(told(&broker, "POST", &format!("{topic}/trim"), ""), done());
    assert_eq!(told(&broker, "POST", &format!("{topic}/createMissedPartitions"), ""), done());
    assert_eq!(told(&broker, "DELETE", &format!("{topic}/subscription/s"), ""), done());
    let internal = json(&broker, &format!("{topic}/partitioned-internalStats"));
    assert_eq!(internal["partitions"].as_object().map(serde_json::Map::len), Some(2));
}

#[tokio::test]
async fn what_is_noted_on_topics_is_kept() {
    let mut broker = Broker::start();
    let topic = "/admin/v2/persistent/public/default";
    assert_eq!(told(&broker, "PUT", &format!("{topic}/plain"), r#"{"a":"1"}"#), done());
    assert_eq!(told(&broker, "PUT", &format!("{topic}/p/partitions"), "2").0, 204);
    for name in ["plain", "p"] {
        assert_eq!(told(&broker, "PUT", &format!("{topic}/{name}/properties"), r#"{"b":"2","c":"3"}"#), done());
        assert_eq!(told(&broker, "DELETE", &format!("{topic}/{name}/properties?key=c"), ""), done());
    }
    broker.kill();
    broker.restart();
    assert_eq!(told(&broker, "GET", &format!("{topic}/plain/properties"), ""), (200, r#"{"a":"1","b":"2"}"#.into()));
    assert_eq!(told(&broker, "GET", &format!("{topic}/p/properties"), ""), (200, r#"{"b":"2"}"#.into()));
    assert_eq!(told(&broker, "GET", &format!("{topic}/none/properties"), "").0, 404);
}
