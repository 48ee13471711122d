//! Letting go of a topic.

use topic::{AckIds, Effect, Reply, SubscriptionKind::Exclusive};
use wire::ServerError;

use crate::client::{ack, attach, attach_producer, consume, entry, flow, got_at, producer, publish, send};
use crate::sim::owner::{Owner, small_settings};

#[test]
fn an_unload_gives_the_last_receipts_before_it_closes_producers() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    for sequence in 0..25 {
        send(&mut owner, to, sequence, entry(1, 1));
    }
    owner.call(topic::Topic::unload);
    send(&mut owner, to, 25, entry(1, 1));
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(2, None)));
    owner.call(|topic, turn| topic.attach_consumer(turn, attach(2, Exclusive)));
    assert!(!owner.topic.unloaded());
    while owner.finish_appends(3) || owner.finish_write() {}
    assert!(owner.topic.unloaded());
    let kinds: Vec<&str> = owner
        .heard
        .iter()
        .map(|effect| match effect {
            Effect::Receipt { .. } => "receipt",
            Effect::Forgotten { .. } => "forgotten",
            Effect::Reply { reply: Reply::CloseConsumer { .. }, .. } => "close consumer",
            Effect::Reply { reply: Reply::CloseProducer { .. }, .. } => "close producer",
            Effect::Reply { reply: Reply::Error { error: ServerError::ServiceNotReady, .. }, .. } => "not ready",
            _ => "other",
        })
        .collect();
    let expected: Vec<&str> = std::iter::repeat_n("forgotten", 5)
        .chain(["close consumer", "forgotten", "not ready", "not ready"])
        .chain(std::iter::repeat_n("receipt", 20))
        .chain(["close producer"])
        .collect();
    assert_eq!(kinds, expected);
    let _ = consumer;
}

#[test]
fn what_was_acked_before_an_unload_is_not_sent_after_it_and_what_was_published_is_not_lost() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    got_at(&mut owner);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[11], None, None));
    for _ in 0..3 {
        owner.unload_and_load();
        let consumer = consume(&mut owner, attach(1, Exclusive));
        flow(&mut owner, consumer, 100);
        assert_eq!(got_at(&mut owner), sent[12..]);
    }
}

#[test]
fn a_failed_append_unloads_and_cursors_are_written_all_the_same() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[3], None, None));
    ack(&mut owner, consumer, AckIds::Cumulative(sent[7], None, None));
    send(&mut owner, to, 10, entry(1, 1));
    owner.fail_appends(1);
    assert!(owner.unload_reason.is_some());
    owner.unload_and_load();
    assert_eq!(owner.topic.stats().subscriptions[0].mark_delete, sent[7].to_string());
    assert_eq!(owner.topic.stats().storage_entries, 11, "the outcome was unknown, and it was stored");
}

#[test]
fn an_unloaded_topic_wants_nothing_more() {
    let mut owner = Owner::new(small_settings());
    producer(&mut owner, 1);
    consume(&mut owner, attach(1, Exclusive));
    owner.call(topic::Topic::unload);
    assert!(owner.topic.unloaded());
    assert_eq!(owner.topic.next_deadline(), None);
    assert_eq!((owner.topic.producers(), owner.topic.consumers()), (0, 0));
}
