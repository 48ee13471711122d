//! `cursor-distance`: the page that will be read last goes first. A reader is a place that moves forward, so the next read of a page is by
//! the nearest reader at or behind it, and a page with no reader behind it is dead.
//!
//! Between two readers the page that the faster one left last is the one that the slower one needs last. So a heap of pages by distance is
//! right at its top as long as a page is put in again whenever its distance can have grown: when a reader leaves it, or leaves for good.
//! Distances that shrink, as readers come nearer, are found out when the page comes to the top.

use std::collections::{BTreeSet, BinaryHeap};

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure, StorageRead};
use super::super::readers::Readers;
use super::order::{PageMap, TopicMap};

pub(super) const SCHEMA: &[Parameter] = &[
    Parameter {
        name: "rates",
        kind: Kind::Switch,
        default: "false",
        doc: "Whether the time until the next read is estimated from each reader's recent rate, which costs a look at every cursor of \
              the topic for each page, instead of the distance alone.",
        key: None,
    },
    Parameter {
        name: "grace-ms",
        kind: Kind::Whole(0, 86_400_000),
        default: "5000",
        doc: "Milliseconds for which a cursor without a consumer still counts as a reader: keeps what a reconnecting consumer needs.",
        key: None,
    },
    Parameter {
        name: "replay-share",
        kind: Kind::Share(0.0, 1.0),
        default: "0.25",
        doc: "The share of the limit that entries waiting for redelivery may hold as if they were read next.",
        key: None,
    },
];

/// Farther than any distance: no reader is behind the page.
const DEAD: u64 = 1 << 62;

/// Farther than that: no reader is anywhere.
const DESERTED: u64 = 1 << 63;

/// Slower than this, in entries a second, nobody is taken for.
const LEAST_RATE: u64 = 1;

/// Rates are looked at this often.
const RATE_INTERVAL_MS: u64 = 100;

/// Insertion and a reader leaving a page are O(log n), moves within a page as in [`Readers`], an eviction is O(log n) amortised.
pub(super) struct CursorDistance {
    size: PageSize,
    rates: bool,
    grace: u64,
    replay_share: f64,
    limit: u64,
    now: u64,
    topics: TopicMap<Topic>,
    pages: PageMap<Held>,
    /// Each held page at least once, with at least its distance.
    heap: BinaryHeap<(u64, Page)>,
    /// Bytes of pages that wait for redelivery.
    replay_bytes: u64,
    /// Whether they were within their share when the heap was last right.
    pinned: bool,
    /// Cursors that lost their consumer: since when, topic, cursor.
    idle: BTreeSet<(u64, u32, u32)>,
    /// Topics whose pages may all have become more distant.
    stale: BTreeSet<u32>,
    rated: u64,
}

#[derive(Debug, Default)]
struct Topic {
    /// Who counts.
    readers: Readers,
    paces: Vec<Pace>,
    held: BTreeSet<u64>,
}

/// A cursor's rate.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Entries a second, averaged.
    rate: u64,
    /// Entries since the last look.
    moved: u64,
    idle_since: Option<u64>,
}

/// A held page.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    /// The first entry held and the one after the last.
    first: u64,
    until: u64,
    /// Entries waiting for redelivery, counted for each cursor.
    replays: u32,
}

impl CursorDistance {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> CursorDistance {
        CursorDistance {
            size,
            rates: parameters.switch("rates"),
            grace: parameters.whole("grace-ms"),
            replay_share: parameters.share("replay-share"),
            limit: u64::MAX,
            now: 0,
            topics: TopicMap::default(),
            pages: PageMap::default(),
            heap: BinaryHeap::new(),
            replay_bytes: 0,
            pinned: true,
            idle: BTreeSet::new(),
            stale: BTreeSet::new(),
            rated: 0,
        }
    }

    /// How far away a page's next read is.
    fn distance(&self, page: Page, held: &Held) -> u64 {
        if held.replays > 0 && self.pinned {
            return 0;
        }
        let Some(topic) = self.topics.get(&page.topic) else { return DESERTED };
        let Some(nearest) = topic.readers.next_reader(held.until.saturating_sub(1)) else {
            // What was passed last is what a rewind would want first.
            return topic.readers.slowest().map_or(DESERTED, |slowest| DEAD + slowest.saturating_sub(held.until).min(DEAD / 2));
        };
        if !self.rates {
            return held.first.saturating_sub(nearest);
        }
        let arrivals = topic.readers.cursors().filter(|(_, at)| *at < held.until).map(|(cursor, at)| {
            let rate = topic.paces.get(cursor as usize).map_or(LEAST_RATE, |pace| pace.rate.max(LEAST_RATE));
            held.first.saturating_sub(at).saturating_mul(1_000_000) / rate
        });
        arrivals.min().unwrap_or(DEAD).min(DEAD)
    }

