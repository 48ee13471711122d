//! The topics of a worker: loading them, telling them what happened, and doing what they ask.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use ledger::{CacheKey, ReadRange, StoreError};
use metadata::namespaces::Policies;
use topic::{Change, ConnectionKey, ConsumerKey, Effect, NonPersistentTopic, ReadOutcome, Reply, Topic, Turn};
use wire::{ServerError, TopicName};

use crate::auth::{Identity, Wanted};
use crate::letter::{Letter, Opener, TopicEvent, TopicRef};
use crate::loader::{LoadError, LoadRequest};
use crate::room::{Loaded, Room};
use crate::storage::Part;
use crate::worker::Worker;

/// A loaded topic.
pub(crate) struct Hosted {
    pub(crate) topic: Room,
    pub(crate) key: TopicRef,
    /// What is said of it alone, beside its namespace.
    pub(crate) own: Policies,
    /// What its consumers hold unacked, as far as it was counted.
    pub(crate) held: u64,
    cache: CacheKey,
    /// The deadline that stands in the worker's heap.
    armed: Option<u64>,
    /// Whether it stands in the worker's list of topics that something happened to, and in that of those whose consumers are to be served.
    touched: bool,
    unserved: bool,
    /// Told when the topic has let go of everything.
    pub(crate) leaving: Vec<Box<dyn FnOnce() + Send>>,
    /// Consumers that take the topic's schema for theirs.
    pub(crate) automatic_consumers: Vec<ConsumerKey>,
    unloading: bool,
    /// Whether it keeps publishes back so that its consumers keep up.
    pub(crate) gives_way: bool,
    /// What it kept back.
    pub(crate) kept_back: VecDeque<TopicEvent>,
    /// Its name stays taken when it has let go, until it is deleted.
    pub(crate) deleting: bool,
}

/// What a name stands for on this worker.
pub(crate) enum Named {
    /// Being loaded; these wait.
    Loading(Vec<Opener>),
    /// Loaded.
    Loaded(TopicRef),
    /// Letting go; these want it loaded again afterwards.
    Unloading(TopicRef, Vec<Opener>),
    /// Not loaded and being deleted; these are heard when that has ended.
    Deleting(Vec<Opener>),
}

impl Worker {
    /// A client wants a topic, if it may.
    pub(crate) fn open_if_allowed(&mut self, key: ConnectionKey, name: TopicName, wanted: Wanted, opener: Opener) {
        let owner = self.shared.owner(&name);
        let Some(who) = self.asks_whether(key) else { return self.send(owner, Letter::Open { name, opener }) };
        let shared = self.shared.clone();
        self.shared.control.run(move || match shared.allows(&who, &wanted) {
            Ok(true) => shared.post(owner, Letter::Open { name, opener }),
            Ok(false) => {
                let error = LoadError::Forbidden(wanted.refusal(&who));
                tracing::warn!(role = %who.role, topic = %name, "not authorized");
                shared.post(owner, Letter::Call(Box::new(move |worker| worker.refuse(opener, &error))));
            }
            Err(error) => {
                let error = LoadError::Metadata { topic: name.to_string(), error };
                shared.post(owner, Letter::Call(Box::new(move |worker| worker.refuse(opener, &error))));
            }
        });
    }

    /// Who a connection is, if that makes a difference to what it may do.
    pub(crate) fn asks_whether(&mut self, key: ConnectionKey) -> Option<Identity> {
        self.shared.auth.as_ref().filter(|auth| auth.authorizes())?;
        self.connections.get_mut(key.slot, key.generation)?.peer.as_ref()?.identity.clone()
    }

    /// A client or the admin API wants a topic.
    pub(crate) fn open(&mut self, name: TopicName, opener: Opener) {
        if self.shared.draining.load(Ordering::Acquire) {
            return self.refuse(opener, &LoadError::Draining);
        }
        match self.names.get_mut(&name) {
            Some(Named::Loaded(topic)) => {
                let topic = *topic;
                self.attach(&name, topic, opener);
                self.leave_if_deserted(topic);
            }
            Some(Named::Loading(waiting) | Named::Unloading(_, waiting) | Named::Deleting(waiting)) => waiting.push(opener),
            None => self.load(name, vec![opener]),
        }
    }

