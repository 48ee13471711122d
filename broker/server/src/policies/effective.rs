//! What policies make of a topic's settings: one function of what is configured and what is said, for every kind of topic.
//!
//! What is said is merged before (the topic over its namespace over the broker), so a policy is looked up once here. To have another
//! policy act is to set another field of the settings below.

use metadata::namespaces::{InactiveMode, Policies};
use topic::{Desertion, Idleness, Kinds, Limits, SubscriptionKind, TopicSettings};
use wire::TopicName;

/// The settings of a topic.
pub(crate) fn effective(configured: &TopicSettings, policies: &Policies, topic: &TopicName) -> TopicSettings {
    // The broker's own topics are not the users' to limit.
    let system = topic.local().starts_with("__");
    let mut settings = configured.clone();
    messages(&mut settings, policies);
    delays(&mut settings, policies);
    unacked(&mut settings, policies);
    if !system {
        settings.limits = limits(configured.limits, policies);
        settings.idle = idleness(configured.idle, policies);
    }
    if let Some(creation) = policies.auto_subscription_creation() {
        settings.auto_subscription = creation.allow;
    }
    settings
}

fn messages(settings: &mut TopicSettings, policies: &Policies) {
    if let Some(enabled) = policies.deduplication() {
        settings.deduplication.enabled = enabled;
    }
    if let Some(seconds) = policies.message_ttl_seconds() {
        settings.message_ttl_ms = u64::from(seconds) * 1_000;
    }
    if let Some(bytes) = policies.compaction_threshold() {
        settings.compaction.threshold_bytes = bytes;
    }
    if let Some(largest) = policies.limit("max_message_size").filter(|largest| *largest > 0) {
        let largest = largest as usize;
        let store = settings.max_entry_bytes;
        settings.max_entry_bytes = if store == 0 { largest } else { largest.min(store) };
    }
}

fn delays(settings: &mut TopicSettings, policies: &Policies) {
    let Some(delayed) = policies.delayed_delivery() else { return };
    settings.delayed_tick_ms = match (delayed.active, delayed.tick_ms) {
        (false, _) => 0,
        (true, 0) => settings.delayed_tick_ms.max(1),
        (true, tick) => tick,
    };
    settings.max_delay_ms = delayed.max_delay_ms;
}

fn unacked(settings: &mut TopicSettings, policies: &Policies) {
    if let Some(most) = policies.limit("max_unacked_messages_per_consumer") {
        settings.max_unacked_per_consumer = most;
    }
    if let Some(most) = policies.limit("max_unacked_messages_per_subscription") {
        settings.max_unacked_per_subscription = most;
    }
}

fn limits(configured: Limits, policies: &Policies) -> Limits {
    let limit = |field, configured| policies.limit(field).unwrap_or(configured);
    Limits {
        producers: limit("max_producers_per_topic", configured.producers),
        consumers: limit("max_consumers_per_topic", configured.consumers),
        consumers_of_subscription: limit("max_consumers_per_subscription", configured.consumers_of_subscription),
        subscriptions: limit("max_subscriptions_per_topic", configured.subscriptions),
        kinds: policies.subscription_types().map_or(configured.kinds, |names| kinds(&names)),
        ..configured
    }
}

fn kinds(names: &[String]) -> Kinds {
    let all = [SubscriptionKind::Exclusive, SubscriptionKind::Shared, SubscriptionKind::Failover, SubscriptionKind::KeyShared];
    all.into_iter().filter(|kind| names.iter().any(|name| name == kind.name())).collect()
}

