use proptest::prelude::*;

use super::*;
use crate::cache::optimum::{Bounds, bounds};
use crate::cache::policies::{BUILT_IN, Choice};
use crate::cache::scenarios::{self, EntrySize, Scale};

const KIB: u64 = 1024;

/// An eighth of everything, pages included, so that tests take seconds and mean the same.
const EIGHTH: Scale = Scale { divisor: 8, size: EntrySize::Equal(8 * KIB as u32) };

fn run(trace: &[Timed], entries: u64, name: &str, given: &[(&str, &str)]) -> Outcome {
    let limits = HostLimits { bytes: entries * 8 * KIB, continue_ms: 2000, page: PageSize::of(8).expect("a power of two") };
    let choice = Choice::new(name, given).expect("a policy");
    replay(trace, limits, &mut |page| choice.build(page))
}

/// Every policy on a trace keeps within the bounds, and the default is not below Pulsar's. The share of the way from first-in-first-out to
/// the optimum that the default goes.
fn compare(trace: &[Timed], entries: u64) -> f64 {
    let capacity = entries * 8 * KIB;
    let limits = bounds(trace, capacity);
    let fifo = run(trace, entries, "fifo-ttl", &[("ttl-ms", "0")]);
    let mut hits = std::collections::BTreeMap::new();
    for built_in in BUILT_IN {
        let outcome = run(trace, entries, built_in.name, &[]);
        assert_eq!((outcome.reads, outcome.counts.faults), (limits.reads, 0), "{}", built_in.name);
        assert!(outcome.hits <= limits.upper && outcome.most_bytes <= capacity, "{}: {outcome:?} {limits:?}", built_in.name);
        assert_eq!(outcome.hits + outcome.storage_entries, outcome.reads);
        hits.insert(built_in.name, outcome.hits);
    }
    assert!(limits.upper <= limits.infinite && limits.exact);
    assert!(hits["cursor-distance"] >= hits["expected-read-count"], "{hits:?}");
    limits.captured(fifo.hits, hits["cursor-distance"])
}

#[test]
fn after_restarts_the_default_goes_most_of_the_way_to_the_optimum() {
    for seed in 0..2 {
        let captured = compare(&scenarios::restart(seed, EIGHTH), 4_000);
        assert!(captured >= 0.8, "seed {seed}: {captured}");
    }
}

#[test]
fn for_joiners_that_catch_up_the_default_goes_most_of_the_way_to_the_optimum() {
    let captured = compare(&scenarios::catch_up(1, EIGHTH), 2_000);
    assert!(captured >= 0.8, "{captured}");
}

#[test]
fn the_default_is_not_below_pulsars_for_fan_out_at_the_end_and_a_slow_key() {
    for entries in [60, 250] {
        compare(&scenarios::tail_fan_out(1, EIGHTH), entries);
        compare(&scenarios::key_shared(1, EIGHTH), entries);
    }
}

#[test]
fn the_optimum_rises_with_capacity_to_the_infinite_cache() {
    let trace = scenarios::catch_up(3, Scale { divisor: 16, ..EIGHTH });
    let of = |entries: u64| bounds(&trace, entries * 8 * KIB);
    let found: Vec<Bounds> = [0, 1, 10, 100, 1_000, 1 << 30].map(of).to_vec();
    assert!(found.windows(2).all(|pair| pair[0].upper <= pair[1].upper), "{found:?}");
    assert!(found[0].upper == 0 && found[5].upper == found[5].infinite && found[5].infinite < found[5].reads);
}

#[test]
fn with_mixed_sizes_every_policy_stays_below_the_upper_bound() {
    let trace = scenarios::restart(5, Scale { divisor: 50, size: EntrySize::Mixed(128, 64 * KIB as u32) });
    let capacity = 4 << 20;
    let found = bounds(&trace, capacity);
    assert!(!found.exact && found.lower <= found.upper && found.upper < found.infinite, "{found:?}");
    for built_in in BUILT_IN {
        let choice = Choice::new(built_in.name, &[]).expect("a policy");
        let limits = HostLimits { bytes: capacity, continue_ms: 2000, page: PageSize::FULL };
        let outcome = replay(&trace, limits, &mut |page| choice.build(page));
        assert!(outcome.hits <= found.upper && outcome.most_bytes <= capacity && outcome.counts.faults == 0, "{}", built_in.name);
    }
}

#[test]
fn a_cache_with_room_for_everything_serves_what_an_infinite_one_would() {
    let trace = scenarios::tail_fan_out(2, Scale { divisor: 20, ..EIGHTH });
    let found = bounds(&trace, u64::MAX);
    let outcome = run(&trace, 1 << 40, "lru", &[]);
    assert_eq!((outcome.hits, outcome.storage_reads), (found.infinite, 0));
}

