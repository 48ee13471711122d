//! Reads of durable entries: found through the index, read in as few pieces as sensible, checked, never served damaged.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use super::Shared;
use super::footer::{RunRecord, decode_part};
use super::format::{Extent, RECORD_HEADER, RecordHeader, record_is_whole};
use super::index::Planned;
use super::runs::Place;
use super::segment::Segment;
use crate::{Done, EntryId, LedgerId, ReadRange, StoreError, StoredEntry};

/// What a read thread is asked to do.
pub(crate) enum ReadJob {
    Read(ReadRange, Done<Vec<StoredEntry>>),
    List(Done<Vec<LedgerId>>),
}

/// The most one read call asks of a file, unless a single entry is larger.
const SPAN: u64 = 1 << 20;
/// Bytes of other ledgers that are read along rather than skipped.
const GAP: u64 = 4096;

impl Shared {
    /// Works until the log is closed.
    pub(crate) fn run_reader(&self) {
        while let Some(job) = self.reads.take_one() {
            self.do_read(job);
        }
    }

    pub(crate) fn do_read(&self, job: ReadJob) {
        match job {
            ReadJob::Read(range, done) => done(self.read_now(&range)),
            ReadJob::List(done) => {
                let mut ids: Vec<LedgerId> = self.index().ledgers.keys().map(|id| LedgerId(*id)).collect();
                ids.sort_unstable();
                done(Ok(ids));
            }
        }
    }

    pub(crate) fn read_now(&self, range: &ReadRange) -> Result<Vec<StoredEntry>, StoreError> {
        self.counters.reads.fetch_add(1, Relaxed);
        let planned = self.index().plan(range)?;
        let mut found = Vec::new();
        let mut budget = range.max_bytes;
        for run in planned {
            let more = self.read_run(range.ledger, &run, &mut budget, &mut found);
            match more {
                Ok(true) => {}
                Ok(false) => break,
                // Whole entries in front of a damaged one are good; the next read will begin with it.
                Err(_) if !found.is_empty() => break,
                Err(error) => {
                    self.counters.damaged_reads.fetch_add(1, Relaxed);
                    return Err(error);
                }
            }
        }
        self.counters.read_entries.fetch_add(found.len() as u64, Relaxed);
        Ok(found)
    }

    /// Reads a run until the budget is used up; false then. The very first entry is read whatever its size.
    fn read_run(&self, ledger: LedgerId, run: &Planned, budget: &mut usize, found: &mut Vec<StoredEntry>) -> Result<bool, StoreError> {
        let extents = self.extents(ledger, run)?;
        let mut wanted = Vec::with_capacity(extents.len());
        for extent in &extents {
            let len = extent.len as usize;
            if len > *budget && !(found.is_empty() && wanted.is_empty()) {
                break;
            }
            *budget = budget.saturating_sub(len);
            wanted.push(*extent);
        }
        let mut next = run.first;
        for piece in pieces(&wanted) {
            read_piece(&run.segment, ledger, piece, &mut next, found)?;
        }
        Ok(wanted.len() == extents.len() && *budget > 0)
    }

    /// Where the entries of a run lie.
    pub(crate) fn extents(&self, ledger: LedgerId, run: &Planned) -> Result<Vec<Extent>, StoreError> {
        let (part_at, part_len, part_count, skip) = match &run.place {
            Place::Memory(extents) => return Ok(extents.clone()),
            Place::Footer { part_at, part_len, part_count, skip } => (*part_at, *part_len, *part_count, *skip as usize),
        };
        let record = RunRecord { ledger: ledger.0, first: run.run_first, count: part_count, bytes: 0, part_at, part_len };
        let part = self.parts.get(&run.segment, &record).map_err(|reason| damaged(ledger, run.first, reason))?;
        let wanted = part.get(skip..skip + run.count).ok_or_else(|| damaged(ledger, run.first, "the footer lists fewer entries".into()))?;
        Ok(wanted.to_vec())
    }
}

/// Groups extents that are worth one read call each.
fn pieces(extents: &[Extent]) -> impl Iterator<Item = &[Extent]> {
    let mut rest = extents;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let start = u64::from(first.offset);
        let mut end = start + first.cost();
        let mut used = first.cost();
        let mut count = 1;
        for extent in rest.iter().skip(1) {
            let at = u64::from(extent.offset);
            let next_end = at + extent.cost();
            used += extent.cost();
            // Slices keep the whole piece in memory, so at least half of it must be wanted.
            if at < end || at - end > GAP || next_end - start > SPAN || used * 2 < next_end - start {
                break;
            }
            end = next_end;
            count += 1;
        }
        let (piece, after) = rest.split_at(count);
        rest = after;
        Some(piece)
    })
}

