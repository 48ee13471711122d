//! What it costs to make entries durable through the log, beside a bare write and sync of as many bytes.
//!
//! `cargo run --release -p geminga-ledger --example log_bench -- [--dir DIR] [--rounds N] [--limit-mb MB] [IN_FLIGHT/PER_BLOCK/BYTES]...`
//!
//! "kept" deletes nothing, so each segment is a fresh file; "recycled" deletes old ledgers, so files are written again. "bare" is
//! `pwrite` and `fdatasync` of one buffer, in one thread, in pieces of the size that the log's groups had, past the page cache:
//! "bare, kept" to files whose space was only reserved, "bare, recycled" to files that were written before. Rounds are
//! interleaved; figures are medians, and of the rate also the least and the most. With `--limit-mb` the log's disk is held to so many
//! megabytes a second, as `geminga perf run --write-limit-mb` does it, and there is nothing bare.

#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::fs::{self, File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use geminga_ledger::log::{LogOptions, SharedLog, Slowness};
use geminga_ledger::{BlockBuilder, EntryId, LedgerId, LedgerStore, Position, Purpose};

const RUN: Duration = Duration::from_millis(1500);
const SEGMENT: u64 = 64 << 20;
/// What a run may write before it ends early.
const MOST: u64 = 4 << 30;
const LOADS: [Load; 7] = [
    load(1, 1, 128),
    load(64, 8, 128),
    load(1000, 50, 128),
    load(10_000, 500, 128),
    load(100_000, 2_000, 128),
    load(64, 8, 8192),
    load(1000, 50, 8192),
];

/// Entries on their way, entries handed over together, bytes of an entry.
#[derive(Clone, Copy)]
struct Load {
    in_flight: u64,
    per_block: u64,
    size: usize,
}

const fn load(in_flight: u64, per_block: u64, size: usize) -> Load {
    Load { in_flight, per_block, size }
}

/// What one run came to.
#[derive(Clone, Copy, Default)]
struct Figures {
    group: f64,
    sync: f64,
    entries: f64,
    bytes: f64,
    took: f64,
    /// CPU seconds of the log's writing threads, and of all.
    log: f64,
    all: f64,
}

fn main() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (mut dir, mut rounds, mut limit, mut loads) = (temporary.path().to_owned(), 1, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value behind the option");
        match argument.as_str() {
            "--dir" => dir = PathBuf::from(value()),
            "--rounds" => rounds = value().parse().expect("a number of rounds"),
            "--limit-mb" => limit = NonZeroU64::new(value().parse::<u64>().expect("megabytes a second") * 1_000_000),
            load => loads.push(parse(load)),
        }
    }
    let loads = if loads.is_empty() { LOADS.to_vec() } else { loads };
    println!("CPU seconds: 'log' of the threads that write the log, 'all' with the thread that fills the blocks.");
    println!(
        "            what  in flight  bytes  KiB/sync  sync us  entries/s   MB/s  (least to most)  log s/M  all s/M  log s/GB  all s/GB"
    );
    for load in loads {
        measure(&dir, load, rounds, limit);
    }
}

fn parse(text: &str) -> Load {
    let parts: Vec<u64> = text.split('/').map(|part| part.parse().expect("IN_FLIGHT/PER_BLOCK/BYTES")).collect();
    match parts[..] {
        [in_flight, per_block, size] => load(in_flight, per_block, usize::try_from(size).expect("bytes of an entry")),
        _ => panic!("write a load as IN_FLIGHT/PER_BLOCK/BYTES"),
    }
}

fn measure(dir: &Path, load: Load, rounds: usize, limit: Option<NonZeroU64>) {
    let mut found: [Vec<Figures>; 4] = Default::default();
    for _ in 0..rounds {
        for (kind, recycled) in [false, true].into_iter().enumerate() {
            let of_log = through_the_log(&dir.join("log"), load, recycled, limit);
            if limit.is_none() {
                found[2 + kind].push(bare(&dir.join("bare"), load, of_log.group as u64, recycled));
            }
            found[kind].push(of_log);
        }
    }
    for (what, figures) in ["log, kept", "log, recycled", "bare, kept", "bare, recycled"].into_iter().zip(&found) {
        if !figures.is_empty() {
            row(what, load, figures);
        }
    }
    if limit.is_none() {
        let rate = |kind: usize| median(&found[kind], |one| one.bytes / one.took);
        println!("{:>16}  kept {:.0} %, recycled {:.0} %", "log of bare", rate(0) / rate(2) * 100.0, rate(1) / rate(3) * 100.0);
    }
}

