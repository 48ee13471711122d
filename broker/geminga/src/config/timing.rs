//! Messages before their time and after it, and which topics a pattern finds.

use std::num::NonZeroU32;
use std::time::Duration;

use super::amounts::{ByteSize, TimeOrOff, TimeUnit, bytes, milliseconds, minutes, seconds};
use super::forms::{Flag, Number};
use super::table::settings;

settings! {
    /// When messages are delivered that ask for a delay, and when messages expire that nobody acknowledges.
    pub struct Timing, "Delays and expiry" {
        /// Whether messages that ask for a delay get it, on Shared and Key_Shared subscriptions. Off, they are delivered at once.
        delayed: bool = "delayedDeliveryEnabled", Flag, default true, dynamic "for messages that are read later";
        /// How late a delayed message may be. Shorter ticks wake the broker more often.
        tick: Duration = "delayedDeliveryTickTimeMillis", milliseconds(1, u32::MAX as u64), default Duration::from_secs(1),
            dynamic "at once";
        /// The longest delay that a message may ask for, counted from its publish time; a publish that asks for more is refused.
        max_delay: Option<Duration> = "delayedDeliveryMaxDelayInMillis", TimeOrOff(TimeUnit::Milliseconds), default None,
            dynamic "for messages that come later";
        /// Whether no delayed message may come early. None ever does; the key is accepted either way.
        strict: bool = "isDelayedDeliveryDeliverAtTimeStrict", Flag, default true, pulsar "false: up to one tick early";
        /// Messages older than this are dropped from the backlog of durable subscriptions.
        ttl: Option<Duration> = "ttlDurationDefaultInSeconds", TimeOrOff(TimeUnit::Seconds), default None, dynamic "at once";
        /// How often expired messages are looked for; they stay that much longer at most.
        expiry_check: Duration = "messageExpiryCheckIntervalInMinutes", minutes(1, u32::MAX as u64), default Duration::from_secs(300),
            dynamic "after the next look";
    }
}

settings! {
    /// Topics of which only the newest message of each key is kept, for consumers that ask for no more.
    pub struct Compaction, "Compaction" {
        /// A topic is compacted by itself when so many bytes were published since the last time; 0 leaves it to those who ask. The
        /// work takes reads, writes and a thread, and the newest messages are stored twice.
        threshold: ByteSize = "brokerServiceCompactionThresholdInBytes", bytes(0, i64::MAX as u64), default ByteSize::bytes(0);
        /// How often it is looked at whether a topic is to be compacted.
        check: Duration = "brokerServiceCompactionMonitorIntervalInSeconds", seconds(1, u32::MAX as u64), default Duration::from_secs(60);
        /// Whether messages without a key outlive a compaction.
        retain_null_key: bool = "topicCompactionRetainNullKey", Flag, default false;
    }
}

settings! {
    /// Subscriptions to all topics of a namespace that match a pattern.
    pub struct Patterns, "Topic patterns" {
        /// Whether clients may ask to be told when topics come and go. Off, they poll.
        watchers: bool = "enableBrokerTopicListWatcher", Flag, default true;
        /// Whether lists of topics are filtered by the client's pattern before they are sent. Off, clients filter them.
        evaluation: bool = "enableBrokerSideSubscriptionPatternEvaluation", Flag, default true;
        /// The longest pattern that is evaluated here, in bytes; longer ones are left to the client.
        max_length: NonZeroU32 = "subscriptionPatternMaxLength", Number(NonZeroU32::MIN, MAX_PATTERN),
            default const { NonZeroU32::new(50).unwrap() };
    }
}

const MAX_PATTERN: NonZeroU32 = NonZeroU32::new(65_536).unwrap();
