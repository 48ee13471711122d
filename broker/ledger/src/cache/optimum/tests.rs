use proptest::prelude::*;

use super::*;
use crate::cache::host::ReadPurpose;

fn published(topic: u32, first: u64, sizes: &[u32]) -> Timed {
    (0, Record::Published { topic, first, sizes: sizes.to_vec() })
}

fn read(topic: u32, first: u64, count: u16) -> Timed {
    let hits = vec![0; usize::from(count).div_ceil(8)];
    (0, Record::Read { topic, cursor: 0, first, count, purpose: ReadPurpose::Cursor, bytes: u64::from(count), hits })
}

#[test]
fn the_interval_that_ends_last_is_dropped() {
    let trace = [published(0, 0, &[1, 1, 1]), read(0, 0, 1), read(0, 1, 1), read(0, 2, 1)];
    let of = |capacity| bounds(&trace, capacity);
    assert_eq!((of(0).upper, of(1).upper, of(2).upper, of(3).upper, of(3).infinite), (0, 1, 2, 3, 3));
    assert!(of(2).exact);
}

#[test]
fn what_was_trimmed_closed_or_lost_by_a_restart_is_not_at_hand() {
    for gone in [
        Record::Restart,
        Record::Invalidated { topic: 0, first: 0, until: 3, cause: Cause::Trimmed },
        Record::Invalidated { topic: 0, first: 0, until: 0, cause: Cause::Closed },
    ] {
        let trace = [published(0, 0, &[1, 1, 1]), published(1, 0, &[1]), (0, gone.clone()), read(0, 0, 3), read(1, 0, 1)];
        let lost = if gone == Record::Restart { 0 } else { 1 };
        assert_eq!((bounds(&trace, 100).infinite, bounds(&trace, 100).reads), (lost, 4), "{gone:?}");
    }
    let part =
        [published(0, 0, &[1; 100]), (0, Record::Invalidated { topic: 0, first: 10, until: 90, cause: Cause::Truncated }), read(0, 0, 100)];
    assert_eq!(bounds(&part, 1000).upper, 20);
}

#[test]
fn an_entry_larger_than_the_cache_pushes_nothing_out() {
    let trace = [published(0, 0, &[10, 1]), read(0, 0, 2)];
    assert_eq!((bounds(&trace, 5).upper, bounds(&trace, 5).infinite), (1, 2));
}

/// The most hits by trying every choice of intervals.
fn exhaustive(intervals: &[Interval], capacity: u64, records: u32) -> u64 {
    let fits = |choice: u32| {
        (0..records).all(|moment| {
            let chosen = intervals.iter().enumerate().filter(|(at, one)| choice & 1 << at != 0 && (one.start..one.end).contains(&moment));
            chosen.map(|(_, one)| u64::from(one.bytes)).sum::<u64>() <= capacity
        })
    };
    (0..1u32 << intervals.len()).filter(|choice| fits(*choice)).map(u32::count_ones).max().map_or(0, u64::from)
}

proptest! {
    #[test]
    fn bounds_hold_the_best_choice_between_them(
        steps in proptest::collection::vec((0u64..4, any::<bool>()), 1..11),
        sizes in proptest::collection::vec(1u32..5, 4),
        equal in any::<bool>(),
        capacity in 0u64..9,
    ) {
        let sizes = if equal { vec![2; 4] } else { sizes };
        let mut trace = vec![published(0, 0, &sizes)];
        trace.extend(steps.iter().map(|&(entry, again)| if again { read(0, entry, 1) } else { read(0, entry, (4 - entry).min(2) as u16) }));
        let (_, all) = intervals(&trace);
        prop_assume!(all.len() <= 14);
        let best = exhaustive(&all, capacity, trace.len() as u32);
        let found = bounds(&trace, capacity);
        prop_assert!(found.lower <= best && best <= found.upper, "{} {best} {}", found.lower, found.upper);
        prop_assert!(found.upper <= found.infinite);
        if found.exact {
            prop_assert_eq!(found.upper, best);
        }
    }
}
