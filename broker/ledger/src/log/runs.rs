//! Where the entries of one ledger lie: runs of consecutive entries, each in one segment.

use std::sync::Arc;

use super::footer::RunRecord;
use super::format::{Extent, PART_ENTRIES, cost};
use super::index::Planned;
use super::segment::Segment;
use crate::{Purpose, Sealed};

/// A ledger that was not deleted.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) purpose: Purpose,
    pub(crate) sealed: Option<Sealed>,
    /// The last durable entry, or -1.
    pub(crate) last: i64,
    /// Payload bytes of all its entries.
    pub(crate) bytes: u64,
    /// The segment with the newest record of its state.
    pub(crate) home: u64,
    /// The newest segment that mentions it.
    pub(crate) touched: u64,
    /// In entry order, without overlaps; without holes unless the data is damaged.
    pub(crate) runs: Vec<Run>,
}

/// Consecutive entries in one segment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) first: i64,
    pub(crate) count: u32,
    pub(crate) segment: u64,
    /// Payload bytes.
    pub(crate) bytes: u64,
    pub(crate) place: Place,
}

impl Run {
    pub(crate) fn end(&self) -> i64 {
        self.first.saturating_add(i64::from(self.count))
    }

    pub(crate) fn cost(&self) -> u64 {
        self.bytes + u64::from(self.count) * cost(0)
    }
}

/// Where the extents of a run are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory(Vec<Extent>),
    /// In a part of the segment's footer that begins `skip` entries earlier.
    Footer {
        part_at: u32,
        part_len: u32,
        part_count: u32,
        skip: u32,
    },
}

impl Ledger {
    /// The run with the entry.
    pub(crate) fn find(&self, entry: i64) -> Option<usize> {
        let at = self.runs.partition_point(|run| run.first <= entry).checked_sub(1)?;
        (entry < self.runs[at].end()).then_some(at)
    }

    /// Takes one entry with a payload of `len` out of the run at `at`.
    pub(crate) fn cut(&mut self, at: usize, entry: i64, len: u32) {
        let run = self.runs.remove(at);
        let index = u32::try_from(entry - run.first).unwrap_or(u32::MAX);
        let bytes = run.bytes.saturating_sub(u64::from(len));
        let mut parts: Vec<Run> = run.before(index).into_iter().chain(run.after(index + 1)).collect();
        // A run in a footer does not know the sizes of its entries one by one; only the sum is needed, and it stays exact.
        if let [first, second] = parts.as_mut_slice() {
            let share = bytes * u64::from(first.count) / u64::from(first.count + second.count);
            (first.bytes, second.bytes) = match (first.known_bytes(), second.known_bytes()) {
                (Some(first), Some(second)) => (first, second),
                _ => (share, bytes - share),
            };
        } else if let [only] = parts.as_mut_slice() {
            only.bytes = bytes;
        }
        for part in parts.into_iter().rev() {
            self.runs.insert(at, part);
        }
    }

    /// Drops the parts of runs that lie in [first, end).
    pub(crate) fn uncover(&mut self, first: i64, end: i64) {
        let mut kept = Vec::with_capacity(self.runs.len() + 1);
        for run in self.runs.drain(..) {
            if run.end() <= first || run.first >= end {
                kept.push(run);
                continue;
            }
            let offset = |at: i64| u32::try_from((at - run.first).clamp(0, i64::from(run.count))).unwrap_or(0);
            let (bytes, count) = (run.bytes, u64::from(run.count));
            for part in [run.before(offset(first)), run.after(offset(end))].into_iter().flatten() {
                let share = part.known_bytes().unwrap_or(bytes * u64::from(part.count) / count);
                kept.push(Run { bytes: share, ..part });
            }
        }
        self.runs = kept;
    }

