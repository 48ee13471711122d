//! The policies of a namespace: Pulsar's JSON as it stands, every field kept, those in use read as types.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::Bundles;
use crate::schemas::Strategy;

/// The policies. Fields that Pulsar has are checked when they come in; fields it does not have are kept unseen.
/// A field that is `null` is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Policies {
    fields: Map<String, Value>,
}

/// A value that a policy cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {field}: {reason}")]
pub struct PolicyError {
    /// The policy, by its name in the JSON.
    pub field: String,
    /// What is wrong.
    pub reason: String,
}

/// How long consumed messages are kept; -1 is for ever, 0 and 0 is not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// In minutes.
    #[serde(rename = "retentionTimeInMinutes")]
    pub time_minutes: i64,
    /// In megabytes.
    #[serde(rename = "retentionSizeInMB")]
    pub size_mb: i64,
}

/// What kind of topic comes into being by being used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicType {
    /// One with partitions.
    Partitioned,
    /// One without.
    #[default]
    NonPartitioned,
}

/// Whether a topic comes into being by being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoTopicCreation {
    /// Whether.
    #[serde(rename = "allowAutoTopicCreation")]
    pub allow: bool,
    /// Which kind; none: without partitions.
    #[serde(default)]
    pub topic_type: Option<TopicType>,
    /// How many partitions it gets.
    #[serde(default)]
    pub default_num_partitions: Option<u32>,
}

/// Whether a subscription comes into being by being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoSubscriptionCreation {
    /// Whether.
    #[serde(rename = "allowAutoSubscriptionCreation")]
    pub allow: bool,
}

/// Whether messages may be delivered later than they come, and how late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayedDelivery {
    /// Whether; else they are delivered at once.
    pub active: bool,
    /// How exactly, in milliseconds; 0 leaves it to the configuration.
    #[serde(rename = "tickTime", default)]
    pub tick_ms: u64,
    /// The longest delay that may be asked for, in milliseconds; 0 is no limit.
    #[serde(rename = "maxDeliveryDelayInMillis", default)]
    pub max_delay_ms: u64,
}

impl Policies {
    /// Policies that say nothing.
    pub fn new() -> Policies {
        Policies::default()
    }

    /// From the JSON of the admin API or of the store; `null` says nothing.
    pub fn from_json(json: &[u8]) -> Result<Policies, PolicyError> {
        let broken = |reason: String| PolicyError { field: "policies".into(), reason };
        match serde_json::from_slice(json).map_err(|error| broken(error.to_string()))? {
            Value::Null => Ok(Policies::new()),
            Value::Object(fields) => Policies::from_fields(fields),
            _ => Err(broken("not a JSON object".into())),
        }
    }

    fn from_fields(fields: Map<String, Value>) -> Result<Policies, PolicyError> {
        fields.iter().try_for_each(|(field, value)| check(field, value))?;
        Ok(Policies { fields })
    }

    /// As the admin API shows them.
    pub fn to_json(&self) -> Vec<u8> {
        crate::document::bytes(self)
    }

