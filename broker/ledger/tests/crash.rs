//! Power goes at every write, sync and change of a name; what was reported durable must be there afterwards.
//!
//! A killed process proves little, since the system's cache survives it. Here unsynced bytes are dropped, torn at 512 bytes
//! and reordered, and the log must come back with everything it acknowledged and nothing it was never given.

mod common;

use common::life::{Account, DIR, Life, ask, payload};
use geminga_ledger::log::LogOptions;
use geminga_ledger::log::sim::{Crash, SimFiles, SteppedLog};
use geminga_ledger::{EntryId, LedgerStore, Position, Purpose, StoreError, StoreHealth};
use std::path::Path;
use std::thread;

const STEPS: usize = 120;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, reserve_bytes: 0, ..LogOptions::default() }
}

/// Every point of one life, with several crashes each, and a second life with a crash behind each of them.
/// Returns how many crashes were survived, or the first promise that was broken.
fn every_crash_of(seed: u64, disk: fn() -> SimFiles, options: &LogOptions) -> Result<usize, String> {
    let files = disk();
    Life::new(seed, files.clone(), options.clone(), Account::default()).live(STEPS);
    let mut survived = 0;
    for point in 0..=files.operations() {
        for crash in [Crash::Drop, Crash::Keep, Crash::Tear(seed * 1000 + point), Crash::Tear(!point)] {
            crash_and_come_back(seed, disk(), point, crash, options)
                .map_err(|broken| format!("seed {seed}, point {point}, {crash:?}: {broken}"))?;
            survived += 1;
        }
    }
    Ok(survived)
}

fn crash_and_come_back(seed: u64, files: SimFiles, point: u64, crash: Crash, options: &LogOptions) -> Result<(), String> {
    let account = Account::default();
    files.crash_at(point);
    Life::new(seed, files.clone(), options.clone(), account.clone()).live(STEPS);
    let files = files.after(crash);
    account.check(&files, options)?;
    // What was served after the first crash is a promise too, even if it had never been reported durable before.
    files.crash_at(files.operations() + 1 + point % 23);
    Life::new(seed ^ point, files.clone(), options.clone(), account.clone()).live(12);
    account.check(&files.after(crash), options).map_err(|broken| format!("second life: {broken}"))
}

/// How many lives, and so how long; a few keep the normal run short, `CRASH_SEEDS=100` is for the long one.
fn seeds() -> u64 {
    std::env::var("CRASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(3)
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_point() {
    survive(SimFiles::new);
}

#[test]
fn so_it_does_when_the_log_is_written_through_the_cache() {
    survive(SimFiles::through_cache);
}

fn survive(disk: fn() -> SimFiles) {
    let lives: Vec<_> = (0..seeds()).map(|seed| thread::spawn(move || every_crash_of(seed, disk, &options()))).collect();
    let survived: usize = lives.into_iter().map(|life| life.join().expect("no panic").expect("every promise is kept")).sum();
    assert!(survived as u64 > 700 * seeds(), "only {survived} crashes: the lives are too quiet");
}

#[test]
fn the_lives_do_what_they_are_meant_to_do() {
    let (mut acked, mut moved, mut freed) = (0, 0, 0);
    for seed in 0..2 {
        let (files, account) = (SimFiles::new(), Account::default());
        let mut life = Life::new(seed, files.clone(), options(), account.clone());
        life.live(STEPS);
        (acked, moved, freed) = (acked + account.acked(), moved + life.moved, freed + life.freed);
    }
    assert!(acked > 400 && moved > 4096 && freed > 4, "acked {acked} entries, moved {moved} bytes, freed {freed} segments");
}

#[test]
fn without_syncs_the_same_test_finds_the_loss() {
    let unsafe_options = LogOptions { sync: false, ..options() };
    let found = (0..3).filter(|seed| every_crash_of(*seed, SimFiles::new, &unsafe_options).is_err()).count();
    assert_eq!(found, 3, "a test that cannot see lost data proves nothing");
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    for failing in 0..6 {
        let files = SimFiles::new();
        let log = SteppedLog::open(&files, Path::new(DIR), options()).expect("opened");
        let ledger = ask(&log, |log, done| log.create(Purpose::Data, done)).expect("created");
        files.fail_sync_after(failing);
        let outcomes: Vec<Result<(), StoreError>> =
            (0..10).map(|entry| ask(&log, |log, done| log.append(one(ledger.0, entry), done))).collect();
        let acked = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
        assert_eq!(acked as u64, failing);
        assert!(matches!(outcomes[acked], Err(StoreError::Unknown(_))));
        assert!(outcomes[acked + 1..].iter().all(|outcome| matches!(outcome, Err(StoreError::Closed(_)))));
        assert!(matches!(log.log().health(), StoreHealth::Poisoned(_)));
        // The system believes the lost pages clean; whoever reads them back must write them again before trusting them.
        for crash in [Crash::Drop, Crash::Keep, Crash::Tear(failing)] {
            let found = files.after(crash);
            let log = SteppedLog::open(&found, Path::new(DIR), options()).expect("opened");
            let end = ask(&log, |log, done| log.open_fenced(ledger, done)).expect("fenced");
            assert!(end.last.0 + 1 >= acked as i64);
        }
        // The process restarts and the page cache still shows what the disk does not have.
        let log = SteppedLog::open(&files, Path::new(DIR), options()).expect("opened");
        let end = ask(&log, |log, done| log.open_fenced(ledger, done)).expect("fenced");
        drop(log);
        let log = SteppedLog::open(&files.after(Crash::Drop), Path::new(DIR), options()).expect("opened");
        assert_eq!(ask(&log, |log, done| log.open_fenced(ledger, done)).expect("fenced"), end);
    }
}

fn one(ledger: i64, entry: i64) -> geminga_ledger::Block {
    let mut builder = geminga_ledger::BlockBuilder::new();
    builder.push(Position { ledger: geminga_ledger::LedgerId(ledger), entry: EntryId(entry) }, entry - 1, &payload(ledger, entry));
    builder.finish()
}
