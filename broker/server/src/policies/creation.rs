//! What may come into being in a namespace: topics that nobody created, and how many there may be. Blocking: for control threads.

use metadata::paths::{Domain, NamespacePath};
use metadata::{MetadataError, MetadataStore};
use wire::{NamespaceName, TopicName};

use crate::handle::TopicError;
use crate::policies::of_namespace;
use crate::settings::ServerSettings;

/// What becomes of a topic that is used before it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoCreation {
    /// Whether it comes into being.
    pub allowed: bool,
    /// Its partitions; none for a topic without.
    pub partitions: Option<u32>,
}

/// What becomes of topics of a namespace that are used before they are there.
pub(crate) fn auto_creation(
    metadata: &dyn MetadataStore,
    settings: &ServerSettings,
    namespace: &NamespaceName,
) -> Result<AutoCreation, MetadataError> {
    Ok(match of_namespace(metadata, namespace)?.auto_topic_creation() {
        Some(creation) => AutoCreation { allowed: creation.allow, partitions: creation.partitions() },
        None => AutoCreation { allowed: settings.auto_topic_creation, partitions: settings.auto_topic_partitions },
    })
}

/// Whether `more` topics may come into being beside those that the namespace has; one that is there already counts as one of them.
/// Two that come at the same moment may both find room for one.
pub(crate) fn require_room(
    metadata: &dyn MetadataStore,
    settings: &ServerSettings,
    topic: &TopicName,
    more: u32,
) -> Result<(), TopicError> {
    let namespace = topic.namespace();
    let policies = of_namespace(metadata, &namespace)?.over(&settings.policies);
    let most = policies.limit("max_topics_per_namespace").unwrap_or(0) as usize;
    if most == 0 || topic.local().starts_with("__") {
        return Ok(());
    }
    let path = NamespacePath::new(namespace.tenant(), namespace.local());
    let there = metadata.children(&path.topics(Domain::Persistent))?.into_iter().filter(|name| !name.starts_with("__")).count();
    match there + more as usize > most {
        true => Err(TopicError::TooMany(format!("Exceed maximum number of topics in namespace: {namespace} may have {most}"))),
        false => Ok(()),
    }
}
