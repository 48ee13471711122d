//! Power goes at every write, sync and change of a name; what was reported durable must be there afterwards.
//!
//! A killed process proves little, since the system's cache survives it. Here unsynced bytes are dropped, torn at 512 bytes
//! and reordered, and the log must come back with everything it acknowledged and nothing it was never given.

mod common;

use common::life::{Account, DIR, Life, ask, payload};
use geminga_ledger::log::sim::{Crash, SimFiles, SteppedLog};
use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{BlockBuilder, EntryId, LedgerStore, Position, Purpose, StoreError, StoreHealth};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

const STEPS: usize = 120;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, reserve_bytes: 0, ..LogOptions::default() }
}

/// What is lived on and how.
#[derive(Clone)]
struct Lives {
    disk: fn() -> SimFiles,
    options: LogOptions,
    calls_per_turn: u32,
}

impl Lives {
    fn on(disk: fn() -> SimFiles) -> Lives {
        Lives { disk, options: options(), calls_per_turn: 3 }
    }

    fn live(&self, seed: u64, files: &SimFiles, account: Account) {
        let mut life = Life::new(seed, files.clone(), self.options.clone(), account);
        life.calls_per_turn = self.calls_per_turn;
        life.live(STEPS);
    }
}

/// Every point of one life, with several crashes each, and a second life with a crash behind each of them.
/// Returns how many crashes were survived, or the first promise that was broken.
fn every_crash_of(seed: u64, lives: &Lives) -> Result<usize, String> {
    let files = (lives.disk)();
    lives.live(seed, &files, Account::default());
    let mut survived = 0;
    for point in 0..=files.operations() {
        for crash in [Crash::Drop, Crash::Keep, Crash::Tear(seed * 1000 + point), Crash::Tear(!point)] {
            crash_and_come_back(seed, lives, point, crash).map_err(|broken| format!("seed {seed}, point {point}, {crash:?}: {broken}"))?;
            survived += 1;
        }
    }
    Ok(survived)
}

fn crash_and_come_back(seed: u64, lives: &Lives, point: u64, crash: Crash) -> Result<(), String> {
    let (account, files, options) = (Account::default(), (lives.disk)(), &lives.options);
    files.crash_at(point);
    lives.live(seed, &files, account.clone());
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
    survive(&Lives::on(SimFiles::new), 700);
}

#[test]
fn so_it_does_when_the_log_is_written_through_the_cache() {
    survive(&Lives::on(SimFiles::through_cache), 700);
}

#[test]
fn so_it_does_when_a_group_gathers_while_the_one_before_it_is_in_flight() {
    // More is asked for in a turn than a group holds, and a group is more than a buffer of pages.
    let options = LogOptions { group_bytes: 6 << 10, ..options() };
    let lives = Lives { options, calls_per_turn: 12, ..Lives::on(SimFiles::new) };
    survive(&lives, 300);
}

fn survive(lives: &Lives, least: u64) {
    let threads: Vec<_> =
        (0..seeds()).map(|seed| (seed, lives.clone())).map(|(seed, lives)| thread::spawn(move || every_crash_of(seed, &lives))).collect();
    let survived: usize = threads.into_iter().map(|life| life.join().expect("no panic").expect("every promise is kept")).sum();
    assert!(survived as u64 > least * seeds(), "only {survived} crashes: the lives are too quiet");
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
    let lives = Lives { options: LogOptions { sync: false, ..options() }, ..Lives::on(SimFiles::new) };
    let found = (0..3).filter(|seed| every_crash_of(*seed, &lives).is_err()).count();
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

#[test]
fn what_the_threads_acknowledge_is_durable_and_in_order() {
    // A handful of blocks is a group, and a group is more than a buffer of pages.
    let options = LogOptions { segment_bytes: 64 << 10, group_bytes: 40 << 10, ..options() };
    for failing in [0, 2, 3, 5, 8, 13, 1000] {
        let files = SimFiles::new();
        let log = SharedLog::open_on(Arc::new(files.clone()), Path::new(DIR), options.clone()).expect("opened");
        let (sender, created) = mpsc::channel();
        log.create(Purpose::Data, Box::new(move |ledger| drop(sender.send(ledger))));
        let ledger = created.recv().expect("an answer").expect("created");
        files.fail_sync_after(failing);
        let (sender, outcomes) = mpsc::channel();
        for entry in 0..200 {
            let (mut builder, sender) = (BlockBuilder::new(), sender.clone());
            builder.push(Position { ledger, entry: EntryId(entry) }, entry - 1, &[7; 4000]);
            log.append(
                builder.finish(),
                Box::new(move |outcome| {
                    let _ = sender.send((entry, outcome.is_ok()));
                }),
            );
        }
        log.close();
        let outcomes: Vec<(i64, bool)> = outcomes.try_iter().collect();
        assert!(outcomes.iter().map(|(entry, _)| *entry).eq(0..200), "every outcome, in order");
        let acked = outcomes.iter().take_while(|(_, is_durable)| *is_durable).count();
        assert!(outcomes[acked..].iter().all(|(_, is_durable)| !is_durable), "nothing behind what is lost");
        assert_eq!(acked == 200, failing == 1000, "{acked} acknowledged, sync {failing} failed");
        let log = SteppedLog::open(&files.after(Crash::Drop), Path::new(DIR), options.clone()).expect("opened");
        let end = ask(&log, |log, done| log.open_fenced(ledger, done)).expect("fenced");
        assert!(end.last.0 + 1 >= acked as i64, "sync {failing} failed: {acked} acknowledged, the ledger ends at {}", end.last.0);
    }
}

fn one(ledger: i64, entry: i64) -> geminga_ledger::Block {
    let mut builder = BlockBuilder::new();
    builder.push(Position { ledger: geminga_ledger::LedgerId(ledger), entry: EntryId(entry) }, entry - 1, &payload(ledger, entry));
    builder.finish()
}
