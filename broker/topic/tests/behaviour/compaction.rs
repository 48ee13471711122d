//! The newest message of each key, for who asks for no more.

use bytes::{Bytes, BytesMut};
use ledger::{Position, Retention};
use topic::{
    AckIds, Asked, AttachConsumer, COMPACTION_CURSOR, CompactionRules, CompactionStatus, NotCompacted, Reply, SeekTo, StartAt,
    SubscriptionKind, TopicSettings,
};
use wire::proto::MessageMetadata;

use crate::client::{Consumer, ack, attach, connection, consume, flow, got_at, leave, producer, receipts, send, try_consume};
use crate::sim::owner::{Owner, small_settings};

/// Bytes of a message with a key; an empty value deletes it.
fn keyed(key: &str, value: &str) -> Bytes {
    let metadata = MessageMetadata {
        producer_name: "p".to_owned(),
        publish_time: 1_000,
        partition_key: Some(key.to_owned()),
        ..MessageMetadata::default()
    };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, value.as_bytes(), &mut bytes);
    bytes.freeze()
}

/// Publishes messages, each key and value, over several ledgers.
fn publish(owner: &mut Owner, messages: &[(&str, &str)]) -> Vec<Position> {
    let to = producer(owner, 1);
    for (sequence, (key, value)) in (0..).zip(messages) {
        send(owner, to, sequence, keyed(key, value));
        owner.settle();
    }
    let sent = receipts(owner);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
    sent
}

fn compact(owner: &mut Owner) {
    owner.call(topic::Topic::compact).expect("none is under way");
    owner.settle();
    assert_eq!(owner.topic.compaction_status(), &CompactionStatus::Success);
}

/// A reader of the compacted view.
fn reader(id: u64, start: StartAt) -> AttachConsumer {
    AttachConsumer {
        read_compacted: true,
        durable: false,
        start: Some(start),
        subscription: format!("reader-{id}"),
        ..attach(id, SubscriptionKind::Exclusive)
    }
}

fn read(owner: &mut Owner, attach: AttachConsumer) -> Vec<Position> {
    let consumer = consume(owner, attach);
    flow(owner, consumer, 1_000);
    let found = got_at(owner);
    leave(owner, consumer);
    found
}

fn last_message(owner: &mut Owner, of: Consumer) -> (Position, i32) {
    owner.call(|topic, turn| topic.last_message_id(turn, of.key, 900));
    owner.settle();
    match owner.replies().pop() {
        Some(Reply::LastMessageId { at, batch_index, .. }) => (at, batch_index),
        other => panic!("no last message: {other:?}"),
    }
}

/// 60 messages of 6 keys over 3 ledgers; of each key the last one is among the last six.
fn sixty(owner: &mut Owner) -> Vec<Position> {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let messages: Vec<(&str, &str)> = keys.into_iter().cycle().take(60).map(|key| (key, "value")).collect();
    publish(owner, &messages)
}

#[test]
fn a_reader_gets_the_newest_of_each_key_and_then_the_rest_of_the_topic() {
    let mut owner = Owner::new(small_settings());
    let sent = sixty(&mut owner);
    assert_eq!(read(&mut owner, reader(1, StartAt::Earliest)), sent, "nothing is compacted yet");
    compact(&mut owner);
    let later = publish(&mut owner, &[("a", "new"), ("a", "newer")]);
    let expected: Vec<Position> = sent[54..].iter().chain(&later).copied().collect();
    assert_eq!(read(&mut owner, reader(2, StartAt::Earliest)), expected);
    let all: Vec<Position> = sent.iter().chain(&later).copied().collect();
    let plain = AttachConsumer { read_compacted: false, ..reader(3, StartAt::Earliest) };
    assert_eq!(read(&mut owner, plain), all, "others get everything");
    assert_eq!(owner.topic.stats().compaction.last_removed, 54);
}

#[test]
fn a_second_compaction_takes_up_where_the_first_ended_and_deletes_its_ledger() {
    let mut owner = Owner::new(small_settings());
    let sent = sixty(&mut owner);
    compact(&mut owner);
    let first = owner.topic.stats().compaction.ledger.expect("it is compacted").0;
    let later = publish(&mut owner, &[("a", "new"), ("b", ""), ("a", "newer")]);
    compact(&mut owner);
    let expected: Vec<Position> = sent[56..].iter().chain(&later[2..]).copied().collect();
    assert_eq!(read(&mut owner, reader(1, StartAt::Earliest)), expected);
    assert!(owner.world.deleted.iter().any(|ledger| ledger.0 == first));
    compact(&mut owner);
    assert_eq!(read(&mut owner, reader(2, StartAt::Earliest)), expected, "nothing new, nothing done");
}

