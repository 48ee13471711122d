//! Delivering at a limited rate: what is over waits where it is, and nobody's share is lost.

use std::sync::Arc;

use topic::SubscriptionKind::{Exclusive, KeyShared, Shared};
use topic::{DispatchRates, Rate, Rates, SharedLimiter, SubscriptionKind, TopicSettings};

use crate::client::{Consumer, attach, consume, entry, flow, got, producer, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

fn limited(dispatch: DispatchRates) -> TopicSettings {
    TopicSettings { rates: Rates { dispatch, ..Rates::default() }, max_read_entries: 100, max_read_bytes: 1 << 20, ..small_settings() }
}

fn subscribed(owner: &mut Owner, id: u64, name: &str, kind: SubscriptionKind) -> Consumer {
    let mut request = attach(id, kind);
    name.clone_into(&mut request.subscription);
    consume(owner, request)
}

/// Lets time pass, a millisecond at a time; returns how much each consumer got.
fn pass(owner: &mut Owner, millis: u64) -> Vec<(u64, usize)> {
    for _ in 0..millis {
        owner.wait(1);
        owner.settle();
    }
    counted(owner)
}

fn counted(owner: &mut Owner) -> Vec<(u64, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for delivery in got(owner) {
        *counts.entry(delivery.to).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn a_subscription_gets_its_rate_whatever_it_has_permits_for() {
    let rates = DispatchRates { subscription: Rate::per_second(50, 0), ..DispatchRates::default() };
    for kind in [Exclusive, Shared, KeyShared] {
        let mut owner = Owner::new(limited(rates.clone()));
        let to = producer(&mut owner, 1);
        publish(&mut owner, to, 400);
        let slow = subscribed(&mut owner, 1, "slow", kind);
        flow(&mut owner, slow, 1_000);
        assert_eq!(counted(&mut owner), [(1, 50)], "{kind:?}: what a second brings");
        assert_eq!(pass(&mut owner, 3_000), [(1, 150)], "{kind:?}");
        let stopped = owner.topic.stats().subscriptions[0].stopped;
        assert!(stopped.by_subscription.0 > 0 && stopped.by_topic == (0, 0), "{stopped:?}");
        assert_eq!(owner.topic.stats().subscriptions[0].consumers[0].available_permits, 800);
    }
}

#[test]
fn the_rate_of_a_topic_is_shared_evenly_by_its_subscriptions() {
    let rates = DispatchRates { topic: Rate::per_second(100, 0), ..DispatchRates::default() };
    let mut owner = Owner::new(limited(rates));
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 1_000);
    for id in 0..4 {
        let consumer = subscribed(&mut owner, id, &format!("s{id}"), Shared);
        owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 10_000));
    }
    owner.settle();
    counted(&mut owner);
    let shares = pass(&mut owner, 4_000);
    assert_eq!(shares.iter().map(|(_, count)| count).sum::<usize>(), 400);
    assert!(shares.iter().all(|(_, count)| (90..=110).contains(count)), "{shares:?}");
    assert!(owner.topic.stats().subscriptions.iter().all(|subscription| subscription.stopped.by_topic.0 > 0));
}

#[test]
fn topics_share_the_rate_of_the_broker() {
    let broker = SharedLimiter::new(Rate::per_second(100, 0)).map(Arc::new);
    let rates = DispatchRates { broker, ..DispatchRates::default() };
    let mut owners: Vec<Owner> = (0..3).map(|_| Owner::new(limited(rates.clone()))).collect();
    for (id, owner) in owners.iter_mut().enumerate() {
        let to = producer(owner, 1);
        publish(owner, to, 1_000);
        let consumer = subscribed(owner, id as u64, "s", Exclusive);
        flow(owner, consumer, 10_000);
        counted(owner);
    }
    let mut shares = [0; 3];
    for _ in 0..10_000 {
        for (owner, share) in owners.iter_mut().zip(&mut shares) {
            *share += pass(owner, 1).first().map_or(0, |(_, count)| *count);
        }
    }
    let total: usize = shares.iter().sum();
    assert!((980..=1_001).contains(&total), "{shares:?}");
    assert!(shares.iter().all(|share| *share > 200), "{shares:?}");
}

#[test]
fn bytes_are_limited_as_messages_are_and_a_batch_may_count_once() {
    let size = entry(10, 1_000).len() as u64;
    let by = |dispatch: DispatchRates| {
        let mut owner = Owner::new(limited(dispatch));
        let to = producer(&mut owner, 1);
        for sequence in 0..100 {
            send(&mut owner, to, sequence * 10, entry(10, 1_000));
        }
        owner.settle();
        receipts(&mut owner);
        let consumer = subscribed(&mut owner, 1, "s", Shared);
        flow(&mut owner, consumer, 10_000);
        counted(&mut owner);
        pass(&mut owner, 2_000).first().map_or(0, |(_, count)| *count)
    };
    assert_eq!(by(DispatchRates { subscription: Rate::per_second(0, size * 20), ..DispatchRates::default() }), 40);
    assert_eq!(by(DispatchRates { subscription: Rate::per_second(200, 0), ..DispatchRates::default() }), 40, "ten messages each");
    let once = DispatchRates { subscription: Rate::per_second(20, 0), batch_counts_once: true, ..DispatchRates::default() };
    assert_eq!(by(once), 40);
}

#[test]
fn who_follows_closely_may_be_spared() {
    let rates = DispatchRates { subscription: Rate::per_second(10, 0), spares_followers: true, ..DispatchRates::default() };
    let mut owner = Owner::new(limited(rates));
    let to = producer(&mut owner, 1);
    let consumer = subscribed(&mut owner, 1, "s", Shared);
    flow(&mut owner, consumer, 100_000);
    publish(&mut owner, to, 900);
    assert_eq!(counted(&mut owner), [(1, 900)]);
    let late = subscribed(&mut owner, 2, "late", Shared);
    publish(&mut owner, to, 600);
    counted(&mut owner);
    flow(&mut owner, late, 100_000);
    assert_eq!(counted(&mut owner), [(2, 10)], "1,500 before it");
}

#[test]
fn a_lifted_rate_holds_nobody_back_any_more() {
    let rates = DispatchRates { subscription: Rate::per_second(1, 0), ..DispatchRates::default() };
    let mut owner = Owner::new(limited(rates));
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 200);
    let consumer = subscribed(&mut owner, 1, "s", Exclusive);
    flow(&mut owner, consumer, 1_000);
    assert_eq!(counted(&mut owner), [(1, 1)]);
    owner.change_settings(small_settings());
    owner.settle();
    assert_eq!(counted(&mut owner), [(1, 199)]);
}
