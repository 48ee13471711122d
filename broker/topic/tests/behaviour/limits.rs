//! How many clients a topic takes, and of which kinds.

use topic::{Limits, Reply, SubscriptionKind, SubscriptionKind::Exclusive, SubscriptionKind::Shared, TopicSettings};
use wire::ServerError;

use crate::client::{attach, attach_producer, consume, leave, producer, try_consume};
use crate::sim::owner::{Owner, small_settings};

fn limited(limits: Limits) -> Owner {
    Owner::new(TopicSettings { limits, ..small_settings() })
}

fn try_produce(owner: &mut Owner, id: u64, address: &str) -> Reply {
    let mut request = attach_producer(id, Some(&format!("producer-{id}")));
    address.clone_into(&mut request.address);
    owner.call(|topic, turn| topic.attach_producer(turn, request));
    owner.replies().pop().expect("an answer")
}

#[track_caller]
fn refused(reply: &Reply, with: ServerError, saying: &str) {
    match reply {
        Reply::Error { error, message, .. } if *error == with => assert!(message.contains(saying), "{message}"),
        other => panic!("not refused with {with:?}: {other:?}"),
    }
}

fn to(subscription: &str, id: u64, kind: SubscriptionKind) -> topic::AttachConsumer {
    let mut request = attach(id, kind);
    subscription.clone_into(&mut request.subscription);
    request
}

#[test]
fn producers_beyond_the_limit_are_refused_until_one_leaves() {
    let mut owner = limited(Limits { producers: 2, ..Limits::default() });
    let first = producer(&mut owner, 1);
    producer(&mut owner, 2);
    refused(&try_produce(&mut owner, 3, "10.0.0.1:1"), ServerError::ProducerBusy, "Topic reached max producers limit");
    assert!(matches!(try_produce(&mut owner, 2, "127.0.0.1:1"), Reply::ProducerReady { .. }), "it is there already");
    owner.call(|topic, turn| topic.detach_producer(turn, first.key, None));
    producer(&mut owner, 3);
}

#[test]
fn clients_of_one_address_are_counted_whatever_their_ports() {
    let mut owner = limited(Limits { producers_of_address: 1, consumers_of_address: 1, ..Limits::default() });
    assert!(matches!(try_produce(&mut owner, 1, "10.0.0.1:1"), Reply::ProducerReady { .. }));
    refused(&try_produce(&mut owner, 2, "10.0.0.1:2"), ServerError::ProducerBusy, "same address");
    assert!(matches!(try_produce(&mut owner, 2, "10.0.0.2:2"), Reply::ProducerReady { .. }));
    consume(&mut owner, attach(1, Shared));
    refused(&try_consume(&mut owner, attach(2, Shared)), ServerError::ConsumerBusy, "same address");
}

#[test]
fn consumers_beyond_the_limits_are_refused_until_one_leaves() {
    let mut owner = limited(Limits { consumers: 3, consumers_of_subscription: 2, ..Limits::default() });
    let first = consume(&mut owner, to("a", 1, Shared));
    consume(&mut owner, to("a", 2, Shared));
    refused(&try_consume(&mut owner, to("a", 3, Shared)), ServerError::ConsumerBusy, "Subscription reached max consumers");
    consume(&mut owner, to("b", 4, Shared));
    refused(&try_consume(&mut owner, to("c", 5, Shared)), ServerError::ConsumerBusy, "Topic reached max consumers");
    leave(&mut owner, first);
    consume(&mut owner, to("a", 3, Shared));
}

#[test]
fn subscriptions_beyond_the_limit_do_not_come_into_being() {
    let mut owner = limited(Limits { subscriptions: 1, ..Limits::default() });
    let first = consume(&mut owner, to("a", 1, Shared));
    refused(&try_consume(&mut owner, to("b", 2, Shared)), ServerError::NotAllowedError, "number of subscriptions");
    let mut with_one = attach_producer(3, None);
    with_one.initial_subscription = Some("b".to_owned());
    owner.call(|topic, turn| topic.attach_producer(turn, with_one));
    refused(&owner.replies().pop().expect("an answer"), ServerError::NotAllowedError, "number of subscriptions");
    assert_eq!(owner.topic.stats().subscriptions.len(), 1);
    leave(&mut owner, first);
    consume(&mut owner, to("a", 4, Shared));
}

#[test]
fn a_subscription_type_that_is_switched_off_is_refused_from_then_on() {
    let mut owner = Owner::new(small_settings());
    let there = consume(&mut owner, to("a", 1, Shared));
    let limits = Limits { kinds: [Exclusive].into_iter().collect(), ..Limits::default() };
    owner.call(|topic, turn| topic.update_settings(turn, TopicSettings { limits, ..small_settings() }));
    refused(&try_consume(&mut owner, to("a", 2, Shared)), ServerError::NotAllowedError, "doesn't support Shared sub type");
    refused(&try_consume(&mut owner, to("b", 2, Shared)), ServerError::NotAllowedError, "doesn't support Shared sub type");
    assert_eq!(owner.topic.stats().subscriptions.len(), 1, "a refused consumer leaves nothing behind");
    leave(&mut owner, there);
    consume(&mut owner, to("a", 3, Exclusive));
}
