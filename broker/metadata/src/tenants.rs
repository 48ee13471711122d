//! Tenants: who may administer them, and in which clusters they live.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::document::{self, Malformed};
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component, paths};

/// A tenant, as Pulsar's `TenantInfo` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Roles that may administer it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub admin_roles: Vec<String>,
    /// Clusters its namespaces may be in.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub allowed_clusters: Vec<String>,
    /// Everything else, kept as it came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Why a call about a tenant failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// Not a tenant's name.
    #[error("{0:?} is not a tenant name: letters, digits and -=:._ only")]
    BadName(String),
    /// There is one of that name.
    #[error("tenant {0} exists already")]
    Exists(String),
    /// There is none of that name.
    #[error("tenant {0} does not exist")]
    NotFound(String),
    /// It would have no cluster to live in.
    #[error("a tenant needs at least one allowed cluster")]
    NoClusters,
    /// It names a cluster that does not exist.
    #[error("cluster {0} does not exist")]
    UnknownCluster(String),
    /// It still has namespaces.
    #[error("tenant {0} still has namespaces")]
    NotEmpty(String),
    /// There are as many as may be.
    #[error("there are {0} tenants already, which is the limit")]
    TooMany(usize),
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(TenantError);

/// Adds a tenant whose clusters exist. `limit` bounds how many there may be, as far as concurrent calls let it.
pub fn create(store: &dyn MetadataStore, name: &str, tenant: &Tenant, limit: Option<usize>) -> Result<(), TenantError> {
    if !component::is_entity_name(name) {
        return Err(TenantError::BadName(name.to_owned()));
    }
    if let Some(limit) = limit
        && store.children(paths::POLICIES)?.len() >= limit
    {
        return Err(TenantError::TooMany(limit));
    }
    write(store, name, tenant, Expected::Absent)
}

/// The tenant and the version of its node.
pub fn get(store: &dyn MetadataStore, name: &str) -> Result<(Tenant, i64), TenantError> {
    if !component::is_entity_name(name) {
        return Err(TenantError::NotFound(name.to_owned()));
    }
    document::read(store, &paths::tenant(name))?.ok_or_else(|| TenantError::NotFound(name.to_owned()))
}

/// Replaces a tenant.
pub fn update(store: &dyn MetadataStore, name: &str, tenant: &Tenant) -> Result<(), TenantError> {
    loop {
        let (_, version) = get(store, name)?;
        match write(store, name, tenant, Expected::Version(version)) {
            Err(TenantError::Store(MetadataError::Rejected(Rejected::VersionConflict { .. }))) => {}
            other => return other,
        }
    }
}

fn write(store: &dyn MetadataStore, name: &str, tenant: &Tenant, expected: Expected) -> Result<(), TenantError> {
    if tenant.allowed_clusters.is_empty() {
        return Err(TenantError::NoClusters);
    }
    let mut transaction = Transaction::new();
    for cluster in &tenant.allowed_clusters {
        if !component::is_entity_name(cluster) {
            return Err(TenantError::UnknownCluster(cluster.clone()));
        }
        transaction = transaction.check(paths::cluster(cluster), Expected::Any);
    }
    let put = transaction.put(paths::tenant(name), document::bytes(tenant), expected);
    let Err(refused) = store.commit(put) else { return Ok(()) };
    Err(match refused {
        MetadataError::Rejected(Rejected::Exists { .. }) => TenantError::Exists(name.to_owned()),
        MetadataError::Rejected(Rejected::NotFound { path }) => match paths::Place::parse(&path) {
            Some(paths::Place::Cluster(cluster)) => TenantError::UnknownCluster(cluster.to_owned()),
            _ => TenantError::NotFound(name.to_owned()),
        },
        other => other.into(),
    })
}

/// All names, sorted.
pub fn list(store: &dyn MetadataStore) -> Result<Vec<String>, TenantError> {
    Ok(store.children(paths::POLICIES)?)
}

/// Removes a tenant without namespaces, and what its namespaces left behind.
pub fn delete(store: &dyn MetadataStore, name: &str) -> Result<(), TenantError> {
    loop {
        let (_, version) = get(store, name)?;
        let mut transaction = Transaction::new().delete(paths::tenant(name), Expected::Version(version));
        for path in paths::of_tenant(name) {
            if store.exists(&path)? {
                transaction = transaction.delete(path, Expected::Any);
            }
        }
        match store.commit(transaction) {
            Ok(_) => return Ok(()),
            Err(MetadataError::Rejected(Rejected::NotEmpty { .. })) => return Err(TenantError::NotEmpty(name.to_owned())),
            // Something changed while it was looked at: look again.
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
