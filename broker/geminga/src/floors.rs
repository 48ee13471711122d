//! What each floor is told, from the configuration.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use admin::{AdminOptions, AuditFiles, MetricsOptions};
use ledger::log::LogOptions;
use ledger::{LedgerLimits, Retention};
use metadata::EmbeddedOptions;
use metadata::clusters::Cluster;
use metadata::namespaces::Policies;
use serde_json::{Value, json};
use server::{AuthSettings, CrowdLimit, Listen, ServerSettings, TlsSettings, TokenSettings};
use topic::{
    CompactionRules, Deduplication, DispatchRates, PublishRates, Quota, QuotaPolicy, Quotas, Rate, Rates, SharedLimiter, TopicSettings,
};

use crate::config::auth::Provider;
use crate::config::checks::exposure;
use crate::config::limits::InactiveMode;
use crate::config::listeners::{AdvertisedListener, Endpoint, Scheme};
use crate::config::machine::{most_working_loops, processors};
use crate::config::topics::AutoTopicType;
use crate::config::{self, Auth, BacklogQuotas, ByteSize, Config, Metrics, Tls};

/// A consumer that seeks comes back after its back-off; until then a reader's cursor must be kept for it.
const NON_DURABLE_GRACE: Duration = Duration::from_secs(30);

/// A hundred years: far enough, and no sum with it overflows.
const NEVER_MS: u64 = 100 * 365 * 86_400_000;

/// The event loops and what they serve.
///
/// # Errors
/// A host that cannot be resolved.
pub fn server_settings(config: &Config, epoch: u64) -> io::Result<ServerSettings> {
    let endpoints = config.network.endpoints();
    let (connections, memory) = (&config.connections, &config.memory);
    Ok(ServerSettings {
        cluster: config.network.cluster_name.clone(),
        io_threads: connections.io_threads,
        working_loops: most_working_loops(processors()),
        turn_interval: connections.turn_interval,
        stats_interval: config.metrics.interval,
        stats_delay: config.metrics.delay,
        pulsar: sockets(&endpoints, Scheme::Pulsar)?,
        pulsar_tls: sockets(&endpoints, Scheme::PulsarTls)?,
        http: sockets(&endpoints, Scheme::Http)?,
        https: sockets(&endpoints, Scheme::Https)?,
        tls: tls_settings(&config.tls),
        auth: auth_settings(&config.auth),
        max_message_bytes: connections.max_message_size.as_usize(),
        keep_alive: connections.keep_alive,
        handshake_timeout: connections.handshake_timeout,
        max_connections: limit(connections.max_connections) as usize,
        max_connections_per_ip: limit(connections.max_connections_per_ip) as usize,
        max_http_connections: config.http.max_connections.get() as usize,
        max_pending_publishes: connections.max_pending_publishes.get() as usize,
        publish_buffer_bytes: memory.publish_buffer.as_usize(),
        held_publish_bytes: config.rates.held_publishes.as_usize(),
        log_queue_bytes: memory.log_queue.as_usize(),
        cache_bytes: memory.cache.as_usize(),
        out_buffer_bytes: connections.out_buffer_high.as_usize(),
        out_buffers_bytes: memory.out_buffers.as_usize(),
        write_stall_timeout: connections.write_stall_timeout,
        max_clients_per_connection: connections.max_clients_per_connection.get() as usize,
        max_lookups: connections.max_lookups.get() as usize,
        max_topic_loads: connections.max_topic_loads.get() as usize,
        persistent_topics: config.topics.persistent,
        control_threads: config.storage.control_threads.get() as usize,
        auto_topic_creation: config.topics.auto_creation,
        auto_topic_partitions: auto_partitions(config),
        max_partitions: limit(config.topics.max_partitions),
        non_persistent_topics: config.topics.non_persistent,
        topic_watchers: config.patterns.watchers,
        pattern_evaluation: config.patterns.evaluation,
        pattern_max_length: config.patterns.max_length.get() as usize,
        default_bundles: config.topics.default_bundles.get(),
        schemas: metadata::schemas::Defaults {
            strategy: config.schemas.strategy,
            system_strategy: config.schemas.system_strategy,
            auto_update: config.schemas.auto_update,
            enforced: config.schemas.enforced,
        },
        shutdown_timeout: config.upkeep.shutdown_timeout,
        unacked: crowd_limit(config),
        topic: topic_settings(config, epoch),
        policies: broker_policies(config),
    })
}

