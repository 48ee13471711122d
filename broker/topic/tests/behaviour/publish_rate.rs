//! Publishing at a limited rate: what comes faster waits, in order, and nobody is refused.

use ledger::EntryCache;
use topic::{Effect, NonPersistentTopic, Now, Publish, PublishRates, Rate, Rates, Reply, TopicSettings, Turn};

use crate::client::{Producer, attach_producer, entry, producer, receipts, send};
use crate::sim::owner::{Owner, small_settings};

fn limited(rate: Rate) -> TopicSettings {
    TopicSettings { rates: Rates { publish: PublishRates { topic: rate, broker: None }, ..Rates::default() }, ..small_settings() }
}

fn publish_at_once(owner: &mut Owner, to: Producer, from: u64, count: u64) {
    for sequence in from..from + count {
        send(owner, to, sequence, entry(1, 1_000));
    }
    owner.settle();
}

/// Lets time pass, a millisecond at a time, and returns how many receipts came.
fn pass(owner: &mut Owner, millis: u64) -> usize {
    for _ in 0..millis {
        owner.wait(1);
        owner.settle();
    }
    receipts(owner).len()
}

/// Bytes that are held of each producer, as its connection counts them.
fn held(owner: &Owner) -> i64 {
    let change = |effect: &Effect| match effect {
        Effect::Held { bytes, .. } => i64::from(*bytes),
        Effect::Released { bytes, .. } => -i64::from(*bytes),
        _ => 0,
    };
    owner.heard.iter().map(change).sum()
}

