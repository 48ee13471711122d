//! What users note on namespaces and topics: names with values.

use std::collections::BTreeMap;

use metadata::namespaces::Policies;
use metadata::partitioned;
use metadata::paths::Domain;
use serde_json::{Map, Value};
use wire::TopicName;

use crate::address::path;
use crate::errors::Refusal;
use crate::namespaces::policies;
use crate::policies::{Refused, change_namespace, change_topic};
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: everything that is noted on a namespace.
pub(crate) async fn of_namespace(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&noted(&policies(&call).await?))
}

/// PUT: adds to that.
pub(crate) async fn add_to_namespace(call: Call) -> Result<Reply, Refusal> {
    let added = body(&call)?;
    note_on_namespace(&call, move |noted| noted.extend(added.clone())).await
}

/// DELETE: forgets all of it.
pub(crate) async fn clear_namespace(call: Call) -> Result<Reply, Refusal> {
    note_on_namespace(&call, Map::clear).await
}

/// GET: one value, as text.
pub(crate) async fn one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    match noted(&policies(&call).await?).get(call.param("key")).and_then(Value::as_str) {
        Some(value) => Ok(Reply::text(value.to_owned())),
        None => Ok(Reply::done()),
    }
}

/// PUT: notes one value.
pub(crate) async fn set_one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    let (key, value) = (call.param("key").to_owned(), call.param("value").to_owned());
    note_on_namespace(&call, move |noted| drop(noted.insert(key.clone(), value.clone().into()))).await
}

/// DELETE: forgets one value, and tells it.
pub(crate) async fn remove_one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    let key = call.param("key").to_owned();
    let before = noted(&policies(&call).await?).get(&key).and_then(Value::as_str).map(str::to_owned);
    note_on_namespace(&call, move |noted| drop(noted.shift_remove(&key))).await?;
    Ok(before.map_or_else(Reply::done, Reply::text))
}

async fn note_on_namespace(call: &Call, change: impl Fn(&mut Map<String, Value>) + Send + 'static) -> Result<Reply, Refusal> {
    let changed = change_namespace(call, move |policies| {
        let mut noted = noted(policies);
        change(&mut noted);
        policies.set(FIELD, noted)
    });
    changed.await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

/// GET: everything that is noted on a topic.
pub(crate) async fn of_topic(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    if call.handle().partitions(topic.clone()).await?.is_some() {
        let described = crate::partitions::described(&call, topic, 0).await?;
        return Reply::json(&described.properties.unwrap_or_default());
    }
    let mut all: BTreeMap<String, String> = call.handle().created_with(topic.clone()).await?.into_iter().collect();
    for (key, value) in noted(&call.handle().policies_of(topic).await?.topic) {
        match value.as_str() {
            Some(value) => drop(all.insert(key, value.to_owned())),
            None => drop(all.remove(&key)),
        }
    }
    Reply::json(&all)
}

/// PUT: adds to that.
pub(crate) async fn add_to_topic(call: Call) -> Result<Reply, Refusal> {
    let added = body(&call)?;
    match partitioned_topic(&call).await? {
        Some(topic) => {
            let added: BTreeMap<String, String> =
                added.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect();
            note_on_partitioned(&call, topic, move |noted| noted.extend(added.clone())).await
        }
        None => note_on_topic(&call, move |noted| noted.extend(added.clone())).await,
    }
}

/// DELETE: forgets one value.
pub(crate) async fn remove_from_topic(call: Call) -> Result<Reply, Refusal> {
    let key =
        call.query.get("key").filter(|key| !key.is_empty()).ok_or_else(|| Refusal::precondition("key says which property"))?.to_owned();
    if let Some(topic) = partitioned_topic(&call).await? {
        return note_on_partitioned(&call, topic, move |noted| drop(noted.remove(&key))).await;
    }
    // What the topic was created with stays in its record; here it is noted that it does not count.
    let born_with = call.handle().created_with(call.topic()?).await?.iter().any(|(known, _)| *known == key);
    let forget = move |noted: &mut Map<String, Value>| match born_with {
        true => drop(noted.insert(key.clone(), Value::Null)),
        false => drop(noted.shift_remove(&key)),
    };
    note_on_topic(&call, forget).await
}

async fn partitioned_topic(call: &Call) -> Result<Option<TopicName>, Refusal> {
    let topic = call.topic()?;
    Ok(call.handle().partitions(topic.clone()).await?.map(|_| topic))
}

async fn note_on_topic(call: &Call, change: impl Fn(&mut Map<String, Value>) + Send + 'static) -> Result<Reply, Refusal> {
    let changed = change_topic(call, move |policies| {
        let mut noted = noted(policies);
        change(&mut noted);
        match noted.is_empty() {
            true => drop(policies.unset(FIELD)),
            false => policies.set(FIELD, noted)?,
        }
        Ok(())
    });
    changed.await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

async fn note_on_partitioned(
    call: &Call,
    topic: TopicName,
    change: impl Fn(&mut BTreeMap<String, String>) + Send + 'static,
) -> Result<Reply, Refusal> {
    let update = move |m: &dyn metadata::MetadataStore| {
        let (namespace, domain) = (topic.namespace(), if topic.is_persistent() { Domain::Persistent } else { Domain::NonPersistent });
        partitioned::update_properties(m, path(&namespace).topic(domain, topic.local()), |noted| change(noted))
    };
    match call.handle().control(update).await? {
        Ok(_) => Ok(Reply::done()),
        Err(error) => Err(Refusal::internal(error.to_string())),
    }
}

fn noted(policies: &Policies) -> Map<String, Value> {
    policies.field(FIELD).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn body(call: &Call) -> Result<Map<String, Value>, Refusal> {
    let given: BTreeMap<String, String> = optional(&call.body)?.unwrap_or_default();
    Ok(given.into_iter().map(|(key, value)| (key, value.into())).collect())
}

const FIELD: &str = "properties";
