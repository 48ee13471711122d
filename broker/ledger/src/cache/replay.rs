//! Runs a trace through a policy: what it would have served from the cache, and what storage would have had to read.
//!
//! The run is open: a miss does not slow its reader down. So it compares policies on the same reads and does not foretell a broker.

use std::collections::HashMap;

use super::host::{Host, HostCounts, HostLimits, ReadPurpose};
use super::policies::order::PageMap;
use super::policy::{EvictionPolicy, PAGE_ENTRIES, PageSize};
use super::trace::{Cause, Record, Timed};

/// Between two looks at what is too old.
const TICK_US: u64 = 10_000;

/// A gap in the trace is not filled with more looks than this.
const MOST_TICKS: u64 = 1000;

/// What a run gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Entries read.
    pub reads: u64,
    /// Of these, entries served from the cache.
    pub hits: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Of these, bytes served from the cache.
    pub hit_bytes: u64,
    /// Times storage was asked: a gap between cached entries is one.
    pub storage_reads: u64,
    /// Entries that storage gave.
    pub storage_entries: u64,
    /// Entries that the recording broker served from its cache.
    pub live_hits: u64,
    /// Most bytes held at any time.
    pub most_bytes: u64,
    /// What the host saw.
    pub counts: HostCounts,
}

impl Outcome {
    /// Entries served from the cache, as a share.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.reads)
    }

    /// Bytes served from the cache, as a share.
    #[must_use]
    pub fn byte_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.read_bytes)
    }
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Runs a trace with so many bytes of cache. `make` makes the policy, anew after each restart in the trace.
pub fn replay(trace: &[Timed], limits: HostLimits, make: &mut dyn FnMut(PageSize) -> Box<dyn EvictionPolicy>) -> Outcome {
    let mut run = Run {
        limits,
        host: Host::new(limits, make(limits.page)),
        sizes: Sizes::default(),
        cursors: Cursors::default(),
        ticked: 0,
        outcome: Outcome::default(),
        row: Vec::new(),
    };
    for (time, record) in trace {
        run.tick(*time);
        if *record == Record::Restart {
            run.add_counts();
            run.host = Host::new(limits, make(limits.page));
            run.cursors = Cursors::default();
        } else {
            run.record(*time / 1000, record);
        }
        run.outcome.most_bytes = run.outcome.most_bytes.max(run.host.used());
    }
    run.add_counts();
    run.outcome
}

/// The hit ratio's curve: a run for each capacity.
pub fn curve(
    trace: &[Timed],
    limits: HostLimits,
    capacities: &[u64],
    make: &mut dyn FnMut(PageSize) -> Box<dyn EvictionPolicy>,
) -> Vec<(u64, Outcome)> {
    capacities.iter().map(|&bytes| (bytes, replay(trace, HostLimits { bytes, ..limits }, make))).collect()
}

struct Run {
    limits: HostLimits,
    host: Host,
    sizes: Sizes,
    cursors: Cursors,
    ticked: u64,
    outcome: Outcome,
    row: Vec<u32>,
}

impl Run {
    fn add_counts(&mut self) {
        let (sum, counts) = (&mut self.outcome.counts, self.host.counts());
        sum.evicted += counts.evicted;
        sum.evicted_by_stand_in += counts.evicted_by_stand_in;
        sum.faults += counts.faults;
        sum.retired += counts.retired;
    }

    fn tick(&mut self, time: u64) {
        let gap = time.saturating_sub(self.ticked);
        let step = TICK_US.max(gap / MOST_TICKS);
        while time.saturating_sub(self.ticked) >= step {
            self.ticked += step;
            self.host.tick(self.ticked / 1000);
            self.host.take_evicted();
        }
    }