    pub(crate) fn hole(&self) -> Option<String> {
        let end = self.sealed.map_or(self.last, |sealed| sealed.last.0);
        if self.purpose == Purpose::Cursor {
            let present = self.runs.last().map_or(-1, |run| run.end() - 1);
            return (present < end).then(|| format!("the last entry {end} is missing"));
        }
        let mut next = 0;
        for run in &self.runs {
            if run.first != next {
                break;
            }
            next = run.end();
        }
        (next <= end).then(|| format!("entry {next} is missing, though entry {end} was written"))
    }
}

impl Run {
    /// A run of one entry.
    pub(crate) fn of(entry: i64, extent: Extent, segment: u64) -> Run {
        Run { first: entry, count: 1, segment, bytes: u64::from(extent.len), place: Place::Memory(vec![extent]) }
    }

    /// A run as a footer lists it.
    pub(crate) fn listed(record: &RunRecord, segment: u64) -> Run {
        Run { first: record.first, count: record.count, segment, bytes: record.bytes, place: Place::footer(record) }
    }

    pub(crate) fn planned(&self, segment: Arc<Segment>, from: i64, count: usize) -> Planned {
        let skip = usize::try_from(from - self.first).unwrap_or(0);
        let (place, run_first) = match &self.place {
            Place::Memory(extents) => (Place::Memory(extents.get(skip..skip + count).unwrap_or_default().to_vec()), from),
            Place::Footer { part_at, part_len, part_count, skip: before } => {
                let skip = before + u32::try_from(skip).unwrap_or(0);
                let place = Place::Footer { part_at: *part_at, part_len: *part_len, part_count: *part_count, skip };
                (place, self.first - i64::from(*before))
            }
        };
        Planned { segment, first: from, count, place, run_first }
    }

    /// The first `count` entries; the caller sets the bytes.
    pub(crate) fn before(&self, count: u32) -> Option<Run> {
        let place = match &self.place {
            Place::Memory(extents) => Place::Memory(extents.get(..count as usize)?.to_vec()),
            footer @ Place::Footer { .. } => footer.clone(),
        };
        (count > 0).then(|| Run { count, place, ..self.clone_plain() })
    }

    /// All but the first `skipped` entries; the caller sets the bytes.
    pub(crate) fn after(&self, skipped: u32) -> Option<Run> {
        let count = self.count.checked_sub(skipped).filter(|count| *count > 0)?;
        let place = match &self.place {
            Place::Memory(extents) => Place::Memory(extents.get(skipped as usize..)?.to_vec()),
            Place::Footer { part_at, part_len, part_count, skip } => {
                Place::Footer { part_at: *part_at, part_len: *part_len, part_count: *part_count, skip: skip + skipped }
            }
        };
        let mut run = Run { first: self.first + i64::from(skipped), count, place, ..self.clone_plain() };
        if let Some(bytes) = run.known_bytes() {
            run.bytes = bytes;
        } else if skipped > 0 {
            run.bytes = self.bytes * u64::from(count) / u64::from(self.count);
        }
        Some(run)
    }

    fn clone_plain(&self) -> Run {
        Run { place: Place::Memory(Vec::new()), ..*self }
    }

    fn known_bytes(&self) -> Option<u64> {
        match &self.place {
            Place::Memory(extents) => Some(extents.iter().map(|extent| u64::from(extent.len)).sum()),
            Place::Footer { .. } => None,
        }
    }
}

impl Place {
    pub(crate) fn footer(record: &RunRecord) -> Place {
        Place::Footer { part_at: record.part_at, part_len: record.part_len, part_count: record.count, skip: 0 }
    }
}

/// Puts an entry behind the last run if it follows there.
pub(crate) fn extend(run: Option<&mut Run>, entry: i64, extent: Extent, segment: u64) -> bool {
    let Some(run) = run else { return false };
    if run.segment != segment || run.end() != entry || run.count >= PART_ENTRIES {
        return false;
    }
    let Place::Memory(extents) = &mut run.place else { return false };
    extents.push(extent);
    run.count += 1;
    run.bytes += u64::from(extent.len);
    true
}
