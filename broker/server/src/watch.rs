//! Clients that want to hear which topics of a namespace match a pattern, now and whenever one comes or goes.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metadata::paths::Place;
use metadata::{MetadataStore, Watch, WatchEvent, paths};
use topic::ConnectionKey;
use wire::proto;
use wire::{NamespaceName, ServerError};

use crate::catalog;
use crate::handle::TopicError;
use crate::letter::Letter;
use crate::pattern::{TopicPattern, topics_hash};
use crate::shared::Shared;
use crate::worker::Worker;

/// Everybody who watches, on the control side: no message passes here.
#[derive(Default)]
pub(crate) struct TopicWatchers {
    watchers: Mutex<HashMap<(ConnectionKey, u64), TopicWatcher>>,
    /// Whether a look at the watched namespaces is on its way.
    looking: AtomicBool,
    /// Keeps the changes coming.
    source: Mutex<Option<Watch>>,
}

struct TopicWatcher {
    namespace: NamespaceName,
    pattern: TopicPattern,
    /// What the client was told last.
    known: BTreeSet<String>,
}

impl Worker {
    /// Answers with the topics that match now; changes follow.
    pub(crate) fn watch_topics(&mut self, key: ConnectionKey, watch: proto::CommandWatchTopicList) {
        let request = watch.request_id;
        if !self.shared.settings.topic_watchers {
            return self.tell_error(key, request, ServerError::NotAllowedError, "topic lists are not watched here: poll them");
        }
        let namespace = match watch.namespace.parse::<NamespaceName>() {
            Ok(namespace) => namespace,
            Err(error) => return self.tell_error(key, request, ServerError::InvalidTopicName, &error.to_string()),
        };
        let pattern = match TopicPattern::new(&watch.topics_pattern, self.shared.settings.pattern_max_length) {
            Ok(pattern) => pattern,
            Err(reason) => return self.tell_error(key, request, ServerError::NotAllowedError, &reason),
        };
        if let Some(connection) = self.connections.get_mut(key.slot, key.generation)
            && !connection.watchers.contains(&watch.watcher_id)
        {
            connection.watchers.push(watch.watcher_id);
        }
        let shared = self.shared.clone();
        self.shared.control.run(move || {
            let answer = begin(&shared, key, &watch, namespace, pattern);
            shared.post(key.worker, Letter::Answer { to: key, command: answer });
        });
    }

    /// The client has heard enough.
    pub(crate) fn close_watch(&mut self, key: ConnectionKey, close: proto::CommandWatchTopicListClose) {
        if let Some(connection) = self.connections.get_mut(key.slot, key.generation) {
            connection.watchers.retain(|watcher| *watcher != close.watcher_id);
        }
        // After a watch that was asked for before: the jobs of the pool may overtake each other, its lock does not.
        self.shared.topic_watchers.forget(key, [close.watcher_id]);
        self.tell_success(key, close.request_id);
    }
}

impl TopicWatchers {
    /// These watchers are gone.
    pub(crate) fn forget(&self, of: ConnectionKey, ids: impl IntoIterator<Item = u64>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            watchers.remove(&(of, id));
        }
    }
}

fn begin(
    shared: &Arc<Shared>,
    key: ConnectionKey,
    watch: &proto::CommandWatchTopicList,
    namespace: NamespaceName,
    pattern: TopicPattern,
) -> wire::Command {
    let failed =
        |message: String| proto::CommandError { request_id: watch.request_id, error: ServerError::MetadataError.into(), message }.into();
    if let Err(error) = listen(shared) {
        return failed(error);
    }
    // Under the lock: a look at the namespace that begins later finds this watcher, and what it was told.
    let mut watchers = shared.topic_watchers.watchers.lock().unwrap_or_else(PoisonError::into_inner);
    let known = match matching(&*shared.metadata, &namespace, &pattern) {
        Ok(known) => known,
        Err(error) => return failed(error.to_string()),
    };
    let success = proto::CommandWatchTopicListSuccess {
        request_id: watch.request_id,
        watcher_id: watch.watcher_id,
        topics_hash: topics_hash(known.iter().map(String::as_str)),
        topic: known.iter().cloned().collect(),
    };
    watchers.insert((key, watch.watcher_id), TopicWatcher { namespace, pattern, known });
    success.into()
}

fn matching(metadata: &dyn MetadataStore, namespace: &NamespaceName, pattern: &TopicPattern) -> Result<BTreeSet<String>, TopicError> {
    let topics = match catalog::topics(metadata, namespace) {
        Err(TopicError::NoSuchNamespace(_)) => Vec::new(),
        outcome => outcome?,
    };
    Ok(topics.iter().filter(|topic| pattern.shows(topic)).map(ToString::to_string).collect())
}

/// Hears of changes from the first watcher on.
fn listen(shared: &Arc<Shared>) -> Result<(), String> {
    let mut source = shared.topic_watchers.source.lock().unwrap_or_else(PoisonError::into_inner);
    if source.is_none() {
        let weak = Arc::downgrade(shared);
        let on_change = move |event: WatchEvent| {
            let concerned = match &event {
                WatchEvent::Changed { path } => matches!(Place::parse(path), Some(Place::ManagedLedger(..))),
                WatchEvent::Resync => true,
            };
            if let Some(shared) = weak.upgrade().filter(|_| concerned) {
                look_soon(&shared);
            }
        };
        *source = Some(shared.metadata.watch(paths::MANAGED_LEDGERS, Box::new(on_change)).map_err(|e| e.to_string())?);
    }
    Ok(())
}

/// Has a control thread compare what clients know with what there is; changes that come meanwhile make one more look.
fn look_soon(shared: &Arc<Shared>) {
    if shared.topic_watchers.looking.swap(true, Ordering::AcqRel) {
        return;
    }
    let of = shared.clone();
    shared.control.run(move || {
        of.topic_watchers.looking.store(false, Ordering::Release);
        look(&of);
    });
}

fn look(shared: &Shared) {
    let mut watchers = shared.topic_watchers.watchers.lock().unwrap_or_else(PoisonError::into_inner);
    for ((key, watcher_id), watcher) in watchers.iter_mut() {
        let now = match matching(&*shared.metadata, &watcher.namespace, &watcher.pattern) {
            Ok(now) => now,
            Err(error) => {
                tracing::warn!(namespace = %watcher.namespace, %error, "topics could not be listed for who watches them");
                continue;
            }
        };
        if now == watcher.known {
            continue;
        }
        let update = proto::CommandWatchTopicUpdate {
            watcher_id: *watcher_id,
            new_topics: now.difference(&watcher.known).cloned().collect(),
            deleted_topics: watcher.known.difference(&now).cloned().collect(),
            topics_hash: topics_hash(now.iter().map(String::as_str)),
        };
        watcher.known = now;
        shared.post(key.worker, Letter::Answer { to: *key, command: update.into() });
    }
}
