//! What it costs to make entries durable through the log, beside a bare write and sync of as many bytes.
//!
//! `cargo run --release -p geminga-ledger --example log_bench [DIR]`
//!
//! "kept" deletes nothing, so each segment is a fresh file; "recycled" deletes old ledgers, so files are written again.
//! "bare" is `pwrite` and `fdatasync` of one buffer to preallocated files that were written before, in one thread, in pieces of
//! the size that the log's groups had: `bare cached` through the page cache, `bare direct` past it.

#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use geminga_ledger::log::{LogOptions, SharedLog};
use geminga_ledger::{BlockBuilder, EntryId, LedgerId, LedgerStore, Position, Purpose};

const RUN: Duration = Duration::from_millis(1500);
const SEGMENT: u64 = 128 << 20;

/// Entries on their way, entries handed over together, bytes of an entry.
#[derive(Clone, Copy)]
struct Load {
    in_flight: u64,
    per_block: u64,
    size: usize,
}

fn main() {
    let dir = std::env::args().nth(1);
    let temporary = tempfile::tempdir().expect("a directory");
    let base = dir.as_deref().map_or(temporary.path(), Path::new);
    println!("CPU seconds: 'log' of the writer's thread, 'all' with the thread that fills the blocks.");
    println!("            what  in flight  bytes  KiB/sync  sync us  entries/s   MB/s  log s/M  all s/M  log s/GB  all s/GB");
    for (in_flight, per_block, size) in
        [(1, 1, 128), (64, 8, 128), (1000, 50, 128), (10_000, 500, 128), (100_000, 2_000, 128), (64, 8, 8192), (1000, 50, 8192)]
    {
        let load = Load { in_flight, per_block, size };
        let group = through_the_log(&base.join("kept"), load, false);
        through_the_log(&base.join("recycled"), load, true);
        for direct in [false, true] {
            bare(&base.join("bare"), load, group, direct);
        }
    }
}

/// Keeps entries on their way as event loops would; returns how many bytes one sync covered.
fn through_the_log(dir: &Path, load: Load, recycled: bool) -> u64 {
    let options = LogOptions { reserve_bytes: 0, recycle: 4, segment_bytes: SEGMENT, ..LogOptions::default() };
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
    let (began, all, writer) = (Instant::now(), cpu_time(None), cpu_time(Some("log-writer")));
    while began.elapsed() < RUN && log.counters().segment_bytes < 4 << 30 {
        for _ in 0..32 {
            feed.turn(recycled);
        }
    }
    let took = began.elapsed().as_secs_f64();
    let (all, writer) = ((cpu_time(None) - all).as_secs_f64(), (cpu_time(Some("log-writer")) - writer).as_secs_f64());
    let after = log.counters();
    let (bytes, syncs) = (after.bytes - before.bytes, (after.syncs - before.syncs).max(1));
    let sync = (after.sync_time - before.sync_time).as_secs_f64() / syncs as f64;
    let what = if recycled { "log, recycled" } else { "log, kept" };
    row(what, load, bytes / syncs, sync, (after.entries - before.entries) as f64, bytes as f64, took, [writer, all]);
    log.close();
    drop(feed);
    let _ = fs::remove_dir_all(dir);
    bytes / syncs
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
fn bare(dir: &Path, load: Load, group: u64, direct: bool) {
    fs::create_dir_all(dir).expect("a directory");
    let memory = vec![0x5a; (group.max(1 << 20) + 3 * 4096) as usize];
    let aligned = memory.as_ptr().align_offset(4096);
    let files: Vec<File> = (0..3).map(|at| written_before(&dir.join(at.to_string()), &memory[aligned..][..1 << 20], direct)).collect();
    let (began, cpu) = (Instant::now(), cpu_time(None));
    let (mut at, mut file, mut bytes, mut syncs, mut syncing) = (0, 0, 0u64, 0u64, Duration::ZERO);
    while began.elapsed() < RUN {
        if at + group + 4096 > SEGMENT {
            (at, file) = (0, (file + 1) % files.len());
        }
        // Past the cache only whole pages can be written; the last one is written again with the next group.
        let (from, to) = if direct { (at & !4095, (at + group).next_multiple_of(4096)) } else { (at, at + group) };
        files[file].write_all_at(&memory[aligned..][..(to - from) as usize], from).expect("written");
        let began = Instant::now();
        files[file].sync_data().expect("synced");
        syncing += began.elapsed();
        at += group;
        bytes += group;
        syncs += 1;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time(None) - cpu).as_secs_f64());
    let entries = bytes as f64 / (load.size + 32) as f64;
    let what = if direct { "bare direct" } else { "bare cached" };
    row(what, load, group, syncing.as_secs_f64() / syncs as f64, entries, bytes as f64, took, [cpu, cpu]);
    let _ = fs::remove_dir_all(dir);
}

fn written_before(path: &PathBuf, zeros: &[u8], direct: bool) -> File {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).expect("a file");
    for at in 0..SEGMENT / zeros.len() as u64 {
        file.write_all_at(zeros, at * zeros.len() as u64).expect("written");
    }
    file.sync_all().expect("synced");
    let mut options = OpenOptions::new();
    if direct {
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    }
    options.write(true).open(path).expect("opened")
}

#[allow(clippy::too_many_arguments, reason = "the columns of a table")]
fn row(what: &str, load: Load, group: u64, sync: f64, entries: f64, bytes: f64, took: f64, [log, all]: [f64; 2]) {
    let Load { in_flight, size, .. } = load;
    println!(
        "{what:>16}  {in_flight:>9}  {size:>5}  {:>8.1}  {:>7.0}  {:>9.0}  {:>5.0}  {:>7.2}  {:>7.2}  {:>8.2}  {:>8.2}",
        group as f64 / 1024.0,
        sync * 1e6,
        entries / took,
        bytes / took / 1e6,
        log / entries * 1e6,
        all / entries * 1e6,
        log / bytes * 1e9,
        all / bytes * 1e9,
    );
}

fn create(log: &SharedLog) -> LedgerId {
    let (sender, receiver) = mpsc::channel();
    log.create(Purpose::Data, Box::new(move |created| drop(sender.send(created))));
    receiver.recv().expect("an outcome").expect("created")
}

/// What a thread of the process, or all of them, spent on a processor so far.
fn cpu_time(thread: Option<&str>) -> Duration {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if thread.is_none_or(|name| read("comm").trim() == name) {
            sum += read("schedstat").split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(sum)
}
