//! What the best possible policy would have served: the yardstick for all others.
//!
//! Each pair of times at which an entry is at hand, at its publishing or at a read, and then read, is an interval that holds the entry's
//! bytes. A cache is a choice of intervals that never hold more than its capacity. For entries of one size the most intervals are kept by
//! dropping the one that ends last whenever there are too many (Belady's MIN, which may also not take an entry in at all). For mixed sizes
//! that is a problem without a fast answer, so there are two bounds (after Berger, Beckmann and Harchol-Balter, "Practical Bounds on
//! Optimal Caching with Variable Object Sizes", 2018): the cheapest intervals while bytes times time last, which no policy exceeds, and
//! choices that a policy could make.

use std::collections::{BinaryHeap, HashMap};

use super::policies::order::PageMap;
use super::policy::{PAGE_ENTRIES, PageSize};
use super::replay::{Sizes, ratio};
use super::trace::{Cause, Record, Timed};

/// The bounds of a trace at one capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Entries read.
    pub reads: u64,
    /// What an infinite cache serves: only the first read of what was not published in this life of the broker misses.
    pub infinite: u64,
    /// No policy serves more than this.
    pub upper: u64,
    /// Some policy could serve this; the same as `upper` when all entries are of one size.
    pub lower: u64,
    /// Whether they are.
    pub exact: bool,
}

impl Bounds {
    /// The share of reads that an infinite cache serves.
    #[must_use]
    pub fn infinite_ratio(&self) -> f64 {
        ratio(self.infinite, self.reads)
    }

    /// The share of reads that no policy exceeds.
    #[must_use]
    pub fn upper_ratio(&self) -> f64 {
        ratio(self.upper, self.reads)
    }

    /// The share of reads that some policy could serve.
    #[must_use]
    pub fn lower_ratio(&self) -> f64 {
        ratio(self.lower, self.reads)
    }

    /// How much of the way from `from` to the optimum a policy with `hits` goes; 1 where there is no way to go. The upper bound counts as
    /// the optimum, so with mixed sizes this is too modest.
    #[must_use]
    pub fn captured(&self, from: u64, hits: u64) -> f64 {
        if self.upper <= from { 1.0 } else { (hits as f64 - from as f64) / (self.upper - from) as f64 }
    }
}

/// An entry at hand after record `start` and read by record `end`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u32,
    end: u32,
    bytes: u32,
}

/// The bounds of a trace with so many bytes of cache.
#[must_use]
pub fn bounds(trace: &[Timed], capacity: u64) -> Bounds {
    let (reads, intervals) = intervals(trace);
    let infinite = intervals.len() as u64;
    let fitting: Vec<Interval> = intervals.into_iter().filter(|one| u64::from(one.bytes) <= capacity && capacity > 0).collect();
    let exact = fitting.windows(2).all(|pair| pair[0].bytes == pair[1].bytes);
    let reachable = farthest_dropped(&fitting, capacity);
    if exact {
        return Bounds { reads, infinite, upper: reachable, lower: reachable, exact };
    }
    let mut cheapest = fitting;
    cheapest.sort_by_key(|one| (u64::from(one.end - one.start) * u64::from(one.bytes), one.end));
    let upper = while_area_lasts(&cheapest, capacity, trace.len());
    let lower = while_there_is_room(&cheapest, capacity, trace.len()).max(reachable);
    Bounds { reads, infinite, upper, lower, exact }
}

/// All intervals of a trace in order of their ends, and how many entries were read.
fn intervals(trace: &[Timed]) -> (u64, Vec<Interval>) {
    let mut sizes = Sizes::default();
    let mut at_hand = AtHand::default();
    let (mut reads, mut found) = (0, Vec::new());
    for (now, (_, record)) in (0u32..).zip(trace) {
        match record {
            Record::Published { topic, first, sizes: row } => {
                sizes.learn(*topic, *first, row);
                for (entry, _) in (*first..).zip(row) {
                    at_hand.since(*topic, entry, now);
                }
            }
            Record::Read { topic, first, count, bytes, .. } => {
                reads += u64::from(*count);
                let each = bytes / u64::from(*count).max(1);
                for entry in *first..first.saturating_add(u64::from(*count)) {
                    if let Some(start) = at_hand.since(*topic, entry, now) {
                        found.push(Interval { start, end: now, bytes: sizes.of(*topic, entry, each) });
                    }
                }
            }
            Record::Invalidated { topic, cause: Cause::Closed, .. } => at_hand.forget(*topic, 0, u64::MAX),
            Record::Invalidated { topic, first, until, .. } => at_hand.forget(*topic, *first, *until),
            Record::Restart => at_hand = AtHand::default(),
            _ => {}
        }
    }
    (reads, found)
}

/// By entry: the record after which it was last at hand.
#[derive(Default)]
struct AtHand {
    pages: PageMap<[u32; PAGE_ENTRIES as usize]>,
    /// Page numbers by topic, for invalidations.
    numbers: HashMap<u32, std::collections::BTreeSet<u64>>,
}

const NEVER: u32 = u32::MAX;