    /// The value of a policy; none when it is not set.
    pub fn field(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// Sets a policy, by its name in the JSON.
    pub fn set(&mut self, field: &str, value: impl Serialize) -> Result<(), PolicyError> {
        let value = serde_json::to_value(value).map_err(|error| wrong(field, error))?;
        check(field, &value)?;
        self.fields.insert(field.to_owned(), value);
        Ok(())
    }

    /// Unsets a policy; whether it was set.
    pub fn unset(&mut self, field: &str) -> bool {
        self.fields.shift_remove(field).is_some_and(|value| !value.is_null())
    }

    /// All that is stored, in its order.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The bundles it was created with; a stored namespace has them.
    pub fn bundles(&self) -> Option<Bundles> {
        self.read("bundles")
    }
    /// Clusters it is replicated to; the local one alone means not at all.
    pub fn replication_clusters(&self) -> Vec<String> {
        self.read("replication_clusters").unwrap_or_default()
    }
    /// Replaces the clusters.
    pub fn set_replication_clusters(&mut self, clusters: &[String]) {
        self.fields.insert("replication_clusters".into(), json!(clusters));
    }
    /// How long consumed messages are kept.
    pub fn retention(&self) -> Option<Retention> {
        self.read("retention_policies")
    }
    /// After how many seconds a message expires unconsumed; 0 is never.
    pub fn message_ttl_seconds(&self) -> Option<u32> {
        self.read("message_ttl_in_seconds")
    }
    /// Whether messages may be delivered later than they come, and how late.
    pub fn delayed_delivery(&self) -> Option<DelayedDelivery> {
        self.read("delayed_delivery_policies")
    }
    /// After how many minutes an idle subscription is dropped; 0 is never.
    pub fn subscription_expiration_minutes(&self) -> Option<u32> {
        self.read("subscription_expiration_time_minutes")
    }
    /// Whether topics come into being by being used.
    pub fn auto_topic_creation(&self) -> Option<AutoTopicCreation> {
        self.read("autoTopicCreationOverride")
    }
    /// Whether subscriptions come into being by being used.
    pub fn auto_subscription_creation(&self) -> Option<AutoSubscriptionCreation> {
        self.read("autoSubscriptionCreationOverride")
    }
    /// Whether messages sent twice are dropped.
    pub fn deduplication(&self) -> Option<bool> {
        self.read("deduplicationEnabled")
    }
    /// Which schemas may follow those of a topic.
    pub fn schema_strategy(&self) -> Strategy {
        self.field("schema_compatibility_strategy")
            .and_then(Value::as_str)
            .and_then(|word| Strategy::from_name(word).ok())
            .unwrap_or_default()
    }
    /// The same, as an older policy says it.
    pub fn schema_auto_update(&self) -> Option<Strategy> {
        self.field("schema_auto_update_compatibility_strategy")
            .and_then(Value::as_str)
            .and_then(|word| Strategy::from_auto_update(word).ok())
    }
    /// Whether producers and consumers add versions of schemas by bringing them along.
    pub fn allow_schema_update(&self) -> Option<bool> {
        self.read("is_allow_auto_update_schema")
    }
    /// Whether producers without a schema are kept from topics that have one.
    pub fn schema_validation(&self) -> Option<bool> {
        self.read("schema_validation_enforced")
    }
    /// A policy that is a number, by its name in the JSON.
    pub fn number(&self, field: &str) -> Option<i64> {
        self.field(field).and_then(Value::as_i64)
    }
    /// Whether the namespace is being deleted by a broker that does so in two steps.
    pub fn deleted(&self) -> bool {
        self.read("deleted").unwrap_or(false)
    }

    /// What a new namespace has whatever it was asked for: clusters, bundles, and the fields that Pulsar's tools expect.
    pub(crate) fn fill_in(&mut self, local_cluster: &str, bundles: u32) -> Result<(), PolicyError> {
        if self.replication_clusters().is_empty() {
            self.set("replication_clusters", [local_cluster])?;
        }
        // Spelt out in full even if only a count was asked for.
        let bundles = match self.bundles() {
            Some(bundles) => bundles,
            None => Bundles::even(bundles).map_err(|error| wrong("bundles", error))?,
        };
        self.set("bundles", bundles)?;
        for (field, value) in expected_by_tools() {
            self.fields.entry(field).or_insert(value);
        }
        Ok(())
    }

    // Checked when it came in, so a value that does not fit cannot be here.
    fn read<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        self.field(field).and_then(|value| T::deserialize(value).ok())
    }
}

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Policies, D::Error> {
        Policies::from_fields(Map::deserialize(from)?).map_err(D::Error::custom)
    }
}

