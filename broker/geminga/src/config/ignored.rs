//! Pulsar's keys that have nothing to act on here: they are named once at start, and do no harm.

/// A key, or every key that begins with it.
pub struct Ignored {
    /// The key, or what the keys of a family begin with.
    pub key: &'static str,
    /// Whether it stands for a family.
    pub family: bool,
    /// Why, and what to use instead.
    pub why: &'static str,
}

/// The entry for `key`, if it is ignored.
pub fn find(key: &str) -> Option<&'static Ignored> {
    let exact = IGNORED.iter().find(|ignored| !ignored.family && ignored.key == key);
    exact.or_else(|| IGNORED.iter().find(|ignored| ignored.family && key.starts_with(ignored.key)))
}

/// Whether `key` asks for an extension that would be a plugin here.
pub fn asks_for_plugin(key: &str) -> bool {
    find(key).is_some_and(|ignored| ignored.why == PLUGINS)
}

/// All of them.
pub fn all() -> &'static [Ignored] {
    IGNORED
}

const fn key(key: &'static str, why: &'static str) -> Ignored {
    Ignored { key, family: false, why }
}
const fn family(key: &'static str, why: &'static str) -> Ignored {
    Ignored { key, family: true, why }
}

const OWN_STORE: &str = "the metadata store is built in";
const OWN_LOG: &str = "the log is built in, there are no bookies";
const LOOPS: &str = "numIOThreads event loops do everything";
const PLUGINS: &str = "use a WebAssembly plugin instead";
const ALONE: &str = "there is one broker";
const PUSHED: &str = "new entries are pushed, nothing polls for them";
const NO_JVM: &str = "there is no Java virtual machine";
const NO_FUNCTIONS: &str = "there is no functions worker";
const NO_CLIENT: &str = "the broker has no client to itself";
const PRECISE: &str = "rate limits are always precise";

