//! Key_Shared subscriptions: each key to one consumer at a time, in order, and no consumer holds back another's keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use client::{Client, Consumer, ConsumerOptions, Message, Producer};
use geminga_tests::harness::{Broker, Setup, eventually, soon};
use wire::{KeySharedMode, ServerError, SubscriptionType, proto};

use crate::talk::{by_hand, consume, next, plain, produce, settle, text, texts};

fn key_shared(subscription: &str) -> ConsumerOptions {
    ConsumerOptions { kind: SubscriptionType::KeyShared, ..ConsumerOptions::new(subscription) }
}

fn sticky(subscription: &str, ranges: &[(i32, i32)]) -> ConsumerOptions {
    let hash_ranges = ranges.iter().map(|(start, end)| proto::IntRange { start: *start, end: *end }).collect();
    let meta = proto::KeySharedMeta { key_shared_mode: KeySharedMode::Sticky.into(), hash_ranges, ..Default::default() };
    ConsumerOptions { key_shared: Some(meta), ..key_shared(subscription) }
}

async fn two(client: &Client) -> (Consumer, Consumer) {
    (consume(client, "t", key_shared("s")).await, consume(client, "t", key_shared("s")).await)
}

/// Publishes messages with keys, `key/text` each, and waits until they are stored.
async fn publish_keys(producer: &Producer, messages: impl IntoIterator<Item = (String, String)>) {
    let mut under_way = Vec::new();
    for (key, text) in messages {
        under_way.push(soon("room", producer.enqueue(Message::new(format!("{key}/{text}")).key(key))).await.expect("taken"));
    }
    for sending in under_way {
        soon("a receipt", sending).await.expect("stored");
    }
}

/// So many messages over so many keys, numbered in the order of publishing.
fn spread(count: usize, keys: usize) -> impl Iterator<Item = (String, String)> {
    (0..count).map(move |n| (format!("key-{}", n % keys), n.to_string()))
}

fn key_of(text: &str) -> &str {
    text.split_once('/').expect("key and text").0
}

fn number_of(text: &str) -> usize {
    text.split_once('/').expect("key and text").1.parse().expect("a number")
}

/// What each consumer got, by key; acked.
#[derive(Default)]
struct Seen {
    got: BTreeMap<String, Vec<usize>>,
    count: usize,
}

impl Seen {
    fn take(&mut self, consumer: &Consumer) {
        while let Some(message) = consumer.try_recv() {
            let text = text(&message);
            self.got.entry(key_of(&text).to_owned()).or_default().push(number_of(&text));
            self.count += 1;
            consumer.ack(&message);
        }
    }

    fn keys(&self) -> BTreeSet<&String> {
        self.got.keys().collect()
    }

    fn is_in_order(&self) -> bool {
        self.got.values().all(|numbers| numbers.is_sorted())
    }
}

async fn all_seen(consumers: &[&Consumer], count: usize) -> Vec<Seen> {
    let mut seen: Vec<Seen> = consumers.iter().map(|_| Seen::default()).collect();
    eventually("all messages", || {
        consumers.iter().zip(&mut seen).for_each(|(consumer, seen)| seen.take(consumer));
        let is_complete = seen.iter().map(|seen| seen.count).sum::<usize>() >= count;
        async move { is_complete }
    })
    .await;
    seen
}

#[tokio::test]
async fn every_key_goes_to_one_of_the_consumers_and_stays_in_order() {
    every_key_goes_to_one(&Broker::start(), 750..=1_250).await;
}

#[tokio::test]
async fn on_a_ring_every_key_goes_to_one_of_the_consumers_and_stays_in_order() {
    let broker = Setup::default().set("subscriptionKeySharedUseConsistentHashing", true).start();
    every_key_goes_to_one(&broker, 500..=1_500).await;
}

