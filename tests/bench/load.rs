//! Full speed: every producer keeps its window full, every consumer takes what it gets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use client::{Client, ConsumerOptions, Inbox, Item, Message, Options, Producer, ProducerOptions, Receipt, Receipts, TrySendError};
use geminga_tests::harness::Setup;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::cpu::{Usage, memory};

/// What to do.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Producers, each with its own connection
    #[arg(long, default_value_t = 50)]
    producers: usize,
    /// Messages each producer has on their way
    #[arg(long, default_value_t = 1000)]
    in_flight: usize,
    /// Consumers of one Shared subscription, each with its own connection
    #[arg(long, default_value_t = 4)]
    consumers: usize,
    /// Topics, over which producers are spread; each consumer is on all
    #[arg(long, default_value_t = 1)]
    topics: usize,
    /// Bytes per message, 20 at least
    #[arg(long, default_value_t = 128)]
    size: usize,
    /// Messages the broker may send ahead to each consumer
    #[arg(long, default_value_t = 1000)]
    receiver_queue: u32,
    /// Messages per batch; 1 is unbatched
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Seconds that are not measured
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,
    /// Seconds that are
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// Producer, sequence and time of sending stand in front of each message.
const HEADER: usize = 4 + 8 + 8;
const DRAIN: Duration = Duration::from_secs(60);

impl Load {
    pub(crate) async fn run(&self, settings: &[(String, String)]) -> anyhow::Result<(Value, bool)> {
        anyhow::ensure!(self.size >= HEADER, "--size must be {HEADER} at least");
        anyhow::ensure!(self.producers > 0 && self.topics > 0 && self.batch > 0, "--producers, --topics and --batch must be 1 at least");
        let broker = settings.iter().fold(Setup::default(), |setup, (key, value)| setup.set(key, value)).start();
        let clock = Clock(Instant::now());
        let receiving = Receiving::start(self, broker.url(), clock)?;
        let mut sending = Sending::attach(self, broker.url(), clock).await?;
        sending.fill()?;
        sending.go_on(Duration::from_secs_f64(self.warm_up)).await?;
        let (before, started) = (Usage::of(broker.pid())?, Instant::now());
        let delivered_before = receiving.tally.delivered.load(Relaxed);
        receiving.tally.is_measuring.store(true, Relaxed);
        sending.measured = Sent::new();
        sending.go_on(Duration::from_secs_f64(self.seconds)).await?;
        receiving.tally.is_measuring.store(false, Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        let delivered = receiving.tally.delivered.load(Relaxed) - delivered_before;
        let used = Usage::of(broker.pid())?.since(&before);
        let (published, publish) = (sending.measured.published, sending.measured.latency.clone());
        let memory = memory(broker.pid())?;
        sending.drain().await?;
        let (end_to_end, (distinct, duplicated)) = receiving.drain(sending.sent)?;
        let lost = sending.sent - distinct;
        let measured = Measured { seconds, published, delivered, publish, end_to_end };
        Ok((self.report(&measured, &used, memory, (sending.sent, lost, duplicated)), lost == 0))
    }

    fn report(&self, measured: &Measured, used: &Usage, memory: (u64, u64), total: (u64, u64, u64)) -> Value {
        let seconds = measured.seconds;
        let per_million = |time: Duration| rounded(time.as_secs_f64() / (measured.published as f64 / 1e6), 3);
        let micros = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile);
        let mut threads: Vec<_> = used.threads.iter().filter(|thread| thread.time > Duration::from_millis(1)).collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.time));
        json!({
            "set-up": format!(
                "{} producers x {} in flight, {} topics, {} Shared consumers, {} B, batches of {}",
                self.producers, self.in_flight, self.topics, self.consumers, self.size, self.batch
            ),
            "measured seconds": rounded(seconds, 2),
            "published/s": (measured.published as f64 / seconds).round(),
            "delivered/s": (measured.delivered as f64 / seconds).round(),
            "broker CPU s per million published": per_million(used.process),
            "broker cores busy": rounded(used.process.as_secs_f64() / seconds, 2),
            "publish latency us p50": micros(&measured.publish, 0.5),
            "publish latency us p99": micros(&measured.publish, 0.99),
            "publish latency us max": measured.publish.max(),
            "end-to-end latency us p50": micros(&measured.end_to_end, 0.5),
            "end-to-end latency us p99": micros(&measured.end_to_end, 0.99),
            "RSS MB": rounded(memory.0 as f64 / 1e6, 1),
            "RSS MB at most": rounded(memory.1 as f64 / 1e6, 1),
            "messages in all": total.0,
            "lost": total.1,
            "duplicated": total.2,
            "threads (name, share of a core, CPU s per million)": threads.iter().map(|thread| json!({
                "name": thread.name,
                "share": rounded(thread.time.as_secs_f64() / seconds, 3),
                "per million": per_million(thread.time),
            })).collect::<Vec<_>>(),
        })
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

struct Measured {
    seconds: f64,
    published: u64,
    delivered: u64,
    publish: Histogram<u64>,
    end_to_end: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("bounds that hdrhistogram takes")
}

/// Microseconds since the bench began, for both threads.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn new_client(url: &str) -> anyhow::Result<Client> {
    Ok(Client::new(url, Options::without_reconnect())?)
}

struct Sent {
    published: u64,
    latency: Histogram<u64>,
}

impl Sent {
    fn new() -> Self {
        Self { published: 0, latency: histogram() }
    }
}

/// The producers, on the calling thread.
struct Sending<'a> {
    plan: &'a Load,
    clock: Clock,
    producers: Vec<Producer>,
    receipts: Receipts,
    next: Vec<u64>,
    arena: BytesMut,
    under_way: usize,
    is_sending: bool,
    sent: u64,
    measured: Sent,
}

