//! Which consumer owns a key slot.

use crate::consumer::ConsumerIndex;
use crate::event::{HashRange, KeySplit};

/// Ranges of slots and their owners, in order, none twice. Slots in between have no owner.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    owned: Vec<(HashRange, ConsumerIndex)>,
}

impl Ranges {
    /// The owner of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<ConsumerIndex> {
        let place = self.owned.partition_point(|(range, _)| range.last < slot);
        self.owned.get(place).filter(|(range, _)| range.first <= slot).map(|(_, owner)| *owner)
    }

    /// A range that overlaps with one that is owned already.
    pub(super) fn taken<'a>(&self, wanted: &'a [HashRange]) -> Option<&'a HashRange> {
        wanted.iter().find(|wanted| self.owned.iter().any(|(owned, _)| owned.overlaps(**wanted)))
    }

    /// Gives a consumer its ranges: those it asks for, or the lower half of the largest one, as clients' tests expect.
    pub(super) fn join(&mut self, consumer: ConsumerIndex, split: &KeySplit) {
        match split {
            KeySplit::Auto => self.split(consumer),
            KeySplit::Sticky(wanted) => {
                self.owned.extend(wanted.iter().map(|range| (*range, consumer)));
                self.owned.sort_unstable_by_key(|(range, _)| range.first);
            }
        }
    }

    fn split(&mut self, consumer: ConsumerIndex) {
        // The first of the largest: `max_by_key` would give the last.
        let largest =
            (0..self.owned.len()).rev().max_by_key(|place| self.owned.get(*place).map_or(0, |(range, _)| range.last - range.first));
        match largest.and_then(|place| self.owned.get_mut(place).map(|owned| (place, owned))) {
            None => self.owned.push((HashRange::ALL, consumer)),
            Some((place, (range, _))) if range.first < range.last => {
                let lower = HashRange { first: range.first, last: range.first.midpoint(range.last) };
                range.first = lower.last + 1;
                self.owned.insert(place, (lower, consumer));
            }
            // More consumers than slots: this one gets nothing until others leave.
            Some(_) => {}
        }
    }

    /// Takes a consumer's ranges away. Of ranges that were split, the next one grows, or the one before if it was the last.
    pub(super) fn leave(&mut self, consumer: ConsumerIndex, split: &KeySplit) {
        if let KeySplit::Sticky(_) = split {
            return self.owned.retain(|(_, owner)| *owner != consumer);
        }
        while let Some(place) = self.owned.iter().position(|(_, owner)| *owner == consumer) {
            let (gone, _) = self.owned.remove(place);
            if let Some((next, _)) = self.owned.get_mut(place) {
                next.first = gone.first;
            } else if let Some((before, _)) = self.owned.last_mut() {
                before.last = gone.last;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(consumers: u32) -> Ranges {
        let mut ranges = Ranges::default();
        for consumer in 0..consumers {
            ranges.join(consumer, &KeySplit::Auto);
        }
        ranges
    }

    fn shares(ranges: &Ranges, consumers: u32) -> Vec<usize> {
        let slots = || (0..=u16::MAX).map(|slot| ranges.owner(slot));
        (0..consumers).map(|consumer| slots().filter(|owner| *owner == Some(consumer)).count()).collect()
    }

    #[test]
    fn a_new_consumer_takes_the_lower_half_of_the_largest_range() {
        assert_eq!(shares(&auto(1), 1), [65_536]);
        let two = auto(2);
        assert_eq!((two.owner(0), two.owner(32_767), two.owner(32_768)), (Some(1), Some(1), Some(0)));
        assert_eq!(shares(&auto(3), 3), [32_768, 16_384, 16_384]);
        assert_eq!(shares(&auto(4), 4), [16_384; 4]);
        assert_eq!(shares(&auto(32), 32), [2_048; 32]);
    }

    #[test]
    fn a_neighbour_takes_over_what_a_leaving_consumer_had() {
        for leaving in 0..4 {
            let mut ranges = auto(4);
            ranges.leave(leaving, &KeySplit::Auto);
            let mut left = shares(&ranges, 4);
            left.sort_unstable();
            assert_eq!(left, [0, 16_384, 16_384, 32_768], "{leaving} left");
        }
        let mut ranges = auto(1);
        ranges.leave(0, &KeySplit::Auto);
        assert_eq!(ranges.owner(7), None);
        ranges.join(5, &KeySplit::Auto);
        assert_eq!(ranges.owner(7), Some(5));
    }

    #[test]
    fn every_slot_keeps_an_owner_however_consumers_come_and_go() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut ranges = auto(1);
        let mut present = vec![0];
        for consumer in 1..500 {
            if present.len() > 1 && rng.bool() {
                ranges.leave(present.swap_remove(rng.usize(..present.len())), &KeySplit::Auto);
            } else {
                ranges.join(consumer, &KeySplit::Auto);
                present.push(consumer);
            }
            for slot in [0, 1, 777, 32_767, 32_768, 65_535] {
                assert!(ranges.owner(slot).is_some_and(|owner| present.contains(&owner)));
            }
        }
    }

    #[test]
    fn a_consumer_that_finds_no_range_to_split_gets_none() {
        let one = |slot| (HashRange { first: slot, last: slot }, u32::from(slot));
        let mut ranges = Ranges { owned: (0..=u16::MAX).map(one).collect() };
        ranges.join(70_000, &KeySplit::Auto);
        assert_eq!(ranges.owned.len(), 65_536);
    }

    #[test]
    fn a_slot_outside_of_all_sticky_ranges_has_no_owner() {
        let range = |first, last| HashRange { first, last };
        let mut ranges = Ranges::default();
        let wanted = KeySplit::Sticky(vec![range(100, 200), range(10, 20)]);
        ranges.join(1, &wanted);
        ranges.join(2, &KeySplit::Sticky(vec![range(21, 99)]));
        let owners: Vec<_> = [9, 10, 20, 21, 99, 100, 200, 201].into_iter().map(|slot| ranges.owner(slot)).collect();
        assert_eq!(owners, [None, Some(1), Some(1), Some(2), Some(2), Some(1), Some(1), None]);
        assert_eq!(ranges.taken(&[range(0, 9), range(200, 300)]), Some(&range(200, 300)));
        assert_eq!(ranges.taken(&[range(0, 9), range(201, 300)]), None);
        ranges.leave(1, &wanted);
        assert_eq!((ranges.owner(15), ranges.owner(50)), (None, Some(2)));
    }
}
