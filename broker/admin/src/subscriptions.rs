//! Subscriptions: made, removed, moved, and looked at. Of a partitioned topic mostly all partitions at once.

use std::collections::BTreeMap;

use server::{Position, SeekTo, StartAt, TopicError};
use wire::TopicName;

use crate::errors::Refusal;
use crate::json::{BacklogScanJson, ResetCursor};
use crate::reply::Reply;
use crate::request::{Call, integer, optional};
use crate::topics::parts;

/// The topic in the path, which must be one that keeps messages.
pub(crate) fn stored(call: &Call, what: &str) -> Result<TopicName, Refusal> {
    let topic = call.topic()?;
    if topic.is_persistent() { Ok(topic) } else { Err(Refusal::not_allowed(format!("{what} on a non-persistent topic is not allowed"))) }
}

/// The topic in the path, which must have no partitions, or be one.
pub(crate) async fn one(call: &Call, what: &str) -> Result<TopicName, Refusal> {
    let topic = stored(call, what)?;
    if call.handle().partitions(topic.clone()).await?.is_some() {
        return Err(Refusal::not_allowed(format!("{what} on a partitioned topic is not allowed")));
    }
    Ok(topic)
}

fn subscription(call: &Call) -> String {
    call.param("subscription").to_owned()
}

/// PUT: makes a subscription that begins at the message in the body; at the end without one.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Create subscription")?;
    let wanted: ResetCursor = optional(&call.body)?.unwrap_or_default();
    let start = match wanted.position() {
        None | Some(Position::LATEST) => StartAt::Latest,
        Some(Position::EARLIEST) => StartAt::Earliest,
        Some(at) if wanted.is_excluded() => StartAt::At(server::position(at.ledger.0, at.entry.0.saturating_add(1))),
        Some(at) => StartAt::At(at),
    };
    let properties: Vec<_> = wanted.properties.unwrap_or_default().into_iter().collect();
    let parts = match parts(&call, topic.clone()).await {
        Err(_) if is_missing(&call, &topic).await && call.handle().auto_creation(topic.namespace()).await?.allowed => {
            match call.handle().create_topic(topic.clone(), Vec::new()).await {
                // Somebody else was faster.
                Ok(()) | Err(TopicError::Exists(_)) => vec![topic],
                Err(error) => return Err(error.into()),
            }
        }
        parts => parts?,
    };
    for part in parts {
        call.handle().create_subscription(part, subscription(&call), start, properties.clone()).await?;
    }
    Ok(Reply::done())
}

async fn is_missing(call: &Call, topic: &TopicName) -> bool {
    matches!(call.handle().partitions(topic.clone()).await, Err(TopicError::NotFound(_)))
}

