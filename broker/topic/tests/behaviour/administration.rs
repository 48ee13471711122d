//! What administrators do to a topic and its subscriptions.

use ledger::{Position, Retention};
use topic::{AckIds, Asked, Reply, SeekTo, StartAt, SubscriptionKind, TopicSettings, Unmoved};

use crate::client::{Consumer, ack, attach, connection, consume, entry, flow, got_at, leave, producer, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

const ASKED: Asked = Asked { to: connection_key(), request: 77 };

const fn connection_key() -> topic::ConnectionKey {
    topic::ConnectionKey { worker: 0, slot: 9, generation: 1 }
}

fn with_backlog(settings: TopicSettings, count: u64) -> (Owner, Vec<Position>) {
    let mut owner = Owner::new(settings);
    assert_eq!(connection(9), connection_key());
    let consumer = consume(&mut owner, attach(1, SubscriptionKind::Shared));
    leave(&mut owner, consumer);
    let to = producer(&mut owner, 1);
    for sequence in 0..count {
        // One each millisecond.
        owner.wait(1);
        let time = owner.now.wall_ms;
        send(&mut owner, to, sequence, entry(1, time));
        owner.settle();
    }
    let sent = receipts(&mut owner);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
    (owner, sent)
}

/// When the message of this number was published.
fn time_of(number: u64) -> u64 {
    1_700_000_000_001 + number
}

fn consumer(owner: &mut Owner) -> Consumer {
    consume(owner, attach(1, SubscriptionKind::Shared))
}

fn answered(owner: &mut Owner) -> bool {
    owner.replies().iter().any(|reply| matches!(reply, Reply::Success { request: 77 }))
}

#[test]
fn skipping_counts_only_what_is_not_acked() {
    let (mut owner, sent) = with_backlog(small_settings(), 50);
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 10);
    got_at(&mut owner);
    ack(&mut owner, shared, AckIds::One(sent[1]));
    ack(&mut owner, shared, AckIds::One(sent[2]));
    leave(&mut owner, shared);
    assert_eq!(owner.topic.nth_unacked("s", 2), Ok(Some(sent[3])));
    assert_eq!(owner.topic.nth_unacked("s", 48), Ok(Some(sent[49])));
    assert_eq!(owner.topic.nth_unacked("s", 49), Ok(None));
    assert_eq!(owner.topic.nth_unacked("nobody's", 50), Ok(Some(sent[49])));
    assert_eq!(owner.topic.nth_unacked("nobody's", 51), Ok(None));
    owner.call(|topic, turn| topic.skip(turn, "s", Some(3))).expect("it is there");
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    assert_eq!(got_at(&mut owner), sent[5..]);
    leave(&mut owner, shared);
    owner.call(|topic, turn| topic.skip(turn, "s", None)).expect("it is there");
    owner.unload_and_load();
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    assert_eq!(got_at(&mut owner), []);
    assert_eq!(owner.call(|topic, turn| topic.skip(turn, "t", None)), Err(Unmoved::NotFound));
}

#[test]
fn messages_before_a_time_are_left_behind_by_whom_it_is_asked_for() {
    let (mut owner, sent) = with_backlog(small_settings(), 50);
    // The cache does not know them after a restart.
    owner.crash(0, 0);
    owner.call(|topic, turn| topic.expire_before_time(turn, ASKED, Some("s"), time_of(20)));
    owner.settle();
    assert!(answered(&mut owner));
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    assert_eq!(got_at(&mut owner), sent[20..]);
    owner.call(|topic, turn| topic.expire_before_time(turn, ASKED, None, time_of(30)));
    owner.settle();
    assert!(answered(&mut owner));
    let stats = owner.topic.stats();
    assert_eq!((stats.subscriptions[0].backlog, stats.subscriptions[0].messages_expired), (20, 30));
    owner.call(|topic, turn| topic.expire_through(turn, "s", sent[34])).expect("it is there");
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 15);
}

#[test]
fn a_message_is_found_by_its_time_also_when_reads_fail_first() {
    let (mut owner, sent) = with_backlog(small_settings(), 50);
    owner.crash(0, 0);
    for (time, expected) in [(0, Some(0)), (time_of(7), Some(7)), (time_of(49), Some(49)), (time_of(2_000), None)] {
        owner.call(|topic, turn| topic.find_published(turn, ASKED, time));
        owner.fail_read(0);
        owner.wait(10_000);
        owner.settle();
        let found = owner.replies().into_iter().find_map(|reply| match reply {
            Reply::Place { request: 77, at } => Some(at),
            _ => None,
        });
        let found = found.expect("an answer");
        match expected {
            Some(index) => assert_eq!(found, sent[index]),
            None => assert!(found > sent[49]),
        }
    }
}

