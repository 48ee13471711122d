//! The data directory, the shared log, ledgers and cursors.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use super::amounts::{ByteSize, TimeOrOff, TimeUnit, bytes, mebibytes, minutes, seconds};
use super::forms::{FilePath, Flag, Number, OneOf};
use super::table::settings;

/// The checksum of stored entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// CRC-32C.
    Crc32c,
}

settings! {
    /// The data directory and the log that all topics share.
    pub struct Storage, "Storage" {
        /// Where everything is kept that survives a restart. One broker at a time may use it.
        data_directory: PathBuf = "dataDirectory", FilePath, default PathBuf::from("./data");
        /// Size of one file of the log; the first ones of a new log are smaller, from 16 MiB on. Larger ones are recycled later, smaller ones cost more open files.
        segment_size: ByteSize = "logSegmentSizeMB", mebibytes(8), default ByteSize::mib(128);
        /// Space on the disk that is never used for messages: with less than this free, publishes are refused while consuming and trimming go on.
        reserve: ByteSize = "logReserveMB", mebibytes(1), default ByteSize::mib(512);
        /// Empty files kept for reuse instead of being deleted.
        spare_segments: u32 = "logSpareSegments", Number(0, 1_024), default 2;
        /// Bytes that one write and sync of the log cover at most, when that much waits. More gives throughput on disks with slow syncs, less gives
        /// the first of what waits its receipt sooner.
        max_block: ByteSize = "logMaxBlockBytes", bytes(64 << 10, 1 << 30), default ByteSize::mib(4);
        /// Whether the log is written past the page cache, where the file system can. Without it a message costs several times the processor
        /// time to store; with it, consumers that are behind the entry cache are served from the disk.
        direct_io: bool = "logDirectIo", Flag, default true;
        /// Live share of a file of the log below which it is compacted.
        compact_below: f64 = "logCompactionLiveRatio", Number(0.0, 0.9), default 0.25;
        /// Threads that read what is not in memory.
        read_threads: NonZeroU32 = "logReadThreads", Number(NonZeroU32::MIN, MAX_THREADS), default const { NonZeroU32::new(4).unwrap() };
        /// Threads for slow control work: metadata commits, plugin compilation.
        control_threads: NonZeroU32 = "controlThreads", Number(NonZeroU32::MIN, MAX_THREADS), default const { NonZeroU32::new(2).unwrap() };
        /// The checksum of stored entries.
        digest: Digest = "managedLedgerDigestType", OneOf(&[("CRC32C", Digest::Crc32c)]), default Digest::Crc32c;
    }
}

settings! {
    /// When ledgers are closed, and how often the place of a subscription is written.
    pub struct Ledgers, "Ledgers and cursors" {
        /// Entries of a ledger at most; retention frees whole ledgers.
        max_entries: NonZeroU64 = "managedLedgerMaxEntriesPerLedger", Number(NonZeroU64::MIN, NonZeroU64::MAX),
            default const { NonZeroU64::new(50_000).unwrap() }, dynamic "at once";
        /// A ledger younger than this is not closed for its number of entries or its size.
        min_rollover: Duration = "managedLedgerMinLedgerRolloverTimeMinutes", minutes(0, 525_600), default Duration::from_secs(10 * 60),
            dynamic "at once";
        /// A ledger of this age is closed.
        max_rollover: Duration = "managedLedgerMaxLedgerRolloverTimeMinutes", minutes(1, 525_600), default Duration::from_secs(240 * 60),
            dynamic "at once";
        /// Size of a ledger at most.
        max_size: ByteSize = "managedLedgerMaxSizePerLedgerMbytes", mebibytes(1), default ByteSize::mib(2_048), dynamic "at once";
        /// A ledger that got nothing for this long is closed, so that retention can free it.
        inactive_rollover: Option<Duration> = "managedLedgerInactiveLedgerRolloverTimeSeconds", TimeOrOff(TimeUnit::Seconds), default None;
        /// Times per second that the place of one subscription is written at most; 0 is each time. What is not written is delivered again after a crash.
        mark_delete_rate: f64 = "managedLedgerDefaultMarkDeleteRateLimit", Number(0.0, 1_000_000.0), default 1.0;
        /// How often places that were not written for that reason are written.
        cursor_flush: Duration = "managedLedgerCursorPositionFlushSeconds", seconds(1, 86_400), default Duration::from_secs(60);
        /// Ranges of single acks of a subscription that are kept; acks beyond it are delivered again after a restart.
        max_acked_ranges: NonZeroU32 = "managedLedgerMaxUnackedRangesToPersist", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(200_000).unwrap() }, pulsar "10000 before 5.0";
        /// Batches with single acks of a subscription that are kept.
        max_batch_acks: NonZeroU32 = "managedLedgerMaxBatchDeletedIndexToPersist", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(200_000).unwrap() }, pulsar "10000 before 5.0";
        /// Ranges of single acks up to which a subscription's place moves into the metadata when its topic is unloaded.
        max_ranges_in_metadata: u32 = "managedLedgerMaxUnackedRangesToPersistInMetadataStore", Number(0, u32::MAX), default 200_000, pulsar "1000 before 5.0";
        /// Whether single acks are written as bitmaps instead of ranges.
        acks_as_bitmap: bool = "managedLedgerPersistIndividualAckAsLongArray", Flag, default true;
        /// Entries of a cursor's ledger at most.
        cursor_max_entries: NonZeroU64 = "managedLedgerCursorMaxEntriesPerLedger", Number(NonZeroU64::MIN, NonZeroU64::MAX),
            default const { NonZeroU64::new(50_000).unwrap() };
        /// A cursor's ledger of this age is replaced.
        cursor_rollover: Duration = "managedLedgerCursorRolloverTimeInSeconds", seconds(60, 31_536_000), default Duration::from_secs(14_400);
        /// Ledgers that are deleted at the same time at most.
        max_deletes: NonZeroU32 = "managedLedgerDeleteMaxConcurrentRequests", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(1_000).unwrap() };
        /// A topic with damaged entries skips them instead of stopping there. Loses them for good.
        skip_damaged: bool = "autoSkipNonRecoverableData", Flag, default false;
    }
}

const MAX_THREADS: NonZeroU32 = NonZeroU32::new(256).unwrap();
