//! What nobody uses: topics that ask to be deleted, and subscriptions that are.

use topic::{AckIds, Desertion, Idleness, SubscriptionKind::Shared, TopicSettings};

use crate::client::{ack, attach, consume, flow, got_at, leave, producer, publish};
use crate::sim::owner::{Owner, small_settings};

const MINUTE: u64 = 60_000;

fn deserted_after(caught_up: bool) -> TopicSettings {
    let idle = Idleness { topic: Some(Desertion { after_ms: MINUTE, caught_up }), subscription_ms: 0 };
    TopicSettings { idle, retention: ledger::Retention::default(), ..small_settings() }
}

fn pass(owner: &mut Owner, ms: u64) {
    owner.wait(ms);
    owner.settle();
}

#[test]
fn a_topic_that_nobody_uses_asks_to_be_deleted_and_asks_again_while_it_is_there() {
    let mut owner = Owner::new(deserted_after(false));
    pass(&mut owner, MINUTE - 1);
    assert_eq!(owner.deserted, 0);
    pass(&mut owner, 1);
    assert_eq!(owner.deserted, 1);
    pass(&mut owner, MINUTE - 1);
    assert_eq!(owner.deserted, 1);
    pass(&mut owner, 1);
    assert_eq!(owner.deserted, 2);
}

#[test]
fn a_producer_keeps_a_topic_and_the_time_begins_when_it_leaves() {
    let mut owner = Owner::new(deserted_after(false));
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 3);
    pass(&mut owner, 10 * MINUTE);
    assert_eq!(owner.deserted, 0);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
    pass(&mut owner, MINUTE - 1);
    assert_eq!(owner.deserted, 0);
    pass(&mut owner, 1);
    assert_eq!(owner.deserted, 1);
}

#[test]
fn a_subscription_keeps_a_topic_unless_it_may_go_when_all_is_read() {
    for caught_up in [false, true] {
        let mut owner = Owner::new(deserted_after(caught_up));
        let reader = consume(&mut owner, attach(1, Shared));
        let to = producer(&mut owner, 1);
        let sent = publish(&mut owner, to, 2);
        owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
        flow(&mut owner, reader, 10);
        got_at(&mut owner);
        ack(&mut owner, reader, AckIds::One(sent[0]));
        leave(&mut owner, reader);
        pass(&mut owner, 5 * MINUTE);
        assert_eq!(owner.deserted, 0, "something is left to read");
        let reader = consume(&mut owner, attach(2, Shared));
        flow(&mut owner, reader, 10);
        ack(&mut owner, reader, AckIds::One(sent[1]));
        pass(&mut owner, 5 * MINUTE);
        assert_eq!(owner.deserted, 0, "there is a consumer");
        leave(&mut owner, reader);
        pass(&mut owner, MINUTE);
        assert_eq!(owner.deserted > 0, caught_up);
    }
}

#[test]
fn retention_keeps_a_topic_as_long_as_its_messages() {
    let kept = |time_ms| TopicSettings { retention: ledger::Retention { time_ms, size_bytes: -1 }, ..deserted_after(false) };
    let mut owner = Owner::new(kept(5 * 60_000));
    pass(&mut owner, 5 * MINUTE - 1);
    assert_eq!(owner.deserted, 0);
    pass(&mut owner, 1);
    assert_eq!(owner.deserted, 1);
    let mut owner = Owner::new(kept(-1));
    pass(&mut owner, 100 * MINUTE);
    assert_eq!(owner.deserted, 0, "for ever");
}

#[test]
fn without_the_rule_a_topic_stays() {
    let mut owner = Owner::new(small_settings());
    pass(&mut owner, 1_000 * MINUTE);
    assert_eq!(owner.deserted, 0);
    owner.call(|topic, turn| topic.update_settings(turn, deserted_after(false)));
    pass(&mut owner, 1);
    assert_eq!(owner.deserted, 1, "a rule that comes later acts at once");
}

#[test]
fn a_durable_subscription_without_consumers_goes_after_its_time() {
    let idle = Idleness { topic: None, subscription_ms: MINUTE };
    let mut owner = Owner::new(TopicSettings { idle, ..small_settings() });
    let reader = consume(&mut owner, attach(1, Shared));
    pass(&mut owner, 10 * MINUTE);
    assert_eq!(owner.topic.stats().subscriptions.len(), 1, "it has a consumer");
    leave(&mut owner, reader);
    pass(&mut owner, MINUTE - 1);
    let reader = consume(&mut owner, attach(2, Shared));
    leave(&mut owner, reader);
    pass(&mut owner, MINUTE - 1);
    assert_eq!(owner.topic.stats().subscriptions.len(), 1, "each consumer begins the time anew");
    pass(&mut owner, 1);
    assert!(owner.topic.stats().subscriptions.is_empty());
    owner.unload_and_load();
    assert!(owner.topic.stats().subscriptions.is_empty(), "its record is gone, too");
    consume(&mut owner, attach(3, Shared));
}
