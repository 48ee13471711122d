//! Producers and consumers that come and go while something else is going on.

use wire::{Command, ServerError};

use crate::harness::{Broker, topic, until, wait_for};

fn closed_by_broker(command: &Command, producer: u64) -> bool {
    matches!(command, Command::CloseProducer(close) if close.producer_id == producer)
}

#[test]
fn a_close_that_overtakes_its_attach_is_answered_and_so_is_the_attach() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.metadata.hold();
    let (producer, consumer) = (peer.ask_producer(1, "slow"), peer.ask_consumer(1, "slow", "s"));
    let (first, again) = (peer.close_producer(1), peer.close_producer(1));
    let third = peer.close_consumer(1);
    peer.sync();
    broker.metadata.release();
    for attach in [producer, consumer] {
        assert_eq!(peer.answer(attach).unwrap_err().0, ServerError::ServiceNotReady);
    }
    for close in [first, again, third] {
        assert!(peer.answer(close).is_ok());
    }
    peer.producer(1, "slow");
    peer.send(1, 0, b"x");
    peer.receipt(0);
}

#[test]
fn an_id_that_is_being_attached_is_not_attached_twice() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.metadata.hold();
    let first = peer.ask_producer(1, "slow");
    let second = peer.ask_producer(1, "slow");
    assert_eq!(peer.answer(second).unwrap_err().0, ServerError::ServiceNotReady);
    broker.metadata.release();
    assert!(peer.answer(first).is_ok());
}

#[test]
fn nothing_stays_attached_of_a_connection_that_ended_meanwhile() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    broker.metadata.hold();
    peer.ask_producer(1, "slow");
    peer.ask_consumer(1, "slow", "s");
    peer.sync();
    drop(peer);
    until("the connection is gone", || {
        let stats = broker.ask(async |handle| handle.stats(false).await).unwrap();
        stats.workers.iter().map(|worker| worker.connections).sum::<u64>() == 0
    });
    broker.metadata.release();
    until("the topic is loaded and nobody attached", || {
        let stats = broker.ask(async |handle| handle.stats(true).await).unwrap();
        stats.topics.iter().any(|(_, stats)| {
            stats.producers.is_empty() && stats.subscriptions.iter().any(|subscription| subscription.consumers.is_empty())
        })
    });
}

#[test]
fn an_attached_id_is_not_given_to_another_topic() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    let name = peer.producer(1, "one");
    peer.consumer(1, "one", "s");
    let elsewhere = peer.ask_producer(1, "two");
    assert_eq!(peer.answer(elsewhere).unwrap_err().0, ServerError::NotAllowedError);
    let elsewhere = peer.ask_consumer(1, "two", "s");
    assert_eq!(peer.answer(elsewhere).unwrap_err().0, ServerError::NotAllowedError);
    assert_eq!(peer.producer(1, "one"), name, "the same producer asked again is the same");
    peer.send(1, 0, b"x");
    peer.receipt(0);
    peer.flow(1, 1);
    assert_eq!(peer.message().1, "x");
    let two = broker.ask(async |handle| handle.topic_stats(topic("two")).await).unwrap();
    assert!(two.producers.is_empty());
}

/// The close of the topic left and the attach to the next one cross each other in every order that two workers allow.
#[test]
fn a_topic_that_lets_go_does_not_close_who_has_the_id_now() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    for round in 0..100 {
        peer.producer(1, &format!("left-{round}"));
        let handle = broker.handle();
        let left = topic(&format!("left-{round}"));
        let unload = std::thread::spawn(move || wait_for(handle.unload_topic(left)));
        let close = peer.close_producer(1);
        let next = peer.ask_producer(1, &format!("next-{round}"));
        assert!(peer.answer(close).is_ok());
        assert!(peer.answer(next).is_ok());
        unload.join().unwrap().unwrap();
        peer.send(1, round, b"x");
        peer.receipt(round);
        let close = peer.close_producer(1);
        assert!(peer.answer(close).is_ok());
    }
}

#[test]
fn sends_of_producers_that_the_broker_closed_do_not_cost_the_connection() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    for id in 0..200 {
        peer.producer(id, &format!("topic-{id}"));
    }
    for id in 0..200 {
        broker.ask(async move |handle| handle.unload_topic(topic(&format!("topic-{id}"))).await).unwrap();
    }
    for id in 0..200 {
        peer.hear_about(|frame| closed_by_broker(&frame.command, id).then_some(()));
    }
    for id in 0..200 {
        peer.send(id, 0, b"on its way");
    }
    peer.sync();
    peer.producer(0, "topic-0");
}

#[test]
fn a_producer_comes_back_under_its_id_as_soon_as_it_was_closed() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    for round in 0..20 {
        peer.producer(1, "moving");
        peer.send(1, round, b"x");
        peer.receipt(round);
        broker.ask(async |handle| handle.unload_topic(topic("moving")).await).unwrap();
        peer.hear_about(|frame| closed_by_broker(&frame.command, 1).then_some(()));
    }
}

#[test]
fn opens_wait_while_a_topic_is_let_go_of() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "moving");
    peer.consumer(1, "moving", "s");
    peer.send(1, 0, b"x");
    peer.receipt(0);
    peer.flow(1, 1);
    let (message, _) = peer.message();
    peer.ack(1, &message);
    // The cursor's state cannot be recorded: the topic hangs between here and gone.
    broker.metadata.hold();
    let handle = broker.handle();
    let unload = std::thread::spawn(move || wait_for(handle.unload_topic(topic("moving"))));
    peer.hear_about(|frame| closed_by_broker(&frame.command, 1).then_some(()));
    let mut other = broker.peer();
    let (producer, consumer) = (other.ask_producer(7, "moving"), other.ask_consumer(7, "moving", "s"));
    other.sync();
    broker.metadata.release();
    unload.join().unwrap().unwrap();
    assert!(other.answer(producer).is_ok());
    assert!(other.answer(consumer).is_ok());
    other.flow(7, 10);
    other.send(7, 1, b"y");
    other.receipt(1);
    assert_eq!(other.message().1, "y", "what was acked before the unload does not come again");
}

#[test]
fn a_connection_opens_no_more_than_it_may() {
    let broker = Broker::with(|settings| settings.max_clients_per_connection = 3);
    let mut peer = broker.peer();
    peer.producer(1, "a");
    peer.producer(2, "b");
    peer.consumer(1, "a", "s");
    for refused in [peer.ask_producer(3, "c"), peer.ask_consumer(2, "a", "s")] {
        let (error, message) = peer.answer(refused).unwrap_err();
        assert_eq!(error, ServerError::NotAllowedError);
        assert!(message.contains("maxProducersAndConsumersPerConnection"), "{message}");
    }
    let close = peer.close_producer(2);
    assert!(peer.answer(close).is_ok());
    peer.producer(3, "c");
}