fn tls_settings(tls: &Tls) -> Option<TlsSettings> {
    let (Some(certificate), Some(key)) = (tls.certificate.clone(), tls.key.clone()) else { return None };
    Some(TlsSettings {
        certificate,
        key,
        trust: tls.trust.clone(),
        allow_strangers: tls.allow_insecure,
        require_certificate: tls.require_client_certificate,
        versions: tls.protocols.clone(),
        cipher_suites: tls.ciphers.clone(),
        refresh: tls.refresh,
    })
}

fn auth_settings(auth: &Auth) -> Option<AuthSettings> {
    let takes = |provider| auth.providers.contains(&provider);
    auth.authentication.then(|| AuthSettings {
        token: takes(Provider::Token).then(|| TokenSettings {
            secret: auth.token_secret.clone(),
            public: auth.token_public.clone(),
            algorithm: auth.token_algorithm,
            role_claim: auth.token_claim.clone(),
            audience_claim: auth.token_audience_claim.clone(),
            audience: auth.token_audience.clone(),
            leeway: auth.token_leeway.unwrap_or_default(),
        }),
        passwords: auth.passwords.clone().filter(|_| takes(Provider::Basic)),
        tls: takes(Provider::Tls),
        anonymous: auth.anonymous.clone(),
        refresh: auth.refresh,
        proxy_roles: auth.proxy_roles.clone(),
        verify_original: auth.verify_original,
        authorize: auth.authorization,
        max_failures: auth.max_failures,
        superusers: auth.superusers.clone(),
        wildcards: auth.wildcards,
    })
}

fn crowd_limit(config: &Config) -> Option<CrowdLimit> {
    let messages = config.dispatch.max_unacked_per_broker?.get();
    let share = config.dispatch.unacked_share;
    (share > 0.0).then(|| CrowdLimit { messages: u64::from(messages), per_subscription: (f64::from(messages) * share) as u64 })
}

fn auto_partitions(config: &Config) -> Option<u32> {
    match config.topics.auto_creation_type {
        AutoTopicType::NonPartitioned => None,
        AutoTopicType::Partitioned => Some(config.topics.default_partitions.get()),
    }
}

fn topic_settings(config: &Config, epoch: u64) -> TopicSettings {
    let (dispatch, ledgers, topics, timing) = (&config.dispatch, &config.ledgers, &config.topics, &config.timing);
    TopicSettings {
        ledger: LedgerLimits {
            max_entries: ledgers.max_entries.get(),
            max_bytes: ledgers.max_size.get(),
            min_age_ms: millis(ledgers.min_rollover),
            max_age_ms: millis(ledgers.max_rollover),
        },
        retention: Retention {
            time_ms: topics.retention_time.map_or(-1, signed_millis),
            size_bytes: topics.retention_size.map_or(-1, signed_bytes),
        },
        max_entry_bytes: config.connections.max_message_size.as_usize() + wire::FRAME_PADDING,
        max_read_entries: dispatch.max_read_entries.get() as usize,
        min_read_entries: dispatch.min_read_entries.get() as usize,
        max_read_bytes: dispatch.max_read_bytes.as_usize(),
        max_round_robin: dispatch.max_round_robin_entries.get() as usize,
        failover_delay_ms: millis(dispatch.failover_delay),
        max_unacked_per_consumer: limit(dispatch.max_unacked_per_consumer),
        max_unacked_per_subscription: limit(dispatch.max_unacked_per_subscription),
        max_look_ahead_per_consumer: dispatch.max_look_ahead_per_consumer as usize,
        max_look_ahead_per_subscription: dispatch.max_look_ahead_per_subscription as usize,
        key_shared_points: if dispatch.key_shared_ring { dispatch.key_shared_points.get() } else { 0 },
        mark_delete_rate: ledgers.mark_delete_rate,
        cursor_flush_ms: millis(ledgers.cursor_flush),
        max_ranges: ledgers.max_acked_ranges.get() as usize,
        max_batches: ledgers.max_batch_acks.get() as usize,
        cursor_ledger_max_entries: ledgers.cursor_max_entries.get(),
        batch_index_ack: topics.batch_index_acks,
        non_durable_grace_ms: millis(NON_DURABLE_GRACE),
        retention_check_ms: topics.retention_check.map_or(NEVER_MS, millis),
        deduplication: Deduplication {
            enabled: config.deduplication.enabled,
            snapshot_entries: u64::from(config.deduplication.snapshot_entries.get()),
            snapshot_ms: millis(config.deduplication.snapshot_interval),
            max_producers: config.deduplication.max_producers.get() as usize,
            forget_after_ms: millis(config.deduplication.inactivity),
        },
        delayed_tick_ms: if timing.delayed { millis(timing.tick).max(1) } else { 0 },
        max_delay_ms: timing.max_delay.map_or(0, millis),
        message_ttl_ms: timing.ttl.map_or(0, millis),
        expiry_check_ms: millis(timing.expiry_check),
        limits: topic::Limits {
            producers_of_address: limit(config.limits.producers_of_address),
            consumers_of_address: limit(config.limits.consumers_of_address),
            ..topic::Limits::default()
        },
        idle: topic::Idleness::default(),
        compaction: CompactionRules {
            threshold_bytes: config.compaction.threshold.get(),
            check_ms: millis(config.compaction.check),
            keep_without_key: config.compaction.retain_null_key,
        },
        auto_subscription: topics.auto_subscription,
        rates: rates(config),
        quota: quota(&config.quotas),
        // The epoch counts the starts on the data directory, so a name is never made twice.
        producer_name_prefix: format!("{}-{}", config.network.cluster_name, epoch),
    }
}

