//! Peers that break the protocol lose their connection, learn why, and harm nobody else.

use std::io::Write;

use wire::{Command, NO_REQUEST};

use crate::harness::{Broker, Peer, connect, send_frame};

/// What the broker says before it closes.
fn last_words(peer: &mut Peer) -> String {
    match peer.until_closed().pop() {
        Some(Command::Error(error)) if error.request_id == NO_REQUEST => error.message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_over_the_limit_is_refused_by_its_size_alone() {
    let broker = Broker::start();
    let (mut peer, mut other) = (broker.peer(), broker.peer());
    peer.say_bytes(&(64_u32 << 20).to_be_bytes());
    assert!(last_words(&mut peer).contains("over the limit"));
    other.producer(1, "unharmed");
}

#[test]
fn a_command_of_a_later_protocol_is_passed_over() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    peer.say(Command::Unknown(4711));
    let request_id = peer.request();
    peer.say(wire::proto::CommandCloseProducer { producer_id: 7, request_id, ..Default::default() });
    assert!(matches!(peer.answer(request_id).unwrap(), Command::Success(_)));
}

#[test]
fn commands_out_of_turn_end_their_connection() {
    let broker = Broker::start();
    let mut early = broker.stranger();
    early.say(Command::Ping);
    assert!(last_words(&mut early).contains("before CONNECT"));
    let mut twice = broker.peer();
    twice.say(connect());
    assert!(last_words(&mut twice).contains("second CONNECT"));
    let mut unknown = broker.peer();
    unknown.say_bytes(&send_frame(9, 0, b"x"));
    assert!(last_words(&mut unknown).contains("unknown producer 9"));
}

#[test]
fn a_peer_that_goes_on_after_its_offence_is_not_listened_to() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    let mut bytes = bytes::BytesMut::new();
    connect_again(&mut bytes);
    (0..10_000).for_each(|_| Command::Ping.encode(&mut bytes));
    // It may be closed before all of it was written.
    let _ = peer.stream.write_all(&bytes);
    let heard = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| peer.until_closed())).unwrap_or_default();
    assert!(!heard.iter().any(|command| matches!(command, Command::Pong)));
}

fn connect_again(bytes: &mut bytes::BytesMut) {
    Command::from(connect()).encode(bytes);
}
