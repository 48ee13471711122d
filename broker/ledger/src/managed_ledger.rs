//! A topic's chain of ledgers: append, roll over, trim. Pure: it assigns positions and counts; others write.

use crate::{EntryId, LedgerId, Position, Sealed};

/// When a ledger is full.
#[derive(Clone, Copy, Debug)]
pub struct LedgerLimits {
    /// Entries a ledger holds at most.
    pub max_entries: u64,
    /// Bytes a ledger holds at most.
    pub max_bytes: u64,
    /// No rollover before this age, in milliseconds.
    pub min_age_ms: u64,
    /// Rollover at this age, in milliseconds.
    pub max_age_ms: u64,
}

/// How long consumed data is kept; -1 is for ever, 0 and 0 is not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// In milliseconds.
    pub time_ms: i64,
    /// In bytes.
    pub size_bytes: i64,
}

/// One ledger of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSummary {
    /// Its id.
    pub id: LedgerId,
    /// Confirmed entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was closed, in milliseconds since the epoch; 0 while open.
    pub closed_at_ms: u64,
}

/// What the metadata store keeps of a managed ledger: Pulsar's `ManagedLedgerInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerList {
    /// Oldest first.
    pub ledgers: Vec<LedgerSummary>,
    /// Where the topic was terminated, if it was.
    pub terminated: Option<Position>,
    /// The topic's properties.
    pub properties: Vec<(String, String)>,
}

/// Why a position was not assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A rollover is under way: queue the publish and try again when it is done.
    #[error("a rollover is under way")]
    RollingOver,
    /// The topic was terminated: no publish will ever be taken.
    #[error("the topic is terminated")]
    Terminated,
    /// Another owner has the topic, or an append failed: let go of it.
    #[error("the topic is fenced")]
    Fenced,
}

/// What the chain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerState {
    /// Taking appends.
    Open,
    /// The current ledger is full; the next one is being created and recorded.
    RollingOver,
    /// No more appends, ever.
    Terminated,
    /// Not ours any more.
    Fenced,
}

/// The chain. Positions are assigned by [`append`](Self::append) and become readable by [`confirm`](Self::confirm).
#[derive(Debug)]
pub struct ManagedLedger {}

#[allow(missing_docs, unused_variables, clippy::todo, reason = "contract first, bodies next")]
impl ManagedLedger {
    /// A chain read from the metadata store: `sealed` is the true end of its last ledger (none for a new topic),
    /// `fresh` the new ledger that takes appends from now on (unless terminated).
    /// Ledgers without entries are left out of the list; [`take_dropped`](Self::take_dropped) names them.
    pub fn recover(stored: LedgerList, sealed: Option<Sealed>, fresh: LedgerId, limits: LedgerLimits, now_ms: u64) -> ManagedLedger {
        todo!()
    }
    /// The list to be recorded now.
    pub fn list(&self) -> LedgerList {
        todo!()
    }
    pub fn state(&self) -> LedgerState {
        todo!()
    }
    /// The ledger that takes appends.
    pub fn current(&self) -> LedgerId {
        todo!()
    }
    /// Ledgers that left the list and may be deleted once the list is recorded.
    pub fn take_dropped(&mut self) -> Vec<LedgerId> {
        todo!()
    }

    /// Assigns the next position to an entry of `bytes`.
    pub fn append(&mut self, bytes: usize) -> Result<Position, AppendError> {
        todo!()
    }
    /// Everything up to `upto` is durable: counts move, `upto` becomes the last confirmed entry.
    pub fn confirm(&mut self, upto: Position) {
        todo!()
    }
    /// Positions assigned and not confirmed.
    pub fn unconfirmed(&self) -> u64 {
        todo!()
    }

    /// Whether the current ledger has reached a limit; also what a timer asks for the age limit.
    pub fn is_full(&self, now_ms: u64) -> bool {
        todo!()
    }
    /// Stops appends; they fail with `RollingOver` until [`rolled`](Self::rolled).
    pub fn begin_rollover(&mut self) {
        todo!()
    }
    /// The next ledger exists and every append to the current one is confirmed: closes the current one and puts the
    /// next in the list (to be recorded). State stays `RollingOver`. An empty current ledger is dropped.
    pub fn next_ledger(&mut self, next: LedgerId, now_ms: u64) {
        todo!()
    }
    /// The list with the next ledger is recorded: appends go on, there.
    pub fn rolled(&mut self) {
        todo!()
    }
    /// Ends the topic; returns the last position.
    pub fn terminate(&mut self, now_ms: u64) -> Position {
        todo!()
    }
    /// Not ours any more.
    pub fn fence(&mut self) {
        todo!()
    }

    /// The newest durable position; (ledger, -1) when the current ledger is the first and empty.
    pub fn last_confirmed(&self) -> Position {
        todo!()
    }
    /// The first entry there is, or where the next one will be when there is none.
    pub fn first(&self) -> Position {
        todo!()
    }
    /// The mark-delete position of a cursor that has consumed nothing: just before [`first`](Self::first).
    pub fn before_first(&self) -> Position {
        todo!()
    }
    /// The next existing entry after `at` (which need not exist), or where it will be: may be one past the end.
    pub fn next(&self, at: Position) -> Position {
        todo!()
    }
    /// The entry before `at`, or (ledger, -1) at the front.
    pub fn previous(&self, at: Position) -> Position {
        todo!()
    }
    /// `at` if it exists, else the next existing entry after it, or one past the end.
    pub fn at_or_next(&self, at: Position) -> Position {
        todo!()
    }
    /// Whether `at` is a durable entry of a ledger in the list.
    pub fn contains(&self, at: Position) -> bool {
        todo!()
    }
    /// Entries in (after, upto]. O(log ledgers).
    pub fn count(&self, after: Position, upto: Position) -> u64 {
        todo!()
    }
    /// The entry `n` entries after `after` (n >= 1), clamped to the last confirmed entry.
    pub fn skip(&self, after: Position, n: u64) -> Position {
        todo!()
    }
    /// Last durable entry of `ledger`, for bounding reads; `EntryId::NONE` if none or unknown.
    pub fn last_of(&self, ledger: LedgerId) -> EntryId {
        todo!()
    }
    /// All confirmed entries and bytes.
    pub fn totals(&self) -> (u64, u64) {
        todo!()
    }
    /// The ledgers, oldest first, for statistics.
    pub fn ledgers(&self) -> Vec<LedgerSummary> {
        todo!()
    }

    /// Removes ledgers that every durable cursor has passed and retention lets go, oldest first; they come out of
    /// [`take_dropped`](Self::take_dropped). `slowest` is the lowest durable mark-delete position, none without durable
    /// cursors. The current ledger is never removed. Returns whether the list changed.
    pub fn trim(&mut self, slowest: Option<Position>, retention: Retention, now_ms: u64) -> bool {
        todo!()
    }

    /// `ManagedLedgerInfo` bytes.
    pub fn encode_list(list: &LedgerList) -> Vec<u8> {
        todo!()
    }
    /// From `ManagedLedgerInfo` bytes; empty bytes are an empty list.
    pub fn decode_list(bytes: &[u8]) -> Result<LedgerList, String> {
        todo!()
    }
}
