//! What clients ask to know whether there is anything to wait for.

use client::{ConsumerOptions, Start};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, ServerError, proto};

use crate::talk::{Wire, consume, next, numbers, plain, produce, publish, publish_batch};

#[tokio::test]
async fn an_empty_topic_has_no_last_message() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let reader = consume(&client, "t", ConsumerOptions::reader(Start::Earliest)).await;
    let last = soon("an answer", reader.last_message()).await.unwrap();
    assert_eq!((last.id.ledger, last.id.entry, last.id.batch_index), (u64::MAX, u64::MAX, -1));
}

#[tokio::test]
async fn the_last_message_is_the_last_receipt_and_in_a_batch_its_last_index() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let reader = consume(&client, "t", ConsumerOptions::reader(Start::Earliest)).await;
    let ids = publish(&producer, numbers(0..5)).await;
    let last = soon("an answer", reader.last_message()).await.unwrap();
    assert_eq!(last.id, ids[4]);
    let entry = publish_batch(&producer, 0, 7).await;
    let last = soon("an answer", reader.last_message()).await.unwrap();
    assert_eq!((last.id.whole_entry(), last.id.batch_index), (entry, 6));
}

#[tokio::test]
async fn the_mark_delete_position_follows_the_acks_and_does_not_pass_a_hole() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let ids = publish(&produce(&client, "t").await, numbers(0..6)).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    let mut messages = Vec::new();
    for _ in 0..6 {
        messages.push(next(&consumer).await);
    }
    for (acked, expected) in [(0, ids[0]), (1, ids[1]), (3, ids[1]), (2, ids[3])] {
        consumer.ack(&messages[acked]);
        let last = soon("an answer", consumer.last_message()).await.unwrap();
        let mark_delete = last.mark_delete.expect("clients need the mark-delete position");
        assert_eq!((mark_delete.ledger, mark_delete.entry), (expected.ledger, expected.entry), "after acking {acked}");
        assert_eq!(last.id, ids[5]);
    }
}

#[tokio::test]
async fn a_reader_at_the_latest_is_told_a_place_that_says_there_is_nothing_to_wait_for() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let ids = publish(&produce(&client, "t").await, numbers(0..3)).await;
    let reader = consume(&client, "t", ConsumerOptions::reader(Start::Latest)).await;
    let last = soon("an answer", reader.last_message()).await.unwrap();
    let mark_delete = last.mark_delete.expect("clients need the mark-delete position");
    assert_eq!((last.id, mark_delete.ledger, mark_delete.entry), (ids[2], ids[2].ledger, ids[2].entry));
}

#[tokio::test]
async fn nobody_has_no_last_message() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let answer = wire.request(|request_id| proto::CommandGetLastMessageId { consumer_id: 3, request_id }.into()).await;
    match answer {
        Command::Error(error) => assert_eq!(error.error(), ServerError::MetadataError),
        other => panic!("GET_LAST_MESSAGE_ID was answered with {other:?}"),
    }
}
