//! How topics come to be, and what producers and consumers of one may do.

use std::num::NonZeroU32;
use std::time::Duration;

use super::amounts::{ByteSize, SizeOr, SizeUnit, TimeOrForEver, TimeOrOff, TimeUnit, bytes, milliseconds, minutes, seconds};
use super::forms::{Flag, LimitOrOff, Number, OneOf};
use super::table::settings;

/// What a topic becomes that is created by its first producer or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoTopicType {
    /// One topic.
    NonPartitioned,
    /// `defaultNumPartitions` partitions.
    Partitioned,
}

settings! {
    /// How topics and subscriptions come to be, and how long what was consumed is kept.
    pub struct Topics, "Topics" {
        /// Whether persistent topics are served.
        persistent: bool = "enablePersistentTopics", Flag, default true;
        /// Whether non-persistent topics are served.
        non_persistent: bool = "enableNonPersistentTopics", Flag, default true;
        /// Whether the first producer or consumer of a topic creates it. Off, a misspelt name is an error instead of a new topic.
        auto_creation: bool = "allowAutoTopicCreation", Flag, default true, dynamic "at once";
        /// What a topic becomes that is created that way.
        auto_creation_type: AutoTopicType = "allowAutoTopicCreationType",
            OneOf(&[("non-partitioned", AutoTopicType::NonPartitioned), ("partitioned", AutoTopicType::Partitioned)]),
            default AutoTopicType::NonPartitioned, dynamic "for topics that come later";
        /// Partitions of a topic that is created that way, when partitioned.
        default_partitions: NonZeroU32 = "defaultNumPartitions", Number(NonZeroU32::MIN, MAX_PARTITIONS), default NonZeroU32::MIN,
            dynamic "for topics that come later";
        /// Partitions that one topic may have at most.
        max_partitions: Option<NonZeroU32> = "maxNumPartitionsPerPartitionedTopic", LimitOrOff, default None, dynamic "at once";
        /// Whether the first consumer of a subscription creates it.
        auto_subscription: bool = "allowAutoSubscriptionCreation", Flag, default true, dynamic "at once";
        /// Bundles that a new namespace is divided into: the units in which topics move between brokers.
        default_bundles: NonZeroU32 = "defaultNumberOfNamespaceBundles", Number(NonZeroU32::MIN, MAX_PARTITIONS),
            default const { NonZeroU32::new(4).unwrap() }, pulsar "4; 32 in 5.0",
            dynamic "for namespaces that come later";
        /// Consumed messages are kept this long. Takes disk; readers and new subscriptions can go back as far.
        retention_time: Option<Duration> = "defaultRetentionTimeInMinutes", TimeOrForEver(TimeUnit::Minutes), default Some(Duration::ZERO);
        /// Consumed messages are kept up to this size per topic.
        retention_size: Option<ByteSize> = "defaultRetentionSizeInMB", SizeOr(SizeUnit::Mebibytes, "for ever"), default Some(ByteSize::bytes(0));
        /// How often retention is looked at; off, consumed messages are only let go of when a ledger is closed.
        retention_check: Option<Duration> = "retentionCheckIntervalInSeconds", TimeOrOff(TimeUnit::Seconds), default Some(Duration::from_secs(120));
        /// Whether acks of single messages of a batch are kept. Off, a batch with one unacked message is delivered again as a whole.
        batch_index_acks: bool = "acknowledgmentAtBatchIndexLevelEnabled", Flag, default true, pulsar "false before 4.2";
    }
}