#[test]
fn what_was_trimmed_is_found_in_the_compacted_ledger() {
    let mut owner = Owner::new(TopicSettings { retention: Retention::default(), ..small_settings() });
    // The cursor must be there before anything can be trimmed.
    publish(&mut owner, &[("z", "1")]);
    compact(&mut owner);
    let sent = sixty(&mut owner);
    compact(&mut owner);
    owner.call(topic::Topic::trim_now);
    owner.settle();
    let first = owner.topic.stats().ledgers.first().expect("a ledger").0;
    assert!(sent[50].ledger.0 < first, "what was read is not in the topic any more");
    let reading = consume(&mut owner, reader(1, StartAt::Earliest));
    flow(&mut owner, reading, 3);
    let mut found = got_at(&mut owner);
    assert_eq!(found.len(), 3);
    // From an id that only the compacted ledger knows; and from one that no ledger has.
    let at = found[2];
    assert_eq!(read(&mut owner, reader(2, StartAt::At(at)))[0], at);
    let between = Position::new(found[1].ledger.0, found[1].entry.0 + 1);
    assert_eq!(read(&mut owner, reader(3, StartAt::At(between)))[0], found[2]);
    // More is trimmed, and the broker forgets nothing it has to know.
    let later = publish(&mut owner, &[("a", "new")]);
    flow(&mut owner, reading, 1_000);
    found.extend(got_at(&mut owner));
    let expected: Vec<Position> = owner_view(&sent, &later);
    assert_eq!(found[1..], expected[..]);
    owner.unload_and_load();
    let all = read(&mut owner, reader(4, StartAt::Earliest));
    assert_eq!(all[1..], expected[..]);
}

fn owner_view(sent: &[Position], later: &[Position]) -> Vec<Position> {
    sent[54..].iter().chain(later).copied().collect()
}

#[test]
fn a_durable_subscription_reads_the_view_and_goes_on_where_it_was() {
    let mut owner = Owner::new(small_settings());
    let durable = AttachConsumer { read_compacted: true, ..attach(1, SubscriptionKind::Failover) };
    let consumer = consume(&mut owner, durable.clone());
    leave(&mut owner, consumer);
    let sent = sixty(&mut owner);
    compact(&mut owner);
    let consumer = consume(&mut owner, durable.clone());
    flow(&mut owner, consumer, 1_000);
    assert_eq!(got_at(&mut owner), sent[54..]);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[56], None, None));
    leave(&mut owner, consumer);
    owner.unload_and_load();
    let consumer = consume(&mut owner, durable);
    flow(&mut owner, consumer, 1_000);
    assert_eq!(got_at(&mut owner), sent[57..]);
}

#[test]
fn seeking_in_the_view_finds_the_next_that_is_left() {
    let mut owner = Owner::new(small_settings());
    let sent = sixty(&mut owner);
    compact(&mut owner);
    let again = AttachConsumer { start: None, ..reader(1, StartAt::Earliest) };
    let consumer = consume(&mut owner, reader(1, StartAt::Earliest));
    flow(&mut owner, consumer, 1_000);
    assert_eq!(got_at(&mut owner), sent[54..]);
    for (to, expected) in [(sent[3], &sent[54..]), (sent[57], &sent[57..]), (Position::EARLIEST, &sent[54..])] {
        owner.call(|topic, turn| topic.seek(turn, consumer.key, 7, SeekTo::Message(to)));
        owner.settle();
        owner.replies();
        let consumer = consume(&mut owner, again.clone());
        flow(&mut owner, consumer, 1_000);
        assert_eq!(got_at(&mut owner), expected, "{to}");
    }
}

#[test]
fn the_last_message_of_the_view_is_one_that_is_left() {
    let mut owner = Owner::new(small_settings());
    let sent = publish(&mut owner, &[("a", "1"), ("b", "1"), ("b", "")]);
    compact(&mut owner);
    let consumer = consume(&mut owner, reader(1, StartAt::Earliest));
    assert_eq!(last_message(&mut owner, consumer), (sent[0], -1));
    let plain = consume(&mut owner, AttachConsumer { read_compacted: false, ..reader(2, StartAt::Earliest) });
    assert_eq!(last_message(&mut owner, plain), (sent[2], -1));
    let later = publish(&mut owner, &[("b", "2")]);
    assert_eq!(last_message(&mut owner, consumer), (later[0], -1));
    publish(&mut owner, &[("a", ""), ("b", "")]);
    compact(&mut owner);
    assert_eq!(last_message(&mut owner, consumer), (Position::EARLIEST, -1), "nothing is left");
    flow(&mut owner, consumer, 10);
    assert_eq!(got_at(&mut owner), []);
    let later = publish(&mut owner, &[("c", "1")]);
    assert_eq!(got_at(&mut owner), later);
}