    fn offer(&mut self, page: Page) {
        if let Some(held) = self.pages.get(&page) {
            self.heap.push((self.distance(page, held), page));
        }
    }

    fn inserted(&mut self, topic: u32, first: u64, until: u64, bytes: u64) {
        let page = self.size.page(topic, first);
        let held = self.pages.entry(page).or_insert(Held { bytes: 0, first, until, replays: 0 });
        let grown_at_end = held.bytes > 0 && first >= held.until;
        held.bytes += bytes;
        (held.first, held.until) = (held.first.min(first), held.until.max(until));
        if held.replays > 0 {
            self.replay_bytes += bytes;
        }
        self.topics.entry(topic).or_default().held.insert(page.number);
        // A page that grows at its end becomes no more distant.
        if !grown_at_end {
            self.offer(page);
        }
    }

    fn removed(&mut self, topic: u32, range: (u64, u64), bytes: u64, left: u32) {
        let page = self.size.page(topic, range.0);
        if left == 0 {
            self.forget(page);
        } else if let Some(held) = self.pages.get_mut(&page) {
            held.bytes = held.bytes.saturating_sub(bytes);
            if held.replays > 0 {
                self.replay_bytes = self.replay_bytes.saturating_sub(bytes);
            }
            if range.0 <= held.first {
                held.first = held.first.max(range.1);
            }
            self.offer(page);
        }
    }

    fn forget(&mut self, page: Page) -> u64 {
        let Some(held) = self.pages.remove(&page) else { return 0 };
        if held.replays > 0 {
            self.replay_bytes = self.replay_bytes.saturating_sub(held.bytes);
        }
        if let Some(topic) = self.topics.get_mut(&page.topic) {
            topic.held.remove(&page.number);
        }
        held.bytes
    }

    fn cursor(&mut self, topic: u32, cursor: u32, at: u64, active: bool) {
        let now = self.now;
        let home = self.topics.entry(topic).or_default();
        let index = cursor as usize;
        if home.paces.len() <= index {
            home.paces.resize(index + 1, Pace::default());
        }
        let Some(pace) = home.paces.get_mut(index) else { return };
        if let Some(since) = pace.idle_since.take() {
            self.idle.remove(&(since, topic, cursor));
        }
        if !active {
            pace.idle_since = Some(now);
            self.idle.insert((now, topic, cursor));
        }
        let before = home.readers.place(cursor);
        home.readers.set(cursor, at);
        self.passed(topic, before, at);
    }

    fn moved(&mut self, topic: u32, cursor: u32, at: u64) {
        let Some(home) = self.topics.get_mut(&topic) else { return };
        // Who does not count is not made to by a move: the next change of its state says where it is.
        let Some(before) = home.readers.place(cursor) else { return };
        home.readers.set(cursor, at);
        if let Some(pace) = home.paces.get_mut(cursor as usize) {
            pace.moved = pace.moved.saturating_add(at.saturating_sub(before));
        }
        self.passed(topic, Some(before), at);
    }

    /// A reader went from one place to another: what it left behind is read by the one behind it, or by nobody.
    fn passed(&mut self, topic: u32, before: Option<u64>, at: u64) {
        let Some(before) = before.filter(|before| *before < at) else { return };
        let Some(home) = self.topics.get(&topic) else { return };
        let range = self.size.page(topic, before).number..=self.size.page(topic, at).number;
        for &number in home.held.range(range) {
            let page = Page { topic, number };
            if let Some(held) = self.pages.get(&page).filter(|held| held.until <= at) {
                self.heap.push((self.distance(page, held), page));
            }
        }
    }

    fn cursor_gone(&mut self, topic: u32, cursor: u32) {
        let Some(home) = self.topics.get_mut(&topic) else { return };
        home.readers.remove(cursor);
        if let Some(pace) = home.paces.get_mut(cursor as usize) {
            if let Some(since) = pace.idle_since {
                self.idle.remove(&(since, topic, cursor));
            }
            *pace = Pace::default();
        }
        self.stale.insert(topic);
    }

    fn closed(&mut self, topic: u32) {
        if let Some(home) = self.topics.remove(&topic) {
            for number in home.held {
                self.forget(Page { topic, number });
            }
        }
        self.idle.retain(|(_, of, _)| *of != topic);
        self.stale.remove(&topic);
    }

    fn replayed(&mut self, topic: u32, first: u64, until: u64, more: bool) {
        for (page, from, to) in self.size.split(topic, first, until) {
            let Some(held) = self.pages.get_mut(&page) else { continue };
            let (before, entries) = (held.replays, u32::try_from(to - from).unwrap_or(u32::MAX));
            held.replays = if more { before.saturating_add(entries) } else { before.saturating_sub(entries) };
            let (after, bytes) = (held.replays, held.bytes);
            if before == 0 && after > 0 {
                self.replay_bytes += bytes;
            } else if before > 0 && after == 0 {
                self.replay_bytes = self.replay_bytes.saturating_sub(bytes);
                self.offer(page);
            }
        }
    }

