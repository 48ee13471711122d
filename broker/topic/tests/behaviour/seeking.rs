//! Seeks, readers, and the newest message.

use ledger::Position;
use topic::{AckIds, Effect, Reply, SeekTo, StartAt, SubscriptionKind::Exclusive, SubscriptionKind::Shared};
use wire::ServerError;

use crate::client::{Consumer, ack, attach, consume, entry, flow, got, got_at, leave, producer, publish, send, try_consume};
use crate::sim::owner::{Owner, small_settings};

fn seek(owner: &mut Owner, by: Consumer, to: SeekTo) -> Vec<Reply> {
    owner.call(|topic, turn| topic.seek(turn, by.key, 77, to));
    owner.settle();
    owner.replies()
}

#[test]
fn consumers_are_closed_before_the_seek_is_answered_and_come_back_to_the_new_place() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let first = consume(&mut owner, attach(1, Shared));
    let second = consume(&mut owner, attach(2, Shared));
    flow(&mut owner, first, 100);
    got(&mut owner);
    ack(&mut owner, first, AckIds::One(sent[20]));
    owner.call(|topic, turn| topic.seek(turn, second.key, 77, SeekTo::Message(sent[10])));
    let fenced = attach(3, Shared);
    owner.call(|topic, turn| topic.attach_consumer(turn, fenced));
    owner.settle();
    let replies = owner.replies();
    let [
        Reply::CloseConsumer { .. },
        Reply::CloseConsumer { .. },
        Reply::Error { error: ServerError::ServiceNotReady, .. },
        Reply::Success { request: 77 },
    ] = replies.as_slice()
    else {
        panic!("{replies:?}")
    };
    let again = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, again, 100);
    let got = got(&mut owner);
    assert_eq!(got.iter().map(|got| got.at).collect::<Vec<_>>(), sent[10..]);
    assert!(got.iter().all(|got| got.redeliveries == 0));
}

#[test]
fn a_seek_is_durable_when_it_is_answered() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    assert!(matches!(seek(&mut owner, consumer, SeekTo::Message(sent[5])).last(), Some(Reply::Success { .. })));
    owner.crash(0, 0);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    flow(&mut owner, consumer, 100);
    assert_eq!(got_at(&mut owner), sent[5..]);
}

#[test]
fn earliest_and_latest_are_the_ends() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let mut consumer = consume(&mut owner, attach(1, Exclusive));
    for (to, expected) in
        [(Position::LATEST, &sent[30..]), (Position::EARLIEST, &sent[..]), (Position::new(sent[0].ledger.0, 9_999), &sent[20..])]
    {
        seek(&mut owner, consumer, SeekTo::Message(to));
        consumer = consume(&mut owner, attach(1, Exclusive));
        flow(&mut owner, consumer, 100);
        assert_eq!(got_at(&mut owner), expected);
    }
}

#[test]
fn a_seek_by_time_is_what_a_linear_scan_finds() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let start = owner.now.wall_ms;
    for sequence in 0..100 {
        send(&mut owner, to, sequence, entry(1, start + sequence / 3 * 1_000));
        owner.settle();
        owner.wait(333);
    }
    let sent = crate::client::receipts(&mut owner);
    let mut consumer = consume(&mut owner, attach(1, Exclusive));
    for offset in [0, 1, 5_000, 5_001, 17_500, 32_999, 33_000, 33_001, 99_000] {
        let expected = (0..100).find(|sequence| sequence / 3 * 1_000 >= offset).map_or(100, |sequence| sequence as usize);
        owner.reads = 0;
        seek(&mut owner, consumer, SeekTo::Time(start + offset));
        assert!(owner.reads <= 7, "{} reads", owner.reads);
        consumer = consume(&mut owner, attach(1, Exclusive));
        flow(&mut owner, consumer, 1_000);
        assert_eq!(got_at(&mut owner), sent[expected..], "at {offset}");
    }
}