fn read_piece(
    segment: &Segment,
    ledger: LedgerId,
    piece: &[Extent],
    next: &mut i64,
    found: &mut Vec<StoredEntry>,
) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (piece.first(), piece.last()) else { return Ok(()) };
    let start = u64::from(first.offset);
    let len = usize::try_from(u64::from(last.offset) + last.cost() - start).unwrap_or(usize::MAX);
    let mut buffer = BytesMut::zeroed(len);
    let read = segment.file().read_at(&mut buffer, start).map_err(|error| StoreError::Io(error.to_string()))?;
    buffer.truncate(read);
    let buffer = buffer.freeze();
    for extent in piece {
        let at = (u64::from(extent.offset) - start) as usize;
        let record = buffer.get(at..at + RECORD_HEADER + extent.len as usize);
        let record = record.ok_or_else(|| damaged(ledger, *next, "the file ends before it".into()))?;
        check(record, ledger, *next, extent.len)?;
        let bytes: Bytes = buffer.slice(at + RECORD_HEADER..at + record.len());
        found.push(StoredEntry { id: EntryId(*next), bytes });
        *next += 1;
    }
    Ok(())
}

fn check(record: &[u8], ledger: LedgerId, entry: i64, len: u32) -> Result<(), StoreError> {
    let header = RecordHeader::decode(record).ok_or_else(|| damaged(ledger, entry, "its header makes no sense".into()))?;
    if (header.ledger, header.entry, header.len) != (ledger.0, entry, len) {
        return Err(damaged(ledger, entry, format!("entry {} of ledger {} lies in its place", header.entry, header.ledger)));
    }
    if record_is_whole(record, &header) { Ok(()) } else { Err(damaged(ledger, entry, "its bytes fail their checksum".into())) }
}

fn damaged(ledger: LedgerId, entry: i64, reason: String) -> StoreError {
    StoreError::Damaged { ledger, entry: EntryId(entry), reason }
}

/// The parts of footers that were read lately, within a budget of memory.
pub(crate) struct PartCache {
    budget: usize,
    state: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    parts: HashMap<(u64, u32), Part>,
    bytes: usize,
    clock: u64,
}

struct Part {
    extents: Arc<[Extent]>,
    used: u64,
}

impl PartCache {
    pub(crate) fn new(budget: usize) -> PartCache {
        PartCache { budget, state: Mutex::default() }
    }

    fn get(&self, segment: &Segment, run: &RunRecord) -> Result<Arc<[Extent]>, String> {
        let key = (segment.generation(), run.part_at);
        if let Some(extents) = self.lock().touch(key) {
            return Ok(extents);
        }
        let extents: Arc<[Extent]> = load(segment, run)?.into();
        self.lock().keep(key, extents.clone(), self.budget);
        Ok(extents)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn touch(&mut self, key: (u64, u32)) -> Option<Arc<[Extent]>> {
        self.clock += 1;
        let part = self.parts.get_mut(&key)?;
        part.used = self.clock;
        Some(part.extents.clone())
    }

    fn keep(&mut self, key: (u64, u32), extents: Arc<[Extent]>, budget: usize) {
        self.bytes += size_of_val(&*extents);
        if let Some(old) = self.parts.insert(key, Part { extents, used: self.clock }) {
            self.bytes -= size_of_val(&*old.extents);
        }
        while self.bytes > budget && self.parts.len() > 1 {
            let Some(oldest) = self.parts.iter().min_by_key(|(_, part)| part.used).map(|(key, _)| *key) else { return };
            if let Some(old) = self.parts.remove(&oldest) {
                self.bytes -= size_of_val(&*old.extents);
            }
        }
    }
}

fn load(segment: &Segment, run: &RunRecord) -> Result<Vec<Extent>, String> {
    let mut bytes = vec![0; run.part_len as usize];
    let read = segment.file().read_at(&mut bytes, u64::from(run.part_at)).map_err(|error: io::Error| error.to_string())?;
    bytes.truncate(read);
    decode_part(segment.stamp(), run, &bytes).ok_or_else(|| "the footer of its segment fails its checksum".into())
}
