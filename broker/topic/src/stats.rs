//! Numbers that people and tools ask a topic for.

pub use crate::dispatch_rate::Stopped;
pub use crate::growth::{ENTRY_SIZES, WRITE_LATENCIES};

/// What one consumer did in a second of the last period; all 0 until one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsumerRates {
    /// Messages delivered.
    pub messages_out: f64,
    /// Their bytes.
    pub bytes_out: f64,
    /// Messages delivered again.
    pub messages_redelivered: f64,
    /// Messages acked.
    pub messages_acked: f64,
}

/// What one producer did in a second of the last period; all 0 until one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProducerRates {
    /// Messages published.
    pub messages_in: f64,
    /// Their bytes.
    pub bytes_in: f64,
}

/// What one subscription did in a second of the last period; all 0 until one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscriptionRates {
    /// Messages delivered.
    pub messages_out: f64,
    /// Their bytes.
    pub bytes_out: f64,
    /// Messages delivered again.
    pub messages_redelivered: f64,
    /// Entries left behind because they were too old.
    pub messages_expired: f64,
    /// Messages acked, by consumers that are there.
    pub messages_acked: f64,
    /// Messages of a non-persistent topic that no consumer took.
    pub messages_dropped: f64,
}

/// What one topic did in the last period; all 0 until one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopicRates {
    /// Messages published in a second.
    pub messages_in: f64,
    /// Their bytes.
    pub bytes_in: f64,
    /// Entries published in a second.
    pub entries_in: f64,
    /// Messages delivered in a second.
    pub messages_out: f64,
    /// Their bytes.
    pub bytes_out: f64,
    /// Entries delivered from the cache in a second.
    pub cache_hits: f64,
    /// Entries delivered after a read in a second.
    pub cache_misses: f64,
    /// Entries read from storage in a second.
    pub storage_reads: f64,
    /// Entries of the period by size: up to each of [`ENTRY_SIZES`], and larger ones.
    pub entry_sizes: [u64; 9],
    /// Their bytes.
    pub entry_size_sum: u64,
    /// Entries of the period by how long the write took that made them durable: up to each of [`WRITE_LATENCIES`], and longer.
    pub write_latencies: [u64; 10],
    /// Microseconds of them together.
    pub write_latency_sum_us: u64,
}

/// Numbers of one consumer.
#[derive(Clone, Debug, Default)]
pub struct ConsumerStats {
    /// The last period's rates.
    pub rates: ConsumerRates,
    /// Its name.
    pub name: String,
    /// Its id, as its connection chose it.
    pub id: u64,
    /// Messages it will still take; may be negative by part of a batch.
    pub available_permits: i64,
    /// Messages delivered and not acked.
    pub unacked_messages: u64,
    /// Whether it is held back by the unacked limit.
    pub blocked_on_unacked: bool,
    /// Messages delivered since it attached.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Messages delivered again since it attached.
    pub messages_redelivered: u64,
    /// Messages acked since it attached.
    pub messages_acked: u64,
    /// Its address.
    pub address: String,
    /// Its client's version.
    pub client_version: String,
    /// When it attached, milliseconds since the epoch.
    pub connected_since_ms: u64,
    /// Its last FLOW, milliseconds since the epoch.
    pub last_flow_ms: u64,
    /// Its properties.
    pub properties: Vec<(String, String)>,
    /// The subscription's type: `Exclusive`, `Shared`, `Failover`, `Key_Shared`.
    pub kind: &'static str,
    /// Entries in the subscription's backlog.
    pub backlog: u64,
}

/// Numbers of one producer.
#[derive(Clone, Debug, Default)]
pub struct ProducerStats {
    /// The last period's rates.
    pub rates: ProducerRates,
    /// How it shares the topic: `Shared`, `Exclusive`, `WaitForExclusive`, `ExclusiveWithFencing`.
    pub access_mode: &'static str,
    /// Its name.
    pub name: String,
    /// Its id, as its connection chose it.
    pub id: u64,
    /// Messages published since it attached.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Its address.
    pub address: String,
    /// Its client's version.
    pub client_version: String,
    /// When it attached, milliseconds since the epoch.
    pub connected_since_ms: u64,
    /// Its properties.
    pub properties: Vec<(String, String)>,
}

