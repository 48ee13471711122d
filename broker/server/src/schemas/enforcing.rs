//! Which namespaces may keep producers without a schema away, so that producers of all others need not ask the metadata.
//!
//! A namespace is on the list from the moment its policies change. Being on it means no more than that the policies are read when a
//! producer without a schema comes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use metadata::namespaces::{self, NamespaceError};
use metadata::paths::{Domain, NamespacePath, POLICIES, Place, TOPIC_POLICIES};
use metadata::{MetadataError, MetadataStore, Watch, WatchEvent};

use crate::settings::ServerSettings;
use crate::shared::Shared;

/// With more namespaces on the list, all are taken to be.
const MAX_LISTED: usize = 10_000;

/// The list; all namespaces are on it until they were looked at once.
#[derive(Debug)]
pub(crate) struct EnforcingNamespaces {
    all: AtomicBool,
    listed: RwLock<HashSet<String>>,
}

impl EnforcingNamespaces {
    pub(crate) fn new() -> EnforcingNamespaces {
        EnforcingNamespaces { all: AtomicBool::new(true), listed: RwLock::default() }
    }

    /// Whether the policies of a namespace have to be read.
    pub(crate) fn may_hold(&self, settings: &ServerSettings, namespace: &str) -> bool {
        settings.schemas.enforced
            || self.all.load(Ordering::Acquire)
            || self.listed.read().unwrap_or_else(PoisonError::into_inner).contains(namespace)
    }

    fn list(&self, namespace: String) {
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        if listed.len() < MAX_LISTED {
            listed.insert(namespace);
        } else {
            self.all.store(true, Ordering::Release);
        }
    }

    /// Lists the namespaces that there are and that do; afterwards only those on the list count.
    fn look(&self, metadata: &dyn MetadataStore) -> Result<(), MetadataError> {
        for tenant in metadata.children(POLICIES)? {
            for namespace in metadata.children(&metadata::paths::tenant(&tenant))? {
                let path = NamespacePath::new(&tenant, &namespace);
                match namespaces::get(metadata, path) {
                    Ok((policies, _)) if policies.schema_validation() != Some(true) && !has_own(metadata, path)? => {}
                    Err(NamespaceError::Store(error)) => return Err(error),
                    _ => self.list(path.to_string()),
                }
            }
        }
        let full = self.listed.read().unwrap_or_else(PoisonError::into_inner).len() >= MAX_LISTED;
        self.all.store(full, Ordering::Release);
        Ok(())
    }
}

/// Whether anything is said of single topics of a namespace.
fn has_own(metadata: &dyn MetadataStore, namespace: NamespacePath<'_>) -> Result<bool, MetadataError> {
    for domain in Domain::ALL {
        let below = format!("{}/{}", namespace.topic_policies(), domain.as_str());
        if !metadata.children(&below)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Keeps the list as long as the watches are kept.
pub(crate) fn follow(shared: &Arc<Shared>) -> Result<[Watch; 2], MetadataError> {
    let watches = [watch(shared, POLICIES)?, watch(shared, TOPIC_POLICIES)?];
    let looking = shared.clone();
    shared.control.run(move || {
        if let Err(error) = looking.enforcing.look(&*looking.metadata) {
            tracing::warn!(%error, "policies could not be read; producers without a schema have theirs read each time");
        }
    });
    Ok(watches)
}

fn watch(shared: &Arc<Shared>, prefix: &str) -> Result<Watch, MetadataError> {
    let of = Arc::downgrade(shared);
    let changed = move |event: WatchEvent| {
        let Some(shared) = of.upgrade() else { return };
        match event {
            WatchEvent::Changed { path } => {
                if let Some(Place::Policies(namespace) | Place::TopicPolicies(namespace, ..)) = Place::parse(&path) {
                    shared.enforcing.list(namespace.to_string());
                }
            }
            WatchEvent::Resync => shared.enforcing.all.store(true, Ordering::Release),
        }
    };
    shared.metadata.watch(prefix, Box::new(changed))
}
