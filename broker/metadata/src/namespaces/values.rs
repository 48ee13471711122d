//! What policies are made of: Pulsar's JSON, as types. A namespace and a topic spell them the same.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How long consumed messages are kept; -1 is for ever, 0 and 0 is not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// In minutes.
    #[serde(rename = "retentionTimeInMinutes")]
    pub time_minutes: i64,
    /// In megabytes.
    #[serde(rename = "retentionSizeInMB")]
    pub size_mb: i64,
}

/// What a backlog quota is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKind {
    /// Bytes that nobody has acknowledged.
    DestinationStorage,
    /// The age of the oldest message that nobody has acknowledged.
    MessageAge,
}

/// What happens when a backlog quota is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaPolicy {
    /// Producers wait until there is room again.
    #[default]
    ProducerRequestHold,
    /// Producers are refused.
    ProducerException,
    /// The oldest messages are taken as acknowledged.
    ConsumerBacklogEviction,
}

/// How much may wait for subscriptions of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BacklogQuota {
    /// In bytes; negative is no limit. Older clients call it `limit`.
    #[serde(default = "no_limit", alias = "limit", deserialize_with = "number_or_text")]
    pub limit_size: i64,
    /// In seconds; negative is no limit.
    #[serde(default = "no_limit")]
    pub limit_time: i64,
    /// What happens then.
    #[serde(default)]
    pub policy: QuotaPolicy,
}

/// How fast messages may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchRate {
    /// Messages in a period; 0 or less is no limit.
    #[serde(rename = "dispatchThrottlingRateInMsg", default = "no_limit")]
    pub messages: i64,
    /// Bytes in a period; 0 or less is no limit.
    #[serde(rename = "dispatchThrottlingRateInByte", default = "no_limit")]
    pub bytes: i64,
    /// The period, in seconds.
    #[serde(rename = "ratePeriodInSecond", default = "one_second")]
    pub period_seconds: i32,
    /// Whether what is published at the moment comes on top.
    #[serde(default)]
    pub relative_to_publish_rate: bool,
}

/// How fast messages may come in, in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRate {
    /// Messages; 0 or less is no limit.
    #[serde(rename = "publishThrottlingRateInMsg", default = "no_limit")]
    pub messages: i64,
    /// Bytes; 0 or less is no limit.
    #[serde(rename = "publishThrottlingRateInByte", default = "no_limit")]
    pub bytes: i64,
}

/// How often one consumer may subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeRate {
    /// Times in a period; 0 or less is no limit.
    #[serde(rename = "subscribeThrottlingRatePerConsumer", default = "no_limit")]
    pub per_consumer: i64,
    /// The period, in seconds.
    #[serde(rename = "ratePeriodInSecond", default = "subscribe_period")]
    pub period_seconds: i32,
}

/// Where BookKeeper would keep messages, and how often cursors are written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Persistence {
    /// Bookies of a ledger.
    #[serde(rename = "bookkeeperEnsemble", default)]
    pub ensemble: i32,
    /// Of them, those that an entry is written to.
    #[serde(rename = "bookkeeperWriteQuorum", default)]
    pub write_quorum: i32,
    /// Of those, the ones that are waited for.
    #[serde(rename = "bookkeeperAckQuorum", default)]
    pub ack_quorum: i32,
    /// States of a cursor written in a second; 0 writes at each acknowledgement, less leaves it to the configuration.
    #[serde(rename = "managedLedgerMaxMarkDeleteRate", default)]
    pub mark_delete_rate: f64,
}

/// When a topic that nobody uses is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InactiveMode {
    /// When it has no subscriptions.
    #[default]
    DeleteWhenNoSubscriptions,
    /// When its subscriptions have no consumers and nothing left to read.
    DeleteWhenSubscriptionsCaughtUp,
}

/// Whether, when and how soon a topic that nobody uses is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InactiveTopics {
    /// What not being used means.
    #[serde(rename = "inactiveTopicDeleteMode", default)]
    pub mode: InactiveMode,
    /// After how long, in seconds.
    #[serde(rename = "maxInactiveDurationSeconds", default)]
    pub after_seconds: u32,
    /// Whether at all.
    #[serde(rename = "deleteWhileInactive", default)]
    pub delete: bool,
}

