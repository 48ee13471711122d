//! Schemas of topics: their versions, and whether another one may follow.

use std::collections::BTreeMap;

use metadata::paths::{Domain, TopicPath};
use metadata::schemas::{self, Registered, Rules, Schema, SchemaError, SchemaKind};
use metadata::{MetadataStore, namespaces};

use crate::address::{is_system, path};
use crate::errors::Refusal;
use crate::json::{AllSchemas, Compatibility, PostedSchema, SchemaIndexJson, SchemaJson, SchemaPlace, SchemaVersion, StoredVersion};
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: the latest version.
pub(crate) async fn latest(call: Call) -> Result<Reply, Refusal> {
    one(&call, None).await
}

/// GET: a version.
pub(crate) async fn version(call: Call) -> Result<Reply, Refusal> {
    let text = call.param("version");
    let version = text.parse().map_err(|_| Refusal::bad_request(format!("A schema's version is a whole number, not {text:?}")))?;
    one(&call, Some(version)).await
}

async fn one(call: &Call, version: Option<i64>) -> Result<Reply, Refusal> {
    match with_topic(call, move |m, topic, _| schemas::get(m, topic, version)).await? {
        Some(found) => Reply::json(&shown(found)?),
        None => Err(Refusal::not_found("Schema not found")),
    }
}

/// GET: all versions since the latest deletion.
pub(crate) async fn all(call: Call) -> Result<Reply, Refusal> {
    let found = with_topic(&call, |m, topic, _| schemas::live(m, topic)).await?;
    Reply::json(&AllSchemas { get_schema_responses: found.into_iter().map(shown).collect::<Result<_, _>>()? })
}

/// GET: what is kept beside the schemas: versions, their hashes and where they are.
pub(crate) async fn index(call: Call) -> Result<Reply, Refusal> {
    let Some(index) = with_topic(&call, |m, topic, _| schemas::index(m, topic)).await? else {
        return Err(Refusal::not_found("Schema metadata not found"));
    };
    let spelt = |entry: &schemas::IndexEntry| {
        let hash = entry.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        StoredVersion { version: entry.version, position: SchemaPlace { ledger_id: -1, entry_id: -1 }, hash }
    };
    Reply::json(&SchemaIndexJson { info: spelt(&index.latest), index: index.entries.iter().map(spelt).collect() })
}

/// POST: adds a version, unless it is there.
pub(crate) async fn post(call: Call) -> Result<Reply, Refusal> {
    let (schema, now) = (posted(&call.body)?, now_ms());
    let offer = move |m: &dyn MetadataStore, topic: TopicPath<'_>, rules: Rules| {
        // The namespace's word on clients that bring schemas along does not bind administrators.
        schemas::offer(m, topic, &schema, Rules { auto_update: true, ..rules }, now)
    };
    let version = with_topic(&call, offer).await?;
    Reply::json(&SchemaVersion { version: SchemaVersion { version } })
}

/// DELETE: hides all versions; with `force=true` they are removed, and the next one is the first again.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let (force, now) = (call.query.flag("force"), now_ms());
    let version = with_topic(&call, move |m, topic, _| match force {
        true => schemas::forget(m, topic).map(|()| -1),
        false => schemas::delete(m, topic, now),
    });
    Reply::json(&SchemaVersion { version: version.await? })
}

/// POST: whether a schema might be added.
pub(crate) async fn compatibility(call: Call) -> Result<Reply, Refusal> {
    let schema = posted(&call.body)?;
    let check = move |m: &dyn MetadataStore, topic: TopicPath<'_>, rules: Rules| {
        let compatible = match schemas::check(m, topic, &schema, rules.strategy) {
            Ok(()) => true,
            Err(SchemaError::Incompatible(_)) => false,
            Err(error) => return Err(error),
        };
        Ok((compatible, rules.strategy))
    };
    let (compatibility, strategy) = with_topic(&call, check).await?;
    Reply::accepted(&Compatibility { compatibility, schema_compatibility_strategy: strategy.name() })
}

/// POST: the version of a schema, -1 if the topic does not have it.
pub(crate) async fn find(call: Call) -> Result<Reply, Refusal> {
    let schema = posted(&call.body)?;
    let version = with_topic(&call, move |m, topic, _| {
        schemas::check_validity(&schema)?;
        schemas::find_version(m, topic, &schema)
    });
    Reply::json(&SchemaVersion { version: version.await?.unwrap_or(-1) })
}

/// Asks about the topic in the path on the pool for such work; partitions stand for the topic they are parts of.
async fn with_topic<T: Send + 'static>(
    call: &Call,
    ask: impl FnOnce(&dyn MetadataStore, TopicPath<'_>, Rules) -> Result<T, SchemaError> + Send + 'static,
) -> Result<T, Refusal> {
    let (namespace, name) = (call.namespace()?, call.topic()?.partitioned());
    let defaults = call.handle().settings().schemas;
    let answer = call.handle().control(move |m| -> Result<T, Refusal> {
        let (policies, _) = namespaces::get(m, path(&namespace))?;
        let rules = defaults.under(&policies, is_system(&name));
        Ok(ask(m, path(&namespace).topic(Domain::Persistent, name.local()), rules)?)
    });
    answer.await?
}

/// The body of a POST.
fn posted(body: &[u8]) -> Result<Schema, Refusal> {
    let posted: PostedSchema =
        optional(body)?.ok_or_else(|| Refusal::bad_request("The body is an object with `type`, `schema` and `properties`"))?;
    let kind =
        SchemaKind::from_name(&posted.kind).ok_or_else(|| Refusal::unprocessable(format!("{:?} is not a type of schema", posted.kind)))?;
    let text = posted.schema.unwrap_or_default();
    let data = match kind {
        SchemaKind::KeyValue => schemas::key_value_from_json(&text)?,
        _ => text.into_bytes(),
    };
    Ok(Schema { kind: kind.as_kept(), data, properties: posted.properties.unwrap_or_default() })
}

fn shown(found: Registered) -> Result<SchemaJson, Refusal> {
    let Registered { version, timestamp_ms, schema } = found;
    let data = match schema.kind {
        SchemaKind::KeyValue => schemas::key_value_to_json(&schema)?,
        _ => String::from_utf8_lossy(&schema.data).into_owned(),
    };
    let properties: BTreeMap<String, String> = schema.properties;
    Ok(SchemaJson { version, kind: schema.kind.name(), timestamp: timestamp_ms, data, properties })
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
