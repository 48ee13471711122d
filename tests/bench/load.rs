//! Full speed: every producer keeps its window full, every consumer takes what it gets.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use client::{
    Client, Consumer, ConsumerOptions, Inbox, Item, Message, Options, Producer, ProducerOptions, Receipt, Receipts, TrySendError,
};
use geminga_tests::harness::{Broker, Setup};
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
        let mut run = Run::attach(self, &broker).await?;
        run.fill()?;
        run.go_on(Duration::from_secs_f64(self.warm_up)).await?;
        let before = (Usage::of(broker.pid())?, run.begin_measuring());
        run.go_on(Duration::from_secs_f64(self.seconds)).await?;
        let used = Usage::of(broker.pid())?.since(&before.0);
        let seconds = before.1.elapsed().as_secs_f64();
        let measured = run.measured.clone();
        let (memory_now, memory_peak) = memory(broker.pid())?;
        run.drain().await?;
        let (lost, duplicated) = (run.sent - run.distinct, run.duplicated);
        let report = self.report(&measured, seconds, &used, (memory_now, memory_peak), (run.sent, lost, duplicated));
        Ok((report, lost == 0))
    }

    fn report(&self, measured: &Measured, seconds: f64, used: &Usage, memory: (u64, u64), total: (u64, u64, u64)) -> Value {
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

#[derive(Clone)]
struct Measured {
    published: u64,
    delivered: u64,
    publish: Histogram<u64>,
    end_to_end: Histogram<u64>,
}

impl Measured {
    fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, 600_000_000, 3).expect("bounds that hdrhistogram takes");
        Self { published: 0, delivered: 0, publish: histogram(), end_to_end: histogram() }
    }
}

struct Run<'a> {
    plan: &'a Load,
    producers: Vec<Producer>,
    /// Held so that they go on receiving.
    _consumers: Vec<Consumer>,
    receipts: Receipts,
    inbox: Inbox,
    start: Instant,
    next: Vec<u64>,
    /// A bit per message of each producer.
    seen: Vec<Vec<u64>>,
    arena: BytesMut,
    under_way: usize,
    is_sending: bool,
    sent: u64,
    distinct: u64,
    duplicated: u64,
    measured: Measured,
}

impl<'a> Run<'a> {
    async fn attach(plan: &'a Load, broker: &Broker) -> anyhow::Result<Self> {
        let (receipts, inbox) = (Receipts::new(), Inbox::new());
        let new_client = || Client::new(broker.url(), Options::without_reconnect());
        let mut consumers = Vec::new();
        for _ in 0..plan.consumers {
            let client = new_client()?;
            for topic in 0..plan.topics {
                let options = ConsumerOptions { inbox: inbox.clone(), ..ConsumerOptions::shared("bench") };
                consumers.push(client.consumer(&format!("bench-{topic}"), options).await?);
            }
        }
        let mut producers = Vec::new();
        for producer in 0..plan.producers {
            let options = ProducerOptions {
                receipts: receipts.clone(),
                tag: producer as u64,
                max_pending: plan.in_flight.div_ceil(plan.batch),
                ..ProducerOptions::default()
            };
            producers.push(new_client()?.producer(&format!("bench-{}", producer % plan.topics), options).await?);
        }
        Ok(Self {
            plan,
            producers,
            _consumers: consumers,
            receipts,
            inbox,
            start: Instant::now(),
            next: vec![0; plan.producers],
            seen: vec![Vec::new(); plan.producers],
            arena: BytesMut::new(),
            under_way: 0,
            is_sending: true,
            sent: 0,
            distinct: 0,
            duplicated: 0,
            measured: Measured::new(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn begin_measuring(&mut self) -> Instant {
        self.measured = Measured::new();
        Instant::now()
    }

    /// Fills every window.
    fn fill(&mut self) -> anyhow::Result<()> {
        let now = self.now();
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
        let (mut receipts, mut items) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                () = self.receipts.next(&mut receipts) => self.settle(&mut receipts)?,
                () = self.inbox.next_many(&mut items, 4096) => self.note(&mut items)?,
            }
        }
    }

    fn settle(&mut self, receipts: &mut Vec<Receipt>) -> anyhow::Result<()> {
        let now = self.now();
        for receipt in receipts.drain(..) {
            receipt.outcome?;
            self.under_way -= 1;
            self.measured.published += self.plan.batch as u64;
            self.measured.publish.saturating_record((now - receipt.token).max(1));
            if self.is_sending {
                self.send(usize::try_from(receipt.producer)?, now)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, items: &mut Vec<Item>) -> anyhow::Result<()> {
        let now = self.now();
        for item in items.drain(..) {
            let message = match item {
                Item::Message(message) => message,
                Item::Ended { error, .. } => return Err(error.into()),
            };
            message.ack();
            self.see(&message.payload, now)?;
        }
        Ok(())
    }

    fn see(&mut self, payload: &Bytes, now: u64) -> anyhow::Result<()> {
        let number = |at: usize| payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let producer = payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
        let (Some(producer), Some(sequence), Some(sent)) = (producer, number(4), number(12)) else {
            anyhow::bail!("a message lacks its header")
        };
        anyhow::ensure!(payload.len() == self.plan.size && sequence < self.next[producer], "a message came that was never sent");
        let (word, bit) = (usize::try_from(sequence / 64)?, 1 << (sequence % 64));
        let seen = &mut self.seen[producer];
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        self.measured.delivered += 1;
        self.measured.end_to_end.saturating_record((now - sent).max(1));
        if seen[word] & bit == 0 {
            seen[word] |= bit;
            self.distinct += 1;
        } else {
            self.duplicated += 1;
        }
        Ok(())
    }

    /// Sends nothing new and takes what is still under way.
    async fn drain(&mut self) -> anyhow::Result<()> {
        self.is_sending = false;
        let give_up = Instant::now() + DRAIN;
        while (self.under_way > 0 || self.distinct < self.sent) && Instant::now() < give_up {
            self.go_on(Duration::from_millis(100)).await?;
        }
        // What comes twice comes now.
        self.go_on(Duration::from_millis(300)).await
    }
}
