use proptest::prelude::*;

use super::*;
use crate::cache::events::{Event, Events};
use crate::cache::host::{Host, HostLimits, ReadPurpose};
use crate::cache::parameters::Kind;
use crate::cache::policy::Page;

const ONE: PageSize = PageSize::SINGLE;

fn host(bytes: u64, page: PageSize, name: &str, given: &[(&str, &str)]) -> Host {
    Host::new(HostLimits { bytes, continue_ms: 0, page }, Choice::new(name, given).expect("a policy").build(page))
}

/// When the only entry leaves a cache with room for more, looked at every 10 ms; `visit` is called at each look before.
fn lifetime(given: &[(&str, &str)], mut visit: impl FnMut(&mut Host, u64)) -> Option<u64> {
    let mut host = host(1000, ONE, "expected-read-count", given);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.set_cursor(0, 0, 1, (0, 0), true);
    host.publish(0, 0, 0, &[1]);
    host.tick(0);
    (10..60_000).step_by(10).find(|&now| {
        visit(&mut host, now);
        host.tick(now);
        !host.holds(0, 0)
    })
}

fn both_read(host: &mut Host, now: u64) {
    if now == 500 {
        host.read(now, 0, 0, (0, 1));
        host.read(now, 0, 1, (0, 1));
    }
}

#[test]
fn entries_live_as_long_as_in_pulsar() {
    let extended = [("extend-accessed", "true")];
    assert_eq!(lifetime(&[], both_read), Some(1010));
    assert_eq!(lifetime(&extended, both_read), Some(2020));
    // One reader never comes: five times more.
    assert_eq!(lifetime(&[], |host, now| drop((now == 500).then(|| host.read(now, 0, 0, (0, 1))))), Some(6060));
    assert_eq!(lifetime(&[("max-extensions", "0")], |_, _| {}), Some(1010));
    assert_eq!(lifetime(&[("ttl-ms", "100")], |_, _| {}), Some(660));
    // Accessed in every interval.
    assert_eq!(lifetime(&extended, |host, now| drop((now % 500 == 0).then(|| host.read(now, 0, 0, (0, 1))))), None);
    assert_eq!(lifetime(&extended, |host, now| drop((now < 9_000 && now % 500 == 0).then(|| host.read(now, 0, 0, (0, 1))))), Some(10_100));
}

#[test]
fn tail_readers_leave_nothing_expected_and_soon_nothing_cached() {
    let mut host = host(1 << 20, PageSize::FULL, "expected-read-count", &[]);
    (0..5).for_each(|cursor| host.set_cursor(0, 0, cursor, (0, 0), true));
    for (entry, now) in (0..450).zip((0..).step_by(7)) {
        host.publish(now, 0, entry, &[100]);
        (0..5).for_each(|cursor| {
            host.read(now, 0, cursor, (entry, entry + 1));
            host.move_cursor(now, 0, cursor, entry + 1);
        });
        host.tick(now);
    }
    (3_000..6_150).step_by(10).for_each(|now| host.tick(now));
    assert_eq!(host.used(), 0);
}

