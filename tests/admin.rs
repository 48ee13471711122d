//! Administration over HTTP, as tools see it from outside: answers exact to the byte where tools compare them, and numbers that
//! follow what clients do.

use std::io::{Read, Write};
use std::net::TcpStream;

use client::{Client, ConsumerOptions, Message, Options, ProducerOptions};
use geminga_tests::harness::{Broker, PATIENCE, eventually, host_and_port, soon};
use serde_json::{Value, json};

/// Status, head and body of one answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}{}", self.head, self.body))
    }
}

fn ask(broker: &Broker, method: &str, path: &str, body: &str) -> Answer {
    ask_as(broker, None, method, path, body)
}

fn ask_as(broker: &Broker, token: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(host_and_port(broker.http())).expect("the HTTP port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = body.len();
    let who = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n{who}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {head}"));
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// The answer to a whole request, as it comes.
pub(crate) fn raw(broker: &Broker, request: &str) -> String {
    let mut stream = TcpStream::connect(host_and_port(broker.http())).expect("the HTTP port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

fn get(broker: &Broker, path: &str) -> Answer {
    ask(broker, "GET", path, "")
}

/// An answer that is JSON.
pub(crate) fn json(broker: &Broker, path: &str) -> Value {
    get(broker, path).json()
}

pub(crate) fn topic_stats(broker: &Broker, topic: &str) -> Value {
    json(broker, &format!("/admin/v2/{topic}/stats"))
}

pub(crate) fn unload(broker: &Broker, topic: &str) {
    assert_eq!(told(broker, "PUT", &format!("/admin/v2/{topic}/unload"), "").0, 204);
}

/// Status and body.
pub(crate) fn told(broker: &Broker, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = ask(broker, method, path, body);
    (answer.status, answer.body)
}

/// Status and body of what is asked with a token, or with none.
pub(crate) fn told_as(broker: &Broker, token: Option<&str>, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = ask_as(broker, token, method, path, body);
    (answer.status, answer.body)
}

#[test]
fn a_fresh_broker_answers_what_readiness_probes_ask() {
    let broker = Broker::start();
    let clusters = get(&broker, "/admin/v2/clusters");
    assert_eq!((clusters.status, clusters.body.as_str()), (200, r#"["standalone"]"#));
    assert_eq!(told(&broker, "GET", "/admin/v2/brokers/health", ""), (200, "ok".into()));
    assert_eq!(told(&broker, "GET", "/admin/v2/namespaces/public", ""), (200, r#"["public/default"]"#.into()));
    assert_eq!(get(&broker, "/admin/v2/namespaces/public/default").status, 200);
    let metrics = get(&broker, "/metrics/");
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.body.contains("pulsar_version_info{cluster=\"standalone\""), "{}", metrics.body);
    assert_eq!(get(&broker, "/").status, 200);
}

#[test]
fn a_lookup_names_the_broker_and_leaves_no_key_out() {
    let broker = Broker::start();
    let lookup = get(&broker, "/lookup/v2/topic/persistent/public/default/t").json();
    let expected = json!({
        "brokerUrl": broker.url(), "brokerUrlTls": "", "httpUrl": broker.http(), "httpUrlTls": "", "nativeUrl": broker.url(),
    });
    assert_eq!(lookup, expected);
}

#[test]
fn what_is_not_served_yet_is_404_with_a_reason() {
    let broker = Broker::start();
    for path in ["/admin/v2/no/such/path", "/admin/v3/functions/public/default/f"] {
        let answer = get(&broker, path);
        assert_eq!(answer.status, 404, "{path}");
        let reason = answer.json()["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("does not serve it yet"), "{reason}");
    }
}

#[test]
fn topics_survive_a_restart_as_they_were_administered() {
    let mut broker = Broker::start();
    let topics = "/admin/v2/persistent/public/default";
    assert_eq!(told(&broker, "PUT", &format!("{topics}/t/partitions"), "3").0, 204);
    assert_eq!(told(&broker, "PUT", &format!("{topics}/t/partitions"), "3").0, 409);
    assert_eq!(told(&broker, "PUT", &format!("{topics}/plain"), "").0, 204);
    broker.restart();
    assert_eq!(told(&broker, "GET", &format!("{topics}/t/partitions"), ""), (200, r#"{"partitions":3}"#.into()));
    assert_eq!(get(&broker, topics).json().as_array().map(Vec::len), Some(4));
    assert_eq!(told(&broker, "DELETE", &format!("{topics}/t/partitions"), "").0, 204);
    assert_eq!(told(&broker, "DELETE", &format!("{topics}/t/partitions"), "").0, 404);
    assert_eq!(told(&broker, "GET", topics, ""), (200, r#"["persistent://public/default/plain"]"#.into()));
}

#[tokio::test]
async fn numbers_follow_what_clients_do() {
    let broker = Broker::start();
    let client = Client::new(broker.url(), Options::default()).expect("a service URL");
    let topic = "/admin/v2/persistent/public/default/busy";
    let producer = soon("producer", client.producer("busy", ProducerOptions::default())).await.expect("a producer");
    let consumer = soon("consumer", client.consumer("busy", ConsumerOptions::new("sub"))).await.expect("a consumer");
    for payload in ["a", "b", "c"] {
        soon("receipt", producer.send(Message::new(payload))).await.expect("a receipt");
    }
    let first = soon("message", consumer.recv()).await.expect("a message");
    consumer.ack_cumulative(&first);
    eventually("the backlog shrinks by what was acknowledged", async || {
        let stats = get(&broker, &format!("{topic}/stats")).json();
        stats["subscriptions"]["sub"]["msgBacklog"] == 2
    })
    .await;
    let stats = get(&broker, &format!("{topic}/stats")).json();
    assert_eq!((&stats["msgInCounter"], &stats["msgOutCounter"]), (&json!(3), &json!(3)), "{stats}");
    assert_eq!(stats["publishers"][0]["producerName"], producer.name().as_ref(), "{stats}");
    let subscription = &stats["subscriptions"]["sub"];
    assert_eq!((&subscription["type"], &subscription["isDurable"]), (&json!("Exclusive"), &json!(true)), "{stats}");
    assert_eq!(subscription["consumers"].as_array().map(Vec::len), Some(1), "{stats}");
    assert_eq!(get(&broker, &format!("{topic}/subscriptions")).body, r#"["sub"]"#);
    assert_eq!(get(&broker, &format!("{topic}/internalStats")).json()["numberOfEntries"], 3);
    let labels = r#"{cluster="standalone",namespace="public/default",topic="persistent://public/default/busy"}"#;
    let metrics = get(&broker, "/metrics").body;
    for sample in [format!("pulsar_in_messages_total{labels} 3"), format!("pulsar_msg_backlog{labels} 2")] {
        assert!(metrics.lines().any(|line| line == sample), "{sample} is not in\n{metrics}");
    }
    assert_eq!(told(&broker, "DELETE", topic, "").0, 412, "a topic in use stays");
    soon("close", producer.close()).await.expect("closed");
    soon("close", consumer.close()).await.expect("closed");
    let stats = get(&broker, &format!("{topic}/stats")).json();
    assert_eq!(stats["publishers"], json!([]), "{stats}");
    assert_eq!(told(&broker, "DELETE", topic, "").0, 412, "a subscription keeps it too");
    assert_eq!(told(&broker, "DELETE", &format!("{topic}?force=true"), "").0, 204);
    assert_eq!(get(&broker, &format!("{topic}/stats")).status, 404);
}
