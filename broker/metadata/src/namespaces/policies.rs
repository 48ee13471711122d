//! The policies of a namespace or of a topic: Pulsar's JSON as it stands, every field kept, those in use read as types.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::forms::check;
use super::{
    AutoSubscriptionCreation, AutoTopicCreation, BacklogQuota, Bundles, DelayedDelivery, DispatchRate, InactiveTopics, Persistence,
    PublishRate, QuotaKind, Retention, SubscribeRate,
};
use crate::schemas::Strategy;

/// The policies. Fields that Pulsar has are checked when they come in; fields it does not have are kept unseen.
/// A field that is `null` is not set. Topics spell theirs as namespaces do, so that both are read by the same code.
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

    /// What holds where these speak over `below`: of a topic over its namespace, of a namespace over the configuration. Rates by cluster
    /// and quotas by kind are compared one by one.
    #[must_use]
    pub fn over(&self, below: &Policies) -> Policies {
        let mut merged = below.clone();
        for (field, value) in self.fields.iter().filter(|(field, value)| !is_silent(field, value)) {
            match (merged.fields.get_mut(field), value) {
                (Some(Value::Object(there)), Value::Object(entries)) if BY_KEY.contains(&field.as_str()) => {
                    there.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                _ => drop(merged.fields.insert(field.clone(), value.clone())),
            }
        }
        merged
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
    /// How much may wait for subscriptions.
    pub fn backlog_quota(&self, kind: QuotaKind) -> Option<BacklogQuota> {
        self.read::<BTreeMap<QuotaKind, BacklogQuota>>("backlog_quota_map")?.remove(&kind)
    }
    /// How fast messages may come in, in this cluster.
    pub fn publish_rate(&self, cluster: &str) -> Option<PublishRate> {
        self.of_cluster("publishMaxMessageRate", cluster)
    }
    /// How fast messages of one topic may go out, in this cluster.
    pub fn dispatch_rate(&self, cluster: &str) -> Option<DispatchRate> {
        self.of_cluster("topicDispatchRate", cluster)
    }
    /// How fast messages of one subscription may go out, in this cluster.
    pub fn subscription_dispatch_rate(&self, cluster: &str) -> Option<DispatchRate> {
        self.of_cluster("subscriptionDispatchRate", cluster)
    }
    /// How fast messages may go out to another cluster.
    pub fn replicator_dispatch_rate(&self, cluster: &str) -> Option<DispatchRate> {
        self.of_cluster("replicatorDispatchRate", cluster)
    }
    /// How often one consumer may subscribe, in this cluster.
    pub fn subscribe_rate(&self, cluster: &str) -> Option<SubscribeRate> {
        self.of_cluster("clusterSubscribeRate", cluster)
    }
    /// How often cursors are written, and what BookKeeper would do.
    pub fn persistence(&self) -> Option<Persistence> {
        self.read("persistence")
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
    /// Whether, when and how soon a topic that nobody uses is deleted.
    pub fn inactive_topics(&self) -> Option<InactiveTopics> {
        self.read("inactive_topic_policies")
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
    /// Types of subscriptions that there may be; none where nothing is said, which an empty list says, too.
    pub fn subscription_types(&self) -> Option<Vec<String>> {
        self.read::<Vec<String>>("subscription_types_enabled").filter(|types| !types.is_empty())
    }
    /// A policy that is a limit on a number of things, by its name in the JSON; 0 is no limit.
    pub fn limit(&self, field: &str) -> Option<u32> {
        self.number(field).and_then(|number| u32::try_from(number).ok())
    }
    /// Bytes of a topic beyond which it is compacted; 0 is never.
    pub fn compaction_threshold(&self) -> Option<u64> {
        self.number("compaction_threshold").map(|bytes| u64::try_from(bytes).unwrap_or(0))
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

    fn of_cluster<T: DeserializeOwned>(&self, field: &str, cluster: &str) -> Option<T> {
        self.field(field)?.get(cluster).and_then(|value| T::deserialize(value).ok())
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

/// Policies whose value is a map of what is said one by one.
const BY_KEY: [&str; 7] = [
    "backlog_quota_map",
    "clusterDispatchRate",
    "topicDispatchRate",
    "subscriptionDispatchRate",
    "replicatorDispatchRate",
    "clusterSubscribeRate",
    "publishMaxMessageRate",
];

/// Whether a value leaves its policy to what is below. Older tools write -1 and UNDEFINED for that.
fn is_silent(field: &str, value: &Value) -> bool {
    match field {
        _ if value.is_null() => true,
        "schema_compatibility_strategy" => value == "UNDEFINED",
        "max_unacked_messages_per_consumer" | "max_unacked_messages_per_subscription" => value.as_i64().is_some_and(|most| most < 0),
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(json: Value) -> Policies {
        Policies::from_json(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_is_nearer_speaks_over_what_is_further() {
        let broker = policies(json!({"max_producers_per_topic": 1, "message_ttl_in_seconds": 1, "max_consumers_per_topic": 1}));
        let namespace = policies(json!({"max_producers_per_topic": 2, "message_ttl_in_seconds": 2}));
        let topic = policies(json!({"max_producers_per_topic": 3, "message_ttl_in_seconds": null}));
        let effective = topic.over(&namespace.over(&broker));
        assert_eq!(effective, policies(json!({"max_producers_per_topic": 3, "message_ttl_in_seconds": 2, "max_consumers_per_topic": 1})));
    }

    #[test]
    fn what_older_tools_write_for_nothing_says_nothing() {
        let namespace = policies(json!({"max_unacked_messages_per_consumer": 7, "schema_compatibility_strategy": "FULL"}));
        let topic = policies(json!({"max_unacked_messages_per_consumer": -1, "schema_compatibility_strategy": "UNDEFINED"}));
        assert_eq!(topic.over(&namespace), namespace);
    }

    #[test]
    fn quotas_and_rates_are_compared_one_by_one() {
        let quota = |size: i64| json!({"limitSize": size, "limitTime": -1, "policy": "producer_exception"});
        let namespace = policies(json!({"backlog_quota_map": {"destination_storage": quota(1), "message_age": quota(2)}}));
        let topic = policies(json!({"backlog_quota_map": {"message_age": quota(3)}}));
        let effective = topic.over(&namespace);
        assert_eq!(effective.backlog_quota(QuotaKind::DestinationStorage).unwrap().limit_size, 1);
        assert_eq!(effective.backlog_quota(QuotaKind::MessageAge).unwrap().limit_size, 3);
        let rate = |messages: i64| json!({"c": {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}});
        let topic = policies(json!({"publishMaxMessageRate": rate(5)}));
        let effective = topic.over(&policies(json!({"publishMaxMessageRate": {}})));
        assert_eq!(effective.publish_rate("c"), Some(PublishRate { messages: 5, bytes: -1 }));
        assert_eq!(effective.publish_rate("d"), None);
    }
}
