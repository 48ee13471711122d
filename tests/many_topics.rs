//! Many topics on one broker: none disturbs another, and all are there after a restart.

use client::{Client, ConsumerOptions, Inbox, Item, Message, ProducerOptions, Receipts};
use geminga_tests::harness::{Broker, soon};

use crate::talk::{persistent, plain};

const TOPICS: usize = 300;
const EACH: usize = 10;

async fn publish_everywhere(client: &Client) {
    let receipts = Receipts::new();
    let mut producers = Vec::new();
    for topic in 0..TOPICS {
        let options = ProducerOptions { receipts: receipts.clone(), ..ProducerOptions::default() };
        producers.push(soon("a producer", client.producer(&format!("many-{topic}"), options)).await.unwrap());
    }
    for n in 0..EACH {
        for (topic, producer) in producers.iter().enumerate() {
            producer.try_send(Message::new(format!("{topic}:{n}")), 0).expect("room");
        }
    }
    let mut got = Vec::new();
    while got.len() < TOPICS * EACH {
        soon("receipts", receipts.next(&mut got)).await;
    }
    assert!(got.iter().all(|receipt| receipt.outcome.is_ok()));
}

/// Reads everything from the earliest on, and checks that each topic has its own messages in order, as often as they were published.
async fn check_everywhere(client: &Client, times: usize) {
    let inbox = Inbox::new();
    let mut consumers = Vec::new();
    for topic in 0..TOPICS {
        let options = ConsumerOptions { inbox: inbox.clone(), tag: topic as u64, ..ConsumerOptions::reader(client::Start::Earliest) };
        consumers.push(soon("a reader", client.consumer(&format!("many-{topic}"), options)).await.unwrap());
    }
    let mut counts = vec![0; TOPICS];
    let mut items = Vec::new();
    while counts.iter().sum::<usize>() < TOPICS * EACH * times {
        soon("messages", inbox.next_many(&mut items, 1000)).await;
        for item in items.drain(..) {
            let Item::Message(message) = item else { panic!("{item:?}") };
            let topic = usize::try_from(message.consumer()).unwrap();
            assert_eq!(message.payload, format!("{topic}:{}", counts[topic] % EACH));
            counts[topic] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count == EACH * times));
}

#[tokio::test]
async fn every_topic_has_its_own_messages_also_after_a_kill() {
    let mut broker = Broker::start();
    publish_everywhere(&plain(&broker).await).await;
    check_everywhere(&plain(&broker).await, 1).await;
    broker.kill();
    broker.restart();
    publish_everywhere(&persistent(&broker).await).await;
    check_everywhere(&plain(&broker).await, 2).await;
}
