//! Offering schemas, finding them, deleting them. Blocking: for threads that may wait.

use prost::Message;
use sha2::{Digest, Sha256};

use super::stored::{HERE, IndexEntry, SchemaIndex, StoredSchema};
use super::{MAX_VERSIONS, Registered, Rules, Schema, SchemaError, Strategy, avro, compatibility, validity};
use crate::document::Malformed;
use crate::paths::TopicPath;
use crate::{Expected, MAX_VALUE, MetadataError, MetadataStore, Op, Rejected, Transaction, component};

/// What a consumer's schema meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForConsumer {
    /// A topic that nobody uses and that holds nothing: its schema may become the topic's.
    Idle,
    /// A topic in use: a consumer's schema has to go with the topic's.
    InUse,
}

/// The versions of a topic that count: those after the latest deletion, in order.
struct Versions {
    /// The index and the version of its node; none if the topic never had a schema.
    index: Option<(SchemaIndex, i64)>,
    /// Those that count; the last is the latest.
    live: Vec<IndexEntry>,
}

/// Gives the version of a schema, which is added if it is new and the rules let it follow what is there.
///
/// # Errors
/// Invalid, incompatible, too many or too large; the store's.
pub fn offer(store: &dyn MetadataStore, topic: TopicPath<'_>, schema: &Schema, rules: Rules, now_ms: i64) -> Result<i64, SchemaError> {
    loop {
        let versions = read(store, topic)?;
        if let Some(version) = known(store, topic, &versions, schema)? {
            return Ok(version);
        }
        if !rules.auto_update {
            return Err(SchemaError::Incompatible("Schema not found and schema auto updating is disabled.".into()));
        }
        validity::check(schema)?;
        follow(store, topic, &versions, schema, rules.strategy)?;
        let stored = StoredSchema::new(&id(topic), schema, now_ms);
        if let Some(version) = append(store, topic, versions, &stored, &hash(&schema.data))? {
            return Ok(version);
        }
    }
}

/// Lets a consumer's schema in, or says why it cannot read the topic. An idle topic without a schema takes it for its own.
///
/// # Errors
/// As [`offer`].
pub fn offer_for_consumer(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    schema: &Schema,
    rules: Rules,
    meets: ForConsumer,
    now_ms: i64,
) -> Result<(), SchemaError> {
    let versions = read(store, topic)?;
    if versions.live.is_empty() && meets == ForConsumer::Idle {
        return offer(store, topic, schema, rules, now_ms).map(drop);
    }
    if rules.strategy == Strategy::AlwaysCompatible {
        return Ok(());
    }
    if versions.live.is_empty() {
        let kind = schema.kind;
        return Err(SchemaError::Incompatible(format!(
            "Failed to add schema to an active topic with empty(BYTES) schema: new schema type {kind}"
        )));
    }
    // What is there already can be read, whatever the strategy says of others.
    if known(store, topic, &versions, schema)?.is_some() {
        return Ok(());
    }
    validity::check(schema)?;
    match rules.strategy {
        Strategy::Backward | Strategy::Forward | Strategy::ForwardTransitive | Strategy::Full => {
            follow(store, topic, &versions, schema, Strategy::Backward)
        }
        strategy => all_follow(store, topic, &versions, schema, strategy),
    }
}

/// Whether a schema might be added.
///
/// # Errors
/// Why not.
pub fn check(store: &dyn MetadataStore, topic: TopicPath<'_>, schema: &Schema, strategy: Strategy) -> Result<(), SchemaError> {
    validity::check(schema)?;
    follow(store, topic, &read(store, topic)?, schema, strategy)
}

/// The version of a schema; none if the topic does not have it.
///
/// # Errors
/// The store's.
pub fn find_version(store: &dyn MetadataStore, topic: TopicPath<'_>, schema: &Schema) -> Result<Option<i64>, SchemaError> {
    known(store, topic, &read(store, topic)?, schema)
}

/// A version, or the latest; none if there is none or it was deleted.
///
/// # Errors
/// The store's.
pub fn get(store: &dyn MetadataStore, topic: TopicPath<'_>, version: Option<i64>) -> Result<Option<Registered>, SchemaError> {
    let versions = read(store, topic)?;
    let entry = match version {
        Some(version) => versions.live.iter().find(|entry| entry.version == version),
        None => versions.live.last(),
    };
    entry.map(|entry| load(store, topic, entry.version)).transpose()
}