    fn record(&mut self, now: u64, record: &Record) {
        match record {
            Record::Published { topic, first, sizes } => {
                self.sizes.learn(*topic, *first, sizes);
                self.host.publish(now, *topic, *first, sizes);
            }
            Record::Read { topic, cursor, first, count, purpose, bytes, hits } => {
                let until = first.saturating_add(u64::from(*count));
                self.outcome.live_hits += hits.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
                let each = bytes / u64::from(*count).max(1);
                let whom = (*topic, self.cursors.of(*topic, *cursor));
                self.read(now, whom, (*first, until), *purpose, each);
            }
            Record::Cursor { topic, cursor, at, mark_delete, active } => {
                let cursor = self.cursors.of(*topic, *cursor);
                self.host.set_cursor(now, *topic, cursor, (*at, *mark_delete), *active);
            }
            Record::Moved { topic, cursor, at } => self.host.move_cursor(now, *topic, self.cursors.of(*topic, *cursor), *at),
            Record::MarkDeleted { topic, cursor, at } => self.host.mark_delete(now, *topic, self.cursors.of(*topic, *cursor), *at),
            Record::CursorGone { topic, cursor } => {
                let dense = self.cursors.of(*topic, *cursor);
                self.host.remove_cursor(now, *topic, dense);
            }
            Record::Invalidated { topic, first, until, cause } => {
                if *cause == Cause::Closed {
                    self.host.close(now, *topic);
                } else {
                    self.host.invalidate(now, *topic, (*first, *until));
                }
            }
            Record::Replay { topic, cursor, first, count, more } => {
                let range = (*first, first.saturating_add(u64::from(*count)));
                self.host.replay(now, *topic, self.cursors.of(*topic, *cursor), range, *more);
            }
            Record::Restart | Record::Lost(_) => {}
        }
    }

    fn read(&mut self, now: u64, whom: (u32, u32), range: (u64, u64), purpose: ReadPurpose, each: u64) {
        let (topic, cursor) = whom;
        let found = self.host.read(now, topic, cursor, range);
        self.outcome.reads += range.1 - range.0;
        self.outcome.hits += found.hits;
        self.outcome.hit_bytes += found.hit_bytes;
        self.outcome.read_bytes += found.hit_bytes;
        if purpose == ReadPurpose::Cursor {
            self.host.move_cursor(now, topic, cursor, range.1);
        }
        for (first, until) in found.gaps {
            self.outcome.storage_reads += 1;
            self.outcome.storage_entries += until - first;
            self.row.clear();
            self.row.extend((first..until).map(|entry| self.sizes.of(topic, entry, each)));
            self.outcome.read_bytes += self.row.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
            self.host.loaded(now, topic, cursor, purpose, (first, &self.row));
        }
        debug_assert!(self.host.used() <= self.limits.bytes);
    }
}

/// Cursors as dense numbers, whatever a trace calls them.
#[derive(Default)]
struct Cursors {
    dense: HashMap<(u32, u32), u32>,
    next: HashMap<u32, u32>,
}

impl Cursors {
    fn of(&mut self, topic: u32, cursor: u32) -> u32 {
        *self.dense.entry((topic, cursor)).or_insert_with(|| {
            let next = self.next.entry(topic).or_default();
            *next += 1;
            *next - 1
        })
    }
}

/// How large entries are, as far as the trace tells.
#[derive(Default)]
pub(super) struct Sizes(PageMap<[u32; PAGE_ENTRIES as usize]>);

/// An entry of which nothing is known.
const UNKNOWN: u32 = u32::MAX;

impl Sizes {
    pub(super) fn learn(&mut self, topic: u32, first: u64, sizes: &[u32]) {
        for (entry, &bytes) in (first..u64::MAX).zip(sizes) {
            let page = self.0.entry(PageSize::FULL.page(topic, entry)).or_insert([UNKNOWN; PAGE_ENTRIES as usize]);
            page[PageSize::FULL.slot(entry)] = bytes.min(UNKNOWN - 1);
        }
    }

    /// The size of an entry; `each`, the average of the read, if it was published before the trace began.
    pub(super) fn of(&self, topic: u32, entry: u64, each: u64) -> u32 {
        let known = self.0.get(&PageSize::FULL.page(topic, entry)).map(|page| page[PageSize::FULL.slot(entry)]);
        known.filter(|bytes| *bytes != UNKNOWN).unwrap_or_else(|| u32::try_from(each).unwrap_or(UNKNOWN - 1))
    }
}

#[cfg(test)]
mod tests;
