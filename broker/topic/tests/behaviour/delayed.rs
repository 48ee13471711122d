//! Delayed messages on Shared subscriptions, and entries read for nothing.

use bytes::{Bytes, BytesMut};
use ledger::Position;
use topic::{AckIds, Effect, SubscriptionKind::Shared, TopicSettings};
use wire::ServerError;
use wire::proto::MessageMetadata;

use crate::client::{Producer, ack, attach, consume, entry, flow, got, got_at, producer, receipts, send};
use crate::sim::owner::{Owner, small_settings};

fn delayed(deliver_at: u64) -> Bytes {
    let deliver_at_time = Some(deliver_at as i64);
    let metadata = MessageMetadata { producer_name: "p".to_owned(), publish_time: 1, deliver_at_time, ..MessageMetadata::default() };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, b"later", &mut bytes);
    bytes.freeze()
}

fn publish(owner: &mut Owner, to: Producer, entries: impl IntoIterator<Item = Bytes>) -> Vec<Position> {
    for bytes in entries {
        send(owner, to, 0, bytes);
    }
    owner.settle();
    receipts(owner)
}

fn waiting(owner: &Owner) -> u64 {
    owner.topic.stats().subscriptions.iter().map(|subscription| subscription.delayed).sum()
}

#[test]
fn a_delayed_entry_is_passed_over_and_comes_when_it_is_due() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 1_000);
    let at = owner.now.wall_ms + 10_000;
    let sent = publish(&mut owner, to, [delayed(at), entry(1, 1), delayed(at + 1), entry(1, 1)]);
    assert_eq!(got_at(&mut owner), [sent[1], sent[3]]);
    assert_eq!(waiting(&owner), 2);
    owner.wait(9_999);
    assert!(got(&mut owner).is_empty(), "early");
    owner.wait(1_001);
    owner.settle();
    let late = got(&mut owner);
    assert_eq!(late.iter().map(|got| (got.at, got.redeliveries)).collect::<Vec<_>>(), [(sent[0], 0), (sent[2], 0)]);
    assert_eq!(waiting(&owner), 0);
    for at in sent {
        ack(&mut owner, consumer, AckIds::One(at));
    }
    assert_eq!(owner.topic.stats().subscriptions[0].backlog, 0);
}

#[test]
fn one_message_behind_thousands_of_delayed_ones_is_found_with_few_reads() {
    let settings = TopicSettings { max_read_entries: 500, max_read_bytes: 1 << 20, ..small_settings() };
    let mut owner = Owner::over(Default::default(), settings, 0, Default::default());
    let to = producer(&mut owner, 1);
    let at = owner.now.wall_ms + 3_600_000;
    publish(&mut owner, to, (0..3_000).map(|_| delayed(at)));
    let last = publish(&mut owner, to, [entry(1, 1)]);
    let consumer = consume(&mut owner, attach(1, Shared));
    let before = owner.reads;
    flow(&mut owner, consumer, 1);
    assert_eq!(got_at(&mut owner), last);
    // A read does not go beyond its ledger of 20 entries.
    assert!(owner.reads - before <= 160, "{} reads", owner.reads - before);
    assert_eq!(waiting(&owner), 3_000);
}

#[test]
fn after_a_restart_delays_are_found_again_by_reading() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 1_000);
    let at = owner.now.wall_ms + 60_000;
    let sent = publish(&mut owner, to, (0..50).map(|n| if n % 2 == 0 { delayed(at) } else { entry(1, 1) }));
    for at in got_at(&mut owner) {
        ack(&mut owner, consumer, AckIds::One(at));
    }
    owner.unload_and_load();
    owner.heard.clear();
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 1_000);
    assert!(got(&mut owner).is_empty());
    assert_eq!(waiting(&owner), 25);
    owner.wait(61_000);
    owner.settle();
    let late: Vec<Position> = sent.into_iter().step_by(2).collect();
    assert_eq!(got_at(&mut owner), late);
}

#[test]
fn what_is_due_goes_through_limits_and_permits_like_anything_else() {
    let settings = TopicSettings { max_unacked_per_consumer: 4, ..small_settings() };
    let mut owner = Owner::new(settings);
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 6);
    let at = owner.now.wall_ms + 5_000;
    publish(&mut owner, to, (0..20).map(|_| delayed(at)));
    owner.wait(7_000);
    owner.settle();
    let first = got_at(&mut owner);
    assert_eq!(first.len(), 4, "the consumer may hold four");
    ack(&mut owner, consumer, AckIds::Many(first.into_iter().map(|at| (at, None, None)).collect()));
    assert_eq!(got_at(&mut owner).len(), 2, "and has two permits left");
    flow(&mut owner, consumer, 100);
    assert_eq!(got_at(&mut owner).len(), 2);
}

#[test]
fn a_publish_that_asks_for_too_long_a_delay_is_refused_alone_and_in_its_turn() {
    let mut owner = Owner::new(TopicSettings { max_delay_ms: 5_000, ..small_settings() });
    let to = producer(&mut owner, 1);
    // Its publish time is 1.
    for (sequence, bytes) in [entry(1, 1), delayed(5_002), delayed(5_001), entry(1, 1)].into_iter().enumerate() {
        send(&mut owner, to, sequence as u64, bytes);
    }
    assert!(owner.heard.is_empty(), "nothing is answered before what was published before it");
    owner.settle();
    let answers: Vec<_> = owner.heard.iter().filter_map(answer).collect();
    assert_eq!(answers, [(0, None), (1, Some(ServerError::NotAllowedError)), (2, None), (3, None)]);
    assert_eq!(owner.topic.stats().storage_entries, 3);
}

#[test]
fn the_limit_on_delays_is_none_where_there_are_no_delays() {
    for settings in [
        TopicSettings { max_delay_ms: 0, ..small_settings() },
        TopicSettings { max_delay_ms: 5_000, delayed_tick_ms: 0, ..small_settings() },
    ] {
        let mut owner = Owner::new(settings);
        let to = producer(&mut owner, 1);
        assert_eq!(publish(&mut owner, to, [delayed(1 << 40)]).len(), 1);
    }
}

fn answer(effect: &Effect) -> Option<(u64, Option<ServerError>)> {
    match effect {
        Effect::Receipt { sequence, .. } => Some((*sequence, None)),
        Effect::Refused { sequence, error, .. } => Some((*sequence, Some(*error))),
        _ => None,
    }
}
