//! Which entries there are and where they lie: in memory for the segment being written, by reference to footers for full ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::footer::Directory;
use super::format::{Extent, LedgerRecord, STATE_PAYLOAD};
use super::ids::IdMap;
use super::runs::{Ledger, Place, Run, extend};
use super::segment::{Footer, Segment};
use crate::{EntryId, LedgerId, Purpose, ReadRange, StoreError};

/// Everything a reader needs to find entries, and everything the compactor needs to find space.
///
/// Only durable things are in it. The writer changes it after its sync; readers and the compactor look things up.
#[derive(Default)]
pub(crate) struct Index {
    pub(crate) ledgers: IdMap<Ledger>,
    pub(crate) segments: BTreeMap<u64, SegmentState>,
    deleted: IdMap<Tombstone>,
    /// Parts the footer of the segment being written will have, and records it will list.
    open_parts: usize,
    open_entries: usize,
    open_tombstones: usize,
}

/// A segment and what of it is needed.
pub(crate) struct SegmentState {
    pub(crate) segment: Arc<Segment>,
    /// Bytes of records that must not be lost.
    pub(crate) live: u64,
    /// Takes no more blocks.
    pub(crate) full: bool,
    /// The ledgers it mentions, dead ones too; ascending once full.
    pub(crate) mentions: Vec<i64>,
    /// A record in it could not be read: it stays as it is.
    pub(crate) damaged: bool,
}

/// A deleted ledger of which older segments still hold something.
struct Tombstone {
    home: u64,
    /// Segments beside its home that mention the ledger.
    others: usize,
}

/// What one run contributes to a read.
pub(crate) struct Planned {
    pub(crate) segment: Arc<Segment>,
    pub(crate) first: i64,
    pub(crate) count: usize,
    pub(crate) place: Place,
    pub(crate) run_first: i64,
}

const STATE_COST: u64 = cost_of(STATE_PAYLOAD);
const TOMBSTONE_COST: u64 = cost_of(0);

const fn cost_of(payload: usize) -> u64 {
    (super::format::RECORD_HEADER + payload) as u64
}

impl Index {
    /// Adds a segment; `live` is counted as its content is made known.
    pub(crate) fn add_segment(&mut self, segment: Arc<Segment>) {
        let state = SegmentState { live: 0, full: false, mentions: Vec::new(), damaged: false, segment };
        self.segments.insert(state.segment.generation(), state);
    }

    /// A ledger was created, or its state was written again, in `home`.
    pub(crate) fn set_state(&mut self, id: i64, state: LedgerRecord, home: u64) {
        let ledger = self.ledgers.entry(id).or_insert_with(|| Ledger {
            purpose: state.purpose,
            sealed: None,
            last: -1,
            bytes: 0,
            home: 0,
            touched: 0,
            runs: Vec::new(),
        });
        ledger.purpose = state.purpose;
        if state.sealed.is_some() {
            ledger.sealed = state.sealed;
        }
        let before = std::mem::replace(&mut ledger.home, home);
        sub_live(&mut self.segments, before, STATE_COST);
        add_live(&mut self.segments, home, STATE_COST);
        self.mention(id, home);
    }

    /// Remembers that `segment` holds something of `id`.
    pub(crate) fn mention(&mut self, id: i64, segment: u64) {
        let Some(ledger) = self.ledgers.get_mut(&id) else { return };
        if ledger.touched != segment {
            ledger.touched = segment;
            if let Some(state) = self.segments.get_mut(&segment) {
                state.mentions.push(id);
            }
        }
    }

