//! What the server must be told; built from the configuration by the front door.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use metadata::namespaces::Policies;
use metadata::schemas::Defaults;
use topic::TopicSettings;

use crate::auth::AuthSettings;
use crate::tls::TlsSettings;

/// A socket to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Its address; port 0 takes the port that an earlier one of the same protocol got, or any free one.
    pub address: SocketAddr,
    /// Whether the server starts without it, as for ::1 on a machine without IPv6.
    pub optional: bool,
}

/// What the Shared and Key_Shared subscriptions of all topics together may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdLimit {
    /// Unacked messages (`maxUnackedMessagesPerBroker`).
    pub messages: u64,
    /// From then on, and until less than half as many are unacked, a subscription that holds more than this gets nothing more
    /// (`maxUnackedMessagesPerSubscriptionOnBrokerBlocked`).
    pub per_subscription: u64,
}

/// Settings of a running server. Sizes are bytes; totals are divided between the workers.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The cluster's name.
    pub cluster: String,
    /// Event loops.
    pub io_threads: NonZeroUsize,
    /// How many of them get topics and connections at most.
    pub working_loops: NonZeroUsize,
    /// How long a busy loop lets pass from the beginning of a turn to that of the next; zero never rests.
    pub turn_interval: Duration,
    /// How often rates are made anew.
    pub stats_interval: Duration,
    /// When they are made for the first time.
    pub stats_delay: Duration,
    /// Sockets of the Pulsar protocol.
    pub pulsar: Vec<Listen>,
    /// Sockets of the Pulsar protocol over TLS.
    pub pulsar_tls: Vec<Listen>,
    /// Sockets of HTTP.
    pub http: Vec<Listen>,
    /// Sockets of HTTP over TLS.
    pub https: Vec<Listen>,
    /// Keys and certificates; needed for sockets over TLS.
    pub tls: Option<TlsSettings>,
    /// Who is believed; none where nobody is asked.
    pub auth: Option<AuthSettings>,
    /// The largest message a client may send.
    pub max_message_bytes: usize,
    /// A connection silent for this long is asked for a sign of life, and closed after as long again.
    pub keep_alive: Duration,
    /// A connection that did not introduce itself by then is closed.
    pub handshake_timeout: Duration,
    /// Connections at most, 0 = no limit.
    pub max_connections: usize,
    /// Connections from one address at most, 0 = no limit.
    pub max_connections_per_ip: usize,
    /// Publishes of one connection that may wait for the disk.
    pub max_pending_publishes: usize,
    /// Bytes of publishes that may wait for the disk, all connections together.
    pub publish_buffer_bytes: usize,
    /// Bytes of publishes of one connection that topics may hold back because their rates are spent.
    pub held_publish_bytes: usize,
    /// Bytes of blocks that may be on their way to the log, all workers together.
    pub log_queue_bytes: usize,
    /// Bytes of the entry cache, all workers together.
    pub cache_bytes: usize,
    /// Bytes a connection's out buffer may hold before its consumers get nothing more.
    pub out_buffer_bytes: usize,
    /// Bytes of all out buffers together; beyond it each connection may hold little.
    pub out_buffers_bytes: usize,
    /// A connection whose peer takes nothing for this long, while bytes wait for it, is closed.
    pub write_stall_timeout: Duration,
    /// Producers and consumers of one connection at most.
    pub max_clients_per_connection: usize,
    /// Lookups and questions for partitions or topics that may be in flight.
    pub max_lookups: usize,
    /// Topics that are loaded at the same time at most.
    pub max_topic_loads: usize,
    /// Whether persistent topics are served.
    pub persistent_topics: bool,
    /// Threads for metadata commits and topic loads.
    pub control_threads: usize,
    /// HTTP connections at most.
    pub max_http_connections: usize,
    /// Whether a topic comes into being when a client asks for it.
    pub auto_topic_creation: bool,
    /// Partitions of such a topic; none for a topic without partitions.
    pub auto_topic_partitions: Option<u32>,
    /// Whether non-persistent topics are served.
    pub non_persistent_topics: bool,
    /// Whether clients may watch the topics of a namespace.
    pub topic_watchers: bool,
    /// Whether lists of topics are filtered here by the client's pattern.
    pub pattern_evaluation: bool,
    /// The longest pattern over topics, in bytes.
    pub pattern_max_length: usize,
    /// Partitions a partitioned topic may have, 0 = no limit.
    pub max_partitions: u32,
    /// Bundles of a new namespace.
    pub default_bundles: u32,
    /// How long a drain may take.
    pub shutdown_timeout: Duration,
    /// What holds for the schemas of topics where their namespace says nothing.
    pub schemas: Defaults,
    /// What consumers may hold of all topics together; none for no limit.
    pub unacked: Option<CrowdLimit>,
    /// Settings of topics.
    pub topic: TopicSettings,
    /// What the configuration says of what namespaces and topics may say otherwise; it speaks over `topic`.
    pub policies: Policies,
}

impl ServerSettings {
    /// Event loops that get topics and connections.
    pub(crate) fn loops(&self) -> usize {
        self.io_threads.min(self.working_loops).get()
    }

    /// One worker's share of a total.
    pub(crate) fn share(&self, total: usize) -> usize {
        total / self.loops()
    }
}
