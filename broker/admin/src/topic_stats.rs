//! What is asked about one topic: its numbers, its storage, its last message.

use std::collections::BTreeMap;

use server::stats::{ConsumerStats, ProducerStats, SubscriptionStats, TopicStats};
use wire::TopicName;

use crate::address::partition;
use crate::errors::Refusal;
use crate::json::{InternalStats, ManagedLedgerJson, MessageIdJson, PartitionedInternalStats, PartitionedStats, Shown, TopicStatsJson};
use crate::partitions::described;
use crate::reply::Reply;
use crate::request::Call;

/// GET: the numbers of a topic without partitions, or of one partition.
pub(crate) async fn stats(call: Call) -> Result<Reply, Refusal> {
    let stats = call.handle().topic_stats(call.topic()?).await?;
    Reply::json(&TopicStatsJson::new(stats, shown(&call), owner(&call)))
}

/// GET: the sum over a topic's partitions, and each of them unless `perPartition=false`.
pub(crate) async fn partitioned(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let count = partitions(&call, &topic).await?;
    let each = call.query.get("perPartition").is_none_or(|_| call.query.flag("perPartition"));
    let (shown, owner) = (shown(&call), owner(&call));
    let mut sum = TopicStats::default();
    let mut by_name = BTreeMap::new();
    for n in 0..count {
        let part = partition(&topic, n)?;
        let stats = call.handle().topic_stats(part.clone()).await?;
        add(&mut sum, &stats);
        if each {
            by_name.insert(part.to_string(), TopicStatsJson::new(stats, shown, owner));
        }
    }
    let metadata = described(&call, topic, count).await?;
    Reply::json(&PartitionedStats { sum: TopicStatsJson::new(sum, shown, owner), metadata, partitions: by_name })
}

/// GET: ledgers and cursors of a topic.
pub(crate) async fn internal(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&InternalStats::new(call.handle().topic_stats(call.topic()?).await?))
}

/// GET: the same of each partition.
pub(crate) async fn partitioned_internal(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let count = partitions(&call, &topic).await?;
    let mut by_name = BTreeMap::new();
    for n in 0..count {
        let part = partition(&topic, n)?;
        by_name.insert(part.to_string(), InternalStats::new(call.handle().topic_stats(part).await?));
    }
    Reply::json(&PartitionedInternalStats { metadata: described(&call, topic, count).await?, partitions: by_name })
}

/// GET: what is recorded of a topic's ledgers and cursors.
pub(crate) async fn recorded(call: Call) -> Result<Reply, Refusal> {
    let topic = crate::subscriptions::one(&call, "Internal info").await?;
    Reply::json(&ManagedLedgerJson::new(call.handle().topic_stats(topic).await?))
}

/// GET: the place of the last message.
pub(crate) async fn last_message_id(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    if !topic.is_persistent() {
        return Err(Refusal::not_allowed("GetLastMessageId on a non-persistent topic is not allowed"));
    }
    if call.handle().partitions(topic.clone()).await?.is_some() {
        return Err(Refusal::not_allowed(
            "GetLastMessageId on a partitioned topic is not allowed, please try do it on specific topic partition",
        ));
    }
    let partition_index = topic.partition_index().and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
    let stats = call.handle().topic_stats(topic).await?;
    let (ledger_id, entry_id) = position(&stats.last_confirmed)?;
    Reply::json(&MessageIdJson { ledger_id, entry_id, partition_index })
}

async fn partitions(call: &Call, topic: &TopicName) -> Result<u32, Refusal> {
    let missing = || Refusal::not_found(format!("Partitioned Topic {topic} not found"));
    match call.handle().partitions(topic.clone()).await {
        Ok(Some(count)) => Ok(count),
        Ok(None) | Err(server::TopicError::NotFound(_)) => Err(missing()),
        Err(error) => Err(error.into()),
    }
}

fn shown(call: &Call) -> Shown {
    Shown { publishers: !call.query.flag("excludePublishers"), consumers: !call.query.flag("excludeConsumers") }
}

/// The broker that serves the topic, as `host:port` of its HTTP side.
fn owner(call: &Call) -> &str {
    crate::brokers::id(call.handle())
}

fn position(text: &str) -> Result<(i64, i64), Refusal> {
    let parsed = text.split_once(':').and_then(|(ledger, entry)| Some((ledger.parse().ok()?, entry.parse().ok()?)));
    parsed.ok_or_else(|| Refusal::internal(format!("the last position {text:?} is none")))
}

