//! `expected-read-count`: Pulsar's PIP-430. A count of the reads still expected saves a page from its first few evictions; among the pages
//! of either kind the oldest goes first.
//!
//! Counts are set at insertion, fall with each read and rise with each replay. So they drift where cursors do anything but read on:
//! `recount` asks where the cursors are instead. With pages of one entry this is Pulsar's rule exactly; with larger ones a page is as old
//! as its first entry and expected as long as one of its entries is.

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Marks, Page, PageSize, PolicyFault, Pressure};
use super::super::readers::Readers;
use super::order::{Order, PageMap, TopicMap};

pub(super) const SCHEMA: &[Parameter] = &[
    Parameter {
        name: "ttl-ms",
        kind: Kind::Whole(1, 86_400_000),
        default: "1000",
        doc: "Milliseconds after which a page goes, or is put back for as long again.",
        key: Some("managedLedgerCacheEvictionTimeThresholdMillis"),
    },
    Parameter {
        name: "max-extensions",
        kind: Kind::Whole(0, 1000),
        default: "5",
        doc: "How often a page that is expected to be read is put back, whether for its age or for want of room.",
        key: Some("managedLedgerCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes"),
    },
    Parameter {
        name: "extend-accessed",
        kind: Kind::Switch,
        default: "false",
        doc: "Whether a page that was read since its last look is put back too: keeps what replays may want, and what nobody does.",
        key: Some("managedLedgerCacheEvictionExtendTTLOfRecentlyAccessed"),
    },
    WATERMARK,
    TRIGGER,
    Parameter {
        name: "recount",
        kind: Kind::Switch,
        default: "false",
        doc: "Whether expected reads are counted from where the cursors are, which follows seeks, joins and leaves, instead of kept as \
              Pulsar does.",
        key: None,
    },
];

pub(super) const WATERMARK: Parameter = Parameter {
    name: "watermark",
    kind: Kind::Share(0.01, 1.0),
    default: "0.9",
    doc: "Down to this share of the limit pages go once there are too many.",
    key: Some("managedLedgerCacheEvictionWatermark"),
};

pub(super) const TRIGGER: Parameter = Parameter {
    name: "trigger",
    kind: Kind::Share(0.01, 1.0),
    default: "0.98",
    doc: "Above this share of the limit there are too many. A constant in Pulsar.",
    key: None,
};

/// Insertion and a read are O(1) for a page and as much for each of its entries, an eviction is O(1) amortised, but up to
/// `max-extensions` rounds over everything when all is expected.
pub(super) struct ExpectedReadCount {
    size: PageSize,
    ttl: u64,
    max_extensions: u64,
    extend_accessed: bool,
    recount: bool,
    marks: Marks,
    order: Order<Slot>,
    expected: PageMap<Vec<i32>>,
    /// Active cursors; only when they are asked.
    readers: TopicMap<Readers>,
}

/// A page in the queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u64,
    since: u64,
    extensions: u64,
    accessed: bool,
}

impl ExpectedReadCount {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> ExpectedReadCount {
        ExpectedReadCount {
            size,
            ttl: parameters.whole("ttl-ms"),
            max_extensions: parameters.whole("max-extensions"),
            extend_accessed: parameters.switch("extend-accessed"),
            recount: parameters.switch("recount"),
            marks: Marks { trigger: parameters.share("trigger"), target: parameters.share("watermark") },
            order: Order::new(),
            expected: PageMap::default(),
            readers: TopicMap::default(),
        }
    }

    fn inserted(&mut self, now: u64, topic: u32, range: (u64, u64), bytes: u64, expected: u32) {
        let page = self.size.page(topic, range.0);
        match self.order.get_mut(page) {
            Some(slot) => slot.bytes += bytes,
            None => self.order.push(page, Slot { bytes, since: now, extensions: 0, accessed: false }),
        }
        let size = self.size.entries() as usize;
        let counts = self.expected.entry(page).or_insert_with(|| vec![0; size]);
        let slots = self.size.slot(range.0)..self.size.slot(range.1.saturating_sub(1)) + 1;
        if let Some(slots) = counts.get_mut(slots) {
            slots.fill(i32::try_from(expected).unwrap_or(i32::MAX));
        }
    }

