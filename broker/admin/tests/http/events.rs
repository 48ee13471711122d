//! Events: what a stream says at first and later, how one that was cut goes on, and how many there may be.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use geminga_admin::AdminOptions;
use serde_json::{Value, json};

use super::{ask_at, connect, start};

struct Stream(BufReader<TcpStream>);

/// One event.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

impl Stream {
    /// Opens one; the status is that of the answer.
    fn open(to: SocketAddr, query: &str, headers: &str) -> (u16, Self) {
        let mut stream = connect(to);
        write!(stream, "GET /geminga/v1/events?{query} HTTP/1.1\r\nHost: h\r\n{headers}\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        super::noted("GET", "/geminga/v1/events", status);
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        (status, Self(reader))
    }

    fn next(&mut self) -> Event {
        let (mut id, mut kind, mut data) = (None, String::new(), Value::Null);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.to_owned());
            } else if let Some(text) = line.strip_prefix("event: ") {
                kind = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str(text).unwrap();
            } else if line.is_empty() && !kind.is_empty() {
                return Event { id, kind, data };
            }
        }
    }

    fn next_of(&mut self, channel: &str) -> Event {
        loop {
            let event = self.next();
            if event.data["ch"] == channel {
                return event;
            }
        }
    }
}

fn own() -> SocketAddr {
    start(AdminOptions::default(), |_| ())
}

fn audited() -> (tempfile::TempDir, SocketAddr) {
    let directory = tempfile::tempdir().unwrap();
    let files = geminga_admin::AuditFiles { directory: directory.path().to_owned(), max_bytes: 1 << 20 };
    (directory, start(AdminOptions { audit: Some(files), ..AdminOptions::default() }, |_| ()))
}

fn change(at: SocketAddr, tenant: &str) {
    let body = r#"{"allowedClusters":["standalone"]}"#;
    assert_eq!(ask_at(at, "PUT", &format!("/admin/v2/tenants/{tenant}"), body).status, 204);
}

#[test]
fn a_stream_says_hello_and_then_what_there_is_again_and_again() {
    let own = own();
    let (status, mut stream) = Stream::open(own, "channels=overview,alarms", "");
    assert_eq!(status, 200);
    let hello = stream.next();
    assert_eq!((hello.kind.as_str(), &hello.data["channels"]), ("hello", &json!(["alarms", "overview"])));
    let first = stream.next_of("overview");
    assert_eq!(first.kind, "delta");
    assert_eq!(first.data["cluster"], "standalone");
    let second = stream.next_of("overview");
    assert!(second.data["uptimeMs"].as_u64() > first.data["uptimeMs"].as_u64() && second.id > first.id, "{second:?}");
    // Who comes later has something to begin with.
    let (_, mut later) = Stream::open(own, "channels=overview", "");
    assert_eq!((later.next().kind.as_str(), later.next().kind.as_str()), ("hello", "snapshot"));
}

#[test]
fn a_stream_that_was_cut_goes_on_where_it_was() {
    let (_keep, own) = audited();
    let (_, mut stream) = Stream::open(own, "channels=audit", "");
    assert_eq!(stream.next().kind, "hello");
    change(own, "first");
    let first = stream.next();
    assert_eq!((first.kind.as_str(), &first.data["resource"]), ("event", &json!("first")));
    drop(stream);
    change(own, "second");
    change(own, "third");
    let (_, mut again) = Stream::open(own, "channels=audit", &format!("Last-Event-ID: {}\r\n", first.id.unwrap()));
    let resources: Vec<_> = [again.next(), again.next(), again.next()].into_iter().map(|event| event.data["resource"].clone()).collect();
    assert_eq!(resources, [Value::Null, json!("second"), json!("third")], "hello, and what was missed");
    let (_, mut strange) = Stream::open(own, "channels=audit", "Last-Event-ID: other.7\r\n");
    assert_eq!(strange.next().kind, "hello");
    change(own, "fourth");
    assert_eq!(strange.next().data["resource"], "fourth", "nothing old for a number of another run");
}

#[test]
fn one_address_may_listen_four_times_and_a_fifth_is_told_to_wait() {
    let own = own();
    let open: Vec<_> = (0..4).map(|_| Stream::open(own, "channels=ops", "")).collect();
    assert!(open.iter().all(|(status, _)| *status == 200));
    let told = ask_at(own, "GET", "/geminga/v1/events?channels=ops", "");
    assert_eq!(told.status, 429, "{told:?}");
    assert!(told.head.contains("retry-after: "), "{told:?}");
    drop(open);
    // Their ends are noticed when they are noticed.
    let again = (0..500).any(|_| Stream::open(own, "channels=ops", "").0 == 200);
    assert!(again, "places are given back");
}

#[test]
fn channels_that_are_none_are_refused() {
    let own = own();
    for query in ["channels=weather", "channels=", "channels=overview&intervalMs=5"] {
        assert_eq!(ask_at(own, "GET", &format!("/geminga/v1/events?{query}"), "").status, 400, "{query}");
    }
}

#[test]
fn a_topic_has_a_channel_of_its_own() {
    let own = own();
    assert_eq!(ask_at(own, "PUT", "/admin/v2/persistent/public/default/heard", "").status, 204);
    let name = "topic:persistent://public/default/heard";
    let (_, mut stream) = Stream::open(own, &format!("channels={name}"), "");
    assert_eq!(stream.next_of(name).data["name"], "persistent://public/default/heard");
}

#[test]
fn a_ticket_is_given() {
    let own = own();
    let ticket = ask_at(own, "POST", "/geminga/v1/events/tickets", "").json();
    assert_eq!(ticket["ticket"].as_str().unwrap().len(), 32, "{ticket}");
    let (status, _) = Stream::open(own, &format!("channels=ops&ticket={}", ticket["ticket"].as_str().unwrap()), "");
    assert_eq!(status, 200);
}
