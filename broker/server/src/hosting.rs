//! The topics of a worker: loading them, telling them what happened, and doing what they ask.

use std::sync::atomic::Ordering;

use ledger::{CacheKey, ReadRange, StoreError, StoreHealth};
use topic::{Change, Effect, ReadOutcome, Reply, Topic, Turn};
use wire::{ServerError, TopicName};

use crate::letter::{Letter, Opener, TopicEvent, TopicRef};
use crate::loader::{LoadError, LoadRequest, LoadedTopic};
use crate::storage::Part;
use crate::worker::Worker;

/// A loaded topic.
pub(crate) struct Hosted {
    pub(crate) topic: Topic,
    pub(crate) key: TopicRef,
    cache: CacheKey,
    /// The deadline that stands in the worker's heap.
    armed: Option<u64>,
    /// Told when the topic has let go of everything.
    pub(crate) leaving: Vec<Box<dyn FnOnce() + Send>>,
    unloading: bool,
}

/// What a name stands for on this worker.
pub(crate) enum Named {
    /// Being loaded; these wait.
    Loading(Vec<Opener>),
    /// Loaded.
    Loaded(TopicRef),
    /// Letting go; these want it loaded again afterwards.
    Unloading(TopicRef, Vec<Opener>),
}

impl Worker {
    /// A client or the admin API wants a topic.
    pub(crate) fn open(&mut self, name: TopicName, opener: Opener) {
        if self.shared.draining.load(Ordering::Acquire) {
            return self.refuse(opener, &LoadError::Draining);
        }
        match self.names.get_mut(&name) {
            Some(Named::Loaded(topic)) => {
                let topic = *topic;
                self.attach(topic, opener);
            }
            Some(Named::Loading(waiting) | Named::Unloading(_, waiting)) => waiting.push(opener),
            None => self.load(name, vec![opener]),
        }
    }

    fn load(&mut self, name: TopicName, waiting: Vec<Opener>) {
        let create = self.shared.settings.auto_topic_creation && waiting.iter().any(Opener::may_create);
        self.names.insert(name.clone(), Named::Loading(waiting));
        let request = LoadRequest { name, create };
        let (shared, worker) = (self.shared.clone(), self.index);
        self.shared.control.run(move || {
            let outcome = Box::new(crate::loader::load(&*shared.metadata, &*shared.store, &shared.settings, &request));
            shared.post(worker, Letter::Loaded { name: request.name, outcome });
        });
    }

    pub(crate) fn loaded(&mut self, name: &TopicName, outcome: Result<LoadedTopic, LoadError>) {
        let Some(Named::Loading(waiting)) = self.names.remove(name) else { return };
        match outcome {
            Ok(loaded) => {
                let key = self.host(name, loaded);
                for opener in waiting {
                    self.attach(key, opener);
                }
            }
            // Somebody who may not create asked first: those who may get their own try.
            Err(LoadError::NotFound(_))
                if self.shared.settings.auto_topic_creation
                    && waiting.iter().any(Opener::may_create)
                    && !waiting.iter().all(Opener::may_create) =>
            {
                let (may, may_not): (Vec<_>, Vec<_>) = waiting.into_iter().partition(Opener::may_create);
                for opener in may_not {
                    self.refuse(opener, &LoadError::NotFound(name.to_string()));
                }
                self.load(name.clone(), may);
            }
            Err(error) => {
                tracing::debug!(topic = %name, %error, "topic not loaded");
                for opener in waiting {
                    self.refuse(opener, &error);
                }
            }
        }
    }

    fn host(&mut self, name: &TopicName, loaded: LoadedTopic) -> TopicRef {
        let cache = self.cache.open();
        let now = self.now;
        let worker = self.index;
        let topic = Topic::new(name.clone(), loaded.ledger, loaded.version, loaded.cursors, loaded.settings, cache, now);
        let mut hosted = Some(topic);
        let (slot, generation) = self.topics.insert_with(|slot, generation| Hosted {
            topic: hosted.take().unwrap_or_else(|| unreachable!("a slot is filled once")),
            key: TopicRef { worker, slot, generation },
            cache,
            armed: None,
            leaving: Vec::new(),
            unloading: false,
        });
        let key = TopicRef { worker, slot, generation };
        self.names.insert(name.clone(), Named::Loaded(key));
        self.shared.directory.insert(name.clone(), key);
        tracing::debug!(topic = %name, "topic loaded");
        self.after_event(key);
        key
    }

