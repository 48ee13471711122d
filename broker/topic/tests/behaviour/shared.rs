//! Shared subscriptions.

use ledger::AckSet;
use topic::{AckIds, Effect, Reply, SubscriptionKind::Shared, TopicSettings, faults::Faults};
use wire::ServerError;

use crate::client::{Consumer, Got, ack, attach, consume, entry, flow, got, got_at, leave, producer, publish, send};
use crate::sim::owner::{Owner, small_settings};
use crate::sim::world::World;

fn per_consumer(got: &[Got]) -> Vec<(u64, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for got in got {
        *counts.entry(got.to).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn entries_go_round_over_the_consumers() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for id in 1..=3 {
        let consumer = consume(&mut owner, attach(id, Shared));
        flow(&mut owner, consumer, 100);
    }
    let sent = publish(&mut owner, to, 30);
    let got = got(&mut owner);
    assert_eq!(got.iter().map(|got| got.at).collect::<Vec<_>>(), sent);
    assert!(per_consumer(&got).iter().all(|(_, count)| (6..=14).contains(count)), "{:?}", per_consumer(&got));
}

#[test]
fn a_consumer_without_permits_holds_nobody_back() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let idle = consume(&mut owner, attach(1, Shared));
    let busy = consume(&mut owner, attach(2, Shared));
    flow(&mut owner, idle, 3);
    flow(&mut owner, busy, 100);
    publish(&mut owner, to, 30);
    assert_eq!(per_consumer(&got(&mut owner)), [(1, 3), (2, 27)]);
}

#[test]
fn a_higher_priority_number_gets_nothing_while_a_lower_one_has_permits() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for (id, priority) in [(1, 1), (2, 2), (3, 1)] {
        let mut attach = attach(id, Shared);
        attach.priority = priority;
        let consumer = consume(&mut owner, attach);
        flow(&mut owner, consumer, 10);
    }
    publish(&mut owner, to, 20);
    assert_eq!(per_consumer(&got(&mut owner)), [(1, 10), (3, 10)]);
    publish(&mut owner, to, 5);
    assert_eq!(per_consumer(&got(&mut owner)), [(2, 5)]);
}

#[test]
fn what_a_consumer_held_goes_to_others_first_and_in_order_with_its_count_raised() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 6);
    let sent = publish(&mut owner, to, 10);
    got(&mut owner);
    ack(&mut owner, first, AckIds::One(sent[1]));
    let second = consume(&mut owner, attach(2, Shared));
    leave(&mut owner, first);
    flow(&mut owner, second, 100);
    let expected: Vec<_> = [0, 2, 3, 4, 5].map(|index| (sent[index], 1)).into_iter().chain(sent[6..].iter().map(|at| (*at, 0))).collect();
    assert_eq!(got(&mut owner).into_iter().map(|got| (got.at, got.redeliveries)).collect::<Vec<_>>(), expected);
}

#[test]
fn the_count_survives_the_last_consumer() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 1);
    for count in 0..5 {
        let consumer = consume(&mut owner, attach(count, Shared));
        flow(&mut owner, consumer, 1);
        let got = got(&mut owner);
        assert_eq!((got[0].at, u64::from(got[0].redeliveries)), (sent[0], count));
        leave(&mut owner, consumer);
    }
}

#[test]
fn a_count_that_is_not_raised_on_close_is_noticed() {
    let faults = Faults { count_not_raised_on_close: true, ..Faults::default() };
    let mut owner = Owner::over(World::default(), small_settings(), 1 << 20, faults);
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 1);
    leave(&mut owner, first);
    got(&mut owner);
    let second = consume(&mut owner, attach(2, Shared));
    flow(&mut owner, second, 1);
    assert_eq!(got(&mut owner)[0].redeliveries, 0, "the deliberate mistake is there");
}

