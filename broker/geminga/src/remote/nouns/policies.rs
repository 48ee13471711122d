//! Policies: `geminga admin namespaces set-retention …` and `geminga admin topic-policies set-retention …`, from one table.

use super::{NAMESPACE, TOPIC};
use crate::remote::verb::{Arg, Kind, Noun, To, Verb};

/// A policy: at a namespace, at a topic, or at both.
struct Policy {
    /// As in `set-NAME`.
    name: &'static str,
    about: &'static str,
    /// Ends of the paths.
    namespace: Option<&'static str>,
    topic: Option<&'static str>,
    takes: Vec<Arg>,
    example: &'static str,
}

fn policy(name: &'static str, namespace: &'static str, topic: &'static str, about: &'static str) -> Policy {
    let path = |end: &'static str| (!end.is_empty()).then_some(end);
    Policy { name, about, namespace: path(namespace), topic: path(topic), takes: Vec::new(), example: "" }
}

impl Policy {
    fn with(mut self, arg: Arg) -> Self {
        self.takes.push(arg);
        self
    }

    fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }
}

const QUOTA_TYPE: Arg = Arg::flag("type", Kind::OneOf(&["destination_storage", "message_age"]), "What is limited").short('t');

/// Those that cannot be taken back, only set otherwise.
const STAYS: &[&str] = &["encryption-required", "subscription-auth-mode", "schema-compatibility-strategy", "is-allow-auto-update-schema"];

/// Verbs of `geminga admin namespaces`.
pub(super) fn of_namespaces() -> Vec<Verb> {
    let verbs = |policy: &Policy| Some((format!("/admin/v2/namespaces/{{namespace}}/{}", policy.namespace?), NAMESPACE));
    all().iter().filter_map(|policy| verbs(policy).map(|(path, place)| triple(policy, path, place))).flatten().collect()
}

/// `geminga admin topic-policies`
pub(super) fn of_topics() -> Noun {
    let verbs = |policy: &Policy| Some((format!("/admin/v2/{{topic}}/{}", policy.topic?), TOPIC));
    let verbs = all().iter().filter_map(|policy| verbs(policy).map(|(path, place)| triple(policy, path, place))).flatten().collect();
    Noun::new("topic-policies", "Policies of single topics", verbs).also(&["topicPolicies", "topicpolicies"])
}

/// Whether a policy is set by PUT instead of POST.
pub(crate) fn is_put(end: &str, is_topic: bool) -> bool {
    end == "schemaCompatibilityStrategy" || (!is_topic && end == "compactionThreshold")
}

/// Ends of the paths of all policies of namespaces.
pub(crate) fn namespace_policies() -> Vec<&'static str> {
    all().iter().filter_map(|policy| policy.namespace).collect()
}

/// Ends of the paths of all policies of topics.
pub(crate) fn topic_policies() -> Vec<&'static str> {
    all().iter().filter_map(|policy| policy.topic).collect()
}

fn triple(policy: &Policy, path: String, place: Arg) -> Vec<Verb> {
    let Policy { name, about, .. } = policy;
    let is_topic = place.name == "topic";
    let applied = Arg::flag("applied", Kind::Yes, "What is in effect, wherever it comes from").query("applied");
    let whose = if is_topic { "orders" } else { "public/default" };
    let end = path.rsplit('/').next().unwrap_or_default();
    let make = if is_put(end, is_topic) { Verb::put } else { Verb::post };
    let mut set = make(format!("set-{name}"), path.clone(), format!("Set {about}")).with(place);
    for arg in &policy.takes {
        // Of all policies this one alone is sent in the query, and only for topics.
        let is_in_query = is_topic && arg.name == "messageTTL";
        set = set.with(if is_in_query { arg.query("messageTTL") } else { *arg });
    }
    set.example = format!("{whose} {}", policy.example);
    let (read, quota) = match *name {
        "backlog-quota" => (path.replace("backlogQuota", "backlogQuotaMap"), true),
        _ => (path.clone(), false),
    };
    let get = Verb::get(format!("get-{name}{}", if quota { "s" } else { "" }), read, format!("Show {about}")).with(place);
    let remove = Verb::delete(format!("remove-{name}"), path, format!("Take back {about}")).with(place);
    let remove = if quota { remove.with(QUOTA_TYPE.query("backlogQuotaType")) } else { remove };
    let mut verbs = vec![set, get.with(applied).example(whose)];
    if !STAYS.contains(name) {
        verbs.push(remove.example(whose));
    }
    verbs
}