    fn attach(&mut self, key: TopicRef, opener: Opener) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let mut turn = Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        match opener {
            Opener::Producer(attach) => hosted.topic.attach_producer(&mut turn, *attach),
            Opener::Consumer { attach, .. } => hosted.topic.attach_consumer(&mut turn, *attach),
            Opener::Caller(call) => call(Ok((self, key))),
        }
        self.after_event(key);
    }

    fn refuse(&mut self, opener: Opener, error: &LoadError) {
        let (to, request) = match opener {
            Opener::Producer(attach) => {
                (attach.key.connection, Reply::Error { request: attach.request, error: error.code(), message: error.to_string() })
            }
            Opener::Consumer { attach, .. } => {
                (attach.key.connection, Reply::Error { request: attach.request, error: error.code(), message: error.to_string() })
            }
            Opener::Caller(call) => return call(Err(error.clone())),
        };
        let nobody = TopicRef { worker: self.index, slot: u32::MAX, generation: u32::MAX };
        self.send(to.worker, Letter::ToConnection { from: nobody, effect: Effect::Reply { to, reply: request } });
    }

    /// Something happened to a topic.
    pub(crate) fn on_topic(&mut self, key: TopicRef, event: TopicEvent) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return self.undeliverable(key, event) };
        let topic = &mut hosted.topic;
        let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        match event {
            TopicEvent::Publish(publish) => topic.publish(turn, publish),
            TopicEvent::Ack(ack) => topic.ack(turn, ack),
            TopicEvent::Flow { key, slot, permits } => topic.flow(turn, key, slot, permits),
            TopicEvent::Redeliver { key, slot, ids, epoch } => topic.redeliver(turn, key, slot, ids, epoch),
            TopicEvent::SetWritable { key, slot, writable } => topic.set_writable(turn, key, slot, writable),
            TopicEvent::DetachProducer { key, request } => topic.detach_producer(turn, key, request),
            TopicEvent::DetachConsumer { key, request } => topic.detach_consumer(turn, key, request),
            TopicEvent::Unsubscribe { key, request, force } => topic.unsubscribe(turn, key, request, force),
            TopicEvent::Seek { key, request, to } => topic.seek(turn, key, request, to),
            TopicEvent::LastMessageId { key, request } => topic.last_message_id(turn, key, request),
            TopicEvent::ConsumerStats { key, request } => topic.consumer_stats(turn, key, request),
            TopicEvent::ReadDone(outcome) => topic.read_done(turn, outcome),
            TopicEvent::LedgerCreated { tag, outcome } => topic.ledger_created(turn, tag, outcome),
            TopicEvent::Changed { tag, outcome } => topic.changed(turn, tag, outcome),
        }
        self.after_event(key);
    }

    /// An event for a topic that was let go of: whoever waits for an answer gets one.
    fn undeliverable(&mut self, from: TopicRef, event: TopicEvent) {
        let gone = || "the topic was unloaded".to_owned();
        let error = ServerError::ServiceNotReady;
        let effect = match event {
            TopicEvent::Publish(publish) => {
                Effect::Forgotten { to: publish.key, bytes: u32::try_from(publish.bytes.len()).unwrap_or(u32::MAX) }
            }
            TopicEvent::DetachProducer { key, request: Some(request) } => {
                Effect::Reply { to: key.connection, reply: Reply::Success { request } }
            }
            TopicEvent::DetachConsumer { key, request: Some(request) } => {
                Effect::Reply { to: key.connection, reply: Reply::Success { request } }
            }
            TopicEvent::Ack(ack) => match ack.request {
                Some(request) => Effect::Reply {
                    to: ack.key.connection,
                    reply: Reply::AckDone { request, consumer: ack.key, error: Some((error, gone())) },
                },
                None => return,
            },
            TopicEvent::Unsubscribe { key, request, .. }
            | TopicEvent::Seek { key, request, .. }
            | TopicEvent::LastMessageId { key, request }
            | TopicEvent::ConsumerStats { key, request } => {
                Effect::Reply { to: key.connection, reply: Reply::Error { request, error, message: gone() } }
            }
            _ => return,
        };
        if let Some(worker) = effect_connection(&effect) {
            self.send(worker, Letter::ToConnection { from, effect });
        }
    }

    /// Does what a topic asked for in its last event, and keeps its deadline.
    pub(crate) fn after_event(&mut self, key: TopicRef) {
        self.carry_out(key);
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        if let Some(at) = hosted.topic.next_deadline()
            && hosted.armed.is_none_or(|armed| at < armed)
        {
            hosted.armed = Some(at);
            self.timers.arm(at, key.slot, key.generation);
        }
        if hosted.unloading && hosted.topic.unloaded() {
            self.let_go(key);
        }
    }

    pub(crate) fn tick_topic(&mut self, at: u64, slot: u32, generation: u32) {
        let Some(hosted) = self.topics.get_mut(slot, generation) else { return };
        if hosted.armed != Some(at) {
            return;
        }
        hosted.armed = None;
        let key = hosted.key;
        hosted.topic.tick(&mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects });
        self.after_event(key);
    }

    fn carry_out(&mut self, key: TopicRef) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.carry_out_one(key, effect);
        }
        self.effects = effects;
    }

    fn carry_out_one(&mut self, key: TopicRef, effect: Effect) {
        match effect {
            Effect::Append { at, bytes } => {
                self.storage.append(key, at, at.entry.0 - 1, &bytes);
                if self.storage.is_full() {
                    self.storage.hand_over(self.index, &self.shared);
                }
            }
            Effect::AppendCursor { tag, at, bytes } => self.storage.append_cursor(key, tag, at, &bytes),
            Effect::Receipt { .. } | Effect::Refused { .. } | Effect::Forgotten { .. } | Effect::Deliver { .. } | Effect::Reply { .. } => {
                match effect_connection(&effect) {
                    Some(worker) if worker == self.index => self.on_connection(key, effect),
                    Some(worker) => self.send(worker, Letter::ToConnection { from: key, effect }),
                    None => {}
                }
            }
            Effect::Read { tag, from, last, max_entries, max_bytes } => {
                let shared = self.shared.clone();
                let range = ReadRange { ledger: from.ledger, from: from.entry, last: last.entry, max_entries, max_bytes };
                let done = move |entries| {
                    let event = TopicEvent::ReadDone(ReadOutcome { tag, ledger: range.ledger, entries });
                    shared.post(key.worker, Letter::ToTopic { topic: key, event });
                };
                self.shared.store.read(range, Box::new(done));
            }
            Effect::CreateLedger { tag, purpose } => {
                let shared = self.shared.clone();
                let done = move |outcome| {
                    shared.post(key.worker, Letter::ToTopic { topic: key, event: TopicEvent::LedgerCreated { tag, outcome } })
                };
                self.shared.store.create(purpose, Box::new(done));
            }
            Effect::SealLedger(ledger) => self.shared.store.seal(ledger, Box::new(move |outcome| log_failure("seal", outcome.map(drop)))),
            Effect::DeleteLedgers(ledgers) => self.shared.store.delete(ledgers, Box::new(move |outcome| log_failure("delete", outcome))),
            Effect::Change { tag, change } => self.change(key, tag, change),
            Effect::Report { message } => tracing::warn!(topic = self.topic_name(key), message, "trouble with a topic"),
            Effect::Unload { reason } => {
                tracing::warn!(topic = self.topic_name(key), reason, "letting go of a topic");
                self.begin_unload(key);
            }
        }
    }

    fn change(&mut self, key: TopicRef, tag: topic::Tag, change: Change) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let transaction = crate::catalog::transaction(hosted.topic.name(), change);
        let shared = self.shared.clone();
        let done = move |outcome: metadata::Outcome| {
            let outcome = outcome.map(|versions| versions.first().copied().unwrap_or(-1)).map_err(|e| e.to_string());
            shared.post(key.worker, Letter::ToTopic { topic: key, event: TopicEvent::Changed { tag, outcome } });
        };
        self.shared.metadata.submit(transaction, Box::new(done));
    }

    /// The oldest block is durable, or never will be.
    pub(crate) fn block_done(&mut self, outcome: &Result<(), StoreError>) {
        let parts = self.storage.oldest();
        for part in &parts {
            self.part_done(*part, outcome);
        }
        self.storage.recycle(parts);
        if let Err(error) = outcome {
            self.storage_failed(error);
        }
    }

    fn part_done(&mut self, part: Part, outcome: &Result<(), StoreError>) {
        let key = match part {
            Part::Entries { topic, .. } | Part::Cursor { topic, .. } => topic,
        };
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        match (part, outcome) {
            (Part::Entries { last, .. }, Ok(())) => hosted.topic.appended(turn, last),
            (Part::Entries { first, .. }, Err(error)) => hosted.topic.append_failed(turn, first, error),
            (Part::Cursor { tag, .. }, outcome) => hosted.topic.cursor_appended(turn, tag, outcome.clone()),
        }
        self.after_event(key);
    }

    fn storage_failed(&mut self, error: &StoreError) {
        let health = self.shared.store.health();
        if health != self.store_health {
            match &health {
                StoreHealth::Ready => {}
                StoreHealth::DiskNearlyFull(why) => {
                    tracing::error!(why, "publishes are refused: the disk is nearly full. Free space, or drain backlogs")
                }
                StoreHealth::Poisoned(why) => tracing::error!(why, %error, "the log failed; nothing more can be stored by this process"),
            }
            self.store_health = health;
        }
    }

    /// Starts to let go of a topic; its clients are told and come back.
    pub(crate) fn begin_unload(&mut self, key: TopicRef) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        if hosted.unloading {
            return;
        }
        hosted.unloading = true;
        let name = hosted.topic.name().clone();
        hosted.topic.unload(&mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects });
        self.names.insert(name, Named::Unloading(key, Vec::new()));
        self.after_event(key);
    }

    fn let_go(&mut self, key: TopicRef) {
        let Some(hosted) = self.topics.remove(key.slot, key.generation) else { return };
        self.cache.close(hosted.cache);
        let name = hosted.topic.name().clone();
        self.shared.directory.remove(&name);
        let waiting = match self.names.remove(&name) {
            Some(Named::Unloading(_, waiting)) => waiting,
            _ => Vec::new(),
        };
        tracing::debug!(topic = %name, "topic unloaded");
        for told in hosted.leaving {
            told();
        }
        for opener in waiting {
            self.open(name.clone(), opener);
        }
    }

    fn topic_name(&mut self, key: TopicRef) -> String {
        self.topics.get_mut(key.slot, key.generation).map(|h| h.topic.name().to_string()).unwrap_or_default()
    }
}

impl Opener {
    fn may_create(&self) -> bool {
        match self {
            Opener::Producer(_) => true,
            Opener::Consumer { create_topic, .. } => *create_topic,
            Opener::Caller(_) => false,
        }
    }
}

/// The worker that owns the connection an effect is for.
fn effect_connection(effect: &Effect) -> Option<u16> {
    match effect {
        Effect::Receipt { to, .. } | Effect::Refused { to, .. } | Effect::Forgotten { to, .. } => Some(to.connection.worker),
        Effect::Deliver { to, .. } => Some(to.connection.worker),
        Effect::Reply { to, .. } => Some(to.worker),
        _ => None,
    }
}

fn log_failure(what: &str, outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, what, "a ledger operation failed");
    }
}