    /// Consecutive entries of `id`, from `first` on, became durable at these places of the segment being written.
    pub(crate) fn add_entries(&mut self, id: i64, first: i64, extents: impl ExactSizeIterator<Item = Extent>, segment: u64) {
        let Some(ledger) = self.ledgers.get_mut(&id) else { return };
        let state = self.segments.get_mut(&segment);
        debug_assert!(state.is_some(), "the segment being written is known");
        if let Some(state) = state
            && ledger.touched != segment
        {
            ledger.touched = segment;
            state.mentions.push(id);
        }
        let (mut cost, mut left) = (0, extents.len());
        for (entry, extent) in (first..).zip(extents) {
            left -= 1;
            ledger.bytes += u64::from(extent.len);
            ledger.last = ledger.last.max(entry);
            // Of a cursor only the last entry is live.
            if ledger.purpose == Purpose::Cursor {
                if left > 0 {
                    continue;
                }
                if let Some(old) = ledger.runs.pop() {
                    sub_live(&mut self.segments, old.segment, old.cost());
                    if old.segment == segment {
                        self.open_parts = self.open_parts.saturating_sub(1);
                        self.open_entries = self.open_entries.saturating_sub(1);
                    }
                }
            }
            cost += extent.cost();
            if !extend(ledger.runs.last_mut(), entry, extent, segment) {
                ledger.runs.push(Run::of(entry, extent, segment));
                self.open_parts += 1;
            }
            self.open_entries += 1;
        }
        add_live(&mut self.segments, segment, cost);
    }

    /// An entry was written again, to the segment being written, so that the segment it lay in can go.
    /// False if it is not live in a full segment any more: then the new copy is dead.
    pub(crate) fn move_entry(&mut self, id: i64, entry: i64, extent: Extent, segment: u64) -> bool {
        self.mention(id, segment);
        let Some(ledger) = self.ledgers.get_mut(&id) else { return false };
        let Some(at) = ledger.find(entry).filter(|at| ledger.runs[*at].segment != segment) else { return false };
        let from = ledger.runs[at].segment;
        ledger.cut(at, entry, extent.len);
        let next = ledger.runs.partition_point(|run| run.first < entry);
        let before = next.checked_sub(1).and_then(|before| ledger.runs.get_mut(before));
        if !extend(before, entry, extent, segment) {
            ledger.runs.insert(next, Run::of(entry, extent, segment));
            self.open_parts += 1;
        }
        self.open_entries += 1;
        sub_live(&mut self.segments, from, extent.cost());
        add_live(&mut self.segments, segment, extent.cost());
        true
    }

    /// The segment in which the entry lies.
    pub(crate) fn segment_of(&self, id: i64, entry: i64) -> Option<u64> {
        let ledger = self.ledgers.get(&id)?;
        Some(ledger.runs[ledger.find(entry)?].segment)
    }

    /// Forgets a ledger; its tombstone lies in `home`.
    pub(crate) fn delete(&mut self, id: i64, home: u64) {
        if let Some(ledger) = self.ledgers.remove(&id) {
            sub_live(&mut self.segments, ledger.home, STATE_COST);
            for run in &ledger.runs {
                sub_live(&mut self.segments, run.segment, run.cost());
                if self.segments.get(&run.segment).is_some_and(|state| !state.full) {
                    self.open_parts = self.open_parts.saturating_sub(1);
                    self.open_entries = self.open_entries.saturating_sub(run.count as usize);
                }
            }
            // A footer that is written later must still say that this ledger was here.
            if ledger.touched != home
                && let Some(state) = self.segments.get_mut(&home)
            {
                state.mentions.push(id);
            }
        }
        self.bury(id, home);
    }

    /// A tombstone of `id` lies in `home`.
    pub(crate) fn bury(&mut self, id: i64, home: u64) {
        let others = self.others(id, home);
        if let Some(old) = self.deleted.remove(&id) {
            sub_live(&mut self.segments, old.home, TOMBSTONE_COST);
        }
        if others > 0 {
            add_live(&mut self.segments, home, TOMBSTONE_COST);
            self.deleted.insert(id, Tombstone { home, others });
            self.open_tombstones += 1;
        }
    }

    fn others(&self, id: i64, home: u64) -> usize {
        let mentions =
            |state: &SegmentState| if state.full { state.mentions.binary_search(&id).is_ok() } else { state.mentions.contains(&id) };
        self.segments.iter().filter(|(generation, state)| **generation != home && mentions(state)).count()
    }

