//! `sieve`: a queue in which a hand moves from old to new, spares what was read since it last came by, and takes the rest
//! (Zhang et al., NSDI 2024).

use super::super::events::{Event, Events};
use super::super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure};
use super::order::{Order, Spot};

/// Insertion and a read are O(1) for a page, an eviction is O(1) amortised.
pub(super) struct Sieve {
    size: PageSize,
    order: Order<Slot>,
    /// Where the hand is; at the oldest when nowhere.
    hand: Option<Spot>,
}

/// A page in the queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u64,
    visited: bool,
}

impl Sieve {
    pub(super) fn new(size: PageSize) -> Sieve {
        Sieve { size, order: Order::new(), hand: None }
    }

    /// Takes a page out; the hand steps off it first.
    fn forget(&mut self, page: Page) {
        if self.hand.is_some() && self.hand == self.order.spot(page) {
            self.hand = self.hand.and_then(|hand| self.order.after(hand));
        }
        self.order.remove(page);
    }
}

impl EvictionPolicy for Sieve {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, bytes, .. } | Event::Loaded { topic, first, bytes, .. } => {
                    let page = self.size.page(topic, first);
                    match self.order.get_mut(page) {
                        Some(slot) => slot.bytes += bytes,
                        None => self.order.push(page, Slot { bytes, visited: false }),
                    }
                }
                Event::Read { topic, first, until, .. } => {
                    for (page, ..) in self.size.split(topic, first, until) {
                        if let Some(slot) = self.order.get_mut(page) {
                            slot.visited = true;
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
                _ => {}
            }
        }
        Ok(())
    }

    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault> {
        let mut freed = 0;
        while freed < pressure.need {
            let Some(hand) = self.hand.or_else(|| self.order.begin()) else { break };
            let Some((page, slot)) = self.order.at(hand) else { break };
            self.hand = self.order.after(hand);
            // What has just come in is not looked at: elsewhere room is made before.
            if self.hand.is_none() && self.order.len() > 1 {
                continue;
            }
            if slot.visited {
                if let Some(slot) = self.order.get_mut(page) {
                    slot.visited = false;
                }
                continue;
            }
            self.order.remove(page);
            freed += slot.bytes;
            out.push(page);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.order.memory()
    }
}
