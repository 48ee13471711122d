//! Producers: names, receipts, refusals.

use ledger::Position;
use topic::{Effect, ProducerKey, Reply};
use wire::ServerError;

use crate::client::{attach_producer, connection, entry, producer, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

#[test]
fn a_receipt_waits_for_storage_and_echoes_the_sequence_ids() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let batch = topic::Publish { key: to.key, slot: to.slot, sequence: 10, highest_sequence: 14, bytes: entry(5, 1) };
    owner.call(|topic, turn| topic.publish(turn, batch));
    assert!(owner.heard.is_empty());
    owner.settle();
    let [Effect::Receipt { to: key, sequence: 10, highest_sequence: 14, at: Some(_), .. }] = owner.heard.as_slice() else {
        panic!("{:?}", owner.heard)
    };
    assert_eq!(*key, to.key);
}

#[test]
fn receipts_come_in_send_order_across_rollovers() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let positions = publish(&mut owner, to, 95);
    assert_eq!(positions.len(), 95);
    assert!(positions.is_sorted());
    let ledgers: std::collections::BTreeSet<_> = positions.iter().map(|at| at.ledger).collect();
    assert_eq!(ledgers.len(), 5, "20 entries a ledger");
}

#[test]
fn publishes_wait_in_order_while_a_ledger_is_being_created() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for sequence in 0..30 {
        send(&mut owner, to, sequence, entry(1, 1));
    }
    assert_eq!(owner.appends_open(), 20);
    while owner.finish_appends(1) {}
    let sequences = |owner: &Owner| {
        let sequence = |effect: &Effect| match effect {
            Effect::Receipt { sequence, .. } => Some(*sequence),
            _ => None,
        };
        owner.heard.iter().filter_map(sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(&owner), (0..20).collect::<Vec<_>>());
    owner.settle();
    assert_eq!(sequences(&owner), (0..30).collect::<Vec<_>>());
}

#[test]
fn a_ledger_that_cannot_be_created_does_not_stop_publishes() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for sequence in 0..25 {
        send(&mut owner, to, sequence, entry(1, 1));
    }
    assert!(owner.fail_write());
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 25);
    assert_eq!(owner.reports.len(), 1);
    owner.wait(200);
    owner.settle();
    assert_eq!(owner.topic.stats().ledgers.len(), 2, "rolled over on the second attempt");
}

#[test]
fn a_name_is_made_when_none_is_given_and_never_twice() {
    let mut owner = Owner::new(small_settings());
    let mut names = Vec::new();
    for id in 0..3 {
        owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(id, None)));
        let Some(Reply::ProducerReady { name, last_sequence: -1, .. }) = owner.replies().pop() else { panic!("no producer") };
        names.push(name);
    }
    assert_eq!(names, ["standalone-1-0", "standalone-1-1", "standalone-1-2"]);
}

#[test]
fn a_taken_name_is_refused_and_the_same_producer_is_answered_again() {
    let mut owner = Owner::new(small_settings());
    producer(&mut owner, 1);
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(2, Some("producer-1"))));
    assert!(matches!(owner.replies().pop(), Some(Reply::Error { error: ServerError::ProducerBusy, .. })));
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(1, Some("producer-1"))));
    assert!(matches!(owner.replies().pop(), Some(Reply::ProducerReady { .. })));
    assert_eq!(owner.topic.producers(), 1);
}

#[test]
fn a_later_life_of_a_client_takes_over_the_name_that_was_made_for_it() {
    let mut owner = Owner::new(small_settings());
    let mut first = attach_producer(1, Some("made"));
    first.user_provided_name = false;
    let mut second = first.clone();
    second.key = ProducerKey { connection: connection(9), id: 1 };
    second.epoch = 1;
    owner.call(|topic, turn| topic.attach_producer(turn, first.clone()));
    let Some(Reply::ProducerReady { slot, .. }) = owner.replies().pop() else { panic!("no producer") };
    let old = topic::Publish { key: first.key, slot, sequence: 0, highest_sequence: 0, bytes: entry(1, 1) };
    owner.call(|topic, turn| topic.publish(turn, old.clone()));
    owner.call(|topic, turn| topic.attach_producer(turn, second));
    assert!(matches!(owner.replies().pop(), Some(Reply::ProducerReady { .. })));
    owner.call(|topic, turn| topic.publish(turn, old));
    owner.settle();
    assert!(owner.heard.iter().all(|effect| matches!(effect, Effect::Forgotten { .. })), "{:?}", owner.heard);
    assert_eq!((owner.heard.len(), owner.topic.stats().storage_entries), (2, 1));
}

