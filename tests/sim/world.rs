//! What outlives a broker in the simulation: a store of ledgers and a metadata tree. Only what is in here survives a crash.

use std::collections::BTreeMap;

use bytes::Bytes;
use ledger::{CursorState, EntryId, LedgerId, LedgerLimits, ManagedLedger, Position, Sealed, StoreError, StoredEntry};
use topic::{COMPACTION_CURSOR, Change, Compacted, CompactionStorage, DEDUPLICATION_CURSOR, Sequences, StoredCursor};

/// Everything durable.
#[derive(Default)]
pub(crate) struct World {
    ledgers: BTreeMap<LedgerId, Vec<Bytes>>,
    next_ledger: i64,
    list: (Vec<u8>, i64),
    cursors: BTreeMap<String, (Vec<u8>, i64)>,
    /// Ledgers that the topic had deleted.
    pub(crate) deleted: Vec<LedgerId>,
}

/// What a load of the topic finds.
pub(crate) struct Loaded {
    /// The chain, recorded.
    pub(crate) chain: ManagedLedger,
    /// Version of the record.
    pub(crate) version: i64,
    /// The cursors.
    pub(crate) cursors: Vec<StoredCursor>,
}

impl World {
    /// A ledger whose id was never used.
    pub(crate) fn create(&mut self) -> LedgerId {
        self.next_ledger += 2;
        let id = LedgerId(self.next_ledger);
        self.ledgers.insert(id, Vec::new());
        id
    }

    /// Makes an entry durable.
    pub(crate) fn append(&mut self, at: Position, bytes: Bytes) {
        let entries = self.ledgers.get_mut(&at.ledger).unwrap_or_else(|| panic!("append at {at} to a ledger that does not exist"));
        assert_eq!(entries.len() as i64, at.entry.0, "append at {at} leaves a gap or overwrites");
        entries.push(bytes);
    }

    /// Reads entries of one ledger.
    pub(crate) fn read(
        &self,
        from: Position,
        last: Position,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEntry>, StoreError> {
        let entries = self.ledgers.get(&from.ledger).ok_or(StoreError::NoSuchLedger(from.ledger))?;
        let mut found = Vec::new();
        let mut size = 0;
        for number in from.entry.0..=last.entry.0 {
            let Some(bytes) = entries.get(number as usize) else { break };
            size += bytes.len();
            if found.len() == max_entries || (size > max_bytes && !found.is_empty()) {
                break;
            }
            found.push(StoredEntry { id: EntryId(number), bytes: bytes.clone() });
        }
        Ok(found)
    }

    /// Deletes ledgers.
    pub(crate) fn delete(&mut self, ledgers: Vec<LedgerId>) {
        for id in ledgers {
            self.ledgers.remove(&id);
            self.deleted.push(id);
        }
    }

    /// An entry's bytes.
    pub(crate) fn entry(&self, at: Position) -> Option<&Bytes> {
        self.ledgers.get(&at.ledger)?.get(at.entry.0 as usize)
    }

    /// Whether the entry can be read.
    pub(crate) fn holds(&self, at: Position) -> bool {
        self.ledgers.get(&at.ledger).is_some_and(|entries| (at.entry.0 as usize) < entries.len())
    }

    /// Every entry that is still there, whether or not the topic lists its ledger.
    pub(crate) fn everything(&self) -> impl Iterator<Item = &Bytes> {
        self.ledgers.values().flatten()
    }

    /// The names of the recorded cursors.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = &str> {
        self.cursors.keys().map(String::as_str)
    }

    /// How many ledgers there are.
    pub(crate) fn ledger_count(&self) -> usize {
        self.ledgers.len()
    }

    /// Compare-and-set on the tree.
    pub(crate) fn change(&mut self, change: Change) -> Result<i64, String> {
        match change {
            Change::Ledgers { bytes, expected } => {
                check(self.list.1, expected)?;
                self.list = (bytes, expected + 1);
                Ok(expected + 1)
            }
            Change::CreateCursor { subscription, bytes } => {
                let before = self.cursors.insert(subscription.clone(), (bytes, 0));
                before.map_or(Ok(0), |_| Err(format!("cursor {subscription} exists")))
            }
            Change::Cursor { subscription, bytes, expected } => {
                let node = self.cursors.get_mut(&subscription).ok_or("no such cursor")?;
                check(node.1, expected)?;
                *node = (bytes, expected + 1);
                Ok(expected + 1)
            }
            Change::DeleteCursor { subscription, expected } => {
                check(self.cursors.get(&subscription).ok_or("no such cursor")?.1, expected)?;
                self.cursors.remove(&subscription);
                Ok(0)
            }
        }
    }

