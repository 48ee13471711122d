//! What a topic promises to producers and consumers, against a memory model of storage and metadata.

extern crate geminga_topic as topic;

#[path = "../../../../tests/sim/mod.rs"]
#[allow(dead_code, reason = "shared with the simulation")]
mod sim;

mod access;
mod administration;
mod client;
mod compaction;
mod crowding;
mod cursors;
mod deduplication;
mod delayed;
mod dispatch_rate;
mod ending;
mod exclusive;
mod expiry;
mod failover;
mod idle;
mod key_shared;
mod ledgers;
mod limits;
mod nonpersistent;
mod pace;
mod producers;
mod publish_rate;
mod quota;
mod seeking;
mod shared;
mod subscribe_rate;
mod unloading;
