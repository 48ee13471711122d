//! Rollover and trimming.

use topic::{AckIds, SubscriptionKind::Exclusive};

use crate::client::{ack, attach, consume, flow, got_at, leave, producer, publish};
use crate::sim::owner::{Owner, small_settings};

fn trimming() -> topic::TopicSettings {
    topic::TopicSettings { retention: ledger::Retention::default(), ..small_settings() }
}

#[test]
fn ledgers_go_when_every_subscription_has_them_behind() {
    let mut owner = Owner::new(trimming());
    let to = producer(&mut owner, 1);
    let mut other = attach(2, Exclusive);
    other.subscription = "other".to_owned();
    let first = consume(&mut owner, attach(1, Exclusive));
    let second = consume(&mut owner, other);
    let sent = publish(&mut owner, to, 50);
    flow(&mut owner, first, 100);
    flow(&mut owner, second, 100);
    ack(&mut owner, first, AckIds::Cumulative(sent[49], None, None));
    assert_eq!(owner.topic.stats().ledgers.len(), 3);
    ack(&mut owner, second, AckIds::Cumulative(sent[25], None, None));
    assert_eq!(owner.topic.stats().ledgers.len(), 2);
    owner.call(|topic, turn| topic.unsubscribe(turn, second.key, 9, false));
    owner.settle();
    assert_eq!(owner.topic.stats().ledgers.len(), 1);
    assert_eq!(owner.topic.stats().storage_entries, 10);
}

#[test]
fn a_ledger_is_deleted_only_after_the_list_without_it_is_recorded() {
    let mut owner = Owner::new(trimming());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    let sent = publish(&mut owner, to, 25);
    flow(&mut owner, consumer, 100);
    let ids = AckIds::Cumulative(sent[24], None, None);
    owner.call(|topic, turn| topic.ack(turn, topic::Ack { key: consumer.key, slot: consumer.slot, request: None, ids }));
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().ledgers.len(), 3, "two with entries and the new one");
    assert_eq!(owner.topic.stats().storage_entries, 25);
}

#[test]
fn a_reader_does_not_hold_ledgers_back_and_goes_on_where_they_begin() {
    let mut settings = small_settings();
    settings.retention = ledger::Retention { time_ms: 1_000, size_bytes: -1 };
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 50);
    let mut reader = attach(1, Exclusive);
    reader.durable = false;
    let reader = consume(&mut owner, reader);
    flow(&mut owner, reader, 5);
    assert_eq!(got_at(&mut owner), sent[..5]);
    owner.wait(200_000);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 10);
    flow(&mut owner, reader, 100);
    assert_eq!(got_at(&mut owner), sent[40..]);
    leave(&mut owner, reader);
    assert_eq!(owner.topic.stats().subscriptions.len(), 0);
}

#[test]
fn a_ledger_rolls_over_when_it_is_old_enough() {
    let mut owner = Owner::new(trimming());
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 1);
    assert_eq!(owner.topic.stats().ledgers.len(), 1);
    owner.wait(3_700_000);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 0, "rolled over, and consumed by nobody");
}

#[test]
fn consumed_ledgers_are_kept_for_their_time() {
    let mut owner =
        Owner::new(topic::TopicSettings { retention: ledger::Retention { time_ms: 600_000, size_bytes: -1 }, ..small_settings() });
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    let sent = publish(&mut owner, to, 50);
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[49], None, None));
    owner.wait(500_000);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 50, "acknowledged, and not old enough");
    owner.wait(300_000);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 10, "the open ledger stays");
}

#[test]
fn consumed_ledgers_are_kept_up_to_their_size_and_unconsumed_ones_whatever_it_is() {
    let mut owner =
        Owner::new(topic::TopicSettings { retention: ledger::Retention { time_ms: -1, size_bytes: 1 << 30 }, ..small_settings() });
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    let sent = publish(&mut owner, to, 90);
    let bytes = owner.topic.stats().storage_bytes;
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[69], None, None));
    assert_eq!(owner.topic.stats().ledgers.len(), 5);
    let tight =
        topic::TopicSettings { retention: ledger::Retention { time_ms: -1, size_bytes: bytes as i64 * 50 / 90 }, ..small_settings() };
    owner.change_settings(tight);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 50, "twenty in each ledger");
    let none = topic::TopicSettings { retention: ledger::Retention::default(), ..small_settings() };
    owner.change_settings(none);
    owner.settle();
    assert_eq!(owner.topic.stats().storage_entries, 30, "those with entries that nobody has had");
}