#[test]
fn a_reset_closes_the_consumers_and_moves_the_subscription() {
    let (mut owner, sent) = with_backlog(small_settings(), 30);
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    got_at(&mut owner);
    owner.call(|topic, turn| topic.reset(turn, ASKED, "s", SeekTo::Message(sent[25]))).expect("it is there");
    owner.settle();
    let replies = owner.replies();
    assert!(replies.iter().any(|reply| matches!(reply, Reply::CloseConsumer { .. })));
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Success { request: 77 })));
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    assert_eq!(got_at(&mut owner), sent[25..]);
}

#[test]
fn a_subscription_with_consumers_is_removed_only_by_force() {
    let (mut owner, _) = with_backlog(small_settings(), 3);
    let shared = consumer(&mut owner);
    assert_eq!(owner.call(|topic, turn| topic.delete_subscription(turn, ASKED, "s", false)), Err(Unmoved::InUse));
    leave(&mut owner, shared);
    consumer(&mut owner);
    owner.call(|topic, turn| topic.delete_subscription(turn, ASKED, "s", true)).expect("forced");
    owner.settle();
    assert!(answered(&mut owner));
    assert!(!owner.topic.has_subscription("s"));
    assert_eq!(owner.world.cursors().count(), 0);
}

#[test]
fn what_is_noted_on_a_subscription_survives_a_crash() {
    let (mut owner, sent) = with_backlog(small_settings(), 10);
    let noted = |value: &str| vec![("owner".to_owned(), value.to_owned())];
    owner.call(|topic, turn| topic.create_subscription(turn, ASKED, "made".to_owned(), StartAt::Earliest, noted("first")));
    owner.settle();
    assert!(answered(&mut owner));
    assert_eq!(owner.topic.subscription_properties("made"), Some(&noted("first")[..]));
    // With a state in a cursor ledger, and without.
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    ack(&mut owner, shared, AckIds::One(sent[4]));
    owner.settle();
    for subscription in ["made", "s"] {
        assert!(owner.call(|topic, turn| topic.note_on_subscription(turn, subscription, noted("second"))));
    }
    owner.settle();
    owner.crash(0, 0);
    for subscription in ["made", "s"] {
        assert_eq!(owner.topic.subscription_properties(subscription), Some(&noted("second")[..]), "{subscription}");
    }
    assert_eq!(owner.topic.subscription_properties("none"), None);
    let stats = owner.topic.stats();
    let backlogs: Vec<u64> = stats.subscriptions.iter().map(|s| s.backlog).collect();
    assert!(backlogs.contains(&9) && backlogs.contains(&10), "{backlogs:?}");
}

#[test]
fn what_is_noted_on_a_topic_is_recorded_before_it_is_answered() {
    let (mut owner, _) = with_backlog(small_settings(), 3);
    let notes = vec![("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), Some("2".to_owned()))];
    owner.call(|topic, turn| topic.note(turn, ASKED, notes));
    assert!(!answered(&mut owner));
    owner.settle();
    assert!(answered(&mut owner));
    owner.call(|topic, turn| topic.note(turn, ASKED, vec![("a".to_owned(), None)]));
    owner.settle();
    owner.crash(0, 0);
    assert_eq!(owner.topic.properties().collect::<Vec<_>>(), [("b", "2")]);
}

#[test]
fn truncating_leaves_only_the_ledger_that_is_written_to() {
    let (mut owner, sent) = with_backlog(small_settings(), 50);
    owner.call(topic::Topic::truncate);
    owner.settle();
    assert_eq!(owner.topic.stats().ledgers.len(), 1);
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 0);
    assert!(!owner.topic.holds(sent[0]) && owner.topic.holds(sent[49]));
    assert_eq!(owner.topic.nth_entry(1, true), Some(sent[49]));
    assert_eq!(owner.topic.nth_entry(100, true), Some(sent[40]));
    let to = producer(&mut owner, 2);
    let later = publish(&mut owner, to, 2);
    let shared = consumer(&mut owner);
    flow(&mut owner, shared, 100);
    assert_eq!(got_at(&mut owner), later);
}

#[test]
fn a_trim_on_request_lets_go_of_what_retention_does_not_keep() {
    let settings = TopicSettings { retention: Retention::default(), ..small_settings() };
    let (mut owner, _) = with_backlog(settings, 50);
    owner.call(topic::Topic::trim_now);
    owner.settle();
    assert_eq!(owner.topic.stats().ledgers.len(), 3);
    owner.call(|topic, turn| topic.skip(turn, "s", None)).expect("it is there");
    owner.call(topic::Topic::trim_now);
    owner.settle();
    assert_eq!(owner.topic.stats().ledgers.len(), 1);
}
