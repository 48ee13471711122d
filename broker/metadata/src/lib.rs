//! The versioned tree of names, policies and ownership.
//!
//! [`MetadataStore`] is the one door: a tree of nodes, each with a value and a version, as ZooKeeper has it. [`EmbeddedStore`]
//! keeps it in one file, [`MemoryStore`] in memory with faults on demand; a store of ZooKeeper's or etcd's can stand in
//! without a change above. The other modules say what is in the tree: [`paths`] where, [`clusters`], [`tenants`],
//! [`namespaces`], [`topics`], [`partitioned`], [`topic_policies`], [`resource_groups`], [`schemas`] and [`ownership`] what, in Pulsar's own bytes.
//!
//! ```text
//! /admin/clusters/standalone                              {"serviceUrl":"http://…","brokerServiceUrl":"pulsar://…"}
//! /admin/policies/public                                  {"adminRoles":[],"allowedClusters":["standalone"]}
//! /admin/policies/public/default                          {"replication_clusters":["standalone"],"bundles":{…},…}
//! /admin/partitioned-topics/public/default/persistent/t   {"partitions":3,"properties":{}}
//! /managed-ledgers/public/default/persistent/t            ledgers of the topic, and below it its cursors
//! /schemas/public/default/t                               versions of the topic's schema, and below it each of them
//! /namespace/public/default/0x00000000_0x40000000         {"nativeUrl":"pulsar://…",…}, for as long as the owner lives
//! ```
//!
//! Rules of the tree:
//! - A node made below one that is not there makes that too, empty. A node with children cannot be deleted.
//! - Versions start at 0 and go up by one with each put; a node that is deleted and made again starts at 0.
//! - A [`Transaction`] happens as a whole or not at all; each of its operations sees the ones before it.
//! - What was refused ([`Rejected`]) did not happen. After [`MetadataError::Unknown`] it may have: read before acting.
//! - An ephemeral node goes when its [`Session`] ends. The holder watches its own deadline, by a monotonic clock it brings.
//! - Numbers of a sequence are never given twice, whatever is deleted or restarted.
//!
//! No method asks the clock, and none but the blocking ones waits; whoever must not wait uses [`MetadataStore::submit`].

mod bootstrap;
pub mod clusters;
pub mod component;
mod delivery;
mod document;
mod embedded;
mod errors;
mod key;
mod memory;
pub mod namespaces;
pub mod ownership;
pub mod partitioned;
pub mod paths;
mod plan;
pub mod resource_groups;
pub mod schemas;
mod session;
mod sessions;
mod store;
pub mod tenants;
pub mod topic_policies;
pub mod topics;
mod transaction;
mod watch;

pub use bootstrap::{Bootstrap, BootstrapError, bootstrap};
pub use document::Malformed;
pub use embedded::{CommitCounts, EmbeddedOptions, EmbeddedStore};
pub use errors::{MetadataError, OpenError, Rejected};
pub use key::{MAX_DEPTH, MAX_PATH, MAX_VALUE};
pub use memory::{Fault, MemoryStore};
pub use session::Session;
pub use store::{Done, MetadataStore, OnChange, Outcome, Versioned};
pub use transaction::{Expected, Op, Transaction};
pub use watch::{Watch, WatchEvent};