static IGNORED: &[Ignored] = &[
    key("metadataStoreUrl", OWN_STORE),
    key("configurationMetadataStoreUrl", OWN_STORE),
    key("zookeeperServers", OWN_STORE),
    key("globalZookeeperServers", OWN_STORE),
    key("configurationStoreServers", OWN_STORE),
    family("metadataStore", OWN_STORE),
    family("configurationMetadataStore", OWN_STORE),
    family("zooKeeper", OWN_STORE),
    family("zookeeper", OWN_STORE),
    key("numHttpServerThreads", LOOPS),
    key("numOrderedExecutorThreads", LOOPS),
    key("numExecutorThreadPoolSize", LOOPS),
    key("numAcceptorThreads", LOOPS),
    key("numCacheExecutorThreadPoolSize", LOOPS),
    key("numLoadManagerThreadPoolSize", LOOPS),
    key("managedLedgerNumSchedulerThreads", LOOPS),
    key("managedLedgerNumWorkerThreads", LOOPS),
    key("dispatcherDispatchMessagesInSubscriptionThread", LOOPS),
    key("httpServerThreadPoolQueueSize", LOOPS),
    key("httpServerAcceptQueueSize", LOOPS),
    key("enableBusyWait", LOOPS),
    key("unblockStuckSubscriptionEnabled", "a subscription with work and permits is never stuck"),
    key("topicPublisherThrottlingTickTimeMillis", PRECISE),
    key("brokerPublisherThrottlingTickTimeMillis", PRECISE),
    key("preciseTopicPublishRateLimiterEnable", PRECISE),
    key("delayedDeliveryTrackerFactoryClassName", "there is one tracker of delayed messages"),
    key("schemaRegistryStorageClassName", "the schema registry is built in"),
    key("schemaRegistryCompatibilityCheckers", "the schema checkers are built in"),
    family("transactionMetadataStore", "transactions keep their state in the log"),
    family("transactionBuffer", "transactions keep their state in the log"),
    family("transactionPendingAck", "transactions keep their state in the log"),
    family("transactionLog", "transactions keep their state in the log"),
    family("brokerClient", NO_CLIENT),
    family("bookkeeper", OWN_LOG),
    key("bookkeeperMetadataServiceUri", OWN_LOG),
    key("managedLedgerCacheCopyEntries", "cached entries are shared with the block they came in"),
    key("managedLedgerNewEntriesCheckDelayInMillis", PUSHED),
    key("lazyCursorRecovery", "cursors are read with their topic"),
    key("managedLedgerForceRecovery", "use autoSkipNonRecoverableData"),
    key("managedLedgerAddEntryTimeoutSeconds", OWN_LOG),
    key("managedLedgerReadEntryTimeoutSeconds", OWN_LOG),
    key("managedLedgerMetadataOperationsTimeoutSeconds", OWN_STORE),
    key("loadManagerClassName", ALONE),
    key("defaultNamespaceBundleSplitAlgorithm", ALONE),
    key("supportedNamespaceBundleSplitAlgorithms", ALONE),
    key("failureDomainsEnabled", ALONE),
    key("tlsProvider", NO_JVM),
    key("webServiceTlsProvider", NO_JVM),
    key("tlsHostnameVerificationEnabled", NO_CLIENT),
    key("isRunningStandalone", "it always is"),
    key("enableRunBookieTogether", OWN_LOG),
    key("enableRunBookieAutoRecoveryTogether", OWN_LOG),
    family("webSocket", "there is no WebSocket service"),
    family("functions", NO_FUNCTIONS),
    key("functionsWorkerEnabled", NO_FUNCTIONS),
    key("functionsWorkerServiceNarPackage", NO_FUNCTIONS),
    key("enablePackagesManagement", NO_FUNCTIONS),
    family("packagesManagement", NO_FUNCTIONS),
    family("packagesReplicas", NO_FUNCTIONS),
    key("clientLibraryVersionCheckEnabled", "clients of every version are welcome"),
    key("messagingProtocols", PLUGINS),
    key("protocolHandlerDirectory", PLUGINS),
    key("brokerInterceptors", PLUGINS),
    key("brokerInterceptorsDirectory", PLUGINS),
    key("additionalServlets", PLUGINS),
    key("additionalServletDirectory", PLUGINS),
    key("narExtractionDirectory", PLUGINS),
    key("bookkeeperClientExposeStatsToPrometheus", OWN_LOG),
    family("dbStorage_", OWN_LOG),
    family("journal", OWN_LOG),
    key("ledgerStorageClass", OWN_LOG),
    key("nettyMaxFrameSizeBytes", OWN_LOG),
    key("flushInterval", OWN_LOG),
    key("diskUsageThreshold", "use logReserveMB"),
    key("diskUsageWarnThreshold", "use logReserveMB"),
    key("allowLoopback", OWN_LOG),
    key("gcWaitTime", OWN_LOG),
    key("bookieId", OWN_LOG),
    key("namespaceBundleUnloadingTimeoutMs", ALONE),
    key("preferLaterVersions", ALONE),
    key("numWorkerThreadsForNonPersistentTopic", LOOPS),
    key("messagePublishBufferCheckIntervalInMillis", "the publish buffer is accounted for at every message"),
    key("maxMessageSizeCheckIntervalInSeconds", "changed policies act at once"),
    key("topicFencingTimeoutSeconds", "a fenced topic is let go of at once"),
    family("dispatcherReadFailureBackoff", "failed reads are tried again with a growing pause"),
    key("keySharedUnblockingIntervalMs", "a blocked key goes on as soon as what blocked it is acked or gone"),
    family("dispatcherRetryBackoff", "dispatch is woken by what it waits for"),
    key("brokerServicePurgeInactiveFrequencyInSeconds", "use brokerDeleteInactiveTopicsFrequencySeconds"),
    key("managedLedgerCacheEvictionFrequency", "use managedLedgerCacheEvictionIntervalMs"),
    family("managedLedgerMinimumBacklog", "the eviction policy decides what is kept"),
    key("managedLedgerMaxBacklogBetweenCursorsForCaching", "the eviction policy decides what is kept"),
    key("managedLedgerUnackedRangesOpenCacheSetEnabled", "acks have one form in memory"),
    key("managedLedgerPrometheusStatsLatencyRolloverSeconds", "use statsUpdateFrequencyInSecs"),
    key("managedLedgerTraceTaskExecution", "use --log-level"),
    key("subscriptionKeySharedEnable", "use subscriptionTypesEnabled"),
    key("maxPendingPublishdRequestsPerConnection", "use maxPendingPublishRequestsPerConnection"),
    key("managedLedgerMaxUnackedRangesToPersistInZooKeeper", "use managedLedgerMaxUnackedRangesToPersistInMetadataStore"),
    key("skipBrokerShutdownOnOOM", NO_JVM),
    family("jvm", NO_JVM),
    key("useDnsResolver", NO_JVM),
    family("sasl", "Kerberos is not offered"),
    family("kinit", "Kerberos is not offered"),
    family("athenz", "Athenz is not offered"),
];

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn an_exact_key_is_preferred_to_its_family() {
        assert_eq!(find("functionsWorkerEnabled").map(|i| i.key), Some("functionsWorkerEnabled"));
        assert_eq!(find("bookkeeperClientTimeoutInSeconds").map(|i| i.key), Some("bookkeeper"));
        assert!(find("numIOThreads").is_none());
    }
}
