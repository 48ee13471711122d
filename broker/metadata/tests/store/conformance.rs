//! What every engine promises, run on each of them.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use metadata::Expected::{Absent, Any, Version};
use metadata::{MetadataError, MetadataStore, Rejected, Transaction, Versioned, WatchEvent};

fn rejected<T: std::fmt::Debug>(outcome: Result<T, MetadataError>) -> Rejected {
    match outcome {
        Err(MetadataError::Rejected(why)) => why,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn node(value: &[u8], version: i64) -> Option<Versioned> {
    Some(Versioned { value: value.to_vec(), version })
}

macro_rules! every_engine {
    ($($fact:ident)*) => {
        mod memory {
            $(#[test] fn $fact() { super::$fact(std::sync::Arc::new(metadata::MemoryStore::new())); })*
        }
        mod embedded {
            $(#[test] fn $fact() {
                let directory = tempfile::tempdir().expect("a directory");
                super::$fact(std::sync::Arc::new(crate::open(&directory.path().join("metadata"))));
            })*
        }
    };
}

every_engine! {
    versions_count_puts
    a_put_is_done_only_at_the_expected_version
    a_delete_is_done_only_at_the_expected_version
    of_many_writers_at_one_version_one_wins
    parents_are_made_on_the_way
    a_node_with_children_is_not_deleted
    children_are_direct_and_sorted
    bad_paths_and_large_values_are_refused
    a_transaction_sees_its_own_steps
    a_refused_transaction_changes_nothing
    a_refusal_does_not_touch_its_neighbours
    an_empty_check_holds_against_what_the_transaction_does
    outcomes_come_in_order_of_submission
    a_completion_may_submit_but_not_wait
    sequences_give_no_number_twice
    a_watch_tells_what_happens_below_it
    a_dropped_watch_is_silent
    ephemeral_nodes_end_with_their_session
    a_session_past_its_deadline_stays_ended
    an_ended_session_cannot_put
    ephemeral_nodes_have_no_children
}

fn versions_count_puts(store: Arc<dyn MetadataStore>) {
    assert_eq!(store.get("/a").unwrap(), None);
    assert_eq!(store.put("/a", b"one", Any).unwrap(), 0);
    assert_eq!(store.put("/a", b"two", Any).unwrap(), 1);
    assert_eq!(store.get("/a").unwrap(), node(b"two", 1));
    assert!(store.exists("/a").unwrap());
    assert_eq!(store.delete("/a", Any).unwrap(), 1);
    assert!(!store.exists("/a").unwrap());
    assert_eq!(store.put("/a", b"three", Any).unwrap(), 0, "a node that comes again starts again");
}

fn a_put_is_done_only_at_the_expected_version(store: Arc<dyn MetadataStore>) {
    assert_eq!(rejected(store.put("/a", b"", Version(0))), Rejected::NotFound { path: "/a".into() });
    assert_eq!(store.put("/a", b"x", Absent).unwrap(), 0);
    assert_eq!(rejected(store.put("/a", b"y", Absent)), Rejected::Exists { path: "/a".into() });
    assert_eq!(store.put("/a", b"y", Version(0)).unwrap(), 1);
    let conflict = Rejected::VersionConflict { path: "/a".into(), expected: 0, found: 1 };
    assert_eq!(rejected(store.put("/a", b"z", Version(0))), conflict);
    assert_eq!(store.get("/a").unwrap(), node(b"y", 1));
}

fn a_delete_is_done_only_at_the_expected_version(store: Arc<dyn MetadataStore>) {
    assert_eq!(rejected(store.delete("/a", Any)), Rejected::NotFound { path: "/a".into() });
    assert_eq!(store.delete("/a", Absent).unwrap(), -1);
    store.put("/a", b"x", Any).unwrap();
    assert_eq!(rejected(store.delete("/a", Absent)), Rejected::Exists { path: "/a".into() });
    let conflict = Rejected::VersionConflict { path: "/a".into(), expected: 7, found: 0 };
    assert_eq!(rejected(store.delete("/a", Version(7))), conflict);
    assert_eq!(store.delete("/a", Version(0)).unwrap(), 0);
}

fn of_many_writers_at_one_version_one_wins(store: Arc<dyn MetadataStore>) {
    const WRITERS: usize = 8;
    store.put("/counter", b"0", Any).unwrap();
    for round in 0..20 {
        let start = Arc::new(Barrier::new(WRITERS));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, start) = (Arc::clone(&store), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    store.put("/counter", &[writer as u8], Version(round)).is_ok().then_some(writer as u8)
                })
            })
            .collect();
        let winners: Vec<u8> = writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert_eq!(store.get("/counter").unwrap(), node(&winners, round + 1));
    }
}

