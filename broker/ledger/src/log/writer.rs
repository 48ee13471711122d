//! Group commit: everything that waited during the last sync is written at once, synced once, and only then reported.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Shared;
use super::files::{WriteFailed, is_full, write_all};
use super::format::{
    BLOCK_HEADER, BlockHeader, Extent, Kind, LedgerRecord, RECORD_HEADER, SEGMENT_HEADER, SegmentHeader, TRAILER, put_record,
};
use super::group::{Change, Controls, Group, Op, Outcome, Staged, refused, view};
use super::ids::IdMap;
use super::pages::Pages;
use super::rhythm::Rhythm;
use super::segment::{Footer, Segment};
use crate::{Block, BlockEntry, EntryId, LedgerId, Purpose, Sealed, StoreError, StoreHealth};

/// The one thread that writes. It owns the end of the log.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    active: Arc<Segment>,
    /// Where the next block goes.
    end: u64,
    /// The page it goes to, if the segment is written in pages.
    pages: Option<Pages>,
    next_ledger: i64,
    /// Ledgers as they will be when the group is durable.
    staged: IdMap<Staged>,
    group: Group,
    controls: Controls,
    outcomes: Vec<Outcome>,
    space_checked: Option<Instant>,
}

/// How often the free space is looked at while the log is written to.
const SPACE_CHECK: Duration = Duration::from_millis(500);
/// The most that is copied together before it is written: enough for the disk, little enough for a processor's cache.
const GATHERED: u64 = 1 << 20;
/// A record needs at most this much of the footer, whatever becomes of it.
const FOOTER_PER_RECORD: u64 = 112;

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, active: Arc<Segment>, end: u64, next_ledger: i64) -> io::Result<Writer> {
        let mut writer = Writer {
            shared,
            active,
            end,
            pages: None,
            next_ledger,
            staged: IdMap::default(),
            group: Group::default(),
            controls: Controls::default(),
            outcomes: Vec::new(),
            space_checked: None,
        };
        writer.go_on()?;
        Ok(writer)
    }

    /// Works until the log is closed.
    pub(crate) fn run(mut self) {
        let mut ops = VecDeque::new();
        let mut rhythm = Rhythm::new(self.shared.options.group_interval, Instant::now());
        while self.shared.queue.wait() {
            if let Some(wait) = rhythm.wait(Instant::now()) {
                std::thread::sleep(wait);
            }
            self.shared.queue.take_now(&mut ops);
            rhythm.begin(Instant::now(), ops.len());
            self.turn(&mut ops);
        }
    }

    /// Does everything in `ops`.
    pub(crate) fn turn(&mut self, ops: &mut VecDeque<Op>) {
        let bytes = ops.iter().map(Op::bytes).sum();
        self.check_space();
        for op in ops.drain(..) {
            self.take(op);
        }
        self.commit();
        self.shared.queue.done(bytes);
    }

    fn take(&mut self, op: Op) {
        if let Some(reason) = self.shared.poisoned() {
            self.complete();
            op.refuse(StoreError::Closed(reason));
            return;
        }
        let outcome = match op {
            Op::Create(purpose, done) => Outcome::Created(done, self.create(purpose)),
            Op::Append(block, done) => Outcome::Done(done, self.append(block)),
            Op::Seal(ledger, done) => Outcome::Ended(done, self.end(ledger, false)),
            Op::Fence(ledger, done) => Outcome::Ended(done, self.end(ledger, true)),
            Op::Delete(ledgers, done) => Outcome::Done(done, self.delete(&ledgers)),
            Op::Move(block, from, done) => Outcome::Done(done, self.rewrite(block, from)),
            Op::Rehome(from, done) => Outcome::Done(done, self.rehome(from)),
            Op::Close => {
                // The last record of a run proves that nothing durable comes after it. Not having it is no loss.
                let _ = self.control(Kind::Closed, 0, 0, &[]);
                return;
            }
        };
        self.outcomes.push(outcome);
    }

    fn create(&mut self, purpose: Purpose) -> Result<LedgerId, StoreError> {
        let id = self.next_ledger;
        let state = LedgerRecord { purpose, sealed: None };
        self.control(Kind::Ledger, id, state.entry(), &state.encode())?;
        self.next_ledger += 1;
        self.staged.insert(id, Staged { purpose, sealed: None, last: -1, bytes: 0, deleted: false });
        self.group.changes.push(Change::State(id, state));
        Ok(LedgerId(id))
    }

    fn append(&mut self, block: Block) -> Result<(), StoreError> {
        if block.entries.is_empty() {
            return Ok(());
        }
        self.fits_the_engine(&block)?;
        if self.group.bytes > 0 && self.group.bytes + block.bytes.len() as u64 > self.shared.options.group_bytes as u64 {
            self.commit_early()?;
        }
        self.make_room(block.bytes.len() as u64, block.entries.len())?;
        self.stage_entries(&block)?;
        self.add_block(block, false);
        Ok(())
    }

    fn fits_the_engine(&self, block: &Block) -> Result<(), StoreError> {
        let options = &self.shared.options;
        if block.bytes.len() + BLOCK_HEADER > options.max_block_bytes {
            return Err(refused(format!("a block of {} bytes is over the limit of {}", block.bytes.len(), options.max_block_bytes)));
        }
        match block.entries.iter().find(|entry| entry.len as usize > options.max_entry_bytes) {
            Some(entry) => {
                Err(refused(format!("entry {} of {} bytes is over the limit of {}", entry.at, entry.len, options.max_entry_bytes)))
            }
            None => Ok(()),
        }
    }

    /// Checks every entry of the block against what its ledger will be by then; all or nothing.
    fn stage_entries(&mut self, block: &Block) -> Result<(), StoreError> {
        let nearly_full = self.shared.nearly_full();
        let index = self.shared.index();
        let mut before: Vec<(i64, Staged)> = Vec::new();
        let mut result = Ok(());
        for run in block.entries.chunk_by(|a, b| a.at.ledger == b.at.ledger) {
            let id = run[0].at.ledger;
            let Some(ledger) = view(&mut self.staged, &index, id.0) else {
                result = Err(StoreError::NoSuchLedger(id));
                break;
            };
            before.push((id.0, *ledger));
            result = ledger.extend(run, nearly_full.as_deref());
            if result.is_err() {
                break;
            }
        }
        if result.is_err() {
            for (id, ledger) in before.into_iter().rev() {
                self.staged.insert(id, ledger);
            }
        }
        result
    }

    fn end(&mut self, id: LedgerId, fence: bool) -> Result<Sealed, StoreError> {
        // Room first: making it may commit the group, and what is staged goes with it.
        self.make_control_room(1)?;
        let staged = {
            let index = self.shared.index();
            *view(&mut self.staged, &index, id.0).ok_or(StoreError::NoSuchLedger(id))?
        };
        match staged.sealed {
            Some(sealed) if fence => return Ok(sealed),
            Some(_) => return Err(StoreError::Fenced(id)),
            None => {}
        }
        let sealed = Sealed { last: EntryId(staged.last), bytes: staged.bytes };
        let state = LedgerRecord { purpose: staged.purpose, sealed: Some(sealed) };
        self.control(Kind::Ledger, id.0, state.entry(), &state.encode())?;
        self.staged.insert(id.0, Staged { sealed: Some(sealed), ..staged });
        self.group.changes.push(Change::State(id.0, state));
        Ok(sealed)
    }

    fn delete(&mut self, ledgers: &[LedgerId]) -> Result<(), StoreError> {
        for LedgerId(id) in ledgers {
            self.make_control_room(1)?;
            let staged = {
                let index = self.shared.index();
                view(&mut self.staged, &index, *id).copied()
            };
            let Some(staged) = staged else { continue };
            self.control(Kind::Deleted, *id, 0, &[])?;
            self.staged.insert(*id, Staged { deleted: true, ..staged });
            self.group.changes.push(Change::Deleted(*id));
        }
        Ok(())
    }

    /// Takes entries again unless something of the block is not needed any more; then the compactor looks again.
    fn rewrite(&mut self, block: Block, from: u64) -> Result<(), StoreError> {
        self.make_room(block.bytes.len() as u64, block.entries.len())?;
        {
            let index = self.shared.index();
            for entry in &block.entries {
                let (id, number) = (entry.at.ledger.0, entry.at.entry.0);
                let live = index.segment_of(id, number) == Some(from)
                    && self.staged.get(&id).is_none_or(|s| !s.deleted && (s.purpose == Purpose::Data || s.last == number));
                if !live {
                    return Err(refused(format!("entry {} was overtaken", entry.at)));
                }
            }
        }
        self.add_block(block, true);
        Ok(())
    }

    fn rehome(&mut self, from: u64) -> Result<(), StoreError> {
        let (states, tombstones) = self.shared.index().homed(from);
        for id in states {
            self.make_control_room(1)?;
            let staged = {
                let index = self.shared.index();
                view(&mut self.staged, &index, id).copied()
            };
            let Some(staged) = staged else { continue };
            let state = LedgerRecord { purpose: staged.purpose, sealed: staged.sealed };
            self.control(Kind::Ledger, id, state.entry(), &state.encode())?;
            self.group.changes.push(Change::State(id, state));
        }
        for id in tombstones {
            if self.shared.index().is_buried(id) {
                self.control(Kind::Deleted, id, 0, &[])?;
                self.group.changes.push(Change::Deleted(id));
            }
        }
        Ok(())
    }

    fn add_block(&mut self, block: Block, moved: bool) {
        self.flush_controls();
        let records = u32::try_from(block.entries.len()).unwrap_or(u32::MAX);
        let body_at = self.push_body(block.bytes, records, block.headers_crc);
        self.group.entries += u64::from(records);
        let entries = block.entries;
        self.group.changes.push(if moved { Change::Moved { entries, body_at } } else { Change::Entries { entries, body_at } });
    }

    fn control(&mut self, kind: Kind, ledger: i64, entry: i64, payload: &[u8]) -> Result<(), StoreError> {
        self.make_control_room(1)?;
        put_record(&mut self.controls.body, &mut self.controls.headers_crc, kind, u32::MAX, ledger, entry, payload);
        self.controls.records += 1;
        Ok(())
    }

    fn flush_controls(&mut self) {
        if self.controls.records > 0 {
            let controls = std::mem::take(&mut self.controls);
            self.push_body(controls.body.into(), controls.records, controls.headers_crc);
        }
    }

    /// Adds a block to the group; returns where its body will lie in the file.
    fn push_body(&mut self, body: Bytes, records: u32, headers_crc: u32) -> u32 {
        let body_at = self.end + self.group.bytes + BLOCK_HEADER as u64;
        let header =
            BlockHeader { records, run: self.shared.run, body_len: offset(body.len() as u64), group_start: offset(self.end), headers_crc };
        self.group.headers.push(header.encode(self.active.stamp()));
        self.group.bytes += (BLOCK_HEADER + body.len()) as u64;
        self.group.records += records as usize;
        self.group.bodies.push(body);
        offset(body_at)
    }

    fn make_control_room(&mut self, records: usize) -> Result<(), StoreError> {
        self.make_room((records * (RECORD_HEADER + super::format::STATE_PAYLOAD)) as u64, records)
    }

    /// Sees to it that a block with a body of `bytes` fits the segment, with its footer.
    fn make_room(&mut self, bytes: u64, records: usize) -> Result<(), StoreError> {
        if self.has_room(bytes, records) {
            return Ok(());
        }
        self.commit_early()?;
        if self.has_room(bytes, records) {
            return Ok(());
        }
        let needed = (SEGMENT_HEADER + BLOCK_HEADER + TRAILER + 64) as u64 + bytes + records as u64 * FOOTER_PER_RECORD;
        self.roll(needed)
    }

    fn has_room(&self, bytes: u64, records: usize) -> bool {
        let pending = (self.group.records + self.controls.records as usize + records) as u64 * FOOTER_PER_RECORD;
        let footer = self.shared.index().footer_room(self.active.generation()) + pending;
        let blocks = self.group.bytes + (2 * BLOCK_HEADER + self.controls.body.len()) as u64 + bytes;
        self.end + blocks + footer <= self.active.len()
    }

    /// Goes on in another segment. The full one is durable with its footer before the next one has a name.
    fn roll(&mut self, needed: u64) -> Result<(), StoreError> {
        let prepared = match self.shared.files.prepare(needed, self.active.len()) {
            Ok(prepared) => prepared,
            Err(error) if is_full(&error) => {
                let reason = format!("no space for the next segment: {error}");
                self.shared.set_health(StoreHealth::DiskNearlyFull(reason.clone()));
                return Err(StoreError::DiskNearlyFull(reason));
            }
            Err(error) => return Err(self.poison(&format!("preparing a segment: {error}"))),
        };
        self.close_active().and_then(|()| self.begin(prepared)).map_err(|error| self.poison(&format!("changing segments: {error}")))?;
        self.space_checked = None;
        self.check_space();
        self.shared.wake_compactor();
        Ok(())
    }

    fn close_active(&mut self) -> io::Result<()> {
        let generation = self.active.generation();
        let footer: Footer = self.shared.index().footer(generation);
        let directory = self.active.write_footer(footer, self.end)?;
        self.shared.files.sync(self.active.file())?;
        self.shared.index().close_segment(generation, &directory);
        Ok(())
    }

    fn begin(&mut self, prepared: super::segment::Prepared) -> io::Result<()> {
        let header = SegmentHeader {
            directory: self.shared.files.directory,
            generation: self.active.generation() + 1,
            next_ledger: self.next_ledger,
            previous: self.active.generation(),
            previous_end: self.end,
            file_len: 0,
        };
        self.active = self.shared.files.begin(prepared, header)?;
        self.end = SEGMENT_HEADER as u64;
        self.go_on()?;
        self.shared.index().add_segment(self.active.clone());
        Ok(())
    }

    /// Gets ready to write at the end of the active segment.
    fn go_on(&mut self) -> io::Result<()> {
        if !self.active.takes_pages() {
            self.pages = None;
            return Ok(());
        }
        let room = (self.shared.options.segment_bytes / 4).min(GATHERED) as usize;
        self.pages.get_or_insert_with(|| Pages::new(room)).go_on(self.active.file(), self.end)
    }

    /// Makes the group durable and reports every outcome, in order.
    fn commit(&mut self) {
        self.flush_controls();
        if self.group.bodies.is_empty() {
            self.staged.clear();
            self.complete();
            return;
        }
        match self.write_group() {
            Ok(()) => {
                self.publish();
                self.end += self.group.bytes;
            }
            Err(error) => self.fail(error),
        }
        self.group.clear();
        self.staged.clear();
        self.complete();
    }

    /// The same in the middle of a turn, which goes on only if it went well.
    fn commit_early(&mut self) -> Result<(), StoreError> {
        self.commit();
        self.shared.poisoned().map_or(Ok(()), |reason| Err(StoreError::Closed(reason)))
    }

    fn write_group(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        if let Err(failed) = self.write_blocks() {
            if failed.changed_nothing() {
                let reason = format!("writing: {}", failed.error);
                self.shared.set_health(StoreHealth::DiskNearlyFull(reason.clone()));
                return Err(StoreError::DiskNearlyFull(reason));
            }
            return Err(StoreError::Unknown(format!("writing: {}", failed.error)));
        }
        self.shared.files.sync(self.active.file()).map_err(|error| StoreError::Unknown(format!("syncing: {error}")))?;
        self.shared.counters.synced(began.elapsed(), self.group.bodies.len(), self.group.entries, self.group.bytes);
        Ok(())
    }

    fn write_blocks(&mut self) -> Result<(), WriteFailed> {
        let file = self.active.file();
        let blocks = self.group.headers.iter().zip(&self.group.bodies);
        match &mut self.pages {
            Some(pages) if file.takes_pages() => pages.append(file, blocks.flat_map(|(header, body)| [&header[..], body])),
            _ => {
                let mut parts: Vec<IoSlice<'_>> = blocks.flat_map(|(header, body)| [IoSlice::new(header), IoSlice::new(body)]).collect();
                write_all(file, &mut parts, self.end)
            }
        }
    }

    /// Nothing the group promised is known to hold.
    fn fail(&mut self, error: StoreError) {
        if let StoreError::Unknown(reason) = &error {
            // A second sync may report success for pages the first one lost: never retry.
            self.poison(reason);
        }
        for outcome in &mut self.outcomes {
            outcome.fail(&error);
        }
    }

    fn poison(&mut self, reason: &str) -> StoreError {
        self.shared.set_health(StoreHealth::Poisoned(reason.to_owned()));
        StoreError::Closed(reason.to_owned())
    }

    fn publish(&mut self) {
        let generation = self.active.generation();
        let mut deleted = false;
        let mut index = self.shared.index();
        for change in self.group.changes.drain(..) {
            match change {
                Change::Entries { entries, body_at } => {
                    // Entries of a block follow each other in their ledger.
                    for run in entries.chunk_by(|a, b| a.at.ledger == b.at.ledger) {
                        let extents = run.iter().map(|entry| extent(entry, body_at));
                        index.add_entries(run[0].at.ledger.0, run[0].at.entry.0, extents, generation);
                    }
                }
                Change::Moved { entries, body_at } => {
                    for entry in &entries {
                        index.move_entry(entry.at.ledger.0, entry.at.entry.0, extent(entry, body_at), generation);
                    }
                }
                Change::State(id, state) => index.set_state(id, state, generation),
                Change::Deleted(id) => {
                    index.delete(id, generation);
                    deleted = true;
                }
            }
        }
        drop(index);
        if deleted {
            self.shared.wake_compactor();
        }
    }

    fn complete(&mut self) {
        for outcome in self.outcomes.drain(..) {
            outcome.report();
        }
    }

    fn check_space(&mut self) {
        let due = self.space_checked.is_none_or(|at| at.elapsed() >= SPACE_CHECK);
        if due || self.shared.nearly_full().is_some() {
            self.shared.check_space();
            self.space_checked = Some(Instant::now());
        }
    }
}

fn extent(entry: &BlockEntry, body_at: u32) -> Extent {
    Extent { offset: body_at + entry.offset - RECORD_HEADER as u32, len: entry.len }
}

/// Segments are at most two gigabytes, but for one that holds a single block of at most one.
fn offset(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
