//! What must be there before the first client comes: a cluster, two tenants, two namespaces.

use crate::clusters::Cluster;
use crate::namespaces::{Bundles, BundlesError, Policies, PolicyError};
use crate::paths::{self, NamespacePath};
use crate::tenants::Tenant;
use crate::{Expected, MetadataError, MetadataStore, Rejected, Transaction, component, document};

/// What the first start is told.
#[derive(Clone, Debug)]
pub struct Bootstrap<'b> {
    /// The name of the cluster.
    pub cluster: &'b str,
    /// Where it is reached.
    pub reached_at: Cluster,
    /// Bundles of `public/default`.
    pub bundles: u32,
    /// Bundles of `pulsar/system`.
    pub system_bundles: u32,
}

/// Why the first start failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// Not a cluster's name.
    #[error("{0:?} is not a cluster name: letters, digits and -=:._ only")]
    BadClusterName(String),
    /// Impossible bundles.
    #[error(transparent)]
    Bundles(#[from] BundlesError),
    /// Policies that cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

/// Tenants and their namespaces that always exist.
const STANDARD: [NamespacePath<'_>; 2] =
    [NamespacePath { tenant: "public", namespace: "default" }, NamespacePath { tenant: "pulsar", namespace: "system" }];

/// Creates the cluster, the tenants `public` and `pulsar`, and the namespaces `public/default` and `pulsar/system`, unless they
/// are there; what is there is left as it is. One transaction. Returns the paths of what was created.
pub fn bootstrap(store: &dyn MetadataStore, start: &Bootstrap<'_>) -> Result<Vec<String>, BootstrapError> {
    if !component::is_entity_name(start.cluster) {
        return Err(BootstrapError::BadClusterName(start.cluster.to_owned()));
    }
    loop {
        let mut missing = Vec::new();
        for (path, value) in wanted(start)? {
            if !store.exists(&path)? {
                missing.push((path, value));
            }
        }
        let mut transaction = Transaction::new();
        for (path, value) in &missing {
            transaction = transaction.put(path.as_str(), value.as_slice(), Expected::Absent);
        }
        match store.commit(transaction) {
            Ok(_) => return Ok(missing.into_iter().map(|(path, _)| path).collect()),
            // Another broker of the cluster is starting as well.
            Err(MetadataError::Rejected(Rejected::Exists { .. })) => {}
            Err(failed) => return Err(failed.into()),
        }
    }
}

// Parents before children.
fn wanted(start: &Bootstrap<'_>) -> Result<Vec<(String, Vec<u8>)>, BootstrapError> {
    let tenant = Tenant { allowed_clusters: vec![start.cluster.to_owned()], ..Tenant::default() };
    let mut wanted = vec![(paths::cluster(start.cluster), document::bytes(&start.reached_at))];
    for (namespace, bundles) in STANDARD.into_iter().zip([start.bundles, start.system_bundles]) {
        Bundles::even(bundles)?;
        let mut policies = Policies::new();
        policies.fill_in(start.cluster, bundles)?;
        wanted.push((paths::tenant(namespace.tenant), document::bytes(&tenant)));
        wanted.push((namespace.policies(), document::bytes(&policies)));
    }
    Ok(wanted)
}
