//! Names in paths, parsed once at the edge.

use metadata::paths::NamespacePath;
use wire::{Domain, NamespaceName, TopicName};

use crate::errors::Refusal;
use crate::request::{Call, Params};

impl Call {
    /// The namespace in the path.
    ///
    /// # Errors
    /// 412 for a bad name.
    pub(crate) fn namespace(&self) -> Result<NamespaceName, Refusal> {
        NamespaceName::new(self.param("tenant"), self.param("namespace")).map_err(|error| Refusal::precondition(error.to_string()))
    }

    /// Whether messages of the topics in the path are stored.
    pub(crate) fn domain(&self) -> Domain {
        if self.param("domain") == Domain::NonPersistent.as_str() { Domain::NonPersistent } else { Domain::Persistent }
    }

    /// The topic in the path.
    ///
    /// # Errors
    /// 412 for a bad name.
    pub(crate) fn topic(&self) -> Result<TopicName, Refusal> {
        let name = TopicName::new(self.domain(), &self.namespace()?, self.param("topic"));
        name.map_err(|error| Refusal::precondition(error.to_string()))
    }
}

/// The topic that a path names, stored or not; persistent where the path does not say.
///
/// # Errors
/// 412 for a bad name.
pub(crate) fn topic(params: &Params) -> Result<TopicName, Refusal> {
    let namespace = NamespaceName::new(params.get("tenant"), params.get("namespace"));
    let namespace = namespace.map_err(|error| Refusal::precondition(error.to_string()))?;
    let domain = if params.get("domain") == Domain::NonPersistent.as_str() { Domain::NonPersistent } else { Domain::Persistent };
    TopicName::new(domain, &namespace, params.get("topic")).map_err(|error| Refusal::precondition(error.to_string()))
}

/// Where a namespace is kept.
pub(crate) fn path(namespace: &NamespaceName) -> NamespacePath<'_> {
    NamespacePath::new(namespace.tenant(), namespace.local())
}

/// The n-th partition of a topic.
///
/// # Errors
/// 412 when the partition's name would be too long.
pub(crate) fn partition(topic: &TopicName, n: u32) -> Result<TopicName, Refusal> {
    topic.partition(n).map_err(|error| Refusal::precondition(error.to_string()))
}

/// Whether a topic is the broker's own and not shown unless asked for.
pub(crate) fn is_system(topic: &TopicName) -> bool {
    topic.local().starts_with("__")
}