#[test]
fn under_pressure_what_nobody_expects_goes_before_what_was_accessed_before_what_is_expected() {
    let mut host = host(100, ONE, "expected-read-count", &[("extend-accessed", "true"), ("watermark", "0.65"), ("trigger", "0.98")]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    // Expected, read, read and looked at since, not expected: each 30 bytes but the first.
    host.publish(0, 0, 0, &[5, 30, 30, 30]);
    (1..4).for_each(|entry| drop(host.read(0, 0, 0, (entry, entry + 1))));
    host.publish(1, 0, 4, &[30]);
    // 125 held: 60 must go, and all four have a reason to stay once. In the second round only the first and the last have.
    assert_eq!(host.used(), 65);
    assert!(host.holds(0, 0) && host.holds(0, 4) && !host.holds(0, 1) && !host.holds(0, 2) && host.holds(0, 3));
}

#[test]
fn eviction_for_room_stops_once_enough_is_freed() {
    let mut host = host(100, ONE, "fifo-ttl", &[("ttl-ms", "0")]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.publish(0, 0, 0, &[30, 40, 30]);
    host.publish(0, 0, 3, &[35]);
    assert_eq!((host.used(), host.take_evicted().len()), (65, 2));
}

#[test]
fn the_oldest_goes_first_across_topics() {
    // In Pulsar before the central queue it did not.
    for name in ["fifo-ttl", "expected-read-count", "lru", "sieve", "s3-fifo"] {
        let given: &[(&str, &str)] = if name == "expected-read-count" { &[("watermark", "1"), ("trigger", "1")] } else { &[] };
        let mut host = host(10, ONE, name, given);
        for entry in 0..10 {
            host.set_cursor(0, entry % 3, 0, (100, 100), true);
            host.publish(0, entry % 3, u64::from(entry / 3), &[1]);
        }
        host.publish(0, 3, 0, &[1]);
        host.set_cursor(0, 3, 0, (100, 100), true);
        host.publish(0, 3, 0, &[1]);
        assert!(!host.holds(0, 0) && host.holds(1, 0) && host.holds(3, 0), "{name}");
    }
}

#[test]
fn a_stale_slow_cursor_does_not_make_the_cache_useless_for_fan_out() {
    // From 2.8.2 to 2.10.2 Pulsar evicted by a cursor that had left.
    for name in ["cursor-distance", "expected-read-count", "mark-delete"] {
        let mut host = host(1000, PageSize::FULL, name, &[]);
        (0..4).for_each(|cursor| host.set_cursor(0, 0, cursor, (0, 0), true));
        host.remove_cursor(0, 0, 3);
        for round in 0..50 {
            let first = round * 10;
            host.publish(round, 0, first, &[1; 10]);
            for cursor in 0..3 {
                assert_eq!(host.read(round, 0, cursor, (first, first + 10)).hits, 10, "{name}");
                host.move_cursor(round, 0, cursor, first + 10);
                host.mark_delete(round, 0, cursor, first + 10);
            }
            host.tick(round);
        }
        assert!(host.used() <= 1000);
    }
}

#[test]
fn a_cursor_that_left_for_good_holds_nothing() {
    let mut host = host(256, PageSize::FULL, "cursor-distance", &[("grace-ms", "100")]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.set_cursor(0, 1, 0, (0, 0), true);
    host.publish(0, 0, 0, &[1; 128]);
    host.publish(0, 1, 0, &[1; 128]);
    host.set_cursor(10, 0, 0, (0, 0), false);
    host.tick(10);
    // Within its grace the far end of the other topic goes, after it everything of this one.
    host.publish(50, 1, 128, &[1; 1]);
    assert!(host.holds(0, 0) && host.holds(0, 127) && !host.holds(1, 128));
    host.tick(110);
    host.publish(120, 1, 128, &[1; 128]);
    assert!(!host.holds(0, 0) && !host.holds(0, 127) && host.holds(1, 255));
}

#[test]
fn distance_keeps_what_a_steady_laggard_needs_next() {
    // The oldest-first policies give such a reader nothing.
    let share = |name: &str| {
        let mut host = host(64 * 20, PageSize::FULL, name, &[]);
        host.set_cursor(0, 0, 0, (0, 0), true);
        host.set_cursor(0, 0, 1, (0, 0), true);
        let (mut hits, mut reads) = (0, 0);
        for round in 0..400u64 {
            host.publish(round, 0, round * 64, &[1; 64]);
            host.move_cursor(round, 0, 0, (round + 1) * 64);
            if let Some(at) = round.checked_sub(40) {
                let found = host.read(round, 0, 1, (at * 64, at * 64 + 64));
                host.move_cursor(round, 0, 1, at * 64 + 64);
                hits += found.hits;
                reads += 64;
            }
        }
        hits as f64 / f64::from(reads)
    };
    assert!(share("lru") == 0.0 && share("fifo-ttl") == 0.0);
    // The cache holds 20 of the 40 pages that it is behind.
    assert!(share("cursor-distance") > 0.45, "{}", share("cursor-distance"));
}

#[test]
fn rates_tell_who_comes_first() {
    let run = |rates: &str| {
        let mut host = host(64 * 4, PageSize::FULL, "cursor-distance", &[("rates", rates)]);
        for topic in 0..2 {
            host.set_cursor(0, topic, 0, (0, 0), true);
        }
        // The first topic's reader is fast, the second's slow.
        for round in 1..=20u64 {
            host.move_cursor(round * 100, 0, 0, round * 640);
            host.move_cursor(round * 100, 1, 0, round);
            host.tick(round * 100);
        }
        host.publish(2000, 0, 12_800 + 128, &[1; 128]);
        host.publish(2000, 1, 64, &[1; 128]);
        host.publish(2001, 1, 640, &[1]);
        host.set_limit(2002, 192);
        (host.holds(0, 12_800 + 255), host.holds(1, 64 + 127))
    };
    assert_eq!(run("false"), (false, true));
    assert_eq!(run("true"), (true, false));
}

#[test]
fn entries_waiting_for_redelivery_are_kept_within_their_share() {
    let mut host = host(640, PageSize::FULL, "cursor-distance", &[("replay-share", "0.2")]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.publish(0, 0, 0, &[1; 640]);
    host.read(0, 0, 0, (0, 640));
    host.move_cursor(0, 0, 0, 640);
    host.replay(0, 0, 0, (70, 72), true);
    host.publish(1, 0, 640, &[1; 576]);
    // Nine pages of ten had to go, all behind the reader; this one will be read again.
    assert!(host.holds(0, 70) && host.holds(0, 1215) && !host.holds(0, 64 * 5));
    host.replay(2, 0, 0, (70, 72), false);
    host.publish(2, 0, 1216, &[1; 1]);
    assert!(!host.holds(0, 70));
    // More than its share waits: then distance decides again.
    host.replay(3, 0, 0, (640, 1216), true);
    host.move_cursor(3, 0, 0, 1216);
    host.publish(4, 0, 1217, &[1; 300]);
    assert!(host.holds(0, 1217) && host.holds(0, 1516) && host.used() <= 640);
}

#[test]
fn what_a_lone_reader_takes_from_storage_is_not_kept_but_for_one_behind_it_is() {
    let mut host = host(1000, PageSize::FULL, "cursor-distance", &[]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.move_cursor(0, 0, 0, 100);
    host.loaded(0, 0, 0, ReadPurpose::Cursor, (0, &[1; 100]));
    assert_eq!(host.entries(), 0);
    host.set_cursor(0, 0, 1, (50, 50), true);
    host.loaded(0, 0, 0, ReadPurpose::Cursor, (0, &[1; 100]));
    // So is a redelivery that another cursor has still before it.
    host.loaded(0, 0, 0, ReadPurpose::Replay, (60, &[1; 100]));
    assert_eq!(host.entries(), 0, "rows are gathered before the policy is told");
    host.tick(10);
    host.loaded(10, 0, 0, ReadPurpose::Cursor, (0, &[1; 100]));
    assert_eq!(host.entries(), 100);
}

#[test]
fn backlogged_cursors_keep_what_they_read_only_in_company() {
    let keeps = |cursors: &[u64], min: &str| {
        let mut host = host(1 << 20, PageSize::FULL, "backlogged", &[("min-cursors", min)]);
        host.set_cursor(0, 0, 9, (10_000, 10_000), true);
        host.publish(0, 0, 10_000, &[1]);
        (0..).zip(cursors).for_each(|(cursor, at)| host.set_cursor(0, 0, cursor, (*at, *at), true));
        host.tick(60_000);
        let before = host.entries();
        host.loaded(60_000, 0, 0, ReadPurpose::Cursor, (cursors[0], &[1; 10]));
        host.entries() > before
    };
    assert!(keeps(&[100, 1100], "1") && !keeps(&[100, 1101], "1") && !keeps(&[100], "1"));
    assert!(!keeps(&[100, 200], "2") && keeps(&[100, 200, 300], "2") && !keeps(&[100, 200], "0"));
    // Not far enough behind.
    assert!(!keeps(&[9_500, 9_400], "1"));
}

#[test]
fn mark_delete_keeps_what_is_not_acked_and_drops_the_rest() {
    let held = |behind: &str| {
        let mut host = host(1 << 20, ONE, "mark-delete", &[("behind", behind)]);
        host.set_cursor(0, 0, 0, (0, 0), true);
        host.set_cursor(0, 0, 1, (0, 0), true);
        host.publish(0, 0, 0, &[1; 100]);
        host.move_cursor(1, 0, 0, 60);
        host.move_cursor(1, 0, 1, 100);
        host.mark_delete(1, 0, 0, 40);
        host.mark_delete(1, 0, 1, 30);
        host.tick(10);
        let first = (0..100).find(|entry| host.holds(0, *entry));
        // Nobody is left, and later too old.
        host.set_cursor(20, 0, 0, (60, 40), false);
        host.set_cursor(20, 0, 1, (100, 30), false);
        host.tick(30);
        assert_eq!(host.entries(), 0);
        first
    };
    assert_eq!((held("mark-delete"), held("read")), (Some(30), Some(60)));
}

#[test]
fn the_hand_spares_what_was_visited_and_wraps_around() {
    let mut host = host(4, ONE, "sieve", &[]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.publish(0, 0, 0, &[1; 4]);
    host.read(0, 0, 0, (0, 2));
    host.publish(0, 0, 4, &[1]);
    assert!(!host.holds(0, 2) && host.holds(0, 0) && host.holds(0, 1));
    host.publish(0, 0, 5, &[1]);
    assert!(!host.holds(0, 3));
    host.publish(0, 0, 6, &[1]);
    host.publish(0, 0, 7, &[1]);
    host.publish(0, 0, 8, &[1]);
    host.publish(0, 0, 9, &[1]);
    host.read(0, 0, 0, (8, 10));
    // Past the end it begins again, and finds the first not visited any more.
    host.publish(0, 0, 10, &[1]);
    assert!(host.used() == 4 && !host.holds(0, 0));
}

#[test]
fn what_is_read_while_new_moves_to_the_main_queue_and_ghosts_come_back_there() {
    let mut host = host(10, ONE, "s3-fifo", &[("promote-at", "1")]);
    host.set_cursor(0, 0, 0, (0, 0), true);
    host.publish(0, 0, 0, &[1; 10]);
    host.read(0, 0, 0, (0, 1));
    host.publish(0, 0, 10, &[1; 5]);
    assert!(host.holds(0, 0) && (1..6).all(|entry| !host.holds(0, entry)));
    // Loaded again soon after it left, it is taken for worth keeping.
    host.loaded(0, 0, 0, ReadPurpose::Cursor, (5, &[1]));
    host.publish(0, 0, 15, &[1; 30]);
    assert!(host.holds(0, 0) && host.holds(0, 5));
}

#[test]
fn counts_that_follow_cursors_let_go_after_a_seek_and_hold_after_a_join() {
    let run = |recount: &str, seek: Option<u64>| {
        let mut host = host(1000, ONE, "expected-read-count", &[("recount", recount)]);
        host.set_cursor(0, 0, 0, (0, 0), true);
        host.publish(0, 0, 0, &[1]);
        match seek {
            Some(at) => host.move_cursor(1, 0, 0, at),
            None => {
                // Read by the first, then one joins behind it.
                host.read(1, 0, 0, (0, 1));
                host.move_cursor(1, 0, 0, 1);
                host.set_cursor(2, 0, 1, (0, 0), true);
            }
        }
        (10..2_000).step_by(10).for_each(|now| host.tick(now));
        host.holds(0, 0)
    };
    assert_eq!((run("false", Some(100)), run("true", Some(100))), (true, false));
    assert_eq!((run("false", None), run("true", None)), (false, true));
}

#[test]
fn an_unknown_policy_is_told_what_there_is() {
    let error = Choice::new("lfu", &[]).expect_err("no such policy").to_string();
    assert!(error.contains("`lfu`") && BUILT_IN.iter().all(|built_in| error.contains(built_in.name)), "{error}");
}

#[test]
fn everything_wrong_with_parameters_is_told_at_once() {
    let given = [("ttl-ms", "0"), ("recount", "maybe"), ("speed", "1"), ("watermark", "NaN"), ("trigger", "0.5"), ("trigger", "0.5")];
    let Err(ChoiceError::Parameters(errors)) = Choice::new("expected-read-count", &given) else { panic!("it was taken") };
    let text = ChoiceError::Parameters(errors.clone()).to_string();
    // The last: eviction would stop, by default at 0.9, before it starts.
    assert_eq!(errors.len(), 6, "{text}");
    for part in [
        "1 to 86400000, not `0`",
        "true or false, not `maybe`",
        "no parameter `speed`; it has ttl-ms",
        "not `NaN`",
        "more than once",
        "before it starts",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(Choice::new("lru", &[("a", "1")]).expect_err("lru has none").to_string().contains("it has none"));
}

#[test]
fn every_default_lies_within_its_bounds_and_is_shown() {
    let mut names = std::collections::BTreeSet::new();
    for built_in in BUILT_IN {
        assert!(names.insert(built_in.name) && !built_in.doc.is_empty());
        let choice = Choice::new(built_in.name, &[]).expect("defaults are right");
        let shown: Vec<_> = choice.parameters().iter().collect();
        assert_eq!(shown.len(), built_in.schema.len());
        for parameter in built_in.schema {
            let (_, text) = shown.iter().find(|(name, _)| *name == parameter.name).expect("all have a value");
            assert_eq!(text, parameter.default, "{}", built_in.name);
            assert!(!parameter.doc.is_empty());
            if let Kind::Choice(words) = parameter.kind {
                assert!(words.contains(&parameter.default));
            }
        }
        assert!(choice.build(PageSize::FULL).memory() < 4096);
    }
    assert_eq!(Choice::default().name(), DEFAULT);
}

#[test]
fn a_policy_that_is_told_of_what_it_does_not_know_stays_calm() {
    let mut events = Events { now: 5, ..Events::default() };
    events.push(Event::Removed { topic: 1, first: 70, until: 80, bytes: 9, left: 3 });
    events.push(Event::Removed { topic: 1, first: 0, until: 64, bytes: 9, left: 0 });
    events.push(Event::Moved { topic: 1, cursor: 7, at: 3 });
    events.push(Event::MarkDeleted { topic: 1, cursor: 7, at: 3 });
    events.push(Event::CursorGone { topic: 1, cursor: 7 });
    events.push(Event::Read { topic: 1, cursor: 7, first: 3, until: 300 });
    events.push(Event::Replayed { topic: 1, cursor: 7, first: 3, until: 300 });
    events.push(Event::ReplayDone { topic: 1, cursor: 7, first: 3, until: 300 });
    events.push(Event::Closed { topic: 1 });
    for built_in in BUILT_IN {
        let mut policy = Choice::new(built_in.name, &[]).expect("a policy").build(PageSize::FULL);
        assert_eq!(policy.apply(&events), Ok(()));
        let mut out: Vec<Page> = Vec::new();
        let pressure = crate::cache::policy::Pressure { now: 6, used: 10, limit: 5, need: 5 };
        assert_eq!((policy.victims(&pressure, &mut out), out), (Ok(()), vec![]), "{}", built_in.name);
    }
}

#[test]
fn what_a_lone_reader_took_from_storage_is_expected_by_nobody_but_kept_for_a_while() {
    let lives = |cursors: u32, purpose: ReadPurpose| {
        let mut host = host(1000, ONE, "expected-read-count", &[]);
        (0..cursors).for_each(|cursor| host.set_cursor(0, 0, cursor, (0, 0), true));
        host.loaded(0, 0, 0, purpose, (0, &[1]));
        host.tick(0);
        (0..10_000).step_by(10).find(|&now| {
            host.tick(now);
            !host.holds(0, 0)
        })
    };
    assert_eq!(lives(1, ReadPurpose::Cursor), Some(1010));
    assert_eq!(lives(2, ReadPurpose::Cursor), Some(6060));
    // Misses of redeliveries are not kept, whoever stands behind.
    assert_eq!(lives(2, ReadPurpose::Replay), Some(0));
}

#[test]
fn a_redelivery_put_back_in_time_leaves_the_count_as_it_was() {
    let lives = |replayed: bool| {
        let mut host = host(1000, ONE, "expected-read-count", &[]);
        host.set_cursor(0, 0, 0, (0, 0), true);
        host.publish(0, 0, 0, &[1]);
        if replayed {
            host.replay(0, 0, 0, (0, 1), true);
        }
        host.read(0, 0, 0, (0, 1));
        host.tick(0);
        (0..10_000).step_by(10).find(|&now| {
            host.tick(now);
            !host.holds(0, 0)
        })
    };
    assert_eq!((lives(false), lives(true)), (Some(1010), Some(6060)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn counts_equal_a_naive_count_while_cursors_read_on_and_read_again(
        steps in proptest::collection::vec((0u32..4, 1u64..40, proptest::bool::weighted(0.2)), 1..60),
        recount in any::<bool>(),
    ) {
        let mut host = host(1 << 20, ONE, "expected-read-count", &[("recount", if recount { "true" } else { "false" })]);
        (0..4).for_each(|cursor| host.set_cursor(0, 0, cursor, (0, 0), true));
        host.publish(0, 0, 0, &[1; 600]);
        host.tick(0);
        let mut places = [0u64; 4];
        for (cursor, count, again) in steps {
            let at = &mut places[cursor as usize];
            let range = (*at, (*at + count).min(600));
            if again && range.0 < range.1 {
                // Read, put on replay before its copy is let go, and read again: as often expected as before, and then read.
                host.read(0, 0, cursor, range);
                host.replay(0, 0, cursor, range, true);
                host.replay(0, 0, cursor, range, false);
            }
            host.read(0, 0, cursor, range);
            host.move_cursor(0, 0, cursor, range.1);
            *at = range.1;
        }
        host.tick(1001);
        for entry in 0..600 {
            let expected = places.iter().filter(|at| **at <= entry).count();
            prop_assert_eq!(host.holds(0, entry), expected > 0, "entry {} with readers at {:?}", entry, places);
        }
    }
}

#[test]
fn data_that_all_have_read_does_not_stay_because_it_was_read() {
    // Pulsar kept it for a second life by default, and twice as many entries with it.
    let parameter = expected_read_count::SCHEMA.iter().find(|parameter| parameter.name == "extend-accessed").expect("a parameter");
    assert_eq!(parameter.default, "false");
}

#[test]
fn a_joiner_is_read_for_at_once_and_not_at_the_next_check() {
    // Who may keep what it reads was recomputed once a minute only.
    let keeps = |name: &str| {
        let mut host = host(1 << 20, PageSize::FULL, name, &[]);
        host.set_cursor(0, 0, 0, (0, 0), true);
        host.publish(0, 0, 10_000, &[1]);
        host.tick(60_000);
        host.set_cursor(60_005, 0, 1, (0, 0), true);
        host.tick(60_010);
        host.loaded(60_010, 0, 0, ReadPurpose::Cursor, (0, &[1; 10]));
        host.holds(0, 0)
    };
    assert!(keeps("cursor-distance") && keeps("expected-read-count") && !keeps("backlogged"));
}
