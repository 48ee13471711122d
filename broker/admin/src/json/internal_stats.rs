//! What a topic's storage looks like, as `internalStats` tells it.

use std::collections::BTreeMap;

use serde::Serialize;
use server::stats::{SubscriptionStats, TopicStats};

use super::Partitions;

/// Ledgers and cursors of one topic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InternalStats {
    entries_added_counter: u64,
    number_of_entries: u64,
    total_size: u64,
    current_ledger_entries: u64,
    current_ledger_size: u64,
    waiting_cursors_count: usize,
    pending_add_entries_count: u32,
    last_confirmed_entry: String,
    state: &'static str,
    ledgers: Vec<LedgerJson>,
    cursors: BTreeMap<String, CursorJson>,
    schema_ledgers: Vec<LedgerJson>,
    compacted_ledger: LedgerJson,
}

/// Each partition of a partitioned topic.
#[derive(Debug, Serialize)]
pub(crate) struct PartitionedInternalStats {
    pub(crate) metadata: Partitions,
    pub(crate) partitions: BTreeMap<String, InternalStats>,
}

/// What is recorded of a topic's ledgers and cursors, as `internal-info` tells it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagedLedgerJson {
    version: i64,
    creation_date: String,
    modification_date: String,
    ledgers: Vec<LedgerJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated_position: Option<NestedPosition>,
    cursors: BTreeMap<String, RecordedCursor>,
    properties: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NestedPosition {
    ledger_id: i64,
    entry_id: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordedCursor {
    version: i64,
    creation_date: String,
    modification_date: String,
    cursors_ledger_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark_delete: Option<NestedPosition>,
    individual_deleted_messages: Vec<()>,
}

impl NestedPosition {
    fn parse(text: &str) -> Option<Self> {
        let (ledger, entry) = text.split_once(':')?;
        Some(Self { ledger_id: ledger.parse().ok()?, entry_id: entry.parse().ok()? })
    }
}

impl ManagedLedgerJson {
    pub(crate) fn new(stats: TopicStats) -> Self {
        let epoch = || crate::rfc3339::from_ms(0);
        let open = stats.state != "Terminated";
        let last = stats.ledgers.len().saturating_sub(usize::from(open));
        let ledger = |(index, (id, entries, size)): (usize, (i64, u64, u64))| {
            if index < last { LedgerJson::new(id, entries, size) } else { LedgerJson::new(id, 0, 0) }
        };
        let cursor = |cursor: SubscriptionStats| {
            let recorded = RecordedCursor {
                version: 0,
                creation_date: epoch(),
                modification_date: epoch(),
                cursors_ledger_id: -1,
                mark_delete: NestedPosition::parse(&cursor.mark_delete),
                individual_deleted_messages: Vec::new(),
            };
            (cursor.name, recorded)
        };
        Self {
            version: 0,
            creation_date: epoch(),
            modification_date: epoch(),
            terminated_position: (!open).then(|| NestedPosition::parse(&stats.last_confirmed)).flatten(),
            ledgers: stats.ledgers.into_iter().enumerate().map(ledger).collect(),
            cursors: stats.subscriptions.into_iter().filter(|s| s.durable).chain(stats.own_cursors).map(cursor).collect(),
            properties: stats.properties.into_iter().collect(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LedgerJson {
    ledger_id: i64,
    entries: i64,
    size: i64,
    offloaded: bool,
    under_replicated: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CursorJson {
    mark_delete_position: String,
    read_position: String,
    waiting_read_op: bool,
    pending_read_ops: u32,
    messages_consumed_counter: u64,
    cursor_ledger: i64,
    cursor_ledger_last_entry: i64,
    state: &'static str,
    active: bool,
    number_of_entries_since_first_not_acked_message: u64,
    total_non_contiguous_deleted_messages_range: u64,
    subscription_have_pending_read: bool,
    subscription_have_pending_replay_read: bool,
    properties: BTreeMap<String, i64>,
}

impl InternalStats {
    pub(crate) fn new(stats: TopicStats) -> Self {
        let open = stats.ledgers.last().copied().unwrap_or_default();
        let closed = stats.ledgers.len().saturating_sub(1);
        // While a ledger is open its entries stand in the current counters, and the list shows none.
        let ledger = |(index, (id, entries, size)): (usize, (i64, u64, u64))| {
            if index < closed { LedgerJson::new(id, entries, size) } else { LedgerJson::new(id, 0, 0) }
        };
        Self {
            entries_added_counter: stats.entries_in,
            number_of_entries: stats.storage_entries,
            total_size: stats.storage_bytes,
            current_ledger_entries: open.1,
            current_ledger_size: open.2,
            waiting_cursors_count: stats.subscriptions.iter().filter(|s| s.backlog == 0 && !s.consumers.is_empty()).count(),
            pending_add_entries_count: 0,
            last_confirmed_entry: stats.last_confirmed,
            state: if stats.state.is_empty() { "LedgerOpened" } else { stats.state },
            ledgers: stats.ledgers.into_iter().enumerate().map(ledger).collect(),
            cursors: stats.subscriptions.into_iter().chain(stats.own_cursors).map(|s| (s.name.clone(), CursorJson::new(s))).collect(),
            schema_ledgers: Vec::new(),
            compacted_ledger: match stats.compaction.ledger {
                Some((id, entries, size)) => LedgerJson::new(id, entries, size),
                None => LedgerJson { ledger_id: -1, entries: -1, size: -1, offloaded: false, under_replicated: false },
            },
        }
    }
}

impl LedgerJson {
    fn new(ledger_id: i64, entries: u64, size: u64) -> Self {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self { ledger_id, entries: signed(entries), size: signed(size), offloaded: false, under_replicated: false }
    }
}

impl CursorJson {
    fn new(stats: SubscriptionStats) -> Self {
        Self {
            mark_delete_position: stats.mark_delete,
            read_position: stats.read_position,
            waiting_read_op: stats.backlog == 0 && !stats.consumers.is_empty(),
            pending_read_ops: 0,
            messages_consumed_counter: stats.messages_out,
            cursor_ledger: -1,
            cursor_ledger_last_entry: -1,
            state: if stats.durable { "Open" } else { "NoLedger" },
            active: !stats.consumers.is_empty(),
            number_of_entries_since_first_not_acked_message: stats.backlog,
            total_non_contiguous_deleted_messages_range: stats.acked_ranges,
            subscription_have_pending_read: false,
            subscription_have_pending_replay_read: false,
            properties: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_ledger_shows_its_entries_as_the_current_ones() {
        let stats = TopicStats {
            storage_entries: 7,
            storage_bytes: 70,
            last_confirmed: "4:1".into(),
            ledgers: vec![(3, 5, 50), (4, 2, 20)],
            ..TopicStats::default()
        };
        let json = serde_json::to_value(InternalStats::new(stats)).unwrap();
        assert_eq!(json["currentLedgerEntries"], 2);
        assert_eq!(json["currentLedgerSize"], 20);
        assert_eq!(json["lastConfirmedEntry"], "4:1");
        assert_eq!(json["ledgers"][0]["entries"], 5);
        assert_eq!(json["ledgers"][1]["ledgerId"], 4);
        assert_eq!(json["ledgers"][1]["entries"], 0);
        assert_eq!(json["compactedLedger"]["ledgerId"], -1);
    }
}