#[test]
fn without_room_every_read_goes_to_storage() {
    let trace = scenarios::tail_fan_out(2, Scale { divisor: 20, ..EIGHTH });
    for built_in in BUILT_IN {
        for bytes in [0, 8 * KIB - 1] {
            let choice = Choice::new(built_in.name, &[]).expect("a policy");
            let limits = HostLimits { bytes, continue_ms: 0, page: PageSize::FULL };
            let outcome = replay(&trace, limits, &mut |page| choice.build(page));
            assert_eq!((outcome.hits, outcome.most_bytes, outcome.counts.faults), (0, 0, 0), "{}", built_in.name);
        }
    }
}

#[test]
fn batches_read_in_surplus_and_read_again_after_a_resume_need_no_storage() {
    // In Pulsar permits ran out, and what had been read beyond them was read from storage again.
    let mut trace = vec![(0, Record::Cursor { topic: 0, cursor: 0, at: 0, mark_delete: 0, active: true })];
    for block in 0..200u64 {
        trace.push((block * 1000, Record::Published { topic: 0, first: block * 10, sizes: vec![1000; 10] }));
    }
    let read = |first: u64, purpose| {
        let hits = vec![0; 13];
        Record::Read { topic: 0, cursor: 0, first, count: 100, purpose, bytes: 100_000, hits }
    };
    for batch in 0..20u64 {
        let now = 1_000_000 + batch * 400_000;
        trace.push((now, read(batch * 100, ReadPurpose::Cursor)));
        trace.push((now, Record::Replay { topic: 0, cursor: 0, first: batch * 100 + 20, count: 80, more: true }));
        trace.push((now + 200_000, read(batch * 100, ReadPurpose::Replay)));
        trace.push((now + 200_000, Record::Replay { topic: 0, cursor: 0, first: batch * 100 + 20, count: 80, more: false }));
    }
    let choice = Choice::default();
    let limits = HostLimits { bytes: 4 << 20, continue_ms: 0, page: PageSize::FULL };
    let outcome = replay(&trace, limits, &mut |page| choice.build(page));
    assert_eq!((outcome.reads, outcome.storage_reads), (4_000, 0));
}

#[test]
fn the_same_trace_gives_the_same_outcome_every_time() {
    let trace = scenarios::key_shared(9, Scale { divisor: 10, ..EIGHTH });
    assert_eq!(trace, scenarios::key_shared(9, Scale { divisor: 10, ..EIGHTH }));
    assert_ne!(trace, scenarios::key_shared(10, Scale { divisor: 10, ..EIGHTH }));
    for built_in in BUILT_IN {
        assert_eq!(run(&trace, 200, built_in.name, &[]), run(&trace, 200, built_in.name, &[]), "{}", built_in.name);
    }
}

#[test]
fn a_trace_through_a_file_replays_as_before() {
    let trace = scenarios::restart(4, Scale { divisor: 100, ..EIGHTH });
    let mut writer = crate::cache::trace::TraceWriter::new(Vec::new()).expect("a header");
    trace.iter().for_each(|(time, record)| writer.push(*time, record).expect("within bounds"));
    let bytes = writer.finish().expect("written");
    let back = crate::cache::trace::read_trace(&bytes[..], trace.len()).expect("a trace");
    assert_eq!(back.records, trace);
    // Cut in the middle it still replays, with fewer reads.
    let half = crate::cache::trace::read_trace(&bytes[..bytes.len() / 2], trace.len()).expect("a trace");
    assert!(half.damage.is_some() && half.records.len() < trace.len());
    assert!(run(&half.records, 100, "lru", &[]).reads < run(&trace, 100, "lru", &[]).reads);
}

#[test]
fn positions_far_out_and_times_far_apart_do_no_harm() {
    let far = (1u64 << 63) - 5000;
    let read =
        |first, count| Record::Read { topic: 7, cursor: u32::MAX, first, count, purpose: ReadPurpose::Cursor, bytes: 5, hits: vec![0; 1] };
    let trace = [
        (0, Record::Cursor { topic: 7, cursor: u32::MAX, at: far, mark_delete: 0, active: true }),
        (1, Record::Published { topic: 7, first: far, sizes: vec![u32::MAX, 1] }),
        (u64::MAX / 2, read(far, 2)),
        (u64::MAX - 1, Record::Invalidated { topic: 7, first: 0, until: u64::MAX, cause: Cause::Trimmed }),
        (u64::MAX, read(0, 1)),
    ];
    for built_in in BUILT_IN {
        let outcome = run(&trace, 1 << 30, built_in.name, &[]);
        assert_eq!((outcome.reads, outcome.counts.faults), (3, 0), "{}", built_in.name);
    }
    assert_eq!(bounds(&trace, 1 << 40).infinite, 2);
}