async fn every_key_goes_to_one(broker: &Broker, share: RangeInclusive<usize>) {
    let client = plain(broker).await;
    let producer = produce(&client, "t").await;
    let consumers = [consume(&client, "t", key_shared("s")).await, consume(&client, "t", key_shared("s")).await];
    let third = consume(&client, "t", key_shared("s")).await;
    publish_keys(&producer, spread(3_000, 300)).await;
    let seen = all_seen(&[&consumers[0], &consumers[1], &third], 3_000).await;
    assert_eq!(seen.iter().map(|seen| seen.count).sum::<usize>(), 3_000, "each message comes once");
    for (one, two) in [(0, 1), (1, 2), (0, 2)] {
        assert!(seen[one].keys().is_disjoint(&seen[two].keys()), "a key went to two consumers");
    }
    assert!(seen.iter().all(Seen::is_in_order));
    let counts: Vec<usize> = seen.iter().map(|seen| seen.count).collect();
    assert!(counts.iter().all(|count| share.contains(count)), "{counts:?}");
}

#[tokio::test]
async fn few_keys_reach_both_of_two_consumers() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let (one, two) = two(&client).await;
    publish_keys(&producer, ["A", "B"].map(|key| (key.to_owned(), "0".to_owned()))).await;
    let seen = all_seen(&[&one, &two], 2).await;
    assert_eq!((seen[0].count, seen[1].count), (1, 1), "A and B go to different ones");
    publish_keys(&producer, (0..3).map(|n| (format!("key-shared-{n}"), n.to_string()))).await;
    let seen = all_seen(&[&one, &two], 3).await;
    assert!(seen.iter().all(|seen| seen.count > 0), "three keys reach both");
}

#[tokio::test]
async fn a_paused_consumer_does_not_hold_back_the_keys_of_others() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let active = consume(&client, "t", key_shared("s")).await;
    // It never sends a FLOW.
    let paused = consume(&client, "t", by_hand(key_shared("s"))).await;
    publish_keys(&producer, spread(4_000, 200)).await;
    let mut seen = Seen::default();
    let mut last = usize::MAX;
    eventually("all that the active consumer can get", || {
        seen.take(&active);
        let is_over = seen.count > 1_000 && seen.count == last;
        last = seen.count;
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            is_over
        }
    })
    .await;
    assert!(seen.is_in_order());
    assert_eq!(paused.waiting(), 0);
    // What is left belongs to the paused one, and comes as soon as it asks.
    paused.flow(4_000);
    let rest = 4_000 - seen.count;
    let late = all_seen(&[&paused], rest).await.remove(0);
    assert!(late.is_in_order());
    assert!(late.keys().is_disjoint(&seen.keys()));
    assert_eq!(seen.keys().len() + late.keys().len(), 200);
}

#[tokio::test]
async fn what_a_leaving_consumer_held_goes_on_without_a_new_publish() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let staying = consume(&client, "t", key_shared("s")).await;
    let leaving = consume(&client, "t", by_hand(key_shared("s"))).await;
    leaving.flow(20);
    publish_keys(&producer, spread(1_000, 50)).await;
    let mut first = Vec::new();
    for _ in 0..20 {
        first.push(text(&next(&leaving).await));
    }
    drop(leaving);
    let seen = all_seen(&[&staying], 1_000).await.remove(0);
    assert!(seen.is_in_order(), "what the other held comes before what waited behind it");
    assert_eq!(seen.keys().len(), 50);
}

