//! Our own API over a broker that works: settings that act at once and after a restart, messages that are looked at, connections that
//! are closed, and who may and did what.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use client::{ConsumerOptions, Credentials, Message, ServerError};
use geminga_tests::harness::{Broker, PATIENCE, Setup, eventually, host_and_port, soon};
use serde_json::{Value, json};

use crate::admin::{json, raw, told, told_as};
use crate::talk::{by_hand, consume, next, numbers, plain, produce, publish, publish_batch, settle, text};
use crate::tokens::{Keys, connect};

const TOPIC: &str = "persistent://public/default/t";

fn set(broker: &Broker, key: &str, value: Value) {
    let body = json!({ "changes": [{ "key": key, "value": value }] }).to_string();
    let (status, told) = told(broker, "POST", "/geminga/v1/config:apply", &body);
    assert_eq!(status, 200, "{told}");
}

fn setting(broker: &Broker, key: &str) -> (Value, Value) {
    let item = json(broker, &format!("/geminga/v1/config/{key}"));
    (item["value"].clone(), item["source"].clone())
}

#[tokio::test]
async fn a_setting_that_is_changed_acts_at_once_and_after_a_restart() {
    let mut broker = Setup::default().set("maxUnackedMessagesPerConsumer", 100).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    publish(&producer, numbers(0..10)).await;
    let first = next(&consumer).await;
    set(&broker, "allowAutoTopicCreation", json!(false));
    assert_eq!(setting(&broker, "allowAutoTopicCreation"), (json!("false"), json!("dynamic")));
    eventually("no topic comes by itself any more", || async {
        let name = format!("persistent://public/default/new{}", fastrand());
        client.producer(&name, client::ProducerOptions::default()).await.is_err()
    })
    .await;
    consumer.ack(&first);
    // Pulsar's tools see the same.
    assert_eq!(json(&broker, "/admin/v2/brokers/configuration/values"), json!({ "allowAutoTopicCreation": "false" }));
    assert_eq!(told(&broker, "POST", "/admin/v2/brokers/configuration/numIOThreads/4", "").0, 412);
    assert_eq!(told(&broker, "POST", "/admin/v2/brokers/configuration/keepAliveIntervalSeconds/soon", "").0, 412);
    assert!(broker.stop().success());
    broker.restart();
    assert_eq!(setting(&broker, "allowAutoTopicCreation"), (json!("false"), json!("dynamic")));
    let client = plain(&broker).await;
    assert!(client.producer("persistent://public/default/other", client::ProducerOptions::default()).await.is_err());
    assert_eq!(told(&broker, "DELETE", "/admin/v2/brokers/configuration/allowAutoTopicCreation", "").0, 204);
    eventually("topics come by themselves again", || async {
        client.producer("persistent://public/default/other", client::ProducerOptions::default()).await.is_ok()
    })
    .await;
    assert_eq!(setting(&broker, "maxUnackedMessagesPerConsumer"), (json!("100"), json!("cli")));
}

#[tokio::test]
async fn a_changed_setting_is_what_holds_where_no_policy_says_otherwise() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _producer = produce(&client, "t").await;
    let (namespace, topic) = ("/admin/v2/namespaces/public/default", "/admin/v2/persistent/public/default/t");
    let applied = || json(&broker, &format!("{topic}/messageTTL?applied=true"));
    set(&broker, "ttlDurationDefaultInSeconds", json!("77"));
    assert_eq!(applied(), json!(77));
    assert_eq!(told(&broker, "POST", &format!("{namespace}/messageTTL"), "50").0, 204);
    set(&broker, "ttlDurationDefaultInSeconds", json!("78"));
    assert_eq!(applied(), json!(50), "the namespace says otherwise");
    assert_eq!(told(&broker, "DELETE", &format!("{namespace}/messageTTL"), "").0, 204);
    assert_eq!(applied(), json!(78));

    let creation = format!("{namespace}/autoTopicCreation");
    assert_eq!(told(&broker, "POST", &creation, r#"{"allowAutoTopicCreation":true,"topicType":"non-partitioned"}"#).0, 204);
    set(&broker, "allowAutoTopicCreation", json!("false"));
    produce(&client, "allowed").await;
    assert_eq!(told(&broker, "DELETE", &creation, "").0, 204);
    assert!(client.producer("persistent://public/default/refused", client::ProducerOptions::default()).await.is_err());
}

#[tokio::test]
async fn a_changed_limit_stops_and_frees_a_loaded_topic() {
    let broker = Setup::default().set("maxUnackedMessagesPerConsumer", 3).start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    publish(&producer, numbers(0..10)).await;
    consumer.flow(10);
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 3);
    set(&broker, "maxUnackedMessagesPerConsumer", json!("5"));
    eventually("two more", || async { consumer.waiting() == 5 }).await;
}

