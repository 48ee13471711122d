//! Backlogs and subscriptions of all topics of a namespace, or of one of its bundles.

use server::TopicError;
use wire::{BundleRange, Domain, TopicName, names};

use crate::bundles::bundle;
use crate::errors::Refusal;
use crate::namespaces::policies;
use crate::reply::Reply;
use crate::request::Call;

/// POST: every subscription, or the one in the path, leaves everything behind.
pub(crate) async fn clear(call: Call) -> Result<Reply, Refusal> {
    policies(&call).await?;
    clear_in(&call, None).await
}

/// POST: the same for the topics of a bundle.
pub(crate) async fn clear_bundle(call: Call) -> Result<Reply, Refusal> {
    let bundle = bundle(&call).await?;
    clear_in(&call, Some(bundle)).await
}

/// POST: the subscription in the path is removed wherever it is, unless it has consumers.
pub(crate) async fn unsubscribe(call: Call) -> Result<Reply, Refusal> {
    policies(&call).await?;
    unsubscribe_in(&call, None).await
}

/// POST: the same for the topics of a bundle.
pub(crate) async fn unsubscribe_bundle(call: Call) -> Result<Reply, Refusal> {
    let bundle = bundle(&call).await?;
    unsubscribe_in(&call, Some(bundle)).await
}

async fn clear_in(call: &Call, bundle: Option<BundleRange>) -> Result<Reply, Refusal> {
    let only = subscription(call);
    for topic in topics(call, bundle).await? {
        let subscriptions = match &only {
            Some(name) => vec![name.clone()],
            None => there(call.handle().topic_stats(topic.clone()).await)?
                .map(|stats| stats.subscriptions)
                .unwrap_or_default()
                .into_iter()
                .map(|s| s.name)
                .collect(),
        };
        for name in subscriptions {
            there(call.handle().skip(topic.clone(), name, None).await)?;
        }
    }
    Ok(Reply::done())
}

async fn unsubscribe_in(call: &Call, bundle: Option<BundleRange>) -> Result<Reply, Refusal> {
    let name = subscription(call).unwrap_or_default();
    for topic in topics(call, bundle).await? {
        there(call.handle().delete_subscription(topic, name.clone(), false).await)?;
    }
    Ok(Reply::done())
}

/// In paths of namespaces some clients write a space as a plus.
fn subscription(call: &Call) -> Option<String> {
    let name = call.param("subscription").replace('+', " ");
    (!name.is_empty()).then_some(name)
}

async fn topics(call: &Call, bundle: Option<BundleRange>) -> Result<Vec<TopicName>, Refusal> {
    let mut topics = call.handle().topics(call.namespace()?, Domain::Persistent).await?;
    topics.retain(|name| bundle.is_none_or(|bundle| bundle.contains(names::hash_of_topic(name))));
    Ok(topics)
}

/// A topic that went meanwhile, or has no such subscription, has nothing to be done to it.
fn there<T>(outcome: Result<T, TopicError>) -> Result<Option<T>, TopicError> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(TopicError::NotFound(_) | TopicError::NoSubscription { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