fn all() -> Vec<Policy> {
    let mut all = keeping();
    all.extend(rates());
    all.extend(limits());
    all.extend(switches());
    all
}

fn keeping() -> Vec<Policy> {
    const POLICIES: &[&str] = &["producer_request_hold", "producer_exception", "consumer_backlog_eviction"];
    let modes = Kind::OneOf(&["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"]);
    vec![
        policy("retention", "retention", "retention", "how long acknowledged messages are kept")
            .with(Arg::flag("size", Kind::Megabytes, "At most this much; -1 without limit").short('s').needed().field("retentionSizeInMB"))
            .with(Arg::flag("time", Kind::Minutes, "This long; -1 for ever").short('t').needed().field("retentionTimeInMinutes"))
            .example("--size 10G --time 3h"),
        policy("message-ttl", "messageTTL", "messageTTL", "after what time messages expire that nobody acknowledges")
            .with(
                Arg::flag("messageTTL", Kind::Seconds, "The time; 0 never").short('t').also(&["ttl", "message-ttl"]).needed().to(To::Body),
            )
            .example("--ttl 1d"),
        policy("backlog-quota", "backlogQuota", "backlogQuota", "how much subscriptions may leave unacknowledged")
            .with(Arg::flag("limit", Kind::Bytes, "At most this much").short('l').field("limitSize"))
            .with(Arg::flag("limitTime", Kind::Seconds, "At most this old").also(&["lt", "limit-time"]).field("limitTime"))
            .with(Arg::flag("policy", Kind::OneOf(POLICIES), "What happens beyond").short('p').needed().field("policy"))
            .with(QUOTA_TYPE.or("destination_storage").query("backlogQuotaType"))
            .example("--limit 10G --policy producer_request_hold"),
        policy("persistence", "persistence", "persistence", "how many copies are kept, and how often cursors are written")
            .with(Arg::flag("bookkeeper-ensemble", Kind::Integer, "Copies").short('e').or("1").field("bookkeeperEnsemble"))
            .with(Arg::flag("bookkeeper-write-quorum", Kind::Integer, "Copies").short('w').or("1").field("bookkeeperWriteQuorum"))
            .with(Arg::flag("bookkeeper-ack-quorum", Kind::Integer, "Copies").short('a').or("1").field("bookkeeperAckQuorum"))
            .with(
                Arg::flag("ml-mark-delete-max-rate", Kind::Real, "Writes a second")
                    .short('r')
                    .or("1")
                    .field("managedLedgerMaxMarkDeleteRate"),
            )
            .example("--ml-mark-delete-max-rate 2"),
        policy("inactive-topic-policies", "inactiveTopicPolicies", "inactiveTopicPolicies", "when topics that nobody uses are removed")
            .with(Arg::flag("", Kind::OnOff, "Remove them").needed().field("deleteWhileInactive"))
            .with(Arg::flag("delete-mode", modes, "Which").short('m').needed().field("inactiveTopicDeleteMode"))
            .with(Arg::flag("max-inactive-duration", Kind::Seconds, "After this").short('t').needed().field("maxInactiveDurationSeconds"))
            .example("--enable --delete-mode delete_when_no_subscriptions --max-inactive-duration 1d"),
        policy("subscription-expiration-time", "subscriptionExpirationTime", "", "when subscriptions that nobody uses are removed")
            .with(Arg::flag("time", Kind::Minutes, "After this; 0 never").short('t').needed().to(To::Body))
            .example("--time 7d"),
        policy("compaction-threshold", "compactionThreshold", "compactionThreshold", "at what backlog topics are compacted")
            .with(Arg::flag("threshold", Kind::Bytes, "This much; 0 never").short('t').needed().to(To::Body))
            .example("--threshold 100M"),
    ]
}

