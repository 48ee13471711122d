//! What is done to a topic as a whole: ended, compacted, trimmed, noted on. Of a partitioned topic mostly to all partitions.

use std::collections::BTreeMap;

use metadata::partitioned;
use metadata::paths::Domain;
use server::{CompactionStatus, TopicError};
use wire::TopicName;

use crate::address::path;
use crate::errors::Refusal;
use crate::json::{CompactionProgress, MessageIdJson, ResetCursor};
use crate::messages::partition_index;
use crate::reply::Reply;
use crate::request::{Call, optional};
use crate::subscriptions::{one, stored};
use crate::topics::parts;

/// POST: ends a topic without partitions; tells where its last message is.
pub(crate) async fn terminate(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Termination")?;
    if call.handle().partitions(topic.clone()).await?.is_some() {
        return Err(Refusal::not_allowed("Termination of a partitioned topic is not allowed"));
    }
    Reply::json(&ended(&call, topic).await?)
}

/// POST: ends all partitions; tells where the last message of each is.
pub(crate) async fn terminate_partitions(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Termination")?;
    if call.handle().partitions(topic.clone()).await?.is_none() {
        return Err(Refusal::not_allowed(
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use terminate commands",
        ));
    }
    let mut ends = BTreeMap::new();
    for part in parts(&call, topic).await? {
        let end = ended(&call, part).await?;
        ends.insert(end.partition_index, end);
    }
    Reply::json(&ends)
}

async fn ended(call: &Call, topic: TopicName) -> Result<MessageIdJson, Refusal> {
    let partition_index = partition_index(&topic);
    let at = call.handle().terminate(topic).await?;
    Ok(MessageIdJson { ledger_id: at.ledger.0, entry_id: at.entry.0, partition_index })
}

/// PUT: begins to compact.
pub(crate) async fn compact(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Trigger compaction")?;
    for part in parts(&call, topic).await? {
        call.handle().compact(part).await?;
    }
    Ok(Reply::done())
}

/// GET: how far that is; of partitions the one that needs most attention.
pub(crate) async fn compaction(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Compaction status")?;
    let mut worst = CompactionStatus::NotRun;
    for part in parts(&call, topic).await? {
        let status = call.handle().compaction_status(part).await?;
        if weight(&status) > weight(&worst) {
            worst = status;
        }
    }
    Reply::json(&CompactionProgress::new(&worst))
}

fn weight(status: &CompactionStatus) -> u8 {
    match status {
        CompactionStatus::NotRun => 0,
        CompactionStatus::Success => 1,
        CompactionStatus::Failed(_) => 2,
        CompactionStatus::Running => 3,
    }
}

/// PUT: there is nowhere to offload to.
pub(crate) async fn offload(call: Call) -> Result<Reply, Refusal> {
    one(&call, "Trigger offload").await?;
    Err(Refusal::not_allowed("Offloading is not supported: the data of topics stays in the broker's own log"))
}

/// GET: none was ever begun.
pub(crate) async fn offload_status(call: Call) -> Result<Reply, Refusal> {
    one(&call, "Offload status").await?;
    Reply::json(&CompactionProgress::new(&CompactionStatus::NotRun))
}

/// POST: deletes ledgers that nobody needs.
pub(crate) async fn trim(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Trim topic")?;
    for part in parts(&call, topic).await? {
        call.handle().trim(part).await?;
    }
    Ok(Reply::done())
}

/// DELETE: has all subscriptions leave everything behind and deletes all ledgers but the current one.
pub(crate) async fn truncate(call: Call) -> Result<Reply, Refusal> {
    let topic = stored(&call, "Truncate topic")?;
    for part in parts(&call, topic).await? {
        call.handle().truncate(part).await?;
    }
    Ok(Reply::done())
}

/// PUT: bytes published after the message in the body.
pub(crate) async fn backlog_size(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Backlog size").await?;
    let wanted: ResetCursor = optional(&call.body)?.unwrap_or_default();
    let at = wanted.position().ok_or_else(|| Refusal::bad_request("The body is a message id"))?;
    Reply::json(&call.handle().bytes_after(topic, at).await?)
}

/// GET: what is noted on a topic.
pub(crate) async fn properties(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let noted: BTreeMap<String, String> = match call.handle().partitions(topic.clone()).await? {
        Some(count) => crate::partitions::described(&call, topic, count).await?.properties.unwrap_or_default(),
        None if topic.is_persistent() => call.handle().topic_properties(topic).await?.into_iter().collect(),
        None => BTreeMap::new(),
    };
    Reply::json(&noted)
}

/// PUT: notes more on a topic; what was noted before stays.
pub(crate) async fn set_properties(call: Call) -> Result<Reply, Refusal> {
    let wanted: BTreeMap<String, String> = optional(&call.body)?.unwrap_or_default();
    note(&call, wanted.into_iter().map(|(key, value)| (key, Some(value))).collect()).await
}

/// DELETE: takes one note away.
pub(crate) async fn remove_property(call: Call) -> Result<Reply, Refusal> {
    let key = call.query.get("key").filter(|key| !key.is_empty()).ok_or_else(|| Refusal::precondition("Which one: give ?key="))?;
    note(&call, vec![(key.to_owned(), None)]).await
}

async fn note(call: &Call, notes: Vec<(String, Option<String>)>) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    if call.handle().partitions(topic.clone()).await?.is_none() {
        if !topic.is_persistent() {
            return Err(Refusal::not_allowed("Nothing can be noted on a non-persistent topic without partitions: nothing of it is kept"));
        }
        call.handle().note_on_topic(topic, notes).await?;
        return Ok(Reply::done());
    }
    let domain = if topic.is_persistent() { Domain::Persistent } else { Domain::NonPersistent };
    let change = move |m: &dyn metadata::MetadataStore| {
        partitioned::update_properties(m, path(&topic.namespace()).topic(domain, topic.local()), |properties| {
            for (key, value) in &notes {
                match value {
                    Some(value) => drop(properties.insert(key.clone(), value.clone())),
                    None => drop(properties.remove(key)),
                }
            }
        })
    };
    call.handle().control(change).await?.map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(Reply::done())
}

/// POST: partitions that have no record get one.
pub(crate) async fn create_missed_partitions(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let Some(count) = call.handle().partitions(topic.clone()).await? else {
        return Err(Refusal::not_found(format!("Topic {topic} not found: it is no partitioned topic")));
    };
    let domain = if topic.is_persistent() { Domain::Persistent } else { Domain::NonPersistent };
    let grow = move |m: &dyn metadata::MetadataStore| partitioned::grow(m, path(&topic.namespace()).topic(domain, topic.local()), count);
    call.handle().control(grow).await?.map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(Reply::done())
}

/// GET: names of the topics in a bundle.
pub(crate) async fn of_bundle(call: Call) -> Result<Reply, Refusal> {
    let bundle = call.param("topic").to_owned();
    let namespace = call.namespace()?;
    let Some(bundles) = crate::namespaces::policies(&call).await?.bundles() else {
        return Err(Refusal::internal("The namespace has no bundles"));
    };
    let topics = call.handle().topics(namespace, call.domain()).await?;
    let in_it = |name: &TopicName| metadata::namespaces::Bundles::name(bundles.of(wire::names::hash_of_topic(name))) == bundle;
    if !bundle.contains('_') || !bundle.starts_with("0x") {
        return Err(TopicError::NotAllowed(format!("{bundle} is no bundle: bundles are called like 0x00000000_0x40000000")).into());
    }
    crate::topics::names(topics.into_iter().filter(in_it).collect())
}