fn expected_by_tools() -> [(&'static str, Value); 12] {
    [
        ("auth_policies", json!({"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}})),
        ("backlog_quota_map", json!({})),
        ("clusterDispatchRate", json!({})),
        ("topicDispatchRate", json!({})),
        ("subscriptionDispatchRate", json!({})),
        ("replicatorDispatchRate", json!({})),
        ("clusterSubscribeRate", json!({})),
        ("publishMaxMessageRate", json!({})),
        ("latency_stats_sample_rate", json!({})),
        ("deleted", json!(false)),
        ("encryption_required", json!(false)),
        ("properties", json!({})),
    ]
}

fn wrong(field: &str, reason: impl std::fmt::Display) -> PolicyError {
    PolicyError { field: field.to_owned(), reason: reason.to_string() }
}

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
    DelayedDelivery,
    AutoTopicCreation,
    AutoSubscriptionCreation,
    /// What schemas may follow what.
    Strategy,
    /// The same in the words of an older policy.
    AutoUpdate,
}

fn check(field: &str, value: &Value) -> Result<(), PolicyError> {
    let Some((_, form)) = FORMS.iter().find(|(name, _)| *name == field).filter(|_| !value.is_null()) else { return Ok(()) };
    match form {
        Form::Flag => fits::<bool>(value),
        Form::Number => fits::<i32>(value),
        Form::LongNumber => fits::<i64>(value),
        Form::Count => fits::<u32>(value),
        Form::Text => fits::<String>(value),
        Form::Object => fits::<Map<String, Value>>(value),
        Form::Names => fits::<Vec<String>>(value),
        Form::Bundles => fits::<Bundles>(value),
        Form::Retention => fits::<Retention>(value).and_then(|()| check_retention(value)),
        Form::DelayedDelivery => fits::<DelayedDelivery>(value),
        Form::AutoTopicCreation => fits::<AutoTopicCreation>(value).and_then(|()| check_auto_topic_creation(value)),
        Form::AutoSubscriptionCreation => fits::<AutoSubscriptionCreation>(value),
        Form::Strategy => String::deserialize(value)
            .map_err(|error| error.to_string())
            .and_then(|word| Strategy::from_name(&word).map(drop).map_err(|error| error.to_string())),
        Form::AutoUpdate => String::deserialize(value)
            .map_err(|error| error.to_string())
            .and_then(|word| Strategy::from_auto_update(&word).map(drop).map_err(|error| error.to_string())),
    }
    .map_err(|reason| wrong(field, reason))
}

fn fits<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|error| error.to_string())
}

fn check_retention(value: &Value) -> Result<(), String> {
    let retention = Retention::deserialize(value).map_err(|error| error.to_string())?;
    let (time, size) = (retention.time_minutes, retention.size_mb);
    if time < -1 || size < -1 {
        return Err("time and size must be -1 or more".into());
    }
    if (time == 0) != (size == 0) {
        return Err("time and size must both be 0 or both not be 0".into());
    }
    Ok(())
}

fn check_auto_topic_creation(value: &Value) -> Result<(), String> {
    let creation = AutoTopicCreation::deserialize(value).map_err(|error| error.to_string())?;
    let partitioned = creation.topic_type == Some(TopicType::Partitioned);
    match creation.default_num_partitions {
        Some(0) | None if creation.allow && partitioned => Err("partitioned topics need defaultNumPartitions of 1 or more".into()),
        _ => Ok(()),
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

const FORMS: [(&str, Form); 48] = [
    ("auth_policies", Form::Object),
    ("replication_clusters", Form::Names),
    ("allowed_clusters", Form::Names),
    ("bundles", Form::Bundles),
    ("backlog_quota_map", Form::Object),
    ("clusterDispatchRate", Form::Object),
    ("topicDispatchRate", Form::Object),
    ("subscriptionDispatchRate", Form::Object),
    ("replicatorDispatchRate", Form::Object),
    ("clusterSubscribeRate", Form::Object),
    ("publishMaxMessageRate", Form::Object),
    ("persistence", Form::Object),
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
    ("inactive_topic_policies", Form::Object),
    ("subscription_auth_mode", Form::Text),
    ("max_producers_per_topic", Form::Count),
    ("max_consumers_per_topic", Form::Count),
    ("max_consumers_per_subscription", Form::Count),
    ("max_unacked_messages_per_consumer", Form::Number),
    ("max_unacked_messages_per_subscription", Form::Number),
    ("max_subscriptions_per_topic", Form::Count),
    ("max_topics_per_namespace", Form::Count),
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
    ("subscription_types_enabled", Form::Names),
    ("properties", Form::Object),
    ("resource_group_name", Form::Text),
    ("migrated", Form::Flag),
    ("dispatcherPauseOnAckStatePersistentEnabled", Form::Flag),
    ("replicate_subscription_state", Form::Flag),
];
