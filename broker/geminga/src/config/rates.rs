//! Rates, and how much may wait to be acknowledged.

use std::time::Duration;

use super::amounts::{ByteSize, SizeOr, SizeUnit, bytes, seconds};
use super::forms::{Flag, Number, OneOf};
use super::table::settings;

/// What happens when too much waits for the slowest subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaPolicy {
    /// Producers wait.
    ProducerRequestHold,
    /// Producers fail.
    ProducerException,
    /// The oldest messages are dropped.
    ConsumerBacklogEviction,
}

settings! {
    /// How much per second may be published and delivered, and how often a consumer may subscribe. 0 is no limit; a policy of the namespace or
    /// of the topic goes before those per topic, subscription and consumer. After a pause a second's worth may go through at once; over a longer
    /// time it is exactly the rate.
    pub struct Rates, "Rates" {
        /// Messages that may be published to one topic. What comes faster waits in the broker, and nothing else on its connection does.
        publish_messages: u64 = "maxPublishRatePerTopicInMessages", Number(0, MOST), default 0;
        /// Bytes that may be published to one topic.
        publish_bytes: u64 = "maxPublishRatePerTopicInBytes", Number(0, MOST), default 0;
        /// Messages that may be published to all topics together.
        broker_publish_messages: u64 = "brokerPublisherThrottlingMaxMessageRate", Number(0, MOST), default 0;
        /// Bytes that may be published to all topics together.
        broker_publish_bytes: u64 = "brokerPublisherThrottlingMaxByteRate", Number(0, MOST), default 0;
        /// Bytes of publishes of one connection that may wait for such a rate. Beyond it, or when half of `maxMessagePublishBufferSizeInMB` waits,
        /// the connection is not read until some of them went through, and then its other producers and consumers wait, too.
        held_publishes: ByteSize = "maxHeldPublishBytesPerConnection", bytes(0, 1 << 40), default ByteSize::mib(16);
        /// Messages that may be delivered by all topics together.
        broker_dispatch_messages: u64 = "dispatchThrottlingRateInMsg", Number(0, MOST), default 0;
        /// Bytes that may be delivered by all topics together.
        broker_dispatch_bytes: u64 = "dispatchThrottlingRateInByte", Number(0, MOST), default 0;
        /// Messages that may be delivered by one topic to all its subscriptions.
        topic_dispatch_messages: u64 = "dispatchThrottlingRatePerTopicInMsg", Number(0, MOST), default 0;
        /// Bytes that may be delivered by one topic to all its subscriptions.
        topic_dispatch_bytes: u64 = "dispatchThrottlingRatePerTopicInByte", Number(0, MOST), default 0;
        /// Messages that may be delivered to one subscription.
        subscription_dispatch_messages: u64 = "dispatchThrottlingRatePerSubscriptionInMsg", Number(0, MOST), default 0;
        /// Bytes that may be delivered to one subscription.
        subscription_dispatch_bytes: u64 = "dispatchThrottlingRatePerSubscriptionInByte", Number(0, MOST), default 0;
        /// Whether these rates also hold back a subscription that follows closely. Off, only one with more than 1,000 entries before it.
        on_followers: bool = "dispatchThrottlingOnNonBacklogConsumerEnabled", Flag, default true;
        /// Whether a batch counts as one message for these rates.
        on_batches: bool = "dispatchThrottlingOnBatchMessageEnabled", Flag, default false;
        /// How often one consumer, by host, name and id, may subscribe to one topic in a period; then it is refused.
        subscribe: u64 = "subscribeThrottlingRatePerConsumer", Number(0, MOST), default 0;
        /// That period.
        subscribe_period: Duration = "subscribeRatePeriodPerConsumerInSecond", seconds(1, 4_000), default Duration::from_secs(30);
    }
}

settings! {
    /// How much may wait for the slowest durable subscription of a topic. A policy of the namespace or of the topic goes before these.
    pub struct BacklogQuotas, "Backlog quotas" {
        /// Whether quotas are kept at all.
        check: bool = "backlogQuotaCheckEnabled", Flag, default true;
        /// How often topics with producers are looked at; a producer that wants in is always judged anew.
        check_interval: Duration = "backlogQuotaCheckIntervalInSeconds", seconds(1, u32::MAX as u64), default Duration::from_secs(60);
        /// Bytes that may wait.
        limit_bytes: Option<ByteSize> = "backlogQuotaDefaultLimitBytes", SizeOr(SizeUnit::Bytes, "no limit"), default None;
        /// The same in GiB; more than 0, it goes before the other one.
        limit_gib: f64 = "backlogQuotaDefaultLimitGB", Number(-1.0, 1e9), default -1.0;
        /// Seconds that a message may wait; -1 and 0 are no limit.
        limit_seconds: i64 = "backlogQuotaDefaultLimitSecond", Number(-1, i32::MAX as i64), default -1;
        /// What happens then. Held, clients keep what they have to send and try to come back; with the exception they fail it; with eviction the oldest
        /// messages are dropped until a tenth of the limit is free.
        policy: QuotaPolicy = "backlogQuotaDefaultRetentionPolicy", OneOf(&[
            ("producer_request_hold", QuotaPolicy::ProducerRequestHold),
            ("producer_exception", QuotaPolicy::ProducerException),
            ("consumer_backlog_eviction", QuotaPolicy::ConsumerBacklogEviction),
        ]), default QuotaPolicy::ProducerRequestHold;
        /// Whether age is told from the oldest message itself instead of from its ledger. It always is: the key is accepted either way.
        precise: bool = "preciseTimeBasedBacklogQuotaCheck", Flag, default false;
    }
}

const MOST: u64 = i64::MAX as u64;
