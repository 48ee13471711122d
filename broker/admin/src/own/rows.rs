//! Rows of the lists: what they hold, which columns they have, and how partitions become one row.

use serde::Serialize;
use server::ConnectionStats;
use server::stats::{ConsumerStats, ProducerStats, SubscriptionStats, TopicStats};
use wire::TopicName;

use super::inventory::moment;
use super::page::{Cell, columns};

/// One topic; a partitioned one is the sum of its partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopicRow {
    pub(crate) name: String,
    domain: &'static str,
    tenant: String,
    namespace: String,
    topic: String,
    /// None for a topic without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    /// How many of its partitions, or itself, are loaded.
    loaded: u32,
    pub(crate) producers: u64,
    pub(crate) consumers: u64,
    pub(crate) subscriptions: u64,
    msg_rate_in: f64,
    msg_throughput_in: f64,
    msg_rate_out: f64,
    msg_throughput_out: f64,
    msg_in_counter: u64,
    bytes_in_counter: u64,
    msg_out_counter: u64,
    bytes_out_counter: u64,
    pub(crate) msg_backlog: u64,
    unacked_messages: u64,
    pub(crate) storage_size: u64,
}

columns!(TopicRow, name, {
    "name" => |row| Cell::Text(&row.name),
    "domain" => |row| Cell::Text(row.domain),
    "tenant" => |row| Cell::Text(&row.tenant),
    "namespace" => |row| Cell::Text(&row.namespace),
    "topic" => |row| Cell::Text(&row.topic),
    "partitions" => |row| Cell::Number(f64::from(row.partitions.unwrap_or(0))),
    "loaded" => |row| Cell::Number(f64::from(row.loaded)),
    "producers" => |row| Cell::Number(row.producers as f64),
    "consumers" => |row| Cell::Number(row.consumers as f64),
    "subscriptions" => |row| Cell::Number(row.subscriptions as f64),
    "msgRateIn" => |row| Cell::Number(row.msg_rate_in),
    "msgThroughputIn" => |row| Cell::Number(row.msg_throughput_in),
    "msgRateOut" => |row| Cell::Number(row.msg_rate_out),
    "msgThroughputOut" => |row| Cell::Number(row.msg_throughput_out),
    "msgInCounter" => |row| Cell::Number(row.msg_in_counter as f64),
    "bytesInCounter" => |row| Cell::Number(row.bytes_in_counter as f64),
    "msgOutCounter" => |row| Cell::Number(row.msg_out_counter as f64),
    "bytesOutCounter" => |row| Cell::Number(row.bytes_out_counter as f64),
    "msgBacklog" => |row| Cell::Number(row.msg_backlog as f64),
    "unackedMessages" => |row| Cell::Number(row.unacked_messages as f64),
    "storageSize" => |row| Cell::Number(row.storage_size as f64),
});

impl TopicRow {
    /// A topic of which nothing is known but its name.
    pub(crate) fn named(name: &TopicName, partitions: Option<u32>) -> Self {
        Self {
            name: name.to_string(),
            domain: name.domain().as_str(),
            tenant: name.tenant().to_owned(),
            namespace: name.namespace_str().to_owned(),
            topic: name.local().to_owned(),
            partitions,
            ..Self::default()
        }
    }

    /// The numbers of a loaded topic, without its name and the count of its subscriptions: those of partitions have names in common.
    pub(crate) fn of(stats: &TopicStats) -> Self {
        let consumers = stats.subscriptions.iter().map(|s| s.consumers.len() as u64).sum();
        Self {
            loaded: 1,
            producers: stats.producers.len() as u64,
            consumers,
            msg_in_counter: stats.messages_in,
            bytes_in_counter: stats.bytes_in,
            msg_out_counter: stats.messages_out,
            bytes_out_counter: stats.bytes_out,
            msg_backlog: stats.subscriptions.iter().map(|s| s.backlog).sum(),
            unacked_messages: stats.subscriptions.iter().map(|s| s.unacked_messages).sum(),
            storage_size: stats.storage_bytes,
            msg_rate_in: stats.rates.messages_in,
            msg_throughput_in: stats.rates.bytes_in,
            msg_rate_out: stats.rates.messages_out,
            msg_throughput_out: stats.rates.bytes_out,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, part: &Self) {
        self.loaded += part.loaded;
        self.producers += part.producers;
        self.consumers += part.consumers;
        self.msg_in_counter += part.msg_in_counter;
        self.bytes_in_counter += part.bytes_in_counter;
        self.msg_out_counter += part.msg_out_counter;
        self.bytes_out_counter += part.bytes_out_counter;
        self.msg_backlog += part.msg_backlog;
        self.unacked_messages += part.unacked_messages;
        self.storage_size += part.storage_size;
        self.msg_rate_in += part.msg_rate_in;
        self.msg_throughput_in += part.msg_throughput_in;
        self.msg_rate_out += part.msg_rate_out;
        self.msg_throughput_out += part.msg_throughput_out;
    }

    /// Rates since another look, which are fresher than those of the last period of statistics.
    pub(crate) fn take_rates(&mut self, old: &Self, seconds: f64) {
        self.msg_rate_in = rate(self.msg_in_counter, old.msg_in_counter, seconds);
        self.msg_throughput_in = rate(self.bytes_in_counter, old.bytes_in_counter, seconds);
        self.msg_rate_out = rate(self.msg_out_counter, old.msg_out_counter, seconds);
        self.msg_throughput_out = rate(self.bytes_out_counter, old.bytes_out_counter, seconds);
    }
}

/// One subscription of a topic; of a partitioned topic, the sum over its partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionRow {
    #[serde(skip)]
    pub(crate) id: String,
    topic: String,
    pub(crate) name: String,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    durable: bool,
    consumers: u64,
    msg_backlog: u64,
    unacked_messages: u64,
    msg_delayed: u64,
    blocked: bool,
    msg_rate_out: f64,
    msg_throughput_out: f64,
    msg_out_counter: u64,
    bytes_out_counter: u64,
    msg_redelivered: u64,
    msg_expired: u64,
}

