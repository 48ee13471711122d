//! The file: what is kept in it, and what is refused as one.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use metadata::Expected::{Absent, Any};
use metadata::{EmbeddedOptions, EmbeddedStore, MetadataStore, OpenError, Transaction};
use redb::{Database, ReadableDatabase, TableDefinition};

use crate::open;

fn refused(path: &std::path::Path) -> OpenError {
    EmbeddedStore::open(path, EmbeddedOptions::default()).expect_err("it is refused")
}

#[test]
fn everything_but_ephemerals_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let first = open(&path);
    let session = first.open_session(Duration::from_secs(10), Instant::now()).unwrap();
    first.put("/a/b", b"kept", Absent).unwrap();
    first.put("/a/b", b"kept", Any).unwrap();
    first.commit(Transaction::new().put_ephemeral("/a/e", b"", Absent, &session)).unwrap();
    assert_eq!(first.sequence("/counters/x").unwrap(), 0);
    let epoch = first.epoch();
    drop(first);

    let second = open(&path);
    assert_eq!(second.epoch(), epoch + 1);
    let kept = second.get("/a/b").unwrap().unwrap();
    assert_eq!((kept.value.as_slice(), kept.version), (&b"kept"[..], 1));
    assert_eq!(second.children("/a").unwrap(), ["b"], "ephemeral nodes end with the process");
    assert_eq!(second.sequence("/counters/x").unwrap(), 1);
    let next = second.open_session(Duration::from_secs(10), Instant::now()).unwrap();
    assert_ne!(next.id(), session.id(), "a session of the last run is not taken for one of this");
}

#[test]
fn waiting_transactions_share_one_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("metadata"));
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    // Holds the writer until everything is queued.
    store.submit(Transaction::new().put("/hold", b"", Any), Box::new(move |_| wait.recv().expect("the test goes on")));
    for number in 0..1_000 {
        let tell = tell.clone();
        store.submit(Transaction::new().put(format!("/g/{number}"), b"", Any), Box::new(move |outcome| tell.send(outcome).unwrap()));
    }
    store.submit(Transaction::new().check("/missing", Any), Box::new(|outcome| assert!(outcome.is_err())));
    // The first is committed alone or with some of the others, the rest together.
    go.send(()).unwrap();
    assert!(told.iter().take(1_000).all(|outcome| outcome.is_ok()));
    let counts = store.counts();
    assert!(counts.commits <= 2, "{counts:?}");
    assert_eq!(counts.transactions, 1_001);
    store.commit(Transaction::new().check("/hold", Any)).unwrap();
    assert_eq!(store.counts().commits, counts.commits, "what changes nothing is not synced");
}

#[test]
fn dropping_the_store_finishes_what_is_queued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let store = open(&path);
    for number in 0..100 {
        store.submit(Transaction::new().put(format!("/q/{number}"), b"", Any), Box::new(|_| ()));
    }
    drop(store);
    assert_eq!(open(&path).children("/q").unwrap().len(), 100);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { queue_bytes: 10_000, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(&directory.path().join("metadata"), options).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    store.submit(Transaction::new(), Box::new(move |_| wait.recv().expect("the test goes on")));
    let (tell, told) = mpsc::channel();
    for _ in 0..100 {
        let tell = tell.clone();
        store.submit(Transaction::new().put("/x", vec![0; 1_000], Any), Box::new(move |outcome| tell.send(outcome).unwrap()));
    }
    let refused = told.try_iter().filter(Result::is_err).count();
    assert!((80..100).contains(&refused), "{refused} refused");
    go.send(()).unwrap();
    assert_eq!(told.iter().take(100 - refused).filter(Result::is_ok).count(), 100 - refused);
    store.put("/x", b"", Any).unwrap();
}

#[test]
fn a_hundred_thousand_topics_are_listed_without_their_cursors() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("metadata"));
    let mut transaction = Transaction::new();
    for topic in 0..100_000 {
        transaction = transaction.put(format!("/managed-ledgers/t/n/persistent/topic-{topic:06}"), vec![7; 40], Absent);
        if topic % 10 == 0 {
            transaction = transaction.put(format!("/managed-ledgers/t/n/persistent/topic-{topic:06}/cursor"), vec![7; 20], Absent);
        }
        if topic % 5_000 == 4_999 {
            store.commit(std::mem::take(&mut transaction)).unwrap();
        }
    }
    let topics = store.children("/managed-ledgers/t/n/persistent").unwrap();
    assert_eq!(topics.len(), 100_000);
    assert!(topics.is_sorted());
    assert_eq!(topics[77_777], "topic-077777");
    assert_eq!(store.children("/managed-ledgers/t/n/persistent/topic-000010").unwrap(), ["cursor"]);
}

