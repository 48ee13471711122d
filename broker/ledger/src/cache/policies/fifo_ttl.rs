//! `fifo-ttl`: the oldest page goes first, and what is too old goes anyway. The yardstick that others are measured from.

use super::super::events::{Event, Events};
use super::super::parameters::{Kind, Parameter, Parameters};
use super::super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure};
use super::order::Order;

pub(super) const SCHEMA: &[Parameter] = &[Parameter {
    name: "ttl-ms",
    kind: Kind::Whole(0, 86_400_000),
    default: "1000",
    doc: "Milliseconds after which a page goes although there is room; 0 for never.",
    key: Some("managedLedgerCacheEvictionTimeThresholdMillis"),
}];

/// Insertion is O(1), a read costs nothing, an eviction is O(1).
pub(super) struct FifoTtl {
    size: PageSize,
    ttl: u64,
    order: Order<Slot>,
}

/// A page in the queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u64,
    since: u64,
}

impl FifoTtl {
    pub(super) fn new(parameters: &Parameters, size: PageSize) -> FifoTtl {
        FifoTtl { size, ttl: parameters.whole("ttl-ms"), order: Order::new() }
    }
}

impl EvictionPolicy for FifoTtl {
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault> {
        for event in events.iter() {
            match event {
                Event::Published { topic, first, bytes, .. } | Event::Loaded { topic, first, bytes, .. } => {
                    let page = self.size.page(topic, first);
                    match self.order.get_mut(page) {
                        Some(slot) => slot.bytes += bytes,
                        None => self.order.push(page, Slot { bytes, since: events.now }),
                    }
                }
                Event::Removed { topic, first, bytes, left, .. } => {
                    let page = self.size.page(topic, first);
                    if left == 0 {
                        self.order.remove(page);
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
        while let Some((page, slot)) = self.order.first() {
            let old = self.ttl > 0 && pressure.now.saturating_sub(slot.since) > self.ttl;
            if freed >= pressure.need && !old {
                break;
            }
            freed += slot.bytes;
            self.order.remove(page);
            out.push(page);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.order.memory()
    }
}
