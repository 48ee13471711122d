//! Topics in `/metrics`: one by one, or by namespace, never both, since boards add them up.

use std::collections::BTreeMap;

use server::ServerStats;
use server::stats::{ConsumerStats, ProducerStats, SubscriptionStats, TopicRates, TopicStats};

use super::{FamilyOf, Turn, as_number, count};
use crate::exposition::{Exposition, Family, label};
use crate::json::{age_seconds, now_ms};
use crate::options::MetricsOptions;

/// The numbers of a topic or of all topics of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) topics: u64,
    pub(super) producers: u64,
    pub(super) consumers: u64,
    pub(super) subscriptions: u64,
    pub(super) messages_in: u64,
    pub(super) bytes_in: u64,
    messages_out: u64,
    bytes_out: u64,
    pub(super) storage: u64,
    pub(super) backlog: u64,
    backlog_bytes: u64,
    backlog_age: Option<u64>,
    quota_bytes: Option<u64>,
    quota_seconds: Option<u64>,
    evictions: (u64, u64),
    rate_limited: u64,
    cache_hits: u64,
    cache_misses: u64,
    storage_reads: u64,
    acks: f64,
    compactions: u64,
    compactions_failed: u64,
    compacted_out: u64,
    compaction_ms: u64,
    compacted_entries: u64,
    compacted_bytes: u64,
    pub(super) rates: TopicRates,
}

impl Numbers {
    fn add(&mut self, stats: &TopicStats) {
        self.topics += 1;
        self.producers += count(&stats.producers);
        self.consumers += stats.subscriptions.iter().map(|s| count(&s.consumers)).sum::<u64>();
        self.subscriptions += count(&stats.subscriptions);
        self.messages_in += stats.messages_in;
        self.bytes_in += stats.bytes_in;
        self.messages_out += stats.messages_out;
        self.bytes_out += stats.bytes_out;
        self.storage += stats.storage_bytes;
        self.backlog += stats.subscriptions.iter().map(|s| s.backlog).sum::<u64>();
        self.backlog_bytes += stats.backlog_bytes;
        self.backlog_age = self.backlog_age.max(stats.oldest_backlog_ms.map(|published| age_seconds(published, now_ms())));
        self.quota_bytes = self.quota_bytes.max(stats.quota_bytes);
        self.quota_seconds = self.quota_seconds.max(stats.quota_age_ms.map(|limit| limit / 1_000));
        self.evictions = (self.evictions.0 + stats.quota_evictions.0, self.evictions.1 + stats.quota_evictions.1);
        self.rate_limited += stats.publish_rate_limited;
        self.cache_hits += stats.cache_hits;
        self.cache_misses += stats.cache_misses;
        self.storage_reads += stats.storage_reads;
        self.acks += stats.subscriptions.iter().map(|s| s.rates.messages_acked).sum::<f64>();
        self.compactions += stats.compaction.succeeded;
        self.compactions_failed += stats.compaction.failed;
        self.compacted_out += stats.compaction.removed;
        self.compaction_ms += stats.compaction.last_duration_ms;
        let (_, entries, bytes) = stats.compaction.ledger.unwrap_or_default();
        self.compacted_entries += entries;
        self.compacted_bytes += bytes;
        self.add_rates(&stats.rates);
    }

    fn add_rates(&mut self, more: &TopicRates) {
        let rates = &mut self.rates;
        rates.messages_in += more.messages_in;
        rates.bytes_in += more.bytes_in;
        rates.entries_in += more.entries_in;
        rates.messages_out += more.messages_out;
        rates.bytes_out += more.bytes_out;
        rates.cache_hits += more.cache_hits;
        rates.cache_misses += more.cache_misses;
        rates.storage_reads += more.storage_reads;
        rates.entry_size_sum += more.entry_size_sum;
        rates.write_latency_sum_us += more.write_latency_sum_us;
        rates.entry_sizes.iter_mut().zip(more.entry_sizes).for_each(|(sum, more)| *sum += more);
        rates.write_latencies.iter_mut().zip(more.write_latencies).for_each(|(sum, more)| *sum += more);
    }

