//! Failover subscriptions.

use ledger::{EntryCache, LedgerId, LedgerList, ManagedLedger, Position};
use topic::{AckIds, Effect, Now, Reply, SubscriptionKind::Failover, Topic, Turn};

use crate::client::{Consumer, ack, attach, consume, flow, got, got_at, leave, producer, publish};
use crate::sim::owner::{Owner, small_settings};

/// Attaches a consumer that listens; who is told what it is is left to be asked for.
fn join(owner: &mut Owner, id: u64) -> Consumer {
    join_with(owner, id, 0)
}

fn join_with(owner: &mut Owner, id: u64, priority: i32) -> Consumer {
    let consumer = join_silently(owner, id, priority);
    flow(owner, consumer, 0);
    consumer
}

/// Attaches a consumer that says nothing more.
fn join_silently(owner: &mut Owner, id: u64, priority: i32) -> Consumer {
    let mut asked = attach(id, Failover);
    asked.priority = priority;
    owner.call(|topic, turn| topic.attach_consumer(turn, asked));
    owner.settle();
    let answer = |effect: &Effect| match effect {
        Effect::Reply { reply: Reply::ConsumerReady { consumer, slot, .. }, .. } => Some(Consumer { key: *consumer, slot: *slot }),
        _ => None,
    };
    let at = owner.heard.iter().position(|effect| answer(effect).is_some()).expect("attached");
    assert!(!owner.heard.iter().any(|effect| change(effect).is_some_and(|(told, _)| told == id)), "told before it listened");
    answer(&owner.heard.remove(at)).expect("attached")
}

fn change(effect: &Effect) -> Option<(u64, bool)> {
    match effect {
        Effect::Reply { reply: Reply::ActiveChange { consumer, active }, .. } => Some((consumer.id, *active)),
        _ => None,
    }
}

/// Who was told what since the last call.
fn told(owner: &mut Owner) -> Vec<(u64, bool)> {
    let all = owner.heard.iter().filter_map(change).collect();
    owner.heard.retain(|effect| change(effect).is_none());
    all
}

fn active_name(owner: &Owner) -> Option<String> {
    owner.topic.stats().subscriptions[0].active_consumer.clone()
}

#[test]
fn the_first_is_active_at_once_and_told_once() {
    let mut owner = Owner::new(small_settings());
    let first = join(&mut owner, 1);
    assert_eq!(told(&mut owner), [(1, true)]);
    assert_eq!(active_name(&owner).as_deref(), Some("consumer-1"));
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 3);
    flow(&mut owner, first, 10);
    assert_eq!(got_at(&mut owner), sent);
    owner.wait(60_000);
    assert_eq!(told(&mut owner), []);
}

#[test]
fn one_that_goes_first_takes_over_after_the_delay_what_the_other_did_not_ack() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let old = join_with(&mut owner, 1, 1);
    told(&mut owner);
    let sent = publish(&mut owner, to, 10);
    flow(&mut owner, old, 6);
    assert_eq!(got_at(&mut owner), sent[..6]);
    let new = join(&mut owner, 2);
    flow(&mut owner, new, 100);
    flow(&mut owner, old, 100);
    assert_eq!(got(&mut owner), [], "nobody gets anything while the takeover waits");
    assert_eq!(told(&mut owner), [], "nothing has changed yet");
    ack(&mut owner, old, AckIds::Cumulative(sent[3], None, None));
    owner.wait(999);
    assert_eq!(told(&mut owner), []);
    owner.wait(1);
    assert_eq!(told(&mut owner), [(1, false), (2, true)]);
    owner.settle();
    let got = got(&mut owner);
    assert!(got.iter().all(|got| got.to == 2));
    assert_eq!(got.iter().map(|got| got.at).collect::<Vec<_>>(), sent[4..], "acks that came meanwhile count");
}

#[test]
fn when_the_active_one_leaves_exactly_one_other_takes_over() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumers = [1, 2, 3].map(|id| join(&mut owner, id));
    owner.wait(1_000);
    owner.settle();
    let first = active_name(&owner).expect("one is active");
    told(&mut owner);
    for consumer in consumers {
        flow(&mut owner, consumer, 100);
    }
    let sent = publish(&mut owner, to, 5);
    assert_eq!(got_at(&mut owner), sent);
    let active = consumers.into_iter().find(|consumer| first == format!("consumer-{}", consumer.key.id)).expect("known");
    leave(&mut owner, active);
    let next = active_name(&owner).expect("another is active");
    assert_ne!(next, first);
    assert_eq!(told(&mut owner), []);
    owner.wait(1_000);
    owner.settle();
    let [(id, true)] = told(&mut owner)[..] else { panic!("one is told that it is active, the others know that they are not") };
    assert_eq!(next, format!("consumer-{id}"));
    assert!(got(&mut owner).iter().all(|got| got.to == id), "all of it comes again, to the new one");
}

