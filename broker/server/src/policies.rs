//! Namespace policies at work: read when a topic is loaded, heard of when they change.

mod rates;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metadata::namespaces::{self, NamespaceError, Policies};
use metadata::paths::{NamespacePath, POLICIES, Place};
use metadata::{MetadataError, MetadataStore, Watch, WatchEvent};
use topic::{TopicSettings, Turn};
use wire::NamespaceName;

use crate::hosting::Hosted;
use crate::letter::Letter;
use crate::room::Room;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::worker::Worker;

/// Settings of the topics of a namespace: as configured, but for what the namespace's policies say.
pub(crate) fn settings(
    metadata: &dyn MetadataStore,
    namespace: &NamespaceName,
    configured: &ServerSettings,
) -> Result<TopicSettings, MetadataError> {
    match namespaces::get(metadata, NamespacePath::new(namespace.tenant(), namespace.local())) {
        Ok((policies, _)) => {
            let mut settings = under(&policies, configured.topic.clone());
            rates::apply(&mut settings, &policies, &configured.cluster);
            Ok(settings)
        }
        Err(NamespaceError::NotFound(_)) => Ok(configured.topic.clone()),
        Err(NamespaceError::Store(error)) => Err(error),
        Err(other) => Err(MetadataError::Unknown(other.to_string())),
    }
}

fn under(policies: &Policies, mut settings: TopicSettings) -> TopicSettings {
    if let Some(enabled) = policies.deduplication() {
        settings.deduplication.enabled = enabled;
    }
    if let Some(seconds) = policies.message_ttl_seconds() {
        settings.message_ttl_ms = u64::from(seconds) * 1_000;
    }
    if let Some(delayed) = policies.delayed_delivery() {
        settings.delayed_tick_ms = match (delayed.active, delayed.tick_ms) {
            (false, _) => 0,
            (true, 0) => settings.delayed_tick_ms.max(1),
            (true, tick) => tick,
        };
        settings.max_delay_ms = delayed.max_delay_ms;
    }
    settings
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
    shared.control.run(move || match settings(&*of.metadata, &namespace, &of.settings) {
        Ok(settings) => {
            for mailbox in &of.mailboxes {
                let (namespace, settings) = (namespace.clone(), settings.clone());
                mailbox.post(Letter::Call(Box::new(move |worker| worker.set_settings(&namespace, &settings))));
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
    /// Has the topics of a namespace follow settings. Deduplication is settled when a topic is loaded, from its whole log: topics that
    /// have it otherwise are let go of, and their clients come back at once.
    fn set_settings(&mut self, namespace: &NamespaceName, settings: &TopicSettings) {
        let in_it = |hosted: &mut Hosted| (hosted.topic.name().namespace() == *namespace).then_some(hosted.key);
        let keys: Vec<_> = self.topics.iter_mut().filter_map(|(_, _, hosted)| in_it(hosted)).collect();
        for key in keys {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
            let topic = match &mut hosted.topic {
                Room::Persistent(topic) => topic,
                Room::NonPersistent(topic) => {
                    topic.update_settings(turn, settings.clone());
                    self.after_event(key);
                    continue;
                }
            };
            if topic.deduplicates() != settings.deduplication.enabled {
                self.begin_unload(key);
                continue;
            }
            topic.update_settings(turn, settings.clone());
            self.after_event(key);
        }
    }
}
