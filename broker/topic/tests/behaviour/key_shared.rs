//! Key_Shared subscriptions: who gets which key, when a key may move, and what may wait meanwhile.

use bytes::{Bytes, BytesMut};
use ledger::Position;
use topic::{AckIds, AttachConsumer, HashRange, KeySharedPolicy, KeySplit, Reply, SubscriptionKind::KeyShared, TopicSettings};
use wire::ServerError;
use wire::proto::MessageMetadata;

use crate::client::{Consumer, Got, Producer, ack, attach, consume, flow, got, leave, producer, receipts, send, try_consume};
use crate::sim::owner::{Owner, small_settings};

// Of two halves of the slots each of these keys falls into another one.
const LOW: &str = "A";
const HIGH: &str = "B";

fn keyed(key: &str) -> Bytes {
    let metadata =
        MessageMetadata { producer_name: "p".to_owned(), publish_time: 1, partition_key: Some(key.to_owned()), ..Default::default() };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, b"payload", &mut bytes);
    bytes.freeze()
}

fn publish(owner: &mut Owner, to: Producer, keys: &[&str]) -> Vec<Position> {
    for (sequence, key) in keys.iter().enumerate() {
        send(owner, to, sequence as u64, keyed(key));
    }
    owner.settle();
    receipts(owner)
}

/// Positions that came to each of the consumers.
fn came<const N: usize>(owner: &mut Owner, consumers: [Consumer; N]) -> [Vec<Position>; N] {
    let all = got(owner);
    consumers.map(|consumer| all.iter().filter(|got| got.to == consumer.key.id).map(|got| got.at).collect())
}

/// A consumer of the lower half, which came second, and one of the upper half.
fn halves(owner: &mut Owner) -> (Consumer, Consumer) {
    let upper = consume(owner, attach(1, KeyShared));
    let lower = consume(owner, attach(2, KeyShared));
    (lower, upper)
}

fn keys_by_half() -> (&'static str, &'static str) {
    let is_low = |key: &str| wire::hash::key_slot(key.as_bytes()) < 1 << 15;
    assert_ne!(is_low(LOW), is_low(HIGH), "the two keys go to different halves");
    if is_low(LOW) { (LOW, HIGH) } else { (HIGH, LOW) }
}

fn one(at: Position) -> AckIds {
    AckIds::One(at)
}

#[test]
fn keys_go_past_a_consumer_without_permits_and_wait_for_it_in_order() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let (lower, upper) = halves(&mut owner);
    let (low, high) = keys_by_half();
    flow(&mut owner, upper, 100);
    let at = publish(&mut owner, to, &[low, high, low, high]);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![at[1], at[3]]]);
    flow(&mut owner, lower, 1);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![at[0]], vec![]]);
    flow(&mut owner, lower, 5);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![at[2]], vec![]]);
}

#[test]
fn a_consumer_that_takes_many_at_a_time_is_waited_for_but_not_for_long() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let (lower, upper) = halves(&mut owner);
    let (low, high) = keys_by_half();
    flow(&mut owner, upper, 1_000);
    flow(&mut owner, lower, 100);
    let mut used_up = publish(&mut owner, to, &[low; 101]);
    let waits = used_up.pop();
    let high_one = publish(&mut owner, to, &[high]);
    assert_eq!(came(&mut owner, [lower, upper]), [used_up, vec![]], "its permits may be on their way");
    flow(&mut owner, lower, 100);
    assert_eq!(came(&mut owner, [lower, upper]), [Vec::from_iter(waits), high_one]);
    let at = publish(&mut owner, to, &[low; 100]);
    let high_one = publish(&mut owner, to, &[high]);
    assert_eq!(came(&mut owner, [lower, upper]), [at[..99].to_vec(), vec![]]);
    owner.wait(20);
    owner.settle();
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], high_one], "it has stopped");
    let next = publish(&mut owner, to, &[high]);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], next], "and nobody waits for it again");
}

#[test]
fn a_key_moves_only_when_its_old_owner_has_nothing_of_it_any_more() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let upper = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, upper, 100);
    let (low, high) = keys_by_half();
    let before = publish(&mut owner, to, &[low, high, low]);
    let [came_before] = came(&mut owner, [upper]);
    assert_eq!(came_before, before);
    let lower = consume(&mut owner, attach(2, KeyShared));
    flow(&mut owner, lower, 100);
    let after = publish(&mut owner, to, &[low, high, low]);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![after[1]]]);
    ack(&mut owner, upper, one(before[0]));
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![]], "one of two is still held");
    ack(&mut owner, upper, one(before[2]));
    assert_eq!(came(&mut owner, [lower, upper]), [vec![after[0], after[2]], vec![]]);
}