/// What kind of topic comes into being by being used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicType {
    /// One with partitions.
    Partitioned,
    /// One without.
    #[default]
    NonPartitioned,
}

/// Whether a topic comes into being by being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoTopicCreation {
    /// Whether.
    #[serde(rename = "allowAutoTopicCreation")]
    pub allow: bool,
    /// Which kind; none: without partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_type: Option<TopicType>,
    /// How many partitions it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_num_partitions: Option<u32>,
}

/// Whether a subscription comes into being by being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoSubscriptionCreation {
    /// Whether.
    #[serde(rename = "allowAutoSubscriptionCreation")]
    pub allow: bool,
}

/// Whether messages may be delivered later than they come, and how late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayedDelivery {
    /// Whether; else they are delivered at once.
    pub active: bool,
    /// How exactly, in milliseconds; 0 leaves it to the configuration.
    #[serde(rename = "tickTime", default)]
    pub tick_ms: u64,
    /// The longest delay that may be asked for, in milliseconds; 0 is no limit.
    #[serde(rename = "maxDeliveryDelayInMillis", alias = "maxDelayInMillis", default)]
    pub max_delay_ms: u64,
}

impl AutoTopicCreation {
    /// Partitions of a topic that comes into being by being used; none for a topic without.
    pub fn partitions(self) -> Option<u32> {
        self.default_num_partitions.filter(|_| self.topic_type == Some(TopicType::Partitioned))
    }
}

impl BacklogQuota {
    /// Whether what is kept when it was acknowledged leaves room for the quota: a quota is no use that retention cuts off before.
    pub fn fits(self, retention: Retention) -> bool {
        if retention.size_mb <= 0 && retention.time_minutes <= 0 {
            return true;
        }
        let size = retention.size_mb <= 0 || self.limit_size < retention.size_mb.saturating_mul(1 << 20);
        let time = retention.time_minutes <= 0 || self.limit_time < retention.time_minutes.saturating_mul(60);
        size && time
    }
}

/// Some clients write the number as text.
fn number_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    match Value::deserialize(from)? {
        Value::Number(number) => number.as_i64().ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of 64 bits"))),
        Value::String(text) => text.parse().map_err(|_| D::Error::custom(format!("{text:?} is no number"))),
        other => Err(D::Error::custom(format!("{other} is no number"))),
    }
}

fn no_limit() -> i64 {
    -1
}

fn one_second() -> i32 {
    1
}

fn subscribe_period() -> i32 {
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_needs_less_than_retention_keeps() {
        let quota = |limit_size, limit_time| BacklogQuota { limit_size, limit_time, policy: QuotaPolicy::default() };
        let kept = |time_minutes, size_mb| Retention { time_minutes, size_mb };
        assert!(quota(1 << 20, -1).fits(kept(0, 0)), "what is acknowledged is not kept anyway");
        assert!(quota(1 << 20, -1).fits(kept(-1, -1)));
        assert!(quota((1 << 20) - 1, 59).fits(kept(1, 1)));
        assert!(!quota(1 << 20, 59).fits(kept(1, 1)));
        assert!(!quota(1, 60).fits(kept(1, 1)));
        assert!(quota(-1, -1).fits(kept(1, 1)));
    }

    #[test]
    fn a_quota_is_read_as_clients_of_all_ages_write_it() {
        let read = |json| serde_json::from_str::<BacklogQuota>(json).unwrap();
        let expected = BacklogQuota { limit_size: 5, limit_time: -1, policy: QuotaPolicy::ProducerException };
        assert_eq!(read(r#"{"limit":5,"policy":"producer_exception"}"#), expected);
        assert_eq!(read(r#"{"limitSize":5,"policy":"producer_exception","later":1}"#), expected);
        assert_eq!(read(r#"{"limit":"5","policy":"producer_exception"}"#), expected);
    }
}
