//! `kill -9`: what was acknowledged is there afterwards, and nothing is there in halves.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use metadata::Expected::{Absent, Any, Version};
use metadata::{MetadataStore, Transaction};

use crate::open;

/// Where the child writes; set only in the child.
const CHILD: &str = "METADATA_CRASH_CHILD";
const ROUNDS: u32 = 6;

#[test]
fn every_acknowledged_commit_survives_kill_9() {
    if let Some(path) = std::env::var_os(CHILD) {
        return commit_until_killed(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut acknowledged = -1;
    for round in 0..ROUNDS {
        let now = run_and_kill(&path, Duration::from_millis(random.u64(0..120)), acknowledged);
        assert!(round == 0 || now > acknowledged, "seed {seed}: no commit was acknowledged in round {round}");
        acknowledged = now;
        check(&path, acknowledged, seed);
    }
}

// Transaction n puts two nodes, raises a counter and takes a number: all of it or nothing.
fn commit_until_killed(path: &Path) {
    let store = open(path);
    let (tell, told) = mpsc::channel();
    let first = store.get("/last").unwrap().map_or(0, |last| number(&last.value) + 1);
    let mut waiting = 0;
    for number in first.. {
        let tell = tell.clone();
        let last = if number == 0 { Absent } else { Version(number - 1) };
        let transaction = Transaction::new()
            .put("/last", number.to_string(), last)
            .put(format!("/left/{number}"), vec![1; 300], Absent)
            .put(format!("/right/{number}"), vec![2; 300], Absent)
            .reserve("/counters/x", 1);
        store.submit(transaction, Box::new(move |outcome| drop(tell.send((number, outcome)))));
        waiting += 1;
        while waiting > 20 || (waiting > 0 && number == first) {
            let (number, outcome) = told.recv().unwrap();
            assert_eq!(outcome.unwrap().last(), Some(&number), "the sequence goes with the transaction");
            // One write per line: the parent must not see half a number.
            std::io::stdout().write_all(format!("acknowledged {number}\n").as_bytes()).unwrap();
            waiting -= 1;
        }
    }
}

fn run_and_kill(path: &Path, after: Duration, before: i64) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::every_acknowledged_commit_survives_kill_9", "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = before;
    // At least one, so that every round commits something.
    while acknowledged == before {
        match lines.next() {
            Some(line) => acknowledged = parse(&line.unwrap()).unwrap_or(acknowledged),
            None => panic!("the child ended: {:?}", child.wait()),
        }
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.map_while(Result::ok).filter_map(|line| parse(&line)).fold(acknowledged, i64::max)
}

fn parse(line: &str) -> Option<i64> {
    line.split_once("acknowledged ")?.1.parse().ok()
}

fn check(path: &Path, acknowledged: i64, seed: u64) {
    let store = open(path);
    let last = store.get("/last").unwrap().expect("the last number");
    assert!(number(&last.value) >= acknowledged, "seed {seed}: {acknowledged} was acknowledged and {last:?} is there");
    assert_eq!(number(&last.value), last.version);
    let count = usize::try_from(last.version + 1).unwrap();
    for side in ["/left", "/right"] {
        assert_eq!(store.children(side).unwrap().len(), count, "seed {seed}: a transaction was done in halves");
    }
    for number in 0..=last.version {
        assert_eq!(store.get(&format!("/left/{number}")).unwrap().expect("a node").value, [1; 300], "seed {seed}");
    }
    assert_eq!(store.commit(Transaction::new().reserve("/counters/x", 0)).unwrap(), [last.version + 1]);
    store.put("/after", b"", Any).unwrap();
}

fn number(value: &[u8]) -> i64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}
