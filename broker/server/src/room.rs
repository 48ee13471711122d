//! What a worker hosts under a topic's name: a topic that stores its messages, or one that passes them on and forgets them.

use topic::stats::TopicStats;
use topic::{AttachConsumer, AttachProducer, NonPersistentTopic, Topic, Turn};
use wire::TopicName;

use crate::letter::TopicEvent;
use crate::loader::{LoadedTopic, LoadedVolatile};

/// A topic that can be hosted.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger kind, and one pointer less is followed")]
pub(crate) enum Loaded {
    Persistent(LoadedTopic),
    NonPersistent(Box<LoadedVolatile>),
}

/// A hosted topic.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger kind, and one pointer less is followed")]
pub(crate) enum Room {
    Persistent(Topic),
    NonPersistent(Box<NonPersistentTopic>),
}

impl Room {
    /// The one that has something to do with storage.
    pub(crate) fn persistent(&mut self) -> Option<&mut Topic> {
        match self {
            Room::Persistent(topic) => Some(topic),
            Room::NonPersistent(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &TopicName {
        match self {
            Room::Persistent(topic) => topic.name(),
            Room::NonPersistent(topic) => topic.name(),
        }
    }

    pub(crate) fn stats(&self) -> TopicStats {
        match self {
            Room::Persistent(topic) => topic.stats(),
            Room::NonPersistent(topic) => topic.stats(),
        }
    }

    pub(crate) fn period_ended(&mut self, seconds: f64) {
        match self {
            Room::Persistent(topic) => topic.period_ended(seconds),
            Room::NonPersistent(topic) => topic.period_ended(seconds),
        }
    }

    pub(crate) fn producers(&self) -> usize {
        match self {
            Room::Persistent(topic) => topic.producers(),
            Room::NonPersistent(topic) => topic.producers(),
        }
    }

    pub(crate) fn consumers(&self) -> usize {
        match self {
            Room::Persistent(topic) => topic.consumers(),
            Room::NonPersistent(topic) => topic.consumers(),
        }
    }

    /// Subscriptions that users made.
    pub(crate) fn subscriptions(&self) -> usize {
        match self {
            Room::Persistent(topic) => topic.subscriptions(),
            Room::NonPersistent(topic) => topic.stats().subscriptions.len(),
        }
    }

    /// See [`Topic::held_messages`]; nothing is held of a topic that stores nothing.
    pub(crate) fn held_messages(&self) -> u64 {
        match self {
            Room::Persistent(topic) => topic.held_messages(),
            Room::NonPersistent(_) => 0,
        }
    }

    pub(crate) fn set_crowded(&mut self, most: Option<u64>) {
        if let Room::Persistent(topic) = self {
            topic.set_crowded(most);
        }
    }

    /// See [`Topic::serve`]; a topic that stores nothing has sent everything by then.
    pub(crate) fn serve(&mut self, turn: &mut Turn<'_>) {
        if let Room::Persistent(topic) = self {
            topic.serve(turn);
        }
    }

    pub(crate) fn attach_producer(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        match self {
            Room::Persistent(topic) => topic.attach_producer(turn, attach),
            Room::NonPersistent(topic) => topic.attach_producer(turn, attach),
        }
    }

    pub(crate) fn attach_consumer(&mut self, turn: &mut Turn<'_>, attach: AttachConsumer) {
        match self {
            Room::Persistent(topic) => topic.attach_consumer(turn, attach),
            Room::NonPersistent(topic) => topic.attach_consumer(turn, attach),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Room::Persistent(topic) => topic.next_deadline(),
            Room::NonPersistent(topic) => topic.next_deadline(),
        }
    }

    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        match self {
            Room::Persistent(topic) => topic.tick(turn),
            Room::NonPersistent(topic) => topic.tick(turn),
        }
    }

    pub(crate) fn unload(&mut self, turn: &mut Turn<'_>) {
        match self {
            Room::Persistent(topic) => topic.unload(turn),
            Room::NonPersistent(topic) => topic.unload(turn),
        }
    }

    pub(crate) fn unloaded(&self) -> bool {
        match self {
            Room::Persistent(topic) => topic.unloaded(),
            Room::NonPersistent(topic) => topic.unloaded(),
        }
    }

    /// Whether it is there for nobody: only a topic that stores something is kept then.
    pub(crate) fn is_deserted(&self) -> bool {
        match self {
            Room::Persistent(_) => false,
            Room::NonPersistent(topic) => topic.is_deserted(),
        }
    }
}

/// Something happened to a topic that stores nothing.
pub(crate) fn tell(topic: &mut NonPersistentTopic, turn: &mut Turn<'_>, event: TopicEvent) {
    match event {
        TopicEvent::Publish(publish) => topic.publish(turn, publish),
        TopicEvent::Ack(ack) => topic.ack(turn, &ack),
        TopicEvent::Flow { key, slot, permits } => topic.flow(turn, key, slot, permits),
        TopicEvent::SetWritable { key, slot, writable } => topic.set_writable(key, slot, writable),
        TopicEvent::DetachProducer { key, request } => topic.detach_producer(turn, key, request),
        TopicEvent::DetachConsumer { key, request } => topic.detach_consumer(turn, key, request),
        TopicEvent::Unsubscribe { key, request, force } => topic.unsubscribe(turn, key, request, force),
        TopicEvent::Seek { key, request, .. } => topic.seek(turn, key, request),
        TopicEvent::LastMessageId { key, request } => topic.last_message_id(turn, key, request),
        TopicEvent::ConsumerStats { key, request } => topic.consumer_stats(turn, key, request),
        // What was sent is gone, and storage was asked for nothing.
        TopicEvent::Redeliver { .. }
        | TopicEvent::ReadDone(_)
        | TopicEvent::LedgerCreated { .. }
        | TopicEvent::Changed { .. }
        | TopicEvent::Compacted { .. } => {}
    }
}
