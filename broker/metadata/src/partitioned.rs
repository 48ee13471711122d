//! Partitioned topics: how many partitions each has. A partition is a topic of its own, `{name}-partition-{n}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::document::{self, Malformed};
use crate::paths::{Domain, NamespacePath, Place, TopicPath};
use crate::topics::{self, TopicError};
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component};

/// A partitioned topic, as Pulsar's `PartitionedTopicMetadata` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionedTopic {
    /// How many partitions.
    pub partitions: u32,
    /// What the user noted on it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Everything else, kept as it came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Why a call about a partitioned topic failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionedError {
    /// Not a topic's name.
    #[error("{0:?} is not a topic name")]
    BadName(String),
    /// A count that cannot be.
    #[error("a partitioned topic has 1 partition at least")]
    NoPartitions,
    /// There is one of that name, with or without partitions.
    #[error("topic {0} exists already")]
    Exists(String),
    /// There is no partitioned topic of that name.
    #[error("partitioned topic {0} does not exist")]
    NotFound(String),
    /// Its namespace does not exist.
    #[error("namespace {0} does not exist")]
    UnknownNamespace(String),
    /// Partitions are never taken away.
    #[error("the topic has {now} partitions; it cannot have {asked}")]
    Fewer {
        /// It has.
        now: u32,
        /// It was to have.
        asked: u32,
    },
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(PartitionedError);

/// Adds a partitioned topic and, if it is persistent, the nodes of its partitions that are not there yet; to a namespace that
/// exists, where no topic without partitions has the name.
pub fn create(store: &dyn MetadataStore, topic: TopicPath<'_>, document: &PartitionedTopic) -> Result<(), PartitionedError> {
    topics::check_name(topic).map_err(|_: TopicError| PartitionedError::BadName(topic.topic.to_owned()))?;
    if document.partitions == 0 {
        return Err(PartitionedError::NoPartitions);
    }
    loop {
        let transaction = Transaction::new()
            .check(topic.namespace.policies(), Expected::Any)
            .check(topic.managed_ledger(), Expected::Absent)
            .put(topic.partitioned(), document::bytes(document), Expected::Absent);
        let Err(refused) = store.commit(with_partitions(store, transaction, topic, document.partitions)?) else { return Ok(()) };
        if !partition_appeared(topic, &refused) {
            return Err(explain(topic, refused));
        }
    }
}

/// The topic and the version of its node.
pub fn get(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(PartitionedTopic, i64), PartitionedError> {
    topics::check_name(topic).map_err(|_| not_found(topic))?;
    document::read(store, &topic.partitioned())?.ok_or_else(|| not_found(topic))
}

/// Raises the number of partitions, adding the nodes of the new ones if it is persistent. Raising it to what it is does nothing.
pub fn grow(store: &dyn MetadataStore, topic: TopicPath<'_>, partitions: u32) -> Result<(), PartitionedError> {
    loop {
        let (mut document, version) = get(store, topic)?;
        if partitions < document.partitions {
            return Err(PartitionedError::Fewer { now: document.partitions, asked: partitions });
        }
        document.partitions = partitions;
        let transaction = Transaction::new().put(topic.partitioned(), document::bytes(&document), Expected::Version(version));
        match store.commit(with_partitions(store, transaction, topic, partitions)?) {
            Ok(_) => return Ok(()),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. })) => {}
            Err(refused) if partition_appeared(topic, &refused) => {}
            Err(refused) => return Err(explain(topic, refused)),
        }
    }
}

/// Changes what is noted on the topic; the number of partitions stays.
pub fn update_properties(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    mut change: impl FnMut(&mut BTreeMap<String, String>),
) -> Result<PartitionedTopic, PartitionedError> {
    topics::check_name(topic).map_err(|_| not_found(topic))?;
    let changed = document::update(store, &topic.partitioned(), |document: &mut PartitionedTopic| {
        change(&mut document.properties);
        Ok::<_, PartitionedError>(())
    })?;
    changed.ok_or_else(|| not_found(topic))
}

/// Names of a namespace's partitioned topics, sorted as they are spelt in the tree.
pub fn list(store: &dyn MetadataStore, namespace: NamespacePath<'_>, domain: Domain) -> Result<Vec<String>, PartitionedError> {
    let components = store.children(&namespace.partitioned_topics(domain))?;
    Ok(components.iter().filter_map(|component| component::decode(component)).collect())
}

/// Forgets the number of partitions. The partitions are topics and are deleted as such, before.
pub fn delete(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(), PartitionedError> {
    topics::check_name(topic).map_err(|_| not_found(topic))?;
    let outcome = store.delete(&topic.partitioned(), Expected::Any);
    outcome.map(drop).map_err(|refused| explain(topic, refused))
}

/// The name of a partition.
pub fn partition_name(topic: &str, partition: u32) -> String {
    format!("{topic}-partition-{partition}")
}

fn with_partitions(
    store: &dyn MetadataStore,
    mut transaction: Transaction,
    topic: TopicPath<'_>,
    partitions: u32,
) -> Result<Transaction, MetadataError> {
    if topic.domain == Domain::NonPersistent {
        return Ok(transaction);
    }
    for partition in 0..partitions {
        let name = partition_name(topic.topic, partition);
        let path = TopicPath { topic: &name, ..topic }.managed_ledger();
        if !store.exists(&path)? {
            transaction = transaction.put(path, Vec::new(), Expected::Absent);
        }
    }
    Ok(transaction)
}

// Someone began to use a partition that was missing a moment ago.
fn partition_appeared(topic: TopicPath<'_>, refused: &MetadataError) -> bool {
    let Some(Rejected::Exists { path }) = refused.rejected() else { return false };
    *path != topic.partitioned() && *path != topic.managed_ledger()
}

fn not_found(topic: TopicPath<'_>) -> PartitionedError {
    PartitionedError::NotFound(topic.to_string())
}

fn explain(topic: TopicPath<'_>, refused: MetadataError) -> PartitionedError {
    match refused {
        MetadataError::Rejected(Rejected::Exists { .. }) => PartitionedError::Exists(topic.to_string()),
        MetadataError::Rejected(Rejected::NotFound { path }) => match Place::parse(&path) {
            Some(Place::Policies(namespace)) => PartitionedError::UnknownNamespace(namespace.to_string()),
            _ => not_found(topic),
        },
        other => other.into(),
    }
}
