//! Everything of a topic that survives a restart: entries, ledgers, cursors, the shared log; and the entry cache.
//!
//! The pure half ([`ManagedLedger`], [`Cursor`]) knows neither clock nor disk. The other half is behind
//! [`LedgerStore`], the only door to storage.

mod block;
mod cursor;
mod entry;
mod managed_ledger;
mod memory;
mod position;
mod store;

pub mod cache;
pub mod log;

pub use block::{Block, BlockBuilder, BlockEntry};
pub use cache::{CacheKey, EntryCache};
pub use cursor::{AckSet, BatchAck, Cursor, CursorState};
pub use entry::{Entry, EntryMeta};
pub use managed_ledger::{AppendError, LedgerLimits, LedgerList, LedgerState, LedgerSummary, ManagedLedger, Retention};
pub use memory::{Fault, MemoryStore};
pub use position::{EntryId, LedgerId, Position};
pub use store::{Capabilities, Done, LedgerStore, Purpose, ReadRange, Sealed, StoreError, StoreHealth, StoredEntry};