    pub(super) fn of<'a>(stats: impl IntoIterator<Item = &'a TopicStats>) -> Self {
        let mut numbers = Self::default();
        stats.into_iter().for_each(|stats| numbers.add(stats));
        numbers
    }

    fn average_size(&self) -> f64 {
        if self.rates.messages_in > 0.0 { self.rates.bytes_in / self.rates.messages_in } else { 0.0 }
    }
}

/// Told for each topic, or for each namespace.
const TOPIC_FAMILIES: &[FamilyOf<Numbers>] = &[
    (Family::gauge("pulsar_subscriptions_count", "Subscriptions."), |n| as_number(n.subscriptions)),
    (Family::gauge("pulsar_producers_count", "Connected producers."), |n| as_number(n.producers)),
    (Family::gauge("pulsar_consumers_count", "Connected consumers."), |n| as_number(n.consumers)),
    (Family::gauge("pulsar_rate_in", "Messages published in a second, over the last period."), |n| n.rates.messages_in),
    (Family::gauge("pulsar_rate_out", "Messages delivered in a second, over the last period."), |n| n.rates.messages_out),
    (Family::gauge("pulsar_throughput_in", "Bytes published in a second, over the last period."), |n| n.rates.bytes_in),
    (Family::gauge("pulsar_throughput_out", "Bytes delivered in a second, over the last period."), |n| n.rates.bytes_out),
    (Family::gauge("pulsar_average_msg_size", "Bytes of a message, over the last period."), Numbers::average_size),
    (Family::gauge("pulsar_consumer_msg_ack_rate", "Messages acknowledged in a second, over the last period."), |n| n.acks),
    (Family::counter("pulsar_in_messages_total", "Messages published since the topic was loaded."), |n| as_number(n.messages_in)),
    (Family::counter("pulsar_in_bytes_total", "Bytes published since the topic was loaded."), |n| as_number(n.bytes_in)),
    (Family::gauge("pulsar_storage_size", "Bytes stored."), |n| as_number(n.storage)),
    (Family::gauge("pulsar_storage_logical_size", "The same; there is one copy."), |n| as_number(n.storage)),
    (Family::gauge("pulsar_storage_offloaded_size", "Bytes kept elsewhere; there is no such place."), |_| 0.0),
    (Family::gauge("pulsar_storage_write_rate", "Entries written in a second, over the last period."), |n| n.rates.entries_in),
    (Family::gauge("pulsar_storage_read_rate", "Entries read from storage in a second, over the last period."), |n| n.rates.storage_reads),
    (Family::gauge("pulsar_storage_read_cache_misses_rate", "Entries delivered after a read, in a second."), |n| n.rates.cache_misses),
    (Family::gauge("pulsar_msg_backlog", "Entries not acknowledged, over all subscriptions."), |n| as_number(n.backlog)),
    (Family::gauge("pulsar_storage_backlog_size", "Bytes of the slowest subscription's backlog."), |n| as_number(n.backlog_bytes)),
    (Family::gauge("pulsar_storage_backlog_age_seconds", "Age of the oldest message that waits; -1 without a limit on it."), |n| {
        or_minus_one(n.backlog_age)
    }),
    (Family::gauge("pulsar_storage_backlog_quota_limit", "Bytes that may wait; -1 without a limit."), |n| or_minus_one(n.quota_bytes)),
    (Family::gauge("pulsar_storage_backlog_quota_limit_time", "Seconds that a message may wait; -1 without a limit."), |n| {
        or_minus_one(n.quota_seconds)
    }),
    (Family::gauge("pulsar_publish_rate_limit_times", "How often publishes began to wait for a rate."), |n| as_number(n.rate_limited)),
    (Family::counter("geminga_cache_hits_total", "Entries delivered from the cache since the topic was loaded."), |n| {
        as_number(n.cache_hits)
    }),
    (Family::counter("geminga_storage_read_entries_total", "Entries read from storage since the topic was loaded."), |n| {
        as_number(n.storage_reads)
    }),
    (Family::counter("geminga_cache_misses_total", "Entries delivered after a read since the topic was loaded."), |n| {
        as_number(n.cache_misses)
    }),
];