/// Numbers of one subscription.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionStats {
    /// The last period's rates.
    pub rates: SubscriptionRates,
    /// Its name.
    pub name: String,
    /// Its type: `Exclusive`, `Shared`, `Failover`, `Key_Shared`; empty while no consumer ever attached.
    pub kind: &'static str,
    /// Whether its cursor survives its consumers.
    pub durable: bool,
    /// Entries not acked.
    pub backlog: u64,
    /// Messages delivered and not acked.
    pub unacked_messages: u64,
    /// Whether it gets nothing more until some of them are acked.
    pub blocked_on_unacked: bool,
    /// Messages delivered since the topic was loaded.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Messages delivered again since the topic was loaded.
    pub messages_redelivered: u64,
    /// Entries whose time to be delivered has not come.
    pub delayed: u64,
    /// Entries left behind because they were too old, since the topic was loaded.
    pub messages_expired: u64,
    /// Messages of a non-persistent topic that no consumer took, since it was loaded.
    pub messages_dropped: u64,
    /// Bytes not acked, estimated within a ledger by its average entry.
    pub backlog_bytes: u64,
    /// How often it was sent nothing because a rate was spent.
    pub stopped: Stopped,
    /// Mark-delete position, `ledger:entry`.
    pub mark_delete: String,
    /// Read position, `ledger:entry`.
    pub read_position: String,
    /// Ranges acked beyond the mark-delete position.
    pub acked_ranges: u64,
    /// The name of the consumer that gets everything, where one does.
    pub active_consumer: Option<String>,
    /// Its consumers.
    pub consumers: Vec<ConsumerStats>,
    /// Cursor properties.
    pub properties: Vec<(String, String)>,
}

/// Numbers of the compaction of a topic.
#[derive(Clone, Debug, Default)]
pub struct CompactionStats {
    /// The compacted ledger: id, entries, bytes.
    pub ledger: Option<(i64, u64, u64)>,
    /// Up to where it is compacted, `ledger:entry`.
    pub horizon: Option<String>,
    /// Messages that the last compaction took out.
    pub last_removed: u64,
    /// How long it took, in milliseconds.
    pub last_duration_ms: u64,
    /// Compactions that worked, and those that failed, since the topic was loaded.
    pub succeeded: u64,
    /// See [`succeeded`](Self::succeeded).
    pub failed: u64,
    /// Messages that they took out.
    pub removed: u64,
    /// When one worked last, milliseconds since the epoch; 0 if none did since the topic was loaded.
    pub succeeded_at_ms: u64,
    /// When one failed last, milliseconds since the epoch; 0 if none did since the topic was loaded.
    pub failed_at_ms: u64,
}

/// Numbers of one topic.
#[derive(Clone, Debug, Default)]
pub struct TopicStats {
    /// The last period's rates.
    pub rates: TopicRates,
    /// Messages published since it was loaded.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Entries published since it was loaded.
    pub entries_in: u64,
    /// Messages delivered since it was loaded.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Bytes stored.
    pub storage_bytes: u64,
    /// Entries stored.
    pub storage_entries: u64,
    /// Last confirmed entry, `ledger:entry`.
    pub last_confirmed: String,
    /// Entries delivered from the cache, and entries delivered after a storage read.
    pub cache_hits: u64,
    /// See [`cache_hits`](Self::cache_hits).
    pub cache_misses: u64,
    /// Entries read from storage since it was loaded.
    pub storage_reads: u64,
    /// The ledgers: id, entries, bytes.
    pub ledgers: Vec<(i64, u64, u64)>,
    /// How often publishes began to wait because a rate was spent.
    pub publish_rate_limited: u64,
    /// Bytes that wait for the slowest durable subscription, estimated within a ledger by its average entry.
    pub backlog_bytes: u64,
    /// The limit on them, if there is one.
    pub quota_bytes: Option<u64>,
    /// The limit on the age of what waits, in milliseconds, if there is one.
    pub quota_age_ms: Option<u64>,
    /// When the oldest message that waits was published, milliseconds since the epoch; none if nothing waits, or without a limit on its age.
    pub oldest_backlog_ms: Option<u64>,
    /// The durable subscription that it waits for.
    pub slowest_subscription: Option<String>,
    /// How often the oldest messages were dropped because too much waited: too many bytes, for too long.
    pub quota_evictions: (u64, u64),
    /// Producers that wait to have the topic to themselves.
    pub waiting_producers: u32,
    /// Its producers.
    pub producers: Vec<ProducerStats>,
    /// Whether messages that are sent twice are recognised.
    pub deduplication: bool,
    /// The broker's own cursors, which are no subscriptions: that of deduplication, and that of compaction.
    pub own_cursors: Vec<SubscriptionStats>,
    /// How the topic is compacted.
    pub compaction: CompactionStats,
    /// What the chain of ledgers is doing, in Pulsar's words; empty for a topic that stores nothing.
    pub state: &'static str,
    /// What users noted on it.
    pub properties: Vec<(String, String)>,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionStats>,
}
