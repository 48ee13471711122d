use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

impl Readers {
    /// Every count and link agrees with every other.
    fn verify(&self) {
        let (mut block, mut before, mut total) = (self.first_block, NONE, 0);
        let (mut stop, mut stop_before, mut place) = (self.blocks.get(block as usize).map_or(NONE, |b| b.first), NONE, None);
        while block != NONE {
            let home = self.blocks[block as usize];
            assert_eq!(home.before, before);
            assert_eq!(home.first, stop);
            assert!(home.stops > 0 && home.stops <= BLOCK_STOPS);
            let mut cursors = 0;
            for _ in 0..home.stops {
                let here = self.stops[stop as usize];
                assert_eq!((here.block, here.before), (block, stop_before));
                assert!(here.cursors > 0 && place < Some(here.at));
                cursors += here.cursors;
                (stop_before, place, stop) = (stop, Some(here.at), here.after);
            }
            assert_eq!((home.cursors, home.last), (cursors, stop_before));
            total += cursors;
            (before, block) = (block, home.after);
        }
        assert_eq!((before, stop, total), (self.last_block, NONE, self.count));
    }
}

/// The same by counting.
#[derive(Default)]
struct Naive(BTreeMap<u32, u64>);

impl Naive {
    fn agrees(&self, readers: &Readers, at: u64) {
        assert_eq!(readers.at_or_before(at), self.0.values().filter(|place| **place <= at).count());
        assert_eq!(readers.next_reader(at), self.0.values().filter(|place| **place <= at).max().copied());
        assert_eq!(readers.slowest(), self.0.values().min().copied());
        assert_eq!(readers.fastest(), self.0.values().max().copied());
        assert_eq!(readers.len(), self.0.len());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u64),
    Forward(u32, u64),
    Remove(u32),
    Ask(u64),
}

fn step(cursors: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..cursors, 0u64..5_000).prop_map(|(cursor, at)| Step::Set(cursor, at)),
        12 => (0..cursors, 0u64..100).prop_map(|(cursor, by)| Step::Forward(cursor, by)),
        1 => (0..cursors).prop_map(Step::Remove),
        3 => (0u64..6_000).prop_map(Step::Ask),
    ]
}

proptest! {
    #[test]
    fn ranks_equal_a_naive_count_wherever_cursors_go(cursors in 1u32..400, steps in proptest::collection::vec(step(400), 1..800)) {
        let (mut readers, mut naive) = (Readers::new(), Naive::default());
        for step in steps {
            match step {
                Step::Set(cursor, at) => {
                    readers.set(cursor % cursors, at);
                    naive.0.insert(cursor % cursors, at);
                }
                Step::Forward(cursor, by) => {
                    let at = naive.0.get(&(cursor % cursors)).copied().unwrap_or(0) + by;
                    readers.set(cursor % cursors, at);
                    naive.0.insert(cursor % cursors, at);
                    naive.agrees(&readers, at);
                }
                Step::Remove(cursor) => {
                    readers.remove(cursor % cursors);
                    naive.0.remove(&(cursor % cursors));
                }
                Step::Ask(at) => naive.agrees(&readers, at),
            }
            prop_assert_eq!(readers.place(3), naive.0.get(&3).copied());
        }
        readers.verify();
    }
}

#[test]
fn a_wave_of_cursors_that_overtake_each_other_stays_counted() {
    let mut readers = Readers::new();
    (0..1_000).for_each(|cursor| readers.set(cursor, u64::from(cursor) % 7));
    for round in 1..=20u64 {
        for cursor in 0..1_000 {
            readers.set(cursor, round * 100 + u64::from(cursor) % 7);
        }
        readers.verify();
        assert_eq!((readers.at_or_before(round * 100 + 6), readers.at_or_before(round * 100 - 1)), (1_000, 0));
    }
}

#[test]
fn cursors_far_apart_fill_blocks_and_empty_them_again() {
    let mut readers = Readers::new();
    (0..10_000).for_each(|cursor| readers.set(cursor, u64::from(cursor * 7_919 % 10_000)));
    readers.verify();
    assert_eq!((readers.at_or_before(4_999), readers.places().count()), (5_000, 10_000));
    // Leaps to the other end and back.
    readers.set(0, 20_000);
    readers.set(0, 0);
    readers.verify();
    (0..10_000).filter(|cursor| cursor % 100 > 0).for_each(|cursor| readers.remove(cursor));
    readers.verify();
    assert_eq!(readers.len(), 100);
    assert!(readers.blocks.len() - readers.free_blocks.len() <= 20, "{} blocks", readers.blocks.len() - readers.free_blocks.len());
}

#[test]
fn cursors_created_and_deleted_without_a_question_leave_nothing_behind() {
    // In Pulsar 4.1 they were never released until a rank was asked for.
    let mut readers = Readers::new();
    for round in 0..100_000 {
        readers.set(round % 3, u64::from(round));
        readers.remove(round % 3);
    }
    readers.verify();
    assert!(readers.is_empty() && readers.stops.len() <= 2 && readers.blocks.len() <= 2 && readers.cursors.len() <= 3);
}

#[test]
fn removing_who_is_not_there_changes_nothing() {
    let mut readers = Readers::new();
    readers.remove(7);
    readers.set(1, 5);
    readers.remove(0);
    readers.remove(1);
    readers.remove(1);
    assert_eq!((readers.len(), readers.slowest(), readers.next_reader(9), readers.at_or_before(9)), (0, None, None, 0));
}
