//! Messages that nobody acks in time.

use ledger::Position;
use topic::{AckIds, SubscriptionKind, TopicSettings};

use crate::client::{Consumer, ack, attach, consume, entry, flow, got_at, leave, producer, receipts, send};
use crate::sim::owner::{Owner, small_settings};

const HOUR: u64 = 3_600_000;

fn expiring() -> TopicSettings {
    TopicSettings { message_ttl_ms: HOUR, expiry_check_ms: 60_000, ..small_settings() }
}

/// Publishes `count` messages now, over several ledgers.
fn publish_now(owner: &mut Owner, count: u64) -> Vec<Position> {
    let to = producer(owner, 1);
    for sequence in 0..count {
        let time = owner.now.wall_ms;
        send(owner, to, sequence, entry(1, time));
        owner.settle();
    }
    let sent = receipts(owner);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
    sent
}

fn subscriber(owner: &mut Owner, id: u64, name: &str, kind: SubscriptionKind) -> Consumer {
    let mut request = attach(id, kind);
    name.clone_into(&mut request.subscription);
    consume(owner, request)
}

fn stats(owner: &Owner, name: &str) -> (u64, u64) {
    let stats = owner.topic.stats();
    let found = stats.subscriptions.iter().find(|subscription| subscription.name == name).expect("it exists");
    (found.backlog, found.messages_expired)
}

#[test]
fn what_is_older_than_the_limit_is_left_behind_by_every_durable_subscription() {
    let mut owner = Owner::new(expiring());
    let idle = subscriber(&mut owner, 1, "idle", SubscriptionKind::Exclusive);
    let busy = subscriber(&mut owner, 2, "busy", SubscriptionKind::Shared);
    let system = subscriber(&mut owner, 3, "__own", SubscriptionKind::Exclusive);
    let old = publish_now(&mut owner, 50);
    flow(&mut owner, busy, 1_000);
    got_at(&mut owner);
    for at in old.iter().take(10) {
        ack(&mut owner, busy, AckIds::One(*at));
    }
    owner.wait(HOUR - 60_000);
    let young = publish_now(&mut owner, 30);
    owner.settle();
    assert_eq!(stats(&owner, "idle"), (80, 0), "nothing is old enough");
    owner.wait(70_000);
    owner.settle();
    assert_eq!(stats(&owner, "idle"), (30, 50));
    assert_eq!(stats(&owner, "busy"), (30, 40));
    assert_eq!(stats(&owner, "__own"), (80, 0), "the broker's own cursors keep everything");
    got_at(&mut owner);
    flow(&mut owner, idle, 1_000);
    assert_eq!(got_at(&mut owner), young, "what expired is not delivered");
    let held = owner.topic.stats().subscriptions.iter().map(|s| s.unacked_messages).sum::<u64>();
    assert_eq!(held, 60, "expired messages are held by nobody");
    leave(&mut owner, system);
}

#[test]
fn an_expired_backlog_stays_away_after_a_restart() {
    let mut owner = Owner::new(expiring());
    let consumer = subscriber(&mut owner, 1, "s", SubscriptionKind::Exclusive);
    leave(&mut owner, consumer);
    publish_now(&mut owner, 45);
    owner.wait(2 * HOUR);
    owner.settle();
    owner.unload_and_load();
    assert_eq!(stats(&owner, "s").0, 0);
}

#[test]
fn a_look_at_a_young_backlog_costs_one_read() {
    let mut owner = Owner::over(Default::default(), expiring(), 0, Default::default());
    let consumer = subscriber(&mut owner, 1, "s", SubscriptionKind::Exclusive);
    leave(&mut owner, consumer);
    publish_now(&mut owner, 100);
    owner.wait(60_000);
    owner.settle();
    let before = owner.reads;
    owner.wait(60_000);
    owner.settle();
    assert_eq!(owner.reads - before, 1);
    assert_eq!(stats(&owner, "s"), (100, 0));
}

#[test]
fn without_a_limit_nothing_is_looked_for() {
    let mut owner = Owner::new(small_settings());
    let consumer = subscriber(&mut owner, 1, "s", SubscriptionKind::Exclusive);
    leave(&mut owner, consumer);
    publish_now(&mut owner, 20);
    owner.wait(10_000 * HOUR);
    owner.settle();
    assert_eq!(stats(&owner, "s"), (20, 0));
}

#[test]
fn a_limit_that_comes_later_acts_at_once() {
    let mut owner = Owner::new(small_settings());
    let consumer = subscriber(&mut owner, 1, "s", SubscriptionKind::Exclusive);
    leave(&mut owner, consumer);
    publish_now(&mut owner, 20);
    owner.wait(2 * HOUR);
    owner.settle();
    assert_eq!(stats(&owner, "s"), (20, 0));
    owner.call(|topic, turn| topic.update_settings(turn, expiring()));
    owner.settle();
    assert_eq!(stats(&owner, "s"), (0, 20));
    owner.call(|topic, turn| topic.update_settings(turn, small_settings()));
    publish_now(&mut owner, 3);
    owner.wait(10 * HOUR);
    owner.settle();
    assert_eq!(stats(&owner, "s"), (3, 20), "the limit was lifted");
}
