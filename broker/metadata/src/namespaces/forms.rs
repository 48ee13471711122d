//! What the value of each policy must look like, looked at when it comes in and never again.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::policies::PolicyError;
use super::{
    AutoSubscriptionCreation, AutoTopicCreation, BacklogQuota, Bundles, DelayedDelivery, DispatchRate, InactiveTopics, Persistence,
    PublishRate, QuotaKind, Retention, SubscribeRate, TopicType,
};
use crate::schemas::Strategy;

/// Subscription types, as policies spell them.
pub const SUBSCRIPTION_TYPES: [&str; 4] = ["Exclusive", "Shared", "Failover", "Key_Shared"];

/// The form of a policy's value, as far as it is looked at before it is used.
#[derive(Clone, Copy)]
enum Form {
    Flag,
    /// A whole number of 32 bits.
    Number,
    /// A whole number of 64 bits.
    LongNumber,
    /// A number of something, which cannot be negative.
    Count,
    Text,
    Object,
    Names,
    Bundles,
    Retention,
    /// Quotas by what they are about.
    Quotas,
    /// Rates by cluster.
    DispatchRates,
    PublishRates,
    SubscribeRates,
    Persistence,
    InactiveTopics,
    DelayedDelivery,
    AutoTopicCreation,
    AutoSubscriptionCreation,
    SubscriptionTypes,
    /// What schemas may follow what.
    Strategy,
    /// The same in the words of an older policy.
    AutoUpdate,
}

/// Whether a policy can have a value; one that Pulsar does not have can have any.
pub(super) fn check(field: &str, value: &Value) -> Result<(), PolicyError> {
    let Some((_, form)) = FORMS.iter().find(|(name, _)| *name == field).filter(|_| !value.is_null()) else { return Ok(()) };
    form.check(value).map_err(|reason| PolicyError { field: field.to_owned(), reason })
}