/// A name that nobody used.
fn fastrand() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[tokio::test]
async fn the_level_of_the_log_changes_while_the_broker_runs() {
    let broker = Broker::start();
    json(&broker, "/geminga/v1/whoami?first");
    assert!(!broker.log().contains("HTTP request"), "{}", broker.log());
    set(&broker, "logLevel", json!("info,admin=debug"));
    json(&broker, "/geminga/v1/whoami?second");
    eventually("a line at the new level", || async { broker.log().contains("HTTP request") }).await;
    let wrong = json!({ "changes": [{ "key": "logLevel", "value": "loud" }] }).to_string();
    assert_eq!(told(&broker, "POST", "/geminga/v1/config:apply", &wrong).0, 422);
}

#[tokio::test]
async fn messages_are_looked_at_without_a_subscription() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, numbers(0..3)).await;
    publish_batch(&producer, 3, 4).await;
    let keyed = Message { key: Some(client::Key::text("k")), ..Message::new(r#"{"pin":1}"#) };
    soon("a receipt", producer.send(keyed)).await.expect("stored");
    let browse = |query: &str| json(&broker, &format!("/geminga/v1/messages?topic={TOPIC}&{query}"));
    let values = |found: &Value| found["messages"].as_array().expect("messages").iter().map(|m| m["value"].clone()).collect::<Vec<_>>();
    let all = browse("from=earliest&limit=100");
    let expected: Vec<Value> = numbers(0..7).into_iter().map(Value::from).chain([json!({ "pin": 1 })]).collect();
    assert_eq!(values(&all), expected, "{all}");
    assert_eq!((&all["messages"][3]["batchIndex"], &all["messages"][4]["batchIndex"]), (&json!(0), &json!(1)));
    assert_eq!((&all["entriesRead"], all.get("nextFrom")), (&json!(5), None));
    let first = browse("from=earliest&limit=2");
    assert_eq!(values(&first).len(), 2);
    let rest = browse(&format!("limit=100&from={}", first["nextFrom"].as_str().expect("more")));
    assert_eq!(values(&rest), expected[2..]);
    assert_eq!(values(&browse("limit=1")), [json!({ "pin": 1 })], "the latest");
    assert_eq!(values(&browse("from=earliest&limit=100&key=k")), [json!({ "pin": 1 })]);
    assert_eq!(values(&browse("from=earliest&limit=100&contains=4")), [json!("4")]);
    let since = all["messages"][3]["publishTime"].as_str().expect("a time");
    assert!(values(&browse(&format!("from={since}&limit=100"))).contains(&json!("6")));
    assert!(values(&browse("from=2999-01-01T00:00:00Z")).is_empty());
    // Nobody has consumed anything, and nobody has subscribed.
    assert_eq!(crate::admin::topic_stats(&broker, "persistent/public/default/t")["subscriptions"], json!({}));
}

#[tokio::test]
async fn what_is_connected_is_listed_and_can_be_closed() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let _consumer = consume(&client, "t", ConsumerOptions::shared("s")).await;
    publish(&producer, numbers(0..5)).await;
    let list = |what: &str| json(&broker, &format!("/geminga/v1/{what}"))["items"].clone();
    assert_eq!((&list("producers")[0]["topic"], &list("producers")[0]["msgCounter"]), (&json!(TOPIC), &json!(5)));
    assert_eq!((&list("consumers")[0]["subscription"], &list("subscriptions")[0]["type"]), (&json!("s"), &json!("Shared")));
    let topic = &json(&broker, "/geminga/v1/topics?q=default/t&sort=-msgInCounter")["items"][0];
    assert_eq!(
        (&topic["producers"], &topic["consumers"], &topic["subscriptions"], &topic["msgInCounter"]),
        (&json!(1), &json!(1), &json!(1), &json!(5))
    );
    let connections = list("connections");
    let busy: Vec<&Value> = connections.as_array().expect("a list").iter().filter(|c| c["producers"] == 1).collect();
    assert_eq!(busy.len(), 1, "{connections}");
    let id = busy[0]["id"].as_str().expect("an id");
    assert_eq!(told(&broker, "POST", &format!("/geminga/v1/connections/{id}/close"), "").0, 204);
    eventually("it is gone", || async { list("connections").as_array().expect("a list").iter().all(|c| c["id"] != id) }).await;
    assert_eq!(told(&broker, "POST", &format!("/geminga/v1/connections/{id}/close"), "").0, 404);
}

