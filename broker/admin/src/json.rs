//! Our JSON, spelt here and nowhere else: compact, absent values left out, counters as whole numbers, rates as doubles.

mod internal_stats;
mod schemas;
mod topic_stats;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use internal_stats::{InternalStats, ManagedLedgerJson, PartitionedInternalStats};
pub(crate) use schemas::{AllSchemas, Compatibility, PostedSchema, SchemaIndexJson, SchemaJson, SchemaPlace, SchemaVersion, StoredVersion};
pub(crate) use topic_stats::{PartitionedStats, Shown, TopicStatsJson, age_seconds, now_ms};

/// The body of every error.
#[derive(Debug, Serialize)]
pub(crate) struct Reason<'a> {
    pub(crate) reason: &'a str,
}

/// What a lookup answers. Some clients crash when one of the first four keys is absent, so that they are always there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lookup<'a> {
    pub(crate) broker_url: &'a str,
    pub(crate) broker_url_tls: &'a str,
    pub(crate) http_url: &'a str,
    pub(crate) http_url_tls: &'a str,
    pub(crate) native_url: &'a str,
}

/// A topic's partitions, as it is created and as it is asked for.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Partitions {
    pub(crate) partitions: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) properties: Option<BTreeMap<String, String>>,
}

/// The place of a message.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIdJson {
    pub(crate) ledger_id: i64,
    pub(crate) entry_id: i64,
    pub(crate) partition_index: i32,
}

/// The place of a message, as requests give it; there are two spellings of whether it is itself meant.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResetCursor {
    ledger_id: Option<i64>,
    entry_id: Option<i64>,
    is_excluded: Option<bool>,
    excluded: Option<bool>,
    pub(crate) properties: Option<BTreeMap<String, String>>,
}

impl ResetCursor {
    pub(crate) fn position(&self) -> Option<server::Position> {
        Some(server::position(self.ledger_id?, self.entry_id.unwrap_or(-1)))
    }

    pub(crate) fn is_excluded(&self) -> bool {
        self.is_excluded.or(self.excluded).unwrap_or(false)
    }
}

/// How far work on a topic is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompactionProgress<'a> {
    status: &'static str,
    last_error: &'a str,
}

impl<'a> CompactionProgress<'a> {
    pub(crate) fn new(status: &'a server::CompactionStatus) -> Self {
        use server::CompactionStatus::{Failed, NotRun, Running, Success};
        let (status, last_error) = match status {
            NotRun => ("NOT_RUN", ""),
            Running => ("RUNNING", ""),
            Success => ("SUCCESS", ""),
            Failed(reason) => ("ERROR", reason.as_str()),
        };
        Self { status, last_error }
    }
}

/// What lies in a backlog.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BacklogScanJson {
    entries: u64,
    messages: u64,
    filter_rejected_entries: u64,
    filter_accepted_entries: u64,
    filter_rescheduled_entries: u64,
    filter_rejected_messages: u64,
    filter_accepted_messages: u64,
    filter_rescheduled_messages: u64,
    aborted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_message_id: Option<String>,
}

impl BacklogScanJson {
    pub(crate) fn new(scan: &server::BacklogScan) -> Self {
        Self {
            entries: scan.entries,
            messages: scan.messages,
            filter_rejected_entries: 0,
            filter_accepted_entries: scan.entries,
            filter_rescheduled_entries: 0,
            filter_rejected_messages: 0,
            filter_accepted_messages: scan.messages,
            filter_rescheduled_messages: 0,
            aborted: scan.aborted,
            first_message_id: scan.first.map(|at| at.to_string()),
            last_message_id: scan.last.map(|at| at.to_string()),
        }
    }
}

/// The broker that leads the cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaderBroker<'a> {
    pub(crate) broker_id: &'a str,
    pub(crate) service_url: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelt(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn a_lookup_without_tls_has_all_its_keys() {
        let lookup = Lookup {
            broker_url: "pulsar://h:6650",
            broker_url_tls: "",
            http_url: "http://h:8080",
            http_url_tls: "",
            native_url: "pulsar://h:6650",
        };
        assert_eq!(
            spelt(&lookup),
            r#"{"brokerUrl":"pulsar://h:6650","brokerUrlTls":"","httpUrl":"http://h:8080","httpUrlTls":"","nativeUrl":"pulsar://h:6650"}"#
        );
    }

    #[test]
    fn partitions_without_properties_are_one_key() {
        assert_eq!(spelt(&Partitions { partitions: 3, properties: None }), r#"{"partitions":3}"#);
    }

    #[test]
    fn small_answers_are_spelt_as_pulsar_spells_them() {
        assert_eq!(spelt(&Reason { reason: "a \"b\"" }), r#"{"reason":"a \"b\""}"#);
        assert_eq!(
            spelt(&MessageIdJson { ledger_id: 1, entry_id: 2, partition_index: -1 }),
            r#"{"ledgerId":1,"entryId":2,"partitionIndex":-1}"#
        );
        assert_eq!(
            spelt(&LeaderBroker { broker_id: "h:8080", service_url: "http://h:8080" }),
            r#"{"brokerId":"h:8080","serviceUrl":"http://h:8080"}"#
        );
    }
}
