//! A topic's chain of ledgers: append, roll over, trim. Pure: it assigns positions and counts; others write.

use std::collections::VecDeque;

use crate::chain::{Chain, Run};
use crate::{EntryId, LedgerId, LedgerList, LedgerSummary, Position, Sealed};

/// When a ledger is full.
#[derive(Clone, Copy, Debug)]
pub struct LedgerLimits {
    /// Entries a ledger holds at most.
    pub max_entries: u64,
    /// Bytes a ledger holds at most.
    pub max_bytes: u64,
    /// No rollover before this age, in milliseconds; 0 for none.
    pub min_age_ms: u64,
    /// Rollover at this age, in milliseconds; 0 for never.
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
pub struct ManagedLedger {
    chain: Chain,
    state: LedgerState,
    limits: LedgerLimits,
    /// When the current ledger was opened.
    opened_at_ms: u64,
    /// Entries assigned in the current ledger.
    assigned: u64,
    /// Bytes assigned in the current ledger.
    assigned_bytes: u64,
    /// For each unconfirmed entry, `assigned_bytes` with it; so that a confirm of many costs as much as of one.
    sums: VecDeque<u64>,
    terminated: Option<Position>,
    properties: Vec<(String, String)>,
    dropped: Vec<LedgerId>,
}

impl ManagedLedger {
    /// A chain read from the metadata store: `sealed` is the true end of its last ledger (none for a new topic, or when
    /// the store no longer has that ledger, which then leaves the list), `fresh` the new ledger that takes appends from
    /// now on. A terminated topic takes no appends: `fresh` is then among the dropped.
    /// Ledgers without entries are left out of the list; [`take_dropped`](Self::take_dropped) names them.
    pub fn recover(stored: LedgerList, sealed: Option<Sealed>, fresh: LedgerId, limits: LedgerLimits, now_ms: u64) -> ManagedLedger {
        let LedgerList { mut ledgers, terminated, properties } = stored;
        let last = ledgers.pop();
        ledgers.extend(last.zip(sealed).map(|(last, sealed)| sealed_as(last, sealed)));
        let mut dropped = Vec::new();
        ledgers.retain_mut(|ledger| {
            if ledger.closed_at_ms == 0 {
                ledger.closed_at_ms = now_ms;
            }
            if ledger.entries == 0 {
                dropped.push(ledger.id);
            }
            ledger.entries > 0
        });
        if let Some(end) = terminated {
            if fresh.0 >= 0 {
                dropped.push(fresh);
            }
            if ledgers.is_empty() {
                // A chain has a last ledger; this one stays listed, empty, for its id.
                dropped.retain(|&id| id != end.ledger);
                ledgers.push(LedgerSummary { id: end.ledger, entries: 0, bytes: 0, closed_at_ms: now_ms });
            }
        } else {
            ledgers.push(LedgerSummary { id: fresh, entries: 0, bytes: 0, closed_at_ms: 0 });
        }
        let mut ledgers = ledgers.into_iter();
        let first = ledgers.next().expect("a ledger was pushed if there was none");
        let mut chain = Chain::new(first);
        ledgers.for_each(|ledger| chain.push(ledger));
        ManagedLedger {
            chain,
            state: if terminated.is_some() { LedgerState::Terminated } else { LedgerState::Open },
            limits,
            opened_at_ms: now_ms,
            assigned: 0,
            assigned_bytes: 0,
            sums: VecDeque::new(),
            terminated,
            properties,
            dropped,
        }
    }

    /// The list to be recorded now. As in Pulsar, the open ledger is listed with nothing in it: its true end is
    /// found when it is opened the next time.
    pub fn list(&self) -> LedgerList {
        let counted = |ledger: LedgerSummary| match ledger.closed_at_ms {
            0 => LedgerSummary { entries: 0, bytes: 0, ..ledger },
            _ => ledger,
        };
        LedgerList {
            ledgers: self.chain.summaries().map(counted).collect(),
            terminated: self.terminated,
            properties: self.properties.clone(),
        }
    }

