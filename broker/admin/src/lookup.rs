//! Lookup over HTTP: which broker serves a topic, and in which bundle it is.

use metadata::namespaces::Bundles;
use server::{Handle, TopicError};
use wire::TopicName;

use crate::errors::Refusal;
use crate::json::Lookup;
use crate::reply::Reply;
use crate::request::Call;

/// GET: where to find a topic. A topic that would come into being by being used is found too.
pub(crate) async fn topic(call: Call) -> Result<Reply, Refusal> {
    usable(call.handle(), call.topic()?).await?;
    let endpoints = call.handle().endpoints();
    let tls = |url: &'_ Option<String>| url.clone().unwrap_or_default();
    let (broker_url_tls, http_url_tls) = (tls(&endpoints.pulsar_tls), tls(&endpoints.https));
    Reply::json(&Lookup {
        broker_url: &endpoints.pulsar,
        broker_url_tls: &broker_url_tls,
        http_url: &endpoints.http,
        http_url_tls: &http_url_tls,
        native_url: &endpoints.pulsar,
    })
}

/// GET: the bundle a topic is in, as text.
pub(crate) async fn bundle(call: Call) -> Result<Reply, Refusal> {
    let topic = call.topic()?;
    match crate::namespaces::policies(&call).await?.bundles() {
        Some(bundles) => Ok(Reply::text(Bundles::name(bundles.of(wire::names::hash_of_topic(&topic))))),
        None => Err(Refusal::internal("The namespace has no bundles")),
    }
}

async fn usable(handle: &Handle, topic: TopicName) -> Result<(), Refusal> {
    match handle.partitions(topic).await {
        Ok(_) => Ok(()),
        Err(TopicError::NotFound(_)) if handle.settings().auto_topic_creation => Ok(()),
        Err(error) => Err(error.into()),
    }
}
