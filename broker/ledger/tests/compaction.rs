//! Space comes back, and nothing that is needed goes with it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::sim::{append, create, delete, even, fence, open, read, segment, served};
use common::{Waiting, bytes_of, fill, read_all};
use geminga_ledger::log::sim::{Crash, SimFiles};
use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{EntryId, LedgerId, Purpose, StoreError};

#[test]
fn the_live_rest_of_a_segment_moves_and_its_file_is_used_again() {
    let files = SimFiles::new();
    let log = open(&files);
    let (kept, cursor, gone) = (create(&log, Purpose::Data), create(&log, Purpose::Cursor), create(&log, Purpose::Data));
    append(&log, even(cursor, 0)).expect("appended");
    let mut at = 0;
    while log.log().counters().segments < 4 {
        if at % 10 == 0 {
            append(&log, even(kept, at / 10)).expect("appended");
        }
        append(&log, even(gone, at)).expect("appended");
        at += 1;
    }
    let kept_entries = (at + 9) / 10;
    delete(&log, gone);
    while log.compact() {}
    let counters = log.log().counters();
    assert!(counters.moved_bytes > 0 && counters.segments_freed >= 3, "{counters:?}");
    assert!(!files.exists(&segment(1)));
    for log in [log, open(&files.after(Crash::Drop))] {
        assert_eq!(served(&log, kept, kept_entries) as i64, kept_entries);
        assert_eq!(served(&log, cursor, 1), 1);
        assert!(matches!(read(&log, gone, 0, 0), Err(StoreError::NoSuchLedger(_))));
        assert_eq!(fence(&log, kept).expect("fenced").last, EntryId(kept_entries - 1));
    }
}

#[test]
fn a_deleted_ledger_stays_deleted_while_any_old_segment_remembers_it() {
    let files = SimFiles::new();
    let log = open(&files);
    // The first segment stays for the sake of `kept`; the tombstone's own segment is freed again and again.
    let (kept, gone) = (create(&log, Purpose::Data), create(&log, Purpose::Data));
    for entry in 0..60 {
        append(&log, even(kept, entry)).expect("appended");
        if entry < 20 {
            append(&log, even(gone, entry)).expect("appended");
        }
    }
    // The first segment must be full by then, with `gone` in its footer.
    let first = create(&log, Purpose::Data);
    let mut entry = 0;
    while log.log().counters().segments < 2 {
        append(&log, even(first, entry)).expect("appended");
        entry += 1;
    }
    delete(&log, gone);
    delete(&log, first);
    for _ in 0..5 {
        let filler = create(&log, Purpose::Data);
        let before = log.log().counters().segments_freed;
        let mut entry = 0;
        while log.log().counters().segments < 4 {
            append(&log, even(filler, entry)).expect("appended");
            entry += 1;
        }
        delete(&log, filler);
        while log.compact() {}
        assert!(log.log().counters().segments_freed > before);
        assert!(files.exists(&segment(1)), "the first segment is live enough to stay");
        let after = open(&files.after(Crash::Drop));
        assert!(matches!(read(&after, gone, 0, 0), Err(StoreError::NoSuchLedger(_))), "it came back");
        assert_eq!(served(&after, kept, 60), 60);
    }
}

#[test]
fn readers_and_writers_do_not_notice() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = LogOptions { segment_bytes: 64 << 10, reserve_bytes: 0, recycle: 2, ..LogOptions::default() };
    let log = Arc::new(SharedLog::open(dir.path(), options.clone()).expect("opened"));
    let kept = log.create_now(Purpose::Data).expect("created");
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (log, stop) = (log.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for (at, bytes) in read_all(&*log, kept, 1 << 40).iter().enumerate() {
                        assert_eq!(*bytes, bytes_of(kept, at as i64));
                    }
                }
            })
        })
        .collect();
    for round in 0..60 {
        let gone: Vec<LedgerId> = (0..3).map(|_| log.create_now(Purpose::Data).expect("created")).collect();
        for ledger in &gone {
            fill(&*log, *ledger, 0, 60);
        }
        fill(&*log, kept, round * 5, round * 5 + 5);
        log.delete_now(&gone).expect("deleted");
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("only what was written");
    }
    let patience = Instant::now() + Duration::from_secs(20);
    while log.counters().segments > 6 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    let counters = log.counters();
    assert!(counters.segments <= 6 && counters.moved_bytes > 0, "{counters:?}");
    log.close();
    drop(log);
    let log = SharedLog::open(dir.path(), options).expect("opened");
    assert_eq!(read_all(&log, kept, 1 << 40).len(), 300);
}

#[test]
fn an_id_is_not_given_again_when_no_record_of_it_is_left() {
    let files = SimFiles::new();
    let log = open(&files);
    let (cursor, gone) = (create(&log, Purpose::Cursor), create(&log, Purpose::Data));
    delete(&log, gone);
    // Only the last entry of a cursor is live, so every older segment goes.
    let mut entry = 0;
    while log.log().counters().segments < 3 {
        append(&log, even(cursor, entry)).expect("appended");
        entry += 1;
    }
    while log.compact() {}
    assert_eq!(log.log().counters().segments, 1);
    let log = open(&files.after(Crash::Drop));
    assert_eq!(fence(&log, cursor).expect("fenced").last, EntryId(entry - 1));
    assert!(create(&log, Purpose::Data) > gone);
}
