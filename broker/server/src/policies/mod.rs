//! Policies at work: read when a topic is loaded, heard of when they change.
//!
//! Three levels speak: the topic, its namespace, the configuration; what is nearer speaks over what is further. Whatever level
//! changes, every topic concerned is told its new settings in one letter. Levels are read and letters posted under one lock, so that
//! nobody is told something older than before.

mod calls;
mod creation;
mod effective;
mod rates;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use metadata::namespaces::{self, NamespaceError, Policies};
use metadata::paths::{NamespacePath, POLICIES, Place, TOPIC_POLICIES};
use metadata::topic_policies::{self, TopicPolicyError};
use metadata::{MetadataError, MetadataStore, Watch, WatchEvent};
use topic::{TopicSettings, Turn};
use wire::{NamespaceName, TopicName};

use crate::catalog;
use crate::hosting::{Hosted, Named};
use crate::letter::{Letter, TopicRef};
use crate::room::Room;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::worker::Worker;

pub use creation::AutoCreation;
pub(crate) use creation::{auto_creation, require_room};
use effective::effective;

/// What is said of one topic, level by level.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Of the topic alone.
    pub topic: Policies,
    /// Of all topics of its namespace.
    pub namespace: Policies,
}

impl Said {
    /// What holds: `broker` is what the configuration says.
    #[must_use]
    pub fn over(&self, broker: &Policies) -> Policies {
        self.topic.over(&self.namespace.over(broker))
    }

    /// Its settings.
    pub(crate) fn settings(&self, configured: &ServerSettings, topic: &TopicName) -> TopicSettings {
        settings_under(configured, &self.over(&configured.policies), topic)
    }
}

/// The settings of a topic under what is said of it.
fn settings_under(configured: &ServerSettings, policies: &Policies, topic: &TopicName) -> TopicSettings {
    let mut settings = effective(&configured.topic, policies, topic);
    rates::apply(&mut settings, policies, topic, &configured.cluster);
    settings
}

/// What is said of a topic; partitions are spoken of by the name of their topic. Blocking.
pub(crate) fn said(metadata: &dyn MetadataStore, topic: &TopicName) -> Result<Said, MetadataError> {
    Ok(Said { topic: of_topic(metadata, topic)?, namespace: of_namespace(metadata, &topic.namespace())? })
}

fn of_topic(metadata: &dyn MetadataStore, topic: &TopicName) -> Result<Policies, MetadataError> {
    catalog::with_whole(topic, |path| topic_policies::get(metadata, path)).map_err(|error| match error {
        TopicPolicyError::Store(error) => error,
        other => MetadataError::Unknown(other.to_string()),
    })
}

