//! What clients see when storage or metadata fail.

use ledger::{Fault, StoreHealth};
use metadata::{Expected, MetadataStore};
use wire::{Command, ServerError};

use crate::harness::{Broker, Peer, until};

fn hear_closed(peer: &mut Peer, producer: u64) {
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(close) if close.producer_id == producer).then_some(()));
}

/// Sends, and attaches and sends again as a client does, until there is a receipt.
fn publish(peer: &mut Peer, producer: u64, name: &str, sequence: u64, text: &[u8]) {
    until("it is stored", || {
        let request = peer.ask_producer(producer, name);
        if peer.answer(request).is_err() {
            return false;
        }
        peer.send(producer, sequence, text);
        peer.hear_about(|frame| match &frame.command {
            Command::SendReceipt(receipt) if receipt.sequence_id == sequence => Some(true),
            Command::SendError(_) => Some(false),
            Command::CloseProducer(close) if close.producer_id == producer => Some(false),
            _ => None,
        }) || {
            let close = peer.close_producer(producer);
            peer.answer(close).unwrap();
            false
        }
    });
}

#[test]
fn after_a_failed_append_producers_are_closed_and_sending_again_works() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "t");
    peer.producer(2, "t");
    peer.send(1, 0, b"first");
    peer.receipt(0);
    broker.store.inject(Fault::Lost);
    peer.send(1, 1, b"second");
    hear_closed(&mut peer, 1);
    hear_closed(&mut peer, 2);
    publish(&mut peer, 1, "t", 1, b"second");
    peer.consumer(1, "t", "s");
    peer.flow(1, 10);
    assert_eq!(peer.message().1, "first");
    assert_eq!(peer.message().1, "second");
}

#[test]
fn a_full_disk_refuses_publishes_in_every_topic_and_lets_consumers_go_on() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    for id in 0..4 {
        peer.producer(id, &format!("topic-{id}"));
        peer.send(id, 0, b"before");
        peer.receipt(0);
    }
    broker.store.set_health(StoreHealth::DiskNearlyFull("a test".into()));
    // The first append that fails tells a worker, the next look tells the others.
    until("publishes are refused beforehand", || {
        (0..4).all(|id| {
            let request = peer.ask_producer(id, &format!("topic-{id}"));
            if peer.answer(request).is_err() {
                return false;
            }
            peer.send(id, 1, b"too much");
            peer.hear_about(|frame| match &frame.command {
                Command::SendError(error) if error.producer_id == id => {
                    assert_eq!(error.error(), ServerError::PersistenceError);
                    assert!(error.message.contains("nearly full"), "{}", error.message);
                    Some(true)
                }
                Command::CloseProducer(close) if close.producer_id == id => Some(false),
                _ => None,
            })
        })
    });
    // A topic that is loaded now is told as well.
    peer.producer(9, "new");
    peer.send(9, 0, b"too much");
    peer.hear_about(|frame| matches!(&frame.command, Command::SendError(error) if error.producer_id == 9).then_some(()));
    for id in 0..4 {
        peer.consumer(id, &format!("topic-{id}"), "s");
        peer.flow(id, 1);
        let (message, text) = peer.message();
        assert_eq!(text, "before");
        peer.ack(id, &message);
    }
    let problem = broker.ask(async |handle| handle.stats(false).await).unwrap().storage_problem;
    assert!(problem.is_some_and(|why| why.contains("nearly full")));
    broker.store.set_health(StoreHealth::Ready);
    for id in 0..4 {
        let close = peer.close_producer(id);
        peer.answer(close).unwrap();
        publish(&mut peer, id, &format!("topic-{id}"), 2, b"after");
    }
}

#[test]
fn a_log_that_failed_closes_producers_and_ends_the_process() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "t");
    broker.store.inject(Fault::Poison);
    peer.send(1, 0, b"lost");
    let why = broker.ask(async |handle| handle.log_failed().await);
    assert_eq!(why, "injected");
    hear_closed(&mut peer, 1);
    let request = peer.ask_producer(1, "t");
    assert_eq!(peer.answer(request).unwrap_err().0, ServerError::ServiceNotReady);
    assert!(broker.ask(async |handle| handle.check_health().await).is_err());
}

#[test]
fn a_topic_whose_record_somebody_else_wrote_is_let_go_of_and_loaded_again() {
    let broker = Broker::with(|settings| settings.topic.ledger.max_entries = 5);
    let mut peer = broker.peer();
    peer.producer(1, "t");
    peer.consumer(1, "t", "s");
    let path = "/managed-ledgers/public/default/persistent/t";
    let stored = broker.metadata.get(path).unwrap().unwrap();
    broker.metadata.put(path, &stored.value, Expected::Any).unwrap();
    // The list of ledgers is recorded when the first one is full.
    for sequence in 0..5 {
        peer.send(1, sequence, b"x");
        peer.receipt(sequence);
    }
    hear_closed(&mut peer, 1);
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseConsumer(_)).then_some(()));
    publish(&mut peer, 1, "t", 5, b"last");
    peer.consumer(1, "t", "s");
    peer.flow(1, 100);
    let texts: Vec<_> = (0..6).map(|_| peer.message().1).collect();
    assert_eq!(texts.last().unwrap(), "last", "{texts:?}");
}

#[test]
fn a_subscription_is_not_created_for_a_topic_that_was_deleted_behind_its_back() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "t");
    let path = "/managed-ledgers/public/default/persistent/t";
    broker.metadata.delete(path, Expected::Any).unwrap();
    let request = peer.ask_consumer(1, "t", "s");
    hear_closed(&mut peer, 1);
    assert!(peer.answer(request).is_err());
    assert!(!broker.metadata.exists(path).unwrap());
}

#[test]
fn an_unsubscribe_that_somebody_else_overtook_is_answered_and_the_consumer_comes_back() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.consumer(1, "t", "s");
    let path = "/managed-ledgers/public/default/persistent/t/s";
    broker.metadata.put(path, b"", Expected::Any).unwrap();
    let request_id = peer.request();
    peer.say(wire::proto::CommandUnsubscribe { consumer_id: 1, request_id, ..Default::default() });
    assert_eq!(peer.answer(request_id).unwrap_err().0, ServerError::ServiceNotReady);
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseConsumer(close) if close.consumer_id == 1).then_some(()));
}
