//! Topics that are kept: each has a node for its list of ledgers, empty until its first owner fills it.

use crate::paths::{Domain, NamespacePath, Place, TopicPath};
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component};

/// Why a call about a topic failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// Not a topic's name.
    #[error("{0:?} is not a topic name")]
    BadName(String),
    /// There is one of that name.
    #[error("topic {0} exists already")]
    Exists(String),
    /// There is none of that name.
    #[error("topic {0} does not exist")]
    NotFound(String),
    /// Its namespace does not exist.
    #[error("namespace {0} does not exist")]
    UnknownNamespace(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

/// Adds a topic without partitions, or one partition, to a namespace that exists.
pub fn create(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(), TopicError> {
    check_name(topic)?;
    let outcome = store.commit(creation(topic));
    outcome.map(drop).map_err(|refused| explain(topic, refused))
}

/// The transaction of [`create`], for callers that submit it themselves.
pub fn creation(topic: TopicPath<'_>) -> Transaction {
    Transaction::new().check(topic.namespace.policies(), Expected::Any).put(topic.managed_ledger(), Vec::new(), Expected::Absent)
}

/// Whether it is there.
pub fn exists(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<bool, TopicError> {
    Ok(is_name(topic.topic) && store.exists(&topic.managed_ledger())?)
}

/// Names of a namespace's topics, partitions among them, sorted as they are spelt in the tree.
pub fn list(store: &dyn MetadataStore, namespace: NamespacePath<'_>, domain: Domain) -> Result<Vec<String>, TopicError> {
    let components = store.children(&namespace.topics(domain))?;
    Ok(components.iter().filter_map(|component| component::decode(component)).collect())
}

/// Names of a topic's cursors.
pub fn cursors(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<Vec<String>, TopicError> {
    let components = store.children(&topic.managed_ledger())?;
    Ok(components.iter().filter_map(|component| component::decode(component)).collect())
}

/// Removes a topic with its cursors, in one transaction. Its ledgers are the caller's affair, and so is that nobody owns it.
pub fn delete(store: &dyn MetadataStore, topic: TopicPath<'_>) -> Result<(), TopicError> {
    check_name(topic).map_err(|_| not_found(topic))?;
    let path = topic.managed_ledger();
    loop {
        let mut transaction = Transaction::new();
        for cursor in store.children(&path)? {
            transaction = transaction.delete(format!("{path}/{cursor}"), Expected::Any);
        }
        match store.commit(transaction.delete(path.as_str(), Expected::Any)) {
            Ok(_) => return Ok(()),
            // A cursor came: look again.
            Err(MetadataError::Rejected(Rejected::NotEmpty { .. })) => {}
            // A cursor went: look again, unless the topic went.
            Err(MetadataError::Rejected(Rejected::NotFound { .. })) if store.exists(&path)? => {}
            Err(refused) => return Err(explain(topic, refused)),
        }
    }
}

pub(crate) fn is_name(topic: &str) -> bool {
    !topic.is_empty() && topic != "." && topic != ".."
}

pub(crate) fn check_name(topic: TopicPath<'_>) -> Result<(), TopicError> {
    if is_name(topic.topic) { Ok(()) } else { Err(TopicError::BadName(topic.topic.to_owned())) }
}

fn not_found(topic: TopicPath<'_>) -> TopicError {
    TopicError::NotFound(topic.to_string())
}

fn explain(topic: TopicPath<'_>, refused: MetadataError) -> TopicError {
    match refused {
        MetadataError::Rejected(Rejected::Exists { .. }) => TopicError::Exists(topic.to_string()),
        MetadataError::Rejected(Rejected::NotFound { path }) => match Place::parse(&path) {
            Some(Place::Policies(namespace)) => TopicError::UnknownNamespace(namespace.to_string()),
            _ => not_found(topic),
        },
        other => other.into(),
    }
}