#[test]
fn only_who_gets_everything_alone_may_read_the_view() {
    let mut owner = Owner::new(small_settings());
    for kind in [SubscriptionKind::Shared, SubscriptionKind::KeyShared] {
        let refused = try_consume(&mut owner, AttachConsumer { read_compacted: true, ..attach(1, kind) });
        assert!(matches!(refused, Reply::Error { error: wire::ServerError::NotAllowedError, .. }), "{refused:?}");
    }
    let own = AttachConsumer { subscription: COMPACTION_CURSOR.to_owned(), ..attach(1, SubscriptionKind::Exclusive) };
    assert!(matches!(try_consume(&mut owner, own), Reply::Error { error: wire::ServerError::NotAllowedError, .. }));
}

#[test]
fn a_compaction_goes_on_while_messages_are_published_and_a_second_one_is_refused() {
    let mut owner = Owner::new(small_settings());
    publish(&mut owner, &[("a", "1")]);
    compact(&mut owner);
    let sent = sixty(&mut owner);
    owner.call(topic::Topic::compact).expect("none is under way");
    assert_eq!(owner.topic.compaction_status(), &CompactionStatus::Running);
    assert_eq!(owner.call(topic::Topic::compact), Err(NotCompacted::Running));
    let meanwhile = publish(&mut owner, &[("a", "new")]);
    owner.settle();
    let found = read(&mut owner, reader(1, StartAt::Earliest));
    assert_eq!(found, sent[54..].iter().chain(&meanwhile).copied().collect::<Vec<_>>(), "up to where it began");
}

#[test]
fn a_crash_at_any_step_leaves_a_view_in_force() {
    for written in 0..8 {
        let mut owner = Owner::new(small_settings());
        let sent = sixty(&mut owner);
        compact(&mut owner);
        let later = publish(&mut owner, &[("a", "new"), ("b", ""), ("c", "new")]);
        owner.call(topic::Topic::compact).expect("none is under way");
        for _ in 0..written {
            owner.finish_write();
        }
        owner.crash(0, usize::from(written % 2 == 1));
        let found = read(&mut owner, reader(1, StartAt::Earliest));
        let old: Vec<Position> = sent[54..].iter().chain(&later).copied().collect();
        let new: Vec<Position> = sent[57..].iter().chain([&later[0], &later[2]]).copied().collect();
        assert!(found == old || found == new, "after {written} writes: {found:?}");
        compact(&mut owner);
        assert_eq!(read(&mut owner, reader(2, StartAt::Earliest)), new, "after {written} writes");
    }
}

#[test]
fn a_topic_is_compacted_by_itself_when_enough_was_published() {
    let rules = CompactionRules { threshold_bytes: 1_000, check_ms: 60_000, keep_without_key: false };
    let mut owner = Owner::new(TopicSettings { compaction: rules, retention: Retention::default(), ..small_settings() });
    publish(&mut owner, &[("a", "1")]);
    owner.wait(60_000);
    owner.settle();
    assert_eq!(owner.topic.compaction_status(), &CompactionStatus::NotRun);
    let sent = sixty(&mut owner);
    assert_eq!(
        owner.topic.stats().ledgers.first().map(|ledger| ledger.0),
        owner.topic.stats().ledgers.first().map(|l| l.0.min(2)),
        "not trimmed before"
    );
    owner.wait(60_000);
    owner.settle();
    assert_eq!(owner.topic.compaction_status(), &CompactionStatus::Success);
    assert_eq!(read(&mut owner, reader(1, StartAt::Earliest)), sent[54..]);
}

#[test]
fn compaction_is_forgotten_with_its_cursor() {
    let mut owner = Owner::new(small_settings());
    let sent = sixty(&mut owner);
    compact(&mut owner);
    let ledger = owner.topic.stats().compaction.ledger.expect("it is compacted").0;
    let asked = Asked { to: connection(9), request: 5 };
    owner.call(|topic, turn| topic.delete_subscription(turn, asked, COMPACTION_CURSOR, false)).expect("it is there");
    owner.settle();
    assert!(matches!(owner.replies().pop(), Some(Reply::Success { request: 5 })));
    assert!(owner.world.deleted.iter().any(|deleted| deleted.0 == ledger));
    assert_eq!(read(&mut owner, reader(1, StartAt::Earliest)), sent);
}

#[test]
fn slow_readers_of_the_view_take_turns_with_failing_storage() {
    let mut owner = Owner::new(small_settings());
    let sent = sixty(&mut owner);
    compact(&mut owner);
    let consumer = consume(&mut owner, reader(1, StartAt::Earliest));
    let mut found = Vec::new();
    for _ in 0..6 {
        owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 1));
        while owner.reads_open() > 0 {
            owner.fail_read(0);
        }
        owner.wait(10_000);
        owner.settle();
        found.extend(got_at(&mut owner));
    }
    assert_eq!(found, sent[54..]);
}
