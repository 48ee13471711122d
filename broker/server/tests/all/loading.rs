//! Topics that cannot be loaded: what the client hears, and what is left behind.

use ledger::{LedgerStore, StoreHealth};
use metadata::{Expected, MetadataStore};
use wire::{Command, ServerError, proto};

use crate::harness::{Broker, Peer, topic, until};

fn error_of(peer: &mut Peer, request: u64) -> ServerError {
    peer.answer(request).unwrap_err().0
}

fn ask_all(peer: &mut Peer, name: &str) -> Vec<ServerError> {
    let mut errors = Vec::new();
    let request_id = peer.request();
    peer.say(proto::CommandProducer { topic: name.into(), producer_id: 77, request_id, ..Default::default() });
    errors.push(error_of(peer, request_id));
    let request_id = peer.request();
    peer.say(proto::CommandSubscribe { topic: name.into(), subscription: "s".into(), consumer_id: 77, request_id, ..Default::default() });
    errors.push(error_of(peer, request_id));
    let request_id = peer.request();
    peer.say(proto::CommandLookupTopic { topic: name.into(), request_id, ..Default::default() });
    match peer.answer(request_id).unwrap() {
        Command::LookupTopicResponse(response) => errors.push(response.error()),
        other => panic!("{other:?}"),
    }
    let request_id = peer.request();
    peer.say(proto::CommandPartitionedTopicMetadata { topic: name.into(), request_id, ..Default::default() });
    match peer.answer(request_id).unwrap() {
        Command::PartitionedTopicMetadataResponse(response) => errors.push(response.error()),
        other => panic!("{other:?}"),
    }
    errors
}

#[test]
fn an_unknown_tenant_or_namespace_is_topic_not_found_whoever_asks() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    for name in ["persistent://nobody/default/t", "persistent://public/nowhere/t"] {
        assert_eq!(ask_all(&mut peer, name), [ServerError::TopicNotFound; 4], "{name}");
    }
}

#[test]
fn a_name_that_the_tree_cannot_hold_is_an_invalid_name() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    let long = format!("persistent://public/default/{}", "x".repeat(5000));
    assert_eq!(ask_all(&mut peer, &long), [ServerError::InvalidTopicName; 4]);
}

#[test]
fn a_subscription_that_cannot_be_recorded_does_not_harm_its_topic() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "t");
    for name in ["/".repeat(3000), ".".into(), "..".into(), "\u{7}".into(), " ".into()] {
        let request = peer.ask_consumer(1, "t", &name);
        assert_eq!(error_of(&mut peer, request), ServerError::NotAllowedError, "{name:?}");
    }
    peer.send(1, 0, b"x");
    peer.receipt(0);
    assert!(!peer.has_aside(|command| matches!(command, Command::CloseProducer(_))));
}

#[test]
fn a_partition_beyond_the_count_is_not_found_until_there_are_more() {
    let broker = Broker::start();
    broker.ask(async |handle| handle.create_partitioned(topic("parts"), 2, Vec::new()).await).unwrap();
    let mut peer = broker.peer();
    let beyond = peer.ask_producer(1, "parts-partition-2");
    let (error, message) = peer.answer(beyond).unwrap_err();
    assert_eq!(error, ServerError::TopicNotFound);
    assert!(message.contains("2 partitions"), "{message}");
    let base = peer.ask_producer(2, "parts");
    assert_eq!(error_of(&mut peer, base), ServerError::NotAllowedError);
    broker.ask(async |handle| handle.update_partitions(topic("parts"), 3).await).unwrap();
    peer.producer(1, "parts-partition-2");
}

#[test]
fn without_automatic_creation_a_missing_topic_is_not_found() {
    let broker = Broker::with(|settings| settings.auto_topic_creation = false);
    let mut peer = broker.peer();
    let missing = peer.ask_producer(1, "missing");
    assert_eq!(error_of(&mut peer, missing), ServerError::TopicNotFound);
    broker.ask(async |handle| handle.create_topic(topic("missing"), Vec::new()).await).unwrap();
    peer.producer(1, "missing");
}

#[test]
fn persistent_topics_that_are_switched_off_are_not_served() {
    let broker = Broker::with(|settings| settings.persistent_topics = false);
    let mut peer = broker.peer();
    assert_eq!(ask_all(&mut peer, "persistent://public/default/t"), [ServerError::NotAllowedError; 4]);
}

#[test]
fn a_load_that_storage_refuses_is_to_be_tried_again() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.store.set_health(StoreHealth::Poisoned("a test".into()));
    let request = peer.ask_producer(1, "t");
    assert_eq!(error_of(&mut peer, request), ServerError::ServiceNotReady);
    broker.store.set_health(StoreHealth::Ready);
    peer.producer(1, "t");
}

#[test]
fn a_load_that_another_owner_overtakes_leaves_no_ledger_behind() {
    let store = std::sync::Arc::new(ledger::MemoryStore::stepped());
    let steps = store.clone();
    let first = std::thread::spawn(move || until("the start asks for the ledgers", || steps.step()));
    let metadata = std::sync::Arc::new(metadata::MemoryStore::new());
    let bootstrap =
        metadata::Bootstrap { cluster: "standalone", reached_at: metadata::clusters::Cluster::default(), bundles: 4, system_bundles: 4 };
    metadata::bootstrap(&*metadata, &bootstrap).unwrap();
    let broker = Broker::on(store.clone(), metadata.clone(), |_| ());
    first.join().unwrap();
    let mut peer = broker.peer();
    let request = peer.ask_producer(1, "t");
    until("the load asks for a ledger", || store.waiting() == 1);
    // Somebody else creates the topic between the look and the record.
    metadata.put("/managed-ledgers/public/default/persistent/t", b"", Expected::Absent).unwrap();
    assert!(store.step());
    assert_eq!(error_of(&mut peer, request), ServerError::ServiceNotReady);
    until("the ledger is deleted", || store.step());
    let (tell, told) = std::sync::mpsc::channel();
    store.list(Box::new(move |found| tell.send(found.unwrap()).unwrap()));
    assert!(store.step());
    assert_eq!(told.recv().unwrap(), []);
}

#[test]
fn many_topics_asked_for_at_once_are_all_loaded_and_questions_do_not_wait_for_them() {
    let broker = Broker::with(|settings| settings.max_topic_loads = 1);
    let mut peer = broker.peer();
    broker.metadata.hold();
    let requests: Vec<_> = (0..50).map(|id| peer.ask_producer(id, &format!("topic-{id}"))).collect();
    let request_id = peer.request();
    peer.say(proto::CommandLookupTopic { topic: topic("other").to_string(), request_id, ..Default::default() });
    assert!(peer.answer(request_id).is_ok());
    broker.metadata.release();
    for request in requests {
        assert!(peer.answer(request).is_ok());
    }
}
