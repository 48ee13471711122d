//! Which entries are held and where cursors are: what the host knows, whatever a policy remembers.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Event, Events};
use super::policies::order::{PageMap, TopicMap};
use super::policy::{PAGE_ENTRIES, Page, PageSize};
use super::readers::Readers;

/// What is held, and the cursors of every topic.
#[derive(Debug)]
pub(super) struct Books {
    size: PageSize,
    pages: PageMap<Held>,
    /// Pages by when they came: the first is the oldest.
    ages: BTreeMap<u64, Page>,
    next_age: u64,
    topics: TopicMap<Topic>,
    bytes: u64,
    entries: u64,
}

/// A page with at least one entry.
#[derive(Debug)]
struct Held {
    /// A bit for each entry held.
    mask: u64,
    sizes: [u32; PAGE_ENTRIES as usize],
    bytes: u64,
    age: u64,
}

#[derive(Debug, Default)]
struct Topic {
    held: BTreeSet<u64>,
    active: Readers,
    cursors: BTreeMap<u32, Cursor>,
    /// When the last active cursor left.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct Cursor {
    at: u64,
    mark_delete: u64,
    active: bool,
    /// Entries it will read again, each with how often.
    replays: BTreeMap<u64, u32>,
}

/// What was taken out of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cleared {
    pub(super) page: Page,
    pub(super) first: u64,
    pub(super) until: u64,
    pub(super) bytes: u64,
    pub(super) left: u32,
}

