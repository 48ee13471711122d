//! Messages that are sent twice.

use bytes::{Bytes, BytesMut};
use ledger::Position;
use topic::{AttachProducer, Deduplication, Effect, Publish, Reply, SubscriptionKind::Exclusive, TopicSettings};
use wire::ServerError;
use wire::proto::MessageMetadata;

use crate::client::{Producer, attach, attach_producer, consume, flow, got, try_consume};
use crate::sim::owner::{Owner, small_settings};

fn settings() -> TopicSettings {
    TopicSettings { deduplication: Deduplication { enabled: true, ..small_settings().deduplication }, ..small_settings() }
}

/// Attaches a producer by name; returns it with the last sequence id it was told.
fn named(owner: &mut Owner, id: u64, name: &str) -> (Producer, i64) {
    let attach = AttachProducer { user_provided_name: false, epoch: id, ..attach_producer(id, Some(name)) };
    owner.call(|topic, turn| topic.attach_producer(turn, attach));
    match owner.replies().pop() {
        Some(Reply::ProducerReady { producer, slot, last_sequence, .. }) => (Producer { key: producer, slot }, last_sequence),
        other => panic!("not attached: {other:?}"),
    }
}

fn message(name: &str, sequence: u64, chunk: Option<(i32, i32)>) -> Bytes {
    let metadata = MessageMetadata {
        producer_name: name.to_owned(),
        sequence_id: sequence,
        publish_time: 1,
        uuid: chunk.map(|_| "u".to_owned()),
        chunk_id: chunk.map(|(id, _)| id),
        num_chunks_from_msg: chunk.map(|(_, count)| count),
        total_chunk_msg_size: chunk.map(|_| 100),
        ..MessageMetadata::default()
    };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, b"payload", &mut bytes);
    bytes.freeze()
}

fn sends(owner: &mut Owner, by: Producer, name: &str, sequence: u64) {
    send_highest(owner, by, name, sequence, 0);
}

fn send_highest(owner: &mut Owner, by: Producer, name: &str, sequence: u64, highest_sequence: u64) {
    let publish = Publish { key: by.key, slot: by.slot, sequence, highest_sequence, bytes: message(name, sequence, None) };
    owner.call(|topic, turn| topic.publish(turn, publish));
}

/// Sequence ids that were answered, and whether the message was stored by that.
fn answers(owner: &mut Owner) -> Vec<(u64, bool)> {
    let answer = |effect: &Effect| match effect {
        Effect::Receipt { sequence, at, .. } => Some((*sequence, at.is_some())),
        Effect::Refused { sequence, message, .. } => panic!("{sequence} was refused: {message}"),
        _ => None,
    };
    let all = owner.heard.iter().filter_map(answer).collect();
    owner.heard.retain(|effect| answer(effect).is_none());
    all
}

#[test]
fn what_was_stored_is_answered_and_not_stored_again() {
    let mut owner = Owner::new(settings());
    let (by, last) = named(&mut owner, 1, "p");
    assert_eq!(last, -1);
    for sequence in [0, 1, 2, 1, 2, 3] {
        sends(&mut owner, by, "p", sequence);
        owner.settle();
    }
    assert_eq!(answers(&mut owner), [(0, true), (1, true), (2, true), (1, false), (2, false), (3, true)]);
    assert_eq!(owner.topic.stats().storage_entries, 4);
    let (_, last) = named(&mut owner, 2, "p");
    assert_eq!(last, 3);
    let (_, last) = named(&mut owner, 3, "another");
    assert_eq!(last, -1);
}

#[test]
fn without_deduplication_everything_is_stored_and_nothing_is_known() {
    let mut owner = Owner::new(small_settings());
    let (by, _) = named(&mut owner, 1, "p");
    for sequence in [0, 0, 0] {
        sends(&mut owner, by, "p", sequence);
    }
    owner.settle();
    assert_eq!(answers(&mut owner), [(0, true); 3]);
    assert_eq!(named(&mut owner, 2, "p").1, -1);
}

