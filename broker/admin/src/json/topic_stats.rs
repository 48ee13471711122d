//! The numbers of a topic, as `stats` and `partitioned-stats` tell them.

use std::collections::BTreeMap;

use serde::Serialize;
use server::stats::{ConsumerStats, ProducerStats, SubscriptionStats, TopicStats};

use super::Partitions;
use crate::rfc3339;

/// Which parts were asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) publishers: bool,
    pub(crate) consumers: bool,
}

/// Sum of a partitioned topic, and each partition.
#[derive(Debug, Serialize)]
pub(crate) struct PartitionedStats {
    #[serde(flatten)]
    pub(crate) sum: TopicStatsJson,
    pub(crate) metadata: Partitions,
    pub(crate) partitions: BTreeMap<String, TopicStatsJson>,
}

// Counters that are always 0 belong to features this version does not have; tools read them all the same.
/// One topic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopicStatsJson {
    msg_rate_in: f64,
    msg_throughput_in: f64,
    msg_rate_out: f64,
    msg_throughput_out: f64,
    bytes_in_counter: u64,
    msg_in_counter: u64,
    system_topic_bytes_in_counter: u64,
    bytes_out_counter: u64,
    msg_out_counter: u64,
    bytes_out_internal_counter: u64,
    average_msg_size: f64,
    msg_chunk_published: bool,
    storage_size: u64,
    backlog_size: u64,
    backlog_quota_limit_size: i64,
    backlog_quota_limit_time: i64,
    oldest_backlog_message_age_seconds: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_backlog_message_subscription_name: Option<String>,
    publish_rate_limited_times: u64,
    earliest_msg_publish_time_in_backlogs: u64,
    offloaded_storage_size: u64,
    last_offload_ledger_id: u64,
    last_offload_success_time_stamp: u64,
    last_offload_failure_time_stamp: u64,
    ongoing_txn_count: u64,
    aborted_txn_count: u64,
    committed_txn_count: u64,
    publishers: Vec<PublisherJson>,
    waiting_publishers: u32,
    subscriptions: BTreeMap<String, SubscriptionJson>,
    replication: BTreeMap<String, ()>,
    deduplication_status: &'static str,
    non_contiguous_deleted_messages_ranges: u64,
    non_contiguous_deleted_messages_ranges_serialized_size: u64,
    delayed_message_index_size_in_bytes: u64,
    compaction: CompactionJson,
    owner_broker: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CompactionJson {
    last_compaction_removed_event_count: u64,
    last_compaction_succeed_timestamp: u64,
    last_compaction_failed_timestamp: u64,
    last_compaction_duration_time_in_mills: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublisherJson {
    access_mode: &'static str,
    producer_id: u64,
    msg_rate_in: f64,
    msg_throughput_in: f64,
    average_msg_size: f64,
    chunked_message_rate: f64,
    supports_partial_producer: bool,
    producer_name: String,
    address: String,
    connected_since: String,
    client_version: String,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionJson {
    msg_rate_out: f64,
    msg_throughput_out: f64,
    bytes_out_counter: u64,
    msg_out_counter: u64,
    msg_rate_redeliver: f64,
    message_ack_rate: f64,
    chunked_message_rate: f64,
    msg_backlog: u64,
    backlog_size: i64,
    earliest_msg_publish_time_in_backlog: u64,
    msg_backlog_no_delayed: u64,
    blocked_subscription_on_unacked_msgs: bool,
    msg_delayed: u64,
    msg_in_replay: u64,
    unacked_messages: u64,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    active_consumer_name: Option<String>,
    msg_rate_expired: f64,
    msg_expired: u64,
    total_msg_expired: u64,
    last_expire_timestamp: u64,
    last_consumed_flow_timestamp: u64,
    last_consumed_timestamp: u64,
    last_acked_timestamp: u64,
    last_mark_delete_advanced_timestamp: u64,
    consumers: Vec<ConsumerJson>,
    is_durable: bool,
    is_replicated: bool,
    allow_out_of_order_delivery: bool,
    consumers_after_mark_delete_position: BTreeMap<String, String>,
    non_contiguous_deleted_messages_ranges: u64,
    non_contiguous_deleted_messages_ranges_serialized_size: u64,
    delayed_message_index_size_in_bytes: u64,
    subscription_properties: BTreeMap<String, String>,
    filter_processed_msg_count: u64,
    filter_accepted_msg_count: u64,
    filter_rejected_msg_count: u64,
    filter_rescheduled_msg_count: u64,
    dispatch_throttled_msg_events_by_subscription_limit: u64,
    dispatch_throttled_bytes_events_by_subscription_limit: u64,
    dispatch_throttled_msg_events_by_topic_limit: u64,
    dispatch_throttled_bytes_events_by_topic_limit: u64,
    dispatch_throttled_msg_events_by_broker_limit: u64,
    dispatch_throttled_bytes_events_by_broker_limit: u64,
    durable: bool,
    replicated: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConsumerJson {
    msg_rate_out: f64,
    msg_throughput_out: f64,
    bytes_out_counter: u64,
    msg_out_counter: u64,
    msg_rate_redeliver: f64,
    message_ack_rate: f64,
    chunked_message_rate: f64,
    consumer_name: String,
    available_permits: i64,
    unacked_messages: u64,
    avg_messages_per_entry: u32,
    blocked_consumer_on_unacked_msgs: bool,
    address: String,
    connected_since: String,
    client_version: String,
    last_acked_timestamp: u64,
    last_consumed_timestamp: u64,
    last_consumed_flow_timestamp: u64,
    metadata: BTreeMap<String, String>,
}

impl TopicStatsJson {
    pub(crate) fn new(stats: TopicStats, shown: Shown, owner_broker: &str) -> Self {
        let average = mean(stats.bytes_in, stats.messages_in);
        Self {
            msg_rate_in: stats.rates.messages_in,
            msg_throughput_in: stats.rates.bytes_in,
            msg_rate_out: stats.rates.messages_out,
            msg_throughput_out: stats.rates.bytes_out,
            bytes_in_counter: stats.bytes_in,
            msg_in_counter: stats.messages_in,
            system_topic_bytes_in_counter: 0,
            bytes_out_counter: stats.bytes_out,
            msg_out_counter: stats.messages_out,
            bytes_out_internal_counter: 0,
            average_msg_size: average,
            msg_chunk_published: false,
            storage_size: stats.storage_bytes,
            backlog_size: stats.backlog_bytes,
            backlog_quota_limit_size: signed(stats.quota_bytes),
            backlog_quota_limit_time: signed(stats.quota_age_ms.map(|limit| limit / 1_000)),
            oldest_backlog_message_age_seconds: signed(stats.oldest_backlog_ms.map(|published| age_seconds(published, now_ms()))),
            oldest_backlog_message_subscription_name: stats.oldest_backlog_ms.and(stats.slowest_subscription),
            publish_rate_limited_times: stats.publish_rate_limited,
            earliest_msg_publish_time_in_backlogs: stats.oldest_backlog_ms.unwrap_or(0),
            offloaded_storage_size: 0,
            last_offload_ledger_id: 0,
            last_offload_success_time_stamp: 0,
            last_offload_failure_time_stamp: 0,
            ongoing_txn_count: 0,
            aborted_txn_count: 0,
            committed_txn_count: 0,
            waiting_publishers: stats.waiting_producers,
            replication: BTreeMap::new(),
            deduplication_status: if stats.deduplication { "Enabled" } else { "Disabled" },
            non_contiguous_deleted_messages_ranges: stats.subscriptions.iter().map(|s| s.acked_ranges).sum(),
            non_contiguous_deleted_messages_ranges_serialized_size: 0,
            delayed_message_index_size_in_bytes: 0,
            compaction: CompactionJson {
                last_compaction_removed_event_count: stats.compaction.last_removed,
                last_compaction_succeed_timestamp: stats.compaction.succeeded_at_ms,
                last_compaction_failed_timestamp: stats.compaction.failed_at_ms,
                last_compaction_duration_time_in_mills: stats.compaction.last_duration_ms,
            },
            owner_broker: owner_broker.to_owned(),
            publishers: if shown.publishers { stats.producers.into_iter().map(PublisherJson::new).collect() } else { Vec::new() },
            subscriptions: stats.subscriptions.into_iter().map(|s| (s.name.clone(), SubscriptionJson::new(s, shown))).collect(),
        }
    }
}

impl PublisherJson {
    fn new(stats: ProducerStats) -> Self {
        Self {
            access_mode: stats.access_mode,
            producer_id: stats.id,
            msg_rate_in: stats.rates.messages_in,
            msg_throughput_in: stats.rates.bytes_in,
            average_msg_size: mean(stats.bytes_in, stats.messages_in),
            chunked_message_rate: 0.0,
            supports_partial_producer: false,
            producer_name: stats.name,
            address: address(stats.address),
            connected_since: rfc3339::from_ms(stats.connected_since_ms),
            client_version: stats.client_version,
            metadata: stats.properties.into_iter().collect(),
        }
    }
}

impl SubscriptionJson {
    fn new(stats: SubscriptionStats, shown: Shown) -> Self {
        Self {
            msg_rate_out: stats.rates.messages_out,
            msg_throughput_out: stats.rates.bytes_out,
            bytes_out_counter: stats.bytes_out,
            msg_out_counter: stats.messages_out,
            msg_rate_redeliver: stats.rates.messages_redelivered,
            message_ack_rate: stats.rates.messages_acked,
            chunked_message_rate: 0.0,
            msg_backlog: stats.backlog,
            backlog_size: -1,
            earliest_msg_publish_time_in_backlog: 0,
            msg_backlog_no_delayed: stats.backlog.saturating_sub(stats.delayed),
            blocked_subscription_on_unacked_msgs: stats.blocked_on_unacked,
            msg_delayed: stats.delayed,
            msg_in_replay: 0,
            unacked_messages: stats.unacked_messages,
            active_consumer_name: stats.active_consumer,
            kind: stats.kind,
            msg_rate_expired: stats.rates.messages_expired,
            msg_expired: stats.messages_expired,
            total_msg_expired: stats.messages_expired,
            last_expire_timestamp: 0,
            last_consumed_flow_timestamp: stats.consumers.iter().map(|c| c.last_flow_ms).max().unwrap_or(0),
            last_consumed_timestamp: 0,
            last_acked_timestamp: 0,
            last_mark_delete_advanced_timestamp: 0,
            is_durable: stats.durable,
            is_replicated: false,
            allow_out_of_order_delivery: false,
            consumers_after_mark_delete_position: BTreeMap::new(),
            non_contiguous_deleted_messages_ranges: stats.acked_ranges,
            non_contiguous_deleted_messages_ranges_serialized_size: 0,
            delayed_message_index_size_in_bytes: 0,
            subscription_properties: stats.properties.into_iter().collect(),
            filter_processed_msg_count: 0,
            filter_accepted_msg_count: 0,
            filter_rejected_msg_count: 0,
            filter_rescheduled_msg_count: 0,
            dispatch_throttled_msg_events_by_subscription_limit: stats.stopped.by_subscription.0,
            dispatch_throttled_bytes_events_by_subscription_limit: stats.stopped.by_subscription.1,
            dispatch_throttled_msg_events_by_topic_limit: stats.stopped.by_topic.0,
            dispatch_throttled_bytes_events_by_topic_limit: stats.stopped.by_topic.1,
            dispatch_throttled_msg_events_by_broker_limit: stats.stopped.by_broker.0,
            dispatch_throttled_bytes_events_by_broker_limit: stats.stopped.by_broker.1,
            durable: stats.durable,
            replicated: false,
            consumers: if shown.consumers { stats.consumers.into_iter().map(ConsumerJson::new).collect() } else { Vec::new() },
        }
    }
}

impl ConsumerJson {
    fn new(stats: ConsumerStats) -> Self {
        Self {
            msg_rate_out: stats.rates.messages_out,
            msg_throughput_out: stats.rates.bytes_out,
            bytes_out_counter: stats.bytes_out,
            msg_out_counter: stats.messages_out,
            msg_rate_redeliver: stats.rates.messages_redelivered,
            message_ack_rate: stats.rates.messages_acked,
            chunked_message_rate: 0.0,
            consumer_name: stats.name,
            available_permits: stats.available_permits,
            unacked_messages: stats.unacked_messages,
            avg_messages_per_entry: 0,
            blocked_consumer_on_unacked_msgs: stats.blocked_on_unacked,
            address: address(stats.address),
            connected_since: rfc3339::from_ms(stats.connected_since_ms),
            client_version: stats.client_version,
            last_acked_timestamp: 0,
            last_consumed_timestamp: 0,
            last_consumed_flow_timestamp: stats.last_flow_ms,
            metadata: stats.properties.into_iter().collect(),
        }
    }
}

/// A number where none is spelt -1.
fn signed(number: Option<u64>) -> i64 {
    number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))
}

/// How old something is that a producer published, by its own clock.
pub(crate) fn age_seconds(published_ms: u64, now_ms: u64) -> u64 {
    now_ms.saturating_sub(published_ms) / 1_000
}

pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

/// Pulsar writes a slash before an address.
fn address(text: String) -> String {
    if text.starts_with('/') { text } else { format!("/{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy_topic() -> TopicStats {
        TopicStats {
            messages_in: 4,
            bytes_in: 10,
            storage_bytes: 400,
            storage_entries: 4,
            backlog_bytes: 300,
            quota_bytes: Some(1_000),
            publish_rate_limited: 6,
            producers: vec![ProducerStats {
                name: "p-1".into(),
                id: 7,
                address: "127.0.0.1:4000".into(),
                client_version: "C-4.2.0".into(),
                connected_since_ms: 1_767_607_200_123,
                ..ProducerStats::default()
            }],
            subscriptions: vec![SubscriptionStats {
                name: "s".into(),
                kind: "Exclusive",
                durable: true,
                backlog: 3,
                active_consumer: Some("c-1".into()),
                consumers: vec![ConsumerStats { name: "c-1".into(), available_permits: -2, last_flow_ms: 5, ..ConsumerStats::default() }],
                ..SubscriptionStats::default()
            }],
            ..TopicStats::default()
        }
    }

    fn spelt(stats: TopicStats, shown: Shown) -> serde_json::Value {
        serde_json::from_str(&serde_json::to_string(&TopicStatsJson::new(stats, shown, "h:8080")).unwrap()).unwrap()
    }

    const ALL: Shown = Shown { publishers: true, consumers: true };

    #[test]
    fn publishers_of_an_idle_topic_are_an_empty_array() {
        let json = spelt(TopicStats::default(), ALL);
        assert_eq!(json["publishers"], serde_json::json!([]));
        assert_eq!(json["subscriptions"], serde_json::json!({}));
        assert_eq!(json["replication"], serde_json::json!({}));
    }

    #[test]
    fn counters_are_whole_numbers_and_rates_are_doubles() {
        let text = serde_json::to_string(&TopicStatsJson::new(busy_topic(), ALL, "h:8080")).unwrap();
        assert!(text.starts_with(r#"{"msgRateIn":0.0,"msgThroughputIn":0.0,"#), "{text}");
        assert!(text.contains(r#""bytesInCounter":10,"msgInCounter":4,"#), "{text}");
        assert!(text.contains(r#""averageMsgSize":2.5"#), "{text}");
        assert!(text.contains(r#""ownerBroker":"h:8080""#), "{text}");
    }

    #[test]
    fn a_subscription_tells_what_scalers_and_tests_read() {
        let json = spelt(busy_topic(), ALL);
        let subscription = &json["subscriptions"]["s"];
        assert_eq!(subscription["msgBacklog"], 3);
        assert_eq!(subscription["type"], "Exclusive");
        assert_eq!(subscription["activeConsumerName"], "c-1");
        assert_eq!(subscription["isDurable"], true);
        assert_eq!(subscription["consumers"][0]["availablePermits"], -2);
        assert_eq!(subscription["consumers"][0]["lastConsumedFlowTimestamp"], 5);
        assert_eq!(json["backlogSize"], 300);
        assert_eq!((&json["backlogQuotaLimitSize"], &json["backlogQuotaLimitTime"]), (&1_000.into(), &(-1).into()));
        assert_eq!((&json["publishRateLimitedTimes"], &json["oldestBacklogMessageAgeSeconds"]), (&6.into(), &(-1).into()));
        assert_eq!(json["publishers"][0]["producerName"], "p-1");
        assert_eq!(json["publishers"][0]["address"], "/127.0.0.1:4000");
        assert_eq!(json["publishers"][0]["connectedSince"], "2026-01-05T10:00:00.123Z");
    }

    #[test]
    fn a_subscription_nobody_ever_used_has_no_type() {
        let mut stats = busy_topic();
        stats.subscriptions[0].kind = "";
        stats.subscriptions[0].consumers.clear();
        stats.subscriptions[0].active_consumer = None;
        let json = spelt(stats, ALL);
        let subscription = json["subscriptions"]["s"].as_object().unwrap();
        assert!(!subscription.contains_key("type"));
        assert!(!subscription.contains_key("activeConsumerName"));
    }

    #[test]
    fn publishers_and_consumers_can_be_left_out() {
        let json = spelt(busy_topic(), Shown { publishers: false, consumers: false });
        assert_eq!(json["publishers"], serde_json::json!([]));
        assert_eq!(json["subscriptions"]["s"]["consumers"], serde_json::json!([]));
        assert_eq!(json["subscriptions"]["s"]["msgBacklog"], 3);
    }
}
