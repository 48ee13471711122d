//! How many entries a second become durable, how many share a sync, and what one costs in CPU.
//!
//! `cargo run --release -p geminga-ledger --example log_bench [DIR]`

#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{BlockBuilder, EntryId, LedgerId, LedgerStore, Position, Purpose};

const RUN: Duration = Duration::from_secs(3);

fn main() {
    let dir = std::env::args().nth(1);
    let temporary = tempfile::tempdir().expect("a directory");
    let base = dir.as_deref().map_or(temporary.path(), Path::new);
    println!("in flight  per block  bytes  entries/s  entries/sync  sync us  CPU us/entry  MB/s");
    for sync in [true, false] {
        if !sync {
            println!("NOT DURABLE (no sync):");
        }
        for (in_flight, per_block, size) in
            [(1, 1, 128), (64, 1, 128), (64, 8, 128), (1000, 1, 128), (1000, 50, 128), (10_000, 500, 128), (1000, 50, 1024)]
        {
            bench(&base.join(format!("{sync}-{in_flight}-{per_block}-{size}")), sync, in_flight, per_block, size);
        }
    }
}

/// Keeps `in_flight` entries on their way, handed over in blocks of `per_block`, as event loops would.
fn bench(dir: &Path, sync: bool, in_flight: u64, per_block: u64, size: usize) {
    let options = LogOptions { sync, reserve_bytes: 0, recycle: 4, ..LogOptions::default() };
    let log = Arc::new(SharedLog::open(dir, options).expect("a log"));
    let payload = vec![0x5a; size];
    let (sender, receiver) = mpsc::channel();
    let durable = Arc::new(AtomicU64::new(0));
    let mut builder = BlockBuilder::new();
    let mut ledger = create(&log);
    let (mut entry, mut sent) = (0, 0u64);
    let (began, cpu) = (Instant::now(), cpu_time());
    let before = log.counters();
    while began.elapsed() < RUN {
        while sent - durable.load(Ordering::Acquire) + per_block <= in_flight {
            for _ in 0..per_block {
                builder.push(Position { ledger, entry: EntryId(entry) }, entry - 1, &payload);
                entry += 1;
            }
            sent += per_block;
            let (durable, sender) = (durable.clone(), sender.clone());
            log.append(
                builder.finish(),
                Box::new(move |result| {
                    result.expect("durable");
                    durable.fetch_add(per_block, Ordering::Release);
                    let _ = sender.send(());
                }),
            );
        }
        let _ = receiver.recv();
        while receiver.try_recv().is_ok() {}
        // Old ledgers go, as trimming would have it, so that their segments are used again.
        if entry > 500_000 {
            let old = std::mem::replace(&mut ledger, create(&log));
            log.delete(vec![old], Box::new(|_| {}));
            entry = 0;
        }
    }
    let took = began.elapsed().as_secs_f64();
    let (after, cpu) = (log.counters(), cpu_time() - cpu);
    let entries = (after.entries - before.entries) as f64;
    let syncs = (after.syncs - before.syncs) as f64;
    let sync_time = (after.sync_time - before.sync_time).as_secs_f64();
    println!(
        "{in_flight:>9}  {per_block:>9}  {size:>5}  {:>9.0}  {:>12.1}  {:>7.0}  {:>12.2}  {:>4.0}",
        entries / took,
        entries / syncs,
        sync_time / syncs * 1e6,
        cpu.as_secs_f64() / entries * 1e6,
        (after.bytes - before.bytes) as f64 / took / 1e6,
    );
    log.close();
    drop(log);
    let _ = std::fs::remove_dir_all(dir);
}

fn create(log: &SharedLog) -> LedgerId {
    let (sender, receiver) = mpsc::channel();
    log.create(Purpose::Data, Box::new(move |created| drop(sender.send(created))));
    receiver.recv().expect("an outcome").expect("created")
}

/// User and system time of the process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