#[test]
fn a_takeover_that_is_called_off_changes_nothing() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let stays = join_with(&mut owner, 1, 1);
    told(&mut owner);
    let sent = publish(&mut owner, to, 4);
    flow(&mut owner, stays, 2);
    assert_eq!(got_at(&mut owner), sent[..2]);
    let goes = join(&mut owner, 2);
    flow(&mut owner, stays, 100);
    assert_eq!(got_at(&mut owner), []);
    leave(&mut owner, goes);
    assert_eq!(got_at(&mut owner), sent[2..], "it goes on where it was");
    owner.wait(5_000);
    assert_eq!(told(&mut owner), []);
}

#[test]
fn those_that_stand_by_are_told_so_and_cannot_ask_for_redelivery() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let active = join(&mut owner, 1);
    let other = join_with(&mut owner, 2, 7);
    assert_eq!(told(&mut owner), [(1, true), (2, false)]);
    let sent = publish(&mut owner, to, 3);
    flow(&mut owner, active, 100);
    assert_eq!(got_at(&mut owner), sent);
    owner.call(|topic, _| topic.redeliver(other.key, other.slot, Vec::new(), None));
    owner.settle();
    assert_eq!(got_at(&mut owner), []);
    owner.call(|topic, _| topic.redeliver(active.key, active.slot, Vec::new(), None));
    owner.settle();
    assert_eq!(got_at(&mut owner), sent);
}

#[test]
fn a_consumer_is_told_when_it_first_asks_for_messages_or_after_a_second() {
    let mut owner = Owner::new(small_settings());
    let active = join_silently(&mut owner, 1, 0);
    owner.wait(600);
    let other = join_silently(&mut owner, 2, 1);
    owner.wait(399);
    assert_eq!(told(&mut owner), []);
    owner.wait(1);
    assert_eq!(told(&mut owner), [(1, true)]);
    flow(&mut owner, other, 1);
    assert_eq!(told(&mut owner), [(2, false)]);
    flow(&mut owner, active, 1);
    owner.wait(60_000);
    assert_eq!(told(&mut owner), [], "once is enough");
}

#[test]
fn a_consumer_that_listens_late_hears_only_what_holds_now() {
    let mut owner = Owner::new(topic::TopicSettings { failover_delay_ms: 0, ..small_settings() });
    let late = join_silently(&mut owner, 1, 1);
    join(&mut owner, 2);
    assert_eq!(told(&mut owner), [(2, true)]);
    flow(&mut owner, late, 10);
    assert_eq!(told(&mut owner), [(1, false)]);
}

#[test]
fn without_a_delay_a_takeover_is_at_once() {
    let mut owner = Owner::new(topic::TopicSettings { failover_delay_ms: 0, ..small_settings() });
    join_with(&mut owner, 1, 1);
    join(&mut owner, 2);
    assert_eq!(told(&mut owner), [(1, true), (1, false), (2, true)]);
}

/// Three consumers of one name order, on every partition: who is active where.
fn spread(partitions: u32, priorities: &[i32]) -> Vec<String> {
    let settings = topic::TopicSettings { failover_delay_ms: 0, ..small_settings() };
    (0..partitions)
        .map(|index| {
            let name = format!("persistent://public/default/t-partition-{index}").parse().expect("a name");
            let now = Now { monotonic_ms: 1, wall_ms: 1 };
            let chain = ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), settings.ledger, 1);
            let (mut cache, mut out) = (EntryCache::new(0), Vec::new());
            let key = cache.open();
            let mut topic = Topic::new(name, chain, 0, Vec::new(), settings.clone(), key, now);
            for (id, priority) in (1..).zip(priorities) {
                let mut asked = attach(id, Failover);
                asked.durable = false;
                asked.priority = *priority;
                asked.start = Some(topic::StartAt::At(Position::EARLIEST));
                topic.attach_consumer(&mut Turn { now, cache: &mut cache, out: &mut out }, asked);
            }
            topic.stats().subscriptions[0].active_consumer.clone().expect("one is active")
        })
        .collect()
}

#[test]
fn partitions_go_round_over_the_first_priority_in_the_order_of_names() {
    let round = spread(9, &[0, 0, 0, 1]);
    assert_eq!(round, ["consumer-1", "consumer-2", "consumer-3"].repeat(3));
}

#[test]
fn a_topic_alone_always_has_the_same_one_whoever_came_first() {
    let active = |order: [u64; 3]| {
        let mut owner = Owner::new(topic::TopicSettings { failover_delay_ms: 0, ..small_settings() });
        let _ = order.map(|id| join(&mut owner, id));
        active_name(&owner)
    };
    assert_eq!(active([1, 2, 3]), active([3, 1, 2]));
    assert_eq!(active([1, 2, 3]), active([2, 3, 1]));
}

#[test]
fn another_type_is_refused_while_consumers_are_attached() {
    let mut owner = Owner::new(small_settings());
    join(&mut owner, 1);
    told(&mut owner);
    let refused = crate::client::try_consume(&mut owner, attach(2, topic::SubscriptionKind::Exclusive));
    assert!(matches!(refused, Reply::Error { error: wire::ServerError::ConsumerBusy, .. }), "{refused:?}");
    let consumer = consume(&mut Owner::new(small_settings()), attach(1, topic::SubscriptionKind::Exclusive));
    assert_eq!(consumer.key.id, 1);
}
