//! The consumers, on a thread of their own: at full speed producers leave no time to others on theirs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use client::{ConsumerOptions, Inbox, Item};
use hdrhistogram::Histogram;

use super::{Clock, DRAIN, Kind, Load, histogram, new_client, topic};

/// What the consumers' thread tells while it runs.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) delivered: AtomicU64,
    distinct: AtomicU64,
    out_of_order: AtomicU64,
    pub(super) is_measuring: AtomicBool,
    is_over: AtomicBool,
}

/// Everything that came.
pub(super) struct Received {
    pub(super) end_to_end: Histogram<u64>,
    pub(super) distinct: u64,
    pub(super) repeated: u64,
    pub(super) out_of_order: u64,
}

pub(super) struct Receiving {
    pub(super) tally: Arc<Tally>,
    thread: thread::JoinHandle<anyhow::Result<Histogram<u64>>>,
}

impl Receiving {
    /// Starts the thread and waits until every consumer has subscribed.
    pub(super) fn start(plan: &Load, url: &str, clock: Clock) -> anyhow::Result<Self> {
        let tally = Arc::new(Tally::default());
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn({
            let (tally, url, plan) = (tally.clone(), url.to_owned(), plan.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let (inbox, mut attached) = (Inbox::new(), Vec::new());
                    for (subscription, _) in (0..plan.subscriptions).flat_map(|s| (0..plan.consumers).map(move |c| (s, c))) {
                        let client = new_client(&url)?;
                        for at in 0..plan.topics {
                            attached.push(client.consumer(&topic(at), options(&plan, subscription, &inbox)).await?);
                        }
                    }
                    ready.send(())?;
                    let mut receiver = Receiver::new(&plan, clock, tally);
                    receiver.run(&inbox).await?;
                    anyhow::Ok(receiver.end_to_end)
                })
            }
        });
        match is_ready.recv() {
            Ok(()) => Ok(Self { tally, thread }),
            // The thread has ended without a word; its result says why.
            Err(_) => match thread.join() {
                Ok(result) => Err(result.err().unwrap_or_else(|| anyhow::anyhow!("the consumers ended before they began"))),
                Err(_) => anyhow::bail!("the consumers panicked"),
            },
        }
    }

    /// Waits until everything has come, and a little longer for what comes twice.
    pub(super) fn drain(self, expected: u64) -> anyhow::Result<Received> {
        let give_up = Instant::now() + DRAIN;
        while self.tally.distinct.load(Relaxed) < expected && Instant::now() < give_up && !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        self.tally.is_over.store(true, Relaxed);
        let Ok(end_to_end) = self.thread.join() else { anyhow::bail!("the consumers panicked") };
        let (delivered, distinct) = (self.tally.delivered.load(Relaxed), self.tally.distinct.load(Relaxed));
        let out_of_order = self.tally.out_of_order.load(Relaxed);
        Ok(Received { end_to_end: end_to_end?, distinct, repeated: delivered - distinct, out_of_order })
    }
}

fn options(plan: &Load, subscription: usize, inbox: &Inbox) -> ConsumerOptions {
    let kind = match plan.kind {
        Kind::Exclusive => client::SubscriptionType::Exclusive,
        Kind::Shared => client::SubscriptionType::Shared,
        Kind::Failover => client::SubscriptionType::Failover,
        Kind::KeyShared => client::SubscriptionType::KeyShared,
    };
    ConsumerOptions {
        kind,
        inbox: inbox.clone(),
        tag: subscription as u64,
        receiver_queue: plan.receiver_queue,
        ..ConsumerOptions::new(format!("bench-{subscription}"))
    }
}

struct Receiver {
    clock: Clock,
    size: usize,
    producers: usize,
    own_keys: u64,
    is_ordered: bool,
    /// A bit per message of each producer, by subscription.
    seen: Vec<Vec<u64>>,
    /// The newest sequence of each key of each producer, by subscription.
    newest: Vec<u64>,
    tally: Arc<Tally>,
    end_to_end: Histogram<u64>,
    is_measuring: bool,
}

impl Receiver {
    fn new(plan: &Load, clock: Clock, tally: Arc<Tally>) -> Self {
        let roads = plan.producers * plan.subscriptions;
        // Without keys a producer's messages are one key's to a subscription that keeps the order of all.
        let own_keys = plan.own_keys().max(1);
        let is_ordered = match plan.kind {
            Kind::Exclusive | Kind::Failover => true,
            Kind::KeyShared => plan.keys > 0,
            Kind::Shared => false,
        };
        Self {
            clock,
            size: plan.size,
            producers: plan.producers,
            own_keys,
            is_ordered,
            seen: vec![Vec::new(); roads],
            newest: if is_ordered { vec![0; roads * usize::try_from(own_keys).unwrap_or(1)] } else { Vec::new() },
            tally,
            end_to_end: histogram(),
            is_measuring: false,
        }
    }

    async fn run(&mut self, inbox: &Inbox) -> anyhow::Result<()> {
        let mut items = Vec::with_capacity(4096);
        while !self.tally.is_over.load(Relaxed) {
            let more = inbox.next_many(&mut items, 4096);
            if tokio::time::timeout(Duration::from_millis(50), more).await.is_ok() {
                self.note(&mut items)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, items: &mut Vec<Item>) -> anyhow::Result<()> {
        let now = self.clock.now();
        self.is_measuring = self.tally.is_measuring.load(Relaxed);
        let (count, mut distinct) = (items.len() as u64, 0);
        for item in items.drain(..) {
            let message = match item {
                Item::Message(message) => message,
                Item::Ended { error, .. } => return Err(error.into()),
            };
            message.ack();
            distinct += u64::from(self.see(usize::try_from(message.consumer())?, &message.payload, now)?);
        }
        self.tally.delivered.fetch_add(count, Relaxed);
        self.tally.distinct.fetch_add(distinct, Relaxed);
        Ok(())
    }

    /// Whether the message comes to the subscription for the first time.
    fn see(&mut self, subscription: usize, payload: &Bytes, now: u64) -> anyhow::Result<bool> {
        let number = |at: usize| payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let producer = payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
        let (Some(producer), Some(sequence), Some(sent)) = (producer, number(4), number(12)) else {
            anyhow::bail!("a message lacks its header")
        };
        anyhow::ensure!(payload.len() == self.size && producer < self.producers, "a message came that was never sent");
        if self.is_measuring {
            self.end_to_end.saturating_record(now.saturating_sub(sent).max(1));
        }
        let road = subscription * self.producers + producer;
        let (word, bit) = (usize::try_from(sequence / 64)?, 1 << (sequence % 64));
        let seen = &mut self.seen[road];
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        let is_new = seen[word] & bit == 0;
        seen[word] |= bit;
        if self.is_ordered && is_new {
            let newest = &mut self.newest[road * usize::try_from(self.own_keys)? + usize::try_from(sequence % self.own_keys)?];
            if sequence < *newest {
                self.tally.out_of_order.fetch_add(1, Relaxed);
            }
            *newest = sequence.max(*newest);
        }
        Ok(is_new)
    }
}
