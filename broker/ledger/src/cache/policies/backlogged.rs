//! `backlogged`: as `mark-delete` by read positions, but what a cursor reads from storage is kept when enough others have a similar backlog
//! (Pulsar's older rule, looked at once a minute).

use std::collections::HashSet;

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Marks, Page, PageSize, PolicyFault, Pressure, StorageRead};
use super::expected_read_count::{TRIGGER, WATERMARK};
use super::mark_delete::{MarkDelete, TTL};
use super::order::TopicMap;

pub(super) const SCHEMA: &[Parameter] = &[
    Parameter {
        name: "min-cursors",
        kind: Kind::Whole(0, 1_000_000),
        default: "1",
        doc: "So many other cursors must have a similar backlog; 0 keeps nothing of what is read from storage (Pulsar's default).",
        key: Some("managedLedgerMinimumBacklogCursorsForCaching"),
    },
    Parameter {
        name: "min-backlog",
        kind: Kind::Whole(0, 1 << 40),
        default: "1000",
        doc: "So many entries a cursor must be behind.",
        key: Some("managedLedgerMinimumBacklogEntriesForCaching"),
    },
    Parameter {
        name: "max-between",
        kind: Kind::Whole(0, 1 << 40),
        default: "1000",
        doc: "Backlogs that differ by no more entries than this are similar.",
        key: Some("managedLedgerMaxBacklogBetweenCursorsForCaching"),
    },
    Parameter {
        name: "recheck-ms",
        kind: Kind::Whole(1, 86_400_000),
        default: "60000",
        doc: "Milliseconds between two looks at who is backlogged. A constant in Pulsar.",
        key: None,
    },
    TTL,
    WATERMARK,
    TRIGGER,
];

/// As [`MarkDelete`], and a rank query for each cursor once in a while.
pub(super) struct Backlogged {
    queue: MarkDelete,
    min_cursors: u64,
    min_backlog: u64,
    max_between: u64,
    recheck: u64,
    checked: Option<u64>,
    /// Where each topic ends.
    ends: TopicMap<u64>,
    /// Topic and cursor of who may keep what it reads.
    keeping: HashSet<(u32, u32)>,
}

impl Backlogged {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> Backlogged {
        Backlogged {
            queue: MarkDelete::new(parameters, size),
            min_cursors: parameters.whole("min-cursors"),
            min_backlog: parameters.whole("min-backlog"),
            max_between: parameters.whole("max-between"),
            recheck: parameters.whole("recheck-ms"),
            checked: None,
            ends: TopicMap::default(),
            keeping: HashSet::new(),
        }
    }

    fn look(&mut self) {
        self.keeping.clear();
        if self.min_cursors == 0 {
            return;
        }
        for (&topic, readers) in self.queue.readers() {
            let end = self.ends.get(&topic).copied().unwrap_or(0);
            for (cursor, at) in readers.cursors() {
                let up_to = readers.at_or_before(at.saturating_add(self.max_between));
                let below = at.checked_sub(self.max_between + 1).map_or(0, |below| readers.at_or_before(below));
                let similar = (up_to - below) as u64 - 1;
                if end.saturating_sub(at) >= self.min_backlog && similar >= self.min_cursors {
                    self.keeping.insert((topic, cursor));
                }
            }
        }
    }
}

impl EvictionPolicy for Backlogged {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        self.queue.apply(events)?;
        for event in events.iter() {
            match event {
                Event::Published { topic, until: at, .. } | Event::Cursor { topic, at, .. } | Event::Moved { topic, at, .. } => {
                    let end = self.ends.entry(topic).or_default();
                    *end = (*end).max(at);
                }
                Event::Closed { topic } => {
                    self.ends.remove(&topic);
                    self.keeping.retain(|(of, _)| *of != topic);
                }
                _ => {}
            }
        }
        if self.checked.is_none_or(|checked| events.now.saturating_sub(checked) >= self.recheck) {
            self.checked = Some(events.now);
            self.look();
        }
        Ok(())
    }

    fn admits(&mut self, read: &StorageRead) -> bool {
        self.keeping.contains(&(read.topic, read.cursor))
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        self.queue.victims(pressure, out)
    }

    fn marks(&self) -> Marks {
        self.queue.marks()
    }

    fn memory(&self) -> usize {
        self.queue.memory() + self.keeping.capacity() * size_of::<(u32, u32)>()
    }
}