fn dispatch(name: &'static str, end: &'static str, about: &'static str) -> Policy {
    let relative = Arg::flag("relative-to-publish-rate", Kind::Yes, "On top of what is published").also(&["rp"]);
    policy(name, end, end, about)
        .with(Arg::flag("msg-dispatch-rate", Kind::Integer, "Messages; -1 any").also(&["md"]).or("-1").field("dispatchThrottlingRateInMsg"))
        .with(Arg::flag("byte-dispatch-rate", Kind::Bytes, "Bytes; -1 any").also(&["bd"]).or("-1").field("dispatchThrottlingRateInByte"))
        .with(Arg::flag("dispatch-rate-period", Kind::Seconds, "In this time").also(&["dt"]).or("1").field("ratePeriodInSecond"))
        .with(relative.field("relativeToPublishRate"))
        .example("--msg-dispatch-rate 1000")
}

fn rates() -> Vec<Policy> {
    vec![
        policy("publish-rate", "publishRate", "publishRate", "how much may be published to a topic")
            .with(
                Arg::flag("msg-publish-rate", Kind::Integer, "Messages a second; -1 any")
                    .short('m')
                    .or("-1")
                    .field("publishThrottlingRateInMsg"),
            )
            .with(
                Arg::flag("byte-publish-rate", Kind::Bytes, "Bytes a second; -1 any")
                    .short('b')
                    .or("-1")
                    .field("publishThrottlingRateInByte"),
            )
            .example("--msg-publish-rate 100"),
        dispatch("dispatch-rate", "dispatchRate", "how much a topic may deliver"),
        dispatch("subscription-dispatch-rate", "subscriptionDispatchRate", "how much a subscription may be given"),
        dispatch("replicator-dispatch-rate", "replicatorDispatchRate", "how much may go to another cluster"),
        policy("subscribe-rate", "subscribeRate", "subscribeRate", "how often a consumer may attach")
            .with(
                Arg::flag("subscribe-rate", Kind::Integer, "Times; -1 any")
                    .also(&["sr"])
                    .or("-1")
                    .field("subscribeThrottlingRatePerConsumer"),
            )
            .with(Arg::flag("subscribe-rate-period", Kind::Seconds, "In this time").also(&["st"]).or("30").field("ratePeriodInSecond"))
            .example("--subscribe-rate 10"),
    ]
}

fn limit(name: &'static str, namespace: &'static str, topic: &'static str, about: &'static str) -> Policy {
    let most =
        Arg::flag("max", Kind::Integer, "At most; 0 without limit").short('c').also(&["max-producers", "max-consumers", "max-topics"]);
    policy(name, namespace, topic, about).with(most.needed().to(To::Body)).example("--max 10")
}

fn limits() -> Vec<Policy> {
    vec![
        limit("max-producers-per-topic", "maxProducersPerTopic", "", "how many producers a topic may have"),
        limit("max-producers", "", "maxProducers", "how many producers it may have"),
        limit("max-consumers-per-topic", "maxConsumersPerTopic", "", "how many consumers a topic may have"),
        limit("max-consumers", "", "maxConsumers", "how many consumers it may have"),
        limit(
            "max-consumers-per-subscription",
            "maxConsumersPerSubscription",
            "maxConsumersPerSubscription",
            "how many share a subscription",
        ),
        limit(
            "max-subscriptions-per-topic",
            "maxSubscriptionsPerTopic",
            "maxSubscriptionsPerTopic",
            "how many subscriptions a topic may have",
        ),
        limit("max-topics-per-namespace", "maxTopicsPerNamespace", "", "how many topics it may have"),
        limit("max-unacked-messages-per-consumer", "maxUnackedMessagesPerConsumer", "", "how many a consumer may have unacknowledged"),
        limit("max-unacked-messages-on-consumer", "", "maxUnackedMessagesOnConsumer", "how many a consumer may have unacknowledged"),
        limit("max-unacked-messages-per-subscription", "maxUnackedMessagesPerSubscription", "", "how many may be unacknowledged in all"),
        limit("max-unacked-messages-on-subscription", "", "maxUnackedMessagesOnSubscription", "how many may be unacknowledged in all"),
        limit("max-message-size", "", "maxMessageSize", "how many bytes a message may have"),
        limit(
            "deduplication-snapshot-interval",
            "deduplicationSnapshotInterval",
            "deduplicationSnapshotInterval",
            "entries between snapshots",
        ),
    ]
}