    /// What the chain is doing.
    pub fn state(&self) -> LedgerState {
        self.state
    }

    /// The ledger that takes appends; the last one if none does.
    pub fn current(&self) -> LedgerId {
        self.chain.last_ledger()
    }

    /// The value of one of the topic's properties.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Sets one of the topic's properties, to be recorded with the list.
    pub fn set_property(&mut self, key: &str, value: String) {
        match self.properties.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value,
            None => self.properties.push((key.to_owned(), value)),
        }
    }

    /// All properties of the topic.
    pub fn properties(&self) -> &[(String, String)] {
        &self.properties
    }

    /// Takes one of the topic's properties away; false if there is none of that name.
    pub fn remove_property(&mut self, key: &str) -> bool {
        let before = self.properties.len();
        self.properties.retain(|(known, _)| known != key);
        self.properties.len() < before
    }

    /// Where a terminated topic ends.
    pub fn terminated(&self) -> Option<Position> {
        self.terminated
    }

    /// Ledgers that left the list and may be deleted once the list is recorded.
    pub fn take_dropped(&mut self) -> Vec<LedgerId> {
        std::mem::take(&mut self.dropped)
    }

    /// From now on these limits hold, for the current ledger too.
    pub fn set_limits(&mut self, limits: LedgerLimits) {
        self.limits = limits;
    }

    /// Assigns the next position to an entry of `bytes`.
    #[inline]
    pub fn append(&mut self, bytes: usize) -> Result<Position, AppendError> {
        match self.state {
            LedgerState::Open => {}
            LedgerState::RollingOver => return Err(AppendError::RollingOver),
            LedgerState::Terminated => return Err(AppendError::Terminated),
            LedgerState::Fenced => return Err(AppendError::Fenced),
        }
        let at = Position { ledger: self.chain.last_ledger(), entry: EntryId(self.assigned as i64) };
        self.assigned += 1;
        self.assigned_bytes += bytes as u64;
        self.sums.push_back(self.assigned_bytes);
        Ok(at)
    }

    /// Everything up to `upto` is durable: counts move, `upto` becomes the last confirmed entry.
    /// Nothing happens for a position that is confirmed already or was never assigned in the current ledger.
    #[inline]
    pub fn confirm(&mut self, upto: Position) {
        let confirmed = self.chain.last_entries();
        let entries = u64::try_from(upto.entry.0.saturating_add(1)).unwrap_or(0);
        if upto.ledger != self.chain.last_ledger() || entries <= confirmed || entries > self.assigned {
            return;
        }
        let newly = (entries - confirmed) as usize;
        if let Some(&bytes) = self.sums.get(newly - 1) {
            self.chain.grow(entries, bytes);
            self.sums.drain(..newly);
        }
    }

    /// Positions assigned and not confirmed.
    #[inline]
    pub fn unconfirmed(&self) -> u64 {
        self.sums.len() as u64
    }

    /// Nothing was written of the unconfirmed appends from `from` on: their positions will be assigned again.
    pub fn retract(&mut self, from: Position) {
        let confirmed = self.chain.last_entries();
        let Ok(from_entry) = u64::try_from(from.entry.0) else { return };
        if from.ledger != self.chain.last_ledger() || from_entry < confirmed || from_entry >= self.assigned {
            return;
        }
        self.sums.truncate((from_entry - confirmed) as usize);
        self.assigned = from_entry;
        self.assigned_bytes = self.sums.back().copied().unwrap_or_else(|| self.confirmed_bytes());
    }

