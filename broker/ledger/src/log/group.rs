//! What the writer is asked to do, and what it gathers for one write and one sync.

use std::collections::hash_map::Entry;

use bytes::Bytes;

use super::format::{BLOCK_HEADER, LedgerRecord};
use super::ids::IdMap;
use super::index::Index;
use crate::{Block, BlockEntry, Done, LedgerId, Purpose, Sealed, StoreError};

/// What the writer is asked to do, in order.
pub(crate) enum Op {
    Create(Purpose, Done<LedgerId>),
    Append(Block, Done<()>),
    Seal(LedgerId, Done<Sealed>),
    Fence(LedgerId, Done<Sealed>),
    Delete(Vec<LedgerId>, Done<()>),
    /// Entries read from segment `.1`, to be written again.
    Move(Block, u64, Done<()>),
    /// States and tombstones in a segment, to be written again.
    Rehome(u64, Done<()>),
    Close,
}

impl Op {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Op::Append(block, _) | Op::Move(block, ..) => block.bytes.len(),
            _ => 0,
        }
    }

    /// Reports that nothing was or will be done.
    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Op::Create(_, done) => done(Err(error)),
            Op::Seal(_, done) | Op::Fence(_, done) => done(Err(error)),
            Op::Append(_, done) | Op::Delete(_, done) | Op::Move(_, _, done) | Op::Rehome(_, done) => done(Err(error)),
            Op::Close => {}
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Staged {
    pub(crate) purpose: Purpose,
    pub(crate) sealed: Option<Sealed>,
    pub(crate) last: i64,
    pub(crate) bytes: u64,
    pub(crate) deleted: bool,
}

/// Blocks that one write and one sync will cover.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) blocks: usize,
    /// The blocks themselves, unless they were copied into pages.
    pub(crate) headers: Vec<[u8; BLOCK_HEADER]>,
    pub(crate) bodies: Vec<Bytes>,
    pub(crate) bytes: u64,
    pub(crate) records: usize,
    pub(crate) entries: u64,
    pub(crate) changes: Vec<Change>,
}

/// What becomes true when the group is durable.
pub(crate) enum Change {
    Entries { entries: Vec<BlockEntry>, body_at: u32 },
    Moved { entries: Vec<BlockEntry>, body_at: u32 },
    State(i64, LedgerRecord),
    Deleted(i64),
}

/// Records of the log's own, gathered into a block.
#[derive(Default)]
pub(crate) struct Controls {
    pub(crate) body: Vec<u8>,
    pub(crate) headers_crc: u32,
    pub(crate) records: u32,
}

pub(crate) enum Outcome {
    Done(Done<()>, Result<(), StoreError>),
    Created(Done<LedgerId>, Result<LedgerId, StoreError>),
    Ended(Done<Sealed>, Result<Sealed, StoreError>),
}

impl Staged {
    pub(crate) fn extend(&mut self, run: &[BlockEntry], nearly_full: Option<&str>) -> Result<(), StoreError> {
        let id = run[0].at.ledger;
        if self.sealed.is_some() {
            return Err(StoreError::Fenced(id));
        }
        if let (Purpose::Data, Some(reason)) = (self.purpose, nearly_full) {
            return Err(StoreError::DiskNearlyFull(reason.to_owned()));
        }
        for entry in run {
            if entry.at.entry.0 != self.last + 1 {
                return Err(refused(format!("entry {} does not follow entry {} of its ledger", entry.at, self.last)));
            }
            self.last += 1;
            self.bytes += u64::from(entry.len);
        }
        Ok(())
    }
}

impl Group {
    pub(crate) fn clear(&mut self) {
        self.blocks = 0;
        self.headers.clear();
        self.bodies.clear();
        self.changes.clear();
        self.bytes = 0;
        self.records = 0;
        self.entries = 0;
    }
}

impl Outcome {
    pub(crate) fn fail(&mut self, error: &StoreError) {
        match self {
            Outcome::Done(_, result) if result.is_ok() => *result = Err(error.clone()),
            Outcome::Created(_, result) if result.is_ok() => *result = Err(error.clone()),
            Outcome::Ended(_, result) if result.is_ok() => *result = Err(error.clone()),
            _ => {}
        }
    }

    pub(crate) fn report(self) {
        match self {
            Outcome::Done(done, result) => done(result),
            Outcome::Created(done, result) => done(result),
            Outcome::Ended(done, result) => done(result),
        }
    }
}

/// Ledgers as they will be when the groups are durable that the index does not know yet.
#[derive(Default)]
pub(crate) struct Stage {
    /// By the group that gathers.
    now: IdMap<Staged>,
    /// By the group before it, which is on its way to the disk.
    in_flight: IdMap<Staged>,
}

impl Stage {
    /// The ledger as it will be; none if it does not exist then.
    pub(crate) fn view<'a>(&'a mut self, index: &Index, id: i64) -> Option<&'a mut Staged> {
        let ledger = match self.now.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match self.in_flight.get(&id) {
                Some(staged) => entry.insert(*staged),
                None => {
                    let ledger = index.ledgers.get(&id)?;
                    let (purpose, sealed, last, bytes) = (ledger.purpose, ledger.sealed, ledger.last, ledger.bytes);
                    entry.insert(Staged { purpose, sealed, last, bytes, deleted: false })
                }
            },
        };
        (!ledger.deleted).then_some(ledger)
    }

    /// What the group that gathers makes of a ledger, if anything.
    pub(crate) fn get(&self, id: i64) -> Option<&Staged> {
        self.now.get(&id).or_else(|| self.in_flight.get(&id))
    }

    pub(crate) fn set(&mut self, id: i64, staged: Staged) {
        self.now.insert(id, staged);
    }

    /// The group that gathered is on its way; the one before it has landed.
    pub(crate) fn depart(&mut self) {
        std::mem::swap(&mut self.now, &mut self.in_flight);
        self.now.clear();
    }

    /// The group on its way has landed: the index knows.
    pub(crate) fn land(&mut self) {
        self.in_flight.clear();
    }

    /// The group that gathered is done with.
    pub(crate) fn clear(&mut self) {
        self.now.clear();
    }
}

/// The error of an operation that was not even begun.
pub(crate) fn refused(reason: String) -> StoreError {
    StoreError::Io(format!("{reason}; nothing was written"))
}
