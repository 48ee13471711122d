//! What processes and the machine did while the window was measured.

use serde::{Deserialize, Serialize};

/// What one process used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessUse {
    /// What it is called in the report, such as `broker`.
    pub name: String,
    /// How old it was when the window began, in seconds.
    #[serde(default)]
    pub age_seconds: Option<f64>,
    /// CPU seconds that it had used by then.
    #[serde(default)]
    pub cpu_seconds_before: Option<f64>,
    /// Length of the part of the window that was watched.
    pub seconds: f64,
    /// CPU seconds in it, with threads that ended meanwhile.
    pub cpu_seconds: f64,
    /// Of those, in the kernel.
    pub system_seconds: f64,
    /// Resident memory, the mean of the samples.
    pub rss_mean: u64,
    /// The highest sample.
    pub rss_max: u64,
    /// How often threads went to sleep by themselves.
    pub voluntary_switches: u64,
    /// How often they were taken off a processor.
    pub involuntary_switches: u64,
    /// Bytes that it had written to storage, when the kernel tells.
    pub written_bytes: Option<u64>,
    /// Its threads, over some seconds inside the window.
    pub threads: Option<ThreadShares>,
    /// One point a second.
    pub timeline: Vec<ProcessPoint>,
}

/// A process over the second that ends at `second`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessPoint {
    /// The end of the interval.
    pub second: f64,
    /// CPU seconds per second.
    pub cores: f64,
    /// Resident memory at the end.
    pub rss: u64,
}

/// A thread with more than this share of a core is called busy.
pub const BUSY_SHARE: f64 = 0.05;

/// Where the CPU time went, thread by thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThreadShares {
    /// When sampling began.
    pub from: f64,
    /// For how long: 15 s, or the whole window when that is shorter.
    pub seconds: f64,
    /// I/O loops there are.
    pub loops: u64,
    /// Those that used more than 5 % of a core.
    pub busy_loops: u64,
    /// Every thread that used anything, the busiest first.
    pub threads: Vec<ThreadShare>,
}

/// One thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadShare {
    /// As the kernel knows it.
    pub name: String,
    /// What it is there for.
    pub kind: ThreadKind,
    /// Share of a core, 1 at most.
    pub share: f64,
    /// How often it went to sleep by itself, a second.
    pub voluntary_switches: f64,
    /// How often it was taken off a processor, a second.
    pub involuntary_switches: f64,
}

/// What a broker's thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadKind {
    /// Serves connections.
    Loop,
    /// Writes and syncs the log, or the storage client that stands in its place.
    LogWriter,
    /// Everything else of the broker: reads, control work, timers, collection of garbage.
    Helper,
}

/// The machine while the window was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostUse {
    /// Processors.
    pub processors: u64,
    /// Load average of one minute when the run began.
    pub load_before: f64,
    /// Busy processors on average, steal included.
    pub busy_cores: f64,
    /// Of those, neither broker nor load generator.
    pub other_cores: f64,
    /// Of those, taken by other guests of the same host.
    pub steal_cores: f64,
    /// Processors that waited for storage, on average.
    pub iowait_cores: f64,
    /// Why the figures may be off; empty on a quiet machine.
    pub noise: Vec<String>,
}

impl HostUse {
    /// Whether somebody else was at work.
    pub fn is_noisy(&self) -> bool {
        !self.noise.is_empty()
    }
}
