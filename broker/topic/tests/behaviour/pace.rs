//! Publishing gives way to consumers that could follow.

use topic::SubscriptionKind::Shared;

use crate::client::{attach, consume, flow, producer, publish};
use crate::sim::owner::{Owner, small_settings};

/// More than a subscription may have before it.
const MUCH: u64 = 9_000;

/// Asks every millisecond; returns in how many of them publishing gave way.
fn gives_way(owner: &mut Owner, millis: u64) -> usize {
    let ask = |_: &u64| {
        owner.now.monotonic_ms += 1;
        owner.topic.gives_way(owner.now)
    };
    (0..millis).filter(ask).count()
}

#[test]
fn publishing_does_not_wait_for_consumers_that_have_little_before_them() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    consume(&mut owner, attach(1, Shared));
    publish(&mut owner, to, 1_000);
    assert_eq!(gives_way(&mut owner, 20), 0);
}

#[test]
fn publishing_waits_for_a_consumer_that_is_about_to_fall_behind_but_not_for_long() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 2_000);
    publish(&mut owner, to, 2_000 + MUCH);
    assert_eq!(gives_way(&mut owner, 40), 40);
    // It has taken nothing since, so it is slow by itself.
    let waited = gives_way(&mut owner, 400);
    assert!(waited <= 15, "{waited}");
}

#[test]
fn publishing_does_not_wait_without_consumers() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, MUCH);
    assert_eq!(gives_way(&mut owner, 20), 0);
}
