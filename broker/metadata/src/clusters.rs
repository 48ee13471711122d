//! Clusters: where each of them is reached.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::{self, Malformed};
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component, namespaces, paths, tenants};

/// A cluster, as Pulsar's `ClusterData` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Of the admin API, `http://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_url: Option<String>,
    /// Of the admin API, `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_url_tls: Option<String>,
    /// Of the brokers, `pulsar://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_service_url: Option<String>,
    /// Of the brokers, `pulsar+ssl://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_service_url_tls: Option<String>,
    /// Everything else that Pulsar puts there, kept as it came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Why a call about a cluster failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Not a cluster's name.
    #[error("{0:?} is not a cluster name: letters, digits and -=:._ only")]
    BadName(String),
    /// There is one of that name.
    #[error("cluster {0} exists already")]
    Exists(String),
    /// There is none of that name.
    #[error("cluster {0} does not exist")]
    NotFound(String),
    /// A tenant or namespace names it.
    #[error("cluster {cluster} is in use by {user}")]
    InUse {
        /// The cluster.
        cluster: String,
        /// The tenant or namespace.
        user: String,
    },
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(ClusterError);

/// Adds a cluster.
pub fn create(store: &dyn MetadataStore, name: &str, cluster: &Cluster) -> Result<(), ClusterError> {
    if !component::is_entity_name(name) {
        return Err(ClusterError::BadName(name.to_owned()));
    }
    match store.put(&paths::cluster(name), &document::bytes(cluster), Expected::Absent) {
        Ok(_) => Ok(()),
        Err(MetadataError::Rejected(Rejected::Exists { .. })) => Err(ClusterError::Exists(name.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// The cluster and the version of its node.
pub fn get(store: &dyn MetadataStore, name: &str) -> Result<(Cluster, i64), ClusterError> {
    if !component::is_entity_name(name) {
        return Err(ClusterError::NotFound(name.to_owned()));
    }
    document::read(store, &paths::cluster(name))?.ok_or_else(|| ClusterError::NotFound(name.to_owned()))
}

/// Replaces a cluster, whatever its node holds.
pub fn update(store: &dyn MetadataStore, name: &str, cluster: &Cluster) -> Result<(), ClusterError> {
    if !component::is_entity_name(name) {
        return Err(ClusterError::NotFound(name.to_owned()));
    }
    let path = paths::cluster(name);
    let replace = Transaction::new().check(path.as_str(), Expected::Any).put(path, document::bytes(cluster), Expected::Any);
    match store.commit(replace) {
        Ok(_) => Ok(()),
        Err(MetadataError::Rejected(Rejected::NotFound { .. })) => Err(ClusterError::NotFound(name.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// All names, sorted.
pub fn list(store: &dyn MetadataStore) -> Result<Vec<String>, ClusterError> {
    Ok(store.children(paths::CLUSTERS)?)
}

/// Removes a cluster that no tenant and no namespace names. Every tenant and namespace that exists now is held to that in
/// one transaction; one that is created at the same moment is not seen.
pub fn delete(store: &dyn MetadataStore, name: &str) -> Result<(), ClusterError> {
    loop {
        let (_, version) = get(store, name)?;
        let unused = unused(store, name, Transaction::new())?;
        match store.commit(unused.delete(paths::cluster(name), Expected::Version(version))) {
            Ok(_) => return Ok(()),
            // Something changed while it was looked at: look again.
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn unused(store: &dyn MetadataStore, name: &str, mut checks: Transaction) -> Result<Transaction, ClusterError> {
    let in_use = |user: String| ClusterError::InUse { cluster: name.to_owned(), user };
    for tenant in store.children(paths::POLICIES)? {
        let path = paths::tenant(&tenant);
        let Some((document, version)) = document::read::<tenants::Tenant>(store, &path)? else { continue };
        if document.allowed_clusters.iter().any(|allowed| allowed == name) {
            return Err(in_use(format!("tenant {tenant}")));
        }
        checks = checks.check(path, Expected::Version(version));
        for namespace in store.children(&paths::tenant(&tenant))? {
            let namespace = paths::NamespacePath::new(&tenant, &namespace);
            let Some((policies, version)) = document::read::<namespaces::Policies>(store, &namespace.policies())? else { continue };
            if policies.replication_clusters().iter().any(|cluster| cluster == name) {
                return Err(in_use(format!("namespace {namespace}")));
            }
            checks = checks.check(namespace.policies(), Expected::Version(version));
        }
    }
    Ok(checks)
}