    /// Cursors whose consumer did not come back in time no longer count.
    fn give_up_on_idle(&mut self) {
        while let Some(&(since, topic, cursor)) = self.idle.first() {
            if self.now.saturating_sub(since) < self.grace {
                break;
            }
            self.idle.pop_first();
            if let Some(home) = self.topics.get_mut(&topic) {
                home.readers.remove(cursor);
                if let Some(pace) = home.paces.get_mut(cursor as usize) {
                    pace.idle_since = None;
                }
            }
            self.stale.insert(topic);
        }
    }

    fn rate(&mut self) {
        let elapsed = self.now.saturating_sub(self.rated);
        if !self.rates || elapsed < RATE_INTERVAL_MS {
            return;
        }
        self.rated = self.now;
        for pace in self.topics.values_mut().flat_map(|topic| &mut topic.paces) {
            let latest = pace.moved.saturating_mul(1000) / elapsed;
            // Who has no consumer keeps the rate that it had.
            if pace.idle_since.is_none() {
                pace.rate = if pace.rate == 0 { latest } else { (pace.rate * 3 + latest) / 4 };
            }
            pace.moved = 0;
        }
        self.rebuild();
    }

    /// Brings the heap up to date where it may promise too little, and keeps it from growing.
    fn refresh(&mut self) {
        // A little less before they count again, so that a share just filled does not change everything with each entry.
        let share = if self.pinned { self.replay_share } else { self.replay_share * 0.8 };
        let pinned = self.replay_bytes as f64 <= self.limit as f64 * share;
        if pinned != self.pinned || self.heap.len() > self.pages.len() * 2 + 64 {
            self.pinned = pinned;
            self.stale.clear();
            self.rebuild();
        }
        for topic in std::mem::take(&mut self.stale) {
            let Some(home) = self.topics.get(&topic) else { continue };
            for &number in &home.held {
                let page = Page { topic, number };
                if let Some(held) = self.pages.get(&page) {
                    self.heap.push((self.distance(page, held), page));
                }
            }
        }
    }

    fn rebuild(&mut self) {
        let mut pages = std::mem::take(&mut self.heap).into_vec();
        pages.clear();
        pages.extend(self.pages.iter().map(|(page, held)| (self.distance(*page, held), *page)));
        self.heap = BinaryHeap::from(pages);
    }
}

impl EvictionPolicy for CursorDistance {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        self.now = self.now.max(events.now);
        for event in events.iter() {
            match event {
                Event::Published { topic, first, until, bytes, .. } | Event::Loaded { topic, first, until, bytes, .. } => {
                    self.inserted(topic, first, until, bytes);
                }
                Event::Removed { topic, first, until, bytes, left } => self.removed(topic, (first, until), bytes, left),
                Event::Cursor { topic, cursor, at, active, .. } => self.cursor(topic, cursor, at, active),
                Event::Moved { topic, cursor, at } => self.moved(topic, cursor, at),
                Event::CursorGone { topic, cursor } => self.cursor_gone(topic, cursor),
                Event::Replayed { topic, first, until, .. } => self.replayed(topic, first, until, true),
                Event::ReplayDone { topic, first, until, .. } => self.replayed(topic, first, until, false),
                Event::Closed { topic } => self.closed(topic),
                _ => {}
            }
        }
        self.give_up_on_idle();
        self.rate();
        self.refresh();
        Ok(())
    }

    /// Worth keeping for another reader that stands behind some of it; the one that has just read it does not need it again.
    fn admits(&mut self, read: &StorageRead) -> bool {
        let Some(topic) = self.topics.get(&read.topic) else { return false };
        let last = read.until.saturating_sub(1);
        let own = topic.readers.place(read.cursor).is_some_and(|at| at <= last);
        topic.readers.at_or_before(last) > usize::from(own)
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        self.now = self.now.max(pressure.now);
        self.limit = pressure.limit;
        self.refresh();
        let mut freed = 0;
        while freed < pressure.need {
            let Some((promised, page)) = self.heap.pop() else { break };
            let Some(held) = self.pages.get(&page) else { continue };
            let distance = self.distance(page, held);
            if distance < promised {
                self.heap.push((distance, page));
                continue;
            }
            freed += self.forget(page);
            out.push(page);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.heap.capacity() * size_of::<(u64, Page)>() + self.pages.capacity() * size_of::<(Page, Held)>() + self.pages.len() * 16
    }
}
