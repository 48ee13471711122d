//! Topics that are deleted while others use them, load them or come back to them.

use geminga_server::TopicError;
use ledger::LedgerStore;
use metadata::MetadataStore;
use wire::{Command, ServerError};

use crate::harness::{Broker, topic, until, wait_for};

fn path(name: &str) -> String {
    format!("/managed-ledgers/public/default/persistent/{name}")
}

fn delete(broker: &Broker, name: &str, force: bool) -> Result<(), TopicError> {
    broker.ask(async |handle| handle.delete_topic(topic(name), force).await)
}

fn ledgers(broker: &Broker) -> usize {
    let (tell, told) = std::sync::mpsc::channel();
    broker.store.list(Box::new(move |found| tell.send(found.unwrap().len()).unwrap()));
    told.recv().unwrap()
}

#[test]
fn a_topic_with_subscriptions_that_is_not_loaded_is_deleted_by_force_only() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.consumer(1, "kept", "s");
    let close = peer.close_consumer(1);
    assert!(peer.answer(close).is_ok());
    broker.ask(async |handle| handle.unload_topic(topic("kept")).await).unwrap();
    let refused = delete(&broker, "kept", false).unwrap_err();
    assert!(matches!(refused, TopicError::InUse { subscriptions: 1, .. }), "{refused}");
    assert!(broker.metadata.exists(&path("kept")).unwrap());
    // It is as usable as before.
    peer.consumer(1, "kept", "s");
    delete(&broker, "kept", true).unwrap();
    assert!(!broker.metadata.exists(&path("kept")).unwrap());
    assert_eq!(ledgers(&broker), 0);
    assert!(matches!(delete(&broker, "kept", true), Err(TopicError::NotFound(_))));
}

#[test]
fn a_topic_in_use_is_deleted_by_force_only_and_its_clients_are_told() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "used");
    assert!(matches!(delete(&broker, "used", false), Err(TopicError::InUse { producers: 1, .. })));
    peer.send(1, 0, b"still works");
    peer.receipt(0);
    delete(&broker, "used", true).unwrap();
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(close) if close.producer_id == 1).then_some(()));
    assert!(!broker.metadata.exists(&path("used")).unwrap());
}

#[test]
fn who_comes_back_during_a_deletion_gets_a_new_topic_after_it() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "again");
    peer.consumer(1, "again", "s");
    peer.send(1, 0, b"old");
    peer.receipt(0);
    broker.metadata.hold();
    let handle = broker.handle();
    let deletion = std::thread::spawn(move || wait_for(handle.delete_topic(topic("again"), true)));
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(_)).then_some(()));
    let (producer, consumer) = (peer.ask_producer(1, "again"), peer.ask_consumer(1, "again", "s"));
    peer.sync();
    until("the deletion waits for its answer", || broker.metadata.waiting() > 0);
    broker.metadata.release();
    deletion.join().unwrap().unwrap();
    assert!(peer.answer(producer).is_ok());
    assert!(peer.answer(consumer).is_ok());
    peer.send(1, 1, b"new");
    peer.receipt(1);
    peer.flow(1, 10);
    assert_eq!(peer.message().1, "new", "nothing of the old topic is left");
    let stored = broker.metadata.children(&path("again")).unwrap();
    assert_eq!(stored, ["s"]);
}

#[test]
fn a_topic_is_deleted_after_the_load_that_was_under_way() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.metadata.hold();
    let producer = peer.ask_producer(1, "loading");
    until("the load waits for its answer", || broker.metadata.waiting() > 0);
    let handle = broker.handle();
    let deletion = std::thread::spawn(move || wait_for(handle.delete_topic(topic("loading"), true)));
    peer.sync();
    broker.metadata.release();
    deletion.join().unwrap().unwrap();
    assert!(peer.answer(producer).is_ok());
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(_)).then_some(()));
    assert!(!broker.metadata.exists(&path("loading")).unwrap());
    peer.producer(1, "loading");
}

#[test]
fn whoever_asked_for_a_topic_first_keeps_it_from_being_deleted_without_force() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.metadata.hold();
    let producer = peer.ask_producer(1, "loading");
    until("the load waits for its answer", || broker.metadata.waiting() > 0);
    let handle = broker.handle();
    let deletion = std::thread::spawn(move || wait_for(handle.delete_topic(topic("loading"), false)));
    peer.sync();
    broker.metadata.release();
    assert!(matches!(deletion.join().unwrap(), Err(TopicError::InUse { producers: 1, .. })));
    assert!(peer.answer(producer).is_ok());
    peer.send(1, 0, b"x");
    peer.receipt(0);
}

#[test]
fn a_partition_does_not_come_back_when_its_topic_was_deleted() {
    let broker = Broker::start();
    broker.ask(async |handle| handle.create_partitioned(topic("parts"), 3, Vec::new()).await).unwrap();
    let mut peer = broker.peer();
    for id in 0..3 {
        peer.producer(id, &format!("parts-partition-{id}"));
    }
    let in_use = broker.ask(async |handle| handle.delete_partitioned(topic("parts"), false).await);
    assert!(matches!(in_use, Err(TopicError::InUse { .. })), "{in_use:?}");
    broker.metadata.hold();
    let handle = broker.handle();
    let deletion = std::thread::spawn(move || wait_for(handle.delete_partitioned(topic("parts"), true)));
    let mut asked = Vec::new();
    for id in 0..3 {
        peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(close) if close.producer_id == id).then_some(()));
        asked.push(peer.ask_producer(id, &format!("parts-partition-{id}")));
    }
    peer.sync();
    broker.metadata.release();
    deletion.join().unwrap().unwrap();
    for request in asked {
        assert_eq!(peer.answer(request).unwrap_err().0, ServerError::TopicNotFound);
    }
    let left = broker.ask(async |handle| handle.topics("public/default".parse().unwrap(), wire::Domain::Persistent).await).unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert!(matches!(broker.ask(async |handle| handle.partitions(topic("parts")).await), Err(TopicError::NotFound(_))));
}

#[test]
fn a_deletion_goes_on_when_whoever_asked_for_it_has_gone() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "orphaned");
    broker.metadata.hold();
    let handle = broker.handle();
    wait_for(async {
        let deletion = handle.delete_topic(topic("orphaned"), true);
        let waits = async {
            while broker.metadata.waiting() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = deletion => panic!("it cannot have ended"),
            () = waits => {}
        }
    });
    broker.metadata.release();
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(_)).then_some(()));
    until("it is gone", || !broker.metadata.exists(&path("orphaned")).unwrap());
    peer.producer(1, "orphaned");
}

#[test]
fn a_deletion_that_fails_leaves_the_name_usable() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "unlucky");
    peer.send(1, 0, b"kept");
    peer.receipt(0);
    broker.metadata.fail_next(1, metadata::Fault::Lost);
    assert!(delete(&broker, "unlucky", true).is_err());
    peer.consumer(1, "unlucky", "s");
    peer.flow(1, 1);
    assert_eq!(peer.message().1, "kept");
}
