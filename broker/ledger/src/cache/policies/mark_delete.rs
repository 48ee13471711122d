//! `mark-delete`: what Pulsar did before: drop what every active cursor has behind it, what is too old, and then the oldest.
//! What was read from storage is not kept.

use std::collections::BTreeSet;

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Marks, Page, PageSize, PolicyFault, Pressure, StorageRead};
use super::super::readers::Readers;
use super::expected_read_count::{TRIGGER, WATERMARK};
use super::order::{Order, TopicMap};

pub(super) const TTL: Parameter = Parameter {
    name: "ttl-ms",
    kind: Kind::Whole(1, 86_400_000),
    default: "1000",
    doc: "Milliseconds after which a page goes although there is room.",
    key: Some("managedLedgerCacheEvictionTimeThresholdMillis"),
};

pub(super) const SCHEMA: &[Parameter] = &[
    Parameter {
        name: "behind",
        kind: Kind::Choice(&["mark-delete", "read"]),
        default: "mark-delete",
        doc: "What counts as behind a cursor: what it has acknowledged, which keeps what a reconnecting consumer is sent again, or what \
              it has read.",
        key: Some("cacheEvictionByMarkDeletedPosition"),
    },
    TTL,
    WATERMARK,
    TRIGGER,
];

/// Insertion is O(log n) for a page, a read costs nothing, a cursor's move as much as in [`Readers`], an eviction is O(log n).
pub(super) struct MarkDelete {
    size: PageSize,
    by_mark_delete: bool,
    ttl: u64,
    marks: Marks,
    order: Order<Slot>,
    held: BTreeSet<Page>,
    /// Active cursors.
    readers: TopicMap<Readers>,
    /// Topics whose slowest cursor may have moved.
    changed: BTreeSet<u32>,
}

/// A page in the queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u64,
    since: u64,
}

impl MarkDelete {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> MarkDelete {
        MarkDelete {
            size,
            by_mark_delete: parameters.choice("behind") == "mark-delete",
            ttl: parameters.whole("ttl-ms"),
            marks: Marks { trigger: parameters.share("trigger"), target: parameters.share("watermark") },
            order: Order::new(),
            held: BTreeSet::new(),
            readers: TopicMap::default(),
            changed: BTreeSet::new(),
        }
    }

    /// Active cursors by topic.
    pub(super) fn readers(&self) -> &TopicMap<Readers> {
        &self.readers
    }

    fn cursor(&mut self, topic: u32, cursor: u32, at: Option<u64>) {
        let readers = self.readers.entry(topic).or_default();
        match at {
            Some(at) => readers.set(cursor, at),
            None => readers.remove(cursor),
        }
        self.changed.insert(topic);
    }

    fn moved(&mut self, topic: u32, cursor: u32, at: u64) {
        if self.readers.get(&topic).is_some_and(|readers| readers.place(cursor).is_some()) {
            self.cursor(topic, cursor, Some(at));
        }
    }

    fn forget(&mut self, page: Page) -> u64 {
        self.held.remove(&page);
        self.order.remove(page).map_or(0, |slot| slot.bytes)
    }

    /// Pages that every active cursor has behind it; all of a topic that has none.
    fn passed(&mut self, out: &mut Vec<Page>) -> u64 {
        let mut freed = 0;
        for topic in std::mem::take(&mut self.changed) {
            let slowest = self.readers.get(&topic).and_then(Readers::slowest).unwrap_or(u64::MAX);
            let passed: Vec<Page> = self.held.range(Page { topic, number: 0 }..self.size.page(topic, slowest)).copied().collect();
            freed += passed.iter().map(|page| self.forget(*page)).sum::<u64>();
            out.extend(passed);
        }
        freed
    }
}

impl EvictionPolicy for MarkDelete {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, bytes, .. } | Event::Loaded { topic, first, bytes, .. } => {
                    let page = self.size.page(topic, first);
                    match self.order.get_mut(page) {
                        Some(slot) => slot.bytes += bytes,
                        None => {
                            self.order.push(page, Slot { bytes, since: events.now });
                            self.held.insert(page);
                        }
                    }
                }
                Event::Removed { topic, first, bytes, left, .. } => {
                    let page = self.size.page(topic, first);
                    if left == 0 {
                        self.forget(page);
                    } else if let Some(slot) = self.order.get_mut(page) {
                        slot.bytes = slot.bytes.saturating_sub(bytes);
                    }
                }
                Event::Cursor { topic, cursor, at, mark_delete, active } => {
                    self.cursor(topic, cursor, active.then_some(if self.by_mark_delete { mark_delete } else { at }));
                }
                Event::CursorGone { topic, cursor } => self.cursor(topic, cursor, None),
                Event::Moved { topic, cursor, at } if !self.by_mark_delete => self.moved(topic, cursor, at),
                Event::MarkDeleted { topic, cursor, at } if self.by_mark_delete => self.moved(topic, cursor, at),
                Event::Closed { topic } => {
                    self.readers.remove(&topic);
                    self.changed.remove(&topic);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn admits(&mut self, _: &StorageRead) -> bool {
        false
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        let mut freed = self.passed(out);
        while let Some((page, slot)) = self.order.first() {
            let old = pressure.now.saturating_sub(slot.since) > self.ttl;
            if freed >= pressure.need && !old {
                break;
            }
            freed += self.forget(page);
            out.push(page);
        }
        Ok(())
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn memory(&self) -> usize {
        self.order.memory() + self.held.len() * size_of::<Page>() * 2
    }
}
