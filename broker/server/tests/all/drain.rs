//! Stopping in order.

use wire::{Command, ServerError};

use crate::harness::{Broker, until};

#[test]
fn what_was_acked_does_not_come_again_after_a_drain() {
    let mut broker = Broker::start();
    let mut peer = broker.peer();
    peer.producer(1, "kept");
    peer.consumer(1, "kept", "s");
    peer.flow(1, 100);
    for sequence in 0..10 {
        peer.send(1, sequence, sequence.to_string().as_bytes());
    }
    let mut messages: Vec<_> = (0..10).map(|_| peer.message()).collect();
    messages.retain(|(_, text)| text[0] % 2 == 0);
    for (message, _) in &messages {
        peer.ack(1, message);
    }
    assert!(broker.drain());
    let again = Broker::on(broker.store.clone(), broker.metadata.clone(), |_| ());
    let mut peer = again.peer();
    peer.consumer(1, "kept", "s");
    peer.flow(1, 100);
    for odd in [1, 3, 5, 7, 9] {
        assert_eq!(peer.message().1, odd.to_string());
    }
}

#[test]
fn clients_are_told_of_a_drain_and_a_load_that_ends_after_it_began_is_refused() {
    let mut broker = Broker::with(|settings| settings.control_threads = 3);
    let mut peer = broker.peer();
    peer.producer(1, "loaded");
    peer.consumer(1, "loaded", "s");
    peer.flow(1, 1);
    peer.send(1, 0, b"x");
    let (message, _) = peer.message();
    broker.metadata.hold();
    let loading = peer.ask_producer(2, "loading");
    until("the load waits for its answer", || broker.metadata.waiting() == 1);
    // The cursor that changes now cannot be recorded, so that the drain goes on until told.
    peer.ack(1, &message);
    let server = broker.server();
    let draining = std::thread::spawn(move || server.drain());
    peer.hear_about(|frame| matches!(&frame.command, Command::CloseProducer(close) if close.producer_id == 1).then_some(()));
    let late = peer.ask_producer(3, "late");
    assert_eq!(peer.answer(late).unwrap_err().0, ServerError::ServiceNotReady);
    broker.metadata.release_one();
    let (error, message) = peer.answer(loading).unwrap_err();
    assert_eq!(error, ServerError::ServiceNotReady, "{message}");
    broker.metadata.release();
    assert!(draining.join().unwrap(), "everything was let go of in time");
}

#[test]
fn a_drain_that_takes_too_long_ends_all_the_same() {
    let mut broker = Broker::with(|settings| settings.shutdown_timeout = std::time::Duration::from_millis(200));
    let mut peer = broker.peer();
    peer.producer(1, "stuck");
    peer.consumer(1, "stuck", "s");
    peer.flow(1, 1);
    peer.send(1, 0, b"x");
    let (message, _) = peer.message();
    peer.ack(1, &message);
    broker.metadata.hold();
    assert!(!broker.drain());
}