fn parents_are_made_on_the_way(store: Arc<dyn MetadataStore>) {
    store.put("/a/b/c", b"x", Absent).unwrap();
    assert_eq!(store.get("/a").unwrap(), node(b"", 0));
    assert_eq!(store.get("/a/b").unwrap(), node(b"", 0));
    assert_eq!(rejected(store.put("/a/b", b"", Absent)), Rejected::Exists { path: "/a/b".into() });
    assert_eq!(store.put("/a/b", b"now with a value", Version(0)).unwrap(), 1);
    store.delete("/a/b/c", Any).unwrap();
    assert!(store.exists("/a/b").unwrap(), "parents stay");
}

fn a_node_with_children_is_not_deleted(store: Arc<dyn MetadataStore>) {
    store.put("/a/b", b"x", Any).unwrap();
    assert_eq!(rejected(store.delete("/a", Any)), Rejected::NotEmpty { path: "/a".into() });
    store.delete("/a/b", Any).unwrap();
    store.delete("/a", Any).unwrap();
    assert_eq!(store.children("/").unwrap(), Vec::<String>::new());
}

fn children_are_direct_and_sorted(store: Arc<dyn MetadataStore>) {
    for path in ["/t/b", "/t/a", "/t/a/deeper", "/t/a-b", "/t/a0", "/t/ü", "/t2/x", "/s"] {
        store.put(path, b"", Any).unwrap();
    }
    assert_eq!(store.children("/t").unwrap(), ["a", "a-b", "a0", "b", "ü"]);
    assert_eq!(store.children("/t/a").unwrap(), ["deeper"]);
    assert_eq!(store.children("/t/b").unwrap(), Vec::<String>::new());
    assert_eq!(store.children("/nothing/here").unwrap(), Vec::<String>::new());
    assert_eq!(store.children("/").unwrap(), ["s", "t", "t2"]);
}

fn bad_paths_and_large_values_are_refused(store: Arc<dyn MetadataStore>) {
    for path in ["", "a", "/", "/a/", "/a//b", "/a/./b", "/a/\u{0}"] {
        let bad = |why: Rejected| assert!(matches!(&why, Rejected::BadPath { path: named, .. } if named == path), "{path:?}: {why:?}");
        bad(rejected(store.put(path, b"", Any)));
        bad(rejected(store.get(path)));
        bad(rejected(store.exists(path)));
        bad(rejected(store.delete(path, Any)));
        bad(rejected(store.sequence(path)));
        bad(rejected(store.commit(Transaction::new().check(path, Any))));
        if path != "/" {
            bad(rejected(store.children(path)));
            bad(rejected(store.watch(path, Box::new(|_| ()))));
        }
    }
    let limit = metadata::MAX_VALUE;
    store.put("/large", &vec![7; limit], Any).unwrap();
    let too_large = Rejected::TooLarge { path: "/large".into(), size: limit + 1, limit };
    assert_eq!(rejected(store.put("/large", &vec![7; limit + 1], Any)), too_large);
}

fn a_transaction_sees_its_own_steps(store: Arc<dyn MetadataStore>) {
    let outcomes = store
        .commit(
            Transaction::new()
                .put("/a/b", b"1", Absent)
                .put("/a/b", b"2", Version(0))
                .check("/a", Version(0))
                .check("/c", Absent)
                .delete("/a/b", Version(1))
                .delete("/a", Any)
                .put("/a", b"3", Absent)
                .reserve("/numbers", 2)
                .reserve("/numbers", 1),
        )
        .unwrap();
    assert_eq!(outcomes, [0, 1, 0, -1, 1, 0, 0, 0, 2]);
    assert_eq!(store.get("/a").unwrap(), node(b"3", 0));
    assert_eq!(store.children("/a").unwrap(), Vec::<String>::new());
    assert_eq!(store.commit(Transaction::new()).unwrap(), Vec::<i64>::new());
}

fn a_refused_transaction_changes_nothing(store: Arc<dyn MetadataStore>) {
    store.put("/here", b"x", Any).unwrap();
    let transaction = Transaction::new()
        .put("/here", b"y", Any)
        .put("/new/deep", b"", Absent)
        .reserve("/numbers", 5)
        .delete("/here", Any)
        .check("/missing", Any);
    assert_eq!(rejected(store.commit(transaction)), Rejected::NotFound { path: "/missing".into() });
    assert_eq!(store.get("/here").unwrap(), node(b"x", 0));
    assert!(!store.exists("/new").unwrap());
    assert_eq!(store.sequence("/numbers").unwrap(), 0);
}