/// Keeps entries on their way as event loops would.
fn through_the_log(dir: &Path, load: Load, recycled: bool, limit: Option<NonZeroU64>) -> Figures {
    let slowness = Slowness { bytes_per_second: limit, ..Slowness::default() };
    let options = LogOptions { reserve_bytes: 0, recycle: 4, segment_bytes: SEGMENT, slowness, ..LogOptions::default() };
    let log = SharedLog::open(dir, options).expect("a log");
    let mut feed = Feed::new(&log, load);
    if recycled {
        // Enough for every spare file to have been written once.
        let began = Instant::now();
        while log.counters().segments_freed < 6 && began.elapsed() < Duration::from_secs(3) {
            feed.turn(true);
        }
    }
    let before = log.counters();
    let (began, all, writers) = (Instant::now(), cpu_time(&[""]), cpu_time(&["log-writer", "log-sync"]));
    while began.elapsed() < RUN && log.counters().segment_bytes < MOST {
        for _ in 0..32 {
            feed.turn(recycled);
        }
    }
    let took = began.elapsed().as_secs_f64();
    let (all, writers) = (cpu_time(&[""]) - all, cpu_time(&["log-writer", "log-sync"]) - writers);
    let after = log.counters();
    let (bytes, syncs) = ((after.bytes - before.bytes) as f64, (after.syncs - before.syncs).max(1) as f64);
    let sync = (after.sync_time - before.sync_time).as_secs_f64() / syncs;
    log.close();
    drop(feed);
    let _ = fs::remove_dir_all(dir);
    let entries = (after.entries - before.entries) as f64;
    Figures { group: bytes / syncs, sync, entries, bytes, took, log: writers.as_secs_f64(), all: all.as_secs_f64() }
}

/// The event loop's side.
struct Feed<'a> {
    log: &'a SharedLog,
    load: Load,
    payload: Vec<u8>,
    builder: BlockBuilder,
    durable: Arc<AtomicU64>,
    outcomes: (mpsc::Sender<()>, mpsc::Receiver<()>),
    ledger: LedgerId,
    entry: i64,
    sent: u64,
}

impl Feed<'_> {
    fn new(log: &SharedLog, load: Load) -> Feed<'_> {
        let payload = vec![0x5a; load.size];
        let (builder, durable) = (BlockBuilder::new(), Arc::default());
        Feed { log, load, payload, builder, durable, outcomes: mpsc::channel(), ledger: create(log), entry: 0, sent: 0 }
    }

    /// Hands over what may be on its way, and waits for an outcome.
    fn turn(&mut self, delete: bool) {
        let Load { in_flight, per_block, size } = self.load;
        while self.sent - self.durable.load(Ordering::Acquire) + per_block <= in_flight {
            for _ in 0..per_block {
                self.builder.push(Position { ledger: self.ledger, entry: EntryId(self.entry) }, self.entry - 1, &self.payload);
                self.entry += 1;
            }
            self.sent += per_block;
            let (durable, sender) = (self.durable.clone(), self.outcomes.0.clone());
            self.log.append(
                self.builder.finish(),
                Box::new(move |result| {
                    result.expect("durable");
                    durable.fetch_add(per_block, Ordering::Release);
                    let _ = sender.send(());
                }),
            );
        }
        let _ = self.outcomes.1.recv();
        while self.outcomes.1.try_recv().is_ok() {}
        // Old ledgers go, as trimming would have it, so that their segments are used again.
        if delete && self.entry as u64 * (size as u64 + 32) > SEGMENT {
            let old = std::mem::replace(&mut self.ledger, create(self.log));
            self.log.delete(vec![old], Box::new(|_| {}));
            self.entry = 0;
        }
    }
}

