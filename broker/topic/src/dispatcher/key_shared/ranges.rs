//! Which consumer owns a key slot.

use super::even::Even;
use super::ring::Ring;
use crate::consumer::ConsumerIndex;
use crate::event::{HashRange, KeySplit};

/// Ranges of slots and their owners, in order, none twice. Slots in between have no owner.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    owned: Vec<Owned>,
    split: Split,
}

/// A range and its owner.
pub(super) type Owned = (HashRange, ConsumerIndex);

/// How slots are split; settled by the first consumer.
#[derive(Debug)]
enum Split {
    Even(Even),
    Hashed(Ring),
    /// As the consumers wish.
    Sticky,
}

impl Default for Split {
    fn default() -> Split {
        Split::Even(Even::default())
    }
}

impl Ranges {
    /// Nobody is there yet. On a ring each consumer gets `points`; with none, all get the same.
    pub(super) fn new(split: &KeySplit, points: u32) -> Ranges {
        let split = match split {
            KeySplit::Sticky(_) => Split::Sticky,
            KeySplit::Auto if points == 0 => Split::Even(Even::default()),
            KeySplit::Auto => Split::Hashed(Ring::new(points)),
        };
        Ranges { owned: Vec::new(), split }
    }

    /// The owner of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<ConsumerIndex> {
        let place = self.owned.partition_point(|(range, _)| range.last < slot);
        self.owned.get(place).filter(|(range, _)| range.first <= slot).map(|(_, owner)| *owner)
    }

    /// A range that overlaps with one that is owned already.
    pub(super) fn taken<'a>(&self, wanted: &'a [HashRange]) -> Option<&'a HashRange> {
        wanted.iter().find(|wanted| self.owned.iter().any(|(owned, _)| owned.overlaps(**wanted)))
    }

    /// Gives a consumer its ranges: those it asks for, or its share.
    pub(super) fn join(&mut self, consumer: ConsumerIndex, name: &str, wanted: &KeySplit) {
        match &mut self.split {
            Split::Even(even) => self.owned = even.join(&self.owned, consumer),
            Split::Hashed(ring) => self.owned = ring.join(consumer, name),
            Split::Sticky => {
                if let KeySplit::Sticky(wanted) = wanted {
                    self.owned.extend(wanted.iter().map(|range| (*range, consumer)));
                    self.owned.sort_unstable_by_key(|(range, _)| range.first);
                }
            }
        }
    }

    /// Takes a consumer's ranges away; unless they were its own wish, they go to the others.
    pub(super) fn leave(&mut self, consumer: ConsumerIndex) {
        match &mut self.split {
            Split::Even(even) => self.owned = even.leave(&self.owned, consumer),
            Split::Hashed(ring) => self.owned = ring.leave(consumer),
            Split::Sticky => self.owned.retain(|(_, owner)| *owner != consumer),
        }
    }
}

