//! What one peer may hold: publishes that wait for the disk, bytes that wait to be sent.

use std::io::Write;
use std::time::{Duration, Instant};

use wire::{Command, ServerError};

use crate::harness::{Broker, Peer, send_frame, topic, until};

fn held(broker: &Broker) -> u64 {
    let stats = broker.ask(async |handle| handle.stats(false).await).unwrap();
    stats.workers.iter().map(|worker| worker.pending_publish_bytes).sum()
}

#[test]
fn a_message_larger_than_a_share_of_the_budget_is_taken_when_nothing_else_is_held() {
    let broker = Broker::with(|settings| settings.publish_buffer_bytes = 1024);
    let mut peer = broker.peer();
    peer.producer(1, "large");
    for sequence in 0..20 {
        peer.send(1, sequence, &[7; 100_000]);
    }
    for sequence in 0..20 {
        peer.receipt(sequence);
    }
    until("nothing is held", || held(&broker) == 0);
}

#[test]
fn a_budget_of_nothing_still_lets_one_message_through_after_the_other() {
    let broker = Broker::with(|settings| (settings.publish_buffer_bytes, settings.max_pending_publishes) = (0, 1));
    let mut peers: Vec<Peer> = (0..4).map(|_| broker.peer()).collect();
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.producer(1, &format!("many-{index}"));
    }
    for sequence in 0..50 {
        for peer in &mut peers {
            peer.send(1, sequence, b"x");
        }
    }
    for peer in &mut peers {
        (0..50).for_each(|sequence| drop(peer.receipt(sequence)));
    }
}

/// Nothing is answered while storage is stepped: whole frames wait in the buffers of connections that are not read.
#[test]
fn connections_that_wait_for_each_other_s_publishes_all_go_on() {
    let broker = Broker::with(|settings| (settings.publish_buffer_bytes, settings.max_pending_publishes) = (20_000, 4));
    let mut peers: Vec<Peer> = (0..8).map(|_| broker.peer()).collect();
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.producer(1, &format!("topic-{}", index % 3));
    }
    std::thread::scope(|scope| {
        for peer in &mut peers {
            scope.spawn(move || {
                let frames: Vec<u8> = (0..500).flat_map(|sequence| send_frame(1, sequence, &[1; 900])).collect();
                let mut writer = peer.stream.try_clone().unwrap();
                let writing = std::thread::spawn(move || writer.write_all(&frames).unwrap());
                (0..500).for_each(|sequence| drop(peer.receipt(sequence)));
                writing.join().unwrap();
            });
        }
    });
    until("nothing is held", || held(&broker) == 0);
}

/// The disk stands still: what is received is the room for blocks and what a read or two had brought by then. It goes on later.
#[test]
fn a_full_queue_of_the_log_stops_publishers_until_it_has_room() {
    const PUBLISHES: u64 = 8000;
    let broker = Broker::stepped(|settings| {
        (settings.log_queue_bytes, settings.publish_buffer_bytes, settings.max_pending_publishes) = (20_000, 64 << 20, 10_000);
    });
    let mut peers: Vec<Peer> = (0..4).map(|_| broker.peer()).collect();
    for (index, peer) in peers.iter_mut().enumerate() {
        broker.step_while(|| peer.producer(1, &format!("topic-{index}")));
    }
    let writers: Vec<_> = peers.iter().map(|peer| peer.stream.try_clone().unwrap()).collect();
    let writing: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            std::thread::spawn(move || {
                let frames: Vec<u8> = (0..PUBLISHES).flat_map(|sequence| send_frame(1, sequence, &[1; 900])).collect();
                writer.write_all(&frames).unwrap();
            })
        })
        .collect();
    until("the room is spent", || held(&broker) >= 20_000);
    // Each question is answered in a turn of every loop, which reads all that it may.
    let most = (0..200).map(|_| held(&broker)).max().unwrap();
    let sent = 4 * PUBLISHES * 900;
    assert!(most < sent / 2, "{most} bytes of {sent} were taken");
    broker.step_while(|| {
        for peer in &mut peers {
            (0..PUBLISHES).for_each(|sequence| drop(peer.receipt(sequence)));
        }
    });
    writing.into_iter().for_each(|writing| writing.join().unwrap());
    until("nothing is held", || held(&broker) == 0);
}