    /// Ledgers whose newest state record, and deleted ledgers whose tombstone, lie in `segment`.
    pub(crate) fn homed(&self, segment: u64) -> (Vec<i64>, Vec<i64>) {
        let states = self.ledgers.iter().filter(|(_, ledger)| ledger.home == segment).map(|(id, _)| *id);
        let tombs = self.deleted.iter().filter(|(_, tomb)| tomb.home == segment).map(|(id, _)| *id);
        (states.collect(), tombs.collect())
    }

    /// Whether a tombstone of the ledger must be kept.
    pub(crate) fn is_buried(&self, id: i64) -> bool {
        self.deleted.contains_key(&id)
    }

    /// A segment's file is durably gone: tombstones it was the last reason for are not needed any more.
    pub(crate) fn segment_gone(&mut self, mentions: &[i64]) {
        for id in mentions {
            if let Some(tomb) = self.deleted.get_mut(id) {
                tomb.others = tomb.others.saturating_sub(1);
                if tomb.others == 0 {
                    let home = tomb.home;
                    self.deleted.remove(id);
                    sub_live(&mut self.segments, home, TOMBSTONE_COST);
                }
            }
        }
    }

    /// The most bytes the footer of the segment being written can take.
    pub(crate) fn footer_room(&self, segment: u64) -> u64 {
        let mentions = self.segments.get(&segment).map_or(0, |state| state.mentions.len());
        // An extent takes at most ten bytes; a part 40 in the directory and 4 of its own; a mention 8, a state 32, a tombstone 8.
        (10 * self.open_entries + 44 * self.open_parts + 40 * mentions + 8 * self.open_tombstones + 16 + super::format::TRAILER) as u64
    }

    /// The footer of the segment being written, and per run where its part will be.
    pub(crate) fn footer(&mut self, segment: u64) -> Footer {
        let Some(state) = self.segments.get_mut(&segment) else { return Footer::default() };
        state.mentions.sort_unstable();
        state.mentions.dedup();
        let stamp = state.segment.stamp();
        let mut footer = Footer::default();
        for id in &state.mentions {
            footer.directory.mentions.push(*id);
            let Some(ledger) = self.ledgers.get(id) else { continue };
            if ledger.home == segment {
                footer.directory.states.push((*id, LedgerRecord { purpose: ledger.purpose, sealed: ledger.sealed }));
            }
            for run in ledger.runs.iter().filter(|run| run.segment == segment) {
                if let Place::Memory(extents) = &run.place {
                    footer.add(stamp, *id, run.first, run.bytes, extents);
                }
            }
        }
        footer.directory.deleted.extend(self.deleted.iter().filter(|(_, tomb)| tomb.home == segment).map(|(id, _)| *id));
        footer
    }

    /// The segment being written is full and its footer durable: extents leave the memory.
    pub(crate) fn close_segment(&mut self, segment: u64, directory: &Directory) {
        for record in &directory.runs {
            let Some(ledger) = self.ledgers.get_mut(&record.ledger) else { continue };
            if let Some(run) = ledger.runs.iter_mut().find(|run| run.first == record.first && run.segment == segment) {
                run.place = Place::footer(record);
            }
            ledger.runs.shrink_to_fit();
        }
        if let Some(state) = self.segments.get_mut(&segment) {
            state.full = true;
            state.mentions.sort_unstable();
            state.mentions.dedup();
            state.mentions.shrink_to_fit();
        }
        self.open_parts = 0;
        self.open_entries = 0;
        self.open_tombstones = 0;
    }

    /// What to read for `range`.
    pub(crate) fn plan(&self, range: &ReadRange) -> Result<Vec<Planned>, StoreError> {
        let ledger = self.ledgers.get(&range.ledger.0).ok_or(StoreError::NoSuchLedger(range.ledger))?;
        let last = range.last.0.min(ledger.last);
        let mut wanted = range.max_entries.max(1);
        let mut next = range.from.0.max(0);
        let mut planned = Vec::new();
        let begin = ledger.runs.partition_point(|run| run.end() <= next);
        for run in ledger.runs.iter().skip(begin) {
            if run.first > last || wanted == 0 {
                break;
            }
            if run.first > next {
                if ledger.purpose == Purpose::Data {
                    // What was read before the hole is good; the next read will start at the hole and say so.
                    if planned.is_empty() {
                        return Err(missing(range.ledger, next));
                    }
                    break;
                }
                next = run.first;
            }
            let count = usize::try_from((last + 1).min(run.end()) - next).unwrap_or(0).min(wanted);
            let state = self.segments.get(&run.segment).ok_or_else(|| missing(range.ledger, next))?;
            planned.push(run.planned(state.segment.clone(), next, count));
            wanted -= count;
            next += i64::try_from(count).unwrap_or(i64::MAX);
        }
        if planned.is_empty() && next <= last && ledger.purpose == Purpose::Data {
            return Err(missing(range.ledger, next));
        }
        Ok(planned)
    }

