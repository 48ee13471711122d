//! What every engine promises, asked of each: the store in memory and the shared log.

mod common;

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;

use common::{Waiting, block, bytes_of, fill, read_all};
use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{
    BlockBuilder, EntryId, LedgerId, LedgerStore, MemoryStore, Position, Purpose, ReadRange, Sealed, StoreError, StoreHealth,
};

type Store = Arc<dyn LedgerStore>;

fn on_every_engine(check: impl Fn(Store)) {
    check(Arc::new(MemoryStore::new()));
    let dir = tempfile::tempdir().expect("a directory");
    // Small segments, so that every check also meets changes of segment.
    let options = LogOptions { segment_bytes: 32 << 10, reserve_bytes: 0, ..LogOptions::default() };
    check(Arc::new(SharedLog::open(dir.path(), options).expect("a log")));
    let dir = tempfile::tempdir().expect("a directory");
    check(Arc::new(SharedLog::open(dir.path(), LogOptions { reserve_bytes: 0, ..LogOptions::default() }).expect("a log")));
}

#[test]
fn what_was_appended_is_read_back() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        fill(&*store, ledger, 0, 500);
        assert_eq!(read_all(&*store, ledger, 499), (0..500).map(|at| bytes_of(ledger, at)).collect::<Vec<_>>());
    });
}

#[test]
fn an_entry_of_several_megabytes_is_taken() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        let giant = vec![0xab; 6 << 20];
        fill(&*store, ledger, 0, 3);
        store.append_now(block(&[(ledger, 3, &giant)])).expect("taken");
        fill(&*store, ledger, 4, 6);
        let read = store.read_now(ledger, 3, 3, 1, 10).expect("read");
        assert_eq!(read[0].bytes, giant);
        assert_eq!(read_all(&*store, ledger, 5).len(), 6);
    });
}

#[test]
fn an_entry_over_the_limit_is_refused_and_nothing_of_its_block_is_kept() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        let limit = store.capabilities().max_entry_bytes;
        let giant = vec![0; limit + 1];
        let refused = store.append_now(block(&[(ledger, 0, b"small"), (ledger, 1, &giant)]));
        assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
        store.append_now(block(&[(ledger, 0, b"again")])).expect("the ledger goes on where it was");
    });
}

#[test]
fn a_read_stops_at_the_first_limit_but_returns_the_first_entry() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        for entry in 0..20 {
            store.append_now(block(&[(ledger, entry, &[entry as u8; 100])])).expect("appended");
        }
        let ids = |from, last, entries, bytes| -> Vec<i64> {
            store.read_now(ledger, from, last, entries, bytes).expect("read").iter().map(|entry| entry.id.0).collect()
        };
        assert_eq!(ids(5, 100, 3, 1 << 20), [5, 6, 7]);
        assert_eq!(ids(5, 100, 100, 250), [5, 6]);
        assert_eq!(ids(5, 100, 100, 200), [5, 6]);
        assert_eq!(ids(5, 100, 100, 0), [5]);
        assert_eq!(ids(18, 100, 100, 1 << 20), [18, 19]);
        assert_eq!(ids(3, 4, 100, 1 << 20), [3, 4]);
        assert_eq!(ids(20, 30, 100, 1 << 20), [0; 0]);
        assert_eq!(ids(4, 3, 100, 1 << 20), [0; 0]);
    });
}

#[test]
fn an_entry_that_does_not_follow_is_refused() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        fill(&*store, ledger, 0, 3);
        for wrong in [2, 4, 100, -1] {
            let refused = store.append_now(block(&[(ledger, wrong, b"x")]));
            assert!(matches!(refused, Err(StoreError::Io(_))), "{wrong}: {refused:?}");
        }
        fill(&*store, ledger, 3, 4);
        assert_eq!(read_all(&*store, ledger, 10).len(), 4);
    });
}

