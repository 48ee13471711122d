//! Topics that end.

use ledger::Position;
use topic::{AckIds, Asked, AttachConsumer, Effect, Reply, SubscriptionKind};
use wire::ServerError;

use crate::client::{ack, attach, attach_producer, connection, consume, entry, flow, got_at, producer, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

const ASKED: u64 = 77;

fn terminate(owner: &mut Owner) {
    owner.call(|topic, turn| topic.terminate(turn, Asked { to: connection(9), request: ASKED }));
}

fn ends(owner: &mut Owner) -> Vec<Position> {
    let end = |reply: Reply| match reply {
        Reply::Place { request: ASKED, at } => Some(at),
        _ => None,
    };
    owner.replies().into_iter().filter_map(end).collect()
}

fn java(id: u64) -> AttachConsumer {
    AttachConsumer { client_version: "Pulsar-Java-v4.0.0".to_owned(), ..attach(id, SubscriptionKind::Exclusive) }
}

fn told_of_the_end(owner: &mut Owner) -> usize {
    owner.replies().iter().filter(|reply| matches!(reply, Reply::EndOfTopic { .. })).count()
}

#[test]
fn what_was_accepted_is_stored_and_what_comes_later_is_refused() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    for sequence in 0..3 {
        send(&mut owner, to, sequence, entry(1, 1_000));
    }
    terminate(&mut owner);
    send(&mut owner, to, 3, entry(1, 1_000));
    assert_eq!(ends(&mut owner), [], "not before what was accepted is durable");
    let refused = owner.heard.iter().any(|e| matches!(e, Effect::Refused { sequence: 3, error: ServerError::TopicTerminatedError, .. }));
    assert!(refused, "{:?}", owner.heard);
    owner.settle();
    let stored = receipts(&mut owner);
    assert_eq!(stored.len(), 3);
    assert_eq!(ends(&mut owner), [stored[2]]);
    terminate(&mut owner);
    assert_eq!(ends(&mut owner), [stored[2]], "it ends once");
}

#[test]
fn producers_are_closed_and_none_comes_in_also_after_a_restart() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let stored = publish(&mut owner, to, 25);
    terminate(&mut owner);
    owner.settle();
    let replies = owner.replies();
    assert!(replies.iter().any(|reply| matches!(reply, Reply::CloseProducer { producer } if *producer == to.key)));
    for restart in [false, true] {
        if restart {
            owner.crash(0, 0);
        }
        owner.call(|topic, turn| topic.attach_producer(turn, attach_producer(2, None)));
        let refused = owner.replies().pop();
        assert!(matches!(refused, Some(Reply::Error { error: ServerError::TopicTerminatedError, .. })), "{refused:?}");
        assert_eq!(owner.topic.stats().state, "Terminated");
        terminate(&mut owner);
        assert_eq!(ends(&mut owner), [stored[24]]);
    }
    let consumer = consume(&mut owner, attach(3, SubscriptionKind::Exclusive));
    flow(&mut owner, consumer, 100);
    assert_eq!(got_at(&mut owner), stored);
}

#[test]
fn a_topic_can_end_in_the_middle_of_a_rollover() {
    for settled in 0..4 {
        let mut owner = Owner::new(small_settings());
        let to = producer(&mut owner, 1);
        for sequence in 0..22 {
            send(&mut owner, to, sequence, entry(1, 1_000));
        }
        owner.finish_appends(usize::MAX);
        for _ in 0..settled {
            owner.finish_write();
        }
        terminate(&mut owner);
        owner.settle();
        let stored = receipts(&mut owner);
        assert_eq!(ends(&mut owner), [*stored.last().expect("some")], "{settled}");
        owner.crash(0, 0);
        terminate(&mut owner);
        assert_eq!(ends(&mut owner), [*stored.last().expect("some")], "{settled}");
        let listed: Vec<i64> = owner.topic.stats().ledgers.iter().map(|ledger| ledger.0).collect();
        assert!(stored.iter().all(|at| listed.contains(&at.ledger.0)));
    }
}

#[test]
fn an_empty_topic_can_end() {
    let mut owner = Owner::new(small_settings());
    terminate(&mut owner);
    owner.settle();
    assert_eq!(ends(&mut owner).len(), 1);
    owner.crash(0, 0);
    assert_eq!(owner.topic.stats().state, "Terminated");
}

#[test]
fn who_has_acked_everything_is_told_once_if_its_client_knows_what_that_means() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    let stored = publish(&mut owner, to, 3);
    let consumer = consume(&mut owner, java(1));
    flow(&mut owner, consumer, 100);
    terminate(&mut owner);
    owner.settle();
    assert_eq!(told_of_the_end(&mut owner), 0, "it has not acked everything");
    ack(&mut owner, consumer, AckIds::Cumulative(stored[2], None, None));
    assert_eq!(told_of_the_end(&mut owner), 1);
    flow(&mut owner, consumer, 1);
    assert_eq!(told_of_the_end(&mut owner), 0);
    let other = AttachConsumer { subscription: "other".to_owned(), ..attach(2, SubscriptionKind::Exclusive) };
    let other = consume(&mut owner, other);
    flow(&mut owner, other, 100);
    ack(&mut owner, other, AckIds::Cumulative(stored[2], None, None));
    assert_eq!(told_of_the_end(&mut owner), 0, "its client would come back for ever");
}

#[test]
fn who_waits_for_the_end_of_a_topic_that_is_let_go_of_is_told() {
    let mut owner = Owner::new(small_settings());
    let to = producer(&mut owner, 1);
    send(&mut owner, to, 0, entry(1, 1_000));
    terminate(&mut owner);
    owner.replies();
    owner.call(topic::Topic::unload);
    let told = owner.replies().into_iter().any(|reply| matches!(reply, Reply::Error { request: ASKED, .. }));
    assert!(told);
}