fn rates(config: &Config) -> Rates {
    let rates = &config.rates;
    let for_all = |messages, bytes| SharedLimiter::new(Rate::per_second(messages, bytes)).map(Arc::new);
    Rates {
        publish: PublishRates {
            topic: Rate::per_second(rates.publish_messages, rates.publish_bytes),
            broker: for_all(rates.broker_publish_messages, rates.broker_publish_bytes),
        },
        dispatch: DispatchRates {
            topic: Rate::per_second(rates.topic_dispatch_messages, rates.topic_dispatch_bytes),
            subscription: Rate::per_second(rates.subscription_dispatch_messages, rates.subscription_dispatch_bytes),
            broker: for_all(rates.broker_dispatch_messages, rates.broker_dispatch_bytes),
            batch_counts_once: rates.on_batches,
            spares_followers: !rates.on_followers,
        },
        subscribe: Rate { messages: rates.subscribe, bytes: 0, period_ms: millis(rates.subscribe_period) },
    }
}

fn quota(quotas: &BacklogQuotas) -> Quotas {
    if !quotas.check {
        return Quotas { check_ms: NEVER_MS, ..Quotas::default() };
    }
    let policy = match quotas.policy {
        config::QuotaPolicy::ProducerRequestHold => QuotaPolicy::ProducerRequestHold,
        config::QuotaPolicy::ProducerException => QuotaPolicy::ProducerException,
        config::QuotaPolicy::ConsumerBacklogEviction => QuotaPolicy::ConsumerBacklogEviction,
    };
    let limit = |limit| Quota { limit, policy };
    let in_gib = (quotas.limit_gib > 0.0).then(|| (quotas.limit_gib * f64::from(1 << 30)) as u64);
    let seconds = u64::try_from(quotas.limit_seconds).ok().filter(|seconds| *seconds > 0);
    Quotas {
        size: in_gib.or(quotas.limit_bytes.map(ByteSize::get)).map(limit),
        age: seconds.map(|seconds| limit(seconds * 1_000)),
        check_ms: millis(quotas.check_interval),
    }
}