#[test]
fn a_block_stands_or_falls_as_a_whole() {
    on_every_engine(|store| {
        let open = store.create_now(Purpose::Data).expect("created");
        let sealed = store.create_now(Purpose::Data).expect("created");
        store.fence_now(sealed).expect("fenced");
        let refused = store.append_now(block(&[(open, 0, b"a"), (sealed, 0, b"b"), (open, 1, b"c")]));
        assert!(matches!(refused, Err(StoreError::Fenced(id)) if id == sealed), "{refused:?}");
        assert_eq!(store.fence_now(open).expect("fenced"), Sealed { last: EntryId::NONE, bytes: 0 });
    });
}

#[test]
fn a_sealed_ledger_tells_its_true_end_and_takes_nothing_more() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        store.append_now(block(&[(ledger, 0, b"four"), (ledger, 1, b"and six")])).expect("appended");
        let end = store.seal_now(ledger).expect("sealed");
        assert_eq!(end, Sealed { last: EntryId(1), bytes: 11 });
        assert!(matches!(store.append_now(block(&[(ledger, 2, b"x")])), Err(StoreError::Fenced(_))));
        assert!(matches!(store.seal_now(ledger), Err(StoreError::Fenced(_))));
        assert_eq!(store.fence_now(ledger).expect("fenced"), end);
        assert_eq!(store.fence_now(ledger).expect("fenced again"), end);
        assert_eq!(read_all(&*store, ledger, 5).len(), 2);
    });
}

#[test]
fn fencing_shuts_the_owner_out() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        fill(&*store, ledger, 0, 10);
        assert_eq!(store.fence_now(ledger).expect("fenced").last, EntryId(9));
        assert!(matches!(store.append_now(block(&[(ledger, 10, b"x")])), Err(StoreError::Fenced(id)) if id == ledger));
        assert!(matches!(store.seal_now(ledger), Err(StoreError::Fenced(_))));
    });
}

#[test]
fn all_who_fence_at_once_are_told_the_same_end() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        let start = Arc::new(Barrier::new(5));
        let writer = {
            let (store, start) = (store.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                (0..2000).take_while(|entry| store.append_now(block(&[(ledger, *entry, b"payload")])).is_ok()).count() as i64
            })
        };
        let fencers: Vec<_> = (0..4)
            .map(|_| {
                let (store, start) = (store.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    store.fence_now(ledger).expect("fenced")
                })
            })
            .collect();
        let ends: Vec<Sealed> = fencers.into_iter().map(|fencer| fencer.join().expect("no panic")).collect();
        let acked = writer.join().expect("no panic");
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
        assert_eq!(ends[0].last, EntryId(acked - 1), "nothing is reported durable behind the end, and nothing durable lies behind it");
        assert_eq!(read_all(&*store, ledger, 5000).len() as i64, acked);
    });
}

#[test]
fn outcomes_come_in_the_order_of_the_calls() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Data).expect("created");
        let (sender, receiver) = mpsc::channel();
        for at in 0..1000i64 {
            let sender = sender.clone();
            // Every seventh is refused; its outcome keeps its place all the same.
            let entry = if at % 7 == 3 { 5000 } else { at - (at + 3) / 7 };
            store.append(
                block(&[(ledger, entry, b"ordered")]),
                Box::new(move |result| sender.send((at, result.is_ok())).expect("received")),
            );
        }
        for at in 0..1000 {
            assert_eq!(receiver.recv().expect("an outcome"), (at, at % 7 != 3));
        }
    });
}