    /// Loads the topic as a broker would after a restart.
    pub(crate) fn load(&mut self, limits: LedgerLimits, wall_ms: u64) -> Loaded {
        let stored = ManagedLedger::decode_list(&self.list.0).expect("the list was written by the topic");
        let sealed = stored
            .ledgers
            .last()
            .and_then(|last| self.ledgers.get(&last.id))
            .map(|entries| Sealed { last: EntryId(entries.len() as i64 - 1), bytes: entries.iter().map(|bytes| bytes.len() as u64).sum() });
        let fresh = self.create();
        let mut chain = ManagedLedger::recover(stored, sealed, fresh, limits, wall_ms);
        self.list = (ManagedLedger::encode_list(&chain.list()), self.list.1 + 1);
        for empty in chain.take_dropped() {
            self.ledgers.remove(&empty);
        }
        let cursors = self.cursors.iter().map(|(name, (bytes, version))| self.load_cursor(name, bytes, *version)).collect();
        Loaded { chain, version: self.list.1, cursors }
    }

    /// What a load finds that a compaction left.
    pub(crate) fn compacted(&self, loaded: &Loaded) -> Option<Compacted> {
        let cursor = loaded.cursors.iter().find(|cursor| cursor.subscription == COMPACTION_CURSOR)?;
        let ledger = topic::compacted_ledger(&cursor.state.properties)?;
        let entries = self.ledgers.get(&ledger).unwrap_or_else(|| panic!("the compacted ledger {ledger} is gone"));
        let bytes = entries.iter().map(|entry| entry.len() as u64).sum();
        Some(Compacted { ledger, last: EntryId(entries.len() as i64 - 1), horizon: cursor.state.mark_delete, bytes })
    }

    /// What a load finds out about sequence ids.
    pub(crate) fn sequences(&self, loaded: &Loaded) -> Sequences {
        let cursor = loaded.cursors.iter().find(|cursor| cursor.subscription == DEDUPLICATION_CURSOR);
        let mut found = cursor.map(|cursor| Sequences::from_snapshot(&cursor.state.properties)).unwrap_or_default();
        let mut at = cursor.map_or(loaded.chain.first(), |cursor| loaded.chain.next(cursor.state.mark_delete));
        while at <= loaded.chain.last_confirmed() {
            // What was only said to be stored is missed when clients miss it.
            if let Some(entry) = self.entries(at.ledger).get(at.entry.0 as usize) {
                found.replay(entry);
            }
            at = loaded.chain.next(at);
        }
        found
    }

    /// The entries of a ledger.
    pub(crate) fn entries(&self, ledger: LedgerId) -> &[Bytes] {
        self.ledgers.get(&ledger).map_or(&[], Vec::as_slice)
    }

    fn load_cursor(&self, name: &str, bytes: &[u8], version: i64) -> StoredCursor {
        let (snapshot, ledger, properties) = ledger::Cursor::decode_record(bytes).expect("the record was written by the topic");
        let state = ledger.map_or(snapshot, |id| self.last_state(id));
        StoredCursor { subscription: name.to_owned(), state, version, ledger, properties }
    }

    fn last_state(&self, ledger: LedgerId) -> CursorState {
        let states = self.ledgers.get(&ledger).expect("a recorded cursor ledger exists");
        let last = states.last().expect("a recorded cursor ledger has a state");
        ledger::Cursor::decode_position(last).expect("the state was written by the topic")
    }
}

fn check(found: i64, expected: i64) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("version {found}, not {expected}")) }
}

impl CompactionStorage for World {
    fn read(&mut self, ledger: LedgerId, from: EntryId, last: EntryId) -> Result<Vec<StoredEntry>, StoreError> {
        World::read(self, Position { ledger, entry: from }, Position { ledger, entry: last }, 3, usize::MAX)
    }

    fn create(&mut self) -> Result<LedgerId, StoreError> {
        Ok(World::create(self))
    }

    fn append(&mut self, at: Position, bytes: &[u8]) -> Result<(), StoreError> {
        World::append(self, at, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn finish(&mut self, _: LedgerId) -> Result<(), StoreError> {
        Ok(())
    }

    fn discard(&mut self, ledger: LedgerId) {
        self.delete(vec![ledger]);
    }
}