/// Appends a range. One that goes on where the last one of the same owner ends makes that longer.
pub(super) fn append(owned: &mut Vec<Owned>, first: u32, length: u32, owner: ConsumerIndex) {
    let Some((first, last)) = length.checked_sub(1).and_then(|more| Some((u16::try_from(first).ok()?, u16::try_from(first + more).ok()?)))
    else {
        return;
    };
    match owned.last_mut() {
        Some((before, of)) if *of == owner && before.last.checked_add(1) == Some(first) => before.last = last,
        _ => owned.push((HashRange { first, last }, owner)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn auto(consumers: u32, points: u32) -> Ranges {
        let mut ranges = Ranges::new(&KeySplit::Auto, points);
        (0..consumers).for_each(|consumer| join(&mut ranges, consumer));
        ranges
    }

    fn join(ranges: &mut Ranges, consumer: ConsumerIndex) {
        ranges.join(consumer, &format!("consumer-{consumer}"), &KeySplit::Auto);
    }

    fn shares(ranges: &Ranges) -> BTreeMap<ConsumerIndex, u32> {
        let mut shares = BTreeMap::new();
        for (range, owner) in &ranges.owned {
            *shares.entry(*owner).or_default() += u32::from(range.last - range.first) + 1;
        }
        shares
    }

    fn owners(ranges: &Ranges) -> Vec<ConsumerIndex> {
        (0..=u16::MAX).map(|slot| ranges.owner(slot).expect("every slot has an owner")).collect()
    }

    #[test]
    fn of_two_consumers_the_second_one_gets_the_lower_half() {
        let two = auto(2, 0);
        assert_eq!((two.owner(0), two.owner(32_767), two.owner(32_768)), (Some(1), Some(1), Some(0)));
    }

    #[test]
    fn shares_differ_by_one_slot_at_most_and_on_a_ring_by_less_than_half() {
        for consumers in [1, 2, 3, 4, 5, 7, 10, 32, 100] {
            for points in [0, 100] {
                let shares = shares(&auto(consumers, points));
                let even = 65_536.0 / f64::from(consumers);
                let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
                let (least, most) = (f64::from(*least) / even, f64::from(*most) / even);
                eprintln!("{consumers} consumers, {points} points: {:.1} % to {:.1} % of an even share", least * 100.0, most * 100.0);
                assert_eq!(shares.len(), consumers as usize);
                assert!(least > 0.5 && most < 1.5, "{consumers} consumers, {points} points: {shares:?}");
                assert!(points > 0 || (most - least) * even < 1.5, "{shares:?}");
            }
        }
    }

    #[test]
    fn whoever_comes_takes_and_whoever_leaves_gives_and_nothing_else_moves() {
        for points in [0, 1, 100] {
            let mut rng = fastrand::Rng::with_seed(3);
            let mut ranges = auto(1, points);
            let mut present = vec![0];
            let mut before = owners(&ranges);
            let mut most = 0;
            for consumer in 1..200 {
                let leaves = present.len() > 1 && rng.u32(..40) < present.len() as u32 + 8;
                let mover = if leaves { present.swap_remove(rng.usize(..present.len())) } else { consumer };
                if leaves {
                    ranges.leave(mover);
                } else {
                    join(&mut ranges, mover);
                    present.push(mover);
                }
                let after = owners(&ranges);
                let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
                for (from, to) in moved {
                    assert_eq!(if leaves { *from } else { *to }, mover, "a slot moves from {from} to {to} as {mover} comes or goes");
                }
                let shares = shares(&ranges);
                assert!(shares.keys().all(|owner| present.contains(owner)));
                if points == 0 {
                    assert!(shares.values().max().unwrap() - shares.values().min().unwrap() <= 1, "{shares:?}");
                    most = most.max(ranges.owned.len());
                }
                before = after;
            }
            eprintln!("{points} points: {most} ranges at most");
            assert!(most < 2_000, "{most} ranges for at most 40 consumers");
        }
    }

    #[test]
    fn more_consumers_than_slots_leave_some_without_any_until_others_go() {
        let mut ranges = Ranges::new(&KeySplit::Auto, 0);
        ranges.owned = (0..=u16::MAX).map(|slot| (HashRange { first: slot, last: slot }, u32::from(slot))).collect();
        ranges.split = Split::Even(Even::of((0..65_536).collect()));
        join(&mut ranges, 70_000);
        assert_eq!(shares(&ranges).get(&70_000), None);
        ranges.leave(9);
        assert_eq!(ranges.owner(9), Some(70_000));
    }

    #[test]
    fn the_last_one_leaves_nothing_behind() {
        for points in [0, 100] {
            let mut ranges = auto(2, points);
            ranges.leave(0);
            assert_eq!(ranges.owned, [(HashRange::ALL, 1)]);
            ranges.leave(1);
            assert_eq!(ranges.owner(7), None);
            join(&mut ranges, 5);
            assert_eq!(ranges.owner(7), Some(5));
        }
    }

    #[test]
    fn on_a_ring_a_consumer_that_comes_back_gets_what_it_had() {
        let mut ranges = auto(4, 100);
        let before = owners(&ranges);
        ranges.leave(2);
        assert_ne!(before, owners(&ranges));
        join(&mut ranges, 2);
        assert_eq!(before, owners(&ranges));
    }

    #[test]
    fn on_a_ring_consumers_of_one_name_have_points_of_their_own() {
        let mut ranges = Ranges::new(&KeySplit::Auto, 100);
        (0..3).for_each(|consumer| ranges.join(consumer, "same", &KeySplit::Auto));
        let three = shares(&ranges);
        assert!(three.values().all(|share| (12_000..32_000).contains(share)), "{three:?}");
        ranges.leave(0);
        ranges.join(7, "same", &KeySplit::Auto);
        assert_eq!(shares(&ranges).get(&7), three.get(&0), "it stands where the one before it stood");
    }

    #[test]
    fn a_slot_outside_of_all_sticky_ranges_has_no_owner() {
        let range = |first, last| HashRange { first, last };
        let wanted = KeySplit::Sticky(vec![range(100, 200), range(10, 20)]);
        let mut ranges = Ranges::new(&wanted, 100);
        ranges.join(1, "one", &wanted);
        ranges.join(2, "two", &KeySplit::Sticky(vec![range(21, 99)]));
        let owners: Vec<_> = [9, 10, 20, 21, 99, 100, 200, 201].into_iter().map(|slot| ranges.owner(slot)).collect();
        assert_eq!(owners, [None, Some(1), Some(1), Some(2), Some(2), Some(1), Some(1), None]);
        assert_eq!(ranges.taken(&[range(0, 9), range(200, 300)]), Some(&range(200, 300)));
        assert_eq!(ranges.taken(&[range(0, 9), range(201, 300)]), None);
        ranges.leave(1);
        assert_eq!((ranges.owner(15), ranges.owner(50)), (None, Some(2)));
    }
}
