//! What the log counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counted by the log's threads, read by anyone.
#[derive(Default)]
pub(crate) struct Counters {
    syncs: AtomicU64,
    sync_nanos: AtomicU64,
    longest_sync_nanos: AtomicU64,
    blocks: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) read_entries: AtomicU64,
    pub(crate) damaged_reads: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) segments_freed: AtomicU64,
}

/// A copy of the log's counters. Counts grow from the opening of the log; the others are of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Groups made durable.
    pub syncs: u64,
    /// Time spent writing and syncing them.
    pub sync_time: Duration,
    /// The longest of them.
    pub longest_sync: Duration,
    /// Blocks written.
    pub blocks: u64,
    /// Entries written, moved ones included.
    pub entries: u64,
    /// Bytes written, framing included.
    pub bytes: u64,
    /// Reads from disk.
    pub reads: u64,
    /// Entries they returned.
    pub read_entries: u64,
    /// Reads that met a failing checksum.
    pub damaged_reads: u64,
    /// Bytes written again by compaction.
    pub moved_bytes: u64,
    /// Segments given back.
    pub segments_freed: u64,
    /// Segments now.
    pub segments: u64,
    /// Bytes of their files now.
    pub segment_bytes: u64,
    /// Bytes in them that are needed now.
    pub live_bytes: u64,
    /// Bytes waiting for the writer now.
    pub queued_bytes: u64,
    /// Reads waiting for a thread now.
    pub queued_reads: u64,
}

impl Counters {
    pub(crate) fn synced(&self, took: Duration, blocks: usize, entries: u64, bytes: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Relaxed);
        self.sync_nanos.fetch_add(nanos, Relaxed);
        self.longest_sync_nanos.fetch_max(nanos, Relaxed);
        self.blocks.fetch_add(blocks as u64, Relaxed);
        self.entries.fetch_add(entries, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn copy(&self) -> LogCounters {
        LogCounters {
            syncs: self.syncs.load(Relaxed),
            sync_time: Duration::from_nanos(self.sync_nanos.load(Relaxed)),
            longest_sync: Duration::from_nanos(self.longest_sync_nanos.load(Relaxed)),
            blocks: self.blocks.load(Relaxed),
            entries: self.entries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            reads: self.reads.load(Relaxed),
            read_entries: self.read_entries.load(Relaxed),
            damaged_reads: self.damaged_reads.load(Relaxed),
            moved_bytes: self.moved_bytes.load(Relaxed),
            segments_freed: self.segments_freed.load(Relaxed),
            ..LogCounters::default()
        }
    }
}
