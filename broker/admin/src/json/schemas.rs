//! Schemas.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A version of a topic's schema.
#[derive(Debug, Serialize)]
pub(crate) struct SchemaJson {
    pub(crate) version: i64,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) timestamp: i64,
    pub(crate) data: String,
    pub(crate) properties: BTreeMap<String, String>,
}

/// All versions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AllSchemas {
    pub(crate) get_schema_responses: Vec<SchemaJson>,
}

/// A schema as it is sent.
#[derive(Debug, Deserialize)]
pub(crate) struct PostedSchema {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) schema: Option<String>,
    #[serde(default)]
    pub(crate) properties: Option<BTreeMap<String, String>>,
}

/// The number of a version; where a schema was added, within another of its kind.
#[derive(Debug, Serialize)]
pub(crate) struct SchemaVersion<T> {
    pub(crate) version: T,
}

/// Whether a schema might be added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compatibility {
    pub(crate) compatibility: bool,
    pub(crate) schema_compatibility_strategy: &'static str,
}

/// What is kept beside the schemas of a topic.
#[derive(Debug, Serialize)]
pub(crate) struct SchemaIndexJson {
    pub(crate) info: StoredVersion,
    pub(crate) index: Vec<StoredVersion>,
}

/// A version, without the schema.
#[derive(Debug, Serialize)]
pub(crate) struct StoredVersion {
    pub(crate) version: i64,
    pub(crate) position: SchemaPlace,
    pub(crate) hash: String,
}

/// Where Pulsar would have it; here it is in the metadata, which -1 stands for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SchemaPlace {
    pub(crate) ledger_id: i64,
    pub(crate) entry_id: i64,
}
