//! What a log finds when it is opened again.

mod common;

use std::path::Path;

use common::{Waiting, block, bytes_of, fill, read_all};
use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{BlockBuilder, EntryId, LedgerId, Position, Purpose, StoreError};

fn small() -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, reserve_bytes: 0, ..LogOptions::default() }
}

fn open(dir: &Path) -> SharedLog {
    SharedLog::open(dir, small()).expect("opened")
}

#[test]
fn entries_seals_and_ids_survive() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = open(dir.path());
    let data = log.create_now(Purpose::Data).expect("created");
    let cursor = log.create_now(Purpose::Cursor).expect("created");
    let gone = log.create_now(Purpose::Data).expect("created");
    let sealed = log.create_now(Purpose::Data).expect("created");
    fill(&log, data, 0, 2000);
    fill(&log, cursor, 0, 700);
    fill(&log, gone, 0, 100);
    fill(&log, sealed, 0, 100);
    let end = log.seal_now(sealed).expect("sealed");
    log.delete_now(&[gone]).expect("deleted");
    log.close();
    assert!(matches!(log.append_now(block(&[(data, 2000, b"late")])), Err(StoreError::Closed(_))));
    drop(log);

    let log = open(dir.path());
    assert_eq!(log.list_now().expect("listed"), [data, cursor, sealed]);
    assert_eq!(read_all(&log, data, 5000), (0..2000).map(|at| bytes_of(data, at)).collect::<Vec<_>>());
    assert_eq!(log.read_now(cursor, 699, 699, 1, 1000).expect("read")[0].bytes, bytes_of(cursor, 699));
    assert_eq!(log.fence_now(sealed).expect("fenced"), end);
    assert!(matches!(log.append_now(block(&[(sealed, 100, b"x")])), Err(StoreError::Fenced(_))));
    fill(&log, data, 2000, 2100);
    assert_eq!(log.fence_now(cursor).expect("fenced").last, EntryId(699));
    assert!(log.create_now(Purpose::Data).expect("created") > sealed);
}

#[test]
fn a_log_goes_on_past_the_cache_and_through_it_in_turn() {
    // On the disk of the build and, where there is one, on a file system that has nothing but a cache.
    let memory = Path::new("/dev/shm").is_dir().then(|| tempfile::tempdir_in("/dev/shm").expect("a directory"));
    for dir in [Some(tempfile::tempdir().expect("a directory")), memory].into_iter().flatten() {
        let mut ledger = LedgerId(0);
        for life in 0..6 {
            let log = SharedLog::open(dir.path(), LogOptions { direct_io: life % 2 == 0, ..small() }).expect("opened");
            if life == 0 {
                ledger = log.create_now(Purpose::Data).expect("created");
            }
            // Read while it is written, so that the system's cache holds pages that are written past it next.
            for step in 0..4 {
                let next = life * 400 + step * 100;
                fill(&log, ledger, next, next + 100);
                assert_eq!(read_all(&log, ledger, i64::MAX - 1), (0..next + 100).map(|at| bytes_of(ledger, at)).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn ids_are_not_used_again_after_everything_was_deleted_and_recycled() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut highest = LedgerId(-1);
    for _ in 0..5 {
        let log = open(dir.path());
        let ledgers: Vec<LedgerId> = (0..10).map(|_| log.create_now(Purpose::Data).expect("created")).collect();
        assert!(ledgers[0] > highest);
        highest = ledgers[9];
        for ledger in &ledgers {
            fill(&log, *ledger, 0, 300);
        }
        log.delete_now(&ledgers).expect("deleted");
    }
    let log = open(dir.path());
    assert_eq!(log.list_now().expect("listed"), []);
}

#[test]
fn a_thousand_ledgers_come_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = SharedLog::open(dir.path(), LogOptions { segment_bytes: 1 << 20, ..small() }).expect("opened");
    let ledgers: Vec<LedgerId> = (0..1000).map(|_| log.create_now(Purpose::Data).expect("created")).collect();
    let mut builder = BlockBuilder::new();
    for entry in 0..40 {
        for ledger in &ledgers {
            builder.push(Position { ledger: *ledger, entry: EntryId(entry) }, entry - 1, &bytes_of(*ledger, entry));
        }
        log.append_now(builder.finish()).expect("appended");
    }
    drop(log);
    for _ in 0..2 {
        let log = SharedLog::open(dir.path(), LogOptions { segment_bytes: 1 << 20, ..small() }).expect("opened");
        assert!(log.recovered().walked <= 1, "only the newest segment has no footer");
        for ledger in ledgers.iter().step_by(37) {
            assert_eq!(read_all(&log, *ledger, 100), (0..40).map(|at| bytes_of(*ledger, at)).collect::<Vec<_>>());
        }
        for ledger in &ledgers {
            assert_eq!(log.fence_now(*ledger).expect("fenced").last, EntryId(39));
        }
    }
}

#[test]
fn many_restarts_do_not_fill_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open(dir.path()).create_now(Purpose::Data).expect("created");
    for at in 0..100 {
        let log = open(dir.path());
        log.append_now(block(&[(ledger, at, b"one a run")])).expect("appended");
        if at % 3 == 0 {
            log.close();
        }
    }
    let log = open(dir.path());
    assert_eq!(read_all(&log, ledger, 1000).len(), 100);
    assert_eq!(log.counters().segments, 1);
}