#[test]
fn every_way_a_publish_ends_gives_its_budget_back() {
    let broker = Broker::start();
    let mut peer = broker.peer();
    // Answered, and refused for its checksum.
    peer.producer(1, "a");
    peer.send(1, 0, b"good");
    peer.receipt(0);
    let mut bad = send_frame(1, 1, b"bad");
    *bad.last_mut().unwrap() ^= 1;
    peer.say_bytes(&bad);
    let error = peer.hear_about(|frame| match &frame.command {
        Command::SendError(error) => Some(error.error()),
        _ => None,
    });
    assert_eq!(error, ServerError::ChecksumError);
    peer.send(1, 2, b"good again");
    peer.receipt(2);
    // Refused by the topic.
    broker.store.set_health(ledger::StoreHealth::DiskNearlyFull("full".into()));
    peer.send(1, 3, b"refused or forgotten");
    peer.hear_about(|frame| matches!(frame.command, Command::SendError(_) | Command::CloseProducer(_)).then_some(()));
    broker.store.set_health(ledger::StoreHealth::Ready);
    // For a topic that is gone, from a connection that is gone.
    let mut other = broker.peer();
    other.producer(1, "b");
    broker.ask(async |handle| handle.unload_topic(topic("b")).await).unwrap();
    (0..10).for_each(|sequence| other.send(1, sequence, b"late"));
    other.producer(2, "c");
    (0..100).for_each(|sequence| other.send(2, sequence, &[0; 10_000]));
    drop(other);
    until("nothing is held", || held(&broker) == 0);
}

#[test]
fn a_peer_that_does_not_read_holds_no_more_than_its_buffer_and_one_step() {
    let broker = Broker::with(|settings| settings.out_buffer_bytes = 256 * 1024);
    let mut producer = broker.peer();
    producer.producer(1, "slow");
    let mut slow = broker.peer();
    slow.consumer(1, "slow", "s");
    slow.flow(1, 1_000_000);
    let mut most = 0;
    for sequence in 0..1_000 {
        producer.send(1, sequence, &[3; 64 * 1024]);
        producer.receipt(sequence);
        if sequence % 20 == 0 {
            let stats = broker.ask(async |handle| handle.stats(false).await).unwrap();
            most = most.max(stats.workers.iter().map(|worker| worker.out_buffer_bytes).max().unwrap_or(0));
        }
    }
    assert!(most > 0, "the peer was not slow enough to show anything");
    assert!(most < 3 << 20, "{most} bytes were held for a slow peer");
    // It gets everything, in order, once it reads.
    let mut last = None;
    for _ in 0..1_000 {
        let (message, _) = slow.message();
        let at = (message.message_id.ledger, message.message_id.entry);
        assert!(last < Some(at));
        last = Some(at);
    }
}

#[test]
fn a_consumer_that_attaches_to_a_full_connection_gets_its_messages_once_the_peer_reads() {
    let broker = Broker::with(|settings| settings.out_buffer_bytes = 64 * 1024);
    let mut producer = broker.peer();
    producer.producer(1, "a");
    producer.producer(2, "b");
    let mut slow = broker.peer();
    slow.consumer(1, "a", "s");
    slow.flow(1, 10_000);
    for sequence in 0..400 {
        producer.send(1, sequence, &[3; 64 * 1024]);
        producer.receipt(sequence);
    }
    producer.send(2, 0, b"for the second");
    producer.receipt(0);
    let second = slow.ask_consumer(2, "b", "s");
    slow.flow(2, 10);
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut first = 0;
    let mut subscribed = false;
    let mut flowed = false;
    loop {
        assert!(Instant::now() < deadline, "{first} messages, then nothing");
        match slow.hear() {
            Command::Success(success) if success.request_id == second => {
                subscribed = true;
                slow.flow(2, 10);
                flowed = true;
            }
            Command::Message(message) if message.consumer_id == 2 => break,
            Command::Message(_) => first += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(subscribed && flowed);
}

#[test]
fn a_peer_that_takes_nothing_at_all_is_let_go_of() {
    let broker = Broker::with(|settings| {
        settings.write_stall_timeout = Duration::from_secs(1);
        settings.out_buffer_bytes = 64 * 1024;
    });
    let mut producer = broker.peer();
    producer.producer(1, "slow");
    let mut slow = broker.peer();
    slow.consumer(1, "slow", "s");
    slow.flow(1, 1_000_000);
    for sequence in 0..400 {
        producer.send(1, sequence, &[3; 64 * 1024]);
        producer.receipt(sequence);
    }
    until("the consumer is gone", || {
        let stats = broker.ask(async |handle| handle.topic_stats(topic("slow")).await).unwrap();
        stats.subscriptions.iter().all(|subscription| subscription.consumers.is_empty())
    });
    producer.sync();
}

#[test]
fn questions_without_end_from_a_peer_that_reads_no_answers_are_not_read() {
    let broker = Broker::with(|settings| settings.out_buffer_bytes = 64 * 1024);
    let peer = broker.peer();
    let mut question = bytes::BytesMut::new();
    (0..1000).for_each(|_| Command::Ping.encode(&mut question));
    let mut stream = peer.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut said = 0_u64;
    while stream.write_all(&question).is_ok() {
        said += question.len() as u64;
        assert!(said < 1 << 30, "the broker reads on and on");
    }
    let stats = broker.ask(async |handle| handle.stats(false).await).unwrap();
    let most = stats.workers.iter().map(|worker| worker.out_buffer_bytes).max().unwrap_or(0);
    assert!(most < 1 << 20, "{most} bytes of answers wait");
}
