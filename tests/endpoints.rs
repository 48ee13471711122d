//! `endpoints.json`: where scripts that asked for free ports find the broker.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use geminga_tests::harness::{Broker, PATIENCE, host_and_port};

use crate::talk::{numbers, plain, produce, publish};

#[tokio::test]
async fn the_file_names_what_is_listening_and_goes_with_the_broker() {
    let mut broker = Broker::start();
    let file = broker.data().join("endpoints.json");
    let json = broker.endpoints().json.clone();
    assert_eq!(json["pid"], broker.pid());
    assert!(json["pulsarTls"].is_null() && json["https"].is_null(), "{json}");
    let listeners = json["listeners"].as_array().expect("a list of listeners");
    assert!(listeners.iter().all(|listener| listener["name"].is_string() && listener["url"].is_string()), "{json}");
    assert!(listeners.iter().any(|listener| listener["url"] == json["pulsar"]), "{json}");
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..1)).await;

    let status = broker.stop();
    assert!(status.success(), "{status}");
    assert!(!file.exists(), "a stopped broker leaves no endpoints");
    broker.restart();
    assert!(file.exists());
}

#[test]
fn http_answers_on_the_port_that_the_file_names() {
    let broker = Broker::start();
    for (path, status) in [("/admin/v2/brokers/health", "200"), ("/metrics", "200"), ("/", "200"), ("/admin/v2/no/such/thing", "404")] {
        let answer = get(broker.http(), path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "GET {path}: {answer}");
    }
}

fn get(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(host_and_port(url)).expect("HTTP is listening");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}
