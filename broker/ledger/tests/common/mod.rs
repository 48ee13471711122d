//! What the tests of the stores share: waiting calls and entries that can be told apart.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod life;
pub(crate) mod sim;

use std::sync::mpsc;

use geminga_ledger::{
    Block, BlockBuilder, Done, EntryId, LedgerId, LedgerStore, Position, Purpose, ReadRange, Sealed, StoreError, StoredEntry,
};

/// The calls of a store, waited for.
pub(crate) trait Waiting {
    fn create_now(&self, purpose: Purpose) -> Result<LedgerId, StoreError>;
    fn append_now(&self, block: Block) -> Result<(), StoreError>;
    fn seal_now(&self, ledger: LedgerId) -> Result<Sealed, StoreError>;
    fn fence_now(&self, ledger: LedgerId) -> Result<Sealed, StoreError>;
    fn read_now(
        &self,
        ledger: LedgerId,
        from: i64,
        last: i64,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEntry>, StoreError>;
    fn delete_now(&self, ledgers: &[LedgerId]) -> Result<(), StoreError>;
    fn list_now(&self) -> Result<Vec<LedgerId>, StoreError>;
}

impl<S: LedgerStore + ?Sized> Waiting for S {
    fn create_now(&self, purpose: Purpose) -> Result<LedgerId, StoreError> {
        wait(|done| self.create(purpose, done))
    }
    fn append_now(&self, block: Block) -> Result<(), StoreError> {
        wait(|done| self.append(block, done))
    }
    fn seal_now(&self, ledger: LedgerId) -> Result<Sealed, StoreError> {
        wait(|done| self.seal(ledger, done))
    }
    fn fence_now(&self, ledger: LedgerId) -> Result<Sealed, StoreError> {
        wait(|done| self.open_fenced(ledger, done))
    }
    fn read_now(
        &self,
        ledger: LedgerId,
        from: i64,
        last: i64,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEntry>, StoreError> {
        let range = ReadRange { ledger, from: EntryId(from), last: EntryId(last), max_entries, max_bytes };
        wait(|done| self.read(range, done))
    }
    fn delete_now(&self, ledgers: &[LedgerId]) -> Result<(), StoreError> {
        wait(|done| self.delete(ledgers.to_vec(), done))
    }
    fn list_now(&self) -> Result<Vec<LedgerId>, StoreError> {
        wait(|done| self.list(done))
    }
}

pub(crate) fn wait<T: Send + 'static>(call: impl FnOnce(Done<T>)) -> Result<T, StoreError> {
    let (sender, receiver) = mpsc::channel();
    call(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver.recv().expect("every call is answered")
}

pub(crate) fn block(entries: &[(LedgerId, i64, &[u8])]) -> Block {
    let mut builder = BlockBuilder::new();
    for (ledger, entry, bytes) in entries {
        builder.push(Position { ledger: *ledger, entry: EntryId(*entry) }, entry - 1, bytes);
    }
    builder.finish()
}

/// Bytes that no other entry has; their length varies.
pub(crate) fn bytes_of(ledger: LedgerId, entry: i64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed((ledger.0 as u64) << 32 | entry as u64);
    let len = random.usize(0..200);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Appends entries `from..to`, some per block.
pub(crate) fn fill(store: &(impl LedgerStore + ?Sized), ledger: LedgerId, from: i64, to: i64) {
    let mut next = from;
    while next < to {
        let mut builder = BlockBuilder::new();
        let end = to.min(next + 1 + next % 7);
        for entry in next..end {
            builder.push(Position { ledger, entry: EntryId(entry) }, next - 1, &bytes_of(ledger, entry));
        }
        next = end;
        store.append_now(builder.finish()).expect("appended");
    }
}

/// Reads `0..=last` in as many calls as it takes.
pub(crate) fn read_all(store: &(impl LedgerStore + ?Sized), ledger: LedgerId, last: i64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let read = store.read_now(ledger, all.len() as i64, last, 64, 4096).expect("read");
        if read.is_empty() {
            return all;
        }
        for entry in read {
            assert_eq!(entry.id.0, all.len() as i64);
            all.push(entry.bytes.to_vec());
        }
    }
}