fn switch(name: &'static str, namespace: &'static str, topic: &'static str, about: &'static str) -> Policy {
    let on_off = Arg::flag("", Kind::OnOff, "That is so").needed().to(To::Body);
    policy(name, namespace, topic, about).with(on_off).example("--enable")
}

fn switches() -> Vec<Policy> {
    const STRATEGIES: &[&str] = &[
        "UNDEFINED",
        "ALWAYS_INCOMPATIBLE",
        "ALWAYS_COMPATIBLE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ];
    let strategy = Arg::flag("compatibility", Kind::OneOf(STRATEGIES), "What new schemas must be").short('c').needed().to(To::Body);
    let kinds = Arg::flag("type", Kind::OneOf(&["partitioned", "non-partitioned"]), "Which").short('t').field("topicType");
    vec![
        switch("deduplication", "deduplication", "deduplicationEnabled", "whether messages that are sent twice are stored once"),
        switch("encryption-required", "encryptionRequired", "", "whether producers must encrypt"),
        switch(
            "schema-validation-enforce",
            "schemaValidationEnforced",
            "schemaValidationEnforced",
            "whether producers must bring a schema",
        ),
        switch("is-allow-auto-update-schema", "isAllowAutoUpdateSchema", "", "whether clients add schemas"),
        policy("schema-compatibility-strategy", "schemaCompatibilityStrategy", "schemaCompatibilityStrategy", "which schemas may follow")
            .with(strategy)
            .example("--compatibility FULL"),
        policy("auto-topic-creation", "autoTopicCreation", "", "whether clients create topics")
            .with(Arg::flag("", Kind::OnOff, "They do").needed().field("allowAutoTopicCreation"))
            .with(kinds)
            .with(Arg::flag("num-partitions", Kind::Integer, "Of how many partitions").short('n').field("defaultNumPartitions"))
            .example("--enable --type partitioned --num-partitions 4"),
        policy(
            "auto-subscription-creation",
            "autoSubscriptionCreation",
            "autoSubscriptionCreation",
            "whether clients create subscriptions",
        )
        .with(Arg::flag("", Kind::OnOff, "They do").needed().field("allowAutoSubscriptionCreation"))
        .example("--enable"),
        policy("delayed-delivery", "delayedDelivery", "delayedDelivery", "whether messages may be delivered later than they come")
            .with(Arg::flag("", Kind::OnOff, "They may").needed().field("active"))
            .with(Arg::flag("time", Kind::Millis, "How exactly").short('t').or("1s").field("tickTime"))
            .with(Arg::flag("max-delay", Kind::Millis, "At most this late").also(&["md"]).field("maxDelayInMillis"))
            .example("--enable --time 1s"),
        policy(
            "subscription-types-enabled",
            "subscriptionTypesEnabled",
            "subscriptionTypesEnabled",
            "which kinds of subscription are allowed",
        )
        .with(Arg::flag("types", Kind::List, "Of Exclusive, Shared, Failover, Key_Shared").short('t').needed().to(To::Body))
        .example("--types Shared,Failover"),
        policy("subscription-auth-mode", "subscriptionAuthMode", "", "how subscriptions belong to roles")
            .with(Arg::flag("mode", Kind::OneOf(&["None", "Prefix"]), "By their names' beginning, or not").short('m').needed().to(To::Body))
            .example("--mode Prefix"),
    ]
}