    /// The live runs of a full segment, in entry order per ledger.
    pub(crate) fn live_runs(&self, segment: u64) -> Vec<(i64, Planned)> {
        let Some(state) = self.segments.get(&segment) else { return Vec::new() };
        let mut found = Vec::new();
        for id in &state.mentions {
            let Some(ledger) = self.ledgers.get(id) else { continue };
            for run in ledger.runs.iter().filter(|run| run.segment == segment) {
                found.push((*id, run.planned(state.segment.clone(), run.first, run.count as usize)));
            }
        }
        found
    }

    /// Recovery found consecutive entries of a ledger; newer copies are found later and win.
    pub(crate) fn recover_run(&mut self, id: i64, run: Run) {
        let Some(ledger) = self.ledgers.get_mut(&id) else { return };
        if ledger.purpose == Purpose::Cursor {
            // Only the last entry counts, wherever it lies.
            if ledger.last < run.end() {
                ledger.last = run.end() - 1;
                let skip = run.count - 1;
                ledger.runs = run.after(skip).into_iter().collect();
            }
            return;
        }
        ledger.last = ledger.last.max(run.end() - 1);
        ledger.uncover(run.first, run.end());
        let at = ledger.runs.partition_point(|other| other.first < run.first);
        ledger.runs.insert(at, run);
    }

    /// Recovery found that `segment` mentions these ledgers; `active` is the one that will be written to.
    pub(crate) fn recover_mentions(&mut self, segment: u64, mut mentions: Vec<i64>, active: Option<u64>) {
        mentions.sort_unstable();
        mentions.dedup();
        for id in &mentions {
            if let Some(ledger) = self.ledgers.get_mut(id) {
                ledger.touched = ledger.touched.max(segment);
            }
        }
        if let Some(state) = self.segments.get_mut(&segment) {
            state.mentions = mentions;
            state.full = Some(segment) != active;
        }
    }

    /// Counts what recovery put in, and says which ledgers lack what.
    pub(crate) fn settle(&mut self, active: Option<u64>, deleted: &[(i64, u64)]) -> Vec<(LedgerId, String)> {
        let mut damage = Vec::new();
        self.open_parts = 0;
        self.open_entries = 0;
        self.open_tombstones = 0;
        for (id, ledger) in &mut self.ledgers {
            if let Some(reason) = ledger.hole() {
                damage.push((LedgerId(*id), reason));
            }
            ledger.bytes = ledger.runs.iter().map(|run| run.bytes).sum();
            for run in &ledger.runs {
                add_live(&mut self.segments, run.segment, run.cost());
                if Some(run.segment) == active {
                    self.open_parts += 1;
                    self.open_entries += run.count as usize;
                }
            }
        }
        for (id, home) in deleted {
            self.bury(*id, *home);
        }
        damage.sort_unstable();
        damage
    }
}

fn add_live(segments: &mut BTreeMap<u64, SegmentState>, segment: u64, bytes: u64) {
    if let Some(state) = segments.get_mut(&segment) {
        state.live += bytes;
    }
}

fn sub_live(segments: &mut BTreeMap<u64, SegmentState>, segment: u64, bytes: u64) {
    if let Some(state) = segments.get_mut(&segment) {
        state.live = state.live.saturating_sub(bytes);
    }
}

fn missing(ledger: LedgerId, entry: i64) -> StoreError {
    StoreError::Damaged { ledger, entry: EntryId(entry), reason: "it is missing though later entries exist".into() }
}
