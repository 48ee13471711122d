//! Messages that are sent twice are stored once, as long as the broker is told to see to it.

use client::{Client, ConsumerOptions, Message, MessageId, Producer, ProducerOptions};
use geminga_tests::harness::{Broker, Setup, eventually, soon};
use wire::{Command, SendReceipt, proto};

use crate::talk::{Wire, consume, plain, texts};

fn deduplicating() -> Setup {
    Setup::default()
        .set("brokerDeduplicationEnabled", true)
        .set("brokerDeduplicationEntriesInterval", 10)
        .set("defaultRetentionTimeInMinutes", -1)
        .set("defaultRetentionSizeInMB", -1)
}

async fn named(client: &Client, name: &str) -> Producer {
    let options = ProducerOptions { name: Some(name.into()), ..ProducerOptions::default() };
    soon("a producer", client.producer("t", options)).await.unwrap()
}

/// Publishes the number of the sequence id; returns whether it was stored by that.
async fn sends(producer: &Producer, sequence: u64) -> bool {
    let id = soon("a receipt", producer.send(Message { sequence: Some(sequence), ..Message::new(sequence.to_string()) })).await.unwrap();
    id.entry != MessageId::EARLIEST.entry
}

async fn stored(broker: &Broker) -> Vec<String> {
    let client = plain(broker).await;
    let reader = consume(&client, "t", ConsumerOptions::reader(client::Start::Earliest)).await;
    let last = soon("the last id", reader.last_message()).await.unwrap();
    let mut all = Vec::new();
    loop {
        let message = crate::talk::next(&reader).await;
        all.push(crate::talk::text(&message));
        if message.id.entry == last.id.entry && message.id.ledger == last.id.ledger {
            return all;
        }
    }
}

#[tokio::test]
async fn what_is_sent_again_is_answered_and_not_stored() {
    let broker = deduplicating().start();
    let client = plain(&broker).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let producer = named(&client, "p").await;
    assert_eq!(producer.next_sequence(), 0);
    for sequence in [0, 1, 2] {
        assert!(sends(&producer, sequence).await);
    }
    for sequence in [1, 2, 0] {
        assert!(!sends(&producer, sequence).await);
    }
    soon("closing", producer.close()).await.unwrap();
    let producer = named(&client, "p").await;
    assert_eq!(producer.next_sequence(), 3, "it is told where it was");
    assert!(!sends(&producer, 2).await);
    assert!(sends(&producer, 3).await);
    assert_eq!(texts(&consumer, 4).await, ["0", "1", "2", "3"]);
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn off_by_default_everything_is_stored() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = named(&client, "p").await;
    assert!(sends(&producer, 5).await);
    assert!(sends(&producer, 5).await);
    assert_eq!(stored(&broker).await, ["5", "5"]);
}

#[tokio::test]
async fn ends_of_any_kind_forget_nothing() {
    let mut broker = deduplicating().start();
    let mut expected = Vec::new();
    for round in 0..4u64 {
        let client = plain(&broker).await;
        let producer = named(&client, "p").await;
        assert_eq!(producer.next_sequence(), round * 25);
        for sequence in (round * 25).saturating_sub(30)..(round + 1) * 25 {
            assert_eq!(sends(&producer, sequence).await, sequence >= round * 25, "{sequence} in round {round}");
        }
        expected.extend((round * 25..(round + 1) * 25).map(|sequence| sequence.to_string()));
        match round % 2 {
            0 => broker.kill(),
            _ => assert!(broker.stop().success()),
        }
        broker.restart();
    }
    assert_eq!(stored(&broker).await, expected);
}