fn or_minus_one(number: Option<u64>) -> f64 {
    number.map_or(-1.0, as_number)
}

/// Told where a compaction was tried since the topic was loaded.
const COMPACTION_FAMILIES: &[FamilyOf<Numbers>] = &[
    (Family::gauge("pulsar_compaction_removed_event_count", "Messages that compactions took out."), |n| as_number(n.compacted_out)),
    (Family::gauge("pulsar_compaction_succeed_count", "Compactions that worked."), |n| as_number(n.compactions)),
    (Family::gauge("pulsar_compaction_failed_count", "Compactions that failed."), |n| as_number(n.compactions_failed)),
    (Family::gauge("pulsar_compaction_duration_time_in_mills", "Milliseconds that the last one took."), |n| as_number(n.compaction_ms)),
    (Family::gauge("pulsar_compaction_compacted_entries_count", "Entries that the last one left."), |n| as_number(n.compacted_entries)),
    (Family::gauge("pulsar_compaction_compacted_entries_size", "Bytes that the last one left."), |n| as_number(n.compacted_bytes)),
];

macro_rules! classes {
    ($field:ident, $help:literal, $(($name:literal, $class:literal)),+) => {
        &[$((Family::gauge($name, $help), |n| as_number(n.rates.$field[$class]))),+]
    };
}

/// Not cumulative, and of the last period: as boards for Pulsar expect them.
const WRITE_CLASSES: &[FamilyOf<Numbers>] = classes!(
    write_latencies,
    "Entries of the last period whose write took so many milliseconds at most, and more than the class below.",
    ("pulsar_storage_write_latency_le_0_5", 0),
    ("pulsar_storage_write_latency_le_1", 1),
    ("pulsar_storage_write_latency_le_5", 2),
    ("pulsar_storage_write_latency_le_10", 3),
    ("pulsar_storage_write_latency_le_20", 4),
    ("pulsar_storage_write_latency_le_50", 5),
    ("pulsar_storage_write_latency_le_100", 6),
    ("pulsar_storage_write_latency_le_200", 7),
    ("pulsar_storage_write_latency_le_1000", 8),
    ("pulsar_storage_write_latency_overflow", 9)
);

const SIZE_CLASSES: &[FamilyOf<Numbers>] = classes!(
    entry_sizes,
    "Entries of the last period that have so many bytes at most, and more than the class below.",
    ("pulsar_entry_size_le_128", 0),
    ("pulsar_entry_size_le_512", 1),
    ("pulsar_entry_size_le_1_kb", 2),
    ("pulsar_entry_size_le_2_kb", 3),
    ("pulsar_entry_size_le_4_kb", 4),
    ("pulsar_entry_size_le_16_kb", 5),
    ("pulsar_entry_size_le_100_kb", 6),
    ("pulsar_entry_size_le_1_mb", 7),
    ("pulsar_entry_size_le_overflow", 8)
);

const CLASS_SUMS: &[FamilyOf<Numbers>] = &[
    (Family::gauge("pulsar_storage_write_latency_count", "Entries written in the last period."), |n| {
        as_number(n.rates.write_latencies.iter().sum())
    }),
    (Family::gauge("pulsar_storage_write_latency_sum", "Milliseconds that their writes took together."), |n| {
        as_number(n.rates.write_latency_sum_us) / 1_000.0
    }),
    (Family::gauge("pulsar_entry_size_count", "Entries published in the last period."), |n| as_number(n.rates.entry_sizes.iter().sum())),
    (Family::gauge("pulsar_entry_size_sum", "Their bytes."), |n| as_number(n.rates.entry_size_sum)),
];