#[test]
fn a_close_is_answered_after_the_last_receipt_and_frees_the_name() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    send(&mut owner, to, 0, entry(1, 1));
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, Some(7)));
    assert!(owner.heard.is_empty());
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(2, Some("producer-1"))));
    assert!(matches!(owner.replies().pop(), Some(Reply::Error { error: ServerError::ProducerBusy, .. })));
    owner.settle();
    let [Effect::Receipt { .. }, Effect::Reply { reply: Reply::Success { request: 7 }, .. }] = owner.heard.as_slice() else {
        panic!("{:?}", owner.heard)
    };
    owner.heard.clear();
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(2, Some("producer-1"))));
    assert!(matches!(owner.replies().pop(), Some(Reply::ProducerReady { .. })));
}

#[test]
fn a_failed_append_is_never_followed_by_a_receipt() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for sequence in 0..5 {
        send(&mut owner, to, sequence, entry(1, 1));
    }
    owner.finish_appends(2);
    assert_eq!(receipts(&mut owner).len(), 2);
    owner.fail_appends(0);
    send(&mut owner, to, 5, entry(1, 1));
    owner.call(|topic, turn| topic.appended(turn, Position::LATEST));
    assert_eq!(receipts(&mut owner), []);
    assert!(owner.unload_reason.is_some());
    let forgotten = owner.heard.iter().filter(|effect| matches!(effect, Effect::Forgotten { .. })).count();
    assert_eq!(forgotten, 4);
}

#[test]
fn a_refused_publish_is_not_overtaken_by_a_later_one() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    owner.call(|topic, turn| topic.set_store_writable(turn, Some("the disk is nearly full".to_owned())));
    send(&mut owner, to, 0, entry(1, 1));
    owner.call(|topic, turn| topic.set_store_writable(turn, None));
    send(&mut owner, to, 1, entry(1, 1));
    owner.settle();
    let refused = |effect: &Effect| matches!(effect, Effect::Refused { error: ServerError::PersistenceError, .. });
    assert_eq!(owner.heard.iter().filter(|effect| refused(effect)).count(), 2);
    let other = producer(&mut owner, 2);
    send(&mut owner, other, 0, entry(1, 1));
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 1);
}

#[test]
fn an_entry_over_the_limit_is_refused() {
    let mut settings = small_settings();
    settings.max_entry_bytes = 10;
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    send(&mut owner, to, 3, entry(1, 1));
    assert!(matches!(owner.heard.as_slice(), [Effect::Refused { sequence: 3, error: ServerError::NotAllowedError, .. }]));
}

#[test]
fn an_initial_subscription_exists_before_the_producer_is_ready() {
    let mut owner = Owner::new(small_settings());
    let mut attach = attach_producer(1, None);
    attach.initial_subscription = Some("first".to_owned());
    owner.call(|topic, turn| topic.attach_producer(turn, attach.clone()));
    owner.call(|topic, turn| topic.attach_producer(turn, attach));
    assert!(owner.heard.is_empty());
    owner.settle();
    assert!(matches!(owner.replies().as_slice(), [Reply::ProducerReady { .. }, Reply::ProducerReady { .. }]));
    assert_eq!(owner.topic.producers(), 1);
    assert_eq!(owner.world.cursors().collect::<Vec<_>>(), ["first"]);
}

#[test]
fn a_version_conflict_fences_the_topic() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for sequence in 0..20 {
        send(&mut owner, to, sequence, entry(1, 1));
    }
    while owner.finish_appends(1) {}
    let rival = topic::Change::Ledgers { bytes: Vec::new(), expected: 1 };
    owner.world.change(rival).expect("somebody else takes the topic");
    owner.settle();
    assert!(owner.unload_reason.is_some());
    receipts(&mut owner);
    send(&mut owner, to, 20, entry(1, 1));
    owner.settle();
    assert_eq!(receipts(&mut owner), []);
    owner.call(topic::Topic::unload);
    assert!(owner.topic.unloaded());
}
