//! Acks of single messages of a batch: what is left of it comes again, what was acked does not, also after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use client::ConsumerOptions;
use geminga_tests::harness::{Broker, eventually, soon};

use crate::talk::{consume, next, plain, produce, publish_batch, settle, text};

fn shared() -> ConsumerOptions {
    ConsumerOptions { batch_index_acks: true, ..ConsumerOptions::shared("s") }
}

#[tokio::test]
async fn only_the_rest_of_a_batch_comes_after_a_clean_restart() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", shared()).await;
    for batch in 0..3 {
        publish_batch(&producer, batch * 10, 10).await;
    }
    let acked = [0, 3, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 25];
    for _ in 0..30 {
        let message = next(&consumer).await;
        if acked.contains(&text(&message).parse::<usize>().expect("a number")) {
            consumer.ack(&message);
        }
    }
    settle(&consumer).await;
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", shared()).await;
    let left: Vec<usize> = (0..30).filter(|n| !acked.contains(n)).collect();
    let mut got = Vec::new();
    for _ in 0..left.len() {
        got.push(text(&next(&consumer).await).parse::<usize>().expect("a number"));
    }
    assert_eq!(got, left);
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 0);
}

#[tokio::test]
async fn of_100_000_messages_every_second_acked_none_of_those_comes_back() {
    const MESSAGES: usize = 100_000;
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", shared()).await;
    for batch in 0..MESSAGES / 100 {
        publish_batch(&producer, batch * 100, 100).await;
    }
    for _ in 0..MESSAGES {
        let message = next(&consumer).await;
        if text(&message).parse::<usize>().expect("a number").is_multiple_of(2) {
            consumer.ack(&message);
        }
    }
    settle(&consumer).await;
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", shared()).await;
    let mut got = BTreeSet::new();
    for _ in 0..MESSAGES / 2 {
        let number = text(&next(&consumer).await).parse::<usize>().expect("a number");
        assert!(number % 2 == 1, "{number} was acked and came back");
        assert!(got.insert(number), "{number} came twice");
    }
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 0);
}

#[tokio::test]
async fn slow_acks_do_not_make_storage_read_entries_again_and_again() {
    const ENTRIES: u64 = 1_000;
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", shared()).await;
    soon("closing", consumer.close()).await.expect("closed");
    for batch in 0..ENTRIES as usize {
        publish_batch(&producer, batch * 100, 100).await;
    }
    // After a restart nothing is cached.
    assert!(broker.stop().success());
    broker.restart();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions { receiver_queue: 1_000, ..shared() }).await;
    let mut held = Vec::new();
    for n in 0..ENTRIES * 100 {
        held.push(next(&consumer).await);
        if held.len() == 5_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            held.drain(..).rev().for_each(|message| consumer.ack(&message));
        }
        assert!(n < ENTRIES * 100);
    }
    held.drain(..).for_each(|message| consumer.ack(&message));
    settle(&consumer).await;
    eventually("no backlog", || async { soon("stats", consumer.stats()).await.expect("stats").msg_backlog() == 0 }).await;
    let reads = metric(&broker, "geminga_storage_read_entries_total");
    eprintln!("{reads} entries read of {ENTRIES}");
    assert!(reads >= ENTRIES as f64 && reads <= ENTRIES as f64 * 1.1, "{reads} entries were read from storage for {ENTRIES}");
}

/// The sum of a metric over all its label sets.
fn metric(broker: &Broker, name: &str) -> f64 {
    use std::io::{Read, Write};
    let address = geminga_tests::harness::host_and_port(broker.http());
    let mut stream = std::net::TcpStream::connect(address).expect("the HTTP port is open");
    stream.write_all(b"GET /metrics/ HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("an answer");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with(name)).collect();
    assert!(!lines.is_empty(), "no {name} in {page}");
    lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