/// DELETE: removes a subscription.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Unsubscribe")?;
    let force = call.query.flag("force");
    let mut found = false;
    let mut missing = None;
    for part in parts(&call, topic).await? {
        match call.handle().delete_subscription(part, subscription(&call), force).await {
            Ok(()) => found = true,
            // An earlier attempt may have removed it from some partitions.
            Err(error @ TopicError::NoSubscription { .. }) => missing = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    match missing {
        Some(error) if !found => Err(error.into()),
        _ => Ok(Reply::done()),
    }
}

/// POST: leaves everything behind.
pub(crate) async fn skip_all(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Skip all messages")?;
    for part in parts(&call, topic).await? {
        call.handle().skip(part, subscription(&call), None).await?;
    }
    Ok(Reply::done())
}

/// POST: leaves the next so many behind.
pub(crate) async fn skip(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Skip messages").await?;
    let count = number(call.param("count"), "the number of messages to skip")?;
    call.handle().skip(topic, subscription(&call), Some(count)).await?;
    Ok(Reply::done())
}

/// POST: leaves behind what is older than so many seconds.
pub(crate) async fn expire_older(call: Call) -> Result<Reply, Refusal> {
    let of = subscription(&call);
    expire(&call, Some(of)).await
}

/// POST: has all subscriptions leave behind what is older than so many seconds.
pub(crate) async fn expire_older_of_all(call: Call) -> Result<Reply, Refusal> {
    expire(&call, None).await
}

async fn expire(call: &Call, of: Option<String>) -> Result<Reply, Refusal> {
    let topic = stored(call, "Expire messages")?;
    let seconds = number(call.param("seconds"), "the age in seconds")?;
    let before = now_ms().saturating_sub(seconds.saturating_mul(1_000));
    for part in parts(call, topic).await? {
        call.handle().expire_before_time(part, of.clone(), before).await?;
    }
    Ok(Reply::done())
}

/// POST: leaves behind everything up to the message in the body.
pub(crate) async fn expire_through(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Expire messages by position").await?;
    let wanted: ResetCursor = optional(&call.body)?.unwrap_or_default();
    let at = wanted.position().ok_or_else(|| Refusal::bad_request("The body is a message id"))?;
    call.handle().expire_through(topic, subscription(&call), at, !wanted.is_excluded()).await?;
    Ok(Reply::done())
}

/// POST: goes to the first message published at or after a time.
pub(crate) async fn reset_to_time(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Reset cursor")?;
    let time = number(call.param("timestamp"), "the time in milliseconds since the epoch")?;
    for part in parts(&call, topic).await? {
        call.handle().reset(part, subscription(&call), SeekTo::Time(time), false).await?;
    }
    Ok(Reply::done())
}

/// POST: goes to the message in the body, or behind it if that is excluded.
pub(crate) async fn reset_to_message(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Reset cursor by position").await?;
    let wanted: ResetCursor = optional(&call.body)?.unwrap_or_default();
    let at = wanted.position().unwrap_or(Position::LATEST);
    call.handle().reset(topic, subscription(&call), SeekTo::Message(at), wanted.is_excluded()).await?;
    Ok(Reply::done())
}

/// GET: what is noted on a subscription.
pub(crate) async fn properties(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Subscription properties")?;
    let mut all = BTreeMap::new();
    for part in parts(&call, topic).await? {
        all.extend(call.handle().subscription_properties(part, subscription(&call)).await?);
    }
    Reply::json(&all)
}

/// PUT: replaces what is noted on a subscription.
pub(crate) async fn set_properties(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Subscription properties")?;
    let wanted: BTreeMap<String, String> = optional(&call.body)?.unwrap_or_default();
    for part in parts(&call, topic).await? {
        call.handle().note_on_subscription(part, subscription(&call), wanted.clone().into_iter().collect()).await?;
    }
    Ok(Reply::done())
}

/// POST: counts what is not acked, entry by entry.
pub(crate) async fn scan_backlog(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Analyze backlog").await?;
    Reply::json(&BacklogScanJson::new(&call.handle().scan_backlog(topic, subscription(&call)).await?))
}

/// GET: whether a subscription is kept alike in several clusters: never, as there is one.
pub(crate) async fn replicated(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Replicated subscription status")?;
    let mut status = BTreeMap::new();
    for part in parts(&call, topic).await? {
        call.handle().subscription_properties(part.clone(), subscription(&call)).await?;
        status.insert(part.to_string(), false);
    }
    Reply::json(&status)
}

/// POST: taken and without effect, as there is one cluster.
pub(crate) async fn set_replicated(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Replicated subscription status")?;
    let _: Option<bool> = optional(&call.body)?;
    for part in parts(&call, topic).await? {
        call.handle().subscription_properties(part, subscription(&call)).await?;
    }
    Ok(Reply::done())
}

/// A number in the path that is not negative.
pub(crate) fn number(text: &str, what: &str) -> Result<u64, Refusal> {
    let number = integer(text.as_bytes()).map_err(|_| Refusal::precondition(format!("{what} must be a whole number, not {text:?}")))?;
    u64::try_from(number).map_err(|_| Refusal::precondition(format!("{what} must not be negative")))
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
