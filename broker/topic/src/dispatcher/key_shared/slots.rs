//! What is known of each key slot with entries in flight, in a flat table that grows with them and never past one place per slot.

use crate::consumer::ConsumerIndex;

/// Entries in flight of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    number: u16,
    /// The only one who holds any, or [`SEVERAL`].
    pub(super) holder: ConsumerIndex,
    /// Entries that consumers hold.
    pub(super) held: u32,
    /// Entries that wait.
    pub(super) waiting: u32,
}

/// In the place of a holder: keys may come out of order, or a part of a larger message went to who has the other parts.
const SEVERAL: ConsumerIndex = ConsumerIndex::MAX;

impl Slot {
    /// A consumer was sent an entry.
    pub(super) fn hold(&mut self, by: ConsumerIndex) {
        self.holder = if self.held == 0 || self.holder == by { by } else { SEVERAL };
        self.held += 1;
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting == 0
    }
}

/// The slots with entries in flight. Open addressing: a slot lies at its own number, or in the next free place after it.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// A power of two.
    places: Vec<Slot>,
    used: usize,
}

const FEWEST: usize = 16;
const MOST: usize = 1 << 16;

impl Slots {
    /// What is known of a slot, if it has entries in flight.
    pub(super) fn get(&self, number: u16) -> Option<&Slot> {
        self.places.get(self.find(number)?).filter(|slot| !slot.is_empty())
    }

    /// Changes a slot, which is remembered as long as it has entries in flight. Returns what it is now.
    pub(super) fn change(&mut self, number: u16, change: impl FnOnce(&mut Slot)) -> Slot {
        if self.used * 2 >= self.places.len() && self.places.len() < MOST {
            self.grow();
        }
        let Some(place) = self.find(number) else { return Slot::default() };
        let Some(slot) = self.places.get_mut(place) else { return Slot::default() };
        let was_empty = slot.is_empty();
        slot.number = number;
        change(slot);
        let now = *slot;
        match (was_empty, now.is_empty()) {
            (true, false) => self.used += 1,
            (false, true) => {
                self.used -= 1;
                if self.places.len() < MOST {
                    self.close_gap(place);
                }
            }
            _ => {}
        }
        now
    }

    /// Where a slot is, or where it would go.
    fn find(&self, number: u16) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut place = usize::from(number) & mask;
        // With one place per slot every slot lies at its own number; before that, half of the places are free.
        while self.places.get(place).is_some_and(|slot| !slot.is_empty() && slot.number != number) {
            place = (place + 1) & mask;
        }
        Some(place)
    }

    /// Moves slots back that lie behind a place that became free and could not be found any more.
    fn close_gap(&mut self, freed: usize) {
        let mask = self.places.len() - 1;
        let (mut gap, mut place) = (freed, freed);
        loop {
            place = (place + 1) & mask;
            let Some(slot) = self.places.get(place).filter(|slot| !slot.is_empty()) else { break };
            let home = usize::from(slot.number) & mask;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(gap) & mask {
                self.places.swap(gap, place);
                gap = place;
            }
        }
    }

    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(FEWEST);
        let old = std::mem::replace(&mut self.places, vec![Slot::default(); size]);
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            if let Some(place) = self.find(slot.number).and_then(|place| self.places.get_mut(place)) {
                *place = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_table_knows_what_a_map_knows() {
        let mut rng = fastrand::Rng::with_seed(1);
        for spread in [20, 300, 1 << 16] {
            let mut slots = Slots::default();
            let mut known: BTreeMap<u16, u32> = BTreeMap::new();
            for _ in 0..200_000 {
                // Many with the same low bits, so that they meet.
                let number = (rng.u32(..spread) * 64) as u16 | rng.u16(..2);
                let held = known.get(&number).copied().unwrap_or_default();
                let next = if held > 0 && rng.u8(..5) < 3 { held - 1 } else { held + 1 };
                assert_eq!(slots.change(number, |slot| slot.held = next).held, next);
                known.insert(number, next);
                let asked = (rng.u32(..spread) * 64) as u16;
                let expected = known.get(&asked).copied().filter(|held| *held > 0);
                assert_eq!(slots.get(asked).map(|slot| slot.held), expected);
            }
            for (number, held) in known {
                assert_eq!(slots.get(number).map_or(0, |slot| slot.held), held);
            }
        }
    }

    #[test]
    fn no_more_places_than_slots_and_all_of_them_may_be_used() {
        let mut slots = Slots::default();
        for number in 0..=u16::MAX {
            slots.change(number, |slot| slot.waiting = u32::from(number) + 1);
        }
        assert_eq!(slots.places.len(), MOST);
        for number in 0..=u16::MAX {
            assert_eq!(slots.get(number).map(|slot| slot.waiting), Some(u32::from(number) + 1));
            slots.change(number, |slot| slot.waiting = 0);
        }
        assert_eq!(slots.used, 0);
    }
}