#[test]
fn the_table_names_every_policy_and_both_bounds() {
    let trace = scenarios::tail_fan_out(2, Scale { divisor: 100, ..EIGHTH });
    let rows: Vec<_> = BUILT_IN.iter().map(|built_in| (built_in.name.to_owned(), run(&trace, 50, built_in.name, &[]))).collect();
    let text = crate::cache::table::table("fan-out", 0, &rows, &bounds(&trace, 50 * 8 * KIB));
    assert_eq!(text.lines().count(), 2 + rows.len() + 2, "{text}");
    assert!(text.starts_with("fan-out: ") && text.contains("optimum ") && text.contains("infinite cache"), "{text}");
    let wide: Vec<usize> = text.lines().skip(1).take(rows.len() + 1).map(str::len).collect();
    assert!(wide.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
}

#[test]
fn the_curve_of_the_default_rises_with_capacity() {
    let trace = scenarios::catch_up(3, Scale { divisor: 40, ..EIGHTH });
    let limits = HostLimits { bytes: 0, continue_ms: 0, page: PageSize::of(4).expect("a power of two") };
    let choice = Choice::default();
    let capacities = [0, 20, 100, 400, 1_600].map(|entries| entries * 8 * KIB);
    let curve = curve(&trace, limits, &capacities, &mut |page| choice.build(page));
    assert_eq!(curve.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(), capacities);
    let hits: Vec<u64> = curve.iter().map(|(_, outcome)| outcome.hits).collect();
    assert!(hits[0] == 0 && hits.windows(2).all(|pair| pair[0] < pair[1]), "{hits:?}");
}

fn any_record() -> impl Strategy<Value = Record> {
    let place = || prop_oneof![0u64..400, Just((1 << 63) - 5_000), any::<u64>().prop_map(|at| at >> 2)];
    let (topic, cursor) = (0u32..3, prop_oneof![0u32..3, Just(u32::MAX)]);
    let purpose = prop_oneof![4 => Just(ReadPurpose::Cursor), 1 => Just(ReadPurpose::Replay), 1 => Just(ReadPurpose::Look)];
    let cause = prop_oneof![3 => Just(Cause::Trimmed), 1 => Just(Cause::Truncated), 1 => Just(Cause::Closed)];
    let read = (topic.clone(), cursor.clone(), place(), 1u16..200, purpose, any::<u64>()).prop_map(
        |(topic, cursor, first, count, purpose, bytes)| Record::Read {
            topic,
            cursor,
            first,
            count,
            purpose,
            bytes,
            hits: vec![0; usize::from(count).div_ceil(8)],
        },
    );
    let size = prop_oneof![6 => 0u32..100, 1 => any::<u32>()];
    prop_oneof![
        4 => (topic.clone(), place(), proptest::collection::vec(size, 1..80)).prop_map(|(topic, first, sizes)| Record::Published { topic, first, sizes }),
        6 => read,
        3 => (topic.clone(), cursor.clone(), place(), any::<bool>())
            .prop_map(|(topic, cursor, at, active)| Record::Cursor { topic, cursor, at, mark_delete: at / 2, active }),
        2 => (topic.clone(), cursor.clone(), place()).prop_map(|(topic, cursor, at)| Record::Moved { topic, cursor, at }),
        1 => (topic.clone(), cursor.clone(), place()).prop_map(|(topic, cursor, at)| Record::MarkDeleted { topic, cursor, at }),
        1 => (topic.clone(), cursor.clone()).prop_map(|(topic, cursor)| Record::CursorGone { topic, cursor }),
        1 => (topic.clone(), place(), any::<u64>(), cause).prop_map(|(topic, first, until, cause)| Record::Invalidated { topic, first, until, cause }),
        1 => Just(Record::Restart),
        2 => (topic, cursor, place(), 1u16..99, any::<bool>())
            .prop_map(|(topic, cursor, first, count, more)| Record::Replay { topic, cursor, first, count, more }),
        1 => any::<u64>().prop_map(Record::Lost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_trace_says_no_policy_is_wrong_and_none_exceeds_the_bound(
        records in proptest::collection::vec((0u64..3_000_000, any_record()), 1..80),
        at in 0usize..8,
        rates in any::<bool>(),
        capacity in 0u64..6_000,
    ) {
        let mut time = 0;
        let trace: Vec<Timed> = records.into_iter().map(|(by, record)| { time += by; (time, record) }).collect();
        let name = BUILT_IN[at].name;
        let given: &[(&str, &str)] = if name == "cursor-distance" && rates { &[("rates", "true")] } else { &[] };
        let choice = Choice::new(name, given).expect("a policy");
        let outcome = replay(&trace, HostLimits { bytes: capacity, continue_ms: 500, page: PageSize::FULL }, &mut |page| choice.build(page));
        let found = bounds(&trace, capacity);
        prop_assert_eq!((outcome.counts.faults, outcome.reads), (0, found.reads));
        prop_assert!(outcome.most_bytes <= capacity);
        prop_assert!(outcome.hits <= found.upper && found.lower <= found.upper && found.upper <= found.infinite, "{:?} {:?}", outcome, found);
    }
}
