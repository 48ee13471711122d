//! Counters: plain integers in their owner, copied when somebody asks.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ledger::log::LogCounters;
use topic::stats::TopicStats;
use wire::TopicName;

use crate::period::WriteLatency;

/// Counters that no single worker owns.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    pub(crate) connections_refused: AtomicU64,
}

/// Counters of one worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Its index; the thread is named after it.
    pub worker: u16,
    /// Turns taken.
    pub turns: u64,
    /// Letters read.
    pub letters: u64,
    /// Letters sent to other workers.
    pub letters_sent: u64,
    /// Batches sent to other workers.
    pub batches_sent: u64,
    /// Blocks handed to the log.
    pub blocks: u64,
    /// Connections now: Pulsar and HTTP.
    pub connections: u64,
    /// Connections since the start.
    pub connections_total: u64,
    /// Connections closed because of what their peer sent.
    pub protocol_errors: u64,
    /// TLS handshakes that came to nothing.
    pub tls_failures: u64,
    /// Connections closed because their credentials were not good.
    pub authentication_failures: u64,
    /// Bytes of publishes waiting for the disk.
    pub pending_publish_bytes: u64,
    /// Bytes of publishes that wait because a rate is spent, with what each takes besides; they hold the budget for publishes, too.
    pub held_publish_bytes: u64,
    /// Bytes waiting to be sent to peers that do not take them.
    pub out_buffer_bytes: u64,
    /// Bytes in the entry cache.
    pub cache_bytes: u64,
    /// Loaded topics.
    pub topics: u64,
    /// Messages that its connections sent and that were taken on.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Messages given to its connections.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Times that the loop had nothing to do and went to sleep.
    pub sleeps: u64,
    /// CPU time of its thread.
    pub cpu: Duration,
    /// The share of the last period of statistics that its thread was running.
    pub busy: f64,
    /// How long writes of its topics took.
    pub writes: WriteLatency,
}

/// Numbers of a whole server.
#[derive(Clone, Debug, Default)]
pub struct ServerStats {
    /// By worker.
    pub workers: Vec<WorkerStats>,
    /// Loaded topics, sorted by name; empty when not asked for.
    pub topics: Vec<(TopicName, TopicStats)>,
    /// Connections refused because of a limit.
    pub connections_refused: u64,
    /// Whether publishes are taken, else why not.
    pub storage_problem: Option<String>,
    /// Counters of the log, if the store is one.
    pub log: Option<LogCounters>,
}
