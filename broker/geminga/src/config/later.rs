//! Pulsar's keys that are known and not acted on yet: they are checked, kept and shown, so that a file written for Pulsar
//! loads and a wrong value is found on the day it is written.

use super::amounts::{SizeOr, SizeUnit, TimeOrOff, TimeUnit, milliseconds, minutes, seconds};
use super::forms::{Check, Flag, Form, LimitOrOff, List, Number, OneOf, Text};

/// What is done with a key of Pulsar's that Geminga does not act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It will be acted on in a later version.
    NotYet,
    /// It is kept and shown, and changes nothing.
    Kept,
}

/// A key that is known and not acted on yet.
pub struct Later {
    /// Its name.
    pub key: &'static str,
    /// What may be written.
    pub form: &'static dyn Check,
    /// Pulsar's default.
    pub default: &'static str,
    /// What happens to it.
    pub plan: Plan,
}

/// The key, if it is known and not acted on yet.
pub fn find(key: &str) -> Option<&'static Later> {
    GROUPS.iter().flat_map(|(_, keys)| keys.iter()).find(|later| later.key == key)
}

/// All of them, under the headings of the reference page.
pub fn groups() -> &'static [(&'static str, &'static [Later])] {
    GROUPS
}

/// Families of keys of which every member is kept without a check.
pub const KEPT_FAMILIES: &[&str] = &[
    "fileSystem",
    "gcs",
    "loadBalancer",
    "managedLedgerOffload",
    "openID",
    "replicatedSubscriptions",
    "replication",
    "s3ManagedLedger",
    "tlsKeyStore",
    "tlsTrustStore",
];

/// Keys that promise protection which this version does not have: it refuses to start rather than run open.
pub const REFUSED_WHEN_TRUE: &[&str] = &["tlsEnabledWithKeyStore", "encryptionRequireOnProducer"];

const fn not_yet(key: &'static str, form: &'static dyn Check, default: &'static str) -> Later {
    Later { key, form, default, plan: Plan::NotYet }
}
const fn kept(key: &'static str, form: &'static dyn Check, default: &'static str) -> Later {
    Later { key, form, default, plan: Plan::Kept }
}

const FLAG: &dyn Check = &Flag;
const TEXT: &dyn Check = &Text;
const LIST: &dyn Check = &List;
const LIMIT: &dyn Check = &LimitOrOff;
const COUNT: &dyn Check = &Number(0u64, i64::MAX as u64);
const COUNT_OR_OFF: &dyn Check = &Number(-1i64, i64::MAX);
const POSITIVE: &dyn Check = &Number(1u64, u32::MAX as u64);
const SHARE: &dyn Check = &Number(0.0f64, 1.0);
const BYTES_OR_OFF: &dyn Check = &SizeOr(SizeUnit::Bytes, "no limit");
const SECONDS: &dyn Check = &seconds(1, u32::MAX as u64);
const MINUTES: &dyn Check = &minutes(1, u32::MAX as u64);
const MINUTES_OR_OFF: &dyn Check = &TimeOrOff(TimeUnit::Minutes);
const MILLISECONDS: &dyn Check = &milliseconds(0, u32::MAX as u64);
const QUOTA_POLICY: &dyn Check = &OneOf(&[("producer_request_hold", 0), ("producer_exception", 1), ("consumer_backlog_eviction", 2)]);
const INACTIVE_MODE: &dyn Check = &OneOf(&[("delete_when_no_subscriptions", 0), ("delete_when_subscriptions_caught_up", 1)]);
const SUBSCRIPTION_TYPES: &dyn Check = &SubscriptionTypes;

#[derive(Clone, Copy)]
struct SubscriptionTypes;

impl Form for SubscriptionTypes {
    type Value = Vec<String>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let names = List.parse(text)?;
        match names.iter().find(|name| !TYPE_NAMES.contains(&name.as_str())) {
            Some(stranger) => Err(format!("{stranger} is no subscription type")),
            None => Ok(names),
        }
    }
    fn show(&self, value: &Self::Value) -> String {
        List.show(value)
    }
    fn allowed(&self) -> String {
        format!("a list of {}", TYPE_NAMES.join(", "))
    }
}

