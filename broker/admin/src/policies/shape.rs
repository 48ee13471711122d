//! What values of policies look like, read as leniently as Pulsar's clients write them and refused in the words they look for.

use hyper::StatusCode;
use metadata::namespaces::{
    AutoSubscriptionCreation, BacklogQuota, DelayedDelivery, DispatchRate, InactiveTopics, Persistence, PublishRate, Retention,
    SUBSCRIPTION_TYPES, SubscribeRate,
};
use metadata::schemas::Strategy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::request::{Call, integer, optional, word};

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `true`, `false`, or either in quotes.
    Flag,
    /// Being set is being on, whatever the body.
    On,
    /// A number of something; the sentence for negative ones.
    Count(&'static str),
    /// A number of bytes; the sentence for negative ones.
    Bytes(&'static str),
    /// Any whole number.
    Number,
    /// Seconds, in the body or as a query parameter.
    Ttl,
    Word,
    Strategy,
    AutoUpdate,
    AuthMode,
    SubscriptionTypes,
    Retention,
    Quota,
    Persistence,
    AutoTopics,
    AutoSubscriptions,
    DispatchRate,
    SubscribeRate,
    PublishRate,
    InactiveTopics,
    DelayedDelivery,
    Offload,
    BookieGroup,
    EntryFilters,
}

impl Shape {
    /// The value in a request; null, which no body is too, unsets.
    pub(crate) fn read(self, call: &Call) -> Result<Value, Refusal> {
        let body = call.body.trim_ascii();
        if self == Shape::On {
            return Ok(Value::Bool(true));
        }
        if let (Shape::Ttl, Some(seconds)) = (self, call.query.get("messageTTL")) {
            return count(seconds.as_bytes(), u32::MAX.into(), INVALID_TTL);
        }
        if body.is_empty() || body == b"null" {
            return Ok(Value::Null);
        }
        match self {
            Shape::On => Ok(Value::Bool(true)),
            Shape::Flag => {
                word(body)?.to_ascii_lowercase().parse().map(Value::Bool).map_err(|_| Refusal::bad_request("The body is true or false"))
            }
            Shape::Count(reason) => count(body, u32::MAX.into(), reason),
            Shape::Bytes(reason) => count(body, i64::MAX, reason),
            Shape::Number => Ok(integer(body)?.into()),
            Shape::Ttl => count(body, u32::MAX.into(), INVALID_TTL),
            Shape::Word => Ok(word(body)?.into()),
            Shape::Strategy => {
                let known = Strategy::from_name(&word(body)?).map_err(|error| Refusal::bad_request(error.to_string()))?;
                Ok(known.name().into())
            }
            Shape::AutoUpdate => {
                let word = word(body)?;
                Strategy::from_auto_update(&word).map_err(|error| Refusal::bad_request(error.to_string()))?;
                Ok(word.into())
            }
            Shape::AuthMode => match word(body)? {
                mode if mode == "None" || mode == "Prefix" => Ok(mode.into()),
                other => Err(Refusal::bad_request(format!("subscriptionAuthMode is None or Prefix, not {other:?}"))),
            },
            Shape::SubscriptionTypes => subscription_types(body),
            Shape::Retention => object::<Retention>(body),
            Shape::Quota => object::<BacklogQuota>(body),
            Shape::Persistence => object::<Persistence>(body),
            Shape::AutoTopics => auto_topics(body, call.handle().live().max_partitions),
            Shape::AutoSubscriptions => object::<AutoSubscriptionCreation>(body),
            Shape::DispatchRate => object::<DispatchRate>(body),
            Shape::SubscribeRate => object::<SubscribeRate>(body),
            Shape::PublishRate => object::<PublishRate>(body),
            Shape::InactiveTopics => object::<InactiveTopics>(body),
            Shape::DelayedDelivery => object::<DelayedDelivery>(body),
            Shape::Offload | Shape::BookieGroup | Shape::EntryFilters => object::<Map<String, Value>>(body),
        }
    }

    /// What is answered to a value that fits the form and cannot be.
    pub(crate) fn refuse(self, reason: String) -> Refusal {
        let status = if self == Shape::Persistence { StatusCode::BAD_REQUEST } else { StatusCode::PRECONDITION_FAILED };
        Refusal::new(status, reason)
    }

    /// Bodies that set it; what is read back is the same, byte by byte.
    pub(super) fn samples(self) -> &'static [&'static str] {
        match self {
            Shape::Flag => &["true", "false"],
            Shape::On => &["true"],
            Shape::Count(_) | Shape::Ttl => &["3", "0"],
            Shape::Bytes(_) => &["104857600", "0"],
            Shape::Number => &["-1", "5000000000"],
            Shape::Word => &["\"one\""],
            Shape::Strategy => &["\"FORWARD\"", "\"FULL_TRANSITIVE\""],
            Shape::AutoUpdate => &["\"Backward\"", "\"AutoUpdateDisabled\""],
            Shape::AuthMode => &["\"Prefix\"", "\"None\""],
            Shape::SubscriptionTypes => &[r#"["Shared"]"#, r#"["Exclusive","Key_Shared"]"#],
            Shape::Retention => &[
                r#"{"retentionTimeInMinutes":-1,"retentionSizeInMB":-1}"#,
                r#"{"retentionTimeInMinutes":100,"retentionSizeInMB":200}"#,
                r#"{"retentionTimeInMinutes":0,"retentionSizeInMB":0}"#,
            ],
            Shape::Quota => &[
                r#"{"limitSize":1048576,"limitTime":-1,"policy":"producer_exception"}"#,
                r#"{"limitSize":-1,"limitTime":60,"policy":"consumer_backlog_eviction"}"#,
            ],
            Shape::Persistence => &[
                r#"{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":0.5}"#,
                r#"{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":1,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":0.0}"#,
            ],
            Shape::AutoTopics => &[
                r#"{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":3}"#,
                r#"{"allowAutoTopicCreation":true,"topicType":"non-partitioned"}"#,
                r#"{"allowAutoTopicCreation":false}"#,
            ],
            Shape::AutoSubscriptions => &[r#"{"allowAutoSubscriptionCreation":false}"#, r#"{"allowAutoSubscriptionCreation":true}"#],
            Shape::DispatchRate => &[
                r#"{"dispatchThrottlingRateInMsg":100,"dispatchThrottlingRateInByte":-1,"ratePeriodInSecond":1,"relativeToPublishRate":false}"#,
                r#"{"dispatchThrottlingRateInMsg":-1,"dispatchThrottlingRateInByte":4096,"ratePeriodInSecond":5,"relativeToPublishRate":true}"#,
            ],
            Shape::SubscribeRate => &[r#"{"subscribeThrottlingRatePerConsumer":10,"ratePeriodInSecond":30}"#],
            Shape::PublishRate => &[
                r#"{"publishThrottlingRateInMsg":100,"publishThrottlingRateInByte":-1}"#,
                r#"{"publishThrottlingRateInMsg":-1,"publishThrottlingRateInByte":1024}"#,
            ],
            Shape::InactiveTopics => &[
                concat!(
                    r#"{"inactiveTopicDeleteMode":"delete_when_subscriptions_caught_up","maxInactiveDurationSeconds":600,"#,
                    r#""deleteWhileInactive":true}"#
                ),
                concat!(
                    r#"{"inactiveTopicDeleteMode":"delete_when_no_subscriptions","maxInactiveDurationSeconds":0,"#,
                    r#""deleteWhileInactive":false}"#
                ),
            ],
            Shape::DelayedDelivery => &[
                r#"{"active":true,"tickTime":1000,"maxDeliveryDelayInMillis":0}"#,
                r#"{"active":false,"tickTime":0,"maxDeliveryDelayInMillis":86400000}"#,
            ],
            Shape::Offload => &[r#"{"managedLedgerOffloadDriver":"aws-s3","s3ManagedLedgerOffloadBucket":"b"}"#],
            Shape::BookieGroup => &[r#"{"bookkeeperAffinityGroupPrimary":"a"}"#],
            Shape::EntryFilters => &[r#"{"entryFilterNames":"a,b"}"#],
        }
    }

    /// Bodies that are refused, and with which status.
    pub(super) fn refused(self) -> &'static [(&'static str, u16)] {
        match self {
            Shape::On | Shape::Word => &[],
            Shape::Flag => &[("1", 400), ("{}", 400)],
            Shape::Count(_) | Shape::Bytes(_) | Shape::Ttl => &[("-1", 412), ("many", 400), ("1.5", 400)],
            Shape::Number => &[("many", 400)],
            Shape::Strategy | Shape::AutoUpdate | Shape::AuthMode => &[("\"Sideways\"", 400)],
            Shape::SubscriptionTypes => &[(r#"["Round"]"#, 412), ("\"Shared\"", 400)],
            Shape::Retention => &[
                (r#"{"retentionTimeInMinutes":0,"retentionSizeInMB":1}"#, 412),
                (r#"{"retentionTimeInMinutes":-2,"retentionSizeInMB":1}"#, 412),
                ("3", 400),
            ],
            Shape::Quota => &[(r#"{"limitSize":1,"policy":"shrug"}"#, 400)],
            Shape::Persistence => &[
                (r#"{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":1.0}"#, 400),
                (r#"{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":1,"bookkeeperAckQuorum":0,"managedLedgerMaxMarkDeleteRate":1.0}"#, 400),
            ],
            Shape::AutoTopics => &[
                (r#"{"allowAutoTopicCreation":true,"topicType":"partitioned"}"#, 412),
                (r#"{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":-1}"#, 412),
                (r#"{"allowAutoTopicCreation":true,"topicType":"non-partitioned","defaultNumPartitions":3}"#, 412),
                (r#"{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":2000000}"#, 406),
            ],
            Shape::DispatchRate | Shape::SubscribeRate => &[(r#"{"ratePeriodInSecond":0}"#, 412), ("[]", 400)],
            Shape::InactiveTopics => &[
                (r#"{"inactiveTopicDeleteMode":"delete_when_no_subscriptions","deleteWhileInactive":true}"#, 412),
                (r#"{"inactiveTopicDeleteMode":"at_noon"}"#, 400),
            ],
            Shape::AutoSubscriptions
            | Shape::PublishRate
            | Shape::DelayedDelivery
            | Shape::Offload
            | Shape::BookieGroup
            | Shape::EntryFilters => &[("3", 400), ("{", 400)],
        }
    }
}

const INVALID_TTL: &str = "Invalid value for message TTL";

fn count(text: &[u8], most: i64, reason: &str) -> Result<Value, Refusal> {
    match integer(text)? {
        number if (0..=most).contains(&number) => Ok(number.into()),
        _ => Err(Refusal::precondition(reason)),
    }
}

/// An object as it is kept: what is not known of it is left out, what it does not say is filled in.
fn object<T: DeserializeOwned + Serialize>(body: &[u8]) -> Result<Value, Refusal> {
    let fields: Map<String, Value> = optional(body)?.unwrap_or_default();
    let value = T::deserialize(Value::Object(fields)).and_then(serde_json::to_value);
    value.map_err(|error| Refusal::bad_request(format!("The body is not as expected: {error}")))
}

fn subscription_types(body: &[u8]) -> Result<Value, Refusal> {
    let names: Vec<String> = optional(body)?.unwrap_or_default();
    match names.iter().find(|name| !SUBSCRIPTION_TYPES.contains(&name.as_str())) {
        Some(stranger) => {
            Err(Refusal::precondition(format!("{stranger} is no subscription type; there are {}", SUBSCRIPTION_TYPES.join(", "))))
        }
        // No type at all would keep everybody out: it says nothing.
        None if names.is_empty() => Ok(Value::Null),
        None => Ok(json!(names)),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AutoTopics {
    #[serde(default)]
    allow_auto_topic_creation: bool,
    topic_type: Option<String>,
    default_num_partitions: Option<i64>,
}

/// Tools compare the sentences.
fn auto_topics(body: &[u8], most: u32) -> Result<Value, Refusal> {
    let Some(AutoTopics { allow_auto_topic_creation: allow, topic_type, default_num_partitions: partitions }) = optional(body)? else {
        return Ok(Value::Null);
    };
    let wrong = match (topic_type.as_deref(), partitions) {
        _ if !allow => None,
        (Some("partitioned"), None) => Some("[defaultNumPartitions] cannot be null when the type is partitioned.".to_owned()),
        (Some("partitioned"), Some(..1)) => Some("[defaultNumPartitions] cannot be less than 1 for partition type.".to_owned()),
        (Some("partitioned"), _) | (None | Some("non-partitioned"), None) => None,
        (Some("non-partitioned"), Some(_)) => {
            Some("[defaultNumPartitions] is not allowed to be set when the type is non-partition.".to_owned())
        }
        (other, _) => Some(format!("Unknown topic type [{}]", other.unwrap_or("null"))),
    };
    if let Some(wrong) = wrong {
        return Err(Refusal::precondition(format!("Invalid configuration for autoTopicCreationOverride. the detail is {wrong}")));
    }
    let limit = if most == 0 { 1 << 20 } else { i64::from(most) };
    if partitions.is_some_and(|partitions| partitions > limit) {
        return Err(Refusal::not_acceptable(format!("Number of partitions should be less than or equal to {limit}")));
    }
    // What is switched off need not make sense.
    let known = topic_type.filter(|kind| matches!(kind.as_str(), "partitioned" | "non-partitioned"));
    let mut value = Map::from_iter([("allowAutoTopicCreation".to_owned(), allow.into())]);
    value.extend(known.map(|kind| ("topicType".to_owned(), kind.into())));
    value.extend(partitions.filter(|count| *count > 0).map(|count| ("defaultNumPartitions".to_owned(), count.into())));
    Ok(value.into())
}
