//! Exclusive subscriptions.

use ledger::{AckSet, Position};
use topic::{AckIds, Reply, SubscriptionKind::Exclusive, SubscriptionKind::Shared};
use wire::ServerError;

use crate::client::{ack, attach, consume, entry, flow, got, got_at, leave, producer, publish, send, try_consume};
use crate::sim::owner::{Owner, small_settings};

#[test]
fn everything_comes_in_order_from_storage_and_from_the_cache() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let mut sent = publish(&mut owner, to, 50);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 1_000);
    assert!(owner.reads > 0);
    let reads = owner.reads;
    sent.extend(publish(&mut owner, to, 50));
    assert_eq!(got_at(&mut owner), sent);
    assert_eq!(owner.reads, reads, "the tail comes from the cache");
}

#[test]
fn nothing_is_sent_before_it_is_durable() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 10);
    send(&mut owner, to, 0, entry(1, 1));
    assert_eq!(got(&mut owner), []);
    owner.settle();
    assert_eq!(got(&mut owner).len(), 1);
}

#[test]
fn permits_count_messages_and_the_last_batch_may_overdraw_them() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    for sequence in 0..4 {
        send(&mut owner, to, sequence, entry(10, 1));
    }
    owner.settle();
    flow(&mut owner, consumer, 15);
    assert_eq!(got(&mut owner).len(), 2);
    assert_eq!(owner.topic.stats().subscriptions[0].consumers[0].available_permits, -5);
    flow(&mut owner, consumer, 5);
    assert_eq!(got(&mut owner), []);
    flow(&mut owner, consumer, 1);
    assert_eq!(got(&mut owner).len(), 1);
}

#[test]
fn messages_of_a_batch_that_are_acked_use_no_permits() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    send(&mut owner, to, 0, entry(10, 1));
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 1);
    let at = got_at(&mut owner)[0];
    let left = AckSet(vec![0b11_1000_0000]);
    ack(&mut owner, consumer, AckIds::Many(vec![(at, Some(left.clone()), Some(10))]));
    owner.call(|topic, _| topic.redeliver(consumer.key, consumer.slot, Vec::new(), None));
    flow(&mut owner, consumer, 10);
    let again = got(&mut owner);
    assert_eq!((again[0].at, again[0].redeliveries, again[0].left.as_ref()), (at, 0, Some(&left)));
    assert_eq!(owner.topic.stats().subscriptions[0].consumers[0].available_permits, 1 - 10 + 10 - 3);
}

#[test]
fn a_part_of_a_batch_is_not_acked_when_that_is_switched_off() {
    let mut settings = small_settings();
    settings.batch_index_ack = false;
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    send(&mut owner, to, 0, entry(10, 1));
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 1);
    let at = got_at(&mut owner)[0];
    ack(&mut owner, consumer, AckIds::Cumulative(at, Some(AckSet(vec![1])), Some(10)));
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 1);
    ack(&mut owner, consumer, AckIds::Cumulative(at, None, None));
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 0);
}

#[test]
fn a_second_consumer_is_busy_until_the_first_has_left_and_then_gets_what_was_not_acked() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    let first = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, first, 10);
    assert_eq!(got_at(&mut owner), sent);
    ack(&mut owner, first, AckIds::Cumulative(sent[2], None, None));
    ack(&mut owner, first, AckIds::One(sent[5]));
    let busy = try_consume(&mut owner, attach(2, Exclusive));
    assert!(matches!(busy, Reply::Error { error: ServerError::ConsumerBusy, .. }));
    let busy = try_consume(&mut owner, attach(2, Shared));
    assert!(matches!(busy, Reply::Error { error: ServerError::ConsumerBusy, .. }));
    leave(&mut owner, first);
    let second = consume(&mut owner, attach(2, Exclusive));
    flow(&mut owner, second, 10);
    let expected: Vec<Position> = [3, 4, 6, 7, 8, 9].map(|index| sent[index]).to_vec();
    assert_eq!(got_at(&mut owner), expected);
}

#[test]
fn the_same_consumer_asking_again_is_told_that_it_is_attached() {
    let mut owner = Owner::new(small_settings());
    let first = consume(&mut owner, attach(1, Exclusive));
    assert_eq!(consume(&mut owner, attach(1, Exclusive)), first);
    assert_eq!(owner.topic.consumers(), 1);
}

#[test]
fn redelivery_reads_again_from_the_mark_delete_position_and_an_old_epoch_is_ignored() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 3);
    let mut asked = attach(1, Exclusive);
    asked.epoch = Some(4);
    let consumer = consume(&mut owner, asked);
    flow(&mut owner, consumer, 100);
    got(&mut owner);
    owner.call(|topic, _| topic.redeliver(consumer.key, consumer.slot, vec![sent[2]], Some(3)));
    owner.settle();
    assert_eq!(got(&mut owner), []);
    owner.call(|topic, _| topic.redeliver(consumer.key, consumer.slot, vec![sent[2]], Some(5)));
    owner.settle();
    assert_eq!(got_at(&mut owner), sent);
}

#[test]
fn the_type_may_change_when_nobody_is_attached() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 3);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 10);
    got(&mut owner);
    leave(&mut owner, first);
    let second = consume(&mut owner, attach(2, Exclusive));
    flow(&mut owner, second, 10);
    assert_eq!(got_at(&mut owner), sent);
}

#[test]
fn a_consumer_whose_connection_is_full_gets_nothing_until_it_takes_again() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    owner.call(|topic, _| topic.set_writable(consumer.key, consumer.slot, false));
    let sent = publish(&mut owner, to, 5);
    assert_eq!(got(&mut owner), []);
    owner.call(|topic, _| topic.set_writable(consumer.key, consumer.slot, true));
    owner.settle();
    assert_eq!(got_at(&mut owner), sent);
}

#[test]
fn a_failed_read_is_tried_again_later_and_reported_once() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 5);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 100));
    for wait in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        assert!(owner.fail_read(0), "a read is tried after its wait");
        assert_eq!(owner.topic.next_deadline(), Some(owner.now.monotonic_ms + wait));
        owner.wait(wait);
    }
    owner.settle();
    assert_eq!(got_at(&mut owner), sent);
    assert_eq!(owner.reports.len(), 1);
}

#[test]
fn a_long_backlog_is_sent_in_steps_that_leave_room_for_others() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    let sent = publish(&mut owner, to, 40);
    owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 1_000));
    assert_eq!(got(&mut owner).len(), 7, "one step");
    assert_eq!(owner.topic.next_deadline(), Some(owner.now.monotonic_ms), "asks to go on at once");
    assert!(owner.tick());
    assert_eq!(got(&mut owner).len(), 7);
    owner.settle();
    assert_eq!(got(&mut owner).len(), sent.len() - 14);
}

#[test]
fn the_cache_keeps_only_what_an_attached_consumer_has_not_been_sent() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    publish(&mut owner, to, 10);
    assert!(owner.cached_bytes() > 0);
    flow(&mut owner, consumer, 100);
    publish(&mut owner, to, 1);
    assert_eq!(owner.cached_bytes(), 0);
}

#[test]
fn a_cumulative_ack_past_the_end_acks_nothing() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    publish(&mut owner, to, 3);
    ack(&mut owner, consumer, AckIds::Cumulative(Position::LATEST, None, None));
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 3);
}