#[test]
fn only_the_holder_can_ask_for_redelivery_and_each_time_counts() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    let second = consume(&mut owner, attach(2, Shared));
    flow(&mut owner, first, 100);
    let sent = publish(&mut owner, to, 3);
    got(&mut owner);
    let redeliver = |owner: &mut Owner, by: Consumer| {
        owner.call(|topic, _| topic.redeliver(by.key, by.slot, vec![sent[1]], None));
        owner.settle();
        got(owner).into_iter().map(|got| (got.at, got.redeliveries)).collect::<Vec<_>>()
    };
    assert_eq!(redeliver(&mut owner, second), []);
    assert_eq!(redeliver(&mut owner, first), [(sent[1], 1)]);
    assert_eq!(redeliver(&mut owner, first), [(sent[1], 2)]);
}

#[test]
fn an_ack_by_another_consumer_counts_and_frees_the_holder() {
    let mut settings = small_settings();
    settings.max_unacked_per_consumer = 2;
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 100);
    let second = consume(&mut owner, attach(2, Shared));
    let sent = publish(&mut owner, to, 5);
    assert_eq!(got_at(&mut owner), sent[..2]);
    assert!(owner.topic.stats().subscriptions[0].consumers[0].blocked_on_unacked);
    ack(&mut owner, second, AckIds::One(sent[0]));
    assert_eq!(got_at(&mut owner), sent[2..3]);
    assert_eq!(owner.topic.stats().subscriptions[0].unacked_messages, 2);
}

#[test]
fn the_limit_of_a_subscription_holds_all_its_consumers() {
    let mut settings = small_settings();
    settings.max_unacked_per_subscription = 4;
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    let second = consume(&mut owner, attach(2, Shared));
    flow(&mut owner, first, 100);
    flow(&mut owner, second, 100);
    let sent = publish(&mut owner, to, 10);
    assert_eq!(got_at(&mut owner), sent[..4]);
    ack(&mut owner, first, AckIds::Many(vec![(sent[3], None, None), (sent[0], None, None)]));
    assert_eq!(got_at(&mut owner), sent[4..6]);
}

#[test]
fn part_of_a_batch_comes_again_with_what_is_left_of_it() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 10);
    send(&mut owner, to, 0, entry(10, 1));
    owner.settle();
    let at = got_at(&mut owner)[0];
    ack(&mut owner, first, AckIds::Many(vec![(at, Some(AckSet(vec![0b11_1111_0000])), None)]));
    assert_eq!(owner.topic.stats().subscriptions[0].consumers[0].unacked_messages, 6);
    let second = consume(&mut owner, attach(2, Shared));
    leave(&mut owner, first);
    flow(&mut owner, second, 10);
    let again = got(&mut owner);
    assert_eq!((again[0].redeliveries, again[0].left.clone()), (1, Some(AckSet(vec![0b11_1111_0000]))));
    assert_eq!(owner.topic.stats().subscriptions[0].consumers[0].available_permits, 4);
    ack(&mut owner, second, AckIds::Many(vec![(at, Some(AckSet(vec![0b00_0000_1111])), None)]));
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 0);
    assert_eq!(owner.topic.stats().subscriptions[0].unacked_messages, 0);
}

#[test]
fn a_cumulative_ack_is_refused_and_changes_nothing() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 3);
    let consumer = consume(&mut owner, attach(1, Shared));
    let ids = AckIds::Cumulative(sent[2], None, None);
    owner.call(|topic, turn| topic.ack(turn, topic::Ack { key: consumer.key, slot: consumer.slot, request: Some(5), ids }));
    let replies = owner.replies();
    assert!(matches!(replies.as_slice(), [Reply::AckDone { request: 5, error: Some((ServerError::NotAllowedError, _)), .. }]));
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 3);
}

#[test]
fn an_ack_of_an_entry_that_waits_for_redelivery_takes_it_back() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 2);
    let sent = publish(&mut owner, to, 2);
    got(&mut owner);
    owner.call(|topic, _| topic.redeliver(first.key, first.slot, Vec::new(), None));
    ack(&mut owner, first, AckIds::One(sent[0]));
    flow(&mut owner, first, 10);
    assert_eq!(got_at(&mut owner), sent[1..]);
}