#[test]
fn a_range_that_returns_finds_its_counts_as_they_were() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let upper = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, upper, 100);
    let (low, _) = keys_by_half();
    let before = publish(&mut owner, to, &[low, low]);
    let lower = consume(&mut owner, attach(2, KeyShared));
    flow(&mut owner, lower, 100);
    let waiting = publish(&mut owner, to, &[low]);
    got(&mut owner);
    leave(&mut owner, lower);
    // Back with the one who holds the key: nothing is in the way.
    let [came_back] = came(&mut owner, [upper]);
    assert_eq!(came_back, waiting);
    ack(&mut owner, upper, one(before[0]));
    let lower = consume(&mut owner, attach(3, KeyShared));
    flow(&mut owner, lower, 100);
    let last = publish(&mut owner, to, &[low]);
    ack(&mut owner, upper, one(before[1]));
    assert_eq!(came(&mut owner, [lower]), [vec![]], "what came while the range was back is held, too");
    ack(&mut owner, upper, one(waiting[0]));
    assert_eq!(came(&mut owner, [lower]), [last]);
}

#[test]
fn another_consumers_ack_drains_a_key_as_well() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let upper = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, upper, 100);
    let (low, _) = keys_by_half();
    let held = publish(&mut owner, to, &[low]);
    let lower = consume(&mut owner, attach(2, KeyShared));
    flow(&mut owner, lower, 100);
    let waiting = publish(&mut owner, to, &[low]);
    got(&mut owner);
    ack(&mut owner, lower, one(held[0]));
    assert_eq!(came(&mut owner, [lower]), [waiting]);
}

#[test]
fn what_a_leaving_consumer_held_goes_to_the_new_owner_in_order_and_before_what_waits() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let upper = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, upper, 2);
    let (low, _) = keys_by_half();
    let at = publish(&mut owner, to, &[low, low, low]);
    let lower = consume(&mut owner, attach(2, KeyShared));
    flow(&mut owner, lower, 100);
    got(&mut owner);
    leave(&mut owner, upper);
    let counts = |got: Vec<Got>| got.into_iter().map(|got| (got.at, got.redeliveries)).collect::<Vec<_>>();
    assert_eq!(counts(got(&mut owner)), [(at[0], 1), (at[1], 1), (at[2], 0)]);
}

#[test]
fn no_more_than_the_limit_wait_while_others_are_looked_for() {
    let settings = TopicSettings { max_look_ahead_per_consumer: 2, max_look_ahead_per_subscription: 3, ..small_settings() };
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let (lower, upper) = halves(&mut owner);
    flow(&mut owner, upper, 100);
    let (low, high) = keys_by_half();
    let at = publish(&mut owner, to, &[low, high, low, high, low, high, low, high]);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![at[1], at[3], at[5]]], "three wait, the fourth is in the way");
    ack(&mut owner, lower, one(at[0]));
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![at[7]]], "one that waits no more makes room");
    let third = consume(&mut owner, attach(3, KeyShared));
    flow(&mut owner, lower, 100);
    flow(&mut owner, third, 100);
    let rest = came(&mut owner, [lower, third]).concat();
    assert_eq!(rest, [at[2], at[4], at[6]]);
}

#[test]
fn what_waited_long_is_read_again_for_its_owner_alone() {
    let mut owner = Owner::over(crate::sim::world::World::default(), small_settings(), 0, topic::faults::Faults::default());
    let to = producer(&mut owner, 1);
    let (lower, upper) = halves(&mut owner);
    let (low, high) = keys_by_half();
    let at = publish(&mut owner, to, &[low, high, low, high, low, high]);
    flow(&mut owner, upper, 100);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![], vec![at[1], at[3], at[5]]]);
    let reads = owner.reads;
    flow(&mut owner, lower, 100);
    assert_eq!(came(&mut owner, [lower, upper]), [vec![at[0], at[2], at[4]], vec![]]);
    assert_eq!(owner.reads - reads, 1, "one read brings all that lie near each other");
}

#[test]
fn cumulative_acks_are_refused() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, consumer, 100);
    let at = publish(&mut owner, to, &["k", "k"]);
    let ids = AckIds::Cumulative(at[1], None, None);
    owner.call(|topic, turn| topic.ack(turn, topic::Ack { key: consumer.key, slot: consumer.slot, request: Some(9), ids }));
    let answer = owner.replies().pop();
    assert!(matches!(answer, Some(Reply::AckDone { error: Some((ServerError::NotAllowedError, _)), .. })), "{answer:?}");
}

