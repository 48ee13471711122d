//! The slots.

use super::shape::Shape;
use super::slot::{Kept, Slot, post, put};
use crate::routes::Mark;

macro_rules! slots {
    ($($mark:ident $field:literal $kept:ident $shape:expr, $namespace:expr, $topic:expr, $what:literal;)*) => {
        &[$(Slot {
            mark: Mark::$mark,
            field: $field,
            kept: Kept::$kept,
            shape: $shape,
            namespace: $namespace,
            topic: $topic,
            what: $what,
        }),*]
    };
}

#[rustfmt::skip]
pub(crate) static SLOTS: &[Slot] = slots![
    Core   "retention_policies" Whole Shape::Retention, Some(post("retention")), Some(post("retention")),
        "how long consumed messages are kept, and how many of them; -1 is for ever";
    Core   "message_ttl_in_seconds" Whole Shape::Ttl, Some(post("messageTTL")), Some(post("messageTTL")),
        "after how many seconds messages expire that nobody acks; 0 is never";
    Core   "backlog_quota_map" ByKind Shape::Quota,
        Some(post("backlogQuota").shown_at("backlogQuotaMap").or("{}")), Some(post("backlogQuota").shown_at("backlogQuotaMap").or("{}")),
        "how much may wait for subscriptions, and what happens beyond it; `backlogQuotaType`";
    Core   "deduplicationEnabled" Whole Shape::Flag, Some(post("deduplication")), Some(post("deduplicationEnabled")),
        "whether messages that are sent twice are stored once";
    Core   "persistence" Whole Shape::Persistence, Some(post("persistence")), Some(post("persistence")),
        "how often cursors are written, and the quorums of BookKeeper";
    Core   "autoTopicCreationOverride" Whole Shape::AutoTopics, Some(post("autoTopicCreation")), None,
        "whether topics come into being by being used, and with how many partitions";
    Common "autoSubscriptionCreationOverride" Whole Shape::AutoSubscriptions,
        Some(post("autoSubscriptionCreation")), Some(post("autoSubscriptionCreation")),
        "whether subscriptions come into being by being used";
    Core   "schema_compatibility_strategy" Whole Shape::Strategy,
        Some(put("schemaCompatibilityStrategy").always("\"UNDEFINED\"")), Some(put("schemaCompatibilityStrategy")),
        "which schemas may follow those of a topic";
    Common "schema_auto_update_compatibility_strategy" Whole Shape::AutoUpdate,
        Some(put("schemaAutoUpdateCompatibilityStrategy").always("\"Full\"")), None,
        "the same, as an older policy says it";
    Core   "schema_validation_enforced" Whole Shape::Flag,
        Some(post("schemaValidationEnforced").always("false")), Some(post("schemaValidationEnforced")),
        "whether producers without a schema are kept from topics that have one";
    Common "is_allow_auto_update_schema" Whole Shape::Flag, Some(post("isAllowAutoUpdateSchema").always("")), None,
        "whether producers and consumers add schemas by bringing them along";
    Common "topicDispatchRate" ByCluster Shape::DispatchRate, Some(post("dispatchRate")), Some(post("dispatchRate")),
        "how fast messages of a topic may go out";
    Common "subscriptionDispatchRate" ByCluster Shape::DispatchRate, Some(post("subscriptionDispatchRate")), Some(post("subscriptionDispatchRate")),
        "how fast messages of a subscription may go out";
    Common "replicatorDispatchRate" ByCluster Shape::DispatchRate, Some(post("replicatorDispatchRate")), Some(post("replicatorDispatchRate")),
        "how fast messages may go out to another cluster";
    Common "clusterSubscribeRate" ByCluster Shape::SubscribeRate, Some(post("subscribeRate")), Some(post("subscribeRate")),
        "how often a consumer may subscribe";
    Common "publishMaxMessageRate" ByCluster Shape::PublishRate, Some(post("publishRate")), Some(post("publishRate")),
        "how fast messages of a topic may come in";
    Common "max_producers_per_topic" Whole Shape::Count("maxProducers must be 0 or more"), Some(post("maxProducersPerTopic")), Some(post("maxProducers")),
        "how many producers a topic may have; 0 is no limit";
    Common "max_consumers_per_topic" Whole Shape::Count("maxConsumers must be 0 or more"), Some(post("maxConsumersPerTopic")), Some(post("maxConsumers")),
        "how many consumers a topic may have; 0 is no limit";
    Common "max_consumers_per_subscription" Whole Shape::Count("maxConsumersPerSubscription must be 0 or more"),
        Some(post("maxConsumersPerSubscription")), Some(post("maxConsumersPerSubscription")),
        "how many consumers a subscription may have; 0 is no limit";
    Common "max_subscriptions_per_topic" Whole Shape::Count("maxSubscriptionsPerTopic must be 0 or more"),
        Some(post("maxSubscriptionsPerTopic")), Some(post("maxSubscriptionsPerTopic")),
        "how many subscriptions a topic may have; 0 is no limit";
    Common "max_topics_per_namespace" Whole Shape::Count("maxTopicsPerNamespace must be 0 or more"), Some(post("maxTopicsPerNamespace")), None,
        "how many topics there may be, partitions one by one; 0 is no limit";
    Common "max_unacked_messages_per_consumer" Whole Shape::Count("maxUnackedNum must be 0 or more"),
        Some(post("maxUnackedMessagesPerConsumer")), Some(post("maxUnackedMessagesOnConsumer")),
        "how many messages a consumer may hold unacked; 0 is no limit";
    Common "max_unacked_messages_per_subscription" Whole Shape::Count("maxUnackedNum must be 0 or more"),
        Some(post("maxUnackedMessagesPerSubscription")), Some(post("maxUnackedMessagesOnSubscription")),
        "how many messages a subscription may hold unacked; 0 is no limit";
    Common "max_message_size" Whole Shape::Count("maxMessageSize must be 0 or more"), None, Some(post("maxMessageSize")),
        "how large a message may be, in bytes; 0 is what the broker takes";
    Common "inactive_topic_policies" Whole Shape::InactiveTopics, Some(post("inactiveTopicPolicies")), Some(post("inactiveTopicPolicies")),
        "when a topic that nobody uses is deleted";
    Common "delayed_delivery_policies" Whole Shape::DelayedDelivery, Some(post("delayedDelivery")), Some(post("delayedDelivery")),
        "whether messages may be delivered later than they come, how exactly and how late";
    Common "subscription_expiration_time_minutes" Whole Shape::Count("Invalid value for subscription expiration time"),
        Some(post("subscriptionExpirationTime")), None,
        "after how many minutes without a consumer a subscription is deleted; 0 is never";
    Common "compaction_threshold" Whole Shape::Bytes("compactionThreshold must be 0 or more"), Some(put("compactionThreshold")), Some(post("compactionThreshold")),
        "beyond how many bytes a topic is compacted; 0 is never";
    Common "encryption_required" Whole Shape::Flag, Some(post("encryptionRequired").always("false")), None,
        "whether messages must be encrypted by their producers";
    Common "subscription_auth_mode" Whole Shape::AuthMode, Some(post("subscriptionAuthMode").always("\"None\"")), None,
        "whether subscriptions must bear their consumer's role in front";
    Common "subscription_types_enabled" Whole Shape::SubscriptionTypes, Some(post("subscriptionTypesEnabled")), Some(post("subscriptionTypesEnabled")),
        "which types of subscriptions there may be";
    Common "deduplicationSnapshotIntervalSeconds" Whole Shape::Count("interval must be greater than or equal to 0"),
        Some(post("deduplicationSnapshotInterval")), Some(post("deduplicationSnapshotInterval")),
        "after how many messages the ids that recognise what is sent twice are saved; kept, not acted on";
    Common "offload_policies" Whole Shape::Offload, Some(post("offloadPolicies").unset_at("removeOffloadPolicies")), Some(post("offloadPolicies")),
        "what is moved to cheaper storage; kept, not acted on";
    Common "offload_threshold" Whole Shape::Number, Some(put("offloadThreshold").always("-1")), None,
        "beyond how many bytes; kept, not acted on";
    Common "offload_threshold_in_seconds" Whole Shape::Number, Some(put("offloadThresholdInSeconds").always("-1")), None,
        "beyond what age; kept, not acted on";
    Common "offload_deletion_lag_ms" Whole Shape::Number, Some(put("offloadDeletionLagMs")), None,
        "how long what was moved is kept here; kept, not acted on";
    Common "namespaceAntiAffinityGroup" Whole Shape::Word, Some(post("antiAffinity")), None,
        "the group of namespaces that should not share a broker; kept, not acted on";
    Common "bookieAffinityGroup" Whole Shape::BookieGroup, Some(post("persistence/bookieAffinity")), None,
        "the bookies that keep its messages; kept, not acted on";
    Common "entryFilters" Whole Shape::EntryFilters, Some(post("entryFilters")), Some(post("entryFilters")),
        "filters of entries; kept, not acted on";
    Common "dispatcherPauseOnAckStatePersistentEnabled" Whole Shape::On,
        Some(post("dispatcherPauseOnAckStatePersistent").or("false")), Some(post("dispatcherPauseOnAckStatePersistent").or("false")),
        "whether delivery waits while too much of what was acked is not stored; kept, not acted on";
];