#[test]
fn redelivery_reads_storage_when_the_cache_has_let_go() {
    let mut owner = Owner::over(World::default(), small_settings(), 0, Faults::default());
    let to = producer(&mut owner, 1);
    let first = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, first, 100);
    let sent = publish(&mut owner, to, 50);
    assert_eq!(got(&mut owner).len(), 50);
    let before = owner.reads;
    owner.call(|topic, _| topic.redeliver(first.key, first.slot, Vec::new(), None));
    owner.settle();
    assert_eq!(got_at(&mut owner), sent);
    assert!(owner.reads - before <= 12, "{} reads for 50 entries, 7 at a time", owner.reads - before);
}

#[test]
fn batches_with_few_permits_are_hardly_read_twice() {
    let mut settings = small_settings();
    settings.max_read_entries = 100;
    settings.max_read_bytes = 1 << 20;
    let mut owner = Owner::over(World::default(), settings, 0, Faults::default());
    let to = producer(&mut owner, 1);
    for sequence in 0..1_000 {
        send(&mut owner, to, sequence, entry(100, 1));
    }
    owner.settle();
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 1_000);
    let mut received = 0;
    loop {
        let got = got_at(&mut owner);
        received += got.len();
        if got.is_empty() {
            break;
        }
        for at in got {
            ack(&mut owner, consumer, AckIds::One(at));
            flow(&mut owner, consumer, 100);
        }
    }
    assert_eq!(received, 1_000);
    assert!(owner.entries_read <= 1_100, "{} entries read", owner.entries_read);
    assert!(!owner.heard.iter().any(|effect| matches!(effect, Effect::Refused { .. })));
}

#[test]
fn ids_that_no_entry_has_are_acked_and_asked_for_without_harm() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 10);
    let sent = publish(&mut owner, to, 3);
    got(&mut owner);
    for entry in [i64::MIN, -1, 3, i64::MAX] {
        for ledger in [i64::MIN, -1, sent[0].ledger.0, i64::MAX] {
            let at = ledger::Position::new(ledger, entry);
            ack(&mut owner, consumer, AckIds::One(at));
            ack(&mut owner, consumer, AckIds::Many(vec![(at, Some(AckSet(vec![1])), None), (at, Some(AckSet(Vec::new())), Some(0))]));
            owner.call(|topic, _| topic.redeliver(consumer.key, consumer.slot, vec![at], None));
        }
    }
    assert_eq!(got(&mut owner), []);
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 3);
}

#[test]
fn a_shared_reader_forgets_what_was_trimmed_under_its_consumers() {
    let mut settings = small_settings();
    settings.retention = ledger::Retention { time_ms: 1_000, size_bytes: -1 };
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let mut asked = attach(1, Shared);
    asked.durable = false;
    let reader = consume(&mut owner, asked);
    flow(&mut owner, reader, 30);
    let sent = publish(&mut owner, to, 30);
    assert_eq!(got(&mut owner).len(), 30);
    owner.wait(200_000);
    owner.settle();
    let stats = owner.topic.stats();
    assert_eq!((stats.storage_entries, stats.subscriptions[0].consumers[0].unacked_messages), (10, 10));
    owner.call(|topic, _| topic.redeliver(reader.key, reader.slot, Vec::new(), None));
    flow(&mut owner, reader, 30);
    assert_eq!(got_at(&mut owner), sent[20..]);
}

#[test]
fn reads_begin_small_after_a_failure_and_double_with_each_that_works() {
    let settings = TopicSettings { min_read_entries: 2, max_read_entries: 10, max_read_bytes: 1 << 20, ..small_settings() };
    let mut owner = Owner::over(World::default(), settings, 0, Faults::default());
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 100);
    let consumer = consume(&mut owner, attach(1, Shared));
    owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 1_000));
    assert!(owner.fail_read(0));
    owner.wait(5_000);
    let mut sizes = Vec::new();
    loop {
        let before = owner.entries_read;
        if !owner.finish_read(0) && !owner.tick() {
            break;
        }
        sizes.push(owner.entries_read - before);
    }
    sizes.retain(|size| *size > 0);
    assert_eq!(sizes[..4], [2, 4, 8, 6], "twenty entries make a ledger");
    assert_eq!(sizes[4..6], [10, 10]);
    assert_eq!(got(&mut owner).len(), 100);
}
