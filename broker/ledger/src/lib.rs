//! Everything of a topic that survives a restart: entries, ledgers, cursors, the shared log; and the entry cache.
//!
//! The pure half ([`ManagedLedger`], [`Cursor`]) knows neither clock nor disk. The other half is behind
//! [`LedgerStore`], the only door to storage.

mod acked;
mod block;
mod chain;
mod cursor;
mod cursor_state;
mod entry;
mod envelope;
mod ledger_list;
mod managed_ledger;
mod memory;
mod position;
mod proto;
mod store;

pub mod cache;
pub mod log;

pub use block::{Block, BlockBuilder, BlockEntry};
pub use cache::{CacheKey, EntryCache};
pub use chain::Run;
pub use cursor::{BatchAck, Cursor};
pub use cursor_state::{AckSet, CursorState};
pub use entry::{Entry, EntryMeta};
pub use ledger_list::{LedgerList, LedgerSummary};
pub use managed_ledger::{AppendError, LedgerLimits, LedgerState, ManagedLedger, Retention};
pub use memory::{Fault, MemoryStore};
pub use position::{EntryId, LedgerId, Position};
pub use store::{Capabilities, Done, LedgerStore, Purpose, ReadRange, Sealed, StoreError, StoreHealth, StoredEntry};