#[test]
fn policies_that_do_not_fit_are_refused() {
    let sticky = |ranges: &[(i32, i32)]| {
        let ranges = ranges.iter().map(|(first, last)| HashRange::new(*first, *last).expect("a range")).collect();
        KeySharedPolicy { split: KeySplit::Sticky(ranges), allow_out_of_order: false }
    };
    let with = |id, key_shared| AttachConsumer { key_shared, ..attach(id, KeyShared) };
    let mut owner = Owner::new(small_settings());
    for wanted in [sticky(&[]), sticky(&[(0, 5), (5, 9)])] {
        let reply = try_consume(&mut owner, with(1, wanted));
        assert!(matches!(reply, Reply::Error { error: ServerError::ConsumerAssignError, .. }), "{reply:?}");
    }
    let first = consume(&mut owner, with(1, sticky(&[(0, 5)])));
    let loose = KeySharedPolicy { allow_out_of_order: true, ..sticky(&[(6, 9)]) };
    for wanted in [sticky(&[(5, 9)]), KeySharedPolicy::default(), loose] {
        let reply = try_consume(&mut owner, with(2, wanted));
        assert!(matches!(reply, Reply::Error { error: ServerError::ConsumerAssignError, .. }), "{reply:?}");
    }
    let second = consume(&mut owner, with(2, sticky(&[(6, 9)])));
    leave(&mut owner, first);
    leave(&mut owner, second);
    // Nobody is there whom another mode could contradict.
    consume(&mut owner, with(3, KeySharedPolicy::default()));
    assert!(HashRange::new(0, 65_536).is_none() && HashRange::new(-1, 3).is_none() && HashRange::new(4, 3).is_none());
}

/// A part of a larger message of a key.
fn part(key: &str, uuid: &str, id: i32, of: i32) -> Bytes {
    let metadata = MessageMetadata {
        producer_name: "p".to_owned(),
        publish_time: 1,
        partition_key: Some(key.to_owned()),
        uuid: Some(uuid.to_owned()),
        chunk_id: Some(id),
        num_chunks_from_msg: Some(of),
        ..Default::default()
    };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, b"part", &mut bytes);
    bytes.freeze()
}

#[test]
fn parts_of_one_message_stay_together_when_the_range_of_their_key_moves() {
    for (points, out_of_order) in [(0, false), (0, true), (100, false)] {
        let settings = TopicSettings { key_shared_points: points, ..small_settings() };
        let with = |id| {
            let key_shared = KeySharedPolicy { allow_out_of_order: out_of_order, ..KeySharedPolicy::default() };
            AttachConsumer { key_shared, ..attach(id, KeyShared) }
        };
        let mut owner = Owner::new(settings);
        let to = producer(&mut owner, 1);
        let old = consume(&mut owner, with(1));
        flow(&mut owner, old, 2);
        // Of many keys, some move to the newcomer.
        let keys: Vec<String> = (0..20).map(|n| format!("key-{n}")).collect();
        let mut moved = 0;
        for (n, key) in keys.iter().enumerate() {
            let uuid = format!("m{points}{out_of_order}{n}");
            flow(&mut owner, old, 10);
            send(&mut owner, to, 0, part(key, &uuid, 0, 3));
            send(&mut owner, to, 1, part(key, &uuid, 1, 3));
            owner.settle();
            let first = receipts(&mut owner);
            let [came_first] = came(&mut owner, [old]);
            assert_eq!(came_first, first);
            let new = consume(&mut owner, with(2));
            flow(&mut owner, new, 10);
            // What follows of the key waits for the newcomer, if it is to have it; the last part goes past it.
            let follows = publish(&mut owner, to, &[key])[0];
            send(&mut owner, to, 3, part(key, &uuid, 2, 3));
            owner.settle();
            let last = receipts(&mut owner)[0];
            let all = came(&mut owner, [old, new]);
            assert!(all[0].contains(&last), "{key}: the last part came to {all:?}");
            for at in first.into_iter().chain([last]) {
                ack(&mut owner, old, one(at));
            }
            let after = came(&mut owner, [old, new]);
            let by_newcomer = [&all[1], &after[1]].iter().any(|came| came.contains(&follows));
            assert!(by_newcomer || all[0].contains(&follows), "{key}: {all:?}, {after:?}");
            moved += usize::from(by_newcomer);
            ack(&mut owner, if by_newcomer { new } else { old }, one(follows));
            leave(&mut owner, new);
        }
        assert!((3..=17).contains(&moved), "{moved} of 20 keys moved");
    }
}

#[test]
fn parts_given_back_after_the_whole_message_came_go_to_the_new_owner_together() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let upper = consume(&mut owner, attach(1, KeyShared));
    flow(&mut owner, upper, 10);
    let (low, _) = keys_by_half();
    for id in 0..3 {
        send(&mut owner, to, id as u64, part(low, "m", id, 3));
    }
    owner.settle();
    let parts = receipts(&mut owner);
    let [came_first] = came(&mut owner, [upper]);
    assert_eq!(came_first, parts);
    let lower = consume(&mut owner, attach(2, KeyShared));
    flow(&mut owner, lower, 1);
    owner.call(|topic, _| topic.redeliver(upper.key, upper.slot, parts.clone(), None));
    owner.settle();
    assert_eq!(came(&mut owner, [lower, upper]), [parts[..1].to_vec(), vec![]]);
    // A third one takes the range before the others came: they stay with who has the first.
    let third = consume(&mut owner, attach(3, KeyShared));
    flow(&mut owner, third, 10);
    flow(&mut owner, lower, 10);
    assert_eq!(came(&mut owner, [lower, upper, third]), [parts[1..].to_vec(), vec![], vec![]]);
}