columns!(SubscriptionRow, id, {
    "topic" => |row| Cell::Text(&row.topic),
    "name" => |row| Cell::Text(&row.name),
    "type" => |row| Cell::Text(row.kind),
    "durable" => |row| Cell::Flag(row.durable),
    "consumers" => |row| Cell::Number(row.consumers as f64),
    "msgBacklog" => |row| Cell::Number(row.msg_backlog as f64),
    "unackedMessages" => |row| Cell::Number(row.unacked_messages as f64),
    "msgDelayed" => |row| Cell::Number(row.msg_delayed as f64),
    "blocked" => |row| Cell::Flag(row.blocked),
    "msgRateOut" => |row| Cell::Number(row.msg_rate_out),
    "msgThroughputOut" => |row| Cell::Number(row.msg_throughput_out),
    "msgOutCounter" => |row| Cell::Number(row.msg_out_counter as f64),
    "bytesOutCounter" => |row| Cell::Number(row.bytes_out_counter as f64),
    "msgRedelivered" => |row| Cell::Number(row.msg_redelivered as f64),
    "msgExpired" => |row| Cell::Number(row.msg_expired as f64),
});

impl SubscriptionRow {
    pub(crate) fn of(stats: SubscriptionStats) -> Self {
        Self {
            kind: stats.kind,
            durable: stats.durable,
            consumers: stats.consumers.len() as u64,
            msg_backlog: stats.backlog,
            unacked_messages: stats.unacked_messages,
            msg_delayed: stats.delayed,
            blocked: stats.blocked_on_unacked,
            msg_out_counter: stats.messages_out,
            bytes_out_counter: stats.bytes_out,
            msg_redelivered: stats.messages_redelivered,
            msg_expired: stats.messages_expired,
            msg_rate_out: stats.rates.messages_out,
            msg_throughput_out: stats.rates.bytes_out,
            name: stats.name,
            ..Self::default()
        }
    }

    /// The same, as a row of a topic.
    pub(crate) fn under(self, topic: &str) -> Self {
        Self { id: format!("{topic} {}", self.name), topic: topic.to_owned(), ..self }
    }

    pub(crate) fn add(&mut self, part: Self) {
        if self.kind.is_empty() {
            self.kind = part.kind;
        }
        self.durable |= part.durable;
        self.consumers += part.consumers;
        self.msg_backlog += part.msg_backlog;
        self.unacked_messages += part.unacked_messages;
        self.msg_delayed += part.msg_delayed;
        self.blocked |= part.blocked;
        self.msg_out_counter += part.msg_out_counter;
        self.bytes_out_counter += part.bytes_out_counter;
        self.msg_redelivered += part.msg_redelivered;
        self.msg_expired += part.msg_expired;
        self.msg_rate_out += part.msg_rate_out;
        self.msg_throughput_out += part.msg_throughput_out;
    }

    pub(crate) fn take_rates(&mut self, old: &Self, seconds: f64) {
        self.msg_rate_out = rate(self.msg_out_counter, old.msg_out_counter, seconds);
        self.msg_throughput_out = rate(self.bytes_out_counter, old.bytes_out_counter, seconds);
    }
}

/// How far a counter came; one that began anew came from nothing.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 { 0.0 } else { now.checked_sub(before).unwrap_or(now) as f64 / seconds }
}

