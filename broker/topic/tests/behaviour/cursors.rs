//! Cursors: what of them survives.

use topic::{AckIds, SubscriptionKind::Exclusive, SubscriptionKind::Shared};

use crate::client::{ack, attach, consume, flow, got_at, producer, publish};
use crate::sim::owner::{Owner, small_settings};

#[test]
fn a_clean_unload_loses_no_ack() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 100);
    got_at(&mut owner);
    for at in sent.iter().step_by(2) {
        ack(&mut owner, consumer, AckIds::One(*at));
    }
    owner.unload_and_load();
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 15);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 100);
    assert_eq!(got_at(&mut owner), sent.iter().skip(1).step_by(2).copied().collect::<Vec<_>>());
}

#[test]
fn after_a_crash_acks_of_the_last_second_may_be_lost_and_older_ones_are_not() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 15);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::Cumulative(sent[3], None, None));
    ack(&mut owner, consumer, AckIds::Cumulative(sent[7], None, None));
    owner.wait(1_000);
    owner.settle();
    ack(&mut owner, consumer, AckIds::Cumulative(sent[9], None, None));
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().subscriptions[0].mark_delete, sent[7].to_string());
}

#[test]
fn the_rate_limits_writes_and_the_newest_state_is_written_when_it_allows() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 15);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::One(sent[0]));
    for at in &sent[1..] {
        owner.call(|topic, turn| {
            topic.ack(turn, topic::Ack { key: consumer.key, slot: consumer.slot, request: None, ids: AckIds::One(*at) });
        });
        assert!(!owner.finish_write(), "one state per second");
    }
    assert_eq!(owner.topic.next_deadline(), Some(owner.now.monotonic_ms + 1_000));
    owner.wait(1_000);
    owner.settle();
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().subscriptions[0].mark_delete, sent[14].to_string());
}

#[test]
fn cursor_ledgers_roll_over_and_old_ones_are_deleted() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 19);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    for at in &sent {
        ack(&mut owner, consumer, AckIds::One(*at));
        owner.wait(1_000);
        owner.settle();
    }
    assert_eq!(owner.world.deleted.len(), 4, "four states a ledger");
    assert_eq!(owner.world.ledger_count(), 2, "one for entries, one for the cursor");
}

#[test]
fn a_cursor_whose_ledger_fails_is_kept_in_its_record() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    let acks = |owner: &mut Owner, index: usize| {
        let ids = AckIds::Cumulative(sent[index], None, None);
        owner.call(|topic, turn| topic.ack(turn, topic::Ack { key: consumer.key, slot: consumer.slot, request: None, ids }));
    };
    acks(&mut owner, 2);
    assert!(owner.fail_write(), "the ledger is not created");
    owner.settle();
    owner.wait(1_000);
    acks(&mut owner, 4);
    assert!(owner.finish_write());
    assert!(owner.fail_write(), "the state is not appended");
    owner.settle();
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().subscriptions[0].mark_delete, sent[4].to_string());
}

#[test]
fn a_subscription_that_was_not_recorded_was_never_there() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_consumer(turn, attach(1, Exclusive)));
    assert!(owner.heard.is_empty(), "no answer before the record");
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().subscriptions.len(), 0);
}

#[test]
fn consumers_that_ask_while_a_subscription_is_created_wait_for_it() {
    let mut owner = Owner::new(small_settings());
    for id in 1..=3 {
        owner.call(|topic, turn| topic.attach_consumer(turn, attach(id, Shared)));
    }
    assert!(owner.heard.is_empty());
    owner.settle();
    assert_eq!(owner.topic.consumers(), 3);
    assert_eq!(owner.world.cursors().count(), 1);
}