#[test]
fn a_duplicate_of_what_is_on_its_way_is_answered_when_that_is_durable() {
    let mut owner = Owner::new(settings());
    owner.settle();
    let (old, _) = named(&mut owner, 1, "p");
    sends(&mut owner, old, "p", 0);
    sends(&mut owner, old, "p", 1);
    let (new, last) = named(&mut owner, 2, "p");
    assert_eq!(last, -1);
    for sequence in 0..3 {
        sends(&mut owner, new, "p", sequence);
    }
    assert_eq!(answers(&mut owner), [], "whether the first is stored is not known yet");
    owner.settle();
    assert_eq!(answers(&mut owner), [(0, false), (1, false), (2, true)], "in the order they were sent");
    assert_eq!(owner.topic.stats().storage_entries, 3);
}

#[test]
fn a_duplicate_sent_behind_something_new_is_answered_behind_it() {
    let mut owner = Owner::new(settings());
    let (by, _) = named(&mut owner, 1, "p");
    sends(&mut owner, by, "p", 4);
    owner.settle();
    for sequence in [5, 3, 6] {
        sends(&mut owner, by, "p", sequence);
    }
    owner.settle();
    assert_eq!(answers(&mut owner), [(4, true), (5, true), (3, false), (6, true)]);
}

#[test]
fn duplicates_keep_their_turn_through_a_rollover() {
    let mut owner = Owner::new(settings());
    let (by, _) = named(&mut owner, 1, "p");
    let mut expected = Vec::new();
    for sequence in 0..50 {
        sends(&mut owner, by, "p", sequence);
        sends(&mut owner, by, "p", sequence);
        expected.extend([(sequence, true), (sequence, false)]);
    }
    owner.settle();
    assert_eq!(answers(&mut owner), expected);
    assert_eq!(owner.topic.stats().storage_entries, 50);
    assert!(owner.topic.stats().ledgers.len() > 1);
}

#[test]
fn a_batch_counts_with_its_highest_id() {
    let mut owner = Owner::new(settings());
    let (by, _) = named(&mut owner, 1, "p");
    send_highest(&mut owner, by, "p", 0, 9);
    send_highest(&mut owner, by, "p", 0, 9);
    sends(&mut owner, by, "p", 9);
    sends(&mut owner, by, "p", 10);
    owner.settle();
    assert_eq!(answers(&mut owner), [(0, true), (0, false), (9, false), (10, true)]);
}

#[test]
fn of_a_larger_message_only_the_last_part_counts() {
    let mut owner = Owner::new(settings());
    let (by, _) = named(&mut owner, 1, "p");
    let part = |owner: &mut Owner, id| {
        let bytes = message("p", 7, Some((id, 3)));
        let publish = Publish { key: by.key, slot: by.slot, sequence: 7, highest_sequence: 0, bytes };
        owner.call(|topic, turn| topic.publish(turn, publish));
        owner.settle();
    };
    part(&mut owner, 0);
    part(&mut owner, 1);
    assert_eq!(named(&mut owner, 1, "p").1, -1, "it is not complete");
    part(&mut owner, 1);
    part(&mut owner, 2);
    part(&mut owner, 2);
    part(&mut owner, 0);
    assert_eq!(answers(&mut owner), [(7, true), (7, true), (7, true), (7, true), (7, false), (7, false)]);
    owner.crash(0, 0);
    assert_eq!(named(&mut owner, 2, "p").1, 7);
}

#[test]
fn what_was_stored_is_known_after_a_crash_and_after_an_unload() {
    for crash in [true, false] {
        let mut owner = Owner::new(settings());
        for (id, name) in [(1, "a"), (2, "b")] {
            let (by, _) = named(&mut owner, id, name);
            for sequence in 0..37 {
                sends(&mut owner, by, name, sequence * id);
                owner.settle();
            }
        }
        match crash {
            true => owner.crash(0, 0),
            false => owner.unload_and_load(),
        }
        owner.heard.clear();
        assert_eq!(named(&mut owner, 3, "a").1, 36);
        assert_eq!(named(&mut owner, 4, "b").1, 72);
    }
}

