//! What a topic's storage looks like, as `internalStats` tells it.

use std::collections::BTreeMap;

use serde::Serialize;
use server::stats::{SubscriptionStats, TopicStats};

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
            cursors: stats
                .subscriptions
                .into_iter()
                .chain(stats.own_cursors)
                .map(|s| (s.name.clone(), CursorJson::new(s)))
                .collect(),
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
