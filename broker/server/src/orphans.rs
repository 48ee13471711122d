//! Ledgers that nothing refers to: left by a crash between creating and recording one, or between forgetting and deleting one.

use std::collections::HashSet;

use ledger::{Cursor, LedgerId, LedgerStore, ManagedLedger};
use metadata::{MetadataError, MetadataStore, paths};

/// Deletes those of `found` that no topic and no cursor refers to. `found` must have been listed before anything was
/// served: a ledger that is created later may not be recorded yet. A record that cannot be read keeps everything.
pub(crate) fn delete(found: Vec<LedgerId>, store: &dyn LedgerStore, metadata: &dyn MetadataStore) {
    let orphans: Vec<_> = match referred(metadata) {
        Ok(referred) => found.into_iter().filter(|ledger| !referred.contains(ledger)).collect(),
        Err(reason) => return tracing::warn!(reason, "orphaned ledgers are not looked for"),
    };
    if !orphans.is_empty() {
        tracing::info!(count = orphans.len(), "deleting ledgers that nothing refers to");
        store.delete(orphans, Box::new(|_| ()));
    }
}

/// Every ledger that the tree names.
fn referred(metadata: &dyn MetadataStore) -> Result<HashSet<LedgerId>, String> {
    let mut referred = HashSet::new();
    for tenant in children(metadata, paths::MANAGED_LEDGERS)? {
        for namespace in children(metadata, &tenant)? {
            for domain in children(metadata, &namespace)? {
                for topic in children(metadata, &domain)? {
                    of_topic(metadata, &topic, &mut referred)?;
                }
            }
        }
    }
    Ok(referred)
}

fn of_topic(metadata: &dyn MetadataStore, topic: &str, referred: &mut HashSet<LedgerId>) -> Result<(), String> {
    let unreadable = |reason: String| format!("{topic}: {reason}");
    if let Some(stored) = metadata.get(topic).map_err(|e| e.to_string())? {
        let list = ManagedLedger::decode_list(&stored.value).map_err(unreadable)?;
        referred.extend(list.ledgers.iter().map(|ledger| ledger.id));
    }
    for cursor in children(metadata, topic)? {
        if let Some(stored) = metadata.get(&cursor).map_err(|e| e.to_string())? {
            let (state, ledger, _) = Cursor::decode_record(&stored.value).map_err(unreadable)?;
            referred.extend(ledger);
            referred.extend(topic::compacted_ledger(&state.properties));
        }
    }
    Ok(())
}

fn children(metadata: &dyn MetadataStore, path: &str) -> Result<Vec<String>, String> {
    let names = metadata.children(path).map_err(|e: MetadataError| e.to_string())?;
    Ok(names.into_iter().map(|name| format!("{path}/{name}")).collect())
}
