//! What a topic does when the consumers of all topics together hold too much.

use topic::{AckIds, SubscriptionKind, SubscriptionKind::Exclusive, SubscriptionKind::KeyShared, SubscriptionKind::Shared, TopicSettings};

use crate::client::{Consumer, ack, attach, consume, flow, got, got_at, leave, producer, publish};
use crate::sim::owner::{Owner, small_settings};

fn subscriber(owner: &mut Owner, id: u64, name: &str, kind: SubscriptionKind) -> Consumer {
    let mut request = attach(id, kind);
    name.clone_into(&mut request.subscription);
    consume(owner, request)
}

fn crowd(owner: &mut Owner, most: Option<u64>) {
    owner.call(|topic, _| topic.set_crowded(most));
    owner.settle();
}

fn blocked(owner: &Owner, name: &str) -> bool {
    owner.topic.stats().subscriptions.iter().any(|subscription| subscription.name == name && subscription.blocked_on_unacked)
}

#[test]
fn who_holds_more_than_its_share_gets_nothing_until_it_holds_no_more_than_that() {
    for kind in [Shared, KeyShared] {
        let mut owner = Owner::new(small_settings());
        let to = producer(&mut owner, 1);
        let consumer = subscriber(&mut owner, 1, "s", kind);
        flow(&mut owner, consumer, 1_000);
        let sent = publish(&mut owner, to, 20);
        assert_eq!(got_at(&mut owner), sent);
        crowd(&mut owner, Some(16));
        assert!(blocked(&owner, "s"));
        let more = publish(&mut owner, to, 5);
        for at in &sent[..3] {
            ack(&mut owner, consumer, AckIds::One(*at));
            assert!(got(&mut owner).is_empty(), "17 or more are held");
        }
        ack(&mut owner, consumer, AckIds::One(sent[3]));
        assert_eq!(got_at(&mut owner), more[..1], "16 may be held, and what comes then makes it 17");
        assert!(blocked(&owner, "s"));
        crowd(&mut owner, None);
        assert_eq!(got_at(&mut owner), more[1..], "{kind:?} goes on by itself");
        assert!(!blocked(&owner, "s"));
    }
}

#[test]
fn others_go_on() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let greedy = subscriber(&mut owner, 1, "greedy", Shared);
    let modest = subscriber(&mut owner, 2, "modest", Shared);
    let single = subscriber(&mut owner, 3, "single", Exclusive);
    flow(&mut owner, greedy, 1_000);
    flow(&mut owner, single, 1_000);
    publish(&mut owner, to, 20);
    got(&mut owner);
    crowd(&mut owner, Some(10));
    flow(&mut owner, modest, 8);
    assert_eq!(got(&mut owner).len(), 8);
    publish(&mut owner, to, 4);
    let got = got(&mut owner);
    assert_eq!(got.iter().filter(|got| got.to == 3).count(), 4, "an Exclusive subscription is not held back");
    assert_eq!(got.len(), 4, "who holds more than its share is, and the other one has no permits");
}

#[test]
fn what_is_held_is_counted_from_what_consumers_have() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let shared = subscriber(&mut owner, 1, "shared", Shared);
    let keys = subscriber(&mut owner, 2, "keys", KeyShared);
    let single = subscriber(&mut owner, 3, "single", Exclusive);
    for consumer in [shared, keys, single] {
        flow(&mut owner, consumer, 1_000);
    }
    let sent = publish(&mut owner, to, 10);
    got(&mut owner);
    assert_eq!(owner.topic.held_messages(), 20, "what the Exclusive one has is not among it");
    ack(&mut owner, shared, AckIds::Many(sent[2..5].iter().map(|at| (*at, None, None)).collect()));
    assert_eq!(owner.topic.held_messages(), 17);
    leave(&mut owner, shared);
    assert_eq!(owner.topic.held_messages(), 10);
    owner.call(|topic, turn| topic.seek(turn, keys.key, 9, topic::SeekTo::Message(sent[0])));
    owner.settle();
    assert_eq!(owner.topic.held_messages(), 0);
}

#[test]
fn the_subscriptions_own_limit_counts_when_it_is_lower() {
    let mut owner = Owner::new(TopicSettings { max_unacked_per_subscription: 5, ..small_settings() });
    let to = producer(&mut owner, 1);
    let consumer = subscriber(&mut owner, 1, "s", Shared);
    flow(&mut owner, consumer, 1_000);
    crowd(&mut owner, Some(16));
    let sent = publish(&mut owner, to, 20);
    assert_eq!(got_at(&mut owner), sent[..5]);
    crowd(&mut owner, None);
    assert!(got(&mut owner).is_empty());
}
