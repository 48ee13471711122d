//! Short words for what clients do.

use bytes::{Bytes, BytesMut};
use ledger::{AckSet, Position};
use topic::{
    AccessMode, Ack, AckIds, AttachConsumer, AttachProducer, ConnectionKey, ConsumerKey, ConsumerSlot, Effect, KeySharedPolicy,
    ProducerKey, ProducerSlot, Publish, Reply, StartAt, SubscriptionKind,
};
use wire::proto::MessageMetadata;

use crate::sim::owner::Owner;

/// A connection.
pub(crate) fn connection(slot: u32) -> ConnectionKey {
    ConnectionKey { worker: 0, slot, generation: 1 }
}

/// Bytes of an entry of `messages`, published at `time`.
pub(crate) fn entry(messages: i32, time: u64) -> Bytes {
    let batch = (messages > 1).then_some(messages);
    let metadata =
        MessageMetadata { producer_name: "p".to_owned(), publish_time: time, num_messages_in_batch: batch, ..MessageMetadata::default() };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, b"payload", &mut bytes);
    bytes.freeze()
}

/// An attached producer.
#[derive(Clone, Copy)]
pub(crate) struct Producer {
    pub(crate) key: ProducerKey,
    pub(crate) slot: ProducerSlot,
}

/// A request to attach a producer.
pub(crate) fn attach_producer(id: u64, name: Option<&str>) -> AttachProducer {
    AttachProducer {
        key: ProducerKey { connection: connection(1), id },
        request: 100 + id,
        name: name.map(str::to_owned),
        user_provided_name: name.is_some(),
        epoch: 0,
        access: AccessMode::Shared,
        topic_epoch: None,
        initial_subscription: None,
        properties: Vec::new(),
        address: "127.0.0.1:1".to_owned(),
        client_version: "test".to_owned(),
    }
}

/// Attaches a producer that must be let in.
pub(crate) fn producer(owner: &mut Owner, id: u64) -> Producer {
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(id, Some(&format!("producer-{id}")))));
    match owner.replies().pop() {
        Some(Reply::ProducerReady { producer, slot, .. }) => Producer { key: producer, slot },
        other => panic!("producer not attached: {other:?}"),
    }
}

/// Publishes without waiting for storage.
pub(crate) fn send(owner: &mut Owner, to: Producer, sequence: u64, bytes: Bytes) {
    let publish = Publish { key: to.key, slot: to.slot, sequence, highest_sequence: 0, bytes };
    owner.call(|topic, turn| topic.publish(turn, publish));
}

/// Publishes `count` single messages and waits for storage.
pub(crate) fn publish(owner: &mut Owner, to: Producer, count: u64) -> Vec<Position> {
    for sequence in 0..count {
        send(owner, to, sequence, entry(1, 1_000 + sequence));
    }
    owner.settle();
    receipts(owner)
}

/// Positions of the receipts that producers got.
pub(crate) fn receipts(owner: &mut Owner) -> Vec<Position> {
    let receipt = |effect: &Effect| match effect {
        Effect::Receipt { at, .. } => *at,
        _ => None,
    };
    let positions = owner.heard.iter().filter_map(receipt).collect();
    owner.heard.retain(|effect| receipt(effect).is_none());
    positions
}

/// An attached consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) key: ConsumerKey,
    pub(crate) slot: ConsumerSlot,
}

/// A request to attach a consumer to the durable subscription `s` from the beginning.
pub(crate) fn attach(id: u64, kind: SubscriptionKind) -> AttachConsumer {
    AttachConsumer {
        key: ConsumerKey { connection: connection(2), id },
        request: 200 + id,
        subscription: "s".to_owned(),
        kind,
        durable: true,
        start: Some(StartAt::Earliest),
        name: format!("consumer-{id}"),
        priority: 0,
        epoch: None,
        read_compacted: false,
        subscription_properties: Vec::new(),
        key_shared: KeySharedPolicy::default(),
        properties: Vec::new(),
        address: "127.0.0.1:2".to_owned(),
        client_version: "test".to_owned(),
    }
}

/// Attaches a consumer and returns the answer.
pub(crate) fn try_consume(owner: &mut Owner, attach: AttachConsumer) -> Reply {
    owner.call(|topic, turn| topic.attach_consumer(turn, attach));
    owner.settle();
    owner.replies().pop().expect("an answer")
}

/// Attaches a consumer that must be let in.
pub(crate) fn consume(owner: &mut Owner, attach: AttachConsumer) -> Consumer {
    match try_consume(owner, attach) {
        Reply::ConsumerReady { consumer, slot, .. } => Consumer { key: consumer, slot },
        other => panic!("consumer not attached: {other:?}"),
    }
}

/// Gives permits and waits for what comes.
pub(crate) fn flow(owner: &mut Owner, to: Consumer, permits: u32) {
    owner.call(|topic, turn| topic.flow(turn, to.key, to.slot, permits));
    owner.settle();
}

/// What a consumer got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) to: u64,
    pub(crate) at: Position,
    pub(crate) redeliveries: u32,
    pub(crate) left: Option<AckSet>,
}

/// Takes what was delivered.
pub(crate) fn got(owner: &mut Owner) -> Vec<Got> {
    let delivered = |effect: &Effect| match effect {
        Effect::Deliver { to, at, redeliveries, ack_set, .. } => {
            Some(Got { to: to.id, at: *at, redeliveries: *redeliveries, left: ack_set.as_deref().cloned() })
        }
        _ => None,
    };
    let all = owner.heard.iter().filter_map(delivered).collect();
    owner.heard.retain(|effect| delivered(effect).is_none());
    all
}

/// Positions of what was delivered.
pub(crate) fn got_at(owner: &mut Owner) -> Vec<Position> {
    got(owner).into_iter().map(|got| got.at).collect()
}

/// Acks, and waits for what comes of it.
pub(crate) fn ack(owner: &mut Owner, by: Consumer, ids: AckIds) {
    owner.call(|topic, turn| topic.ack(turn, Ack { key: by.key, slot: by.slot, request: None, ids }));
    owner.settle();
}

/// A consumer leaves.
pub(crate) fn leave(owner: &mut Owner, consumer: Consumer) {
    owner.call(|topic, turn| topic.detach_consumer(turn, consumer.key, None));
    owner.settle();
}