    /// Whether the current ledger has reached a limit; also what a timer asks for the age limit.
    /// Unconfirmed entries count: the append that fills a ledger is its last.
    #[inline]
    pub fn is_full(&self, now_ms: u64) -> bool {
        if self.assigned == 0 || self.state != LedgerState::Open {
            return false;
        }
        let LedgerLimits { max_entries, max_bytes, min_age_ms, max_age_ms } = self.limits;
        let age = now_ms.saturating_sub(self.opened_at_ms);
        let reached = self.assigned >= max_entries || self.assigned_bytes >= max_bytes || (max_age_ms > 0 && age >= max_age_ms);
        reached && (min_age_ms == 0 || age > min_age_ms)
    }

    /// Stops appends; they fail with `RollingOver` until [`rolled`](Self::rolled).
    pub fn begin_rollover(&mut self) {
        if self.state == LedgerState::Open {
            self.state = LedgerState::RollingOver;
        }
    }

    /// The next ledger could not be created: appends go on in the current one.
    pub fn cancel_rollover(&mut self) {
        if self.state == LedgerState::RollingOver {
            self.state = LedgerState::Open;
        }
    }

    /// The next ledger exists and every append to the current one is confirmed: closes the current one and puts the
    /// next in the list (to be recorded). State stays `RollingOver`. An empty current ledger is dropped.
    pub fn next_ledger(&mut self, next: LedgerId, now_ms: u64) {
        debug_assert!(self.sums.is_empty(), "a ledger is closed after its last append is confirmed");
        if self.state != LedgerState::RollingOver {
            // Terminated or fenced meanwhile: the new ledger is of no use.
            self.dropped.push(next);
            return;
        }
        self.dropped.extend(self.chain.roll(next, now_ms));
        self.opened_at_ms = now_ms;
        self.forget_unconfirmed();
    }

    /// The list with the next ledger is recorded: appends go on, there.
    pub fn rolled(&mut self) {
        self.cancel_rollover();
    }

    /// Ends the topic; returns the last position. Appends that are not confirmed will never be.
    pub fn terminate(&mut self, now_ms: u64) -> Position {
        if let Some(end) = self.terminated {
            return end;
        }
        let end = self.chain.newest();
        if self.state != LedgerState::Fenced {
            self.forget_unconfirmed();
            self.dropped.extend(self.chain.close(now_ms));
            self.terminated = Some(end);
            self.state = LedgerState::Terminated;
        }
        end
    }

    /// Not ours any more.
    pub fn fence(&mut self) {
        self.state = LedgerState::Fenced;
    }

    /// The newest durable position; (ledger, -1) when there is none.
    #[inline]
    pub fn last_confirmed(&self) -> Position {
        self.chain.newest()
    }

    /// The first entry there is, or where the next one will be when there is none.
    pub fn first(&self) -> Position {
        self.before_first().following()
    }

    /// The mark-delete position of a cursor that has consumed nothing: just before [`first`](Self::first).
    pub fn before_first(&self) -> Position {
        self.chain.before_first()
    }

    /// The next existing entry after `at` (which need not exist), or where it will be: may be one past the end.
    #[inline]
    pub fn next(&self, at: Position) -> Position {
        self.chain.next(at)
    }

    /// The entry before `at`, or (ledger, -1) at the front.
    pub fn previous(&self, at: Position) -> Position {
        self.chain.previous(at)
    }

    /// `at` if it exists, else the next existing entry after it, or one past the end.
    #[inline]
    pub fn at_or_next(&self, at: Position) -> Position {
        if self.chain.contains(at) { at } else { self.chain.next(at) }
    }

    /// `at` if it exists, else the entry before it, or [`before_first`](Self::before_first).
    pub fn at_or_previous(&self, at: Position) -> Position {
        self.chain.floor(at)
    }

    /// Whether `at` is a durable entry of a ledger in the list.
    #[inline]
    pub fn contains(&self, at: Position) -> bool {
        self.chain.contains(at)
    }

    /// Entries in (after, upto]. O(log ledgers).
    #[inline]
    pub fn count(&self, after: Position, upto: Position) -> u64 {
        self.chain.count(after, upto)
    }

