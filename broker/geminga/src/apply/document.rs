//! What is wanted, as a file says it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Map, Value};
use wire::{NamespaceName, TopicName};

use crate::remote::{namespace_policies, topic_policies};

/// A file that was read and makes sense.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Document {
    pub(super) tenants: BTreeMap<String, Tenant>,
    /// By `tenant/namespace`; policies by their names in the REST interface, and `permissions`.
    pub(super) namespaces: BTreeMap<String, Map<String, Value>>,
    /// By name in full; policies, `partitions`, `properties` and `permissions`.
    pub(super) topics: BTreeMap<String, Map<String, Value>>,
}

/// What may be said of a tenant.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Tenant {
    pub(super) admin_roles: Vec<String>,
    pub(super) allowed_clusters: Vec<String>,
}

impl Default for Tenant {
    fn default() -> Self {
        Self { admin_roles: Vec::new(), allowed_clusters: vec!["standalone".to_owned()] }
    }
}

/// Beside policies.
const OF_NAMESPACES: &[&str] = &["permissions", "properties"];
const OF_TOPICS: &[&str] = &["partitions", "permissions", "properties"];

impl Document {
    /// Reads YAML (which JSON is, too). The error names everything that is wrong.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let document: Option<Self> = serde_saphyr::from_str(text).context("it is no YAML of tenants, namespaces and topics")?;
        let document = document.unwrap_or_default();
        let wrong = document.wrong();
        if !wrong.is_empty() {
            bail!("{}", wrong.join("\n  "));
        }
        Ok(document)
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, said) in &self.namespaces {
            if let Err(error) = name.parse::<NamespaceName>() {
                wrong.push(format!("namespaces: {error}; write TENANT/NAMESPACE"));
            }
            unknown("namespaces", name, said, &namespace_policies(), OF_NAMESPACES, &mut wrong);
        }
        for (name, said) in &self.topics {
            if let Err(error) = name.parse::<TopicName>() {
                wrong.push(format!("topics: {error}; write persistent://TENANT/NAMESPACE/NAME"));
            }
            unknown("topics", name, said, &topic_policies(), OF_TOPICS, &mut wrong);
            if said.get("partitions").is_some_and(|n| n.as_u64().is_none_or(|n| n > u32::MAX.into())) {
                wrong.push(format!("topics.{name}.partitions: write a number, 0 for none"));
            }
        }
        wrong
    }
}

fn unknown(section: &str, name: &str, said: &Map<String, Value>, policies: &[&str], others: &[&str], wrong: &mut Vec<String>) {
    for key in said.keys().map(String::as_str).filter(|key| !policies.contains(key) && !others.contains(key)) {
        let near = policies.iter().chain(others).min_by_key(|known| strsim::levenshtein(known, key));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        wrong.push(format!("{section}.{name}.{key}: there is no such policy{near}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_wrong_is_told_at_once() {
        let text = "namespaces:\n  acme: {messageTLL: 1}\ntopics:\n  a/b: {partitions: many}\n";
        let error = format!("{:#}", Document::parse(text).unwrap_err());
        for part in ["TENANT/NAMESPACE", "did you mean messageTTL?", "persistent://", "write a number"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn an_empty_file_wants_nothing_and_a_misspelt_section_is_refused() {
        assert!(Document::parse("").unwrap().topics.is_empty());
        assert!(Document::parse("tenant: {}").is_err());
        assert!(Document::parse("[1, 2").is_err());
    }
}