const TYPE_NAMES: &[&str] = &["Exclusive", "Shared", "Failover", "Key_Shared"];

static GROUPS: &[(&str, &[Later])] = &[
    ("Protection", &[not_yet("encryptionRequireOnProducer", FLAG, "false"), not_yet("haProxyProtocolEnabled", FLAG, "false")]),
    ("TLS", &[not_yet("tlsEnabledWithKeyStore", FLAG, "false")]),
    (
        "Limits on tenants, topics and clients",
        &[
            not_yet("maxTenants", LIMIT, "0"),
            not_yet("maxNamespacesPerTenant", LIMIT, "0"),
            not_yet("maxTopicsPerNamespace", LIMIT, "0"),
            not_yet("maxProducersPerTopic", LIMIT, "0"),
            not_yet("maxConsumersPerTopic", LIMIT, "0"),
            not_yet("maxConsumersPerSubscription", LIMIT, "0"),
            not_yet("maxSubscriptionsPerTopic", LIMIT, "0"),
            not_yet("maxSameAddressProducersPerTopic", LIMIT, "0"),
            not_yet("maxSameAddressConsumersPerTopic", LIMIT, "0"),
            not_yet("maxConcurrentNonPersistentMessagePerConnection", COUNT, "1000"),
            not_yet("forceDeleteTenantAllowed", FLAG, "false"),
            not_yet("forceDeleteNamespaceAllowed", FLAG, "false"),
            not_yet("httpRequestsLimitEnabled", FLAG, "false"),
            not_yet("httpRequestsMaxPerSecond", &Number(0.0f64, 1e9), "100"),
            not_yet("disableHttpDebugMethods", FLAG, "false"),
        ],
    ),
    (
        "Rates",
        &[
            not_yet("brokerPublisherThrottlingMaxMessageRate", COUNT, "0"),
            not_yet("brokerPublisherThrottlingMaxByteRate", COUNT, "0"),
            not_yet("maxPublishRatePerTopicInMessages", COUNT, "0"),
            not_yet("maxPublishRatePerTopicInBytes", COUNT, "0"),
            not_yet("dispatchThrottlingRateInMsg", COUNT, "0"),
            not_yet("dispatchThrottlingRateInByte", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerTopicInMsg", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerTopicInByte", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerSubscriptionInMsg", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerSubscriptionInByte", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerReplicatorInMsg", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerReplicatorInByte", COUNT, "0"),
            not_yet("dispatchThrottlingRateRelativeToPublishRate", FLAG, "false"),
            not_yet("dispatchThrottlingOnNonBacklogConsumerEnabled", FLAG, "true"),
            not_yet("dispatchThrottlingOnBatchMessageEnabled", FLAG, "false"),
            not_yet("subscribeThrottlingRatePerConsumer", COUNT, "0"),
            not_yet("subscribeRatePeriodPerConsumerInSecond", SECONDS, "30"),
        ],
    ),
    (
        "Inactive topics, quotas and expiry",
        &[
            not_yet("brokerDeleteInactiveTopicsEnabled", FLAG, "true"),
            not_yet("brokerDeleteInactiveTopicsFrequencySeconds", SECONDS, "60"),
            not_yet("brokerDeleteInactiveTopicsMode", INACTIVE_MODE, "delete_when_no_subscriptions"),
            not_yet("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", SECONDS, ""),
            not_yet("brokerDeleteInactivePartitionedTopicMetadataEnabled", FLAG, "false"),
            not_yet("backlogQuotaCheckEnabled", FLAG, "true"),
            not_yet("backlogQuotaCheckIntervalInSeconds", SECONDS, "60"),
            not_yet("backlogQuotaDefaultLimitBytes", BYTES_OR_OFF, "-1"),
            not_yet("backlogQuotaDefaultLimitGB", &Number(-1.0f64, 1e9), "-1"),
            not_yet("backlogQuotaDefaultLimitSecond", COUNT_OR_OFF, "-1"),
            not_yet("backlogQuotaDefaultRetentionPolicy", QUOTA_POLICY, "producer_request_hold"),
            not_yet("subscriptionExpirationTimeMinutes", MINUTES_OR_OFF, "0"),
            not_yet("subscriptionExpiryCheckIntervalInMinutes", MINUTES, "5"),
        ],
    ),
    (
        "Subscriptions",
        &[
            not_yet("subscriptionTypesEnabled", SUBSCRIPTION_TYPES, "Exclusive,Shared,Failover,Key_Shared"),
            not_yet("subscriptionRedeliveryTrackerEnabled", FLAG, "true"),
            kept("entryFilterNames", LIST, ""),
            kept("entryFiltersDirectory", TEXT, ""),
            kept("allowOverrideEntryFilters", FLAG, "false"),
        ],
    ),
    (
        "Transactions and compaction",
        &[
            not_yet("transactionCoordinatorEnabled", FLAG, "false"),
            not_yet("brokerServiceCompactionThresholdInBytes", COUNT, "0"),
            not_yet("brokerServiceCompactionMonitorIntervalInSeconds", SECONDS, "60"),
            not_yet("brokerServiceCompactionPhaseOneLoopTimeInSeconds", SECONDS, "30"),
        ],
    ),
    (
        "Policies",
        &[
            not_yet("systemTopicEnabled", FLAG, "true"),
            not_yet("topicLevelPoliciesEnabled", FLAG, "true"),
            not_yet("brokerEntryMetadataInterceptors", LIST, ""),
            not_yet("exposingBrokerEntryMetadataToClientEnabled", FLAG, "false"),
            kept("enableReplicatedSubscriptions", FLAG, "true"),
        ],
    ),
    (
        "Entry cache",
        &[
            not_yet("managedLedgerCacheEvictionWatermark", SHARE, "0.9"),
            not_yet("managedLedgerCacheEvictionIntervalMs", MILLISECONDS, "10"),
            not_yet("managedLedgerCacheEvictionTimeThresholdMillis", MILLISECONDS, "1000"),
            not_yet("cacheEvictionByMarkDeletedPosition", FLAG, "false"),
            not_yet("cacheEvictionByExpectedReadCount", FLAG, "true"),
            not_yet("managedLedgerCursorBackloggedThreshold", COUNT, "1000"),
        ],
    ),
    (
        "Metrics",
        &[
            not_yet("exposeManagedCursorMetricsInPrometheus", FLAG, "false"),
            not_yet("exposePreciseBacklogInPrometheus", FLAG, "false"),
            not_yet("exposeSubscriptionBacklogSizeInPrometheus", FLAG, "false"),
            not_yet("exposeSubscriptionBacklogAgeInPrometheus", FLAG, "false"),
            not_yet("exposeBundlesMetricsInPrometheus", FLAG, "false"),
            not_yet("exposePublisherStats", FLAG, "true"),
            not_yet("aggregatePublisherStatsByProducerName", FLAG, "false"),
            not_yet("exposeCustomTopicMetricLabelsEnabled", FLAG, "false"),
            not_yet("allowedTopicPropertyKeysForMetrics", LIST, ""),
            not_yet("metricsBufferResponse", FLAG, "false"),
            not_yet("authenticateMetricsEndpoint", FLAG, "false"),
            not_yet("metricsServletTimeoutMs", MILLISECONDS, "30000"),
        ],
    ),
    (
        "Replicas",
        &[
            kept("managedLedgerDefaultEnsembleSize", POSITIVE, "2"),
            kept("managedLedgerDefaultWriteQuorum", POSITIVE, "2"),
            kept("managedLedgerDefaultAckQuorum", POSITIVE, "2"),
            kept("managedLedgerPassword", TEXT, ""),
            kept("offloadersDirectory", TEXT, "./offloaders"),
        ],
    ),
];
