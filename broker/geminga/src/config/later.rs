//! Pulsar's keys that are known and not acted on yet: they are checked, kept and shown, so that a file written for Pulsar
//! loads and a wrong value is found on the day it is written.

use super::amounts::{milliseconds, seconds};
use super::forms::{Check, Flag, List, Number, Text};

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
const COUNT: &dyn Check = &Number(0u64, i64::MAX as u64);
const POSITIVE: &dyn Check = &Number(1u64, u32::MAX as u64);
const SHARE: &dyn Check = &Number(0.0f64, 1.0);
const SECONDS: &dyn Check = &seconds(1, u32::MAX as u64);
const MILLISECONDS: &dyn Check = &milliseconds(0, u32::MAX as u64);

static GROUPS: &[(&str, &[Later])] = &[
    ("Protection", &[not_yet("encryptionRequireOnProducer", FLAG, "false"), not_yet("haProxyProtocolEnabled", FLAG, "false")]),
    ("TLS", &[not_yet("tlsEnabledWithKeyStore", FLAG, "false")]),
    (
        "Limits on requests",
        &[
            not_yet("maxConcurrentNonPersistentMessagePerConnection", COUNT, "1000"),
            not_yet("httpRequestsLimitEnabled", FLAG, "false"),
            not_yet("httpRequestsMaxPerSecond", &Number(0.0f64, 1e9), "100"),
            not_yet("disableHttpDebugMethods", FLAG, "false"),
        ],
    ),
    (
        "Rates",
        &[
            not_yet("dispatchThrottlingRatePerReplicatorInMsg", COUNT, "0"),
            not_yet("dispatchThrottlingRatePerReplicatorInByte", COUNT, "0"),
            not_yet("dispatchThrottlingRateRelativeToPublishRate", FLAG, "false"),
        ],
    ),
    ("Inactive topics and quotas", &[not_yet("brokerDeleteInactivePartitionedTopicMetadataEnabled", FLAG, "false")]),
    (
        "Subscriptions",
        &[
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
            not_yet("brokerServiceCompactionPhaseOneLoopTimeInSeconds", SECONDS, "30"),
        ],
    ),
    (
        "Policies",
        &[
            not_yet("systemTopicEnabled", FLAG, "true"),
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