#[tokio::test]
async fn who_asks_is_known_and_what_they_do_is_written_down() {
    let keys = Keys::new();
    let broker = keys.setup().set("authorizationEnabled", true).set("superUserRoles", "root").start();
    let (root, nobody) = (keys.token("root"), keys.token("nobody"));
    let ask = |token: Option<&str>, method: &str, path: &str, body: &str| told_as(&broker, token, method, path, body);
    let parsed = |(_, body): (u16, String)| serde_json::from_str::<Value>(&body).expect("JSON");
    assert_eq!(ask(None, "GET", "/geminga/v1/whoami", "").0, 401);
    let who = parsed(ask(Some(&nobody), "GET", "/geminga/v1/whoami", ""));
    assert_eq!((&who["principal"], &who["method"], &who["allowed"]["write"]), (&json!("nobody"), &json!("token"), &json!(false)));
    assert_eq!(parsed(ask(Some(&root), "GET", "/geminga/v1/whoami", ""))["roles"], json!(["superuser"]));
    for path in ["overview", "topics", "config", "audit", "messages?topic=t", "events", "definitions"] {
        assert_eq!(ask(None, "GET", &format!("/geminga/v1/{path}"), "").0, 401, "{path}");
        assert_eq!(ask(Some(&nobody), "GET", &format!("/geminga/v1/{path}"), "").0, 403, "{path}");
    }
    assert_eq!(ask(Some(&nobody), "PUT", "/admin/v2/tenants/mine", "{}").0, 403);
    let tenant = r#"{"adminRoles":["boss"],"allowedClusters":["standalone"]}"#;
    assert_eq!(ask(Some(&root), "PUT", "/admin/v2/tenants/acme", tenant).0, 204);
    let boss = parsed(ask(Some(&keys.token("boss")), "GET", "/geminga/v1/whoami", ""));
    assert_eq!((&boss["roles"], &boss["administers"]), (&json!(["tenant-admin"]), &json!(["acme"])));
    let lines = parsed(ask(Some(&root), "GET", "/geminga/v1/audit?resource=acme", ""));
    assert_eq!((&lines["items"][0]["principal"], &lines["items"][0]["status"]), (&json!("root"), &json!(204)), "{lines}");
    let refused = parsed(ask(Some(&root), "GET", "/geminga/v1/audit?resource=mine", ""));
    assert_eq!(refused["items"][0]["status"], 403, "{refused}");
    // A ticket stands for a header, once.
    let ticket = parsed(ask(Some(&root), "POST", "/geminga/v1/events/tickets", ""))["ticket"].as_str().expect("a ticket").to_owned();
    let open = |ticket: &str| {
        let mut stream = TcpStream::connect(host_and_port(broker.http())).expect("the port is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "GET /geminga/v1/events?channels=audit&ticket={ticket} HTTP/1.1\r\nHost: h\r\n\r\n").expect("taken");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        line
    };
    assert!(open(&ticket).contains("200"));
    assert!(open(&ticket).contains("401"));
    assert!(raw(&broker, "GET /geminga/v1/events?ticket=x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").contains("401"));
}

#[tokio::test]
async fn who_fails_to_log_in_again_and_again_is_kept_out_over_both_protocols() {
    let keys = Keys::new();
    let broker = keys.setup().set("maxFailedLoginsPerMinute", 3).start();
    let good = keys.token("me");
    assert!(connect(&broker, Credentials::Token(good.clone())).await.is_ok());
    assert_eq!(told_as(&broker, Some("nonsense"), "GET", "/admin/v2/tenants", "").0, 401);
    for _ in 0..2 {
        assert!(connect(&broker, Credentials::Token("nonsense".into())).await.is_err());
    }
    let error = connect(&broker, Credentials::Token(good.clone())).await.expect_err("kept out");
    assert_eq!(error.code(), Some(ServerError::AuthenticationError));
    assert!(error.to_string().contains("try again in"), "{error}");
    let (status, body) = told_as(&broker, Some(&good), "GET", "/admin/v2/tenants", "");
    assert_eq!(status, 429, "{body}");
    assert_eq!(told(&broker, "GET", "/admin/v2/clusters", "").0, 200, "what asks nobody is answered");
}

#[tokio::test]
async fn what_happens_is_told_while_messages_flow() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let mut stream = TcpStream::connect(host_and_port(broker.http())).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "GET /geminga/v1/events?channels=overview HTTP/1.1\r\nHost: h\r\n\r\n").expect("taken");
    let lines = BufReader::new(stream).lines();
    let (tell, told) = std::sync::mpsc::channel();
    // A stream ends with its broker.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(data) = line.strip_prefix("data: ") {
                let _ = tell.send(serde_json::from_str::<Value>(data).expect("JSON"));
            }
        }
    });
    eventually("a rate", || {
        let publishing = publish(&producer, ["m"]);
        let (told, consumer) = (&told, &consumer);
        async move {
            publishing.await;
            text(&next(consumer).await);
            told.try_iter().any(|state| state["rates"]["msgRateIn"].as_f64().is_some_and(|rate| rate > 0.0))
        }
    })
    .await;
}