impl Books {
    pub(super) fn new(size: PageSize) -> Books {
        Books { size, pages: PageMap::default(), ages: BTreeMap::new(), next_age: 0, topics: TopicMap::default(), bytes: 0, entries: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn holds(&self, topic: u32, entry: u64) -> bool {
        self.pages.get(&self.size.page(topic, entry)).is_some_and(|held| held.mask & 1 << self.size.slot(entry) != 0)
    }

    /// The page that came first of all.
    pub(super) fn oldest(&self) -> Option<Page> {
        self.ages.first_key_value().map(|(_, page)| *page)
    }

    /// Adds entries that are not held and no larger than `most`; the runs added, none across pages, with their bytes.
    pub(super) fn insert(&mut self, topic: u32, first: u64, sizes: &[u32], most: u64) -> Vec<(u64, u64, u64)> {
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        for (entry, &bytes) in (first..u64::MAX).zip(sizes) {
            if most == 0 || u64::from(bytes) > most || !self.insert_one(topic, entry, bytes) {
                continue;
            }
            match runs.last_mut().filter(|run| run.1 == entry && self.size.page(topic, run.0) == self.size.page(topic, entry)) {
                Some(run) => (run.1, run.2) = (entry + 1, run.2 + u64::from(bytes)),
                None => runs.push((entry, entry + 1, u64::from(bytes))),
            }
        }
        runs
    }

    fn insert_one(&mut self, topic: u32, entry: u64, bytes: u32) -> bool {
        let (page, slot) = (self.size.page(topic, entry), self.size.slot(entry));
        let held = self.pages.entry(page).or_insert_with(|| {
            let age = self.next_age;
            self.next_age += 1;
            self.ages.insert(age, page);
            self.topics.entry(topic).or_default().held.insert(page.number);
            Held { mask: 0, sizes: [0; PAGE_ENTRIES as usize], bytes: 0, age }
        });
        if held.mask & 1 << slot != 0 {
            return false;
        }
        held.mask |= 1 << slot;
        held.sizes[slot] = bytes;
        held.bytes += u64::from(bytes);
        self.bytes += u64::from(bytes);
        self.entries += 1;
        true
    }

    /// A range cut into runs that are held, with their bytes, and runs that are not.
    pub(super) fn runs(&self, topic: u32, range: (u64, u64)) -> Vec<(u64, u64, Option<u64>)> {
        let mut runs: Vec<(u64, u64, Option<u64>)> = Vec::new();
        for (page, from, to) in self.size.split(topic, range.0, range.1) {
            let held = self.pages.get(&page);
            for entry in from..to {
                let slot = self.size.slot(entry);
                let bytes = held.filter(|held| held.mask & 1 << slot != 0).map(|held| u64::from(held.sizes[slot]));
                match runs.last_mut().filter(|run| run.2.is_some() == bytes.is_some()) {
                    Some(run) => (run.1, run.2) = (entry + 1, run.2.zip(bytes).map(|(sum, bytes)| sum + bytes)),
                    None => runs.push((entry, entry + 1, bytes)),
                }
            }
        }
        runs
    }

    /// Takes a whole page out, if it is held.
    pub(super) fn clear_page(&mut self, page: Page) -> Option<Cleared> {
        let held = self.pages.remove(&page)?;
        self.ages.remove(&held.age);
        if let Some(topic) = self.topics.get_mut(&page.topic) {
            topic.held.remove(&page.number);
        }
        self.bytes -= held.bytes;
        self.entries -= u64::from(held.mask.count_ones());
        Some(Cleared { page, first: self.size.first(page), until: self.size.until(page), bytes: held.bytes, left: 0 })
    }

    /// Takes a range of entries out; what went, page by page.
    pub(super) fn clear_range(&mut self, topic: u32, range: (u64, u64)) -> Vec<Cleared> {
        if range.0 >= range.1 {
            return Vec::new();
        }
        let numbers = self.size.page(topic, range.0).number..=self.size.page(topic, range.1 - 1).number;
        let held = self.topics.get(&topic).map(|topic| topic.held.range(numbers).copied().collect::<Vec<_>>());
        let pages = held.unwrap_or_default().into_iter().map(|number| Page { topic, number });
        pages.filter_map(|page| self.clear_part(page, range)).collect()
    }

    fn clear_part(&mut self, page: Page, range: (u64, u64)) -> Option<Cleared> {
        let (first, until) = (range.0.max(self.size.first(page)), range.1.min(self.size.until(page)));
        let held = self.pages.get_mut(&page)?;
        let part: u64 = (first..until).map(|entry| 1 << self.size.slot(entry)).sum();
        if held.mask & !part == 0 {
            return self.clear_page(page).map(|cleared| Cleared { first, until, ..cleared });
        }
        let gone = held.mask & part;
        let bytes = (0..).zip(&held.sizes).filter(|(slot, _)| gone & 1 << slot != 0).map(|(_, bytes)| u64::from(*bytes)).sum();
        held.mask &= !part;
        held.bytes -= bytes;
        self.bytes -= bytes;
        self.entries -= u64::from(gone.count_ones());
        (gone != 0).then_some(Cleared { page, first, until, bytes, left: held.mask.count_ones() })
    }

    /// Forgets a topic that holds nothing any more.
    pub(super) fn close(&mut self, topic: u32) {
        self.topics.remove(&topic);
    }

    pub(super) fn set_cursor(&mut self, now: u64, topic: u32, cursor: u32, at: (u64, u64), active: bool) {
        let home = self.topics.entry(topic).or_default();
        let place = home.cursors.entry(cursor).or_default();
        (place.at, place.mark_delete, place.active) = (at.0, at.1, active);
        if active {
            home.active.set(cursor, at.0);
        } else {
            home.leave(now, cursor);
        }
    }

    pub(super) fn move_cursor(&mut self, topic: u32, cursor: u32, at: u64) -> bool {
        let Some(home) = self.topics.get_mut(&topic) else { return false };
        let Some(place) = home.cursors.get_mut(&cursor) else { return false };
        place.at = at;
        if place.active {
            home.active.set(cursor, at);
        }
        true
    }

    pub(super) fn mark_delete(&mut self, topic: u32, cursor: u32, at: u64) -> bool {
        let place = self.topics.get_mut(&topic).and_then(|home| home.cursors.get_mut(&cursor));
        place.map(|place| place.mark_delete = at).is_some()
    }

    pub(super) fn remove_cursor(&mut self, now: u64, topic: u32, cursor: u32) -> bool {
        let Some(home) = self.topics.get_mut(&topic) else { return false };
        home.leave(now, cursor);
        home.cursors.remove(&cursor).is_some()
    }

    pub(super) fn replay(&mut self, topic: u32, cursor: u32, range: (u64, u64), more: bool) {
        let Some(place) = self.topics.get_mut(&topic).and_then(|home| home.cursors.get_mut(&cursor)) else { return };
        if more {
            (range.0..range.1).for_each(|entry| *place.replays.entry(entry).or_default() += 1);
            return;
        }
        for entry in range.0..range.1 {
            if let Some(times) = place.replays.get_mut(&entry) {
                *times -= 1;
                if *times == 0 {
                    place.replays.remove(&entry);
                }
            }
        }
    }

    /// How many cursors of a topic are active.
    pub(super) fn active(&self, topic: u32) -> usize {
        self.topics.get(&topic).map_or(0, |topic| topic.active.len())
    }

    /// Whether the last active cursor of a topic left no longer ago than `within`.
    pub(super) fn left_lately(&self, topic: u32, now: u64, within: u64) -> bool {
        self.topics.get(&topic).and_then(|topic| topic.left).is_some_and(|left| now.saturating_sub(left) < within)
    }

    /// Active cursors at or before `first`, the reader among them even if it has moved on meanwhile; 0 if the reader is not active.
    pub(super) fn expected(&self, topic: u32, cursor: u32, first: u64) -> u32 {
        let Some(readers) = self.topics.get(&topic).map(|topic| &topic.active) else { return 0 };
        readers.place(cursor).map_or(0, |at| readers.at_or_before(first) as u32 + u32::from(at > first))
    }

    /// Everything that a policy has to know which knows of nothing: cursors, pages from the oldest on, entries waiting for redelivery.
    pub(super) fn snapshot(&self, now: u64) -> Events {
        let mut events = Events { now, ..Events::default() };
        let mut topics: Vec<_> = self.topics.iter().collect();
        topics.sort_by_key(|(topic, _)| **topic);
        for (topic, home) in topics.iter().map(|(topic, home)| (**topic, *home)) {
            for (&cursor, place) in &home.cursors {
                let Cursor { at, mark_delete, active, .. } = *place;
                events.push(Event::Cursor { topic, cursor, at, mark_delete, active });
            }
        }
        for page in self.ages.values() {
            let Some(held) = self.pages.get(page) else { continue };
            let base = self.size.first(*page);
            let mut slot = 0;
            while let Some(first) = (slot..self.size.entries()).find(|slot| held.mask & 1 << slot != 0) {
                let until = (first..self.size.entries()).find(|slot| held.mask & 1 << slot == 0).unwrap_or(self.size.entries());
                let bytes = held.sizes.iter().take(until as usize).skip(first as usize).map(|bytes| u64::from(*bytes)).sum();
                let (topic, expected) = (page.topic, self.still_expected(*page, base + first));
                events.push(Event::Published { topic, first: base + first, until: base + until, bytes, expected });
                slot = until;
            }
        }
        for (topic, home) in topics.iter().map(|(topic, home)| (**topic, *home)) {
            for (&cursor, place) in &home.cursors {
                for (&first, &times) in &place.replays {
                    (0..times).for_each(|_| events.push(Event::Replayed { topic, cursor, first, until: first + 1 }));
                }
            }
        }
        events
    }

    fn still_expected(&self, page: Page, entry: u64) -> u32 {
        self.topics.get(&page.topic).map_or(0, |topic| topic.active.at_or_before(entry) as u32)
    }
}

impl Topic {
    fn leave(&mut self, now: u64, cursor: u32) {
        if self.active.place(cursor).is_some() {
            self.active.remove(cursor);
            if self.active.is_empty() {
                self.left = Some(now);
            }
        }
    }
}
