//! Namespaces: their policies and their life cycle.

mod bundles;
mod forms;
mod policies;
mod values;

pub use bundles::{Bundles, BundlesError, MAX_BUNDLES};
pub use forms::{POLICY_FIELDS, SUBSCRIPTION_TYPES};
pub use policies::{Policies, PolicyError};
pub use values::{
    AutoSubscriptionCreation, AutoTopicCreation, BacklogQuota, DelayedDelivery, DispatchRate, InactiveMode, InactiveTopics, Persistence,
    PublishRate, QuotaKind, QuotaPolicy, Retention, SubscribeRate, TopicType,
};

use crate::document::{self, Malformed};
use crate::paths::{Domain, NamespacePath, Place};
use crate::tenants::Tenant;
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component, paths};

/// Why a call about a namespace failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// Not a namespace's name.
    #[error("{0:?} is not a namespace name: letters, digits and -=:._ only")]
    BadName(String),
    /// There is one of that name.
    #[error("namespace {0} exists already")]
    Exists(String),
    /// There is none of that name.
    #[error("namespace {0} does not exist")]
    NotFound(String),
    /// Its tenant does not exist.
    #[error("tenant {0} does not exist")]
    UnknownTenant(String),
    /// It names a cluster that does not exist.
    #[error("cluster {0} does not exist")]
    UnknownCluster(String),
    /// It names a cluster that its tenant may not use.
    #[error("tenant {tenant} may not use cluster {cluster}")]
    ClusterNotAllowed {
        /// The tenant.
        tenant: String,
        /// The cluster.
        cluster: String,
    },
    /// It still has topics.
    #[error("namespace {0} still has topics")]
    NotEmpty(String),
    /// The tenant has as many as it may have.
    #[error("the tenant has {0} namespaces already, which is the limit")]
    TooMany(usize),
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

document::from_document_error!(NamespaceError);

/// What [`create`] fills in where the policies say nothing, and the limit it keeps.
#[derive(Clone, Copy, Debug)]
pub struct NewNamespace<'n> {
    /// The cluster this broker belongs to: where the namespace lives by default.
    pub local_cluster: &'n str,
    /// Bundles by default.
    pub bundles: u32,
    /// Namespaces a tenant may have, as far as concurrent calls let it.
    pub limit: Option<usize>,
}

/// Adds a namespace; its tenant exists and may use its clusters, which is checked in the same transaction.
/// Returns the policies as stored.
pub fn create(
    store: &dyn MetadataStore,
    namespace: NamespacePath<'_>,
    mut policies: Policies,
    fill: NewNamespace<'_>,
) -> Result<Policies, NamespaceError> {
    check_name(namespace)?;
    policies.fill_in(fill.local_cluster, fill.bundles)?;
    loop {
        let (tenant, version) = tenant_of(store, namespace)?;
        if let Some(limit) = fill.limit
            && store.children(&paths::tenant(namespace.tenant))?.len() >= limit
        {
            return Err(NamespaceError::TooMany(limit));
        }
        let transaction = Transaction::new()
            .put(namespace.policies(), document::bytes(&policies), Expected::Absent)
            .check(paths::tenant(namespace.tenant), Expected::Version(version));
        match store.commit(with_clusters(transaction, namespace, &tenant, &policies)?) {
            Ok(_) => return Ok(policies),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. })) => {}
            Err(refused) => return Err(explain(namespace, refused)),
        }
    }
}

/// The policies and the version of their node.
pub fn get(store: &dyn MetadataStore, namespace: NamespacePath<'_>) -> Result<(Policies, i64), NamespaceError> {
    check_name(namespace).map_err(|_| NamespaceError::NotFound(namespace.to_string()))?;
    document::read(store, &namespace.policies())?.ok_or_else(|| NamespaceError::NotFound(namespace.to_string()))
}

/// Changes the policies; `change` is called again if another change came between. Returns them as stored.
/// Clusters are not looked at: see [`set_clusters`].
pub fn update(
    store: &dyn MetadataStore,
    namespace: NamespacePath<'_>,
    change: impl FnMut(&mut Policies) -> Result<(), NamespaceError>,
) -> Result<Policies, NamespaceError> {
    check_name(namespace).map_err(|_| NamespaceError::NotFound(namespace.to_string()))?;
    match document::update(store, &namespace.policies(), change)? {
        Some(policies) => Ok(policies),
        None if store.exists(&paths::tenant(namespace.tenant))? => Err(NamespaceError::NotFound(namespace.to_string())),
        None => Err(NamespaceError::UnknownTenant(namespace.tenant.to_owned())),
    }
}

