//! One topic as a state machine: producers, subscriptions, dispatch, permits, redelivery.
//!
//! No clock, no I/O, no locks. Its owner calls [`Topic`] with events; what the topic wants done comes out as
//! [`Effect`]s, in an order that must be kept for each connection.

mod nonpersistent;
mod topic;

mod access;
mod attach;
mod dedup;
mod producers;
mod publishing;

mod chunks;
mod consumer;
mod crowding;
mod delayed;
mod dispatcher;
mod pace;
mod pending;
mod phases;
mod read_ahead;
mod redelivery;
mod seek;
mod subscription;

mod backlog;
mod expiry;
mod ledgers;
mod persistence;
mod unload;

mod effect;
mod errand;
mod event;
#[doc(hidden)]
pub mod faults;
mod growth;
mod keys;
mod lent;
mod peek;
pub mod stats;

pub use access::AccessMode;
pub use dedup::{DEDUPLICATION_CURSOR, Sequences};
pub use effect::{Change, Effect, Effects, Reply, Tag};
pub use event::{
    Ack, AckIds, AttachConsumer, AttachProducer, Deduplication, HashRange, KeySharedPolicy, KeySplit, Now, Publish, ReadOutcome, SeekTo,
    StartAt, StoredCursor, SubscriptionKind, TopicSettings, Turn,
};
pub use keys::{ConnectionKey, ConsumerKey, ConsumerSlot, ProducerKey, ProducerSlot};
pub use nonpersistent::NonPersistentTopic;
pub use topic::Topic;