/// Adds a partition's numbers; producers, subscriptions and consumers of the same name become one.
fn add(sum: &mut TopicStats, part: &TopicStats) {
    sum.messages_in += part.messages_in;
    sum.bytes_in += part.bytes_in;
    sum.entries_in += part.entries_in;
    sum.messages_out += part.messages_out;
    sum.bytes_out += part.bytes_out;
    sum.storage_bytes += part.storage_bytes;
    sum.storage_entries += part.storage_entries;
    sum.cache_hits += part.cache_hits;
    sum.cache_misses += part.cache_misses;
    sum.storage_reads += part.storage_reads;
    sum.publish_rate_limited += part.publish_rate_limited;
    sum.backlog_bytes += part.backlog_bytes;
    sum.quota_bytes = sum.quota_bytes.max(part.quota_bytes);
    sum.quota_age_ms = sum.quota_age_ms.max(part.quota_age_ms);
    if let Some(oldest) = part.oldest_backlog_ms
        && sum.oldest_backlog_ms.is_none_or(|known| oldest < known)
    {
        sum.oldest_backlog_ms = Some(oldest);
        sum.slowest_subscription.clone_from(&part.slowest_subscription);
    }
    for producer in &part.producers {
        match sum.producers.iter_mut().find(|p| p.name == producer.name) {
            Some(same) => add_producer(same, producer),
            None => sum.producers.push(producer.clone()),
        }
    }
    for subscription in &part.subscriptions {
        match sum.subscriptions.iter_mut().find(|s| s.name == subscription.name) {
            Some(same) => add_subscription(same, subscription),
            None => sum.subscriptions.push(subscription.clone()),
        }
    }
}

fn add_producer(sum: &mut ProducerStats, part: &ProducerStats) {
    sum.messages_in += part.messages_in;
    sum.bytes_in += part.bytes_in;
}

fn add_subscription(sum: &mut SubscriptionStats, part: &SubscriptionStats) {
    sum.backlog += part.backlog;
    sum.backlog_bytes += part.backlog_bytes;
    for (sum, part) in [
        (&mut sum.stopped.by_subscription, part.stopped.by_subscription),
        (&mut sum.stopped.by_topic, part.stopped.by_topic),
        (&mut sum.stopped.by_broker, part.stopped.by_broker),
    ] {
        *sum = (sum.0 + part.0, sum.1 + part.1);
    }
    sum.unacked_messages += part.unacked_messages;
    sum.blocked_on_unacked |= part.blocked_on_unacked;
    sum.messages_out += part.messages_out;
    sum.bytes_out += part.bytes_out;
    sum.messages_redelivered += part.messages_redelivered;
    sum.acked_ranges += part.acked_ranges;
    if sum.kind.is_empty() {
        sum.kind = part.kind;
    }
    for consumer in &part.consumers {
        match sum.consumers.iter_mut().find(|c| c.name == consumer.name) {
            Some(same) => add_consumer(same, consumer),
            None => sum.consumers.push(consumer.clone()),
        }
    }
}

fn add_consumer(sum: &mut ConsumerStats, part: &ConsumerStats) {
    sum.available_permits += part.available_permits;
    sum.unacked_messages += part.unacked_messages;
    sum.blocked_on_unacked |= part.blocked_on_unacked;
    sum.messages_out += part.messages_out;
    sum.bytes_out += part.bytes_out;
    sum.messages_redelivered += part.messages_redelivered;
    sum.messages_acked += part.messages_acked;
    sum.last_flow_ms = sum.last_flow_ms.max(part.last_flow_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_add_up_by_name() {
        let part = |messages, backlog| TopicStats {
            messages_in: messages,
            producers: vec![ProducerStats { name: "p".into(), messages_in: messages, ..ProducerStats::default() }],
            subscriptions: vec![SubscriptionStats {
                name: "s".into(),
                backlog,
                kind: if backlog == 1 { "" } else { "Shared" },
                consumers: vec![ConsumerStats { name: "c".into(), available_permits: 10, ..ConsumerStats::default() }],
                ..SubscriptionStats::default()
            }],
            ..TopicStats::default()
        };
        let mut sum = TopicStats::default();
        add(&mut sum, &part(3, 1));
        add(&mut sum, &part(4, 2));
        assert_eq!(sum.messages_in, 7);
        assert_eq!(sum.producers.len(), 1);
        assert_eq!(sum.producers[0].messages_in, 7);
        assert_eq!(sum.subscriptions.len(), 1);
        assert_eq!((sum.subscriptions[0].backlog, sum.subscriptions[0].kind), (3, "Shared"));
        assert_eq!(sum.subscriptions[0].consumers.len(), 1);
        assert_eq!(sum.subscriptions[0].consumers[0].available_permits, 20);
    }

    #[test]
    fn a_position_is_two_numbers() {
        assert_eq!(position("12:3").unwrap(), (12, 3));
        assert_eq!(position("12:-1").unwrap(), (12, -1));
        assert_eq!(position("12").unwrap_err().status.as_u16(), 500);
    }
}
