//! Schemas of topics: what their messages look like, version by version.
//!
//! A topic's versions are numbered from 0 and never change. Partitions share those of the topic they are parts of. Schemas that are
//! the same have the same version; another one is taken if the namespace's [`Strategy`] lets it be compared with what is there.
//! A deletion is a version too, behind which the earlier ones cannot be seen; [`forget`] removes everything.
//!
//! ```text
//! registry.rs        offering, finding, deleting                     stored.rs         Pulsar's bytes, and where they are
//! kind.rs            the kinds of schemas                            strategy.rs       what may follow what
//! rules.rs           what holds for a topic: policies over settings
//! validity.rs        whether a schema says something                 compatibility.rs  whether one may follow another
//! avro.rs            Avro: read, and told apart                      resolution.rs     Avro: whether one reads what another wrote
//! decoding.rs        what is in a message, for people
//! key_value.rs       two schemas in one                              protobuf.rs       descriptors
//! ```
//!
//! Everything here reads what strangers wrote: sizes, depths and the work of a comparison have bounds.

mod avro;
mod compatibility;
mod decoding;
mod key_value;
mod kind;
mod protobuf;
mod registry;
mod resolution;
mod rules;
mod stored;
mod strategy;
#[cfg(test)]
mod tests;
mod validity;

use std::collections::BTreeMap;

pub use decoding::decode;
pub use key_value::{join as key_value_from_json, split as key_value_to_json};
pub use kind::SchemaKind;
pub use registry::{ForConsumer, check, delete, find_version, forget, forgetting, get, index, live, offer, offer_for_consumer};
pub use rules::{Defaults, Rules};
pub use stored::{IndexEntry, SchemaIndex};
pub use strategy::{Strategy, UnknownStrategy};
pub use validity::check as check_validity;

use crate::document::Malformed;
use crate::{MetadataError, document};

/// The longest definition of a schema, in bytes.
pub const MAX_SCHEMA: usize = 512 * 1024;
/// Versions that a topic may have, deletions among them.
pub const MAX_VERSIONS: usize = 10_000;

/// What messages look like, as a client or an administrator says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its kind.
    pub kind: SchemaKind,
    /// The definition, as its kind has it; empty for kinds that need none.
    pub data: Vec<u8>,
    /// What else was noted on it.
    pub properties: BTreeMap<String, String>,
}

/// A schema of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its version.
    pub version: i64,
    /// When it was added, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// What it is.
    pub schema: Schema,
}

/// Why a schema was not taken or not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It does not say what its kind asks for.
    #[error("{0}")]
    Invalid(String),
    /// It does not go with what is there.
    #[error("{0}")]
    Incompatible(String),
    /// What is stored cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(SchemaError);
