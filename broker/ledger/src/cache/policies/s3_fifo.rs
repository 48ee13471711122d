//! `s3-fifo`: a small queue for what is new, a main queue for what was read there, and the names of what left the small one unread
//! (Yang et al., SOSP 2023).

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure};
use super::order::Order;

pub(super) const SCHEMA: &[Parameter] = &[
    Parameter {
        name: "small-share",
        kind: Kind::Share(0.01, 0.9),
        default: "0.1",
        doc: "The share of the limit that new pages have before older ones go first.",
        key: None,
    },
    Parameter {
        name: "ghost-share",
        kind: Kind::Share(0.0, 10.0),
        default: "1",
        doc: "How many names of evicted pages are remembered, as a multiple of the pages held.",
        key: None,
    },
    Parameter {
        name: "promote-at",
        kind: Kind::Whole(1, 3),
        default: "2",
        doc: "So many reads of a new page move it to the main queue. Every reader of a topic reads every page once.",
        key: None,
    },
];

/// Most reads of a page that are counted.
const MOST_READS: u8 = 3;

/// Insertion and a read are O(1) for a page, an eviction is O(1) amortised.
pub(super) struct S3Fifo {
    size: PageSize,
    small_share: f64,
    ghost_share: f64,
    promote_at: u8,
    small: Order<Slot>,
    small_bytes: u64,
    main: Order<Slot>,
    ghost: Order<()>,
}

/// A page in a queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u64,
    reads: u8,
}

impl S3Fifo {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> S3Fifo {
        S3Fifo {
            size,
            small_share: parameters.share("small-share"),
            ghost_share: parameters.share("ghost-share"),
            promote_at: parameters.whole("promote-at") as u8,
            small: Order::new(),
            small_bytes: 0,
            main: Order::new(),
            ghost: Order::new(),
        }
    }

    fn insert(&mut self, page: Page, bytes: u64) {
        if let Some(slot) = self.main.get_mut(page) {
            slot.bytes += bytes;
        } else if let Some(slot) = self.small.get_mut(page) {
            slot.bytes += bytes;
            self.small_bytes += bytes;
        } else if self.ghost.remove(page).is_some() {
            self.main.push(page, Slot { bytes, reads: 0 });
        } else {
            self.small.push(page, Slot { bytes, reads: 0 });
            self.small_bytes += bytes;
        }
    }

    fn removed(&mut self, page: Page, bytes: u64, left: u32) {
        if let Some(slot) = self.small.get_mut(page) {
            let bytes = if left == 0 { slot.bytes } else { bytes.min(slot.bytes) };
            slot.bytes -= bytes;
            self.small_bytes -= bytes;
        } else if let Some(slot) = self.main.get_mut(page) {
            slot.bytes = slot.bytes.saturating_sub(bytes);
        }
        if left == 0 {
            self.small.remove(page);
            self.main.remove(page);
        }
    }

    /// From the small queue: what was read enough moves on, the first that was not goes.
    fn take_small(&mut self) -> Option<(Page, u64)> {
        while let Some((page, slot)) = self.small.first() {
            self.small.remove(page);
            self.small_bytes -= slot.bytes;
            if slot.reads >= self.promote_at {
                self.main.push(page, Slot { bytes: slot.bytes, reads: 0 });
                continue;
            }
            self.ghost.push(page, ());
            let most = ((self.small.len() + self.main.len()) as f64 * self.ghost_share) as usize;
            while self.ghost.len() > most {
                let Some((oldest, ())) = self.ghost.first() else { break };
                self.ghost.remove(oldest);
            }
            return Some((page, slot.bytes));
        }
        None
    }

    /// From the main queue: what was read goes round again, with one read less.
    fn take_main(&mut self) -> Option<(Page, u64)> {
        while let Some((page, slot)) = self.main.first() {
            if slot.reads == 0 {
                self.main.remove(page);
                return Some((page, slot.bytes));
            }
            if let Some(slot) = self.main.get_mut(page) {
                slot.reads -= 1;
            }
            self.main.move_to_end(page);
        }
        None
    }
}

impl EvictionPolicy for S3Fifo {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, bytes, .. } | Event::Loaded { topic, first, bytes, .. } => {
                    self.insert(self.size.page(topic, first), bytes);
                }
                Event::Read { topic, first, until, .. } => {
                    // A reader that takes a page in two steps has read it once: when it leaves it.
                    for (page, ..) in self.size.split(topic, first, until).filter(|&(page, _, to)| to == self.size.until(page)) {
                        let slot = if self.small.contains(page) { self.small.get_mut(page) } else { self.main.get_mut(page) };
                        if let Some(slot) = slot {
                            slot.reads = (slot.reads + 1).min(MOST_READS);
                        }
                    }
                }
                Event::Removed { topic, first, bytes, left, .. } => self.removed(self.size.page(topic, first), bytes, left),
                _ => {}
            }
        }
        Ok(())
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        let mut freed = 0;
        let small_limit = (pressure.limit as f64 * self.small_share) as u64;
        while freed < pressure.need {
            let small_first = self.small_bytes > small_limit || self.main.is_empty();
            let found =
                if small_first { self.take_small().or_else(|| self.take_main()) } else { self.take_main().or_else(|| self.take_small()) };
            let Some((page, bytes)) = found else { break };
            freed += bytes;
            out.push(page);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.small.memory() + self.main.memory() + self.ghost.memory()
    }
}