/// What it says of rates and quotas; nothing of what is without limit.
fn rate_policies(config: &Config) -> Vec<(&'static str, Value)> {
    let cluster = &config.network.cluster_name;
    let (rates, quota) = (rates(config), quota(&config.quotas));
    let none_or = |number: u64| if number == 0 { -1 } else { i64::try_from(number).unwrap_or(i64::MAX) };
    let dispatch = |rate: Rate| {
        let (messages, bytes) = (none_or(rate.messages), none_or(rate.bytes));
        json!({"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": bytes, "ratePeriodInSecond": 1})
    };
    let publish = rates.publish.topic;
    let publish_json =
        json!({"publishThrottlingRateInMsg": none_or(publish.messages), "publishThrottlingRateInByte": none_or(publish.bytes)});
    let subscribe = rates.subscribe;
    let subscribe_json =
        json!({"subscribeThrottlingRatePerConsumer": none_or(subscribe.messages), "ratePeriodInSecond": subscribe.period_ms / 1_000});
    let by_cluster = [
        ("publishMaxMessageRate", publish.is_limited(), publish_json),
        ("topicDispatchRate", rates.dispatch.topic.is_limited(), dispatch(rates.dispatch.topic)),
        ("subscriptionDispatchRate", rates.dispatch.subscription.is_limited(), dispatch(rates.dispatch.subscription)),
        ("clusterSubscribeRate", subscribe.is_limited(), subscribe_json),
    ];
    let said = by_cluster.into_iter().filter(|(_, is_limited, _)| *is_limited);
    let mut policies: Vec<(&'static str, Value)> = said.map(|(field, _, value)| (field, json!({ cluster: value }))).collect();
    let policy = |quota: Quota| match quota.policy {
        QuotaPolicy::ProducerRequestHold => "producer_request_hold",
        QuotaPolicy::ProducerException => "producer_exception",
        QuotaPolicy::ConsumerBacklogEviction => "consumer_backlog_eviction",
    };
    let size = quota.size.map(|quota| ("destination_storage", json!({"limitSize": quota.limit, "limitTime": -1, "policy": policy(quota)})));
    let age = quota.age.map(|quota| ("message_age", json!({"limitSize": -1, "limitTime": quota.limit / 1_000, "policy": policy(quota)})));
    let quotas: serde_json::Map<String, Value> = size.into_iter().chain(age).map(|(kind, quota)| (kind.to_owned(), quota)).collect();
    if !quotas.is_empty() {
        policies.push(("backlog_quota_map", quotas.into()));
    }
    policies
}

/// What the configuration says of what namespaces and topics may say otherwise, in the words of their policies: what of it acts
/// acts from there, and it is what the admin API shows as applied where nothing else is said.
fn broker_policies(config: &Config) -> Policies {
    let (limits, dispatch, topics, timing) = (&config.limits, &config.dispatch, &config.topics, &config.timing);
    let mut policies = Policies::new();
    let mut say = |field: &str, value: Value| {
        // A value that cannot be is a mistake here, not the operator's: configuration is checked before.
        if let Err(error) = policies.set(field, value) {
            tracing::error!(%error, "a setting cannot be said as a policy");
        }
    };
    say("max_topics_per_namespace", limit(limits.topics).into());
    say("max_producers_per_topic", limit(limits.producers).into());
    say("max_consumers_per_topic", limit(limits.consumers).into());
    say("max_consumers_per_subscription", limit(limits.consumers_of_subscription).into());
    say("max_subscriptions_per_topic", limit(limits.subscriptions).into());
    say("max_unacked_messages_per_consumer", limit(dispatch.max_unacked_per_consumer).into());
    say("max_unacked_messages_per_subscription", limit(dispatch.max_unacked_per_subscription).into());
    say("subscription_types_enabled", json!(limits.subscription_types));
    say("message_ttl_in_seconds", timing.ttl.map_or(0, |ttl| ttl.as_secs()).into());
    say("subscription_expiration_time_minutes", config.inactivity.subscription_expiry.map_or(0, |time| time.as_secs() / 60).into());
    say("deduplicationEnabled", config.deduplication.enabled.into());
    say("autoSubscriptionCreationOverride", json!({"allowAutoSubscriptionCreation": topics.auto_subscription}));
    say("compaction_threshold", config.compaction.threshold.get().into());
    say("is_allow_auto_update_schema", config.schemas.auto_update.into());
    say("schema_compatibility_strategy", config.schemas.strategy.name().into());
    say("schema_validation_enforced", config.schemas.enforced.into());
    say(
        "delayed_delivery_policies",
        json!({
            "active": timing.delayed,
            "tickTime": millis(timing.tick),
            "maxDeliveryDelayInMillis": timing.max_delay.map_or(0, millis),
        }),
    );
    say(
        "retention_policies",
        json!({
            "retentionTimeInMinutes": topics.retention_time.map_or(-1, |time| signed_millis(time) / 60_000),
            "retentionSizeInMB": topics.retention_size.map_or(-1, |size| signed_bytes(size) >> 20),
        }),
    );
    for (field, value) in rate_policies(config) {
        say(field, value);
    }
    let after = config.inactivity.after.unwrap_or(config.inactivity.frequency);
    say(
        "inactive_topic_policies",
        json!({
            "inactiveTopicDeleteMode": match config.inactivity.mode {
                InactiveMode::NoSubscriptions => "delete_when_no_subscriptions",
                InactiveMode::CaughtUp => "delete_when_subscriptions_caught_up",
            },
            "maxInactiveDurationSeconds": after.as_secs(),
            "deleteWhileInactive": config.inactivity.delete_topics,
        }),
    );
    policies
}

fn sockets(endpoints: &[Endpoint], scheme: Scheme) -> io::Result<Vec<Listen>> {
    endpoints
        .iter()
        .filter(|endpoint| endpoint.scheme == scheme)
        .map(|e| Ok(Listen { address: resolve(e)?, optional: e.companion }))
        .collect()
}

fn resolve(endpoint: &Endpoint) -> io::Result<SocketAddr> {
    let unknown = |reason: String| {
        io::Error::other(format!("cannot listen on {}: {reason}. Set bindAddress to an address of this machine", endpoint.host))
    };
    let mut addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map_err(|e| unknown(e.to_string()))?;
    addresses.next().ok_or_else(|| unknown("the name has no address".to_owned()))
}

/// What clients are told; the first listener is for those that name none.
pub fn server_endpoints(advertised: &[AdvertisedListener]) -> server::Endpoints {
    let first = advertised.first().cloned().unwrap_or_default();
    server::Endpoints {
        pulsar: first.pulsar.unwrap_or_default(),
        pulsar_tls: first.pulsar_tls,
        http: first.http.unwrap_or_default(),
        https: first.https,
        listeners: advertised
            .iter()
            .map(|l| server::AdvertisedListener { name: l.name.clone(), pulsar: l.pulsar.clone(), pulsar_tls: l.pulsar_tls.clone() })
            .collect(),
    }
}

/// The cluster as it is recorded at the first start.
pub fn cluster(endpoints: &server::Endpoints) -> Cluster {
    let some = |url: &str| (!url.is_empty()).then(|| url.to_owned());
    Cluster {
        service_url: some(&endpoints.http),
        service_url_tls: endpoints.https.clone(),
        broker_service_url: some(&endpoints.pulsar),
        broker_service_url_tls: endpoints.pulsar_tls.clone(),
        ..Cluster::default()
    }
}

/// The shared log. An entry may be as large as a message and its padding.
pub fn log_options(config: &Config) -> LogOptions {
    let storage = &config.storage;
    let max_entry_bytes = config.connections.max_message_size.as_usize() + wire::FRAME_PADDING;
    LogOptions {
        segment_bytes: storage.segment_size.get(),
        recycle: storage.spare_segments as usize,
        compact_below_percent: percent(storage.compact_below),
        reserve_bytes: storage.reserve.get(),
        read_threads: storage.read_threads.get() as usize,
        group_interval: config.connections.turn_interval,
        group_bytes: storage.max_block.as_usize(),
        direct_io: storage.direct_io,
        max_entry_bytes,
        max_block_bytes: LogOptions::default().max_block_bytes.max(2 * max_entry_bytes),
        index_cache_bytes: config.memory.index_cache.as_usize(),
        sync: !config.trial.no_sync,
        slowness: config.trial.slowness(),
        ..LogOptions::default()
    }
}

/// The metadata store.
pub fn metadata_options(config: &Config) -> EmbeddedOptions {
    EmbeddedOptions { cache_bytes: config.memory.metadata_cache.as_usize(), ..EmbeddedOptions::default() }
}

/// The HTTP side.
pub fn admin_options(config: &Config) -> AdminOptions {
    let http = &config.http;
    AdminOptions {
        max_header_bytes: http.max_head.as_usize(),
        max_body_bytes: http.max_body.map_or(AdminOptions::default().max_body_bytes, ByteSize::as_usize),
        max_concurrent_requests: http.max_requests.get() as usize,
        warning: exposure(config).map(str::to_owned),
        not_durable: config.trial.warning().map(str::to_owned),
        read_only: http.read_only,
        audit: http.audit.then(|| AuditFiles { directory: config.storage.data_directory.join("audit"), max_bytes: http.audit_size.get() }),
        masked_fields: http.masked_fields.clone(),
        status_file: config.upkeep.status_file.clone(),
        metrics: metrics_options(config),
        topic_policies: config.limits.topic_policies,
        max_tenants: config.limits.tenants.map(|most| most.get() as usize),
        max_namespaces_per_tenant: config.limits.namespaces.map(|most| most.get() as usize),
        force_delete_tenants: config.limits.force_delete_tenants,
        force_delete_namespaces: config.limits.force_delete_namespaces,
        ..AdminOptions::default()
    }
}

fn metrics_options(config: &Config) -> MetricsOptions {
    let Metrics { topics, max_topics, consumers, producers, managed_ledgers, split_partitions, .. } = config.metrics;
    let memory_limit = config.memory.budget.as_usize();
    MetricsOptions { topics, max_topics, consumers, producers, managed_ledgers, split_partitions, memory_limit }
}

fn limit(limit: Option<NonZeroU32>) -> u32 {
    limit.map_or(0, NonZeroU32::get)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn signed_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn signed_bytes(size: ByteSize) -> i64 {
    i64::try_from(size.get()).unwrap_or(i64::MAX)
}

fn percent(share: f64) -> u8 {
    (share * 100.0).round().clamp(0.0, 100.0) as u8
}
