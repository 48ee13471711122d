//! One topic as a state machine: producers, subscriptions, dispatch, permits, redelivery.
//!
//! No clock, no I/O, no locks. Its owner calls [`Topic`] with events; what the topic wants done comes out as
//! [`Effect`]s, in an order that must be kept for each connection.

mod effect;
mod event;
mod keys;
pub mod stats;
mod topic;

pub use effect::{Change, Effect, Effects, Reply, Tag};
pub use event::{
    Ack, AckIds, AttachConsumer, AttachProducer, Now, Publish, ReadOutcome, SeekTo, StartAt, StoredCursor, SubscriptionKind, TopicSettings,
    Turn,
};
pub use keys::{ConnectionKey, ConsumerKey, ConsumerSlot, ProducerKey, ProducerSlot};
pub use topic::Topic;