settings! {
    /// How fast and how far messages run ahead of acknowledgements.
    pub struct Dispatch, "Delivery" {
        /// Unacked messages of one consumer of a Shared or Key_Shared subscription at most; it gets nothing more until it acks.
        max_unacked_per_consumer: Option<NonZeroU32> = "maxUnackedMessagesPerConsumer", LimitOrOff, default NonZeroU32::new(50_000),
            dynamic "at once";
        /// Unacked messages of one subscription at most.
        max_unacked_per_subscription: Option<NonZeroU32> = "maxUnackedMessagesPerSubscription", LimitOrOff, default NonZeroU32::new(200_000),
            dynamic "at once";
        /// Unacked messages of the Shared and Key_Shared subscriptions of all topics together. From then on, and until less than half as many
        /// are unacked, those that hold more than their share get nothing more.
        max_unacked_per_broker: Option<NonZeroU32> = "maxUnackedMessagesPerBroker", LimitOrOff, default None;
        /// That share, as a fraction of `maxUnackedMessagesPerBroker`; 0 switches both off.
        unacked_share: f64 = "maxUnackedMessagesPerSubscriptionOnBrokerBlocked", Number(0.0, 1.0), default 0.16;
        /// Entries that one read of a subscription asks for at most. Larger reads cost memory, smaller ones turns.
        max_read_entries: NonZeroU32 = "dispatcherMaxReadBatchSize", Number(NonZeroU32::MIN, MAX_BATCH), default const { NonZeroU32::new(1_000).unwrap() },
            pulsar "100; 500 in 5.0", dynamic "from the next read on";
        /// Entries that the first read after a failed one asks for at most; each read that works doubles it.
        min_read_entries: NonZeroU32 = "dispatcherMinReadBatchSize", Number(NonZeroU32::MIN, MAX_BATCH), default NonZeroU32::MIN,
            dynamic "from the next read on";
        /// Bytes that one read of a subscription asks for at most.
        max_read_bytes: ByteSize = "dispatcherMaxReadSizeBytes", bytes(1, 1 << 40), default ByteSize::mib(5),
            dynamic "from the next read on";
        /// Entries that one consumer of a Shared subscription gets before it is the next one's turn.
        max_round_robin_entries: NonZeroU32 = "dispatcherMaxRoundRobinBatchSize", Number(NonZeroU32::MIN, MAX_BATCH),
            default const { NonZeroU32::new(20).unwrap() }, dynamic "at once";
        /// How long the next consumer of a Failover subscription waits before it takes over, so that acks on their way still count.
        failover_delay: Duration = "activeConsumerFailoverDelayTimeMillis", milliseconds(0, 3_600_000), default Duration::from_secs(1),
            dynamic "from the next change of consumers on";
        /// Entries that may wait per consumer of a Key_Shared subscription, because their keys' owners take no more, while entries for
        /// others are looked for behind them. At the limit nobody gets new entries. 0 is no limit: then that of the subscription counts.
        max_look_ahead_per_consumer: u32 = "keySharedLookAheadMsgInReplayThresholdPerConsumer", Number(0, u32::MAX), default 0, pulsar "2000";
        /// The same for all consumers of a subscription together; the lower of the two counts. Each waiting entry takes about 100 bytes. The
        /// lower it is, the sooner a consumer that has stopped reading holds back those whose keys are free. 0 is no limit.
        max_look_ahead_per_subscription: u32 = "keySharedLookAheadMsgInReplayThresholdPerSubscription", Number(0, u32::MAX), default 200_000, pulsar "20000";
        /// Whether each consumer of a Key_Shared subscription gets the hashes before points on a ring that follow from its name, so that one
        /// that comes back gets the same keys. Otherwise the hashes are split evenly. A subscription keeps to one way while it has consumers.
        key_shared_ring: bool = "subscriptionKeySharedUseConsistentHashing", Flag, default false, pulsar "true";
        /// Points of each consumer on that ring. With more of them shares are more even, and a consumer that comes or goes costs more.
        key_shared_points: NonZeroU32 = "subscriptionKeySharedConsistentHashingReplicaPoints", Number(NonZeroU32::MIN, MAX_POINTS),
            default const { NonZeroU32::new(100).unwrap() };
        /// Whether reads are sized by permits and the messages per entry of late. They always are: the key is accepted either way.
        precise_flow: bool = "preciseDispatcherFlowControl", Flag, default false;
    }
}

settings! {
    /// How messages that a producer sends twice are recognised.
    pub struct Deduplication, "Deduplication" {
        /// Whether they are, in namespaces that have no policy of their own. A load then reads what was stored since the sequence ids were saved.
        enabled: bool = "brokerDeduplicationEnabled", Flag, default false,
            dynamic "at once; topics that it concerns are let go of and come back";
        /// Producers whose sequence ids are saved per topic; beyond it those seen last.
        max_producers: NonZeroU32 = "brokerDeduplicationMaxNumberOfProducers", Number(NonZeroU32::MIN, MAX_BATCH),
            default const { NonZeroU32::new(10_000).unwrap() };
        /// Entries after which the sequence ids are saved. Fewer make loads faster and write more.
        snapshot_entries: NonZeroU32 = "brokerDeduplicationEntriesInterval", Number(NonZeroU32::MIN, MAX_BATCH),
            default const { NonZeroU32::new(1_000).unwrap() };
        /// Time after which they are saved even if fewer entries were stored.
        snapshot_interval: Duration = "brokerDeduplicationSnapshotIntervalSeconds", seconds(1, 86_400), default Duration::from_secs(120);
        /// A name without a producer is forgotten after this time; what it sends again after that is stored again.
        inactivity: Duration = "brokerDeduplicationProducerInactivityTimeoutMinutes", minutes(1, 525_600), default Duration::from_secs(360 * 60);
    }
}

const MAX_PARTITIONS: NonZeroU32 = NonZeroU32::new(1 << 20).unwrap();
const MAX_POINTS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
const MAX_BATCH: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();