impl Form {
    fn check(self, value: &Value) -> Result<(), String> {
        match self {
            Form::Flag => read::<bool>(value).map(drop),
            Form::Number => read::<i32>(value).map(drop),
            Form::LongNumber => read::<i64>(value).map(drop),
            Form::Count => read::<u32>(value).map(drop),
            Form::Text => read::<String>(value).map(drop),
            Form::Object => read::<Map<String, Value>>(value).map(drop),
            Form::Names => read::<Vec<String>>(value).map(drop),
            Form::Bundles => read::<Bundles>(value).map(drop),
            Form::Retention => read(value).and_then(retention),
            Form::Quotas => read::<BTreeMap<QuotaKind, BacklogQuota>>(value).map(drop),
            Form::DispatchRates => {
                read::<BTreeMap<String, DispatchRate>>(value)?.into_values().try_for_each(|rate| period(rate.period_seconds))
            }
            Form::PublishRates => read::<BTreeMap<String, PublishRate>>(value).map(drop),
            Form::SubscribeRates => {
                read::<BTreeMap<String, SubscribeRate>>(value)?.into_values().try_for_each(|rate| period(rate.period_seconds))
            }
            Form::Persistence => read(value).and_then(persistence),
            Form::InactiveTopics => read(value).and_then(inactive_topics),
            Form::DelayedDelivery => read::<DelayedDelivery>(value).map(drop),
            Form::AutoTopicCreation => read(value).and_then(auto_topic_creation),
            Form::AutoSubscriptionCreation => read::<AutoSubscriptionCreation>(value).map(drop),
            Form::SubscriptionTypes => read(value).and_then(subscription_types),
            Form::Strategy => Strategy::from_name(&read::<String>(value)?).map(drop).map_err(|error| error.to_string()),
            Form::AutoUpdate => Strategy::from_auto_update(&read::<String>(value)?).map(drop).map_err(|error| error.to_string()),
        }
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn retention(retention: Retention) -> Result<(), String> {
    let (time, size) = (retention.time_minutes, retention.size_mb);
    if time < -1 || size < -1 {
        return Err("time and size must be -1 or more".into());
    }
    if (time == 0) != (size == 0) {
        return Err("time and size must both be 0 or both not be 0".into());
    }
    Ok(())
}

fn period(seconds: i32) -> Result<(), String> {
    if seconds > 0 { Ok(()) } else { Err(format!("ratePeriodInSecond must be 1 or more, not {seconds}")) }
}

fn persistence(persistence: Persistence) -> Result<(), String> {
    let Persistence { ensemble, write_quorum, ack_quorum, mark_delete_rate } = persistence;
    // All three 0: not said.
    let unsaid = (ensemble, write_quorum, ack_quorum) == (0, 0, 0);
    let fits = ensemble >= write_quorum && write_quorum >= ack_quorum && ack_quorum > 0;
    if !unsaid && !fits {
        let asked = format!("Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write_quorum}) >= AckQuorum ({ack_quorum})");
        return Err(format!("{asked} must hold, and all of them be 1 or more"));
    }
    if mark_delete_rate.is_finite() { Ok(()) } else { Err("managedLedgerMaxMarkDeleteRate must be a number".into()) }
}

fn inactive_topics(inactive: InactiveTopics) -> Result<(), String> {
    match inactive.after_seconds {
        0 if inactive.delete => Err("maxInactiveDurationSeconds must be 1 or more".into()),
        _ => Ok(()),
    }
}

fn auto_topic_creation(creation: AutoTopicCreation) -> Result<(), String> {
    let partitioned = creation.topic_type == Some(TopicType::Partitioned);
    match creation.default_num_partitions {
        Some(0) | None if creation.allow && partitioned => Err("partitioned topics need defaultNumPartitions of 1 or more".into()),
        Some(_) if creation.allow && !partitioned => Err("topics without partitions have no defaultNumPartitions".into()),
        _ => Ok(()),
    }
}

fn subscription_types(types: Vec<String>) -> Result<(), String> {
    match types.iter().find(|name| !SUBSCRIPTION_TYPES.contains(&name.as_str())) {
        Some(stranger) => Err(format!("{stranger} is no subscription type; there are {}", SUBSCRIPTION_TYPES.join(", "))),
        None => Ok(()),
    }
}

/// The policies that Pulsar has, by their names in the JSON.
pub const POLICY_FIELDS: [&str; FORMS.len()] = {
    let mut names = [""; FORMS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FORMS[at].0;
        at += 1;
    }
    names
};

const FORMS: [(&str, Form); 51] = [
    ("auth_policies", Form::Object),
    ("replication_clusters", Form::Names),
    ("allowed_clusters", Form::Names),
    ("bundles", Form::Bundles),
    ("backlog_quota_map", Form::Quotas),
    ("clusterDispatchRate", Form::DispatchRates),
    ("topicDispatchRate", Form::DispatchRates),
    ("subscriptionDispatchRate", Form::DispatchRates),
    ("replicatorDispatchRate", Form::DispatchRates),
    ("clusterSubscribeRate", Form::SubscribeRates),
    ("publishMaxMessageRate", Form::PublishRates),
    ("persistence", Form::Persistence),
    ("deduplicationEnabled", Form::Flag),
    ("deduplicationSnapshotIntervalSeconds", Form::Number),
    ("autoTopicCreationOverride", Form::AutoTopicCreation),
    ("autoSubscriptionCreationOverride", Form::AutoSubscriptionCreation),
    ("latency_stats_sample_rate", Form::Object),
    ("message_ttl_in_seconds", Form::Count),
    ("subscription_expiration_time_minutes", Form::Count),
    ("retention_policies", Form::Retention),
    ("deleted", Form::Flag),
    ("encryption_required", Form::Flag),
    ("delayed_delivery_policies", Form::DelayedDelivery),
    ("inactive_topic_policies", Form::InactiveTopics),
    ("subscription_auth_mode", Form::Text),
    ("max_producers_per_topic", Form::Count),
    ("max_consumers_per_topic", Form::Count),
    ("max_consumers_per_subscription", Form::Count),
    ("max_unacked_messages_per_consumer", Form::Number),
    ("max_unacked_messages_per_subscription", Form::Number),
    ("max_subscriptions_per_topic", Form::Count),
    ("max_topics_per_namespace", Form::Count),
    ("max_message_size", Form::Count),
    ("compaction_threshold", Form::LongNumber),
    ("offload_threshold", Form::LongNumber),
    ("offload_threshold_in_seconds", Form::LongNumber),
    ("offload_deletion_lag_ms", Form::LongNumber),
    ("schema_auto_update_compatibility_strategy", Form::AutoUpdate),
    ("schema_compatibility_strategy", Form::Strategy),
    ("is_allow_auto_update_schema", Form::Flag),
    ("schema_validation_enforced", Form::Flag),
    ("offload_policies", Form::Object),
    ("entryFilters", Form::Object),
    ("subscription_types_enabled", Form::SubscriptionTypes),
    ("properties", Form::Object),
    ("resource_group_name", Form::Text),
    ("migrated", Form::Flag),
    ("dispatcherPauseOnAckStatePersistentEnabled", Form::Flag),
    ("replicate_subscription_state", Form::Flag),
    ("namespaceAntiAffinityGroup", Form::Text),
    ("bookieAffinityGroup", Form::Object),
];
