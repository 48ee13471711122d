//! What an operator can choose about the HTTP side.

use std::path::PathBuf;
use std::time::Duration;

use crate::own::audit::AuditFiles;

/// Limits and switches of the HTTP side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminOptions {
    /// Bytes a request's line and headers may have; beyond it the answer is 431. At least 1 KiB is sensible.
    pub max_header_bytes: usize,
    /// Bytes a body may have; beyond it the answer is 413.
    pub max_body_bytes: usize,
    /// Requests carried out at once, over all connections; beyond it the answer is 503.
    pub max_concurrent_requests: usize,
    /// From the first byte of a header to its last.
    pub header_timeout: Duration,
    /// From the end of a header to the end of the body; beyond it the answer is 408.
    pub body_timeout: Duration,
    /// How long a request may be carried out; beyond it the answer is 503.
    pub request_timeout: Duration,
    /// A connection on which nothing moves for so long is closed.
    pub idle_timeout: Duration,
    /// How long a verdict on the broker's health is repeated before it is looked at again.
    pub health_lasts: Duration,
    /// `/status.html` is `OK` only while this file exists; none: always.
    pub status_file: Option<PathBuf>,
    /// What metrics tell.
    pub metrics: MetricsOptions,
    /// Whether a tenant may be deleted with all it has.
    pub force_delete_tenants: bool,
    /// Whether a namespace may be deleted with all it has.
    pub force_delete_namespaces: bool,
    /// Whether topics may have policies of their own.
    pub topic_policies: bool,
    /// Tenants there may be; none for no limit.
    pub max_tenants: Option<usize>,
    /// Namespaces that a tenant may have; none for no limit.
    pub max_namespaces_per_tenant: Option<usize>,
    /// What an operator should know about the configuration; the health report carries it.
    pub warning: Option<String>,
    /// Why what is stored may be lost, if the broker was told not to care.
    pub not_durable: Option<String>,
    /// Whether every call that changes something is refused.
    pub read_only: bool,
    /// Where it is written down who did what; none: nowhere.
    pub audit: Option<AuditFiles>,
    /// Fields of messages whose values are not shown to those who look at messages.
    pub masked_fields: Vec<String>,
    /// The level of Pulsar's API that is served, as tools expect it from `/admin/v2/brokers/version`.
    pub pulsar_level: String,
    /// The commit this was built from, for `pulsar_version_info`.
    pub commit: String,
}

/// How much metrics tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Topics one by one, or by namespace.
    pub topics: bool,
    /// Beyond so many topics they are told by namespace.
    pub max_topics: usize,
    /// Consumers one by one, where topics are.
    pub consumers: bool,
    /// Producers one by one, where topics are.
    pub producers: bool,
    /// What is stored, by namespace.
    pub managed_ledgers: bool,
    /// A partition's number as a label of its own instead of in the topic's name.
    pub split_partitions: bool,
    /// Bytes of memory that this process may use.
    pub memory_limit: usize,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            topics: true,
            max_topics: 10_000,
            consumers: false,
            producers: false,
            managed_ledgers: true,
            split_partitions: false,
            memory_limit: 0,
        }
    }
}

impl Default for AdminOptions {
    fn default() -> Self {
        Self {
            max_header_bytes: 8 * 1024,
            max_body_bytes: 1024 * 1024,
            max_concurrent_requests: 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            health_lasts: Duration::from_secs(1),
            status_file: None,
            metrics: MetricsOptions::default(),
            force_delete_tenants: false,
            force_delete_namespaces: false,
            topic_policies: true,
            max_tenants: None,
            max_namespaces_per_tenant: None,
            warning: None,
            not_durable: None,
            read_only: false,
            audit: None,
            masked_fields: Vec::new(),
            pulsar_level: "4.0.0".to_owned(),
            commit: "unknown".to_owned(),
        }
    }
}
