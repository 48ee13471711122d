//! How much of everything there may be, and what becomes of what nobody uses.

use std::num::NonZeroU32;
use std::time::Duration;

use super::amounts::{TimeOrOff, TimeUnit, minutes, seconds};
use super::forms::{Flag, Form, LimitOrOff, List, Number, OneOf};
use super::table::settings;

settings! {
    /// How much of everything there may be. Namespaces and topics may say otherwise of their clients.
    pub struct Limits, "Limits on tenants, topics and clients" {
        /// Tenants at most.
        tenants: Option<NonZeroU32> = "maxTenants", LimitOrOff, default None;
        /// Namespaces of one tenant at most.
        namespaces: Option<NonZeroU32> = "maxNamespacesPerTenant", LimitOrOff, default None;
        /// Topics of one namespace at most, partitions counted one by one.
        topics: Option<NonZeroU32> = "maxTopicsPerNamespace", LimitOrOff, default None;
        /// Producers of one topic at most.
        producers: Option<NonZeroU32> = "maxProducersPerTopic", LimitOrOff, default None;
        /// Producers of one topic from one address at most.
        producers_of_address: Option<NonZeroU32> = "maxSameAddressProducersPerTopic", LimitOrOff, default None;
        /// Consumers of one topic at most.
        consumers: Option<NonZeroU32> = "maxConsumersPerTopic", LimitOrOff, default None;
        /// Consumers of one topic from one address at most.
        consumers_of_address: Option<NonZeroU32> = "maxSameAddressConsumersPerTopic", LimitOrOff, default None;
        /// Consumers of one subscription at most.
        consumers_of_subscription: Option<NonZeroU32> = "maxConsumersPerSubscription", LimitOrOff, default None;
        /// Subscriptions of one topic at most.
        subscriptions: Option<NonZeroU32> = "maxSubscriptionsPerTopic", LimitOrOff, default None;
        /// Types of subscriptions that consumers may use.
        subscription_types: Vec<String> = "subscriptionTypesEnabled", SubscriptionTypes, default TYPE_NAMES.map(str::to_owned).to_vec();
        /// Whether single topics may have policies.
        topic_policies: bool = "topicLevelPoliciesEnabled", Flag, default true;
        /// Whether `force` deletes a tenant with all its namespaces and topics.
        force_delete_tenants: bool = "forceDeleteTenantAllowed", Flag, default false;
        /// Whether `force` deletes a namespace with all its topics.
        force_delete_namespaces: bool = "forceDeleteNamespaceAllowed", Flag, default false;
    }
}

/// When a topic that nobody uses is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveMode {
    /// When it has no subscriptions.
    NoSubscriptions,
    /// When its subscriptions have nothing left to read.
    CaughtUp,
}

settings! {
    /// What becomes of topics and subscriptions that nobody uses.
    pub struct Inactivity, "What nobody uses" {
        /// Whether a topic without producers and consumers is deleted after a while. Retention keeps it for as long as it keeps its messages.
        delete_topics: bool = "brokerDeleteInactiveTopicsEnabled", Flag, default true;
        /// Whether that is so even if it has subscriptions with nothing left to read.
        mode: InactiveMode = "brokerDeleteInactiveTopicsMode",
            OneOf(&[("delete_when_no_subscriptions", InactiveMode::NoSubscriptions), ("delete_when_subscriptions_caught_up", InactiveMode::CaughtUp)]),
            default InactiveMode::NoSubscriptions;
        /// After how long. Blank stands for `brokerDeleteInactiveTopicsFrequencySeconds`.
        after: Option<Duration> = "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", OptionalSeconds, default None;
        /// The same, where that is blank: topics are not looked at in turns, each has its own time.
        frequency: Duration = "brokerDeleteInactiveTopicsFrequencySeconds", seconds(1, u32::MAX as u64), default Duration::from_secs(60);
        /// A durable subscription without a consumer is deleted after this time, with what it has not read.
        subscription_expiry: Option<Duration> = "subscriptionExpirationTimeMinutes", TimeOrOff(TimeUnit::Minutes), default None;
        /// How often such subscriptions would be looked for. Each has its own time: the key is accepted either way.
        subscription_check: Duration = "subscriptionExpiryCheckIntervalInMinutes", minutes(1, u32::MAX as u64), default Duration::from_secs(300);
    }
}

/// Seconds, or blank.
#[derive(Clone, Copy)]
struct OptionalSeconds;

impl Form for OptionalSeconds {
    type Value = Option<Duration>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Number(1u64, u32::MAX.into()).parse(text).map(|count| Some(Duration::from_secs(count)))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map_or_else(String::new, |time| time.as_secs().to_string())
    }
    fn allowed(&self) -> String {
        "seconds, or blank".to_owned()
    }
    fn blank(&self) -> Option<Self::Value> {
        Some(None)
    }
}

/// A list of types of subscriptions.
#[derive(Clone, Copy)]
struct SubscriptionTypes;

impl Form for SubscriptionTypes {
    type Value = Vec<String>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let names = List.parse(text)?;
        match names.iter().find(|name| !TYPE_NAMES.contains(&name.as_str())) {
            Some(stranger) => Err(format!("{stranger} is no subscription type")),
            None => Ok(names),
        }
    }
    fn show(&self, value: &Self::Value) -> String {
        List.show(value)
    }
    fn allowed(&self) -> String {
        format!("a list of {}", TYPE_NAMES.join(", "))
    }
}

const TYPE_NAMES: [&str; 4] = ["Exclusive", "Shared", "Failover", "Key_Shared"];
