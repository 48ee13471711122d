//! GET_SCHEMA and GET_OR_CREATE_SCHEMA: answered from the metadata, by control threads.

use metadata::MetadataStore;
use metadata::schemas::{self, Registered};
use topic::ConnectionKey;
use wire::{Command, ServerError, TopicName, proto};

use super::{Refusal, refusal, rules, version_bytes, wall_ms_signed, without};
use crate::auth::Wanted;
use crate::catalog;
use crate::settings::ServerSettings;
use crate::worker::Worker;

impl Worker {
    pub(crate) fn get_schema(&mut self, key: ConnectionKey, get: proto::CommandGetSchema) {
        let request = get.request_id;
        let fail = move |error, message| no_schema(request, error, message);
        let (name, version) = match self.usable_topic(&get.topic).and_then(|name| Ok((name, asked_version(get.schema_version.as_deref())?)))
        {
            Ok(asked) => asked,
            Err((error, message)) => return self.tell(key, &fail(error, message)),
        };
        let wanted = (Wanted::Use(name.clone()), "Client is not authorized to get schema");
        self.answer_from_metadata(key, fail, wanted, move |metadata| {
            match catalog::with_whole(&name, |topic| schemas::get(metadata, topic, version)) {
                Ok(Some(found)) => schema_of(request, &name, found),
                Ok(None) => no_schema(request, ServerError::TopicNotFound, format!("Topic not found or no-schema {name}")),
                Err(error) => {
                    let (error, message) = refusal(&name, error);
                    no_schema(request, error, message)
                }
            }
        });
    }

    pub(crate) fn get_or_create_schema(&mut self, key: ConnectionKey, get: proto::CommandGetOrCreateSchema) {
        let request = get.request_id;
        let fail = move |error, message| not_created(request, error, message);
        let name = match self.usable_topic(&get.topic) {
            Ok(name) => name,
            Err((error, message)) => return self.tell(key, &fail(error, message)),
        };
        let shared = self.shared.clone();
        let wanted = (Wanted::Produce(name.clone()), "Client is not authorized to get or create schema");
        self.answer_from_metadata(key, fail, wanted, move |metadata| match get_or_create(metadata, &shared.settings, &name, get.schema) {
            Ok(version) => proto::CommandGetOrCreateSchemaResponse {
                request_id: request,
                schema_version: Some(version_bytes(version)),
                ..Default::default()
            }
            .into(),
            Err((error, message)) => not_created(request, error, message),
        });
    }
}

fn get_or_create(
    metadata: &dyn MetadataStore,
    settings: &ServerSettings,
    name: &TopicName,
    schema: proto::Schema,
) -> Result<Option<i64>, Refusal> {
    let unreadable = |error: metadata::MetadataError| (ServerError::MetadataError, error.to_string());
    if name.is_persistent() && !catalog::exists(metadata, name).map_err(unreadable)? {
        return Err((ServerError::TopicNotFound, format!("Topic not found {name}")));
    }
    let rules = rules(metadata, settings, name)?;
    let schema = super::from_wire(schema).map_err(|why| (ServerError::IncompatibleSchema, why))?;
    catalog::with_whole(name, |topic| match schema.kind.is_nothing() {
        true => without(metadata, topic, rules).map(|()| None),
        false => schemas::offer(metadata, topic, &schema, rules, wall_ms_signed()).map(Some),
    })
    .map_err(|error| refusal(name, error))
}

/// None for the latest. Versions of clients that are very old are longer, with the number in front.
fn asked_version(bytes: Option<&[u8]>) -> Result<Option<i64>, Refusal> {
    let Some(bytes) = bytes else { return Ok(None) };
    match bytes.first_chunk::<8>() {
        Some(number) => Ok(Some(i64::from_be_bytes(*number))),
        None if bytes.is_empty() => Err((ServerError::IncompatibleSchema, "Empty schema version".to_owned())),
        None => Err((ServerError::IncompatibleSchema, format!("a schema version has 8 bytes, not {}", bytes.len()))),
    }
}

fn schema_of(request_id: u64, name: &TopicName, found: Registered) -> Command {
    let Registered { version, schema, .. } = found;
    let properties = schema.properties.into_iter().map(|(key, value)| proto::KeyValue { key, value }).collect();
    proto::CommandGetSchemaResponse {
        request_id,
        schema: Some(proto::Schema {
            name: format!("{}/{}", name.namespace_str(), name.partitioned().encoded_local()),
            schema_data: schema.data.into(),
            r#type: schema.kind.number(),
            properties,
        }),
        schema_version: Some(version_bytes(Some(version))),
        ..Default::default()
    }
    .into()
}

fn no_schema(request_id: u64, error: ServerError, message: String) -> Command {
    proto::CommandGetSchemaResponse { request_id, error_code: Some(error.into()), error_message: Some(message), ..Default::default() }
        .into()
}

fn not_created(request_id: u64, error: ServerError, message: String) -> Command {
    proto::CommandGetOrCreateSchemaResponse {
        request_id,
        error_code: Some(error.into()),
        error_message: Some(message),
        ..Default::default()
    }
    .into()
}
