//! What policies make of rates, of the quota on what waits, and of how long what was consumed is kept.

use ledger::Retention;
use metadata::namespaces::{self, DispatchRate, Policies, QuotaKind};
use topic::{Quota, QuotaPolicy, Quotas, Rate, Rates, TopicSettings};
use wire::TopicName;

/// The broker's own topics have none: nobody but the broker is to be held back.
pub(super) fn apply(settings: &mut TopicSettings, policies: &Policies, topic: &TopicName, cluster: &str) {
    if topic.local().starts_with("__") {
        (settings.rates, settings.quota) = (Rates::default(), Quotas::default());
        return;
    }
    rates(&mut settings.rates, policies, cluster);
    quotas(&mut settings.quota, policies);
    if let Some(kept) = retention(policies) {
        settings.retention = kept;
    }
}

/// Policies on rates are said by cluster.
fn rates(rates: &mut Rates, policies: &Policies, cluster: &str) {
    if let Some(rate) = policies.publish_rate(cluster) {
        rates.publish.topic = Rate::per_second(limit(rate.messages), limit(rate.bytes));
    }
    if let Some(rate) = policies.dispatch_rate(cluster) {
        rates.dispatch.topic = dispatch(rate);
    }
    if let Some(rate) = policies.subscription_dispatch_rate(cluster) {
        rates.dispatch.subscription = dispatch(rate);
    }
    if let Some(rate) = policies.subscribe_rate(cluster) {
        rates.subscribe = Rate { messages: limit(rate.per_consumer), bytes: 0, period_ms: period(rate.period_seconds) };
    }
}

fn quotas(quotas: &mut Quotas, policies: &Policies) {
    if let Some(quota) = policies.backlog_quota(QuotaKind::DestinationStorage) {
        quotas.size = u64::try_from(quota.limit_size).ok().map(|limit| Quota { limit, policy: policy(quota.policy) });
    }
    if let Some(quota) = policies.backlog_quota(QuotaKind::MessageAge) {
        let limit = u64::try_from(quota.limit_time).ok().map(|seconds| seconds.saturating_mul(1_000));
        quotas.age = limit.map(|limit| Quota { limit, policy: policy(quota.policy) });
    }
}

fn retention(policies: &Policies) -> Option<Retention> {
    let for_ever_or = |number: i64, unit: i64| if number < 0 { -1 } else { number.saturating_mul(unit) };
    let kept = policies.retention()?;
    Some(Retention { time_ms: for_ever_or(kept.time_minutes, 60_000), size_bytes: for_ever_or(kept.size_mb, 1 << 20) })
}

/// 0 or less is no limit.
fn limit(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn period(seconds: i32) -> u64 {
    u64::try_from(seconds.max(1)).unwrap_or(1) * 1_000
}

fn dispatch(rate: DispatchRate) -> Rate {
    Rate { messages: limit(rate.messages), bytes: limit(rate.bytes), period_ms: period(rate.period_seconds) }
}

fn policy(said: namespaces::QuotaPolicy) -> QuotaPolicy {
    match said {
        namespaces::QuotaPolicy::ProducerRequestHold => QuotaPolicy::ProducerRequestHold,
        namespaces::QuotaPolicy::ProducerException => QuotaPolicy::ProducerException,
        namespaces::QuotaPolicy::ConsumerBacklogEviction => QuotaPolicy::ConsumerBacklogEviction,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policies(said: Value) -> Policies {
        Policies::from_json(said.to_string().as_bytes()).unwrap()
    }

    fn rates_of(said: &Value, cluster: &str) -> Rates {
        let mut configured = Rates { subscribe: Rate::per_second(9, 0), ..Rates::default() };
        rates(&mut configured, &policies(said.clone()), cluster);
        configured
    }

    fn quotas_of(said: Value) -> Quotas {
        let size = Some(Quota { limit: 9, policy: QuotaPolicy::ProducerException });
        let mut configured = Quotas { size, ..Quotas::default() };
        quotas(&mut configured, &policies(said));
        configured
    }

    #[test]
    fn rates_are_those_of_this_cluster_and_nothing_said_changes_nothing() {
        let dispatch =
            |messages: i64| json!({"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 2});
        let said = json!({
            "publishMaxMessageRate": {"here": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 0}},
            "topicDispatchRate": {"here": dispatch(6)},
            "subscriptionDispatchRate": {"here": dispatch(7)},
            "clusterSubscribeRate": {"here": {"subscribeThrottlingRatePerConsumer": 8, "ratePeriodInSecond": 30}},
        });
        let rates = rates_of(&said, "here");
        assert_eq!(rates.publish.topic, Rate::per_second(5, 0));
        assert_eq!(rates.dispatch.topic, Rate { messages: 6, bytes: 0, period_ms: 2_000 });
        assert_eq!(rates.dispatch.subscription.messages, 7);
        assert_eq!(rates.subscribe, Rate { messages: 8, bytes: 0, period_ms: 30_000 });
        let elsewhere = rates_of(&said, "elsewhere");
        assert!(!elsewhere.publish.topic.is_limited() && !elsewhere.dispatch.topic.is_limited());
        assert_eq!(elsewhere.subscribe, Rate::per_second(9, 0), "as configured");
    }

    #[test]
    fn a_quota_without_a_limit_lifts_the_configured_one() {
        let quota = |kind: &str, size: i64, seconds: i64| json!({"backlog_quota_map": {kind: {"limitSize": size, "limitTime": seconds, "policy": "consumer_backlog_eviction"}}});
        assert_eq!(quotas_of(json!({})).size.map(|quota| quota.limit), Some(9));
        assert_eq!(quotas_of(quota("destination_storage", -1, -1)).size, None);
        let evicting = |limit| Some(Quota { limit, policy: QuotaPolicy::ConsumerBacklogEviction });
        assert_eq!(quotas_of(quota("destination_storage", 100, -1)).size, evicting(100));
        assert_eq!(quotas_of(quota("message_age", -1, 60)).age, evicting(60_000));
    }

    #[test]
    fn retention_is_for_ever_below_zero() {
        let kept = |minutes: i64, megabytes: i64| {
            retention(&policies(json!({"retention_policies": {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}})))
                .unwrap()
        };
        assert_eq!((kept(-1, -1).time_ms, kept(-1, -1).size_bytes), (-1, -1));
        assert_eq!((kept(2, 3).time_ms, kept(2, 3).size_bytes), (120_000, 3 << 20));
    }
}
