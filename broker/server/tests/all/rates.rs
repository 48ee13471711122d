//! Rates and quotas as connections see them: what waits for a topic's rate keeps nothing else on its connection waiting.

use std::io::Write;
use std::time::Instant;

use geminga_server::{ServerSettings, WorkerStats};
use topic::{Quota, QuotaPolicy, Quotas, Rate};
use wire::{Command, ServerError};

use crate::harness::{Broker, send_frame, until};

fn limited(messages: u64, change: impl FnOnce(&mut ServerSettings)) -> Broker {
    Broker::with(|settings| {
        settings.topic.rates.publish.topic = Rate::per_second(messages, 0);
        change(settings);
    })
}

/// Bytes of publishes that wait for the disk or for a rate, and for a rate alone.
fn held(broker: &Broker) -> (u64, u64) {
    let stats = broker.ask(async |handle| handle.stats(false).await).unwrap();
    let sum = |of: fn(&WorkerStats) -> u64| stats.workers.iter().map(of).sum();
    (sum(|worker| worker.pending_publish_bytes), sum(|worker| worker.held_publish_bytes))
}

fn is_receipt(of: u64) -> impl Fn(&Command) -> bool {
    move |command| matches!(command, Command::SendReceipt(receipt) if receipt.producer_id == of)
}

#[test]
fn a_flooded_topic_does_not_hold_back_another_on_its_connection() {
    const RATE: u64 = 50;
    const FLOOD: u64 = 5_000;
    // Far fewer than the flood may wait for the disk: those that wait for the rate do not count.
    let broker = limited(RATE, |settings| (settings.max_pending_publishes, settings.held_publish_bytes) = (100, 4 << 20));
    let mut peer = broker.peer();
    peer.producer(1, "flooded");
    peer.producer(2, "steady");
    let began = Instant::now();
    let flood: Vec<u8> = (0..FLOOD).flat_map(|sequence| send_frame(1, sequence, b"flood")).collect();
    peer.say_bytes(&flood);
    let mut of_flooded = 0;
    for sequence in 0..RATE {
        peer.send(2, sequence, b"steady");
        loop {
            match peer.hear() {
                Command::SendReceipt(receipt) if receipt.producer_id == 2 => {
                    assert_eq!(receipt.sequence_id, sequence);
                    break;
                }
                Command::SendReceipt(receipt) => {
                    assert_eq!(receipt.sequence_id, of_flooded, "in order");
                    of_flooded += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    peer.sync();
    let most = RATE + RATE * (began.elapsed().as_millis() as u64 + 1) / 1_000 + 1;
    assert!((RATE..=most).contains(&of_flooded), "{of_flooded} of {most} at most");
    assert!(held(&broker).1 > 0);
    let stats = broker.ask(async |handle| handle.topic_stats(crate::harness::topic("flooded")).await).unwrap();
    assert_eq!(stats.publish_rate_limited, 1);
}

#[test]
fn a_connection_is_not_read_beyond_what_may_be_held_of_it_and_goes_on_later() {
    const PUBLISHES: u64 = 4_000;
    const MOST_HELD: usize = 30_000;
    let broker = limited(2_000, |settings| (settings.max_pending_publishes, settings.held_publish_bytes) = (50, MOST_HELD));
    let mut peer = broker.peer();
    peer.producer(1, "flooded");
    let frames: Vec<u8> = (0..PUBLISHES).flat_map(|sequence| send_frame(1, sequence, &[7; 100])).collect();
    let mut writer = peer.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&frames).unwrap());
    for sequence in 0..PUBLISHES {
        let receipt = peer.receipt(sequence);
        assert_eq!(receipt.producer_id, 1);
        if sequence % 200 == 0 {
            let (_, held) = held(&broker);
            assert!(held <= MOST_HELD as u64 + 50 * 300, "{held} bytes are held");
        }
    }
    writing.join().unwrap();
    until("nothing is held", || held(&broker) == (0, 0));
}

#[test]
fn what_is_held_goes_with_its_connection() {
    let broker = limited(10, |settings| settings.held_publish_bytes = 1 << 20);
    let mut peer = broker.peer();
    peer.producer(1, "flooded");
    for sequence in 0..500 {
        peer.send(1, sequence, b"flood");
    }
    peer.sync();
    until("all is held", || held(&broker).1 > 490 * 128);
    drop(peer);
    until("nothing is held", || held(&broker) == (0, 0));
    let stats = broker.ask(async |handle| handle.topic_stats(crate::harness::topic("flooded")).await).unwrap();
    assert!(stats.messages_in < 500);
}

#[test]
fn a_full_backlog_closes_producers_and_turns_them_away_until_it_is_drained() {
    for (policy, wanted) in [
        (QuotaPolicy::ProducerRequestHold, ServerError::ProducerBlockedQuotaExceededError),
        (QuotaPolicy::ProducerException, ServerError::ProducerBlockedQuotaExceededException),
    ] {
        let broker = Broker::with(|settings| {
            settings.topic.quota = Quotas { size: Some(Quota { limit: 1_024, policy }), age: None, check_ms: 1_000 };
        });
        let mut peer = broker.peer();
        peer.consumer(9, "full", "s");
        peer.producer(1, "full");
        peer.send(1, 0, &[0; 1_024]);
        peer.receipt(0);
        let request = peer.ask_producer(2, "full");
        let (error, message) = peer.answer(request).unwrap_err();
        assert_eq!(error, wanted);
        assert!(message.contains("backlog quota exceeded"), "{message}");
        let closed = peer.hear_about(|frame| match &frame.command {
            Command::CloseProducer(close) => Some(close.producer_id),
            _ => None,
        });
        assert_eq!(closed, 1);
        assert!(!peer.has_aside(is_receipt(1)));
        peer.flow(9, 10);
        let (message, _) = peer.message();
        peer.ack(9, &message);
        peer.producer(3, "full");
    }
}
