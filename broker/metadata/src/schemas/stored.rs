//! Pulsar's bytes: an index in the topic's node, and a node below it for each version.
//!
//! ```text
//! /schemas/{tenant}/{namespace}/{topic}            the index: version, place and SHA-256 of each
//! /schemas/{tenant}/{namespace}/{topic}/{version}  the schema
//! ```
//! Pulsar keeps the schemas in ledgers, to which the index points; here its places say (-1, -1), and they are in the tree.

use prost::Message;

use super::{Registered, Schema, SchemaKind};

/// The versions of a topic, as Pulsar's `SchemaLocator`.
#[derive(Clone, PartialEq, Message)]
pub struct SchemaIndex {
    /// The latest.
    #[prost(message, required, tag = "1")]
    pub latest: IndexEntry,
    /// All of them, in order.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<IndexEntry>,
}

/// A version of a topic's schema, as Pulsar's `IndexEntry`.
#[derive(Clone, PartialEq, Message)]
pub struct IndexEntry {
    /// Its number.
    #[prost(int64, required, tag = "1")]
    pub version: i64,
    /// Where Pulsar would have it.
    #[prost(message, required, tag = "2")]
    pub(crate) place: Place,
    /// SHA-256 of the definition; empty for a deletion.
    #[prost(bytes = "vec", required, tag = "3")]
    pub hash: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Place {
    #[prost(int64, required, tag = "1")]
    pub(crate) ledger: i64,
    #[prost(int64, required, tag = "2")]
    pub(crate) entry: i64,
}

/// In the tree.
pub(crate) const HERE: Place = Place { ledger: -1, entry: -1 };

/// A version, as Pulsar's `SchemaInfo`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredSchema {
    #[prost(string, required, tag = "1")]
    id: String,
    #[prost(string, required, tag = "2")]
    user: String,
    /// One more than the number in the protocol.
    #[prost(int32, required, tag = "3")]
    kind: i32,
    #[prost(bytes = "vec", required, tag = "4")]
    data: Vec<u8>,
    #[prost(int64, required, tag = "5")]
    timestamp_ms: i64,
    #[prost(bool, required, tag = "6")]
    pub(crate) deleted: bool,
    #[prost(message, repeated, tag = "7")]
    properties: Vec<Property>,
}

#[derive(Clone, PartialEq, Message)]
struct Property {
    #[prost(string, required, tag = "1")]
    key: String,
    #[prost(string, required, tag = "2")]
    value: String,
}

impl StoredSchema {
    pub(crate) fn new(id: &str, schema: &Schema, timestamp_ms: i64) -> StoredSchema {
        let properties = schema.properties.iter().map(|(key, value)| Property { key: key.clone(), value: value.clone() }).collect();
        StoredSchema {
            id: id.to_owned(),
            user: String::new(),
            kind: schema.kind.number() + 1,
            data: schema.data.clone(),
            timestamp_ms,
            deleted: false,
            properties,
        }
    }

    pub(crate) fn deletion(id: &str, timestamp_ms: i64) -> StoredSchema {
        StoredSchema { id: id.to_owned(), kind: 1, timestamp_ms, deleted: true, ..StoredSchema::default() }
    }

    /// None for a kind that this version does not know.
    pub(crate) fn registered(self, version: i64) -> Option<Registered> {
        let kind = SchemaKind::from_number(self.kind - 1)?;
        let properties = self.properties.into_iter().map(|property| (property.key, property.value)).collect();
        Some(Registered { version, timestamp_ms: self.timestamp_ms, schema: Schema { kind, data: self.data, properties } })
    }
}