const MESSAGES_OUT: Family = Family::counter("pulsar_out_messages_total", "Messages delivered since the topic was loaded.");
const BYTES_OUT: Family = Family::counter("pulsar_out_bytes_total", "Bytes delivered since the topic was loaded.");

/// Told for each namespace where subscriptions are not told one by one.
const OUT_FAMILIES: &[FamilyOf<Numbers>] = &[(MESSAGES_OUT, |n| as_number(n.messages_out)), (BYTES_OUT, |n| as_number(n.bytes_out))];

const SUBSCRIPTION_FAMILIES: &[FamilyOf<SubscriptionStats>] = &[
    (MESSAGES_OUT, |s| as_number(s.messages_out)),
    (BYTES_OUT, |s| as_number(s.bytes_out)),
    (Family::gauge("pulsar_subscription_back_log", "Entries not acknowledged."), |s| as_number(s.backlog)),
    (Family::gauge("pulsar_subscription_back_log_no_delayed", "Entries not acknowledged whose time has come."), |s| {
        as_number(s.backlog.saturating_sub(s.delayed))
    }),
    (Family::gauge("pulsar_subscription_delayed", "Entries whose time has not come."), |s| as_number(s.delayed)),
    (Family::gauge("pulsar_subscription_unacked_messages", "Messages delivered and not acknowledged."), |s| as_number(s.unacked_messages)),
    (Family::gauge("pulsar_subscription_blocked_on_unacked_messages", "1 while it gets nothing more until some are acknowledged."), |s| {
        as_number(u64::from(s.blocked_on_unacked))
    }),
    (Family::gauge("pulsar_subscription_msg_rate_out", "Messages delivered in a second, over the last period."), |s| s.rates.messages_out),
    (Family::gauge("pulsar_subscription_msg_throughput_out", "Bytes delivered in a second, over the last period."), |s| s.rates.bytes_out),
    (Family::gauge("pulsar_subscription_msg_rate_redeliver", "Messages delivered again in a second, over the last period."), |s| {
        s.rates.messages_redelivered
    }),
    (Family::gauge("pulsar_subscription_msg_ack_rate", "Messages acknowledged in a second, over the last period."), |s| {
        s.rates.messages_acked
    }),
    (Family::gauge("pulsar_subscription_msg_rate_expired", "Entries expired in a second, over the last period."), |s| {
        s.rates.messages_expired
    }),
    (Family::counter("pulsar_subscription_total_msg_expired", "Entries expired since the topic was loaded."), |s| {
        as_number(s.messages_expired)
    }),
    (Family::gauge("pulsar_subscription_msg_drop_rate", "Messages of a non-persistent topic that nobody took, in a second."), |s| {
        s.rates.messages_dropped
    }),
    (Family::gauge("pulsar_subscription_last_consumed_flow_timestamp", "When a consumer last asked for messages, in milliseconds."), |s| {
        as_number(s.consumers.iter().map(|c| c.last_flow_ms).max().unwrap_or(0))
    }),
    (Family::gauge("pulsar_subscription_consumers_count", "Connected consumers."), |s| as_number(count(&s.consumers))),
];

const CONSUMER_FAMILIES: &[FamilyOf<ConsumerStats>] = &[
    (Family::gauge("pulsar_consumer_msg_rate_out", "Messages delivered in a second, over the last period."), |c| c.rates.messages_out),
    (Family::gauge("pulsar_consumer_msg_throughput_out", "Bytes delivered in a second, over the last period."), |c| c.rates.bytes_out),
    (Family::gauge("pulsar_consumer_msg_rate_redeliver", "Messages delivered again in a second, over the last period."), |c| {
        c.rates.messages_redelivered
    }),
    (Family::gauge("pulsar_consumer_unacked_messages", "Messages delivered and not acknowledged."), |c| as_number(c.unacked_messages)),
    (Family::gauge("pulsar_consumer_blocked_on_unacked_messages", "1 while it gets nothing more until some are acknowledged."), |c| {
        as_number(u64::from(c.blocked_on_unacked))
    }),
    (Family::gauge("pulsar_consumer_available_permits", "Messages that it will still take."), |c| c.available_permits as f64),
];