#[test]
fn deleting_is_for_good_and_never_an_error() {
    on_every_engine(|store| {
        let kept = store.create_now(Purpose::Data).expect("created");
        let gone = store.create_now(Purpose::Data).expect("created");
        fill(&*store, kept, 0, 5);
        fill(&*store, gone, 0, 5);
        store.delete_now(&[gone, LedgerId(987_654)]).expect("deleted");
        store.delete_now(&[gone]).expect("deleted again");
        assert!(matches!(store.read_now(gone, 0, 4, 10, 1000), Err(StoreError::NoSuchLedger(id)) if id == gone));
        assert!(matches!(store.fence_now(gone), Err(StoreError::NoSuchLedger(_))));
        assert!(matches!(store.append_now(block(&[(gone, 5, b"x")])), Err(StoreError::NoSuchLedger(_))));
        assert_eq!(store.list_now().expect("listed"), [kept]);
        assert_eq!(read_all(&*store, kept, 10).len(), 5);
    });
}

#[test]
fn a_read_that_races_with_a_delete_returns_whole_entries_or_says_that_the_ledger_is_gone() {
    on_every_engine(|store| {
        for _ in 0..30 {
            let ledger = store.create_now(Purpose::Data).expect("created");
            fill(&*store, ledger, 0, 200);
            let reader = {
                let store = store.clone();
                thread::spawn(move || {
                    loop {
                        match store.read_now(ledger, 0, 199, 200, 1 << 20) {
                            Ok(read) => {
                                for entry in &read {
                                    assert_eq!(entry.bytes, bytes_of(ledger, entry.id.0));
                                }
                            }
                            Err(StoreError::NoSuchLedger(_)) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            };
            store.delete_now(&[ledger]).expect("deleted");
            reader.join().expect("only whole entries");
        }
    });
}

#[test]
fn a_cursor_ledger_keeps_its_last_entry() {
    on_every_engine(|store| {
        let ledger = store.create_now(Purpose::Cursor).expect("created");
        fill(&*store, ledger, 0, 300);
        let end = store.fence_now(ledger).expect("fenced");
        assert_eq!(end.last, EntryId(299));
        let read = store.read_now(ledger, 299, 299, 1, 1 << 20).expect("read");
        assert_eq!((read[0].id, &read[0].bytes), (EntryId(299), &bytes_of(ledger, 299).into()));
    });
}

#[test]
fn ids_grow() {
    on_every_engine(|store| {
        let first = store.create_now(Purpose::Data).expect("created");
        store.delete_now(&[first]).expect("deleted");
        let second = store.create_now(Purpose::Cursor).expect("created");
        assert!(second > first);
    });
}

#[test]
fn an_empty_block_is_durable_at_once() {
    on_every_engine(|store| {
        store.append_now(BlockBuilder::new().finish()).expect("nothing to do");
        assert_eq!(store.health(), StoreHealth::Ready);
    });
}

#[test]
fn many_writers_share_the_log() {
    on_every_engine(|store| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || {
                    let ledger = store.create_now(Purpose::Data).expect("created");
                    fill(&*store, ledger, 0, 300);
                    assert_eq!(read_all(&*store, ledger, 299), (0..300).map(|at| bytes_of(ledger, at)).collect::<Vec<_>>());
                    ledger
                })
            })
            .collect();
        let mut ledgers: Vec<LedgerId> = writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        ledgers.sort_unstable();
        ledgers.dedup();
        assert_eq!(ledgers.len(), 8);
        assert_eq!(store.list_now().expect("listed"), ledgers);
    });
}

#[test]
fn an_unknown_ledger_is_said_to_be_unknown() {
    on_every_engine(|store| {
        let unknown = LedgerId(77);
        let range = ReadRange { ledger: unknown, from: EntryId(0), last: EntryId(0), max_entries: 1, max_bytes: 1 };
        let (sender, receiver) = mpsc::channel();
        store.read(range, Box::new(move |result| sender.send(result).expect("received")));
        assert!(matches!(receiver.recv().expect("an outcome"), Err(StoreError::NoSuchLedger(id)) if id == unknown));
        let at = Position { ledger: unknown, entry: EntryId(0) };
        let mut builder = BlockBuilder::new();
        builder.push(at, -1, b"x");
        assert!(matches!(store.append_now(builder.finish()), Err(StoreError::NoSuchLedger(_))));
    });
}