#[test]
fn a_reader_survives_the_gap_that_a_seek_leaves_and_not_more() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    let mut asked = attach(1, Exclusive);
    asked.durable = false;
    asked.start = Some(StartAt::Latest);
    let reader = consume(&mut owner, asked.clone());
    seek(&mut owner, reader, SeekTo::Time(1_004));
    asked.start = None;
    let reader = consume(&mut owner, asked.clone());
    flow(&mut owner, reader, 100);
    assert_eq!(got_at(&mut owner), sent[4..]);
    seek(&mut owner, reader, SeekTo::Message(sent[0]));
    owner.wait(4_999);
    assert_eq!(owner.topic.stats().subscriptions.len(), 1);
    owner.wait(1);
    assert_eq!(owner.topic.stats().subscriptions.len(), 0);
}

#[test]
fn a_reader_that_repeats_its_first_start_stays_where_it_was_sent() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 10);
    for first in [StartAt::Earliest, StartAt::Latest, StartAt::At(sent[2])] {
        let mut asked = attach(1, Exclusive);
        asked.durable = false;
        asked.start = Some(first);
        let reader = consume(&mut owner, asked.clone());
        for (sent_to, next) in [(SeekTo::Time(1_004), 4), (SeekTo::Message(sent[7]), 7), (SeekTo::Time(2_000), 10)] {
            seek(&mut owner, reader, sent_to);
            assert_eq!(consume(&mut owner, asked.clone()).key, reader.key);
            flow(&mut owner, reader, 100);
            assert_eq!(got_at(&mut owner), sent[next..]);
        }
        leave(&mut owner, reader);
        assert_eq!(owner.topic.stats().subscriptions.len(), 0);
    }
}

#[test]
fn a_reader_starts_at_its_message_and_leaves_no_trace() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let mut asked = attach(1, Exclusive);
    asked.durable = false;
    asked.start = Some(StartAt::At(sent[19]));
    let reader = consume(&mut owner, asked.clone());
    flow(&mut owner, reader, 100);
    assert_eq!(got_at(&mut owner), sent[19..]);
    assert_eq!(owner.world.cursors().count(), 0);
    asked.durable = true;
    asked.key.id = 2;
    assert!(matches!(try_consume(&mut owner, asked), Reply::Error { error: ServerError::NotAllowedError, .. }));
    leave(&mut owner, reader);
    assert_eq!(owner.topic.stats().subscriptions.len(), 0);
}

#[test]
fn a_start_by_time_is_searched_before_the_subscription_is_recorded() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 30);
    let mut asked = attach(1, Exclusive);
    asked.start = Some(StartAt::Time(1_017));
    let consumer = consume(&mut owner, asked);
    flow(&mut owner, consumer, 100);
    assert_eq!(got_at(&mut owner), sent[17..]);
}

#[test]
fn a_read_that_ends_after_a_seek_is_dropped() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 20);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    owner.call(|topic, turn| topic.flow(turn, consumer.key, consumer.slot, 100));
    assert_eq!(owner.reads_open(), 1);
    owner.call(|topic, turn| topic.seek(turn, consumer.key, 1, SeekTo::Message(sent[15])));
    while owner.finish_write() {}
    owner.replies();
    owner.call(|topic, turn| topic.attach_consumer(turn, attach(1, Exclusive)));
    let Some(Reply::ConsumerReady { slot, .. }) = owner.replies().pop() else { panic!("not back") };
    owner.call(|topic, turn| topic.flow(turn, consumer.key, slot, 100));
    owner.settle();
    assert_eq!(got_at(&mut owner), sent[15..]);
}

#[test]
fn the_newest_message_is_told_with_its_batch_index_and_the_mark_delete_position() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Exclusive));
    let ask = |owner: &mut Owner| {
        owner.call(|topic, turn| topic.last_message_id(turn, consumer.key, 5));
        owner.settle();
        match owner.replies().pop() {
            Some(Reply::LastMessageId { at, partition: -1, batch_index, mark_delete, .. }) => (at, batch_index, mark_delete),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&mut owner).0, Position::new(-1, -1));
    let sent = publish(&mut owner, to, 3);
    assert_eq!((ask(&mut owner).0, ask(&mut owner).1), (sent[2], -1));
    send(&mut owner, to, 9, entry(10, 1));
    owner.settle();
    flow(&mut owner, consumer, 100);
    ack(&mut owner, consumer, AckIds::One(sent[0]));
    let expected = (sent[2].following(), 9, sent[0]);
    assert_eq!(ask(&mut owner), expected);
    owner.unload_and_load();
    owner.heard.clear();
    let again = consume(&mut owner, attach(1, Exclusive));
    assert_eq!(again.key, consumer.key);
    assert_eq!(ask(&mut owner), expected, "read from storage");
}

