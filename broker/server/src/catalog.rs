//! Which topics there are, as the metadata tree tells it. Blocking: for control threads.

use ledger::{Cursor, LedgerId, LedgerList, ManagedLedger};
use metadata::partitioned::{self, PartitionedError, PartitionedTopic};
use metadata::paths::{Domain, NamespacePath, TopicPath};
use metadata::{Expected, MetadataError, MetadataStore, Rejected, Transaction, schemas, topic_policies, topics};
use topic::{COMPACTION_CURSOR, Change, DEDUPLICATION_CURSOR};
use wire::{NamespaceName, TopicName};

use crate::handle::TopicError;
use crate::policies::{self, AutoCreation};
use crate::settings::ServerSettings;

fn namespace_path(namespace: &NamespaceName) -> NamespacePath<'_> {
    NamespacePath::new(namespace.tenant(), namespace.local())
}

/// Where a topic's chain is recorded; its cursors are the children.
pub(crate) fn managed_ledger(name: &TopicName) -> String {
    namespace_path(&name.namespace()).topic(Domain::Persistent, name.local()).managed_ledger()
}

pub(crate) fn cursor(name: &TopicName, subscription: &str) -> String {
    namespace_path(&name.namespace()).topic(Domain::Persistent, name.local()).cursor(subscription)
}

/// Whether the tree can hold a topic of this name.
pub(crate) fn check_topic(name: &TopicName) -> Result<(), String> {
    let path = managed_ledger(name);
    // Its partitions' names, and those of its cursors, are longer.
    let longest = metadata::MAX_PATH / 2;
    if path.len() > longest {
        return Err(format!("the topic's name is too long: as a path it has {} bytes, the limit is {longest}", path.len()));
    }
    Ok(())
}

/// Whether the tree can hold a cursor of this name. One that it cannot hold must not get as far as the topic, which would
/// take the refusal for the word of another owner.
pub(crate) fn check_subscription(name: &TopicName, subscription: &str) -> Result<(), String> {
    subscription.parse::<wire::SubscriptionName>().map_err(|e| e.to_string())?;
    if matches!(subscription, "." | "..") {
        return Err(format!("{subscription:?} cannot be the name of a subscription"));
    }
    let path = cursor(name, subscription);
    if path.len() > metadata::MAX_PATH {
        return Err(format!(
            "the subscription's name is too long: as a path it has {} bytes, the limit is {}",
            path.len(),
            metadata::MAX_PATH
        ));
    }
    Ok(())
}

fn path<'a>(namespace: &'a NamespaceName, name: &'a TopicName) -> TopicPath<'a> {
    let domain = if name.is_persistent() { Domain::Persistent } else { Domain::NonPersistent };
    namespace_path(namespace).topic(domain, name.local())
}

