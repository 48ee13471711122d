//! What the pure half costs per message: `cargo run --release -p geminga-ledger --example chain_bench`.

#![allow(clippy::print_stdout, reason = "it is what a bench is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use geminga_ledger::{Cursor, Entry, EntryCache, EntryMeta, LedgerId, LedgerLimits, LedgerList, ManagedLedger, Position};

const ENTRIES: i64 = 5_000_000;
const LIMITS: LedgerLimits = LedgerLimits { max_entries: 50_000, max_bytes: 2 << 30, min_age_ms: 0, max_age_ms: 0 };

fn main() {
    let mut ledger = fresh();
    per_entry("append and confirm, one by one", || fill(&mut ledger, 1));
    let mut ledger = fresh();
    per_entry("append and confirm, 100 at a time", || fill(&mut ledger, 100));

    let positions: Vec<Position> =
        std::iter::successors(Some(ledger.first()), |&at| Some(ledger.next(at))).take(ENTRIES as usize).collect();
    ack_all("ack in order", &positions, &ledger);
    fastrand::seed(7);
    let mut shuffled = positions.clone();
    shuffled.chunks_mut(1000).for_each(fastrand::shuffle);
    ack_all("ack shuffled within 1000", &shuffled, &ledger);

    let mut cursor = Cursor::new(Position::EARLIEST, &ledger);
    shuffled.iter().filter(|at| at.entry.0 % 2 == 1).for_each(|&at| assert!(cursor.ack(at, &ledger)));
    per_entry("next unacked and backlog among holes", || {
        for &at in &positions {
            black_box((cursor.next_unacked(at, &ledger), cursor.backlog(&ledger)));
        }
    });

    per_entry("cache insert, get and drop", || {
        let mut cache = EntryCache::new(1 << 20);
        let topics: Vec<_> = (0..10).map(|_| cache.open()).collect();
        let bytes = Bytes::from_static(&[0; 100]);
        for (&at, &topic) in positions.iter().zip(topics.iter().cycle()) {
            cache.insert(topic, Entry { at, bytes: bytes.clone(), meta: EntryMeta::default() });
            assert!(cache.get(topic, at).is_some());
        }
    });

    encode_holes();
}

/// Every second entry of one ledger is acked.
fn encode_holes() {
    let mut ledger = ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), LedgerLimits { max_entries: u64::MAX, ..LIMITS }, 0);
    for _ in 0..100_001 {
        let at = ledger.append(100).expect("open");
        ledger.confirm(at);
    }
    let mut cursor = Cursor::new(Position::EARLIEST, &ledger);
    (0..50_000).for_each(|n| assert!(cursor.ack(Position::new(1, 2 * n + 1), &ledger)));
    let (state, taken) = timed(|| cursor.state(200_000, 200_000));
    let (bytes, encoded) = timed(|| Cursor::encode_position(&state));
    let (restored, decoded) = timed(|| Cursor::restore(Cursor::decode_position(&bytes).expect("our own"), &ledger));
    assert_eq!(restored.acked_beyond(), 50_000);
    println!("50,000 holes: state {taken:?}, encode {encoded:?} to {} bytes, decode and restore {decoded:?}", bytes.len());
}

fn fresh() -> ManagedLedger {
    ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), LIMITS, 0)
}

fn fill(ledger: &mut ManagedLedger, batch: i64) {
    for _ in 0..ENTRIES / batch {
        let mut last = Position::EARLIEST;
        for _ in 0..batch {
            last = ledger.append(black_box(100)).expect("open");
        }
        ledger.confirm(last);
        if ledger.is_full(1) {
            ledger.begin_rollover();
            ledger.next_ledger(LedgerId(last.ledger.0 + 1), 1);
            ledger.rolled();
        }
    }
}

fn ack_all(what: &str, positions: &[Position], ledger: &ManagedLedger) {
    let mut cursor = Cursor::new(Position::EARLIEST, ledger);
    per_entry(what, || positions.iter().for_each(|&at| assert!(cursor.ack(at, ledger))));
    assert_eq!((cursor.backlog(ledger), cursor.acked_beyond()), (0, 0));
}

fn per_entry(what: &str, run: impl FnOnce()) {
    let ((), taken) = timed(run);
    println!("{what}: {:.1} ns", taken.as_nanos() as f64 / ENTRIES as f64);
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = run();
    (value, start.elapsed())
}
