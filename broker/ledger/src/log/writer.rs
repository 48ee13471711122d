//! Group commit: everything that waited during the last sync is written at once, synced once, and only then reported.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Shared;
use super::files::is_full;
use super::flight::{Flight, Landings};
use super::format::{BLOCK_HEADER, BlockHeader, Kind, LedgerRecord, RECORD_HEADER, SEGMENT_HEADER, SegmentHeader, TRAILER, put_record};
use super::group::{Change, Controls, Group, Op, Outcome, Stage, Staged, refused};
use super::landing::{Lander, Landing};
use super::pages::Pages;
use super::rhythm::Rhythm;
use super::segment::{Footer, Segment};
use crate::{Block, EntryId, LedgerId, Purpose, Sealed, StoreError, StoreHealth};

/// The one thread that writes. It owns the end of the log.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    active: Arc<Segment>,
    /// Where the next block goes.
    end: u64,
    /// The pages it goes to, if the segment is written in pages.
    pages: Option<Pages>,
    /// Whether pages of the group were sent to be written.
    sent: bool,
    next_ledger: i64,
    stage: Stage,
    group: Group,
    controls: Controls,
    outcomes: Vec<Outcome>,
    /// Bytes that the group took from the queue.
    queued: usize,
    lander: Lander,
    flight: Flight,
    /// Records of the group in flight, which the index does not count yet.
    records_in_flight: usize,
    space_checked: Option<Instant>,
}

