//! Full speed or a given rate: producers send, every consumer takes what it gets.

mod receiving;
mod report;
mod sending;
mod syscalls;

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use client::{Client, Options};
use geminga_tests::harness::Setup;
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::cpu::{Usage, memory};
use receiving::Receiving;
use report::Measured;
use sending::{Sending, Sent};
use syscalls::Syscalls;

/// What to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// Producers, each with its own connection
    #[arg(long, default_value_t = 50)]
    producers: usize,
    /// Messages each producer has on their way
    #[arg(long, default_value_t = 1000)]
    in_flight: usize,
    /// Consumers of each subscription, each with its own connection
    #[arg(long, default_value_t = 4)]
    consumers: usize,
    /// Subscriptions, of which each gets everything
    #[arg(long, default_value_t = 1)]
    subscriptions: usize,
    /// How the consumers of a subscription share it
    #[arg(long = "type", value_enum, default_value_t = Kind::Shared)]
    kind: Kind,
    /// Keys in all, spread over the producers; 0 sends without. Key_Shared and one producer per key: the order of each is checked
    #[arg(long, default_value_t = 0)]
    keys: usize,
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
    /// Messages per second in all, evenly spaced; latencies count from when a message was due. 0 sends as fast as receipts come
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Count the broker's system calls with `perf`
    #[arg(long)]
    syscalls: bool,
    /// Seconds that are not measured
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,
    /// Seconds that are
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// A type of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Exclusive,
    Shared,
    Failover,
    #[value(name = "key_shared")]
    KeyShared,
}

/// Producer, sequence and time of sending stand in front of each message.
const HEADER: usize = 4 + 8 + 8;
const DRAIN: Duration = Duration::from_secs(60);

impl Load {
    pub(crate) async fn run(&self, settings: &[(String, String)]) -> anyhow::Result<(Value, bool)> {
        anyhow::ensure!(self.size >= HEADER, "--size must be {HEADER} at least");
        anyhow::ensure!(self.producers > 0 && self.topics > 0 && self.batch > 0, "--producers, --topics and --batch must be 1 at least");
        anyhow::ensure!(self.kind != Kind::Exclusive || self.consumers <= 1, "--type exclusive takes one consumer: add --consumers 1");
        anyhow::ensure!(self.batch == 1 || self.rate == 0, "--rate sends single messages: leave out --batch");
        let broker = settings.iter().fold(Setup::default(), |setup, (key, value)| setup.set(key, value)).start();
        let clock = Clock(Instant::now());
        let receiving = Receiving::start(self, broker.url(), clock)?;
        let mut sending = Sending::attach(self, broker.url(), clock).await?;
        sending.start()?;
        sending.go_on(Duration::from_secs_f64(self.warm_up)).await?;
        let syscalls = self.syscalls.then(|| Syscalls::count(broker.pid(), self.seconds)).transpose()?;
        let (before, started) = (Usage::of(broker.pid())?, Instant::now());
        let delivered_before = receiving.tally.delivered.load(Relaxed);
        receiving.tally.is_measuring.store(true, Relaxed);
        sending.measured = Sent::new();
        sending.go_on(Duration::from_secs_f64(self.seconds)).await?;
        receiving.tally.is_measuring.store(false, Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        let delivered = receiving.tally.delivered.load(Relaxed) - delivered_before;
        let used = Usage::of(broker.pid())?.since(&before);
        let syscalls = syscalls.map(Syscalls::counted).transpose()?;
        let (published, publish) = (sending.measured.published, sending.measured.latency.clone());
        let memory = memory(broker.pid())?;
        sending.drain().await?;
        let sent = sending.sent;
        let received = receiving.drain(sent * self.subscriptions as u64)?;
        let lost = sent * self.subscriptions as u64 - received.distinct;
        let is_valid = lost == 0 && received.out_of_order == 0;
        let measured = Measured { seconds, published, delivered, publish, used, memory, syscalls, sent, lost, received };
        Ok((measured.report(self), is_valid))
    }

    /// Keys of each producer.
    fn own_keys(&self) -> u64 {
        if self.keys == 0 { 0 } else { (self.keys / self.producers).max(1) as u64 }
    }
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

fn topic(index: usize) -> String {
    format!("bench-{index}")
}