/// All versions that count, in order.
///
/// # Errors
/// The store's.
pub fn live(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Vec<Registered>, SchemaError> {
    read(store, topic)?.live.iter().map(|entry| load(store, topic, entry.version)).collect()
}

/// The index as it is stored, deletions and what is behind them included.
///
/// # Errors
/// The store's.
pub fn index(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Option<SchemaIndex>, SchemaError> {
    Ok(read(store, topic)?.index.map(|(index, _)| index))
}

/// Hides all versions behind a deletion; returns its version.
///
/// # Errors
/// The store's.
pub fn delete(store: &dyn MetadataStore, topic: TopicPath<'_>, now_ms: i64) -> Result<i64, SchemaError> {
    loop {
        let versions = read(store, topic)?;
        if let Some(version) = append(store, topic, versions, &StoredSchema::deletion(&id(topic), now_ms), &[])? {
            return Ok(version);
        }
    }
}

/// Removes all versions: the next one is the first again.
///
/// # Errors
/// The store's.
pub fn forget(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(), SchemaError> {
    loop {
        let operations = forgetting(store, topic)?;
        let transaction = operations.into_iter().fold(Transaction::new(), Transaction::and);
        match store.commit(transaction) {
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::NotFound { .. } | Rejected::NotEmpty { .. })) => {}
            outcome => return outcome.map(drop).map_err(Into::into),
        }
    }
}

/// What removes all versions, for a transaction of the caller's; it is refused when a version came or went since.
///
/// # Errors
/// The store's.
pub fn forgetting(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Vec<Op>, MetadataError> {
    let path = topic.schemas();
    let Some(found) = store.get(&path)? else { return Ok(Vec::new()) };
    let below = store.children(&path)?.into_iter().map(|version| Op::Delete { path: format!("{path}/{version}"), expected: Expected::Any });
    Ok(below.chain([Op::Delete { path: path.clone(), expected: Expected::Version(found.version) }]).collect())
}

fn read(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Versions, SchemaError> {
    let path = topic.schemas();
    // A node without a value is only a parent.
    let Some(found) = store.get(&path)?.filter(|found| !found.value.is_empty()) else {
        return Ok(Versions { index: None, live: Vec::new() });
    };
    let index = SchemaIndex::decode(found.value.as_slice()).map_err(|error| malformed(path, &error))?;
    let after = index.entries.iter().rposition(|entry| entry.hash.is_empty()).map_or(0, |deletion| deletion + 1);
    let live = index.entries.get(after..).unwrap_or_default().to_vec();
    Ok(Versions { index: Some((index, found.version)), live })
}

fn load(store: &dyn MetadataStore, topic: TopicPath<'_>, version: i64) -> Result<Registered, SchemaError> {
    let path = place(topic, version);
    let found = store.get(&path)?.ok_or_else(|| malformed(path.clone(), &"it is not there"))?;
    let stored = StoredSchema::decode(found.value.as_slice()).map_err(|error| malformed(path.clone(), &error))?;
    stored.registered(version).ok_or_else(|| malformed(path, &"its kind is not known to this version"))
}

/// The version that says the same, if one of those that count does.
fn known(store: &dyn MetadataStore, topic: TopicPath<'_>, versions: &Versions, schema: &Schema) -> Result<Option<i64>, SchemaError> {
    let hash = hash(&schema.data);
    for entry in versions.live.iter().rev().filter(|entry| entry.hash == hash) {
        if load(store, topic, entry.version)?.schema.kind == schema.kind {
            return Ok(Some(entry.version));
        }
    }
    if !schema.kind.is_avro() {
        return Ok(None);
    }
    for entry in versions.live.iter().rev() {
        let registered = load(store, topic, entry.version)?.schema;
        if registered.kind == schema.kind && avro::same(&registered.data, &schema.data) {
            return Ok(Some(entry.version));
        }
    }
    Ok(None)
}

/// Refuses what may not follow the latest, or all, as the strategy has it.
fn follow(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    versions: &Versions,
    schema: &Schema,
    strategy: Strategy,
) -> Result<(), SchemaError> {
    if strategy.is_transitive() {
        return all_follow(store, topic, versions, schema, strategy);
    }
    let Some(latest) = versions.live.last() else { return Ok(()) };
    compatibility::follow([&load(store, topic, latest.version)?.schema], schema, strategy)
}

fn all_follow(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    versions: &Versions,
    schema: &Schema,
    strategy: Strategy,
) -> Result<(), SchemaError> {
    for entry in &versions.live {
        compatibility::follow([&load(store, topic, entry.version)?.schema], schema, strategy)?;
    }
    Ok(())
}

/// Adds a version; none if another was faster.
fn append(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    versions: Versions,
    stored: &StoredSchema,
    hash: &[u8],
) -> Result<Option<i64>, SchemaError> {
    let (mut entries, expected) = match versions.index {
        Some((index, version)) => (index.entries, Expected::Version(version)),
        None => (Vec::new(), Expected::Absent),
    };
    if entries.len() >= MAX_VERSIONS {
        return Err(SchemaError::Incompatible(format!(
            "the topic has {MAX_VERSIONS} versions of its schema, the most there may be: delete them by force"
        )));
    }
    let value = stored.encode_to_vec();
    if value.len() > MAX_VALUE {
        return Err(SchemaError::Invalid(format!("the schema and its properties have {} bytes, the limit is {MAX_VALUE}", value.len())));
    }
    let version = entries.last().map_or(0, |latest| latest.version + 1);
    let latest = IndexEntry { version, place: HERE, hash: hash.to_vec() };
    entries.push(latest.clone());
    let index = SchemaIndex { latest, entries };
    // A topic of a namespace that goes meanwhile must not leave its schema behind.
    let transaction = Transaction::new()
        .check(topic.namespace.policies(), Expected::Any)
        .put(topic.schemas(), index.encode_to_vec(), expected)
        .put(place(topic, version), value, Expected::Absent);
    match store.commit(transaction) {
        Ok(_) => Ok(Some(version)),
        Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::Exists { .. })) => Ok(None),
        // The topic's schemas were removed a moment ago.
        Err(MetadataError::Rejected(Rejected::NotFound { path })) if path == topic.schemas() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn place(topic: TopicPath<'_>, version: i64) -> String {
    format!("{}/{version}", topic.schemas())
}

/// The name that Pulsar has for a topic's schemas.
fn id(topic: TopicPath<'_>) -> String {
    format!("{}/{}", topic.namespace, component::encode(topic.topic))
}

fn hash(data: &[u8]) -> Vec<u8> {
    Sha256::digest(data).to_vec()
}

fn malformed(path: String, reason: &dyn std::fmt::Display) -> SchemaError {
    SchemaError::Malformed(Malformed { path, reason: reason.to_string() })
}