impl<'a> Sending<'a> {
    async fn attach(plan: &'a Load, url: &str, clock: Clock) -> anyhow::Result<Self> {
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
        let (next, measured) = (vec![0; plan.producers], Sent::new());
        Ok(Self { plan, clock, producers, receipts, next, arena: BytesMut::new(), under_way: 0, is_sending: true, sent: 0, measured })
    }

    /// Fills every window.
    fn fill(&mut self) -> anyhow::Result<()> {
        let now = self.clock.now();
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
        self.arena.put_u32(u32::try_from(producer).unwrap_or(u32::MAX));
        self.arena.put_u64(self.next[producer]);
        self.arena.put_u64(now);
        self.arena.put_bytes(b'x', self.plan.size - HEADER);
        self.next[producer] += 1;
        self.sent += 1;
        Message { payload: self.arena.split().freeze(), ..Message::default() }
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

    async fn go_on(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut receipts = Vec::with_capacity(4096);
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                () = self.receipts.next(&mut receipts) => self.settle(&mut receipts)?,
            }
        }
    }

    fn settle(&mut self, receipts: &mut Vec<Receipt>) -> anyhow::Result<()> {
        let now = self.clock.now();
        for receipt in receipts.drain(..) {
            receipt.outcome?;
            self.under_way -= 1;
            self.measured.published += self.plan.batch as u64;
            self.measured.latency.saturating_record((now - receipt.token).max(1));
            if self.is_sending {
                self.send(usize::try_from(receipt.producer)?, now)?;
            }
        }
        Ok(())
    }

    /// Sends nothing new and waits for the receipts under way.
    async fn drain(&mut self) -> anyhow::Result<()> {
        self.is_sending = false;
        let give_up = Instant::now() + DRAIN;
        while self.under_way > 0 {
            anyhow::ensure!(Instant::now() < give_up, "{} receipts never came", self.under_way);
            self.go_on(Duration::from_millis(10)).await?;
        }
        Ok(())
    }
}

fn topic(index: usize) -> String {
    format!("bench-{index}")
}

/// What the consumers' thread tells while it runs.
#[derive(Default)]
struct Tally {
    delivered: AtomicU64,
    distinct: AtomicU64,
    is_measuring: AtomicBool,
    is_over: AtomicBool,
}

/// The consumers, on a thread of their own: at full speed producers leave no time to others on theirs.
struct Receiving {
    tally: Arc<Tally>,
    thread: thread::JoinHandle<anyhow::Result<Histogram<u64>>>,
}

impl Receiving {
    /// Starts the thread and waits until every consumer has subscribed.
    fn start(plan: &Load, url: &str, clock: Clock) -> anyhow::Result<Self> {
        let tally = Arc::new(Tally::default());
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn({
            let (tally, url) = (tally.clone(), url.to_owned());
            let (consumers, topics, producers, size, receiver_queue) =
                (plan.consumers, plan.topics, plan.producers, plan.size, plan.receiver_queue);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let (inbox, mut attached) = (Inbox::new(), Vec::new());
                    for _ in 0..consumers {
                        let client = new_client(&url)?;
                        for at in 0..topics {
                            let options = ConsumerOptions { inbox: inbox.clone(), receiver_queue, ..ConsumerOptions::shared("bench") };
                            attached.push(client.consumer(&topic(at), options).await?);
                        }
                    }
                    ready.send(())?;
                    let mut receiver =
                        Receiver { clock, size, seen: vec![Vec::new(); producers], tally, end_to_end: histogram(), is_measuring: false };
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

    /// Waits until everything has come, and a little longer for what comes twice. Returns latencies, distinct messages and repetitions.
    fn drain(self, sent: u64) -> anyhow::Result<(Histogram<u64>, (u64, u64))> {
        let give_up = Instant::now() + DRAIN;
        while self.tally.distinct.load(Relaxed) < sent && Instant::now() < give_up && !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        self.tally.is_over.store(true, Relaxed);
        let Ok(latencies) = self.thread.join() else { anyhow::bail!("the consumers panicked") };
        let (delivered, distinct) = (self.tally.delivered.load(Relaxed), self.tally.distinct.load(Relaxed));
        Ok((latencies?, (distinct, delivered - distinct)))
    }
}

struct Receiver {
    clock: Clock,
    size: usize,
    /// A bit per message of each producer.
    seen: Vec<Vec<u64>>,
    tally: Arc<Tally>,
    end_to_end: Histogram<u64>,
    is_measuring: bool,
}

impl Receiver {
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
            distinct += u64::from(self.see(&message.payload, now)?);
        }
        self.tally.delivered.fetch_add(count, Relaxed);
        self.tally.distinct.fetch_add(distinct, Relaxed);
        Ok(())
    }

    /// Whether the message comes for the first time.
    fn see(&mut self, payload: &Bytes, now: u64) -> anyhow::Result<bool> {
        let number = |at: usize| payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let producer = payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
        let (Some(producer), Some(sequence), Some(sent)) = (producer, number(4), number(12)) else {
            anyhow::bail!("a message lacks its header")
        };
        anyhow::ensure!(payload.len() == self.size && producer < self.seen.len(), "a message came that was never sent");
        if self.is_measuring {
            self.end_to_end.saturating_record(now.saturating_sub(sent).max(1));
        }
        let (word, bit) = (usize::try_from(sequence / 64)?, 1 << (sequence % 64));
        let seen = &mut self.seen[producer];
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        let is_new = seen[word] & bit == 0;
        seen[word] |= bit;
        Ok(is_new)
    }
}
