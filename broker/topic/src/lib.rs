//! One topic as a state machine: producers, subscriptions, dispatch, permits, redelivery.
//!
//! No clock, no I/O, no locks. Its owner calls [`Topic`] with events; what the topic wants done comes out as
//! [`Effect`]s, in an order that must be kept for each connection.

mod nonpersistent;
mod topic;

mod access;
mod attach;
mod dedup;
mod limits;
mod producers;
mod publishing;
mod terminate;
mod throttle;

mod chunks;
mod consumer;
mod crowding;
mod delayed;
mod dispatch_rate;
mod dispatcher;
mod pace;
mod pending;
mod phases;
mod read_ahead;
mod redelivery;
mod seek;
mod subscribe_rate;
mod subscription;

mod backlog;
mod compaction;
mod expiry;
mod finding;
mod idle;
mod ledgers;
mod moves;
mod noting;
mod persistence;
mod quota;
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
mod rate;
mod rates;
pub mod stats;

pub use access::AccessMode;
pub use compaction::{
    COMPACTION_CURSOR, Compacted, CompactionDone, CompactionJob, CompactionRules, CompactionStatus, CompactionStorage, NotCompacted,
    compacted_ledger,
};
pub use dedup::{DEDUPLICATION_CURSOR, Sequences};
pub use effect::{Change, Effect, Effects, Reply, Tag};
pub use event::{
    Ack, AckIds, AttachConsumer, AttachProducer, Deduplication, HashRange, KeySharedPolicy, KeySplit, Now, Publish, ReadOutcome, SeekTo,
    StartAt, StoredCursor, SubscriptionKind, TopicSettings, Turn,
};
pub use idle::{Desertion, Idleness};
pub use keys::{ConnectionKey, ConsumerKey, ConsumerSlot, ProducerKey, ProducerSlot};
pub use limits::{Kinds, Limits};
pub use moves::Unmoved;
pub use nonpersistent::NonPersistentTopic;
pub use quota::{Quota, QuotaPolicy, Quotas};
pub use rate::{Rate, SharedLimiter};
pub use rates::{DispatchRates, PublishRates, Rates};
pub use subscription::Asked;
pub use topic::Topic;