#[test]
fn unsubscribe_removes_the_record_before_it_is_answered() {
    let mut owner = Owner::new(small_settings());
    let first = consume(&mut owner, attach(1, Shared));
    let second = consume(&mut owner, attach(2, Shared));
    owner.call(|topic, turn| topic.unsubscribe(turn, first.key, 3, false));
    assert!(matches!(owner.replies().as_slice(), [Reply::Error { request: 3, error: ServerError::MetadataError, .. }]));
    owner.call(|topic, turn| topic.unsubscribe(turn, first.key, 4, true));
    let replies = owner.replies();
    assert!(matches!(replies.as_slice(), [Reply::CloseConsumer { consumer }] if *consumer == second.key), "{replies:?}");
    owner.settle();
    assert!(matches!(owner.replies().as_slice(), [Reply::Success { request: 4 }]));
    assert_eq!(owner.world.cursors().count(), 0);
    assert_eq!((owner.topic.consumers(), owner.topic.stats().subscriptions.len()), (0, 0));
    owner.call(|topic, turn| topic.unsubscribe(turn, first.key, 5, false));
    assert!(matches!(owner.replies().as_slice(), [Reply::Error { request: 5, error: ServerError::MetadataError, .. }]));
}

#[test]
fn consumer_statistics_count_the_backlog_exactly() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let consumer = consume(&mut owner, attach(1, Shared));
    flow(&mut owner, consumer, 5);
    let sent = publish(&mut owner, to, 30);
    ack(&mut owner, consumer, AckIds::One(sent[1]));
    owner.call(|topic, turn| topic.consumer_stats(turn, consumer.key, 8));
    let Some(Reply::ConsumerStats { request: 8, stats }) = owner.replies().pop() else { panic!("no statistics") };
    assert_eq!((stats.backlog, stats.unacked_messages, stats.available_permits, stats.kind), (29, 4, 0, "Shared"));
    let stray = topic::ConsumerKey { id: 99, ..consumer.key };
    owner.call(|topic, turn| topic.consumer_stats(turn, stray, 9));
    assert!(matches!(owner.replies().as_slice(), [Reply::Error { error: ServerError::ConsumerNotFound, .. }]));
    assert!(owner.heard.iter().all(|effect| !matches!(effect, Effect::Refused { .. })));
}

#[test]
fn a_read_that_finds_the_place_of_a_seek_may_fail_and_is_tried_again() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let sent = publish(&mut owner, to, 15);
    let mut asked = attach(1, Exclusive);
    asked.durable = false;
    let reader = consume(&mut owner, asked.clone());
    owner.call(|topic, turn| topic.seek(turn, reader.key, 1, SeekTo::Time(1_009)));
    assert!(owner.fail_read(0));
    owner.wait(60_000);
    owner.settle();
    assert!(matches!(owner.replies().as_slice(), [Reply::CloseConsumer { .. }, Reply::Success { request: 1 }]));
    asked.start = None;
    let reader = consume(&mut owner, asked);
    flow(&mut owner, reader, 100);
    assert_eq!(got_at(&mut owner), sent[9..]);
}

#[test]
fn an_unsubscribe_that_metadata_refuses_is_answered_with_an_error() {
    let mut owner = Owner::new(small_settings());
    let consumer = consume(&mut owner, attach(1, Exclusive));
    owner.call(|topic, turn| topic.unsubscribe(turn, consumer.key, 4, false));
    assert!(owner.refuse_change());
    assert!(matches!(owner.replies().as_slice(), [Reply::Error { request: 4, error: ServerError::ServiceNotReady, .. }]));
    assert!(owner.unload_reason.is_some());
    owner.unload_and_load();
    assert_eq!(owner.topic.stats().subscriptions.len(), 1);
}
