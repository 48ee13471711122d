//! Being told which topics match a pattern, and when one comes or goes.

use client::ConsumerOptions;
use geminga_tests::harness::{Broker, Setup};
use wire::{Command, proto};

use crate::talk::{Wire, consume, plain, produce};

async fn watch(wire: &mut Wire, watcher_id: u64, topics_pattern: &str) -> Command {
    let (namespace, topics_pattern) = ("public/default".to_owned(), topics_pattern.to_owned());
    wire.request(|request_id| proto::CommandWatchTopicList { request_id, watcher_id, namespace, topics_pattern, topics_hash: None }.into())
        .await
}

fn hash(topics: &[String]) -> String {
    crc32c::crc32c(topics.join(",").as_bytes()).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn update(wire: &mut Wire) -> (u64, Vec<String>, Vec<String>, String) {
    match wire.next().await.command {
        Command::WatchTopicUpdate(update) => (update.watcher_id, update.new_topics, update.deleted_topics, update.topics_hash),
        other => panic!("{other:?}"),
    }
}

fn full(local: &str) -> String {
    format!("persistent://public/default/{local}")
}

#[tokio::test]
async fn a_watcher_hears_of_topics_that_come_and_go_until_it_is_closed() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _first = produce(&client, "foo-1").await;
    let _other = produce(&client, "bar-1").await;
    let mut wire = Wire::connect(&broker).await;
    match watch(&mut wire, 7, "persistent://public/default/foo-.*").await {
        Command::WatchTopicListSuccess(success) => {
            assert_eq!((success.watcher_id, &success.topic), (7, &vec![full("foo-1")]));
            assert_eq!(success.topics_hash, hash(&success.topic));
        }
        other => panic!("{other:?}"),
    }
    let _bar = produce(&client, "bar-2").await;
    let second = consume(&client, "foo-2", ConsumerOptions::new("s")).await;
    assert_eq!(update(&mut wire).await, (7, vec![full("foo-2")], vec![], hash(&[full("foo-1"), full("foo-2")])));
    drop(second);
    delete(&broker, "foo-2");
    assert_eq!(update(&mut wire).await, (7, vec![], vec![full("foo-2")], hash(&[full("foo-1")])));
    let answer = wire.request(|request_id| proto::CommandWatchTopicListClose { request_id, watcher_id: 7 }.into()).await;
    assert!(matches!(answer, Command::Success(_)), "{answer:?}");
    let _third = produce(&client, "foo-3").await;
    assert!(wire.raw.is_quiet_for(std::time::Duration::from_millis(300)).await.expect("connected"));
}

/// Deletes a topic over HTTP, whoever uses it.
fn delete(broker: &Broker, local: &str) {
    use std::io::{Read, Write};
    let address = geminga_tests::harness::host_and_port(broker.http());
    let mut stream = std::net::TcpStream::connect(address).expect("the HTTP port is open");
    let path = format!("/admin/v2/persistent/public/default/{local}?force=true");
    stream.write_all(format!("DELETE {path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

#[tokio::test]
async fn patterns_that_cannot_be_used_are_refused_and_the_flag_tells_whether_any_can() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    for bad in ["(", &"x".repeat(51)] {
        assert!(matches!(watch(&mut wire, 1, bad).await, Command::Error(_)), "{bad}");
    }
    let off = Setup::default().set("enableBrokerTopicListWatcher", false).start();
    let mut wire = Wire::connect(&off).await;
    assert!(matches!(watch(&mut wire, 1, ".*").await, Command::Error(_)));
    for (broker, expected) in [(&broker, true), (&off, false)] {
        let mut raw = client::raw::RawConnection::open(broker.url()).await.expect("connected");
        raw.send(proto::CommandConnect { client_version: "watching".into(), ..Default::default() }).await.expect("sent");
        match raw.recv_command().await.expect("an answer") {
            Command::Connected(connected) => {
                assert_eq!(connected.feature_flags.unwrap_or_default().supports_topic_watchers(), expected);
            }
            other => panic!("{other:?}"),
        }
    }
}