    fn count(&mut self, topic: u32, first: u64, until: u64, by: i32) {
        for (page, from, to) in self.size.split(topic, first, until) {
            let slots = self.size.slot(from)..self.size.slot(to - 1) + 1;
            if let Some(slots) = self.expected.get_mut(&page).and_then(|counts| counts.get_mut(slots)) {
                slots.iter_mut().for_each(|count| *count = count.saturating_add(by));
            }
            if by < 0
                && let Some(slot) = self.order.get_mut(page)
            {
                slot.accessed = true;
            }
        }
    }

    fn removed(&mut self, topic: u32, range: (u64, u64), bytes: u64, left: u32) {
        let page = self.size.page(topic, range.0);
        if left == 0 {
            self.order.remove(page);
            self.expected.remove(&page);
            return;
        }
        if let Some(slot) = self.order.get_mut(page) {
            slot.bytes = slot.bytes.saturating_sub(bytes);
        }
        let slots = self.size.slot(range.0)..self.size.slot(range.1.saturating_sub(1)) + 1;
        if let Some(slots) = self.expected.get_mut(&page).and_then(|counts| counts.get_mut(slots)) {
            slots.fill(0);
        }
    }

    fn is_expected(&self, page: Page) -> bool {
        let counted = || self.expected.get(&page).is_some_and(|counts| counts.iter().any(|count| *count > 0));
        if !self.recount {
            return counted();
        }
        let last = self.size.until(page).saturating_sub(1);
        self.readers.get(&page.topic).is_some_and(|readers| readers.slowest().is_some_and(|slowest| slowest <= last))
    }

    /// Puts the page in front back, if it deserves that.
    fn put_back(&mut self, now: u64, page: Page, slot: Slot) -> bool {
        let accessed = self.extend_accessed && slot.accessed;
        let expected = slot.extensions < self.max_extensions && self.is_expected(page);
        if !accessed && !expected {
            return false;
        }
        if let Some(slot) = self.order.get_mut(page) {
            *slot = Slot { since: now, extensions: slot.extensions + 1, accessed: false, ..*slot };
        }
        self.order.move_to_end(page);
        true
    }

    fn cursor(&mut self, event: Event) {
        match event {
            Event::Cursor { topic, cursor, at, active: true, .. } => self.readers.entry(topic).or_default().set(cursor, at),
            Event::Cursor { topic, cursor, active: false, .. } | Event::CursorGone { topic, cursor } => {
                if let Some(readers) = self.readers.get_mut(&topic) {
                    readers.remove(cursor);
                }
            }
            Event::Moved { topic, cursor, at } => {
                if let Some(readers) = self.readers.get_mut(&topic).filter(|readers| readers.place(cursor).is_some()) {
                    readers.set(cursor, at);
                }
            }
            Event::Closed { topic } => drop(self.readers.remove(&topic)),
            _ => {}
        }
    }
}

impl EvictionPolicy for ExpectedReadCount {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, until, bytes, expected } => {
                    self.inserted(events.now, topic, (first, until), bytes, expected);
                }
                // Who read it from storage has read it.
                Event::Loaded { topic, first, until, bytes, expected } => {
                    self.inserted(events.now, topic, (first, until), bytes, expected.saturating_sub(1));
                }
                Event::Read { topic, first, until, .. } => self.count(topic, first, until, -1),
                Event::Replayed { topic, first, until, .. } => self.count(topic, first, until, 1),
                Event::Removed { topic, first, until, bytes, left } => self.removed(topic, (first, until), bytes, left),
                other if self.recount => self.cursor(other),
                _ => {}
            }
        }
        Ok(())
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        let mut freed = 0;
        while let Some((page, slot)) = self.order.first() {
            let old = pressure.now.saturating_sub(slot.since) > self.ttl;
            // The pass for age stops at the first fresh page, the pass for room when there is enough.
            if if pressure.need == 0 { !old } else { freed >= pressure.need } {
                break;
            }
            if self.put_back(pressure.now, page, slot) {
                continue;
            }
            freed += slot.bytes;
            self.order.remove(page);
            self.expected.remove(&page);
            out.push(page);
        }
        Ok(())
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn memory(&self) -> usize {
        self.order.memory() + self.expected.capacity() * (size_of::<(Page, Vec<i32>)>() + 4 * self.size.entries() as usize)
    }
}