    fn load(&mut self, name: TopicName, waiting: Vec<Opener>) {
        let create = waiting.iter().any(Opener::may_create);
        self.names.insert(name.clone(), Named::Loading(waiting));
        let request = LoadRequest { name, create };
        let (shared, worker) = (self.shared.clone(), self.index);
        self.shared.control.load(move || {
            let changes = shared.policy_changes.load(Ordering::Acquire);
            let whole = request.name.partitioned();
            let outcome = match shared.draining.load(Ordering::Acquire) {
                true => Err(LoadError::Draining),
                false if request.name.is_persistent() => {
                    crate::loader::load(&*shared.metadata, &*shared.store, &shared.live(), &request).map(Loaded::Persistent)
                }
                false => crate::loader::load_non_persistent(&*shared.metadata, &shared.live(), &request).map(Loaded::NonPersistent),
            };
            shared.post(worker, Letter::Loaded { name: request.name, outcome: Box::new(outcome) });
            if shared.policy_changes.load(Ordering::Acquire) != changes {
                crate::policies::apply_to_topic(&shared, whole);
            }
        });
    }

    pub(crate) fn loaded(&mut self, name: &TopicName, outcome: Result<Loaded, LoadError>) {
        let Some(Named::Loading(waiting)) = self.names.get_mut(name) else { return };
        let waiting = std::mem::take(waiting);
        self.names.remove(name);
        match outcome {
            // The drain has already let go of everything: nobody would let go of this one.
            Ok(_) if self.shared.draining.load(Ordering::Acquire) => {
                for opener in waiting {
                    self.refuse(opener, &LoadError::Draining);
                }
            }
            Ok(loaded) => {
                let key = self.host(name, loaded);
                for opener in waiting {
                    self.attach(name, key, opener);
                }
                self.leave_if_deserted(key);
            }
            // Somebody who may not create asked first: those who may get their own try.
            Err(LoadError::NotFound(_)) if waiting.iter().any(Opener::may_create) && !waiting.iter().all(Opener::may_create) => {
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

    fn host(&mut self, name: &TopicName, loaded: Loaded) -> TopicRef {
        let cache = self.cache.open();
        let now = self.now;
        let worker = self.index;
        let (mut topic, own) = match loaded {
            Loaded::Persistent(loaded) => {
                let mut topic = Topic::new(name.clone(), loaded.ledger, loaded.version, loaded.cursors, loaded.settings, cache, now);
                if let Some(compacted) = loaded.compacted {
                    topic.set_compacted(compacted);
                }
                if let Some(sequences) = loaded.sequences {
                    topic.deduplicate(&mut Turn { now, cache: &mut self.cache, out: &mut self.effects }, sequences);
                }
                (Room::Persistent(topic), loaded.own)
            }
            Loaded::NonPersistent(loaded) => {
                self.shared.volatile_topics.note(name);
                (Room::NonPersistent(Box::new(NonPersistentTopic::new(name.clone(), loaded.settings, now))), loaded.own)
            }
        };
        if let Some(refusal) = self.store_refusal()
            && let Some(topic) = topic.persistent()
        {
            topic.set_store_writable(&mut Turn { now, cache: &mut self.cache, out: &mut self.effects }, Some(refusal));
        }
        if let Some(most) = self.shared.crowding.most() {
            topic.set_crowded(Some(most));
        }
        let (slot, generation) = self.topics.insert_with(|slot, generation| Hosted {
            topic,
            key: TopicRef { worker, slot, generation },
            own,
            held: 0,
            cache,
            armed: None,
            touched: false,
            unserved: false,
            leaving: Vec::new(),
            automatic_consumers: Vec::new(),
            unloading: false,
            gives_way: false,
            kept_back: VecDeque::new(),
            deleting: false,
        });
        let key = TopicRef { worker, slot, generation };
        self.names.insert(name.clone(), Named::Loaded(key));
        tracing::debug!(topic = %name, "topic loaded");
        self.after_event(key);
        key
    }

    /// `name` in case the topic was let go of while others before this one attached: then it is opened again.
    fn attach(&mut self, name: &TopicName, key: TopicRef, opener: Opener) {
        if self.topics.get_mut(key.slot, key.generation).is_none() {
            return self.open(name.clone(), opener);
        }
        let Some(opener) = self.with_schema_settled(name, key, opener) else { return };
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let mut turn = Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        match opener {
            Opener::Producer { attach, .. } => hosted.topic.attach_producer(&mut turn, *attach),
            Opener::Consumer { attach, .. } => hosted.topic.attach_consumer(&mut turn, *attach),
            Opener::Caller(call) => call(Ok((self, key))),
        }
        self.after_event(key);
    }

    pub(crate) fn refuse(&mut self, opener: Opener, error: &LoadError) {
        match opener {
            Opener::Caller(call) => call(Err(error.clone())),
            client => {
                if let Some((worker, letter)) = client.refusal(error.code(), error.to_string()) {
                    self.send(worker, letter);
                }
            }
        }
    }

    /// Something happened to a topic.
    pub(crate) fn on_topic(&mut self, key: TopicRef, event: TopicEvent) {
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return self.undeliverable(key, event) };
        let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        let topic = match &mut hosted.topic {
            Room::Persistent(topic) => topic,
            Room::NonPersistent(topic) => {
                if let TopicEvent::DetachConsumer { key: consumer, .. } = event {
                    hosted.automatic_consumers.retain(|key| *key != consumer);
                }
                crate::room::tell(topic, turn, event);
                self.after_event(key);
                return self.leave_if_deserted(key);
            }
        };
        match event {
            TopicEvent::Publish(publish) => topic.publish(turn, publish),
            TopicEvent::Ack(ack) => topic.ack(turn, ack),
            TopicEvent::Flow { key, slot, permits } => topic.flow(turn, key, slot, permits),
            TopicEvent::Redeliver { key, slot, ids, epoch } => topic.redeliver(key, slot, ids, epoch),
            TopicEvent::SetWritable { key, slot, writable } => topic.set_writable(key, slot, writable),
            TopicEvent::DetachProducer { key, request } => topic.detach_producer(turn, key, request),
            TopicEvent::DetachConsumer { key, request } => {
                hosted.automatic_consumers.retain(|automatic| *automatic != key);
                topic.detach_consumer(turn, key, request);
            }
            TopicEvent::Unsubscribe { key, request, force } => topic.unsubscribe(turn, key, request, force),
            TopicEvent::Seek { key, request, to } => topic.seek(turn, key, request, to),
            TopicEvent::LastMessageId { key, request } => topic.last_message_id(turn, key, request),
            TopicEvent::ConsumerStats { key, request } => topic.consumer_stats(turn, key, request),
            TopicEvent::ReadDone(outcome) => topic.read_done(turn, outcome),
            TopicEvent::LedgerCreated { tag, outcome } => topic.ledger_created(turn, tag, outcome),
            TopicEvent::Changed { tag, outcome } => topic.changed(turn, tag, outcome),
            TopicEvent::Compacted { tag, outcome } => topic.compacted(turn, tag, outcome),
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
            // Nobody has recorded it, so nobody would ever delete it.
            TopicEvent::LedgerCreated { outcome: Ok(ledger), .. } => {
                return self.shared.store.delete(vec![ledger], Box::new(|outcome| log_failure("delete", outcome)));
            }
            TopicEvent::Compacted { outcome: Ok(done), .. } => {
                let left = vec![done.compacted.ledger];
                return self.shared.store.delete(left, Box::new(|outcome| log_failure("delete", outcome)));
            }
            _ => return,
        };
        if let Some(worker) = effect_connection(&effect) {
            self.send(worker, Letter::ToConnection { from, effect });
        }
    }

    /// Does what a topic asked for in its last event; the rest is looked at when all events were told.
    pub(crate) fn after_event(&mut self, key: TopicRef) {
        self.carry_out(key);
        if let Some(hosted) = self.topics.get_mut(key.slot, key.generation)
            && !hosted.unserved
        {
            hosted.unserved = true;
            self.unserved.push(key);
            if !std::mem::replace(&mut hosted.touched, true) {
                self.touched.push(key);
            }
        }
    }

    /// Of each topic that something happened to since: sends its consumers what they can be sent, and asks whether it gives way to them.
    pub(crate) fn serve_consumers(&mut self) {
        let mut unserved = std::mem::take(&mut self.unserved);
        for key in unserved.drain(..) {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            hosted.unserved = false;
            hosted.topic.serve(&mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects });
            self.carry_out(key);
            self.consider_giving_way(key);
        }
        // What is empty keeps its memory.
        unserved.append(&mut self.unserved);
        self.unserved = unserved;
    }

    /// Of each topic that something happened to in this turn: keeps its deadline, and lets go of it if it is done.
    pub(crate) fn settle_touched(&mut self) {
        let limited = self.shared.crowding.is_limited();
        let mut touched = std::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            hosted.touched = false;
            if limited {
                hosted.recount(&mut self.held);
            }
            if let Some(at) = hosted.topic.next_deadline()
                && hosted.armed.is_none_or(|armed| at < armed)
            {
                self.timers.arm(hosted.armed.replace(at), at, key.slot, key.generation);
            }
            if hosted.unloading && hosted.topic.unloaded() {
                self.let_go(key);
            }
        }
        // Letting go may have touched others, which keep their places.
        touched.append(&mut self.touched);
        self.touched = touched;
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
            Effect::Receipt { .. }
            | Effect::Refused { .. }
            | Effect::Forgotten { .. }
            | Effect::Held { .. }
            | Effect::Released { .. }
            | Effect::Deliver { .. }
            | Effect::Reply { .. } => match effect_connection(&effect) {
                Some(worker) if worker == self.index => self.on_connection(key, effect),
                Some(worker) => self.send(worker, Letter::ToConnection { from: key, effect }),
                None => {}
            },
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
                    shared.post(key.worker, Letter::ToTopic { topic: key, event: TopicEvent::LedgerCreated { tag, outcome } });
                };
                self.shared.store.create(purpose, Box::new(done));
            }
            Effect::SealLedger(ledger) => self.shared.store.seal(ledger, Box::new(move |outcome| log_failure("seal", outcome.map(drop)))),
            Effect::DeleteLedgers(ledgers) => self.shared.store.delete(ledgers, Box::new(move |outcome| log_failure("delete", outcome))),
            Effect::Change { tag, change } => self.change(key, tag, change),
            Effect::Compact { tag, job } => crate::compaction::begin(&self.shared, key, tag, job),
            Effect::Report { message } => tracing::warn!(topic = self.topic_name(key), message, "trouble with a topic"),
            Effect::Deserted => {
                if let Some(name) = self.topic_name_of(key) {
                    crate::removal::delete_deserted(&self.shared, name);
                }
            }
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
            let outcome = outcome.map(|versions| versions.last().copied().unwrap_or(-1)).map_err(|e| e.to_string());
            shared.post(key.worker, Letter::ToTopic { topic: key, event: TopicEvent::Changed { tag, outcome } });
        };
        self.shared.metadata.submit(transaction, Box::new(done));
    }

    /// The oldest block is durable, or never will be.
    pub(crate) fn block_done(&mut self, outcome: &Result<(), StoreError>) {
        let (parts, micros) = self.storage.oldest();
        for part in &parts {
            self.part_done(*part, outcome, micros);
        }
        self.storage.recycle(parts);
        if outcome.is_err() {
            self.check_store();
        }
    }

    fn part_done(&mut self, part: Part, outcome: &Result<(), StoreError>, micros: u64) {
        let key = match part {
            Part::Entries { topic, .. } | Part::Cursor { topic, .. } => topic,
        };
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        let Some(topic) = hosted.topic.persistent() else { return };
        let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        if let Part::Entries { first, last, .. } = part {
            let entries = u64::try_from(last.entry.0 - first.entry.0 + 1).unwrap_or(0);
            topic.written(entries, micros);
            self.period.written(entries, micros);
        }
        match (part, outcome) {
            (Part::Entries { last, .. }, Ok(())) => topic.appended(turn, last),
            (Part::Entries { first, .. }, Err(error)) => topic.append_failed(turn, first, error),
            (Part::Cursor { tag, .. }, outcome) => topic.cursor_appended(turn, tag, outcome.clone()),
        }
        self.after_event(key);
    }

    /// A topic that stores nothing goes with the last one who has a use for it.
    fn leave_if_deserted(&mut self, key: TopicRef) {
        if self.topics.get_mut(key.slot, key.generation).is_some_and(|hosted| hosted.topic.is_deserted()) {
            self.begin_unload(key);
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
        self.held -= hosted.held;
        let name = hosted.topic.name().clone();
        if !name.is_persistent() {
            self.shared.volatile_topics.forget(&name);
        }
        let mut waiting = match self.names.remove(&name) {
            Some(Named::Unloading(_, waiting)) => waiting,
            _ => Vec::new(),
        };
        self.timers.disarm(hosted.armed, key.slot, key.generation);
        self.callers.forget(key);
        if hosted.deleting {
            self.names.insert(name.clone(), Named::Deleting(std::mem::take(&mut waiting)));
        }
        tracing::debug!(topic = %name, "topic unloaded");
        for event in hosted.kept_back {
            self.undeliverable(key, event);
        }
        for told in hosted.leaving {
            told();
        }
        for opener in waiting {
            self.open(name.clone(), opener);
        }
    }

    fn topic_name_of(&mut self, key: TopicRef) -> Option<TopicName> {
        self.topics.get_mut(key.slot, key.generation).map(|hosted| hosted.topic.name().clone())
    }

    fn topic_name(&mut self, key: TopicRef) -> String {
        self.topic_name_of(key).map(|name| name.to_string()).unwrap_or_default()
    }
}

impl Opener {
    pub(crate) fn is_client(&self) -> bool {
        !matches!(self, Opener::Caller(_))
    }

    fn may_create(&self) -> bool {
        match self {
            Opener::Producer { .. } => true,
            Opener::Consumer { create_topic, .. } => *create_topic,
            Opener::Caller(_) => false,
        }
    }
}

/// The worker that owns the connection an effect is for.
fn effect_connection(effect: &Effect) -> Option<u16> {
    match effect {
        Effect::Receipt { to, .. }
        | Effect::Refused { to, .. }
        | Effect::Forgotten { to, .. }
        | Effect::Held { to, .. }
        | Effect::Released { to, .. } => Some(to.connection.worker),
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