#[tokio::test]
async fn what_was_under_way_at_a_kill_is_stored_once_when_sent_again() {
    let mut broker = deduplicating().start();
    for round in 0..5 {
        let client = plain(&broker).await;
        let producer = named(&client, "p").await;
        let from = producer.next_sequence();
        let mut under_way = Vec::new();
        for sequence in from..from + 200 {
            let message = Message { sequence: Some(sequence), ..Message::new(sequence.to_string()) };
            under_way.push(soon("room", producer.enqueue(message)).await.unwrap());
        }
        // Some are stored and answered, some stored and not answered, some neither.
        let first = under_way.remove(0);
        soon("a receipt", first).await.unwrap();
        broker.kill();
        broker.restart();
        let client = plain(&broker).await;
        let producer = named(&client, "p").await;
        for sequence in from..from + 200 {
            sends(&producer, sequence).await;
        }
        let all = stored(&broker).await;
        let expected: Vec<String> = (0..from + 200).map(|sequence| sequence.to_string()).collect();
        assert_eq!(all, expected, "round {round}");
    }
}

#[tokio::test]
async fn a_receipt_for_a_duplicate_has_no_place() {
    let broker = deduplicating().start();
    let mut wire = Wire::connect(&broker).await;
    let name = wire.producer("t", 1).await;
    let mut receipts: Vec<Box<SendReceipt>> = Vec::new();
    for sequence in [0, 0] {
        wire.raw.publish(1, &name, sequence, Message::new("same")).await.unwrap();
        match wire.next().await.command {
            Command::SendReceipt(receipt) => receipts.push(Box::new(receipt)),
            other => panic!("{other:?}"),
        }
    }
    let place = |receipt: &SendReceipt| receipt.message_id.as_ref().map(|id| (id.ledger, id.entry));
    assert_ne!(place(&receipts[0]), Some((u64::MAX, u64::MAX)));
    assert_eq!(place(&receipts[1]), Some((u64::MAX, u64::MAX)));
    assert_eq!(receipts[1].sequence_id, 0);
}

#[tokio::test]
async fn a_namespace_switches_it_for_topics_that_are_in_use() {
    let broker = Broker::start();
    let client = crate::talk::persistent(&broker).await;
    let producer = named(&client, "p").await;
    for sequence in 0..3 {
        assert!(sends(&producer, sequence).await);
    }
    let path = "/admin/v2/namespaces/public/default/deduplication";
    let status = || async { crate::admin::topic_stats(&broker, "persistent/public/default/t")["deduplicationStatus"].clone() };
    assert_eq!(crate::admin::told(&broker, "GET", path, ""), (204, String::new()));
    assert_eq!(crate::admin::told(&broker, "POST", path, "true").0, 204);
    assert_eq!(crate::admin::told(&broker, "GET", path, ""), (200, "true".into()));
    eventually("it is on", || async { status().await == "Enabled" }).await;
    assert!(!sends(&producer, 2).await, "what was stored before counts");
    assert!(sends(&producer, 3).await);
    let cursors = crate::admin::json(&broker, "/admin/v2/persistent/public/default/t/internalStats")["cursors"].clone();
    assert!(cursors.get("pulsar.dedup").is_some(), "{cursors}");
    assert_eq!(crate::admin::told(&broker, "GET", "/admin/v2/persistent/public/default/t/subscriptions", ""), (200, "[]".into()));
    assert_eq!(crate::admin::told(&broker, "DELETE", path, "").0, 204);
    eventually("it is off", || async { status().await == "Disabled" }).await;
    assert!(sends(&producer, 3).await);
    assert_eq!(crate::admin::told(&broker, "POST", path, "perhaps").0, 400);
}

#[tokio::test]
async fn transactions_and_commands_to_come_are_answered_or_left_alone() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let answer =
        wire.request(|request_id| proto::CommandTcClientConnectRequest { tc_id: 0, request_id, ..Default::default() }.into()).await;
    let Command::TcClientConnectResponse(refused) = answer else { panic!("{answer:?}") };
    assert!(refused.message().contains("Transactions are not enabled"), "{refused:?}");
    for number in [70, 81, 500] {
        wire.raw.send(Command::Unknown(number)).await.unwrap();
    }
    wire.producer("t", 1).await;
    wire.raw.send(wire::Send { producer_id: 1, txn: Some(wire::TxnId { most: 1, least: 2 }), ..Default::default() }).await.unwrap();
    let refused = wire.next().await.command;
    assert!(matches!(refused, Command::SendError(ref error) if error.message.contains("Transactions")), "{refused:?}");
}
