//! Backlogs that are too large or too old: producers wait or fail, or the oldest messages go.

use topic::{AckIds, Effect, Quota, QuotaPolicy, Quotas, Reply, SubscriptionKind, TopicSettings};
use wire::ServerError;

use crate::client::{ack, attach, attach_producer, consume, entry, flow, got_at, producer, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

const CHECK_MS: u64 = 5_000;

fn by_size(limit: u64, policy: QuotaPolicy) -> TopicSettings {
    TopicSettings { quota: Quotas { size: Some(Quota { limit, policy }), age: None, check_ms: CHECK_MS }, ..small_settings() }
}

fn by_age(limit: u64, policy: QuotaPolicy) -> TopicSettings {
    TopicSettings { quota: Quotas { size: None, age: Some(Quota { limit, policy }), check_ms: CHECK_MS }, ..small_settings() }
}

fn size() -> u64 {
    entry(1, 1_000).len() as u64
}

/// The answer to a producer that wants in.
fn asked(owner: &mut Owner, id: u64) -> Result<(), ServerError> {
    owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(id, None)));
    owner.settle();
    let answer = |effect: &Effect| match effect {
        Effect::Reply { reply: Reply::ProducerReady { .. }, .. } => Some(Ok(())),
        Effect::Reply { reply: Reply::Error { error, .. }, .. } => Some(Err(*error)),
        _ => None,
    };
    let answers: Vec<_> = owner.heard.iter().filter_map(answer).collect();
    owner.heard.retain(|effect| answer(effect).is_none());
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0]
}

fn closed(owner: &mut Owner) -> usize {
    owner.replies().into_iter().filter(|reply| matches!(reply, Reply::CloseProducer { .. })).count()
}

#[test]
fn a_full_backlog_keeps_producers_out_until_it_is_drained() {
    for (policy, error) in [
        (QuotaPolicy::ProducerRequestHold, ServerError::ProducerBlockedQuotaExceededError),
        (QuotaPolicy::ProducerException, ServerError::ProducerBlockedQuotaExceededException),
    ] {
        let mut owner = Owner::new(by_size(10 * size(), policy));
        let consumer = consume(&mut owner, attach(1, SubscriptionKind::Shared));
        let to = producer(&mut owner, 1);
        let mut sent = publish(&mut owner, to, 9);
        assert_eq!(asked(&mut owner, 2), Ok(()));
        sent.extend(publish(&mut owner, to, 1));
        assert_eq!(asked(&mut owner, 3), Err(error), "at the limit, not beyond it");
        assert_eq!(closed(&mut owner), 0);
        owner.wait(CHECK_MS);
        owner.settle();
        assert_eq!(closed(&mut owner), 2);
        assert_eq!((owner.topic.producers(), owner.topic.stats().backlog_bytes), (0, 10 * size()));
        flow(&mut owner, consumer, 100);
        ack(&mut owner, consumer, AckIds::One(sent[0]));
        assert_eq!(asked(&mut owner, 4), Ok(()));
    }
}

#[test]
fn without_a_durable_subscription_nothing_waits_for_anybody() {
    let mut owner = Owner::new(by_size(1, QuotaPolicy::ProducerException));
    let mut reader = attach(1, SubscriptionKind::Exclusive);
    reader.durable = false;
    consume(&mut owner, reader);
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 100);
    owner.wait(CHECK_MS);
    owner.settle();
    assert_eq!(closed(&mut owner), 0);
    assert_eq!(asked(&mut owner, 2), Ok(()));
}

#[test]
fn a_producer_is_closed_after_the_receipt_of_what_it_has_sent() {
    let mut owner = Owner::new(small_settings());
    consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 5);
    send(&mut owner, to, 5, entry(1, 1_000));
    owner.change_settings(by_size(size(), QuotaPolicy::ProducerRequestHold));
    owner.tick();
    assert_eq!(closed(&mut owner), 0, "one is on its way to the disk");
    send(&mut owner, to, 6, entry(1, 1_000));
    owner.finish_appends(usize::MAX);
    let last: Vec<&Effect> = owner.heard.iter().rev().take(2).collect();
    assert!(matches!(last[0], Effect::Reply { reply: Reply::CloseProducer { .. }, .. }), "{last:?}");
    assert!(matches!(last[1], Effect::Receipt { sequence: 5, .. }), "{last:?}");
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 1, "what came after the verdict is sent again by its client");
    assert_eq!(owner.topic.stats().messages_in, 6);
}