#[tokio::test]
async fn one_hot_key_in_batches_with_slow_acks_comes_in_order_to_one_consumer() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let (one, two) = two(&client).await;
    for batch in 0..20 {
        let messages = (0..10).map(|n| Message::new(format!("hot/{}", batch * 10 + n)).key("hot")).collect();
        soon("a receipt", producer.send_batch(messages)).await.expect("stored");
    }
    publish_keys(&producer, spread(100, 20)).await;
    let started = std::time::Instant::now();
    let (mut hot, mut others, mut unacked) = (Vec::new(), 0, Vec::new());
    while hot.len() < 200 || others < 100 {
        assert!(started.elapsed() < Duration::from_secs(20), "{} of the hot key, {others} others", hot.len());
        for (place, consumer) in [&one, &two].into_iter().enumerate() {
            while let Some(message) = consumer.try_recv() {
                let text = text(&message);
                if key_of(&text) == "hot" {
                    hot.push((place, number_of(&text)));
                } else {
                    others += 1;
                }
                unacked.push((std::time::Instant::now(), place, message));
            }
        }
        for (_, place, message) in unacked.extract_if(.., |(since, ..)| since.elapsed() > Duration::from_millis(100)) {
            [&one, &two][place].ack(&message);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let owner = hot[0].0;
    assert_eq!(hot, (0..200).map(|n| (owner, n)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_key_moves_to_a_new_consumer_when_the_old_one_has_acked_what_it_holds() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let old = consume(&client, "t", key_shared("s")).await;
    publish_keys(&producer, spread(20, 20)).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(next(&old).await);
    }
    let new = consume(&client, "t", key_shared("s")).await;
    publish_keys(&producer, spread(20, 20)).await;
    settle(&new).await;
    assert_eq!(new.waiting(), 0, "every key has an entry with the old consumer");
    let stays = old.waiting();
    assert!((1..20).contains(&stays), "about half of the keys stay: {stays}");
    held.iter().for_each(|message| old.ack(message));
    eventually("the other half", || async { new.waiting() + stays == 20 }).await;
    assert_eq!(old.waiting(), stays);
}

#[tokio::test]
async fn out_of_order_consumers_do_not_wait_for_each_other() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let meta = proto::KeySharedMeta {
        key_shared_mode: KeySharedMode::AutoSplit.into(),
        allow_out_of_order_delivery: Some(true),
        ..Default::default()
    };
    let loose = || ConsumerOptions { key_shared: Some(meta.clone()), ..key_shared("s") };
    let old = consume(&client, "t", loose()).await;
    publish_keys(&producer, spread(20, 20)).await;
    texts(&old, 20).await;
    let new = consume(&client, "t", loose()).await;
    publish_keys(&producer, spread(20, 20)).await;
    eventually("the second round", || async { old.waiting() + new.waiting() == 20 }).await;
    assert!(new.waiting() > 0);
}

#[tokio::test]
async fn what_is_given_back_comes_before_what_follows_of_the_same_key() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", by_hand(key_shared("s"))).await;
    publish_keys(&producer, spread(6, 1)).await;
    consumer.flow(3);
    for _ in 0..3 {
        next(&consumer).await;
    }
    consumer.redeliver_unacknowledged();
    consumer.flow(6);
    let mut got = Vec::new();
    for _ in 0..6 {
        let message = next(&consumer).await;
        got.push((number_of(&text(&message)), message.redelivery_count));
    }
    assert_eq!(got, [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (5, 0)]);
}

#[tokio::test]
async fn sticky_consumers_get_their_ranges_and_what_nobody_asked_for_waits() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let low = consume(&client, "t", sticky("s", &[(0, 20_000)])).await;
    let middle = consume(&client, "t", sticky("s", &[(20_001, 30_000), (30_001, 40_000)])).await;
    publish_keys(&producer, spread(600, 300)).await;
    let slot = |n: usize| wire::hash::key_slot(format!("key-{n}").as_bytes());
    let expected = |range: RangeInclusive<u16>| (0..300).filter(|n| range.contains(&slot(*n))).count() * 2;
    let (in_low, in_middle) = (expected(0..=20_000), expected(20_001..=40_000));
    let seen = all_seen(&[&low, &middle], in_low + in_middle).await;
    assert_eq!((seen[0].count, seen[1].count), (in_low, in_middle));
    let high = consume(&client, "t", sticky("s", &[(40_001, 65_535)])).await;
    let late = all_seen(&[&high], 600 - in_low - in_middle).await.remove(0);
    assert!(late.is_in_order());
}

#[tokio::test]
async fn ranges_and_modes_that_do_not_fit_are_refused() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let refused = async |options: ConsumerOptions| match soon("an answer", client.consumer("t", options)).await {
        Err(refused) => refused.code(),
        Ok(_) => panic!("let in"),
    };
    let assign = Some(ServerError::ConsumerAssignError);
    for ranges in [&[][..], &[(0, 10), (10, 20)], &[(20, 10)], &[(0, 65_536)], &[(-1, 5)]] {
        assert_eq!(refused(sticky("s", ranges)).await, assign, "{ranges:?}");
    }
    let _present = consume(&client, "t", sticky("s", &[(0, 100)])).await;
    assert_eq!(refused(sticky("s", &[(100, 200)])).await, assign);
    assert_eq!(refused(key_shared("s")).await, assign);
    assert_eq!(refused(ConsumerOptions::shared("s")).await, Some(ServerError::ConsumerBusy));
    let _other = consume(&client, "t", sticky("s", &[(101, 200)])).await;
}
