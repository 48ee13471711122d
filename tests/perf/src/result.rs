//! The record of a run: all that a report or a comparison is made from, as it is kept in `result.json`.
//!
//! Seconds without another word count from the start of the measured window; a warm-up that was recorded lies below zero.
//! Latencies are microseconds, sizes are bytes.

mod correctness;
mod latency;
mod process;
mod settings;
mod steadiness;

use std::{fs, path::Path};

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub use self::{
    correctness::{ApplicationCheck, Correctness, Verdict},
    latency::{LatencyPoint, LatencySummary, PERCENTILES, new_histogram},
    process::{BUSY_SHARE, HostUse, ProcessPoint, ProcessUse, ThreadKind, ThreadShare, ThreadShares},
    settings::{BrokerUnderTest, Disk, Durability, Machine, Settings},
};

/// The layout of the record; a reader refuses one that it does not know.
pub const FORMAT: u32 = 1;

/// Everything that one run found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// When the run began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// What was asked for, of whom, where.
    pub settings: Settings,
    /// Whether the figures below may be believed.
    pub correctness: Correctness,
    /// Messages per second.
    pub throughput: Throughput,
    /// How long a message took.
    pub latency: Latencies,
    /// Messages that were published and not yet received, by application.
    pub backlog: Backlog,
    /// Of applications that joined late or fell behind; empty when none did.
    #[serde(default)]
    pub catch_up: Vec<CatchUp>,
    /// What the broker's processes used; empty when they are not on this machine.
    #[serde(default)]
    pub brokers: Vec<ProcessUse>,
    /// What this program used.
    pub generator: Option<ProcessUse>,
    /// Of the broker's entry cache, when the broker tells.
    pub cache: Option<CacheUse>,
    /// What else went on while the window was measured.
    pub host: Option<HostUse>,
    /// Of scenarios that restart the broker under its gateways.
    pub reconnect: Option<ReconnectStorm>,
    /// What the reader should know and no figure says.
    #[serde(default)]
    pub remarks: Vec<String>,
}

impl RunResult {
    /// Reads the record in a run's directory.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("result.json");
        let text =
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read: give the directory that a run wrote", path.display()))?;
        let value: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        anyhow::ensure!(
            format == Some(u64::from(FORMAT)),
            "{} has format {}, this program reads {FORMAT}: use the program that wrote it, or run again",
            path.display(),
            format.map_or_else(|| "none".to_owned(), |format| format.to_string()),
        );
        serde_json::from_value(value).with_context(|| format!("{} is not the record of a run", path.display()))
    }

    /// CPU seconds of all broker processes in the window.
    pub fn broker_cpu_seconds(&self) -> Option<f64> {
        (!self.brokers.is_empty()).then(|| self.brokers.iter().map(|process| process.cpu_seconds).sum())
    }

    /// CPU seconds of all broker processes per million messages published in the window.
    pub fn broker_cpu_per_million(&self) -> Option<f64> {
        let published = self.throughput.window.published;
        (published > 0).then(|| self.broker_cpu_seconds().map(|seconds| seconds / (published as f64 / 1e6)))?
    }

    /// CPU seconds of all broker processes per gigabyte (10^9) of payload published in the window.
    pub fn broker_cpu_per_gigabyte(&self) -> Option<f64> {
        let bytes = self.throughput.window.published_bytes;
        (bytes > 0).then(|| self.broker_cpu_seconds().map(|seconds| seconds / (bytes as f64 / 1e9)))?
    }
}

/// Messages per second, in the window and over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// The measured window.
    pub window: Window,
    /// One point a second, with the warm-up when it was recorded and the time after the window while backlogs drain.
    pub timeline: Vec<ThroughputPoint>,
}

/// The measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// Receipts that arrived inside it.
    pub published: u64,
    /// Payload of those.
    pub published_bytes: u64,
    /// First deliveries inside it, summed over applications.
    pub delivered: u64,
    /// What the scenario offered a second; none when it does not limit the rate.
    pub offered_per_second: Option<f64>,
    /// How many applications each message goes to.
    pub applications: u64,
}

impl Window {
    /// Receipts a second.
    pub fn published_per_second(&self) -> f64 {
        per_second(self.published, self.seconds)
    }

    /// First deliveries a second, summed over applications.
    pub fn delivered_per_second(&self) -> f64 {
        per_second(self.delivered, self.seconds)
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// What happened in the second that ends at `second`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThroughputPoint {
    /// The end of the interval.
    pub second: f64,
    /// Receipts a second.
    pub published: f64,
    /// First deliveries a second, summed over applications.
    pub delivered: f64,
}

/// How long a message took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// From the moment a message was due (or sent, when the rate is not limited) to its receipt.
    pub publish: LatencySummary,
    /// From that moment to the listener, over all applications.
    pub end_to_end: LatencySummary,
    /// End to end, for each application by name, when there are several.
    #[serde(default)]
    pub applications: Vec<(String, LatencySummary)>,
}

/// Messages published and not yet received.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Backlog {
    /// In the order of each point's numbers.
    pub applications: Vec<String>,
    /// About one a second.
    pub timeline: Vec<BacklogPoint>,
}

/// The backlogs at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BacklogPoint {
    /// When.
    pub second: f64,
    /// One number for each application.
    pub messages: Vec<u64>,
}

/// When an application that was behind had caught up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CatchUp {
    /// Its name.
    pub application: String,
    /// When it joined, in seconds since the run's start.
    pub joined: f64,
    /// What was waiting for it then.
    pub backlog_at_join: u64,
    /// When it had caught up, in seconds since the run's start; none when it never did while messages were published.
    pub since_run_start: Option<f64>,
    /// The same moment, in seconds since it joined.
    pub since_join: Option<f64>,
}

/// The broker's entry cache and what had to be read from storage, in the window unless the source says otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CacheUse {
    /// Where the figures come from, such as the names of metrics.
    pub source: String,
    /// Entries that the cache had.
    pub hits: u64,
    /// Entries that it had not.
    pub misses: u64,
    /// Reads from storage.
    pub storage_reads: Option<u64>,
    /// Entries in those.
    pub storage_entries: Option<u64>,
    /// Bytes in those.
    pub storage_bytes: Option<u64>,
}

impl CacheUse {
    /// Share of entries that the cache had; none when nothing was asked of it.
    pub fn hit_ratio(&self) -> Option<f64> {
        let asked = self.hits + self.misses;
        (asked > 0).then(|| self.hits as f64 / asked as f64)
    }
}

/// All gateways lost their connections at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReconnectStorm {
    /// How many there are.
    pub gateways: u64,
    /// When the broker was stopped.
    pub stopped: f64,
    /// When it took connections again.
    pub ready: f64,
    /// Seconds from `ready` until every gateway had a connection and its producers; none when some never had.
    pub all_attached: Option<f64>,
    /// Seconds from `ready` until every gateway had a receipt again; none when some never had.
    pub all_publish: Option<f64>,
    /// The same for each gateway, sorted, for the chart.
    pub publish_again: Vec<f64>,
    /// Messages that were acknowledged and never delivered.
    pub acknowledged_lost: u64,
}