    /// The entry `n` entries after `after` (n >= 1), clamped to the last confirmed entry.
    pub fn skip(&self, after: Position, n: u64) -> Position {
        self.chain.skip(after, n)
    }

    /// Last durable entry of `ledger`, for bounding reads; `EntryId::NONE` if none or unknown.
    #[inline]
    pub fn last_of(&self, ledger: LedgerId) -> EntryId {
        self.chain.last_of(ledger)
    }

    /// All confirmed entries and bytes.
    pub fn totals(&self) -> (u64, u64) {
        self.chain.totals()
    }

    /// Bytes of the entries after `at`, estimated within its ledger by that ledger's average entry: a cursor's backlog
    /// in bytes, as Pulsar counts it.
    pub fn bytes_after(&self, at: Position) -> u64 {
        self.chain.bytes_after(at)
    }

    /// The ledgers, oldest first, for statistics.
    pub fn ledgers(&self) -> Vec<LedgerSummary> {
        self.chain.summaries().collect()
    }

    /// Removes ledgers that every durable cursor has passed and retention lets go, oldest first; they come out of
    /// [`take_dropped`](Self::take_dropped). `slowest` is the lowest durable mark-delete position, none without durable
    /// cursors. The current ledger is never removed. Returns whether the list changed.
    ///
    /// As in Pulsar a ledger goes when it is past the time limit or when the bytes kept are at the size limit, whichever
    /// comes first, and the first ledger that is kept keeps all later ones.
    pub fn trim(&mut self, slowest: Option<Position>, retention: Retention, now_ms: u64) -> bool {
        let mut kept_bytes = self.chain.totals().1;
        let consumed = |ledger: &LedgerSummary| {
            slowest.is_none_or(|at| ledger.id < at.ledger || (ledger.id == at.ledger && at.entry >= self.last_of(ledger.id)))
        };
        let mut let_go = |ledger: &LedgerSummary| {
            let age = i64::try_from(now_ms.saturating_sub(ledger.closed_at_ms)).unwrap_or(i64::MAX);
            kept_bytes = kept_bytes.saturating_sub(ledger.bytes);
            let kept_bytes = i64::try_from(kept_bytes).unwrap_or(i64::MAX);
            let expired = retention.time_ms >= 0 && age > retention.time_ms;
            let over_quota = retention.size_bytes >= 0 && kept_bytes >= retention.size_bytes;
            expired || over_quota
        };
        let closed = self.chain.summaries().len() - 1;
        let n = self.chain.summaries().take(closed).take_while(|ledger| consumed(ledger) && let_go(ledger)).count();
        self.dropped.extend(self.chain.cut(n));
        n > 0
    }

    /// `ManagedLedgerInfo` bytes, never compressed: every Pulsar broker reads that.
    pub fn encode_list(list: &LedgerList) -> Vec<u8> {
        list.encode()
    }

    /// From `ManagedLedgerInfo` bytes, plain or compressed; empty bytes are an empty list.
    pub fn decode_list(bytes: &[u8]) -> Result<LedgerList, String> {
        LedgerList::decode(bytes)
    }

    /// The entries in (after, upto], ledger by ledger.
    pub fn runs(&self, after: Position, upto: Position) -> impl Iterator<Item = Run> + '_ {
        self.chain.runs(after, upto)
    }

    fn confirmed_bytes(&self) -> u64 {
        self.chain.summaries().next_back().map_or(0, |ledger| ledger.bytes)
    }

    fn forget_unconfirmed(&mut self) {
        self.sums.clear();
        self.assigned = self.chain.last_entries();
        self.assigned_bytes = self.confirmed_bytes();
    }
}

fn sealed_as(last: LedgerSummary, sealed: Sealed) -> LedgerSummary {
    let entries = u64::try_from(sealed.last.0.saturating_add(1)).unwrap_or(0);
    LedgerSummary { entries, bytes: if entries == 0 { 0 } else { sealed.bytes }, ..last }
}

#[cfg(test)]
mod tests;
