//! Schemas that clients bring along: looked at on control threads, after a topic is loaded and before the client is let in.
//!
//! The opener of the client is taken aside meanwhile and comes again when its schema is settled. What a producer's schema is the
//! version of goes to its connection first, so that it is there when the topic answers.

mod enforcing;
mod questions;

use metadata::MetadataStore;
use metadata::schemas::{self, ForConsumer, Rules, Schema, SchemaError, SchemaKind};
use topic::{Effect, ProducerKey, Reply};
use wire::{ServerError, TopicName, proto};

pub(crate) use enforcing::{EnforcingNamespaces, follow};

use crate::catalog;
use crate::clock::wall_ms;
use crate::hosting::Hosted;
use crate::letter::{Letter, Opener, TopicRef};
use crate::settings::ServerSettings;
use crate::worker::Worker;

/// The schema of a client that wants to attach.
#[derive(Debug, Default)]
pub(crate) enum Brought {
    /// Looked at, or nothing to look at.
    #[default]
    Settled,
    /// None; whether a producer may do without is up to the namespace.
    Nothing,
    /// A consumer's that will be whatever the topic has.
    Automatic,
    /// To be looked at.
    Some(Box<Schema>),
}

/// A request that a schema stands against, as the protocol says it.
pub(crate) type Refusal = (ServerError, String);

/// What has to be found out about a client's schema.
enum Question {
    /// May a producer do without?
    Without,
    /// Which version is a producer's?
    Producer(Box<Schema>),
    /// May a consumer read with it?
    Consumer(Box<Schema>, ForConsumer),
}

impl Brought {
    /// What a PRODUCER brings along. That its messages are bytes and nothing else is a schema too, if it says so.
    pub(crate) fn by_producer(schema: Option<proto::Schema>) -> Result<Brought, String> {
        let schema = schema.map(from_wire).transpose()?;
        Ok(schema.map_or(Brought::Nothing, |schema| Brought::Some(Box::new(schema))))
    }

    /// What a SUBSCRIBE brings along. Bytes can be had of every topic.
    pub(crate) fn by_consumer(schema: Option<proto::Schema>) -> Result<Brought, String> {
        let schema = schema.map(from_wire).transpose()?.filter(|schema| !schema.kind.is_nothing());
        Ok(match schema {
            None => Brought::Nothing,
            Some(schema) if schema.kind == SchemaKind::AutoConsume => Brought::Automatic,
            Some(schema) => Brought::Some(Box::new(schema)),
        })
    }
}

fn from_wire(schema: proto::Schema) -> Result<Schema, String> {
    let number = schema.r#type;
    let kind = SchemaKind::from_number(number).ok_or_else(|| format!("schema type {number} is not known to this broker"))?;
    let properties = schema.properties.into_iter().map(|property| (property.key, property.value)).collect();
    Ok(Schema { kind: kind.as_kept(), data: schema.schema_data.to_vec(), properties })
}

/// A version as clients have it.
pub(crate) fn version_bytes(version: Option<i64>) -> bytes::Bytes {
    version.map_or_else(bytes::Bytes::new, |version| bytes::Bytes::copy_from_slice(&version.to_be_bytes()))
}

impl Worker {
    /// Returns the opener if nothing about its schema is to be found out; else it comes again, or is refused, later.
    pub(crate) fn with_schema_settled(&mut self, name: &TopicName, key: TopicRef, mut opener: Opener) -> Option<Opener> {
        let hosted = self.topics.get_mut(key.slot, key.generation)?;
        let question = match &mut opener {
            Opener::Producer { schema, .. } => match std::mem::take(schema) {
                Brought::Settled => return Some(opener),
                Brought::Nothing if !self.shared.enforcing.may_hold(&self.shared.settings, name.namespace_str()) => return Some(opener),
                Brought::Nothing | Brought::Automatic => Question::Without,
                Brought::Some(schema) => Question::Producer(schema),
            },
            Opener::Consumer { schema, attach, .. } => match std::mem::take(schema) {
                Brought::Settled | Brought::Nothing => return Some(opener),
                Brought::Automatic => {
                    hosted.automatic_consumers.push(attach.key);
                    return Some(opener);
                }
                Brought::Some(schema) => Question::Consumer(schema, hosted.meets()),
            },
            Opener::Caller(_) => return Some(opener),
        };
        let (shared, owner, name) = (self.shared.clone(), self.index, name.clone());
        // Reading a schema may take long: it must not keep lookups waiting.
        self.shared.control.load(move || match question.answer(&*shared.metadata, &shared.settings, &name) {
            Ok(version) => {
                if let (Some(version), Opener::Producer { attach, .. }) = (version, &opener) {
                    shared.post(attach.key.connection.worker, Letter::SchemaSettled { producer: attach.key, version });
                }
                shared.post(owner, Letter::Open { name, opener });
            }
            Err((error, message)) => {
                if let Some((worker, letter)) = opener.refusal(error, message) {
                    shared.post(worker, letter);
                }
            }
        });
        None
    }

