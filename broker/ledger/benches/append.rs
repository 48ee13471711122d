//! What a message costs the log: `append log COUNT` stores so many, a hundred a block, so that instructions can be counted.

use std::sync::mpsc;

use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{BlockBuilder, EntryId, LedgerStore, Position, Purpose};

const BLOCK: i64 = 100;

fn main() {
    // Called by `cargo bench` or `cargo test`: there is nothing to count.
    let Some(count) = std::env::args().nth(2).and_then(|count| count.parse::<i64>().ok()) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    // The kernel's work is not counted, so it need not be done.
    let options = LogOptions { sync: false, reserve_bytes: 0, ..LogOptions::default() };
    let log = SharedLog::open(dir.path(), options).expect("a log");
    let (created, ledger) = mpsc::channel();
    log.create(Purpose::Data, Box::new(move |ledger| drop(created.send(ledger))));
    let ledger = ledger.recv().expect("an answer").expect("a ledger");
    let (payload, mut builder) = ([7; 190], BlockBuilder::new());
    for first in (0..count).step_by(BLOCK as usize) {
        for entry in first..first + BLOCK {
            builder.push(Position { ledger, entry: EntryId(entry) }, entry - 1, &payload);
        }
        let (done, outcome) = mpsc::channel();
        log.append(builder.finish(), Box::new(move |result| drop(done.send(result))));
        outcome.recv().expect("an answer").expect("durable");
    }
}