fn idleness(configured: Idleness, policies: &Policies) -> Idleness {
    let topic = match policies.inactive_topics() {
        Some(rule) => rule.delete.then(|| Desertion {
            after_ms: u64::from(rule.after_seconds) * 1_000,
            caught_up: rule.mode == InactiveMode::DeleteWhenSubscriptionsCaughtUp,
        }),
        None => configured.topic,
    };
    let subscription_ms =
        policies.subscription_expiration_minutes().map_or(configured.subscription_ms, |minutes| u64::from(minutes) * 60_000);
    Idleness { topic, subscription_ms }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configured() -> TopicSettings {
        TopicSettings {
            max_entry_bytes: 1_000,
            max_unacked_per_consumer: 50,
            delayed_tick_ms: 1_000,
            limits: Limits { producers: 9, ..Limits::default() },
            ledger: ledger::LedgerLimits { max_entries: 1_000, max_bytes: 1 << 20, min_age_ms: 0, max_age_ms: 0 },
            retention: ledger::Retention::default(),
            max_read_entries: 100,
            min_read_entries: 1,
            max_read_bytes: 1 << 20,
            max_round_robin: 20,
            failover_delay_ms: 1_000,
            max_unacked_per_subscription: 0,
            max_look_ahead_per_consumer: 0,
            max_look_ahead_per_subscription: 0,
            key_shared_points: 0,
            mark_delete_rate: 1.0,
            cursor_flush_ms: 1_000,
            max_ranges: 1_000,
            max_batches: 1_000,
            cursor_ledger_max_entries: 1_000,
            batch_index_ack: true,
            non_durable_grace_ms: 1_000,
            retention_check_ms: 60_000,
            deduplication: topic::Deduplication::default(),
            max_delay_ms: 0,
            message_ttl_ms: 0,
            expiry_check_ms: 300_000,
            idle: Idleness::default(),
            compaction: topic::CompactionRules::default(),
            auto_subscription: true,
            rates: topic::Rates::default(),
            quota: topic::Quotas::default(),
            producer_name_prefix: "standalone-1".into(),
        }
    }

    fn with(json: Value, topic: &str) -> TopicSettings {
        let policies = Policies::from_json(json.to_string().as_bytes()).unwrap();
        effective(&configured(), &policies, &topic.parse().unwrap())
    }

    fn of(json: Value) -> TopicSettings {
        with(json, "persistent://t/n/x")
    }

    #[test]
    fn what_nothing_is_said_of_is_as_configured() {
        let settings = of(json!({}));
        assert_eq!(format!("{settings:?}"), format!("{:?}", configured()));
    }

    #[test]
    fn every_policy_sets_its_setting() {
        assert!(of(json!({"deduplicationEnabled": true})).deduplication.enabled);
        assert_eq!(of(json!({"message_ttl_in_seconds": 3})).message_ttl_ms, 3_000);
        assert_eq!(of(json!({"compaction_threshold": 5})).compaction.threshold_bytes, 5);
        assert_eq!(of(json!({"max_unacked_messages_per_consumer": 0})).max_unacked_per_consumer, 0);
        assert_eq!(of(json!({"max_unacked_messages_per_subscription": 7})).max_unacked_per_subscription, 7);
        assert!(!of(json!({"autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": false}})).auto_subscription);
        let limits = of(json!({
            "max_producers_per_topic": 1, "max_consumers_per_topic": 2, "max_consumers_per_subscription": 3, "max_subscriptions_per_topic": 4,
            "subscription_types_enabled": ["Shared"],
        }))
        .limits;
        assert_eq!((limits.producers, limits.consumers, limits.consumers_of_subscription, limits.subscriptions), (1, 2, 3, 4));
        assert!(limits.kinds.contains(SubscriptionKind::Shared) && !limits.kinds.contains(SubscriptionKind::KeyShared));
        let idle = of(json!({"subscription_expiration_time_minutes": 2})).idle;
        assert_eq!(idle, Idleness { topic: None, subscription_ms: 120_000 });
    }

    #[test]
    fn no_topic_takes_larger_messages_than_the_store() {
        assert_eq!(of(json!({"max_message_size": 10})).max_entry_bytes, 10);
        assert_eq!(of(json!({"max_message_size": 10_000})).max_entry_bytes, 1_000);
        assert_eq!(of(json!({"max_message_size": 0})).max_entry_bytes, 1_000);
    }

    #[test]
    fn delays_are_switched_off_or_timed_as_said_or_as_configured() {
        let delayed = |active, tick| of(json!({"delayed_delivery_policies": {"active": active, "tickTime": tick}})).delayed_tick_ms;
        assert_eq!((delayed(false, 5), delayed(true, 5), delayed(true, 0)), (0, 5, 1_000));
    }

    #[test]
    fn inactive_topics_are_deleted_as_said() {
        let inactive = |mode, delete| {
            let rule = json!({"inactiveTopicDeleteMode": mode, "maxInactiveDurationSeconds": 5, "deleteWhileInactive": delete});
            of(json!({"inactive_topic_policies": rule})).idle.topic
        };
        assert_eq!(inactive("delete_when_no_subscriptions", true), Some(Desertion { after_ms: 5_000, caught_up: false }));
        assert_eq!(inactive("delete_when_subscriptions_caught_up", true), Some(Desertion { after_ms: 5_000, caught_up: true }));
        assert_eq!(inactive("delete_when_no_subscriptions", false), None);
    }

    #[test]
    fn the_brokers_own_topics_know_no_limits_of_users() {
        let said = json!({"max_producers_per_topic": 1, "message_ttl_in_seconds": 3});
        let settings = with(said, "persistent://t/n/__change_events");
        assert_eq!((settings.limits.producers, settings.message_ttl_ms), (9, 3_000));
    }
}
