//! Clients that want to hear which topics of a namespace match a pattern, now and whenever one comes or goes.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metadata::paths::Place;
use metadata::{MetadataStore, Watch, WatchEvent, paths};
use topic::ConnectionKey;
use wire::proto;
use wire::{NamespaceName, ServerError, TopicName};

use crate::auth::{Identity, Wanted};
use crate::catalog;
use crate::handle::TopicError;
use crate::letter::Letter;
use crate::pattern::{TopicPattern, topics_hash};
use crate::shared::Shared;
use crate::worker::Worker;

/// Patterns that one connection may watch.
const MOST_WATCHERS: usize = 1_000;

/// A watcher: its connection and the id that it chose.
type WatcherKey = (ConnectionKey, u64);

/// Everybody who watches, on the control side: no message passes here.
#[derive(Default)]
pub(crate) struct TopicWatchers {
    /// Held for moments only, since event loops wait for it.
    watchers: Mutex<HashMap<WatcherKey, TopicWatcher>>,
    /// Held while topics are listed and those who watch are told, so that what they are told never goes back in time.
    telling: Mutex<()>,
    /// Whether a look at the watched namespaces is on its way.
    looking: AtomicBool,
    /// Keeps the changes coming.
    source: Mutex<Option<Watch>>,
}

struct TopicWatcher {
    namespace: NamespaceName,
    pattern: Arc<TopicPattern>,
    /// What the client was told last; none before its first answer.
    known: Option<BTreeSet<String>>,
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
            Ok(pattern) => Arc::new(pattern),
            Err(reason) => return self.tell_error(key, request, ServerError::NotAllowedError, &reason),
        };
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if connection.watchers.len() >= MOST_WATCHERS {
            return self.tell_error(key, request, ServerError::NotAllowedError, "this connection watches as many patterns as it may");
        }
        if !connection.watchers.contains(&watch.watcher_id) {
            connection.watchers.push(watch.watcher_id);
        }
        let watcher = TopicWatcher { namespace, pattern, known: None };
        lock(&self.shared.topic_watchers.watchers).insert((key, watch.watcher_id), watcher);
        let (shared, who) = (self.shared.clone(), self.asks_whether(key));
        self.shared.control.run(move || begin(&shared, (key, watch.watcher_id), request, who.as_ref()));
    }

    /// The client has heard enough.
    pub(crate) fn close_watch(&mut self, key: ConnectionKey, close: proto::CommandWatchTopicListClose) {
        if let Some(connection) = self.connections.get_mut(key.slot, key.generation) {
            connection.watchers.retain(|watcher| *watcher != close.watcher_id);
        }
        self.shared.topic_watchers.forget(key, [close.watcher_id]);
        self.tell_success(key, close.request_id);
    }
}

impl TopicWatchers {
    /// These watchers are gone.
    pub(crate) fn forget(&self, of: ConnectionKey, ids: impl IntoIterator<Item = u64>) {
        let mut watchers = lock(&self.watchers);
        for id in ids {
            watchers.remove(&(of, id));
        }
    }
}

/// Answers a new watcher with what there is.
fn begin(shared: &Arc<Shared>, watcher: WatcherKey, request_id: u64, who: Option<&Identity>) {
    let (key, watcher_id) = watcher;
    let answer = |command| shared.post(key.worker, Letter::Answer { to: key, command });
    let refused = |error: ServerError, message: String| {
        shared.topic_watchers.forget(key, [watcher_id]);
        answer(proto::CommandError { request_id, error: error.into(), message }.into());
    };
    let failed = |message: String| refused(ServerError::MetadataError, message);
    let namespace = lock(&shared.topic_watchers.watchers).get(&watcher).map(|watcher| watcher.namespace.clone());
    if let (Some(who), Some(namespace)) = (who, namespace) {
        let wanted = Wanted::Namespace(namespace);
        match shared.allows(who, &wanted) {
            Ok(true) => {}
            Ok(false) => return refused(ServerError::AuthorizationError, wanted.refusal(who)),
            Err(error) => return failed(error.to_string()),
        }
    }
    if let Err(error) = listen(shared) {
        return failed(error);
    }
    let _telling = lock(&shared.topic_watchers.telling);
    let wanted = lock(&shared.topic_watchers.watchers).get(&watcher).map(TopicWatcher::wanted);
    // Closed before its answer: nobody waits for one.
    let Some((namespace, pattern)) = wanted else { return };
    let topics = match list(&*shared.metadata, &namespace) {
        Ok(topics) => matching(&topics, &pattern),
        Err(error) => return failed(error.to_string()),
    };
    let success = proto::CommandWatchTopicListSuccess {
        request_id,
        watcher_id,
        topics_hash: topics_hash(topics.iter().map(String::as_str)),
        topic: topics.iter().cloned().collect(),
    };
    if let Some(watcher) = lock(&shared.topic_watchers.watchers).get_mut(&watcher) {
        watcher.known = Some(topics);
        answer(success.into());
    }
}

impl TopicWatcher {
    fn wanted(&self) -> (NamespaceName, Arc<TopicPattern>) {
        (self.namespace.clone(), self.pattern.clone())
    }

    /// Takes note of what there is now; returns what the client does not know.
    fn learn(&mut self, watcher_id: u64, now: BTreeSet<String>) -> Option<proto::CommandWatchTopicUpdate> {
        let known = self.known.as_mut().filter(|known| **known != now)?;
        let update = proto::CommandWatchTopicUpdate {
            watcher_id,
            new_topics: now.difference(known).cloned().collect(),
            deleted_topics: known.difference(&now).cloned().collect(),
            topics_hash: topics_hash(now.iter().map(String::as_str)),
        };
        *known = now;
        Some(update)
    }
}

/// The topics of a namespace; none if there is no such namespace.
fn list(metadata: &dyn MetadataStore, namespace: &NamespaceName) -> Result<Vec<TopicName>, TopicError> {
    match catalog::topics(metadata, namespace) {
        Err(TopicError::NoSuchNamespace(_)) => Ok(Vec::new()),
        outcome => outcome,
    }
}

fn matching(topics: &[TopicName], pattern: &TopicPattern) -> BTreeSet<String> {
    topics.iter().filter(|topic| pattern.shows(topic)).map(ToString::to_string).collect()
}

/// Hears of changes from the first watcher on.
fn listen(shared: &Arc<Shared>) -> Result<(), String> {
    let mut source = lock(&shared.topic_watchers.source);
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
    let _telling = lock(&shared.topic_watchers.telling);
    let all = lock(&shared.topic_watchers.watchers).iter().map(|(key, watcher)| (*key, watcher.wanted())).collect::<Vec<_>>();
    let mut lists = HashMap::new();
    for (watcher, (namespace, pattern)) in all {
        let (key, watcher_id) = watcher;
        let topics = lists.entry(namespace).or_insert_with_key(|namespace| list(&*shared.metadata, namespace));
        let now = match topics {
            Ok(topics) => matching(topics, &pattern),
            Err(error) => {
                tracing::warn!(%error, "topics could not be listed for who watches them");
                continue;
            }
        };
        if let Some(watcher) = lock(&shared.topic_watchers.watchers).get_mut(&watcher)
            && let Some(update) = watcher.learn(watcher_id, now)
        {
            shared.post(key.worker, Letter::Answer { to: key, command: update.into() });
        }
    }
}

/// A poisoned lock means that a thread panicked between two plain operations; what it guards is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
