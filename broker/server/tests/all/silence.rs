//! Peers that say nothing.

use std::time::Duration;

use wire::Command;

use crate::harness::{Broker, until};

#[test]
fn a_silent_peer_is_asked_and_then_let_go_of() {
    let broker = Broker::with(|settings| settings.keep_alive = Duration::from_secs(1));
    let mut peer = broker.peer();
    let heard = peer.until_closed();
    assert!(matches!(heard.as_slice(), [Command::Ping]), "{heard:?}");
}

#[test]
fn a_peer_that_answers_stays() {
    let broker = Broker::with(|settings| settings.keep_alive = Duration::from_secs(1));
    let mut peer = broker.peer();
    let mut silent = broker.peer();
    // As long as it takes to lose patience with a silent one; this one's PINGs are answered while it waits for a message.
    peer.producer(1, "t");
    peer.consumer(1, "t", "s");
    peer.flow(1, 1);
    let publisher = std::thread::spawn(move || silent.until_closed());
    let mut waits = 0;
    until("the silent one is gone", || {
        peer.sync();
        waits += 1;
        publisher.is_finished()
    });
    peer.send(1, 0, b"x");
    peer.receipt(0);
}

#[test]
fn who_does_not_introduce_himself_is_let_go_of() {
    let broker = Broker::with(|settings| settings.handshake_timeout = Duration::from_millis(200));
    let mut stranger = broker.stranger();
    assert!(stranger.until_closed().is_empty());
}
