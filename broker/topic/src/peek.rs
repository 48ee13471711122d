//! What the broker wants to know about an entry, read from its header without touching the payload.

use ledger::EntryMeta;

/// Looks at an entry once, when it is published or read back. One that nobody can parse counts as one message: it is the
/// consumer's client that refuses it.
pub(crate) fn entry_meta(entry: &[u8]) -> EntryMeta {
    match wire::payload::outline(entry) {
        Ok(outline) => EntryMeta {
            messages: outline.messages,
            publish_time_ms: outline.publish_time,
            deliver_at_ms: outline.deliver_at.and_then(|at| u64::try_from(at).ok()).unwrap_or(0),
            is_chunk: outline.is_chunk,
            key_slot: outline.key.map_or_else(no_key, |key| key.slot()),
        },
        Err(_) => EntryMeta { messages: 1, key_slot: no_key(), ..EntryMeta::default() },
    }
}

/// Whether an entry is a part of a larger message, and not the last one.
pub(crate) fn is_unfinished(entry: &[u8]) -> bool {
    wire::payload::peek(entry).is_ok_and(|peek| peek.chunk.is_some_and(|chunk| !chunk.is_last()))
}

fn no_key() -> u16 {
    wire::hash::key_slot(wire::payload::NO_KEY)
}

/// The index of the last message of a batch; -1 if the entry is no batch.
pub(crate) fn last_batch_index(entry: &[u8]) -> i32 {
    match wire::payload::peek(entry) {
        Ok(peek) if peek.is_batch => i32::try_from(peek.messages.saturating_sub(1)).unwrap_or(i32::MAX),
        _ => -1,
    }
}
