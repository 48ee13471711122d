//! What may be set about a log.

use std::time::Duration;

use super::errors::OpenError;
use super::files::PAGE;
use super::format::{BLOCK_HEADER, RECORD_HEADER};
use super::slow::Slowness;

/// What may be set about a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of a segment file. Large: fewer changes of file, but space comes back in larger pieces and the newest file
    /// takes longer to check after a crash.
    pub segment_bytes: u64,
    /// Spare files kept for writing again, which is cheaper to sync than a fresh file.
    pub recycle: usize,
    /// A full segment with a smaller share of live bytes, in percent, is compacted; 0 never compacts.
    pub compact_below_percent: u8,
    /// Bytes per second that compaction writes at most.
    pub compact_bytes_per_second: u64,
    /// Publishes are refused while less than this is free; what frees space, and cursors, may use it up.
    pub reserve_bytes: u64,
    /// Threads for reads that miss the cache.
    pub read_threads: usize,
    /// Bytes that one sync covers at most, unless a single block is larger: what waits behind them is for the next.
    pub group_bytes: usize,
    /// The largest entry taken.
    pub max_entry_bytes: usize,
    /// The largest block taken.
    pub max_block_bytes: usize,
    /// Memory for the footers of segments that are read from.
    pub index_cache_bytes: usize,
    /// While blocks come fast, a group is not begun sooner than this after the one before, so that one sync covers more; zero never waits.
    pub group_interval: Duration,
    /// Write past the system's cache, where the file system can: far cheaper than through it, above all for files that were not
    /// written before, but what is read back comes from the disk.
    pub direct_io: bool,
    /// Sync before reporting durable. Off only to show what is lost then.
    pub sync: bool,
    /// How much slower than it is the disk shall be. For measurements.
    pub slowness: Slowness,
    /// Open although durable data is damaged: what can be read is kept, what is lost is reported by
    /// [`SharedLog::recovered`](super::SharedLog::recovered).
    pub allow_damage: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            recycle: 2,
            compact_below_percent: 35,
            compact_bytes_per_second: 32 << 20,
            reserve_bytes: 256 << 20,
            read_threads: 2,
            group_bytes: 4 << 20,
            max_entry_bytes: 16 << 20,
            max_block_bytes: 32 << 20,
            index_cache_bytes: 4 << 20,
            group_interval: Duration::ZERO,
            direct_io: true,
            sync: true,
            slowness: Slowness::default(),
            allow_damage: false,
        }
    }
}

impl LogOptions {
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |why: &str| Err(OpenError::Options(why.into()));
        if self.segment_bytes < 8192 || !self.segment_bytes.is_multiple_of(PAGE as u64) {
            return refuse("segment_bytes must be a multiple of 4096 and at least 8 KiB");
        }
        if self.segment_bytes > 2 << 30 || self.max_block_bytes > 1 << 30 {
            return refuse("segment_bytes may be at most 2 GiB and max_block_bytes at most 1 GiB");
        }
        if self.max_entry_bytes + RECORD_HEADER + BLOCK_HEADER > self.max_block_bytes {
            return refuse("max_block_bytes must leave room for an entry of max_entry_bytes");
        }
        if self.read_threads == 0 {
            return refuse("read_threads must be at least 1");
        }
        Ok(())
    }
}