/// What is said of a namespace; nothing where there is none. Blocking.
pub(crate) fn of_namespace(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<Policies, MetadataError> {
    match namespaces::get(metadata, NamespacePath::new(namespace.tenant(), namespace.local())) {
        Ok((policies, _)) => Ok(policies),
        Err(NamespaceError::NotFound(_)) => Ok(Policies::new()),
        Err(NamespaceError::Store(error)) => Err(error),
        Err(other) => Err(MetadataError::Unknown(other.to_string())),
    }
}

/// What keeps loaded topics in step.
pub(crate) struct Followed {
    _namespaces: Watch,
    _topics: Watch,
}

/// Has every loaded topic follow what is said of it as long as the watches are kept.
pub(crate) fn follow(shared: &Arc<Shared>) -> Result<Followed, MetadataError> {
    let watch = |prefix| {
        let of = Arc::downgrade(shared);
        let changed = move |event: WatchEvent| {
            if let Some(shared) = of.upgrade() {
                heard(&shared, &event);
            }
        };
        shared.metadata.watch(prefix, Box::new(changed))
    };
    Ok(Followed { _namespaces: watch(POLICIES)?, _topics: watch(TOPIC_POLICIES)? })
}

fn heard(shared: &Arc<Shared>, event: &WatchEvent) {
    shared.policy_changes.fetch_add(1, Ordering::AcqRel);
    let WatchEvent::Changed { path } = event else { return resync(shared) };
    match Place::parse(path) {
        Some(Place::Policies(NamespacePath { tenant, namespace })) => {
            if let Ok(name) = NamespaceName::new(tenant, namespace) {
                apply_to_namespace(shared, name);
            }
        }
        Some(Place::TopicPolicies(namespace, domain, local)) => {
            let domain = match domain {
                metadata::paths::Domain::Persistent => wire::Domain::Persistent,
                metadata::paths::Domain::NonPersistent => wire::Domain::NonPersistent,
            };
            let namespace = NamespaceName::new(namespace.tenant, namespace.namespace);
            if let Some(name) = namespace.ok().and_then(|namespace| TopicName::new(domain, &namespace, &local).ok()) {
                apply_to_topic(shared, name);
            }
        }
        _ => {}
    }
}

/// Tells a topic, or all its partitions, what is said of it; not on the store's own thread.
pub(crate) fn apply_to_topic(shared: &Arc<Shared>, whole: TopicName) {
    let of = shared.clone();
    shared.control.run(move || tell_topic(&of, &whole));
}

fn apply_to_namespace(shared: &Arc<Shared>, namespace: NamespaceName) {
    let of = shared.clone();
    shared.control.run(move || tell_namespace(&of, &namespace));
}

/// Blocking.
fn tell_topic(shared: &Arc<Shared>, whole: &TopicName) {
    let _telling = lock(&shared.telling_policies);
    let metadata = &*shared.metadata;
    let read = said(metadata, whole).and_then(|said| Ok((said, catalog::partition_count(metadata, whole)?)));
    let (said, partitions) = match read {
        Ok(read) => read,
        Err(error) => {
            return tracing::warn!(topic = %whole, %error, "changed policies could not be read; the topic goes on with the old ones");
        }
    };
    let settings = said.settings(&shared.live(), whole);
    let parts = (0..partitions.unwrap_or(0)).filter_map(|index| whole.partition(index).ok());
    for name in std::iter::once(whole.clone()).chain(parts) {
        let (own, settings) = (said.topic.clone(), settings.clone());
        let owner = shared.owner(&name);
        shared.post(owner, Letter::Call(Box::new(move |worker| worker.follow_own(&name, own, settings))));
    }
}

/// Blocking.
fn tell_namespace(shared: &Arc<Shared>, namespace: &NamespaceName) {
    let _telling = lock(&shared.telling_policies);
    match of_namespace(&*shared.metadata, namespace) {
        Ok(policies) => {
            let policies = Arc::new(policies.over(&shared.live().policies));
            for mailbox in &shared.mailboxes {
                let (namespace, policies) = (namespace.clone(), policies.clone());
                mailbox.post(Letter::Call(Box::new(move |worker| worker.follow_namespace(&namespace, &policies))));
            }
        }
        Err(error) => tracing::warn!(%namespace, %error, "changed policies could not be read; loaded topics go on with the old ones"),
    }
}

/// Changes may have been missed: all loaded topics are looked at.
pub(crate) fn resync(shared: &Shared) {
    for mailbox in &shared.mailboxes {
        mailbox.post(Letter::Call(Box::new(|worker| {
            let mut wholes: Vec<_> = worker.topics.iter_mut().map(|(_, _, hosted)| hosted.topic.name().partitioned()).collect();
            wholes.sort();
            wholes.dedup();
            for whole in wholes {
                apply_to_topic(&worker.shared, whole);
            }
        })));
    }
}

impl Worker {
    /// What is said of a topic alone has changed.
    fn follow_own(&mut self, name: &TopicName, own: Policies, settings: TopicSettings) {
        let Some(Named::Loaded(key)) = self.names.get(name) else { return };
        let key = *key;
        if let Some(hosted) = self.topics.get_mut(key.slot, key.generation) {
            hosted.own = own;
            self.set_settings(key, settings);
        }
    }

    /// What is said of a namespace has changed; `policies` are over the configuration.
    fn follow_namespace(&mut self, namespace: &NamespaceName, policies: &Policies) {
        let in_it = |hosted: &mut Hosted| (hosted.topic.name().namespace_str() == namespace.as_str()).then_some(hosted.key);
        let keys: Vec<TopicRef> = self.topics.iter_mut().filter_map(|(_, _, hosted)| in_it(hosted)).collect();
        let configured = self.settings.clone();
        // Most topics have nothing of their own: they share what is made of the rest.
        let mut common: HashMap<bool, TopicSettings> = HashMap::new();
        for key in keys {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            let make = |policies: &Policies, name: &TopicName| settings_under(&configured, policies, name);
            let (name, own) = (hosted.topic.name(), &hosted.own);
            let settings = match own.fields().is_empty() {
                true => common.entry(name.local().starts_with("__")).or_insert_with(|| make(policies, name)).clone(),
                false => make(&own.over(policies), name),
            };
            self.set_settings(key, settings);
        }
    }

    /// Has a topic follow settings. Deduplication is settled when a topic is loaded, from its whole log: a topic that has it otherwise
    /// is let go of, and its clients come back at once.
    fn set_settings(&mut self, key: TopicRef, settings: TopicSettings) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        match &mut hosted.topic {
            Room::Persistent(topic) if topic.deduplicates() != settings.deduplication.enabled => return self.begin_unload(key),
            Room::Persistent(topic) => topic.update_settings(turn, settings),
            Room::NonPersistent(topic) => topic.update_settings(turn, settings),
        }
        self.after_event(key);
    }
}

/// A poisoned lock means that a thread panicked between two plain operations; what it guards is whole.
fn lock(mutex: &Mutex<()>) -> std::sync::MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
