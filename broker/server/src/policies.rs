//! Namespace policies at work: read when a topic is loaded, heard of when they change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metadata::namespaces::{self, NamespaceError};
use metadata::paths::{NamespacePath, POLICIES, Place};
use metadata::{MetadataError, MetadataStore, Watch, WatchEvent};
use wire::NamespaceName;

use crate::hosting::Hosted;
use crate::letter::Letter;
use crate::shared::Shared;
use crate::worker::Worker;

/// Whether topics of a namespace recognise messages that are sent twice; none if the namespace leaves it to the configuration.
pub(crate) fn deduplication(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<Option<bool>, MetadataError> {
    match namespaces::get(metadata, NamespacePath::new(namespace.tenant(), namespace.local())) {
        Ok((policies, _)) => Ok(policies.deduplication()),
        Err(NamespaceError::NotFound(_)) => Ok(None),
        Err(NamespaceError::Store(error)) => Err(error),
        Err(other) => Err(MetadataError::Unknown(other.to_string())),
    }
}

/// Has every loaded topic follow its namespace's policies as long as the watch is kept.
pub(crate) fn follow(shared: &Arc<Shared>) -> Result<Watch, MetadataError> {
    let of = Arc::downgrade(shared);
    let changed = move |event: WatchEvent| {
        let Some(shared) = of.upgrade() else { return };
        shared.policy_changes.fetch_add(1, Ordering::AcqRel);
        match event {
            WatchEvent::Changed { path } => {
                if let Some(Place::Policies(NamespacePath { tenant, namespace })) = Place::parse(&path)
                    && let Ok(name) = NamespaceName::new(tenant, namespace)
                {
                    apply(&shared, name);
                }
            }
            WatchEvent::Resync => resync(&shared),
        }
    };
    shared.metadata.watch(POLICIES, Box::new(changed))
}

/// Reads the policies anew, not on the store's own thread, and tells the workers.
pub(crate) fn apply(shared: &Arc<Shared>, namespace: NamespaceName) {
    let of = shared.clone();
    shared.control.run(move || match deduplication(&*of.metadata, &namespace) {
        Ok(policy) => {
            let enabled = policy.unwrap_or(of.settings.topic.deduplication.enabled);
            for mailbox in &of.mailboxes {
                let namespace = namespace.clone();
                mailbox.post(Letter::Call(Box::new(move |worker| worker.set_deduplication(&namespace, enabled))));
            }
        }
        Err(error) => tracing::warn!(%namespace, %error, "changed policies could not be read; loaded topics go on with the old ones"),
    });
}

/// Changes may have been missed: the namespaces of all loaded topics are looked at.
fn resync(shared: &Shared) {
    for mailbox in &shared.mailboxes {
        mailbox.post(Letter::Call(Box::new(|worker| {
            let mut namespaces: Vec<_> = worker.topics.iter_mut().map(|(_, _, hosted)| hosted.topic.name().namespace()).collect();
            namespaces.sort();
            namespaces.dedup();
            for namespace in namespaces {
                apply(&worker.shared, namespace);
            }
        })));
    }
}

impl Worker {
    /// Deduplication is settled when a topic is loaded, from its whole log: topics that have it otherwise are let go of, and their
    /// clients come back at once.
    fn set_deduplication(&mut self, namespace: &NamespaceName, enabled: bool) {
        let differs = |topic: &topic::Topic| topic.name().namespace() == *namespace && topic.deduplicates() != enabled;
        let wrong = |hosted: &mut Hosted| hosted.topic.persistent().is_some_and(|topic| differs(topic)).then_some(hosted.key);
        let keys: Vec<_> = self.topics.iter_mut().filter_map(|(_, _, hosted)| wrong(hosted)).collect();
        for key in keys {
            self.begin_unload(key);
        }
    }
}
