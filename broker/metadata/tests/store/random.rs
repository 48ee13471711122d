//! Random transactions, done by both engines: the same outcomes, the same tree.

use std::time::{Duration, Instant};

use metadata::Expected::{Absent, Any, Version};
use metadata::{MemoryStore, MetadataStore, Session, Transaction, Versioned};

use crate::open;

#[test]
fn both_engines_do_the_same_with_random_transactions() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let (embedded, memory) = (open(&directory.path().join("metadata")), MemoryStore::new());
    let now = Instant::now();
    let ttl = Duration::from_secs(10);
    let mut sessions = [embedded.open_session(ttl, now).unwrap(), memory.open_session(ttl, now).unwrap()];
    for step in 0..400 {
        if step % 50 == 49 {
            embedded.close_session(&sessions[0]).unwrap();
            memory.close_session(&sessions[1]).unwrap();
            sessions = [embedded.open_session(ttl, now).unwrap(), memory.open_session(ttl, now).unwrap()];
        }
        let ops: Vec<_> = (0..random.usize(1..6)).map(|_| (random.u8(0..8), random_path(&mut random), random.i64(-1..4))).collect();
        let outcomes = [&embedded as &dyn MetadataStore, &memory].into_iter().zip(&sessions).map(|(store, session)| {
            let transaction = ops.iter().fold(Transaction::new(), |all, (kind, path, version)| add(all, *kind, path, *version, session));
            store.commit(transaction)
        });
        let [first, second] = outcomes.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(first, second, "seed {seed}, step {step}: {ops:?}");
    }
    assert_eq!(tree(&embedded, "/"), tree(&memory, "/"), "seed {seed}");
}

fn random_path(random: &mut fastrand::Rng) -> String {
    (0..random.usize(1..4)).map(|_| format!("/{}", random.choice(["a", "b", "c"]).unwrap())).collect()
}

fn add(all: Transaction, kind: u8, path: &str, version: i64, session: &Session) -> Transaction {
    let expected = match version {
        -1 => Absent,
        3 => Any,
        version => Version(version),
    };
    match kind {
        0..=2 => all.put(path, path, Any),
        3 => all.put(path, "at a version", expected),
        4 => all.put_ephemeral(path, "", expected, session),
        5 => all.delete(path, expected),
        6 => all.check_empty(path),
        _ => all.reserve(path, 2),
    }
}

fn tree(store: &dyn MetadataStore, path: &str) -> Vec<(String, Option<Versioned>)> {
    let mut nodes = Vec::new();
    for child in store.children(path).unwrap() {
        let child = format!("{}/{child}", path.trim_end_matches('/'));
        nodes.push((child.clone(), store.get(&child).unwrap()));
        nodes.extend(tree(store, &child));
    }
    nodes
}