const PRODUCER_FAMILIES: &[FamilyOf<ProducerStats>] = &[
    (Family::gauge("pulsar_producer_msg_rate_in", "Messages published in a second, over the last period."), |p| p.rates.messages_in),
    (Family::gauge("pulsar_producer_msg_throughput_in", "Bytes published in a second, over the last period."), |p| p.rates.bytes_in),
    (Family::gauge("pulsar_producer_msg_average_Size", "Bytes of a message, over the last period."), |p| {
        if p.rates.messages_in > 0.0 { p.rates.bytes_in / p.rates.messages_in } else { 0.0 }
    }),
];

/// Told for each namespace.
const LEDGER_FAMILIES: &[FamilyOf<Numbers>] = &[
    (Family::gauge("pulsar_ml_count", "Topics that store something."), |n| as_number(n.topics)),
    (Family::gauge("pulsar_ml_AddEntryBytesRate", "Bytes written in a second, over the last period."), |n| n.rates.bytes_in),
    (Family::gauge("pulsar_ml_AddEntryMessagesRate", "Entries written in a second, over the last period."), |n| n.rates.entries_in),
    (Family::gauge("pulsar_ml_ReadEntriesRate", "Entries delivered in a second, over the last period."), |n| {
        n.rates.cache_hits + n.rates.cache_misses
    }),
    (Family::gauge("pulsar_ml_NumberOfMessagesInBacklog", "Entries not acknowledged."), |n| as_number(n.backlog)),
    (Family::gauge("pulsar_ml_StoredMessagesSize", "Bytes stored."), |n| as_number(n.storage)),
];

pub(super) async fn tell(out: &mut Exposition, cluster: &str, stats: &ServerStats, options: &MetricsOptions) {
    let mut namespaces: BTreeMap<String, Numbers> = BTreeMap::new();
    for (name, stats) in &stats.topics {
        namespaces.entry(name.namespace_str().to_owned()).or_default().add(stats);
    }
    let by_namespace: Vec<(String, Numbers)> =
        namespaces.into_iter().map(|(name, numbers)| (format!("{cluster},{}", label("namespace", &name)), numbers)).collect();
    out.family(Family::gauge("pulsar_topics_count", "Loaded topics."));
    by_namespace.iter().for_each(|(labels, numbers)| out.sample(labels, numbers.topics));
    if by_namespace.is_empty() {
        out.sample(cluster, 0);
    }
    let mut turn = Turn::default();
    if options.managed_ledgers {
        families(out, LEDGER_FAMILIES.iter(), &or_nothing(cluster, by_namespace.clone()), &mut turn).await;
    }
    // Boards add up by namespace, so that a topic must never be told on both levels.
    let one_by_one = options.topics && stats.topics.len() <= options.max_topics;
    let series = match one_by_one {
        true => stats.topics.iter().map(|(name, stats)| (topic_labels(cluster, name, options), Numbers::of([stats]))).collect(),
        false => by_namespace,
    };
    let by_subscription = one_by_one && stats.topics.iter().any(|(_, stats)| !stats.subscriptions.is_empty());
    let of_topics = TOPIC_FAMILIES.iter().chain(WRITE_CLASSES).chain(SIZE_CLASSES).chain(CLASS_SUMS);
    let of_topics = of_topics.chain(OUT_FAMILIES.iter().filter(|_| !by_subscription));
    let series = or_nothing(cluster, series);
    families(out, of_topics, &series, &mut turn).await;
    out.family(Family::counter("pulsar_storage_backlog_quota_exceeded_evictions_total", "How often the oldest messages were dropped."));
    for (labels, numbers) in &series {
        for (kind, times) in [("destination_storage", numbers.evictions.0), ("message_age", numbers.evictions.1)] {
            out.sample(&format!("{labels},{}", label("quota_type", kind)), times);
        }
        turn.step().await;
    }
    let compacted: Vec<_> = series.iter().filter(|(_, numbers)| numbers.compactions + numbers.compactions_failed > 0).cloned().collect();
    if !compacted.is_empty() {
        families(out, COMPACTION_FAMILIES.iter(), &compacted, &mut turn).await;
    }
    if by_subscription {
        subscriptions(out, stats, &series, &mut turn).await;
    }
    if one_by_one {
        parties(out, stats, &series, options, &mut turn).await;
    }
}

