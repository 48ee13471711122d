//! An entry: what one publish stores. A batch is one entry.

use bytes::Bytes;

use crate::Position;

/// What the broker learnt about an entry when it looked at the message's header once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryMeta {
    /// Messages inside: the size of the batch, or 1.
    pub messages: u32,
    /// The producer's publish time, in milliseconds since the epoch.
    pub publish_time_ms: u64,
    /// Where the message's key falls among the slots that Key_Shared consumers split; that of "no key" if it has none.
    pub key_slot: u16,
    /// Not to be delivered before, in milliseconds since the epoch; 0 if it may be at once.
    pub deliver_at_ms: u64,
    /// Whether it is a part of a larger message.
    pub is_chunk: bool,
}

/// An entry as it is stored and as it is sent: checksum, message metadata and payload, byte for byte.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is.
    pub at: Position,
    /// The producer's bytes, unchanged.
    pub bytes: Bytes,
    /// What was learnt about it.
    pub meta: EntryMeta,
}
