//! Topics: their life cycle and lists.

use std::collections::{BTreeMap, BTreeSet};

use wire::TopicName;

use crate::address::partition;
use crate::errors::Refusal;
use crate::namespaces::visible;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: full names of a namespace's topics, partitions one by one.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    names(visible(call.handle().topics(call.namespace()?, call.domain()).await?, &call))
}

/// GET: full names of a namespace's partitioned topics.
pub(crate) async fn list_partitioned(call: Call) -> Result<Reply, Refusal> {
    names(visible(call.handle().partitioned_topics(call.namespace()?, call.domain()).await?, &call))
}

pub(crate) fn names(topics: Vec<TopicName>) -> Result<Reply, Refusal> {
    Reply::json(&topics.iter().map(TopicName::as_str).collect::<Vec<_>>())
}

/// PUT: adds a topic without partitions; the body may hold properties.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let properties: BTreeMap<String, String> = optional(&call.body)?.unwrap_or_default();
    call.handle().create_topic(call.topic()?, properties.into_iter().collect()).await?;
    Ok(Reply::done())
}

/// DELETE: removes a topic without partitions, or one partition.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let partitioned = matches!(call.handle().partitions(topic.clone()).await, Ok(Some(_)));
    if partitioned {
        return Err(Refusal::conflict(format!("{topic} is a partitioned topic: delete it through its partitions")));
    }
    call.handle().delete_topic(topic, call.query.flag("force")).await?;
    Ok(Reply::done())
}

/// PUT: lets go of a topic, or of all its partitions; its clients come back by themselves.
pub(crate) async fn unload(call: Call) -> Result<Reply, Refusal> {
    for name in parts(&call, call.topic()?).await? {
        call.handle().unload_topic(name).await?;
    }
    Ok(Reply::done())
}

/// GET: names of the subscriptions; of a partitioned topic, those of any partition.
pub(crate) async fn subscriptions(call: Call) -> Result<Reply, Refusal> {
    let mut names = BTreeSet::new();
    for part in parts(&call, call.topic()?).await? {
        names.extend(call.handle().topic_stats(part).await?.subscriptions.into_iter().map(|s| s.name));
    }
    Reply::json(&names)
}

/// The topics behind a name: its partitions, or itself.
///
/// # Errors
/// 404 when there is no such topic.
pub(crate) async fn parts(call: &Call, topic: TopicName) -> Result<Vec<TopicName>, Refusal> {
    match call.handle().partitions(topic.clone()).await? {
        Some(count) => Ok((0..count).map(|n| partition(&topic, n)).collect::<Result<_, _>>()?),
        None => Ok(vec![topic]),
    }
}