/// How often the free space is looked at while the log is written to.
const SPACE_CHECK: Duration = Duration::from_millis(500);
/// The most that is copied together before it is written: enough for the disk, little enough for a processor's cache.
const GATHERED: u64 = 512 << 10;
/// A record needs at most this much of the footer, whatever becomes of it.
const FOOTER_PER_RECORD: u64 = 112;

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, active: Arc<Segment>, end: u64, next_ledger: i64) -> io::Result<Writer> {
        let room = (shared.options.segment_bytes / 4).min(GATHERED) as usize;
        let mut writer = Writer {
            lander: Lander::new(shared.clone()),
            flight: Flight::new(room, Lander::new(shared.clone())),
            shared,
            active,
            end,
            pages: None,
            sent: false,
            next_ledger,
            stage: Stage::default(),
            group: Group::default(),
            controls: Controls::default(),
            outcomes: Vec::new(),
            queued: 0,
            records_in_flight: 0,
            space_checked: None,
        };
        writer.go_on()?;
        Ok(writer)
    }

    /// What a second thread is to run, so that large groups are written and synced while the next one gathers.
    pub(crate) fn landings(&mut self) -> Option<Landings> {
        self.flight.landings()
    }

    /// Works until the log is closed.
    pub(crate) fn run(mut self) {
        let mut ops = VecDeque::new();
        let mut rhythm = Rhythm::new(self.shared.options.group_interval, Instant::now());
        while self.shared.queue.wait() {
            if !self.has_gathered()
                && let Some(wait) = rhythm.wait(Instant::now())
            {
                std::thread::sleep(wait);
            }
            self.shared.queue.take_now(&mut ops);
            if self.has_gathered() {
                rhythm.go_on(ops.len());
            } else {
                rhythm.begin(Instant::now(), ops.len());
            }
            self.take_all(&mut ops);
            // What comes until the group in flight has landed is part of the next one.
            if self.has_gathered() && self.flight.has_landed_or_tells() {
                self.commit();
            }
        }
        self.commit();
        self.settle();
    }

    /// Does everything in `ops`.
    pub(crate) fn turn(&mut self, ops: &mut VecDeque<Op>) {
        self.take_all(ops);
        self.commit();
        self.settle();
    }

    fn take_all(&mut self, ops: &mut VecDeque<Op>) {
        self.check_space();
        for op in ops.drain(..) {
            let bytes = op.bytes();
            self.take(op);
            self.queued += bytes;
        }
    }

    fn has_gathered(&self) -> bool {
        self.group.blocks > 0 || self.controls.records > 0 || !self.outcomes.is_empty()
    }

    fn take(&mut self, op: Op) {
        if let Some(reason) = self.shared.poisoned() {
            self.give_up(&reason);
            op.refuse(StoreError::Closed(reason));
            return;
        }
        // What decides by the index wants to see all of it.
        if !matches!(op, Op::Append(..) | Op::Create(..) | Op::Close) {
            self.settle();
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
        self.stage.set(id, Staged { purpose, sealed: None, last: -1, bytes: 0, deleted: false });
        self.group.changes.push(Change::State(id, state));
        Ok(LedgerId(id))
    }

    fn append(&mut self, block: Block) -> Result<(), StoreError> {
        if block.entries.is_empty() {
            return Ok(());
        }
        self.fits_the_engine(&block)?;
        if self.group.bytes > 0 && self.group.bytes + block.bytes.len() as u64 > self.shared.options.group_bytes as u64 {
            self.commit();
            self.is_alive()?;
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
            let Some(ledger) = self.stage.view(&index, id.0) else {
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
                self.stage.set(id, ledger);
            }
        }
        result
    }

    fn end(&mut self, id: LedgerId, fence: bool) -> Result<Sealed, StoreError> {
        // Room first: making it may commit the group, and what is staged goes with it.
        self.make_control_room(1)?;
        let staged = {
            let index = self.shared.index();
            *self.stage.view(&index, id.0).ok_or(StoreError::NoSuchLedger(id))?
        };
        match staged.sealed {
            Some(sealed) if fence => return Ok(sealed),
            Some(_) => return Err(StoreError::Fenced(id)),
            None => {}
        }
        let sealed = Sealed { last: EntryId(staged.last), bytes: staged.bytes };
        let state = LedgerRecord { purpose: staged.purpose, sealed: Some(sealed) };
        self.control(Kind::Ledger, id.0, state.entry(), &state.encode())?;
        self.stage.set(id.0, Staged { sealed: Some(sealed), ..staged });
        self.group.changes.push(Change::State(id.0, state));
        Ok(sealed)
    }

    fn delete(&mut self, ledgers: &[LedgerId]) -> Result<(), StoreError> {
        for LedgerId(id) in ledgers {
            self.make_control_room(1)?;
            let staged = {
                let index = self.shared.index();
                self.stage.view(&index, *id).copied()
            };
            let Some(staged) = staged else { continue };
            self.control(Kind::Deleted, *id, 0, &[])?;
            self.stage.set(*id, Staged { deleted: true, ..staged });
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
                    && self.stage.get(id).is_none_or(|s| !s.deleted && (s.purpose == Purpose::Data || s.last == number));
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
                self.stage.view(&index, id).copied()
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
        let header = header.encode(self.active.stamp());
        self.group.blocks += 1;
        self.group.bytes += (BLOCK_HEADER + body.len()) as u64;
        self.group.records += records as usize;
        if self.pages.is_some() {
            self.copy(&header);
            self.copy(&body);
        } else {
            self.group.headers.push(header);
            self.group.bodies.push(body);
        }
        offset(body_at)
    }

    /// Copies a part of the group into pages; full ones are sent ahead.
    fn copy(&mut self, mut part: &[u8]) {
        while let Some(pages) = self.pages.as_mut().filter(|_| !part.is_empty()) {
            part = pages.fill(part);
            if pages.is_full() {
                self.send_pages();
            }
        }
    }

    fn send_pages(&mut self) {
        let Some(full) = self.pages.take() else { return };
        let mut next = self.flight.buffer();
        next.follow(&full);
        self.flight.write(self.active.clone(), full);
        self.pages = Some(next);
        self.sent = true;
    }

    fn make_control_room(&mut self, records: usize) -> Result<(), StoreError> {
        self.make_room((records * (RECORD_HEADER + super::format::STATE_PAYLOAD)) as u64, records)
    }

    /// Sees to it that a block with a body of `bytes` fits the segment, with its footer.
    fn make_room(&mut self, bytes: u64, records: usize) -> Result<(), StoreError> {
        if self.has_room(bytes, records) {
            return Ok(());
        }
        self.commit();
        self.settle();
        self.is_alive()?;
        if self.has_room(bytes, records) {
            return Ok(());
        }
        let needed = (SEGMENT_HEADER + BLOCK_HEADER + TRAILER + 64) as u64 + bytes + records as u64 * FOOTER_PER_RECORD;
        self.roll(needed)
    }

    fn has_room(&self, bytes: u64, records: usize) -> bool {
        let pending = self.records_in_flight + self.group.records + self.controls.records as usize + records;
        let pending = pending as u64 * FOOTER_PER_RECORD;
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
        let pages = self.pages.take();
        if !self.active.takes_pages() {
            pages.into_iter().for_each(|pages| self.flight.give_back(pages));
            return Ok(());
        }
        let pages = self.pages.insert(pages.unwrap_or_else(|| self.flight.buffer()));
        pages.go_on(self.active.file(), self.end)
    }

    /// Sends the group on its way: it is durable and every outcome reported, in order, once it has landed. A small one that has no other
    /// in front of it has landed already when this returns, since a second thread would only cost.
    fn commit(&mut self) {
        self.flush_controls();
        if self.group.blocks == 0 {
            self.settle();
            self.stage.clear();
            return self.complete();
        }
        let mut landing = Landing {
            segment: self.active.clone(),
            group: std::mem::take(&mut self.group),
            outcomes: std::mem::take(&mut self.outcomes),
            queued: std::mem::take(&mut self.queued),
        };
        let bytes = landing.group.bytes;
        if self.sent || (self.pages.is_some() && !self.flight.has_landed()) {
            self.send_pages();
            self.sent = false;
            self.settle();
            self.stage.depart();
            self.records_in_flight = landing.group.records;
            self.end += bytes;
            return self.flight.land(landing);
        }
        self.settle();
        match &mut self.pages {
            Some(pages) => {
                self.lander.write(&self.active, pages);
                pages.keep_last_page();
            }
            None => self.lander.write_cached(&self.active, &landing.group, self.end),
        }
        if self.lander.land(&mut landing) {
            self.end += bytes;
        }
        self.stage.clear();
        (self.group, self.outcomes) = (landing.group, landing.outcomes);
    }

    /// Waits until nothing is in flight: then the index knows all that was sent.
    fn settle(&mut self) {
        self.flight.until_landed();
        self.stage.land();
        self.records_in_flight = 0;
    }

    fn is_alive(&self) -> Result<(), StoreError> {
        self.shared.poisoned().map_or(Ok(()), |reason| Err(StoreError::Closed(reason)))
    }

    /// Nothing that the group promised will be.
    fn give_up(&mut self, reason: &str) {
        self.settle();
        self.sent = false;
        self.group.clear();
        self.controls = Controls::default();
        self.stage.clear();
        for outcome in &mut self.outcomes {
            outcome.fail(&StoreError::Closed(reason.to_owned()));
        }
        self.complete();
    }

    fn poison(&mut self, reason: &str) -> StoreError {
        self.shared.poison(reason);
        StoreError::Closed(reason.to_owned())
    }

    fn complete(&mut self) {
        self.shared.queue.done(std::mem::take(&mut self.queued));
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

/// Segments are at most two gigabytes, but for one that holds a single block of at most one.
fn offset(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