/// A producer or a consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRow {
    #[serde(skip)]
    id: String,
    topic: String,
    /// Of a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    access_mode: &'static str,
    address: String,
    client_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_since: Option<String>,
    msg_counter: u64,
    bytes_counter: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_permits: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unacked_messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<bool>,
}

columns!(ClientRow, id, {
    "topic" => |row| Cell::Text(&row.topic),
    "subscription" => |row| Cell::Text(row.subscription.as_deref().unwrap_or_default()),
    "name" => |row| Cell::Text(&row.name),
    "address" => |row| Cell::Text(&row.address),
    "clientVersion" => |row| Cell::Text(&row.client_version),
    "connectedSince" => |row| Cell::Text(row.connected_since.as_deref().unwrap_or_default()),
    "msgCounter" => |row| Cell::Number(row.msg_counter as f64),
    "bytesCounter" => |row| Cell::Number(row.bytes_counter as f64),
    "availablePermits" => |row| Cell::Number(row.available_permits.unwrap_or(0) as f64),
    "unackedMessages" => |row| Cell::Number(row.unacked_messages.unwrap_or(0) as f64),
    "blocked" => |row| Cell::Flag(row.blocked.unwrap_or(false)),
});

impl ClientRow {
    /// The clients of a topic or of a partition.
    pub(crate) fn all_of(topic: &TopicName, stats: TopicStats, rows: &mut Vec<Self>) {
        rows.extend(stats.producers.into_iter().map(|producer| Self::producer(topic, producer)));
        for subscription in stats.subscriptions {
            let name = subscription.name;
            rows.extend(subscription.consumers.into_iter().map(|consumer| Self::consumer(topic, &name, consumer)));
        }
    }

    pub(crate) fn is_producer(&self) -> bool {
        self.subscription.is_none()
    }

    fn producer(topic: &TopicName, stats: ProducerStats) -> Self {
        Self {
            id: format!("{topic} {} {} {}", stats.name, stats.address, stats.id),
            topic: topic.to_string(),
            name: stats.name,
            access_mode: stats.access_mode,
            address: stats.address,
            client_version: stats.client_version,
            connected_since: moment(stats.connected_since_ms),
            msg_counter: stats.messages_in,
            bytes_counter: stats.bytes_in,
            ..Self::default()
        }
    }

    fn consumer(topic: &TopicName, subscription: &str, stats: ConsumerStats) -> Self {
        Self {
            id: format!("{topic} {subscription} {} {} {}", stats.name, stats.address, stats.id),
            topic: topic.to_string(),
            subscription: Some(subscription.to_owned()),
            name: stats.name,
            address: stats.address,
            client_version: stats.client_version,
            connected_since: moment(stats.connected_since_ms),
            msg_counter: stats.messages_out,
            bytes_counter: stats.bytes_out,
            available_permits: Some(stats.available_permits),
            unacked_messages: Some(stats.unacked_messages),
            blocked: Some(stats.blocked_on_unacked),
            ..Self::default()
        }
    }
}

/// A connection of the Pulsar protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionRow {
    id: String,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    producers: usize,
    consumers: usize,
    open_ms: u64,
    silent_ms: u64,
    out_buffer_bytes: usize,
    pending_publishes: usize,
    paused: bool,
}

columns!(ConnectionRow, id, {
    "id" => |row| Cell::Text(&row.id),
    "address" => |row| Cell::Text(&row.address),
    "clientVersion" => |row| Cell::Text(row.client_version.as_deref().unwrap_or_default()),
    "role" => |row| Cell::Text(row.role.as_deref().unwrap_or_default()),
    "producers" => |row| Cell::Number(row.producers as f64),
    "consumers" => |row| Cell::Number(row.consumers as f64),
    "openMs" => |row| Cell::Number(row.open_ms as f64),
    "silentMs" => |row| Cell::Number(row.silent_ms as f64),
    "outBufferBytes" => |row| Cell::Number(row.out_buffer_bytes as f64),
    "pendingPublishes" => |row| Cell::Number(row.pending_publishes as f64),
    "paused" => |row| Cell::Flag(row.paused),
});

impl From<ConnectionStats> for ConnectionRow {
    fn from(stats: ConnectionStats) -> Self {
        Self {
            id: stats.id,
            address: stats.address.to_string(),
            client_version: stats.client_version,
            role: stats.role,
            producers: stats.producers,
            consumers: stats.consumers,
            open_ms: stats.open_ms,
            silent_ms: stats.silent_ms,
            out_buffer_bytes: stats.out_buffer_bytes,
            pending_publishes: stats.pending_publishes,
            paused: stats.paused,
        }
    }
}
