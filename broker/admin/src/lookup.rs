//! Lookup over HTTP: which broker serves a topic, and in which bundle it is.

use metadata::namespaces::Bundles;
use server::{Endpoints, Handle, TopicError};
use wire::TopicName;

use crate::errors::Refusal;
use crate::json::Lookup;
use crate::reply::Reply;
use crate::request::Call;

/// GET: where to find a topic. A topic that would come into being by being used is found too. `listenerName`, or the header of
/// that name, asks for the addresses of an advertised listener.
pub(crate) async fn topic(call: Call) -> Result<Reply, Refusal> {
    usable(call.handle(), call.topic()?).await?;
    let header = call.headers.get("X-Pulsar-ListenerName").and_then(|value| value.to_str().ok());
    let listener = call.query.get("listenerName").or(header).filter(|name| !name.is_empty());
    Reply::json(&addresses(call.handle().endpoints(), listener)?)
}

fn addresses<'e>(endpoints: &'e Endpoints, listener: Option<&str>) -> Result<Lookup<'e>, Refusal> {
    let text = |url: &'e Option<String>| url.as_deref().unwrap_or_default();
    let (broker_url, broker_url_tls) = match listener {
        None => (endpoints.pulsar.as_str(), text(&endpoints.pulsar_tls)),
        Some(name) => {
            let listener = endpoints.listeners.iter().find(|listener| listener.name == name);
            let listener = listener.ok_or_else(|| Refusal::bad_request(format!("the broker do not have {name} listener")))?;
            (text(&listener.pulsar), text(&listener.pulsar_tls))
        }
    };
    Ok(Lookup { broker_url, broker_url_tls, http_url: &endpoints.http, http_url_tls: text(&endpoints.https), native_url: broker_url })
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
        Err(TopicError::NotFound(topic)) if handle.auto_creation(topic.namespace()).await?.allowed => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use server::AdvertisedListener;

    use super::*;

    #[test]
    fn a_listener_is_asked_for_by_name() {
        let outside = AdvertisedListener { name: "outside".into(), pulsar: Some("pulsar://o:1".into()), pulsar_tls: None };
        let endpoints = Endpoints {
            pulsar: "pulsar://h:6650".into(),
            pulsar_tls: Some("pulsar+ssl://h:6651".into()),
            http: "http://h:8080".into(),
            https: None,
            listeners: vec![outside],
        };
        let plain = addresses(&endpoints, None).unwrap();
        assert_eq!(
            (plain.broker_url, plain.broker_url_tls, plain.native_url),
            ("pulsar://h:6650", "pulsar+ssl://h:6651", "pulsar://h:6650")
        );
        let named = addresses(&endpoints, Some("outside")).unwrap();
        assert_eq!((named.broker_url, named.broker_url_tls, named.native_url), ("pulsar://o:1", "", "pulsar://o:1"));
        assert_eq!(addresses(&endpoints, Some("nowhere")).unwrap_err().status.as_u16(), 400);
    }
}