#[test]
fn a_second_store_on_the_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let first = open(&path);
    let error = refused(&path);
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("in use"), "{error}");
    drop(first);
    open(&path);
}

#[test]
fn something_else_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    fs::write(&text, "this is not a store, but somebody may need it").unwrap();
    assert!(matches!(refused(&text), OpenError::Foreign { .. }));
    assert!(fs::read(&text).unwrap().starts_with(b"this is not"));

    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert!(matches!(refused(&empty), OpenError::Foreign { .. }), "an emptied file is damage, not a first start");

    let other = directory.path().join("other");
    let database = Database::create(&other).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(TableDefinition::<u32, u32>::new("somebody's")).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = refused(&other);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert!(error.to_string().contains("somebody's"), "{error}");

    let folder = directory.path().join("folder");
    fs::create_dir(&folder).unwrap();
    assert!(matches!(refused(&folder), OpenError::Io { .. }));
    assert!(matches!(refused(&directory.path().join("no/such/folder")), OpenError::Io { .. }));
}

#[test]
fn a_newer_and_an_older_format_are_refused_with_their_numbers() {
    for (format, words) in [(2, "has format 2; this version reads up to 1"), (0, "has format 0, which this version no longer reads")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metadata");
        drop(open(&path));
        let database = Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(TableDefinition::<&str, u64>::new("meta")).unwrap().insert("format", format).unwrap();
        write.commit().unwrap();
        drop(database);
        let error = refused(&path).to_string();
        assert!(error.contains(words), "{error}");
        let database = Database::open(&path).unwrap();
        let read = database.begin_read().unwrap();
        let meta = read.open_table(TableDefinition::<&str, u64>::new("meta")).unwrap();
        let kept = |name| meta.get(name).unwrap().unwrap().value();
        assert_eq!((kept("format"), kept("opened")), (format, 1), "a refused store is not written to");
    }
}

#[test]
fn a_start_that_was_killed_while_creating_does_not_stop_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let left = directory.path().join("metadata.new-999999");
    fs::write(&left, "half of a store").unwrap();
    let store = open(&path);
    store.put("/a", b"", Any).unwrap();
    assert!(!left.exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn damage_is_refused_or_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let store = open(&path);
    for number in 0..2_000 {
        store.submit(Transaction::new().put(format!("/d/{number}"), vec![number as u8; 100], Any), Box::new(|_| ()));
    }
    store.put("/last", b"the value of the last commit", Any).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let last = whole.windows(28).position(|bytes| bytes == b"the value of the last commit").unwrap();

    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut refusals = 0;
    for round in 0..80 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes[last] ^= 1,
            1 => bytes[random.usize(0..400)] ^= 1 << random.u8(0..8),
            2 => bytes.truncate(random.usize(1..whole.len())),
            _ => bytes[random.usize(0..whole.len())] ^= 1 << random.u8(0..8),
        }
        fs::write(&path, &bytes).unwrap();
        match EmbeddedStore::open(&path, EmbeddedOptions::default()) {
            Ok(store) => {
                // Where nothing is kept, a flipped bit does no harm; nothing may be missing or older.
                assert!(round % 4 != 0 && round % 4 != 2, "seed {seed}, round {round}: damage was not seen");
                assert_eq!(store.children("/d").unwrap().len(), 2_000, "seed {seed}, round {round}");
                assert_eq!(store.get("/last").unwrap().unwrap().value, b"the value of the last commit", "seed {seed}");
            }
            Err(error) => {
                let told = matches!(error, OpenError::Damaged { .. } | OpenError::Foreign { .. });
                assert!(told, "seed {seed}, round {round}: {error:?}");
                assert!(fs::read(&path).unwrap() == bytes, "seed {seed}, round {round}: it was changed");
                refusals += 1;
            }
        }
    }
    assert!(refusals >= 40);
}
