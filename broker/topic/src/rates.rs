//! How fast a topic may be used: published to, delivered from, subscribed to.

use std::sync::Arc;

use crate::{Rate, SharedLimiter};

/// The rates of a topic. Without any, nothing is counted for them.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// What may be published.
    pub publish: PublishRates,
    /// What may be delivered.
    pub dispatch: DispatchRates,
    /// How often one consumer may subscribe (`subscribeThrottlingRatePerConsumer` per `subscribeRatePeriodPerConsumerInSecond`).
    pub subscribe: Rate,
}

/// Rates of publishing. What comes faster waits; nothing is refused.
#[derive(Clone, Debug, Default)]
pub struct PublishRates {
    /// By all producers of the topic (`maxPublishRatePerTopicInMessages`, `maxPublishRatePerTopicInBytes`).
    pub topic: Rate,
    /// To all topics together (`brokerPublisherThrottlingMaxMessageRate`, `brokerPublisherThrottlingMaxByteRate`).
    pub broker: Option<Arc<SharedLimiter>>,
}

/// Rates of delivery. What is over waits in storage.
#[derive(Clone, Debug, Default)]
pub struct DispatchRates {
    /// To all consumers of the topic (`dispatchThrottlingRatePerTopicInMsg`, `...InByte`).
    pub topic: Rate,
    /// To the consumers of each subscription (`dispatchThrottlingRatePerSubscriptionInMsg`, `...InByte`).
    pub subscription: Rate,
    /// To all consumers of all topics (`dispatchThrottlingRateInMsg`, `dispatchThrottlingRateInByte`).
    pub broker: Option<Arc<SharedLimiter>>,
    /// Whether a batch counts as one message (`dispatchThrottlingOnBatchMessageEnabled`).
    pub batch_counts_once: bool,
    /// Whether only subscriptions are held back that are far behind (`dispatchThrottlingOnNonBacklogConsumerEnabled` is false).
    pub spares_followers: bool,
}

impl DispatchRates {
    pub(crate) fn are_set(&self) -> bool {
        self.topic.is_limited() || self.subscription.is_limited() || self.broker.is_some()
    }
}
