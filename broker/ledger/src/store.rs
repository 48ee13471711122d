//! The only door to storage: ledgers are created, appended to by one writer, sealed, read and deleted.

use bytes::Bytes;

use crate::{Block, EntryId, LedgerId};

/// Called exactly once with the outcome, on a thread of the store's; must not block.
pub type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// What a ledger is for; it decides which of its entries are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Messages: every entry is live until the ledger is deleted.
    Data,
    /// A cursor's progress: only the last entry is live.
    Cursor,
}

/// The true end of a ledger that takes no more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The last entry, or [`EntryId::NONE`].
    pub last: EntryId,
    /// Bytes of all its entries.
    pub bytes: u64,
}

/// A run of entries of one ledger to read, from the front, stopping at whichever limit comes first.
/// The first entry is always returned, whatever its size.
#[derive(Clone, Copy, Debug)]
pub struct ReadRange {
    /// The ledger.
    pub ledger: LedgerId,
    /// The first entry wanted.
    pub from: EntryId,
    /// The last entry wanted, included. Entries that were never made durable are not returned.
    pub last: EntryId,
    /// At most this many entries.
    pub max_entries: usize,
    /// At most this many bytes.
    pub max_bytes: usize,
}

/// An entry as read back: its bytes passed their checksum.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// Its number in the ledger.
    pub id: EntryId,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Why the store did not do what it was asked; says what may be done about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else opened the ledger, or it is sealed: never acknowledge, let go of the topic.
    #[error("ledger {0} is fenced or sealed")]
    Fenced(LedgerId),
    /// The outcome of an append is not known: never acknowledge, never append again as the same owner.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// The ledger does not exist (any more).
    #[error("ledger {0} does not exist")]
    NoSuchLedger(LedgerId),
    /// Stored bytes failed their checksum; they are never served.
    #[error("ledger {ledger} entry {entry} is damaged: {reason}", entry = entry.0)]
    Damaged {
        /// The ledger.
        ledger: LedgerId,
        /// The entry.
        entry: EntryId,
        /// What was found.
        reason: String,
    },
    /// The disk is nearly full: publishes are refused, reading and trimming go on. Nothing was written.
    #[error("the disk is nearly full: {0}")]
    DiskNearlyFull(String),
    /// The store takes no more work: it was closed, or an earlier sync failed.
    #[error("the store takes no more work: {0}")]
    Closed(String),
    /// The operating system refused.
    #[error("storage i/o: {0}")]
    Io(String),
}

/// Whether the store takes publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// All is well.
    Ready,
    /// Publishes are refused until space is freed; reading and trimming go on.
    DiskNearlyFull(String),
    /// A sync failed: no further append can succeed in this process.
    Poisoned(String),
}

/// What an engine can do.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The largest entry it takes, in bytes.
    pub max_entry_bytes: usize,
    /// The largest block it takes, in bytes, framing included.
    pub max_block_bytes: usize,
}

/// A store of ledgers. Calls return at once; outcomes come through [`Done`].
///
/// Appends of one ledger are handed over in entry order by one owner at a time; an outcome of `Ok` means durable,
/// and outcomes come in the order of the calls. A block may hold entries of many ledgers and stands or falls as a whole.
pub trait LedgerStore: Send + Sync + 'static {
    /// Creates an empty ledger whose id was never used before; durable when done.
    fn create(&self, purpose: Purpose, done: Done<LedgerId>);
    /// Appends a block.
    fn append(&self, block: Block, done: Done<()>);
    /// Ends a ledger by its owner after its last append was done.
    fn seal(&self, ledger: LedgerId, done: Done<Sealed>);
    /// Ends a ledger against whoever may still write to it, and tells its true end. Idempotent.
    fn open_fenced(&self, ledger: LedgerId, done: Done<Sealed>);
    /// Reads durable entries.
    fn read(&self, range: ReadRange, done: Done<Vec<StoredEntry>>);
    /// Deletes ledgers; one that does not exist is no error.
    fn delete(&self, ledgers: Vec<LedgerId>, done: Done<()>);
    /// All ledgers, for finding orphans.
    fn list(&self, done: Done<Vec<LedgerId>>);
    /// Whether publishes are taken.
    fn health(&self) -> StoreHealth;
    /// Limits of the engine.
    fn capabilities(&self) -> Capabilities;
    /// What the shared log has counted; none for an engine that is none.
    fn counters(&self) -> Option<crate::log::LogCounters> {
        None
    }
}
