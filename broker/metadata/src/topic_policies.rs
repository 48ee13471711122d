//! Policies of single topics: a node of its own for each topic that has any. Partitions have those of the topic they are a part of.

use crate::document::{self, Malformed};
use crate::namespaces::{Policies, PolicyError};
use crate::paths::{Domain, TopicPath};
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction};

/// Why policies of a topic were not read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicPolicyError {
    /// There is no such topic.
    #[error("topic {0} does not exist")]
    NotFound(String),
    /// A policy has a value it cannot have.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(TopicPolicyError);

/// What is said of a topic; nothing if there is no such topic.
pub fn get(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Policies, TopicPolicyError> {
    Ok(document::read(store, &topic.policies())?.map(|(policies, _)| policies).unwrap_or_default())
}

/// Changes what is said of a topic that exists, with or without partitions; `change` is called again if another change came between.
/// A topic that stores nothing is known to its owner only, who has seen it then. Returns the policies as stored.
pub fn update(
    store: &dyn MetadataStore,
    topic: TopicPath<'_>,
    mut change: impl FnMut(&mut Policies) -> Result<(), PolicyError>,
) -> Result<Policies, TopicPolicyError> {
    let path = topic.policies();
    loop {
        let stored = document::read::<Policies>(store, &path)?;
        let expected = stored.as_ref().map_or(Expected::Absent, |(_, version)| Expected::Version(*version));
        let mut policies = stored.map(|(policies, _)| policies).unwrap_or_default();
        change(&mut policies)?;
        let node = if store.exists(&topic.partitioned())? { topic.partitioned() } else { topic.managed_ledger() };
        let kept = topic.domain == Domain::Persistent || node == topic.partitioned();
        let transaction = if kept { Transaction::new().check(node, Expected::Any) } else { Transaction::new() };
        let transaction = match (policies.fields().is_empty(), expected) {
            (true, Expected::Absent) => transaction,
            (true, expected) => transaction.delete(path.as_str(), expected),
            (false, expected) => transaction.put(path.as_str(), document::bytes(&policies), expected),
        };
        match store.commit(transaction) {
            Ok(_) => return Ok(policies),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::Exists { .. })) => {}
            // The policies were removed between: look again.
            Err(MetadataError::Rejected(Rejected::NotFound { path: missing })) if missing == path => {}
            Err(MetadataError::Rejected(Rejected::NotFound { .. })) => return Err(TopicPolicyError::NotFound(topic.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes what is said of a topic, which is being deleted.
pub fn forget(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(), MetadataError> {
    match store.delete(&topic.policies(), Expected::Any) {
        Ok(_) | Err(MetadataError::Rejected(Rejected::NotFound { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::{self, NewNamespace};
    use crate::paths::NamespacePath;
    use crate::{Bootstrap, MemoryStore, bootstrap, clusters::Cluster, topics};

    const DEFAULT: NamespacePath<'_> = NamespacePath { tenant: "public", namespace: "default" };

    fn started() -> MemoryStore {
        let store = MemoryStore::new();
        let start = Bootstrap { cluster: "standalone", reached_at: Cluster::default(), bundles: 4, system_bundles: 1 };
        bootstrap(&store, &start).unwrap();
        store
    }

    #[test]
    fn only_a_topic_that_exists_has_policies() {
        let store = started();
        let topic = DEFAULT.topic(Domain::Persistent, "a/b c");
        let set = |store: &MemoryStore| update(store, topic, |policies| policies.set("max_producers_per_topic", 3));
        assert_eq!(set(&store).unwrap_err(), TopicPolicyError::NotFound(topic.to_string()));
        assert_eq!(get(&store, topic).unwrap(), Policies::new());
        topics::create(&store, topic).unwrap();
        set(&store).unwrap();
        assert_eq!(get(&store, topic).unwrap().limit("max_producers_per_topic"), Some(3));
        assert!(update(&store, topic, |policies| policies.set("max_producers_per_topic", -1)).is_err());
        assert_eq!(get(&store, topic).unwrap().limit("max_producers_per_topic"), Some(3));
    }

    #[test]
    fn policies_that_say_nothing_take_no_node() {
        let store = started();
        let topic = DEFAULT.topic(Domain::Persistent, "t");
        topics::create(&store, topic).unwrap();
        update(&store, topic, |policies| policies.set("message_ttl_in_seconds", 3)).unwrap();
        assert!(store.exists(&topic.policies()).unwrap());
        for _ in 0..2 {
            update(&store, topic, |policies| {
                policies.unset("message_ttl_in_seconds");
                Ok(())
            })
            .unwrap();
            assert!(!store.exists(&topic.policies()).unwrap());
        }
        forget(&store, topic).unwrap();
    }

    #[test]
    fn a_namespace_goes_with_what_was_said_of_its_topics() {
        let store = started();
        let namespace = NamespacePath::new("public", "short");
        let fill = NewNamespace { local_cluster: "standalone", bundles: 1, limit: None };
        namespaces::create(&store, namespace, Policies::new(), fill).unwrap();
        let topic = namespace.topic(Domain::NonPersistent, "t");
        update(&store, topic, |policies| policies.set("max_producers_per_topic", 3)).unwrap();
        namespaces::delete(&store, namespace).unwrap();
        assert!(!store.exists(&topic.policies()).unwrap());
        assert_eq!(get(&store, topic).unwrap(), Policies::new());
    }
}
