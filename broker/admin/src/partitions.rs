//! Partitions of topics.

use metadata::partitioned;
use metadata::paths::Domain;
use server::TopicError;
use wire::TopicName;

use crate::address::path;
use crate::errors::Refusal;
use crate::json::Partitions;
use crate::reply::Reply;
use crate::request::{Call, integer, optional};

/// PUT: adds a partitioned topic. The body is the number of partitions, as a number or as text, or an object with properties too.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    if topic.is_partition() {
        return Err(Refusal::precondition("Partitioned Topic Name should not contain '-partition-'"));
    }
    let wanted = wanted(&call.body)?;
    let count = count(&call, wanted.partitions)?;
    let properties = wanted.properties.unwrap_or_default().into_iter().collect();
    call.handle().create_partitioned(topic, count, properties).await?;
    Ok(Reply::done())
}

/// POST: raises the number of partitions.
pub(crate) async fn update(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let count = count(&call, wanted(&call.body)?.partitions)?;
    match call.handle().partitions(topic.clone()).await? {
        None => Err(Refusal::conflict("Topic is not partitioned topic")),
        Some(now) if count < now => Err(Refusal::unprocessable(format!("The topic has {now} partitions and cannot have fewer"))),
        Some(now) if count == now => Ok(Reply::done()),
        Some(_) => {
            call.handle().update_partitions(topic, count).await?;
            Ok(Reply::done())
        }
    }
}

/// GET: the number of partitions, 0 for a topic without. `?checkAllowAutoCreation=true` asks for what a client would find that
/// uses the topic now, and brings a partitioned topic into being if that is what would happen.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    let found = match call.handle().partitions(topic.clone()).await {
        Err(TopicError::NotFound(_)) if call.query.flag("checkAllowAutoCreation") => auto_create(&call, topic.clone()).await?,
        other => other?,
    };
    match found {
        Some(count) => Reply::json(&described(&call, topic, count).await?),
        None => Reply::json(&Partitions::default()),
    }
}

/// The number of partitions and what was noted on the topic; nothing noted leaves no trace, since tools compare the answer.
pub(crate) async fn described(call: &Call, topic: TopicName, count: u32) -> Result<Partitions, Refusal> {
    let domain = if topic.is_persistent() { Domain::Persistent } else { Domain::NonPersistent };
    let noted = call.handle().control(move |m| partitioned::get(m, path(&topic.namespace()).topic(domain, topic.local())));
    let properties = noted.await?.map(|(topic, _)| topic.properties).unwrap_or_default();
    Ok(Partitions { partitions: count.into(), properties: (!properties.is_empty()).then_some(properties) })
}

async fn auto_create(call: &Call, topic: TopicName) -> Result<Option<u32>, TopicError> {
    let creation = call.handle().auto_creation(topic.namespace()).await?;
    match creation.partitions {
        _ if !creation.allowed => Err(TopicError::NotFound(topic)),
        // Without partitions it comes into being when its first producer or consumer arrives.
        None => Ok(None),
        Some(_) if topic.is_partition() => Ok(None),
        Some(count) => match call.handle().create_partitioned(topic.clone(), count, Vec::new()).await {
            Ok(()) => Ok(Some(count)),
            // Another request was faster.
            Err(TopicError::Exists(_)) => call.handle().partitions(topic).await,
            Err(error) => Err(error),
        },
    }
}

/// DELETE: removes a partitioned topic with its partitions.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    call.handle().delete_partitioned(topic, call.query.flag("force")).await.map_err(|error| match error {
        TopicError::NotFound(topic) => Refusal::not_found(format!("Partitioned Topic {topic} not found")),
        other => other.into(),
    })?;
    Ok(Reply::done())
}

/// The body of PUT and POST.
fn wanted(body: &[u8]) -> Result<Partitions, Refusal> {
    if body.trim_ascii().starts_with(b"{") {
        return optional(body).map(Option::unwrap_or_default);
    }
    Ok(Partitions { partitions: integer(body)?, properties: None })
}

fn count(call: &Call, wanted: i64) -> Result<u32, Refusal> {
    let limit = call.handle().live().max_partitions;
    within(wanted, limit)
}

fn within(wanted: i64, limit: u32) -> Result<u32, Refusal> {
    if wanted <= 0 {
        return Err(Refusal::not_acceptable("Number of partitions should be more than 0"));
    }
    match u32::try_from(wanted) {
        Ok(count) if limit == 0 || count <= limit => Ok(count),
        _ => {
            let limit = if limit == 0 { u32::MAX } else { limit };
            Err(Refusal::not_acceptable(format!("Number of partitions should be less than or equal to {limit}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_comes_as_a_number_as_text_or_in_an_object() {
        let plain = Partitions { partitions: 3, properties: None };
        assert_eq!(wanted(b"3").unwrap(), plain);
        assert_eq!(wanted(b"\"3\"").unwrap(), plain);
        assert_eq!(wanted(br#" {"partitions":3}"#).unwrap(), plain);
        assert_eq!(wanted(br#"{"partitions":3,"properties":null,"more":1}"#).unwrap(), plain);
        let noted = wanted(br#"{"partitions":3,"properties":{"a":"b"}}"#).unwrap();
        assert_eq!(noted.properties.unwrap()["a"], "b");
        for bad in [&b""[..], b"null", b"many", b"{}", b"[3]"] {
            assert_eq!(wanted(bad).unwrap_err().status.as_u16(), 400, "{bad:?}");
        }
    }

    #[test]
    fn a_count_must_be_positive_and_within_the_limit() {
        assert_eq!(within(3, 0).unwrap(), 3);
        assert_eq!(within(3, 3).unwrap(), 3);
        for (wanted, limit) in [(0, 0), (-1, 0), (4, 3), (1 << 40, 0)] {
            assert_eq!(within(wanted, limit).unwrap_err().status.as_u16(), 406, "{wanted} of {limit}");
        }
    }
}