impl AtHand {
    /// Notes that an entry is at hand now, and says since when it was.
    fn since(&mut self, topic: u32, entry: u64, now: u32) -> Option<u32> {
        let page = PageSize::FULL.page(topic, entry);
        let slots = self.pages.entry(page).or_insert_with(|| {
            self.numbers.entry(topic).or_default().insert(page.number);
            [NEVER; PAGE_ENTRIES as usize]
        });
        let before = std::mem::replace(&mut slots[PageSize::FULL.slot(entry)], now);
        (before != NEVER).then_some(before)
    }

    fn forget(&mut self, topic: u32, first: u64, until: u64) {
        if first >= until {
            return;
        }
        let range = PageSize::FULL.page(topic, first).number..=PageSize::FULL.page(topic, until - 1).number;
        let numbers = self.numbers.get(&topic).map(|numbers| numbers.range(range).copied().collect::<Vec<_>>());
        for number in numbers.unwrap_or_default() {
            let page = super::policy::Page { topic, number };
            let base = PageSize::FULL.first(page);
            if let Some(slots) = self.pages.get_mut(&page) {
                (base..).zip(slots).filter(|(entry, _)| (first..until).contains(entry)).for_each(|(_, slot)| *slot = NEVER);
            }
        }
    }
}

/// Keeps everything, and drops what ends last while there is too much.
fn farthest_dropped(intervals: &[Interval], capacity: u64) -> u64 {
    let mut by_start: Vec<u32> = (0..intervals.len() as u32).collect();
    by_start.sort_by_key(|&index| intervals[index as usize].start);
    let mut kept = vec![false; intervals.len()];
    let mut by_end: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut used, mut hits, mut ended) = (0, 0, 0);
    for group in by_start.chunk_by(|&a, &b| intervals[a as usize].start == intervals[b as usize].start) {
        let Some(now) = group.first().map(|&index| intervals[index as usize].start) else { break };
        while let Some(one) = intervals.get(ended).filter(|one| one.end <= now) {
            if std::mem::take(&mut kept[ended]) {
                used -= u64::from(one.bytes);
                hits += 1;
            }
            ended += 1;
        }
        for &index in group {
            kept[index as usize] = true;
            used += u64::from(intervals[index as usize].bytes);
            by_end.push((intervals[index as usize].end, index));
        }
        while used > capacity {
            let Some((_, index)) = by_end.pop() else { break };
            if std::mem::take(&mut kept[index as usize]) {
                used -= u64::from(intervals[index as usize].bytes);
            }
        }
    }
    hits + kept.iter().filter(|kept| **kept).count() as u64
}

/// Takes intervals while capacity times all of time is not used up.
fn while_area_lasts(cheapest: &[Interval], capacity: u64, records: usize) -> u64 {
    let mut left = u128::from(capacity) * records as u128;
    let mut taken = 0;
    for one in cheapest {
        let area = u128::from(one.end - one.start) * u128::from(one.bytes);
        if area > left {
            // Part of an interval would still be served, in part: a bound counts it whole.
            return taken + 1;
        }
        left -= area;
        taken += 1;
    }
    taken
}

/// Takes intervals for which there is room at each moment.
fn while_there_is_room(cheapest: &[Interval], capacity: u64, records: usize) -> u64 {
    let mut room = Room::new(records);
    cheapest.iter().filter(|one| room.take(one.start as usize, one.end as usize, u64::from(one.bytes), capacity)).count() as u64
}

/// Bytes used at each moment: a tree of the most below, with what was added to all below.
struct Room {
    leaves: usize,
    most: Vec<u64>,
    added: Vec<u64>,
}

impl Room {
    fn new(moments: usize) -> Room {
        let leaves = moments.next_power_of_two().max(1);
        Room { leaves, most: vec![0; leaves * 2], added: vec![0; leaves * 2] }
    }

    fn take(&mut self, from: usize, to: usize, bytes: u64, capacity: u64) -> bool {
        let fits = self.most_in(1, 0, self.leaves, from, to) + bytes <= capacity;
        if fits {
            self.add(1, 0, self.leaves, from, to, bytes);
        }
        fits
    }

    fn most_in(&self, node: usize, begin: usize, end: usize, from: usize, to: usize) -> u64 {
        if from >= end || to <= begin {
            return 0;
        }
        if from <= begin && end <= to {
            return self.most[node];
        }
        let middle = usize::midpoint(begin, end);
        let below = self.most_in(node * 2, begin, middle, from, to).max(self.most_in(node * 2 + 1, middle, end, from, to));
        below + self.added[node]
    }

    fn add(&mut self, node: usize, begin: usize, end: usize, from: usize, to: usize, bytes: u64) {
        if from >= end || to <= begin {
            return;
        }
        if from <= begin && end <= to {
            self.most[node] += bytes;
            self.added[node] += bytes;
            return;
        }
        let middle = usize::midpoint(begin, end);
        self.add(node * 2, begin, middle, from, to, bytes);
        self.add(node * 2 + 1, middle, end, from, to, bytes);
        self.most[node] = self.most[node * 2].max(self.most[node * 2 + 1]) + self.added[node];
    }
}

#[cfg(test)]
mod tests;