fn a_refusal_does_not_touch_its_neighbours(store: Arc<dyn MetadataStore>) {
    let (tell, told) = mpsc::channel();
    for number in 0..300 {
        let tell = tell.clone();
        let transaction = Transaction::new().put(format!("/n/{number}"), b"", Absent);
        let transaction = if number % 3 == 0 { transaction.check("/missing", Any) } else { transaction };
        store.submit(transaction, Box::new(move |outcome| tell.send((number, outcome.is_ok())).unwrap()));
    }
    for (number, done) in told.iter().take(300) {
        assert_eq!(done, number % 3 != 0, "{number}");
        assert_eq!(store.exists(&format!("/n/{number}")).unwrap(), done, "{number}");
    }
    assert_eq!(store.children("/n").unwrap().len(), 200);
}

fn an_empty_check_holds_against_what_the_transaction_does(store: Arc<dyn MetadataStore>) {
    let not_empty = Rejected::NotEmpty { path: "/a".into() };
    store.commit(Transaction::new().check_empty("/a").check_empty("/")).unwrap();
    store.put("/a/b", b"", Any).unwrap();
    assert_eq!(rejected(store.commit(Transaction::new().check_empty("/a"))), not_empty);
    assert_eq!(rejected(store.commit(Transaction::new().delete("/a/b", Any).put("/a/c/d", b"", Any).check_empty("/a"))), not_empty);
    store.commit(Transaction::new().delete("/a/b", Any).check_empty("/a").delete("/a", Any).check_empty("/")).unwrap();
    assert_eq!(rejected(store.commit(Transaction::new().put("/a/b", b"", Any).delete("/a", Any))), not_empty);
}

fn outcomes_come_in_order_of_submission(store: Arc<dyn MetadataStore>) {
    let (tell, told) = mpsc::channel();
    for number in 0..1_000 {
        let tell = tell.clone();
        // Refusals keep the order too.
        let transaction = if number % 7 == 0 { Transaction::new().check("/none", Any) } else { Transaction::new().put("/o", b"", Any) };
        store.submit(transaction, Box::new(move |outcome| tell.send((number, outcome)).unwrap()));
    }
    let mut version = -1;
    for (expected, (number, outcome)) in (0..1_000).zip(told) {
        assert_eq!(number, expected);
        if number % 7 != 0 {
            version += 1;
            assert_eq!(outcome.unwrap(), [version]);
        }
    }
}

fn a_completion_may_submit_but_not_wait(store: Arc<dyn MetadataStore>) {
    let (tell, told) = mpsc::channel();
    let again = Arc::clone(&store);
    store.submit(
        Transaction::new().put("/first", b"", Any),
        Box::new(move |_| {
            assert!(again.exists("/first").unwrap(), "a completion sees what it completes");
            tell.send(again.put("/blocked", b"", Any)).unwrap();
            let tell = tell.clone();
            again.submit(Transaction::new().put("/second", b"", Any), Box::new(move |outcome| tell.send(outcome.map(|_| 2)).unwrap()));
        }),
    );
    assert_eq!(rejected(told.recv().unwrap()), Rejected::Reentrant);
    assert_eq!(told.recv().unwrap().unwrap(), 2);
    assert!(!store.exists("/blocked").unwrap());
}

fn sequences_give_no_number_twice(store: Arc<dyn MetadataStore>) {
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            thread::spawn(move || (0..50).map(|_| store.sequence("/counters/x").unwrap()).collect::<Vec<i64>>())
        })
        .collect();
    let mut numbers: Vec<i64> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<i64>>());
    // A node of the same path is something else.
    store.put("/counters/x", b"", Any).unwrap();
    store.delete("/counters/x", Any).unwrap();
    assert_eq!(store.sequence("/counters/x").unwrap(), 200);
    assert_eq!(store.commit(Transaction::new().reserve("/counters/x", 10)).unwrap(), [201]);
    assert_eq!(store.sequence("/counters/x").unwrap(), 211);
    assert_eq!(store.sequence("/counters/y").unwrap(), 0);
}

type Heard = Arc<Mutex<Vec<String>>>;

fn listen(store: &Arc<dyn MetadataStore>, prefix: &str) -> (metadata::Watch, Heard) {
    let heard = Heard::default();
    let into = Arc::clone(&heard);
    let on_change = move |event| match event {
        WatchEvent::Changed { path } => into.lock().unwrap().push(path),
        WatchEvent::Resync => into.lock().unwrap().push("resync".into()),
    };
    (store.watch(prefix, Box::new(on_change)).unwrap(), heard)
}

