//! A store that keeps everything in memory and fails on demand, for simulations and tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::store::{Capabilities, Done, LedgerStore, Purpose, ReadRange, Sealed, StoreError, StoreHealth, StoredEntry};
use crate::{Block, EntryId, LedgerId};

/// What to do with the next appends. Faults are used up in the order they were asked for, one per append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The append goes through.
    None,
    /// Nothing is kept and the outcome is unknown.
    Lost,
    /// Everything is kept and the outcome is unknown all the same.
    KeptUnreported,
    /// Refused for want of space.
    DiskNearlyFull,
    /// The store is poisoned from here on; nothing is kept.
    Poison,
}

/// A ledger store in memory. Does its work inside the calls, or, if made by [`stepped`](Self::stepped), one outcome at a
/// time when told to, so that a simulation decides what happens between a call and its outcome.
pub struct MemoryStore {
    state: Mutex<State>,
    stepped: bool,
}

#[derive(Default)]
struct State {
    ledgers: BTreeMap<i64, Ledger>,
    next: i64,
    faults: VecDeque<Fault>,
    health: Option<StoreHealth>,
    waiting: VecDeque<Call>,
    damaged: Vec<(i64, i64)>,
    appends: u64,
}

struct Ledger {
    purpose: Purpose,
    sealed: Option<Sealed>,
    entries: BTreeMap<i64, Bytes>,
    last: i64,
    bytes: u64,
}

type Call = Box<dyn FnOnce(&MemoryStore) + Send>;

const MAX_ENTRY: usize = 16 << 20;

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store that answers inside the calls.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore { state: Mutex::default(), stepped: false }
    }

    /// An empty store that does nothing until [`step`](Self::step) is called.
    #[must_use]
    pub fn stepped() -> MemoryStore {
        MemoryStore { state: Mutex::default(), stepped: true }
    }

    /// Does the oldest waiting call and reports it; false if none waits.
    pub fn step(&self) -> bool {
        let Some(work) = self.lock().waiting.pop_front() else { return false };
        work(self);
        true
    }

    /// Calls that wait for a step.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Drops every waiting call, as a crash would; their outcomes are never reported.
    pub fn crash(&self) {
        let mut state = self.lock();
        let dropped = std::mem::take(&mut state.waiting);
        state.faults.clear();
        state.health = None;
        drop(state);
        drop(dropped);
    }

    /// Asks for a fault; the first one asked for meets the next append.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Sets what [`health`](LedgerStore::health) says and appends obey.
    pub fn set_health(&self, health: StoreHealth) {
        self.lock().health = Some(health);
    }

    /// Makes reads of the entry fail as damaged.
    pub fn damage(&self, ledger: LedgerId, entry: EntryId) {
        self.lock().damaged.push((ledger.0, entry.0));
    }

    /// Appends that went through.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.lock().appends
    }

    fn call(&self, work: impl FnOnce(&MemoryStore) + Send + 'static) {
        if self.stepped {
            self.lock().waiting.push_back(Box::new(work));
        } else {
            work(self);
        }
    }

    fn append_now(&self, block: &Block) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.writable()?;
        let fault = state.faults.pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::None => state.append(block),
            Fault::Lost => Err(StoreError::Unknown("injected: lost".into())),
            Fault::KeptUnreported => {
                state.append(block)?;
                Err(StoreError::Unknown("injected: kept".into()))
            }
            Fault::DiskNearlyFull => Err(StoreError::DiskNearlyFull("injected".into())),
            Fault::Poison => {
                state.health = Some(StoreHealth::Poisoned("injected".into()));
                Err(StoreError::Unknown("injected: poisoned".into()))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerStore for MemoryStore {
    fn create(&self, purpose: Purpose, done: Done<LedgerId>) {
        self.call(move |store| {
            let result = {
                let mut state = store.lock();
                state.writable().map(|()| state.create(purpose))
            };
            done(result);
        });
    }

    fn append(&self, block: Block, done: Done<()>) {
        self.call(move |store| {
            let result = store.append_now(&block);
            done(result);
        });
    }

    fn seal(&self, ledger: LedgerId, done: Done<Sealed>) {
        self.call(move |store| {
            let result = store.lock().end(ledger, false);
            done(result);
        });
    }

    fn open_fenced(&self, ledger: LedgerId, done: Done<Sealed>) {
        self.call(move |store| {
            let result = store.lock().end(ledger, true);
            done(result);
        });
    }

    fn read(&self, range: ReadRange, done: Done<Vec<StoredEntry>>) {
        self.call(move |store| {
            let result = store.lock().read(&range);
            done(result);
        });
    }

    fn delete(&self, ledgers: Vec<LedgerId>, done: Done<()>) {
        self.call(move |store| {
            let result = {
                let mut state = store.lock();
                state.writable().map(|()| ledgers.iter().for_each(|id| drop(state.ledgers.remove(&id.0))))
            };
            done(result);
        });
    }

    fn list(&self, done: Done<Vec<LedgerId>>) {
        self.call(move |store| {
            let ids = store.lock().ledgers.keys().map(|id| LedgerId(*id)).collect();
            done(Ok(ids));
        });
    }

    fn health(&self) -> StoreHealth {
        self.lock().health.clone().unwrap_or(StoreHealth::Ready)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_entry_bytes: MAX_ENTRY, max_block_bytes: 2 * MAX_ENTRY }
    }
}

