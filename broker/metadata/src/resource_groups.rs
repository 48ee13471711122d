//! Groups of namespaces that share rates: kept for who administers them.

use serde::{Deserialize, Serialize};

use crate::document::{self, Malformed};
use crate::{Expected, MetadataError, MetadataStore, Rejected, component, namespaces, paths};

/// The rates of a group, as Pulsar's `ResourceGroup` has them; what is not said is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGroup {
    /// Messages that may come in, in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_rate_in_msgs: Option<i64>,
    /// Bytes that may come in, in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_rate_in_bytes: Option<i64>,
    /// Messages that may go out, in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_rate_in_msgs: Option<i64>,
    /// Bytes that may go out, in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_rate_in_bytes: Option<i64>,
}

/// Why a call about a group failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceGroupError {
    /// Not a group's name.
    #[error("{0:?} is not a name of a resource group: letters, digits and -=:._ only")]
    BadName(String),
    /// There is none of that name.
    #[error("resource group {0} does not exist")]
    NotFound(String),
    /// A namespace is in it.
    #[error("resource group {group} is in use by namespace {namespace}")]
    InUse {
        /// The group.
        group: String,
        /// The namespace.
        namespace: String,
    },
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(ResourceGroupError);

/// All names, sorted.
pub fn list(store: &dyn MetadataStore) -> Result<Vec<String>, ResourceGroupError> {
    Ok(store.children(paths::RESOURCE_GROUPS)?)
}

/// The rates of a group.
pub fn get(store: &dyn MetadataStore, name: &str) -> Result<ResourceGroup, ResourceGroupError> {
    let unknown = || ResourceGroupError::NotFound(name.to_owned());
    if !component::is_entity_name(name) {
        return Err(unknown());
    }
    document::read(store, &paths::resource_group(name))?.map(|(group, _)| group).ok_or_else(unknown)
}

/// Adds a group, or changes what is said of it; what `rates` do not say stays.
pub fn put(store: &dyn MetadataStore, name: &str, rates: &ResourceGroup) -> Result<(), ResourceGroupError> {
    if !component::is_entity_name(name) {
        return Err(ResourceGroupError::BadName(name.to_owned()));
    }
    let path = paths::resource_group(name);
    loop {
        let found = document::read::<ResourceGroup>(store, &path)?;
        let expected = found.as_ref().map_or(Expected::Absent, |(_, version)| Expected::Version(*version));
        let before = found.map(|(group, _)| group).unwrap_or_default();
        let group = ResourceGroup {
            publish_rate_in_msgs: rates.publish_rate_in_msgs.or(before.publish_rate_in_msgs),
            publish_rate_in_bytes: rates.publish_rate_in_bytes.or(before.publish_rate_in_bytes),
            dispatch_rate_in_msgs: rates.dispatch_rate_in_msgs.or(before.dispatch_rate_in_msgs),
            dispatch_rate_in_bytes: rates.dispatch_rate_in_bytes.or(before.dispatch_rate_in_bytes),
        };
        match store.put(&path, &document::bytes(&group), expected) {
            Ok(_) => return Ok(()),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::Exists { .. } | Rejected::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a group that no namespace is in; one that joins at the same moment is not seen.
pub fn delete(store: &dyn MetadataStore, name: &str) -> Result<(), ResourceGroupError> {
    get(store, name)?;
    for tenant in store.children(paths::POLICIES)? {
        for namespace in store.children(&paths::tenant(&tenant))? {
            let path = paths::NamespacePath::new(&tenant, &namespace);
            let policies = document::read::<namespaces::Policies>(store, &path.policies())?;
            if policies.is_some_and(|(policies, _)| policies.field("resource_group_name").is_some_and(|group| group == name)) {
                return Err(ResourceGroupError::InUse { group: name.to_owned(), namespace: path.to_string() });
            }
        }
    }
    match store.delete(&paths::resource_group(name), Expected::Any) {
        Ok(_) | Err(MetadataError::Rejected(Rejected::NotFound { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