fn a_watch_tells_what_happens_below_it(store: Arc<dyn MetadataStore>) {
    let (_watch, heard) = listen(&store, "/w");
    let (_all, everything) = listen(&store, "/");
    store.put("/w/a/b", b"", Any).unwrap();
    store.put("/w/a/b", b"", Any).unwrap();
    store.put("/wide", b"", Any).unwrap();
    store.delete("/w/a/b", Any).unwrap();
    rejected(store.put("/w/a", b"", Absent));
    store.commit(Transaction::new().put("/w", b"", Any).put("/other", b"", Any)).unwrap();
    // An outcome comes after the events of its transaction, so everything has been heard.
    assert_eq!(*heard.lock().unwrap(), ["/w", "/w/a", "/w/a/b", "/w/a/b", "/w/a/b", "/w"]);
    assert_eq!(everything.lock().unwrap().len(), 8);
}

fn a_dropped_watch_is_silent(store: Arc<dyn MetadataStore>) {
    let (watch, heard) = listen(&store, "/w");
    store.put("/w", b"", Any).unwrap();
    drop(watch);
    store.put("/w", b"", Any).unwrap();
    assert_eq!(*heard.lock().unwrap(), ["/w"]);
}

const TTL: Duration = Duration::from_secs(30);

fn ephemeral_nodes_end_with_their_session(store: Arc<dyn MetadataStore>) {
    let start = Instant::now();
    let (mine, other) = (store.open_session(TTL, start).unwrap(), store.open_session(TTL, start).unwrap());
    assert_ne!(mine.id(), other.id());
    store.commit(Transaction::new().put_ephemeral("/b/mine", b"1", Absent, &mine).put_ephemeral("/b/gone", b"", Absent, &mine)).unwrap();
    store.commit(Transaction::new().put_ephemeral("/b/other", b"", Absent, &other)).unwrap();
    store.put("/b/stays", b"", Absent).unwrap();
    store.delete("/b/gone", Any).unwrap();
    assert_eq!(store.put("/b/mine", b"2", Version(0)).unwrap(), 1, "anyone may write it; it stays ephemeral");
    let stolen = store.commit(Transaction::new().put_ephemeral("/b/mine", b"", Any, &other));
    assert_eq!(rejected(stolen), Rejected::Exists { path: "/b/mine".into() });

    let (_watch, heard) = listen(&store, "/b");
    store.close_session(&mine).unwrap();
    assert!(!mine.valid(start));
    assert_eq!(store.children("/b").unwrap(), ["other", "stays"]);
    assert_eq!(*heard.lock().unwrap(), ["/b/mine"]);
    assert_eq!(store.expire_sessions(start + TTL), [other.id()]);
    store.commit(Transaction::new()).unwrap();
    assert_eq!(store.children("/b").unwrap(), ["stays"]);
}

fn a_session_past_its_deadline_stays_ended(store: Arc<dyn MetadataStore>) {
    let start = Instant::now();
    let session = store.open_session(TTL, start).unwrap();
    store.commit(Transaction::new().put_ephemeral("/e", b"", Absent, &session)).unwrap();
    store.renew_session(&session, start + TTL / 2).unwrap();
    assert!(session.valid(start + TTL));
    assert_eq!(store.expire_sessions(start + TTL), Vec::<u64>::new());
    assert!(!session.valid(start + TTL + TTL / 2), "at the deadline it has ended, whatever the store says");
    let late = store.renew_session(&session, start + TTL * 2);
    assert_eq!(rejected(late), Rejected::SessionEnded { session: session.id() });
    assert_eq!(store.expire_sessions(start + TTL * 2), [session.id()]);
    store.commit(Transaction::new()).unwrap();
    assert!(!store.exists("/e").unwrap());
    rejected(store.renew_session(&session, start));
    assert!(!session.valid(start));
}

fn an_ended_session_cannot_put(store: Arc<dyn MetadataStore>) {
    let session = store.open_session(TTL, Instant::now()).unwrap();
    store.close_session(&session).unwrap();
    store.close_session(&session).unwrap();
    let put = store.commit(Transaction::new().put_ephemeral("/e", b"", Absent, &session));
    assert_eq!(rejected(put), Rejected::SessionEnded { session: session.id() });
}

fn ephemeral_nodes_have_no_children(store: Arc<dyn MetadataStore>) {
    let session = store.open_session(TTL, Instant::now()).unwrap();
    store.commit(Transaction::new().put_ephemeral("/e", b"", Absent, &session)).unwrap();
    assert!(matches!(rejected(store.put("/e/child", b"", Any)), Rejected::BadPath { .. }));
    store.close_session(&session).unwrap();
    store.put("/e/child", b"", Any).unwrap();
}