impl State {
    fn writable(&self) -> Result<(), StoreError> {
        match &self.health {
            Some(StoreHealth::Poisoned(reason)) => Err(StoreError::Closed(reason.clone())),
            _ => Ok(()),
        }
    }

    fn create(&mut self, purpose: Purpose) -> LedgerId {
        let id = self.next;
        self.next += 1;
        self.ledgers.insert(id, Ledger { purpose, sealed: None, entries: BTreeMap::new(), last: -1, bytes: 0 });
        LedgerId(id)
    }

    fn append(&mut self, block: &Block) -> Result<(), StoreError> {
        self.check(block)?;
        for (at, entry) in block.entries.iter().enumerate() {
            let Some(ledger) = self.ledgers.get_mut(&entry.at.ledger.0) else { continue };
            if ledger.purpose == Purpose::Cursor {
                ledger.entries.clear();
            }
            ledger.entries.insert(entry.at.entry.0, block.entry_bytes(at));
            ledger.last = entry.at.entry.0;
            ledger.bytes += u64::from(entry.len);
        }
        self.appends += 1;
        Ok(())
    }

    /// All or nothing, so everything is checked before anything is kept.
    fn check(&self, block: &Block) -> Result<(), StoreError> {
        let mut next: BTreeMap<i64, i64> = BTreeMap::new();
        for entry in &block.entries {
            if entry.len as usize > MAX_ENTRY {
                return Err(StoreError::Io(format!("entry {} of {} bytes is over the limit; nothing was written", entry.at, entry.len)));
            }
            let id = entry.at.ledger;
            let ledger = self.ledgers.get(&id.0).ok_or(StoreError::NoSuchLedger(id))?;
            if ledger.sealed.is_some() {
                return Err(StoreError::Fenced(id));
            }
            if let (Purpose::Data, Some(StoreHealth::DiskNearlyFull(reason))) = (ledger.purpose, &self.health) {
                return Err(StoreError::DiskNearlyFull(reason.clone()));
            }
            let next = next.entry(id.0).or_insert(ledger.last + 1);
            if entry.at.entry.0 != *next {
                return Err(StoreError::Io(format!(
                    "entry {} does not follow entry {} of its ledger; nothing was written",
                    entry.at,
                    *next - 1
                )));
            }
            *next += 1;
        }
        Ok(())
    }

    fn end(&mut self, id: LedgerId, fence: bool) -> Result<Sealed, StoreError> {
        self.writable()?;
        let ledger = self.ledgers.get_mut(&id.0).ok_or(StoreError::NoSuchLedger(id))?;
        match ledger.sealed {
            Some(sealed) if fence => Ok(sealed),
            Some(_) => Err(StoreError::Fenced(id)),
            None => Ok(*ledger.sealed.insert(Sealed { last: EntryId(ledger.last), bytes: ledger.bytes })),
        }
    }

    fn read(&self, range: &ReadRange) -> Result<Vec<StoredEntry>, StoreError> {
        let ledger = self.ledgers.get(&range.ledger.0).ok_or(StoreError::NoSuchLedger(range.ledger))?;
        let mut found: Vec<StoredEntry> = Vec::new();
        let mut budget = range.max_bytes;
        if range.from > range.last {
            return Ok(found);
        }
        for (entry, bytes) in ledger.entries.range(range.from.0..=range.last.0).take(range.max_entries.max(1)) {
            if self.damaged.contains(&(range.ledger.0, *entry)) {
                if found.is_empty() {
                    return Err(StoreError::Damaged { ledger: range.ledger, entry: EntryId(*entry), reason: "injected".into() });
                }
                break;
            }
            if bytes.len() > budget && !found.is_empty() {
                break;
            }
            budget = budget.saturating_sub(bytes.len());
            found.push(StoredEntry { id: EntryId(*entry), bytes: bytes.clone() });
        }
        Ok(found)
    }
}
