//! `lru`: the page that was not touched for longest goes first.

use super::super::events::{Event, Events};
use super::super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure};
use super::order::Order;

/// Insertion, a read and an eviction are O(1) for a page.
pub(super) struct Lru {
    size: PageSize,
    /// Bytes by page.
    order: Order<u64>,
}

impl Lru {
    pub(super) fn new(size: PageSize) -> Lru {
        Lru { size, order: Order::new() }
    }
}

impl EvictionPolicy for Lru {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, bytes, .. } | Event::Loaded { topic, first, bytes, .. } => {
                    let page = self.size.page(topic, first);
                    match self.order.get_mut(page) {
                        Some(held) => {
                            *held += bytes;
                            self.order.move_to_end(page);
                        }
                        None => self.order.push(page, bytes),
                    }
                }
                Event::Read { topic, first, until, .. } => {
                    self.size.split(topic, first, until).for_each(|(page, ..)| self.order.move_to_end(page));
                }
                Event::Removed { topic, first, bytes, left, .. } => {
                    let page = self.size.page(topic, first);
                    if left == 0 {
                        self.order.remove(page);
                    } else if let Some(held) = self.order.get_mut(page) {
                        *held = held.saturating_sub(bytes);
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
            let Some((page, bytes)) = self.order.first() else { break };
            freed += bytes;
            self.order.remove(page);
            out.push(page);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.order.memory()
    }
}