#[test]
fn what_comes_too_fast_goes_through_at_the_rate_and_in_order() {
    let mut owner = Owner::new(limited(Rate::per_second(100, 0)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 350);
    let sequences = |owner: &Owner| -> Vec<u64> {
        owner.heard.iter().filter_map(|effect| if let Effect::Receipt { sequence, .. } = effect { Some(*sequence) } else { None }).collect()
    };
    assert_eq!(sequences(&owner), (0..100).collect::<Vec<_>>(), "what a second brings goes through at once");
    assert_eq!(pass(&mut owner, 10), 101);
    assert_eq!(pass(&mut owner, 990), 99);
    owner.heard.retain(|effect| !matches!(effect, Effect::Receipt { .. }));
    owner.wait(1_000);
    owner.settle();
    assert_eq!(sequences(&owner), (200..300).collect::<Vec<_>>());
    assert_eq!(pass(&mut owner, 500), 150);
    assert_eq!(held(&owner), 0);
    let stats = owner.topic.stats();
    assert_eq!((stats.publish_rate_limited, stats.messages_in), (1, 350));
    assert_eq!(owner.topic.next_deadline().filter(|at| *at < owner.now.monotonic_ms + 1_000), None, "nothing is waited for any more");
}

#[test]
fn bytes_are_limited_as_messages_are() {
    let size = entry(1, 1_000).len() as u64;
    let mut owner = Owner::new(limited(Rate::per_second(0, size * 10)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 60);
    assert_eq!(receipts(&mut owner).len(), 10);
    assert_eq!(pass(&mut owner, 1_000), 10);
    assert_eq!(pass(&mut owner, 3_000), 30);
}

#[test]
fn a_loud_producer_does_not_keep_the_others_of_its_topic_waiting() {
    let mut owner = Owner::new(limited(Rate::per_second(10, 0)));
    let loud = producer(&mut owner, 1);
    let quiet = producer(&mut owner, 2);
    publish_at_once(&mut owner, loud, 0, 500);
    publish_at_once(&mut owner, quiet, 0, 1);
    receipts(&mut owner);
    owner.wait(200);
    owner.settle();
    let of_quiet = owner.heard.iter().any(|effect| matches!(effect, Effect::Receipt { to, .. } if *to == quiet.key));
    assert!(of_quiet, "it was the second in turn, not the 491st");
}

#[test]
fn a_close_is_answered_when_what_was_sent_before_it_went_through() {
    let mut owner = Owner::new(limited(Rate::per_second(10, 0)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 15);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, Some(77)));
    assert!(owner.replies().is_empty());
    assert_eq!(pass(&mut owner, 499), 14);
    assert!(owner.replies().is_empty());
    assert_eq!(pass(&mut owner, 1), 1);
    assert!(matches!(owner.replies()[..], [Reply::Success { request: 77 }]));
    assert_eq!(owner.topic.producers(), 0);
}

#[test]
fn what_is_held_goes_with_its_connection_or_with_a_newer_life_of_its_producer() {
    let mut owner = Owner::new(limited(Rate::per_second(10, 0)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 30);
    owner.call(|topic, turn| topic.detach_producer(turn, to.key, None));
    assert_eq!(held(&owner), 0);
    assert_eq!(owner.heard.iter().filter(|effect| matches!(effect, Effect::Forgotten { .. })).count(), 20);
    assert_eq!(pass(&mut owner, 3_000), 10, "those that went through before");
    let mut first = attach_producer(2, None);
    (first.name, first.user_provided_name) = (Some("made".to_owned()), false);
    let mut again = first.clone();
    (again.key.id, again.epoch) = (3, 1);
    owner.call(|topic, turn| topic.attach_producer(turn, first));
    let Some(Reply::ProducerReady { producer: key, slot, .. }) = owner.replies().pop() else { panic!("not attached") };
    publish_at_once(&mut owner, Producer { key, slot }, 0, 30);
    owner.call(|topic, turn| topic.attach_producer(turn, again));
    assert_eq!(held(&owner), 0);
    pass(&mut owner, 2_000);
    assert_eq!(owner.topic.stats().messages_in, 20);
}

#[test]
fn without_the_rate_all_that_is_held_goes_on_at_once() {
    let mut owner = Owner::new(limited(Rate::per_second(10, 0)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 500);
    owner.change_settings(limited(Rate::per_second(100, 0)));
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 10, "a higher rate begins with what was left");
    assert_eq!(pass(&mut owner, 1_000), 100);
    owner.change_settings(small_settings());
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 390);
    assert_eq!(held(&owner), 0);
    publish_at_once(&mut owner, to, 500, 1_000);
    assert_eq!(receipts(&mut owner).len(), 1_000);
}

#[test]
fn an_unload_forgets_what_is_held_and_the_client_sends_it_again() {
    let mut owner = Owner::new(limited(Rate::per_second(10, 0)));
    let to = producer(&mut owner, 1);
    publish_at_once(&mut owner, to, 0, 30);
    owner.call(topic::Topic::unload);
    assert_eq!(held(&owner), 0);
    assert!(owner.heard.iter().any(|effect| matches!(effect, Effect::Reply { reply: Reply::CloseProducer { .. }, .. })));
    owner.settle();
    assert!(owner.topic.unloaded());
    assert_eq!(owner.topic.stats().messages_in, 10);
}

#[test]
fn a_small_publish_that_is_held_does_not_keep_the_buffer_it_came_in() {
    let mut owner = Owner::new(limited(Rate::per_second(1, 0)));
    let to = producer(&mut owner, 1);
    let buffer = bytes::Bytes::from([entry(1, 1_000), entry(1, 1_000), entry(1, 1_000)].concat());
    let size = buffer.len() / 3;
    send(&mut owner, to, 0, buffer.slice(..size));
    owner.settle();
    send(&mut owner, to, 1, buffer.slice(size..2 * size));
    send(&mut owner, to, 2, buffer.slice(2 * size..));
    assert!(buffer.is_unique() || owner.topic.stats().storage_entries == 1);
    assert_eq!(held(&owner), 2 * size as i64);
}

#[test]
fn a_topic_that_stores_nothing_keeps_a_rate_as_well() {
    let name = "non-persistent://public/default/n".parse().expect("a name");
    let mut now = Now { monotonic_ms: 1_000, wall_ms: 1 };
    let mut topic = NonPersistentTopic::new(name, limited(Rate::per_second(2, 0)), now);
    let (mut cache, mut out) = (EntryCache::new(0), Vec::new());
    topic.attach_producer(&mut Turn { now, cache: &mut cache, out: &mut out }, attach_producer(1, None));
    let Some(Effect::Reply { reply: Reply::ProducerReady { producer: key, slot, .. }, .. }) = out.pop() else { panic!("not attached") };
    for sequence in 0..5 {
        let publish = Publish { key, slot, sequence, highest_sequence: 0, bytes: entry(1, 1) };
        topic.publish(&mut Turn { now, cache: &mut cache, out: &mut out }, publish);
    }
    let receipts = |out: &[Effect]| out.iter().filter(|effect| matches!(effect, Effect::Receipt { .. })).count();
    assert_eq!((receipts(&out), topic.next_deadline()), (2, Some(1_500)));
    now.monotonic_ms = 1_500;
    topic.tick(&mut Turn { now, cache: &mut cache, out: &mut out });
    assert_eq!((receipts(&out), topic.next_deadline(), topic.stats().publish_rate_limited), (3, Some(2_000), 1));
    topic.detach_producer(&mut Turn { now, cache: &mut cache, out: &mut out }, key, None);
    let (held, released) = (
        out.iter().filter(|effect| matches!(effect, Effect::Held { .. })).count(),
        out.iter().filter(|effect| matches!(effect, Effect::Released { .. })).count(),
    );
    assert_eq!((held, released, topic.next_deadline()), (3, 3, None));
}