#[test]
fn an_old_backlog_keeps_producers_out_until_it_is_younger() {
    let mut owner = Owner::new(by_age(60_000, QuotaPolicy::ProducerException));
    let consumer = consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let to = producer(&mut owner, 1);
    for sequence in 0..30 {
        let time = owner.now.wall_ms;
        send(&mut owner, to, sequence, entry(1, time));
        owner.settle();
        owner.wait(1_000);
    }
    owner.wait(20_000);
    owner.settle();
    assert_eq!(asked(&mut owner, 2), Ok(()), "50 s old");
    let sent = receipts(&mut owner);
    owner.wait(11_000);
    owner.settle();
    assert_eq!(closed(&mut owner), 2);
    assert_eq!(asked(&mut owner, 3), Err(ServerError::ProducerBlockedQuotaExceededException));
    let stats = owner.topic.stats();
    assert_eq!(stats.oldest_backlog_ms, Some(owner.now.wall_ms - 61_000));
    assert_eq!(stats.slowest_subscription.as_deref(), Some("s"));
    flow(&mut owner, consumer, 100);
    for at in &sent[..10] {
        ack(&mut owner, consumer, AckIds::One(*at));
    }
    assert_eq!(asked(&mut owner, 4), Ok(()), "the oldest left is 51 s old");
    owner.wait(20_000);
    owner.settle();
    assert_eq!(closed(&mut owner), 1, "now that one is too old");
}

#[test]
fn eviction_by_size_drops_the_oldest_until_a_tenth_is_free() {
    let mut owner = Owner::new(by_size(100 * size(), QuotaPolicy::ConsumerBacklogEviction));
    let slow = consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let mut other = attach(2, SubscriptionKind::Shared);
    other.subscription = "quick".to_owned();
    let quick = consume(&mut owner, other);
    let to = producer(&mut owner, 1);
    let mut sent = publish(&mut owner, to, 1);
    // The next look is 5 s away.
    sent.extend(publish(&mut owner, to, 129));
    flow(&mut owner, quick, 1_000);
    assert_eq!(got_at(&mut owner).len(), 130);
    ack(&mut owner, quick, AckIds::Many(sent[..125].iter().map(|at| (*at, None, None)).collect()));
    assert_eq!(asked(&mut owner, 2), Ok(()), "producers have nothing to do with it");
    owner.wait(CHECK_MS);
    owner.settle();
    let stats = owner.topic.stats();
    let backlog = |name: &str| stats.subscriptions.iter().find(|subscription| subscription.name == name).expect("it is there").backlog;
    assert_eq!((backlog("s"), backlog("quick")), (90, 5));
    assert_eq!((stats.backlog_bytes, stats.quota_evictions), (90 * size(), (1, 0)));
    assert_eq!((closed(&mut owner), owner.topic.producers()), (0, 2));
    flow(&mut owner, slow, 1_000);
    assert_eq!(got_at(&mut owner), sent[40..]);
}

#[test]
fn eviction_by_age_drops_what_is_older_than_nine_tenths_of_the_limit() {
    let mut owner = Owner::new(by_age(100_000, QuotaPolicy::ConsumerBacklogEviction));
    consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let to = producer(&mut owner, 1);
    for sequence in 0..50 {
        let time = owner.now.wall_ms;
        send(&mut owner, to, sequence, entry(1, time));
        owner.settle();
        owner.wait(1_000);
    }
    owner.wait(44_000);
    owner.settle();
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 50, "the oldest is 94 s old");
    owner.wait(10_000);
    owner.settle();
    let stats = owner.topic.stats();
    assert!((30..=40).contains(&stats.subscriptions[0].backlog), "{}", stats.subscriptions[0].backlog);
    assert_eq!(stats.quota_evictions.1, 1);
}

#[test]
fn a_quota_that_is_lowered_or_lifted_counts_at_once() {
    let mut owner = Owner::new(small_settings());
    consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let to = producer(&mut owner, 1);
    publish(&mut owner, to, 10);
    owner.change_settings(by_size(10 * size(), QuotaPolicy::ProducerRequestHold));
    assert_eq!(asked(&mut owner, 2), Err(ServerError::ProducerBlockedQuotaExceededError));
    assert_eq!(closed(&mut owner), 1, "it is looked at at once");
    owner.change_settings(small_settings());
    assert_eq!(asked(&mut owner, 3), Ok(()));
}

#[test]
fn who_waits_to_have_the_topic_alone_is_let_in_when_the_backlog_is_drained() {
    let mut owner = Owner::new(by_size(5 * size(), QuotaPolicy::ProducerRequestHold));
    let consumer = consume(&mut owner, attach(1, SubscriptionKind::Shared));
    let to = producer(&mut owner, 1);
    let mut waiting = attach_producer(2, None);
    waiting.access = topic::AccessMode::WaitForExclusive;
    owner.call(|topic, turn| topic.attach_producer(turn, waiting));
    let sent = publish(&mut owner, to, 5);
    owner.wait(CHECK_MS);
    owner.settle();
    assert!(!owner.replies().iter().any(|reply| matches!(reply, Reply::ProducerReady { .. })));
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::Many(sent.iter().map(|at| (*at, None, None)).collect()));
    owner.wait(CHECK_MS);
    owner.settle();
    assert!(owner.replies().iter().any(|reply| matches!(reply, Reply::ProducerReady { .. })));
}