#[test]
fn stored_but_not_answered_before_a_crash_is_stored_once() {
    let mut owner = Owner::new(settings());
    owner.settle();
    let (by, _) = named(&mut owner, 1, "p");
    for sequence in 0..4 {
        sends(&mut owner, by, "p", sequence);
    }
    owner.crash(2, 0);
    owner.heard.clear();
    let (by, last) = named(&mut owner, 1, "p");
    assert_eq!(last, 1);
    for sequence in 0..4 {
        sends(&mut owner, by, "p", sequence);
    }
    owner.settle();
    assert_eq!(answers(&mut owner), [(0, false), (1, false), (2, true), (3, true)]);
    assert_eq!(owner.topic.stats().storage_entries, 4);
}

#[test]
fn the_cursor_is_no_subscription_and_nobody_elses() {
    let mut owner = Owner::new(settings());
    owner.settle();
    let stats = owner.topic.stats();
    assert!(stats.deduplication);
    assert_eq!(stats.subscriptions.len(), 0);
    assert!(!stats.own_cursors.is_empty());
    let mut asked = attach(1, Exclusive);
    asked.subscription = topic::DEDUPLICATION_CURSOR.to_owned();
    let reply = try_consume(&mut owner, asked);
    assert!(matches!(reply, Reply::Error { error: ServerError::NotAllowedError, .. }), "{reply:?}");
}

#[test]
fn the_cursor_follows_every_so_many_entries_and_then_lets_ledgers_go() {
    let mut owner = Owner::new(TopicSettings { retention: ledger::Retention::default(), ..settings() });
    let (by, _) = named(&mut owner, 1, "p");
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 10_000);
    for sequence in 0..105 {
        sends(&mut owner, by, "p", sequence);
        owner.settle();
    }
    let last = got(&mut owner).last().expect("delivered").at;
    crate::client::ack(&mut owner, consumer, topic::AckIds::Cumulative(last, None, None));
    let stats = owner.topic.stats();
    assert_eq!(stats.ledgers.len(), 1, "{:?}", stats.ledgers);
    assert_eq!(stats.own_cursors.first().expect("kept").backlog, 5);
    // In peace the rest follows by time.
    owner.wait(20_000);
    owner.settle();
    assert_eq!(owner.topic.stats().own_cursors.first().expect("kept").backlog, 0);
    owner.crash(0, 0);
    assert_eq!(named(&mut owner, 1, "p").1, 104);
}

#[test]
fn switched_on_over_stored_messages_it_knows_them() {
    let mut owner = Owner::new(small_settings());
    let (by, _) = named(&mut owner, 1, "p");
    for sequence in 0..30 {
        sends(&mut owner, by, "p", sequence);
    }
    owner.settle();
    owner.unload_and_load();
    let mut owner = Owner::over(owner.world, settings(), 1 << 20, topic::faults::Faults::default());
    owner.settle();
    assert_eq!(named(&mut owner, 2, "p").1, 29);
    assert_eq!(owner.topic.stats().own_cursors.first().expect("kept").backlog, 0, "what was read is saved at once");
}

#[test]
fn a_producer_that_is_gone_for_long_is_forgotten() {
    let patience = Deduplication { forget_after_ms: 60_000, ..settings().deduplication };
    let mut owner = Owner::new(TopicSettings { deduplication: patience, ..settings() });
    let (by, _) = named(&mut owner, 1, "p");
    sends(&mut owner, by, "p", 5);
    owner.settle();
    for _ in 0..5 {
        owner.wait(20_000);
        owner.settle();
    }
    owner.call(|topic, turn| topic.detach_producer(turn, by.key, None));
    owner.wait(20_000);
    let (back, last) = named(&mut owner, 2, "p");
    assert_eq!(last, 5, "while it was attached it was not idle");
    owner.call(|topic, turn| topic.detach_producer(turn, back.key, None));
    for _ in 0..5 {
        owner.wait(20_000);
        owner.settle();
    }
    assert_eq!(named(&mut owner, 3, "p").1, -1);
    owner.crash(0, 0);
    assert_eq!(named(&mut owner, 3, "p").1, -1, "the saved ids are without it");
    assert_eq!(owner.topic.stats().last_confirmed, Position::new(2, 0).to_string());
}