/// Sets the clusters it is replicated to: existing ones that the tenant may use.
pub fn set_clusters(store: &dyn MetadataStore, namespace: NamespacePath<'_>, clusters: &[String]) -> Result<(), NamespaceError> {
    loop {
        let (mut policies, version) = get(store, namespace)?;
        let (tenant, tenant_version) = tenant_of(store, namespace)?;
        policies.set_replication_clusters(clusters);
        let transaction = Transaction::new()
            .put(namespace.policies(), document::bytes(&policies), Expected::Version(version))
            .check(paths::tenant(namespace.tenant), Expected::Version(tenant_version));
        match store.commit(with_clusters(transaction, namespace, &tenant, &policies)?) {
            Ok(_) => return Ok(()),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. })) => {}
            Err(refused) => return Err(explain(namespace, refused)),
        }
    }
}

/// Names of a tenant's namespaces, sorted, without the tenant.
pub fn list(store: &dyn MetadataStore, tenant: &str) -> Result<Vec<String>, NamespaceError> {
    let unknown = || NamespaceError::UnknownTenant(tenant.to_owned());
    if !component::is_entity_name(tenant) || !store.exists(&paths::tenant(tenant))? {
        return Err(unknown());
    }
    Ok(store.children(&paths::tenant(tenant))?)
}

/// Removes a namespace without topics, persistent or partitioned, and everything else that is kept of it.
pub fn delete(store: &dyn MetadataStore, namespace: NamespacePath<'_>) -> Result<(), NamespaceError> {
    loop {
        let (_, version) = get(store, namespace)?;
        let mut transaction = Transaction::new();
        for domain in Domain::ALL {
            transaction = transaction.check_empty(namespace.topics(domain)).check_empty(namespace.partitioned_topics(domain));
        }
        for path in remains(store, namespace)? {
            transaction = transaction.delete(path, Expected::Any);
        }
        match store.commit(transaction.delete(namespace.policies(), Expected::Version(version))) {
            Ok(_) => return Ok(()),
            Err(MetadataError::Rejected(Rejected::NotEmpty { .. })) => return Err(NamespaceError::NotEmpty(namespace.to_string())),
            // Something changed while it was looked at: look again.
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

// Children before parents. Topics are not among them: they keep the namespace from being deleted.
fn remains(store: &dyn MetadataStore, namespace: NamespacePath<'_>) -> Result<Vec<String>, MetadataError> {
    let mut paths = Vec::new();
    for parent in [namespace.owners(), namespace.schemas(), namespace.topic_policies()] {
        below(store, parent, &mut paths)?;
    }
    paths.push(namespace.local_policies());
    paths.extend(Domain::ALL.map(|domain| namespace.topics(domain)));
    paths.extend(Domain::ALL.map(|domain| namespace.partitioned_topics(domain)));
    paths.extend([namespace.managed_ledgers(), namespace.all_partitioned()]);
    let mut there = Vec::new();
    for path in paths {
        if store.exists(&path)? {
            there.push(path);
        }
    }
    Ok(there)
}

fn below(store: &dyn MetadataStore, path: String, found: &mut Vec<String>) -> Result<(), MetadataError> {
    for child in store.children(&path)? {
        below(store, format!("{path}/{child}"), found)?;
    }
    found.push(path);
    Ok(())
}

fn check_name(namespace: NamespacePath<'_>) -> Result<(), NamespaceError> {
    let good = component::is_entity_name(namespace.tenant) && component::is_entity_name(namespace.namespace);
    if good { Ok(()) } else { Err(NamespaceError::BadName(namespace.to_string())) }
}

fn tenant_of(store: &dyn MetadataStore, namespace: NamespacePath<'_>) -> Result<(Tenant, i64), NamespaceError> {
    document::read(store, &paths::tenant(namespace.tenant))?.ok_or_else(|| NamespaceError::UnknownTenant(namespace.tenant.to_owned()))
}

fn with_clusters(
    mut transaction: Transaction,
    namespace: NamespacePath<'_>,
    tenant: &Tenant,
    policies: &Policies,
) -> Result<Transaction, NamespaceError> {
    for cluster in policies.replication_clusters() {
        if !tenant.allowed_clusters.contains(&cluster) {
            return Err(NamespaceError::ClusterNotAllowed { tenant: namespace.tenant.to_owned(), cluster });
        }
        transaction = transaction.check(paths::cluster(&cluster), Expected::Any);
    }
    Ok(transaction)
}

fn explain(namespace: NamespacePath<'_>, refused: MetadataError) -> NamespaceError {
    match refused {
        MetadataError::Rejected(Rejected::Exists { .. }) => NamespaceError::Exists(namespace.to_string()),
        MetadataError::Rejected(Rejected::NotFound { path }) => match Place::parse(&path) {
            Some(Place::Cluster(cluster)) => NamespaceError::UnknownCluster(cluster.to_owned()),
            Some(Place::Tenant(tenant)) => NamespaceError::UnknownTenant(tenant.to_owned()),
            _ => NamespaceError::NotFound(namespace.to_string()),
        },
        other => other.into(),
    }
}