    /// A producer's schema was looked at; it is not attached yet.
    pub(crate) fn schema_settled(&mut self, producer: ProducerKey, version: i64) {
        let key = producer.connection;
        let connection = self.connections.get_mut(key.slot, key.generation);
        if let Some(route) = connection.and_then(|connection| connection.producers.get_mut(&producer.id)) {
            route.schema_version = Some(version);
        }
    }
}

impl Hosted {
    /// What a consumer's schema meets here.
    fn meets(&mut self) -> ForConsumer {
        let consumers = self.topic.consumers().saturating_sub(self.automatic_consumers.len());
        let holds = self.topic.persistent().is_some_and(|topic| topic.storage_bytes() > 0);
        if self.topic.producers() + consumers > 0 || holds { ForConsumer::InUse } else { ForConsumer::Idle }
    }
}

impl Opener {
    /// Tells whoever asked that it was for nothing; a caller is told otherwise.
    pub(crate) fn refusal(&self, error: ServerError, message: String) -> Option<(u16, Letter)> {
        let (to, request) = match self {
            Opener::Producer { attach, .. } => (attach.key.connection, attach.request),
            Opener::Consumer { attach, .. } => (attach.key.connection, attach.request),
            Opener::Caller(_) => return None,
        };
        let nobody = TopicRef { worker: u16::MAX, slot: u32::MAX, generation: u32::MAX };
        let effect = Effect::Reply { to, reply: Reply::Error { request, error, message } };
        Some((to.worker, Letter::ToConnection { from: nobody, effect }))
    }
}

impl Question {
    /// Blocking.
    fn answer(self, metadata: &dyn MetadataStore, settings: &ServerSettings, name: &TopicName) -> Result<Option<i64>, Refusal> {
        let rules = rules(metadata, settings, name)?;
        catalog::with_whole(name, |topic| match self {
            Question::Without => without(metadata, topic, rules).map(|()| None),
            Question::Producer(schema) => schemas::offer(metadata, topic, &schema, rules, wall_ms_signed()).map(Some),
            Question::Consumer(schema, meets) => {
                schemas::offer_for_consumer(metadata, topic, &schema, rules, meets, wall_ms_signed()).map(|()| None)
            }
        })
        .map_err(|error| refusal(name, error))
    }
}

fn without(metadata: &dyn MetadataStore, topic: metadata::paths::TopicPath<'_>, rules: Rules) -> Result<(), SchemaError> {
    if rules.enforced && schemas::get(metadata, topic, None)?.is_some() {
        let why =
            "Producers cannot connect or send message without a schema to topics with a schema when SchemaValidationEnforced is enabled";
        return Err(SchemaError::Incompatible(why.to_owned()));
    }
    Ok(())
}

/// What holds for a topic's schemas. Blocking.
pub(crate) fn rules(metadata: &dyn MetadataStore, settings: &ServerSettings, name: &TopicName) -> Result<Rules, Refusal> {
    let said = crate::policies::said(metadata, name).map_err(|error| (ServerError::MetadataError, error.to_string()))?;
    let policies = said.topic.over(&said.namespace);
    Ok(settings.schemas.under(&policies, name.local().starts_with("__")))
}

fn refusal(name: &TopicName, error: SchemaError) -> Refusal {
    match error {
        SchemaError::Invalid(why) | SchemaError::Incompatible(why) => (ServerError::IncompatibleSchema, why),
        SchemaError::Malformed(malformed) => {
            tracing::warn!(topic = %name, %malformed, "a stored schema cannot be read");
            (ServerError::MetadataError, malformed.to_string())
        }
        SchemaError::Store(error) => (ServerError::ServiceNotReady, format!("schemas of {name}: {error}")),
    }
}

fn wall_ms_signed() -> i64 {
    i64::try_from(wall_ms()).unwrap_or(i64::MAX)
}
