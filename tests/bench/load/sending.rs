//! The producers, on the calling thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::{BufMut, BytesMut};
use client::{Key, Message, Producer, ProducerOptions, Receipt, Receipts, TrySendError};
use hdrhistogram::Histogram;
use tokio::sync::Notify;

use super::{Clock, DRAIN, HEADER, Load, histogram, new_client, topic};

/// How often a paced run looks whether messages are due.
const TICK: Duration = Duration::from_micros(100);

pub(super) struct Sent {
    pub(super) published: u64,
    pub(super) latency: Histogram<u64>,
}

impl Sent {
    pub(super) fn new() -> Self {
        Self { published: 0, latency: histogram() }
    }
}

pub(super) struct Sending<'a> {
    plan: &'a Load,
    clock: Clock,
    producers: Vec<Producer>,
    receipts: Receipts,
    /// The next sequence of each producer.
    next: Vec<u64>,
    keys: Vec<Vec<Key>>,
    arena: BytesMut,
    under_way: usize,
    is_sending: bool,
    pace: Option<Pace>,
    pub(super) sent: u64,
    pub(super) measured: Sent,
}

/// When messages are due.
struct Pace {
    metronome: Arc<Metronome>,
    began: u64,
    /// Messages so far, of which the next is due at its share of a second.
    count: u64,
    /// Messages each producer has on their way.
    open: Vec<usize>,
}

/// Wakes the sending thread more finely than its runtime's timer can.
#[derive(Default)]
struct Metronome {
    tick: Notify,
    is_over: AtomicBool,
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.metronome.is_over.store(true, Relaxed);
    }
}

impl<'a> Sending<'a> {
    pub(super) async fn attach(plan: &'a Load, url: &str, clock: Clock) -> anyhow::Result<Self> {
        let receipts = Receipts::new();
        let mut producers = Vec::new();
        for producer in 0..plan.producers {
            let options = ProducerOptions {
                receipts: receipts.clone(),
                tag: producer as u64,
                max_pending: plan.in_flight.div_ceil(plan.batch),
                ..ProducerOptions::default()
            };
            producers.push(new_client(url)?.producer(&topic(producer % plan.topics), options).await?);
        }
        let key = |producer: usize, key: u64| Key::binary(&(producer as u64 * plan.own_keys() + key).to_be_bytes());
        let keys = (0..plan.producers).map(|producer| (0..plan.own_keys()).map(|own| key(producer, own)).collect()).collect();
        let (next, measured, arena) = (vec![0; plan.producers], Sent::new(), BytesMut::new());
        Ok(Self { plan, clock, producers, receipts, next, keys, arena, under_way: 0, is_sending: true, pace: None, sent: 0, measured })
    }

    /// Fills every window, or starts the clock of a given rate.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let now = self.clock.now();
        if self.plan.rate > 0 {
            let metronome = Arc::new(Metronome::default());
            let ticking = metronome.clone();
            thread::spawn(move || {
                while !ticking.is_over.load(Relaxed) {
                    thread::sleep(TICK);
                    ticking.tick.notify_one();
                }
            });
            self.pace = Some(Pace { metronome, began: now, count: 0, open: vec![0; self.plan.producers] });
            return Ok(());
        }
        for producer in 0..self.producers.len() {
            for _ in 0..self.plan.in_flight.div_ceil(self.plan.batch) {
                self.send(producer, now)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, producer: usize, now: u64) -> Message {
        if self.arena.capacity() < self.plan.size {
            self.arena = BytesMut::with_capacity(self.plan.size.max(64 * 1024));
        }
        let sequence = self.next[producer];
        self.arena.put_u32(u32::try_from(producer).unwrap_or(u32::MAX));
        self.arena.put_u64(sequence);
        self.arena.put_u64(now);
        self.arena.put_bytes(b'x', self.plan.size - HEADER);
        self.next[producer] += 1;
        self.sent += 1;
        let key = usize::try_from(sequence.checked_rem(self.plan.own_keys()).unwrap_or(0)).unwrap_or(0);
        Message { payload: self.arena.split().freeze(), key: self.keys[producer].get(key).cloned(), ..Message::default() }
    }

    fn send(&mut self, producer: usize, now: u64) -> anyhow::Result<()> {
        self.under_way += 1;
        if self.plan.batch > 1 {
            let batch = (0..self.plan.batch).map(|_| self.message(producer, now)).collect();
            self.producers[producer].try_send_batch(batch, now)?;
            return Ok(());
        }
        let message = self.message(producer, now);
        match self.producers[producer].try_send(message, now) {
            Ok(_) => Ok(()),
            Err(TrySendError::Failed(error)) => Err(error.into()),
            Err(TrySendError::Full(_)) => anyhow::bail!("a receipt came and there is no room for the next message"),
        }
    }

    pub(super) async fn go_on(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut receipts = Vec::with_capacity(4096);
        let metronome = self.pace.as_ref().map(|pace| pace.metronome.clone());
        let tick = async || match &metronome {
            Some(metronome) => metronome.tick.notified().await,
            None => std::future::pending().await,
        };
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                () = self.receipts.next(&mut receipts) => self.settle(&mut receipts)?,
                () = tick() => self.send_due()?,
            }
        }
    }

    /// Sends what is due. A producer whose window is full holds up the rest, which stays due since then.
    fn send_due(&mut self) -> anyhow::Result<()> {
        let Some(mut pace) = self.pace.take() else { return Ok(()) };
        let now = self.clock.now();
        while self.is_sending {
            let due = pace.began + pace.count * 1_000_000 / self.plan.rate;
            let producer = usize::try_from(pace.count)? % self.producers.len();
            if due > now || pace.open[producer] >= self.plan.in_flight {
                break;
            }
            pace.open[producer] += 1;
            pace.count += 1;
            self.send(producer, due)?;
        }
        self.pace = Some(pace);
        Ok(())
    }

    fn settle(&mut self, receipts: &mut Vec<Receipt>) -> anyhow::Result<()> {
        let now = self.clock.now();
        for receipt in receipts.drain(..) {
            receipt.outcome?;
            self.under_way -= 1;
            self.measured.published += self.plan.batch as u64;
            self.measured.latency.saturating_record((now - receipt.token).max(1));
            let producer = usize::try_from(receipt.producer)?;
            match &mut self.pace {
                Some(pace) => pace.open[producer] -= 1,
                None if self.is_sending => self.send(producer, now)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Sends nothing new and waits for the receipts under way.
    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        self.is_sending = false;
        let give_up = Instant::now() + DRAIN;
        while self.under_way > 0 {
            anyhow::ensure!(Instant::now() < give_up, "{} receipts never came", self.under_way);
            self.go_on(Duration::from_millis(10)).await?;
        }
        Ok(())
    }
}
