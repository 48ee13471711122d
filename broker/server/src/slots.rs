//! A slab whose keys go stale: a slot that is used again has a new generation.

use slab::Slab;

/// Values by slot and generation.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slab: Slab<(u32, T)>,
    next_generation: u32,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { slab: Slab::new(), next_generation: 0 }
    }

    /// Puts in what `make` makes of its slot and generation.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32, u32) -> T) -> (u32, u32) {
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let entry = self.slab.vacant_entry();
        let slot = u32::try_from(entry.key()).unwrap_or(u32::MAX);
        entry.insert((generation, make(slot, generation)));
        (slot, generation)
    }

    pub(crate) fn get_mut(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        match self.slab.get_mut(slot as usize) {
            Some((found, value)) if *found == generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, generation: u32) -> Option<T> {
        self.get_mut(slot, generation)?;
        Some(self.slab.remove(slot as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Every value is in a slot below this one.
    pub(crate) fn end(&self) -> usize {
        self.slab.capacity()
    }

    /// What is in a slot now, of whatever generation.
    pub(crate) fn at(&mut self, slot: usize) -> Option<&mut T> {
        self.slab.get_mut(slot).map(|(_, value)| value)
    }

    /// Slot, generation and value of each.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, u32, &mut T)> {
        self.slab.iter_mut().map(|(slot, (generation, value))| (u32::try_from(slot).unwrap_or(u32::MAX), *generation, value))
    }
}