/// Selectors of boards are filled from these, even before there is a topic.
fn or_nothing(cluster: &str, mut series: Vec<(String, Numbers)>) -> Vec<(String, Numbers)> {
    if series.is_empty() {
        series.push((cluster.to_owned(), Numbers::default()));
    }
    series
}

async fn families(out: &mut Exposition, families: impl Iterator<Item = &FamilyOf<Numbers>>, series: &[(String, Numbers)], turn: &mut Turn) {
    for (family, number) in families {
        out.family(*family);
        for (labels, numbers) in series {
            out.sample(labels, number(numbers));
            turn.step().await;
        }
    }
}

async fn subscriptions(out: &mut Exposition, stats: &ServerStats, series: &[(String, Numbers)], turn: &mut Turn) {
    for (family, number) in SUBSCRIPTION_FAMILIES {
        out.family(*family);
        for ((_, stats), (labels, _)) in stats.topics.iter().zip(series) {
            for subscription in &stats.subscriptions {
                out.sample(&format!("{labels},{}", label("subscription", &subscription.name)), number(subscription));
                turn.step().await;
            }
        }
    }
}

/// Consumers and producers one by one, where that is wanted.
async fn parties(out: &mut Exposition, stats: &ServerStats, series: &[(String, Numbers)], options: &MetricsOptions, turn: &mut Turn) {
    let topics = || stats.topics.iter().zip(series).map(|((_, stats), (labels, _))| (stats, labels));
    if options.consumers && topics().any(|(stats, _)| stats.subscriptions.iter().any(|s| !s.consumers.is_empty())) {
        for (family, number) in CONSUMER_FAMILIES {
            out.family(*family);
            for (subscription, labels) in topics().flat_map(|(stats, labels)| stats.subscriptions.iter().map(move |s| (s, labels))) {
                for (place, consumer) in subscription.consumers.iter().enumerate() {
                    // Two connections may have chosen the same id and name.
                    let id = label("consumer_id", &format!("{}-{place}", consumer.id));
                    let names = [&*label("subscription", &subscription.name), &label("consumer_name", &consumer.name), &id].join(",");
                    out.sample(&format!("{labels},{names}"), number(consumer));
                    turn.step().await;
                }
            }
        }
    }
    if options.producers && topics().any(|(stats, _)| !stats.producers.is_empty()) {
        for (family, number) in PRODUCER_FAMILIES {
            out.family(*family);
            for (stats, labels) in topics() {
                for producer in &stats.producers {
                    let names = [&*label("producer_name", &producer.name), &label("producer_id", &producer.id.to_string())].join(",");
                    out.sample(&format!("{labels},{names}"), number(producer));
                    turn.step().await;
                }
            }
        }
    }
}

fn topic_labels(cluster: &str, name: &wire::TopicName, options: &MetricsOptions) -> String {
    let namespace = label("namespace", name.namespace_str());
    if !options.split_partitions {
        return [cluster, &namespace, &label("topic", name.as_str())].join(",");
    }
    let partition = name.partition_index().map_or(-1, i64::from);
    let topic = name.partitioned();
    [cluster, &namespace, &label("topic", topic.as_str()), &label("partition", &partition.to_string())].join(",")
}