/// The same bytes without a log: what the disk and the system ask for.
fn bare(dir: &Path, load: Load, group: u64, recycled: bool) -> Figures {
    fs::create_dir_all(dir).expect("a directory");
    let memory = vec![0x5a; (group.max(1 << 20) + 3 * 4096) as usize];
    let aligned = memory.as_ptr().align_offset(4096);
    let memory = &memory[aligned..];
    let mut files: Vec<File> = Vec::new();
    if recycled {
        files = (0..3).map(|at| file(&dir.join(at.to_string()), Some(&memory[..1 << 20]))).collect();
    }
    let (began, cpu) = (Instant::now(), cpu_time(&[""]));
    let (mut at, mut turn, mut bytes, mut syncs, mut syncing) = (SEGMENT, 0, 0u64, 0u64, Duration::ZERO);
    while began.elapsed() < RUN && bytes < MOST {
        if at + group + 4096 > SEGMENT {
            (at, turn) = (0, turn + 1);
            if !recycled {
                files = vec![file(&dir.join(turn.to_string()), None)];
            }
        }
        // Past the cache only whole pages can be written; the last one is written again with the next group.
        let (from, to) = (at & !4095, (at + group).next_multiple_of(4096));
        let file = &files[turn % files.len()];
        file.write_all_at(&memory[..(to - from) as usize], from).expect("written");
        let began = Instant::now();
        file.sync_data().expect("synced");
        syncing += began.elapsed();
        at += group;
        bytes += group;
        syncs += 1;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time(&[""]) - cpu).as_secs_f64());
    let _ = fs::remove_dir_all(dir);
    let entries = bytes as f64 / (load.size + 32) as f64;
    let sync = syncing.as_secs_f64() / syncs.max(1) as f64;
    Figures { group: group as f64, sync, entries, bytes: bytes as f64, took, log: cpu, all: cpu }
}

/// A file of a segment's length, written before or only reserved.
fn file(path: &Path, written: Option<&[u8]>) -> File {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).expect("a file");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, SEGMENT).expect("reserved");
    for at in (0..SEGMENT).step_by(1 << 20) {
        written.into_iter().for_each(|bytes| file.write_all_at(bytes, at).expect("written"));
    }
    file.sync_all().expect("synced");
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().custom_flags(direct).write(true).open(path).expect("opened")
}

fn row(what: &str, load: Load, figures: &[Figures]) {
    let Load { in_flight, size, .. } = load;
    let of = |value: fn(&Figures) -> f64| median(figures, value);
    let rates = || figures.iter().map(|one| one.bytes / one.took / 1e6);
    let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
    println!(
        "{what:>16}  {in_flight:>9}  {size:>5}  {:>8.1}  {:>7.0}  {:>9.0}  {:>5.0}  {:>15}  {:>7.2}  {:>7.2}  {:>8.2}  {:>8.2}",
        of(|one| one.group) / 1024.0,
        of(|one| one.sync) * 1e6,
        of(|one| one.entries / one.took),
        of(|one| one.bytes / one.took) / 1e6,
        format!("({least:.0} to {most:.0})"),
        of(|one| one.log / one.entries) * 1e6,
        of(|one| one.all / one.entries) * 1e6,
        of(|one| one.log / one.bytes) * 1e9,
        of(|one| one.all / one.bytes) * 1e9,
    );
}

fn median(figures: &[Figures], value: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn create(log: &SharedLog) -> LedgerId {
    let (sender, receiver) = mpsc::channel();
    log.create(Purpose::Data, Box::new(move |created| drop(sender.send(created))));
    receiver.recv().expect("an outcome").expect("created")
}

/// What threads of the process whose names begin like this spent on a processor so far.
fn cpu_time(threads: &[&str]) -> Duration {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let name = read("comm");
        if threads.iter().any(|wanted| name.starts_with(wanted)) {
            sum += read("schedstat").split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(sum)
}