/// Calls with the place of a topic, or of the one that a partition is a part of: partitions share its schemas.
pub(crate) fn with_whole<T>(name: &TopicName, call: impl FnOnce(TopicPath<'_>) -> T) -> T {
    let whole = name.partitioned();
    call(path(&whole.namespace(), &whole))
}

/// Whether there is such a topic, with or without partitions; only for topics that are kept.
pub(crate) fn exists(metadata: &dyn MetadataStore, name: &TopicName) -> Result<bool, MetadataError> {
    Ok(metadata.exists(&managed_ledger(name))? || partition_count(metadata, &name.partitioned())?.is_some())
}

pub(crate) fn namespace_exists(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<bool, MetadataError> {
    metadata.exists(&namespace_path(namespace).policies())
}

pub(crate) fn require_namespace(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<(), TopicError> {
    match namespace_exists(metadata, namespace)? {
        true => Ok(()),
        false => Err(TopicError::NoSuchNamespace(namespace.clone())),
    }
}

/// Partitions of a partitioned topic; none if it is not one.
pub(crate) fn partition_count(metadata: &dyn MetadataStore, name: &TopicName) -> Result<Option<u32>, MetadataError> {
    match partitioned::get(metadata, path(&name.namespace(), name)) {
        Ok((topic, _)) => Ok(Some(topic.partitions)),
        Err(PartitionedError::Store(error)) => Err(error),
        Err(PartitionedError::Malformed(error)) => Err(MetadataError::Unknown(error.to_string())),
        Err(_) => Ok(None),
    }
}

/// All persistent topics of a namespace, sorted.
pub(crate) fn topics(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<Vec<TopicName>, TopicError> {
    require_namespace(metadata, namespace)?;
    let names = topics::list(metadata, namespace_path(namespace), Domain::Persistent).map_err(|e| TopicError::Storage(e.to_string()))?;
    Ok(named(namespace, wire::Domain::Persistent, names))
}

/// Base names of the partitioned topics of a namespace, sorted.
pub(crate) fn partitioned_topics(
    metadata: &dyn MetadataStore,
    namespace: &NamespaceName,
    domain: wire::Domain,
) -> Result<Vec<TopicName>, TopicError> {
    require_namespace(metadata, namespace)?;
    let kept_as = match domain {
        wire::Domain::Persistent => Domain::Persistent,
        wire::Domain::NonPersistent => Domain::NonPersistent,
    };
    let names = partitioned::list(metadata, namespace_path(namespace), kept_as).map_err(|e| TopicError::Storage(e.to_string()))?;
    Ok(named(namespace, domain, names))
}

fn named(namespace: &NamespaceName, domain: wire::Domain, locals: Vec<String>) -> Vec<TopicName> {
    let mut topics: Vec<_> = locals.iter().filter_map(|local| TopicName::new(domain, namespace, local).ok()).collect();
    topics.sort();
    topics
}

/// See [`Handle::partitions`](crate::Handle::partitions).
pub(crate) fn partitions(metadata: &dyn MetadataStore, name: &TopicName) -> Result<Option<u32>, TopicError> {
    if let Some(count) = partition_count(metadata, name)? {
        return Ok(Some(count));
    }
    if name.is_persistent() && metadata.exists(&managed_ledger(name))? {
        return Ok(None);
    }
    require_namespace(metadata, &name.namespace())?;
    Err(TopicError::NotFound(name.clone()))
}

/// What a client is told: 0 for a topic without partitions, which need not exist yet. With `create` a topic that is asked for
/// the first time becomes a partitioned one, where its namespace or the configuration wants that.
pub(crate) fn partitions_for_client(
    metadata: &dyn MetadataStore,
    settings: &ServerSettings,
    name: &TopicName,
    create: bool,
) -> Result<u32, TopicError> {
    match partitions(metadata, name) {
        Ok(count) => Ok(count.unwrap_or(0)),
        Err(TopicError::NotFound(_)) if name.is_partition() => Ok(0),
        Err(TopicError::NotFound(_)) if create => match policies::auto_creation(metadata, settings, &name.namespace())? {
            AutoCreation { allowed: false, .. } => Err(TopicError::NotFound(name.clone())),
            AutoCreation { partitions: None, .. } => Ok(0),
            AutoCreation { partitions: Some(count), .. } => create_for_client(metadata, settings, name, count),
        },
        Err(error) => Err(error),
    }
}

fn create_for_client(metadata: &dyn MetadataStore, settings: &ServerSettings, name: &TopicName, count: u32) -> Result<u32, TopicError> {
    policies::require_room(metadata, settings, name, count)?;
    match create_partitioned(metadata, name, count, Vec::new(), settings.max_partitions) {
        Ok(()) => Ok(count),
        // Somebody else was faster; whatever it made is the answer.
        Err(TopicError::Exists(_)) => Ok(partitions(metadata, name)?.unwrap_or(0)),
        Err(error) => Err(error),
    }
}

/// See [`Handle::create_topic`](crate::Handle::create_topic).
pub(crate) fn create_topic(metadata: &dyn MetadataStore, name: &TopicName, properties: Vec<(String, String)>) -> Result<(), TopicError> {
    require_namespace(metadata, &name.namespace())?;
    let base = name.partitioned();
    if let Some(count) = partition_count(metadata, &base)? {
        match name.partition_index() {
            None => return Err(TopicError::Exists(name.clone())),
            Some(index) if index >= count => {
                return Err(TopicError::NotAllowed(format!(
                    "{base} has {count} partitions: raise their number instead of creating {name}"
                )));
            }
            Some(_) => {}
        }
    }
    if !name.is_persistent() {
        // Nothing is kept of it: it is there while somebody uses it.
        return Ok(());
    }
    let list = LedgerList { properties, ..Default::default() };
    let bytes = if list.properties.is_empty() { Vec::new() } else { ManagedLedger::encode_list(&list) };
    let namespace = name.namespace();
    let taken = path(&namespace, name).partitioned();
    match metadata.commit(Transaction::new().check(taken, Expected::Absent).put(managed_ledger(name), bytes, Expected::Absent)) {
        Ok(_) => Ok(()),
        Err(MetadataError::Rejected(Rejected::Exists { .. })) => Err(TopicError::Exists(name.clone())),
        Err(error) => Err(error.into()),
    }
}

/// See [`Handle::create_partitioned`](crate::Handle::create_partitioned).
pub(crate) fn create_partitioned(
    metadata: &dyn MetadataStore,
    name: &TopicName,
    partitions: u32,
    properties: Vec<(String, String)>,
    limit: u32,
) -> Result<(), TopicError> {
    if name.is_partition() {
        return Err(TopicError::NotAllowed(format!("{name} is a partition's name: it cannot have partitions itself")));
    }
    check_count(partitions, limit)?;
    let topic = PartitionedTopic { partitions, properties: properties.into_iter().collect(), ..Default::default() };
    partitioned::create(metadata, path(&name.namespace(), name), &topic).map_err(|e| translate(name, e))
}

/// See [`Handle::update_partitions`](crate::Handle::update_partitions).
pub(crate) fn update_partitions(metadata: &dyn MetadataStore, name: &TopicName, partitions: u32, limit: u32) -> Result<(), TopicError> {
    check_count(partitions, limit)?;
    if let Some(before) = partition_count(metadata, name)?
        && partitions <= before
    {
        return Err(TopicError::NotAllowed(format!("number of partitions must be more than existing {before}")));
    }
    partitioned::grow(metadata, path(&name.namespace(), name), partitions).map_err(|e| translate(name, e))
}

fn check_count(partitions: u32, limit: u32) -> Result<(), TopicError> {
    if partitions == 0 {
        return Err(TopicError::NotAllowed("Number of partitions should be more than 0".to_owned()));
    }
    if limit > 0 && partitions > limit {
        return Err(TopicError::NotAllowed(format!("Number of partitions should be less than or equal to {limit}")));
    }
    Ok(())
}

fn translate(name: &TopicName, error: PartitionedError) -> TopicError {
    match error {
        PartitionedError::Exists(_) => TopicError::Exists(name.clone()),
        PartitionedError::NotFound(_) => TopicError::NotFound(name.clone()),
        PartitionedError::UnknownNamespace(_) => TopicError::NoSuchNamespace(name.namespace()),
        PartitionedError::Store(error) => error.into(),
        other => TopicError::NotAllowed(other.to_string()),
    }
}

/// Removes the record of a partitioned topic, its schemas and its policies; its partitions are removed one by one.
pub(crate) fn forget_partitioned(metadata: &dyn MetadataStore, name: &TopicName) -> Result<(), TopicError> {
    with_whole(name, |whole| topic_policies::forget(metadata, whole))?;
    with_whole(name, |whole| schemas::forget(metadata, whole)).map_err(|e| TopicError::Storage(e.to_string()))?;
    match partitioned::delete(metadata, path(&name.namespace(), name)) {
        Ok(()) | Err(PartitionedError::NotFound(_)) => Ok(()),
        Err(error) => Err(translate(name, error)),
    }
}

/// Durable subscriptions of a topic, loaded or not; the broker's own cursors are none.
pub(crate) fn subscriptions(metadata: &dyn MetadataStore, name: &TopicName) -> Result<usize, MetadataError> {
    if !name.is_persistent() {
        return Ok(0);
    }
    let own = [DEDUPLICATION_CURSOR, COMPACTION_CURSOR];
    let cursors = metadata.children(&managed_ledger(name))?;
    Ok(cursors.iter().filter(|cursor| !own.contains(&cursor.as_str())).count())
}

/// Removes a topic's record and its cursors, in one transaction; returns the ledgers that belonged to it. A record that
/// cannot be read does not keep a topic alive: its ledgers are found as orphans at the next start.
pub(crate) fn forget_topic(metadata: &dyn MetadataStore, name: &TopicName) -> Result<Vec<LedgerId>, TopicError> {
    if !name.is_partition() {
        with_whole(name, |whole| topic_policies::forget(metadata, whole))?;
    }
    if !name.is_persistent() {
        return Ok(Vec::new());
    }
    let path = managed_ledger(name);
    let Some(stored) = metadata.get(&path)? else { return Err(TopicError::NotFound(name.clone())) };
    let list = ManagedLedger::decode_list(&stored.value).unwrap_or_default();
    let mut ledgers: Vec<_> = list.ledgers.iter().map(|l| l.id).collect();
    let mut transaction = Transaction::new();
    for cursor in metadata.children(&path)? {
        let path = format!("{path}/{cursor}");
        if let Some(record) = metadata.get(&path)? {
            if let Ok((state, cursor_ledger, _)) = Cursor::decode_record(&record.value) {
                ledgers.extend(cursor_ledger);
                ledgers.extend(topic::compacted_ledger(&state.properties));
            }
            transaction = transaction.delete(path, Expected::Any);
        }
    }
    // A partition leaves the schemas to the topic it is a part of.
    if !name.is_partition() {
        transaction = with_whole(name, |whole| schemas::forgetting(metadata, whole))?.into_iter().fold(transaction, Transaction::and);
    }
    metadata.commit(transaction.delete(path, Expected::Version(stored.version)))?;
    Ok(ledgers)
}

/// A topic's change as a transaction; its last outcome is the new version.
pub(crate) fn transaction(name: &TopicName, change: Change) -> Transaction {
    match change {
        Change::Ledgers { bytes, expected } => Transaction::new().put(managed_ledger(name), bytes, Expected::Version(expected)),
        // The parent must be there, and a put would make it: a topic that was deleted meanwhile must not come back as the parent of a cursor.
        Change::CreateCursor { subscription, bytes } => {
            Transaction::new().check(managed_ledger(name), Expected::Any).put(cursor(name, &subscription), bytes, Expected::Absent)
        }
        Change::Cursor { subscription, bytes, expected } => {
            Transaction::new().put(cursor(name, &subscription), bytes, Expected::Version(expected))
        }
        Change::DeleteCursor { subscription, expected } => {
            Transaction::new().delete(cursor(name, &subscription), Expected::Version(expected))
        }
    }
}
