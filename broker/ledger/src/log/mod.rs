//! The embedded store: one shared log for all ledgers of a data directory. `FORMAT.md` beside this file tells every byte.

mod compaction;
mod counters;
mod errors;
mod files;
mod flight;
mod footer;
pub(crate) mod format;
mod group;
mod ids;
mod index;
mod landing;
mod options;
mod pages;
mod queue;
mod reader;
mod recovery;
mod rhythm;
mod runs;
mod segment;
mod slow;
mod version;
mod walk;
mod writer;

#[doc(hidden)]
pub mod sim;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use self::counters::Counters;
use self::group::Op;
use self::index::Index;
use self::queue::Queue;
use self::reader::{PartCache, ReadJob};
use self::recovery::failed;
use self::segment::SegmentFiles;
use self::slow::SlowFiles;
use self::writer::Writer;
use crate::store::{Capabilities, Done, LedgerStore, Purpose, ReadRange, Sealed, StoreError, StoreHealth, StoredEntry};
use crate::{Block, LedgerId};

pub use self::counters::LogCounters;
pub use self::errors::OpenError;
pub use self::files::{FileLayer, LogFile, OsFiles, PAGE};
pub use self::options::LogOptions;
pub use self::recovery::RecoveryReport;
pub use self::slow::Slowness;

/// The shared log of a data directory.
///
/// One thread writes, another syncs what is large meanwhile, a few read, one compacts. The caller holds a lock on the directory: two logs on one directory
/// would destroy it. Outcomes are reported on the log's threads, after [`close`](Self::close) on the caller's.
pub struct SharedLog {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    report: RecoveryReport,
}

/// What the threads share.
pub(crate) struct Shared {
    options: LogOptions,
    files: SegmentFiles,
    run: u64,
    index: Mutex<Index>,
    parts: PartCache,
    queue: Queue<Op>,
    reads: Queue<ReadJob>,
    compact: Queue<()>,
    health: Mutex<StoreHealth>,
    counters: Counters,
}

impl SharedLog {
    /// Opens the log in `dir`, or begins one there, and starts its threads.
    ///
    /// # Errors
    /// If the directory was written by a newer release, is damaged, or cannot be used.
    pub fn open(dir: &Path, options: LogOptions) -> Result<SharedLog, OpenError> {
        // Without syncs only the cache makes sense of a write.
        let direct = options.direct_io && options.sync;
        let files: Arc<dyn FileLayer> = Arc::new(OsFiles { direct });
        let slowness = options.slowness;
        let files = if slowness.is_none() { files } else { Arc::new(SlowFiles::new(files, slowness)) };
        SharedLog::open_on(files, dir, options)
    }

    /// The same on other files than the operating system's.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(layer: Arc<dyn FileLayer>, dir: &Path, options: LogOptions) -> Result<SharedLog, OpenError> {
        let (shared, mut writer, report) = Shared::open(&layer, dir, options)?;
        let landings = writer.landings().map(|landings| spawn("log-sync".into(), dir, move || landings.run()));
        let mut threads: Vec<JoinHandle<()>> = landings.transpose()?.into_iter().collect();
        threads.push(spawn("log-writer".into(), dir, move || writer.run())?);
        for at in 0..shared.options.read_threads {
            let shared = shared.clone();
            threads.push(spawn(format!("log-read-{at}"), dir, move || shared.run_reader())?);
        }
        let compactor = shared.clone();
        threads.push(spawn("log-compact".into(), dir, move || compactor.run_compactor())?);
        shared.wake_compactor();
        Ok(SharedLog { shared, threads: Mutex::new(threads), report })
    }

    /// What opening found.
    #[must_use]
    pub fn recovered(&self) -> &RecoveryReport {
        &self.report
    }

    /// A copy of the counters.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        self.shared.count()
    }

    /// Bytes handed over and not yet durable.
    ///
    /// An append is never refused for want of room and never waits, since an event loop may be calling. The callers bound
    /// the sum: they stop reading from publishers when what they handed over exceeds their budget for it.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.shared.queue.bytes()
    }

    /// Takes no more work, finishes what was handed over, and ends the threads. Can be called again.
    pub fn close(&self) {
        let _ = self.shared.queue.push(Op::Close, 0);
        self.shared.queue.close();
        self.shared.reads.close();
        self.shared.compact.close();
        let threads = std::mem::take(&mut *lock(&self.threads));
        // The last handle may go away inside an outcome that one of the threads is reporting: then they end by themselves.
        if threads.iter().all(|thread| thread.thread().id() != thread::current().id()) {
            for thread in threads {
                let _ = thread.join();
            }
        }
    }

    fn submit(&self, op: Op) {
        let bytes = op.bytes();
        if let Err(op) = self.shared.queue.push(op, bytes) {
            op.refuse(closed());
        }
    }

    fn submit_read(&self, job: ReadJob) {
        match self.shared.reads.push(job, 0) {
            Ok(()) => {}
            Err(ReadJob::Read(_, done)) => done(Err(closed())),
            Err(ReadJob::List(done)) => done(Err(closed())),
        }
    }
}

impl LedgerStore for SharedLog {
    fn create(&self, purpose: Purpose, done: Done<LedgerId>) {
        self.submit(Op::Create(purpose, done));
    }

    fn append(&self, block: Block, done: Done<()>) {
        self.submit(Op::Append(block, done));
    }

    fn seal(&self, ledger: LedgerId, done: Done<Sealed>) {
        self.submit(Op::Seal(ledger, done));
    }

    fn open_fenced(&self, ledger: LedgerId, done: Done<Sealed>) {
        self.submit(Op::Fence(ledger, done));
    }

    fn read(&self, range: ReadRange, done: Done<Vec<StoredEntry>>) {
        self.submit_read(ReadJob::Read(range, done));
    }

    fn delete(&self, ledgers: Vec<LedgerId>, done: Done<()>) {
        self.submit(Op::Delete(ledgers, done));
    }

    fn list(&self, done: Done<Vec<LedgerId>>) {
        self.submit_read(ReadJob::List(done));
    }

    fn health(&self) -> StoreHealth {
        if self.shared.nearly_full().is_some() {
            self.shared.check_space();
        }
        lock(&self.shared.health).clone()
    }

    fn capabilities(&self) -> Capabilities {
        let options = &self.shared.options;
        Capabilities { max_entry_bytes: options.max_entry_bytes, max_block_bytes: options.max_block_bytes }
    }

    fn counters(&self) -> Option<LogCounters> {
        Some(self.shared.count())
    }
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    pub(crate) fn open(
        layer: &Arc<dyn FileLayer>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<(Arc<Shared>, Writer, RecoveryReport), OpenError> {
        let found = recovery::recover(layer, dir, &options)?;
        let shared = Arc::new(Shared {
            parts: PartCache::new(options.index_cache_bytes),
            options,
            files: found.files,
            run: found.run,
            index: Mutex::new(found.index),
            queue: Queue::new(),
            reads: Queue::new(),
            compact: Queue::new(),
            health: Mutex::new(StoreHealth::Ready),
            counters: Counters::default(),
        });
        shared.check_space();
        let writer = Writer::new(shared.clone(), found.active, found.end, found.next_ledger)
            .map_err(failed("reading the end of the log in", dir))?;
        Ok((shared, writer, found.report))
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    pub(crate) fn poisoned(&self) -> Option<String> {
        match &*lock(&self.health) {
            StoreHealth::Poisoned(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    pub(crate) fn nearly_full(&self) -> Option<String> {
        match &*lock(&self.health) {
            StoreHealth::DiskNearlyFull(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Poisoned stays poisoned.
    pub(crate) fn set_health(&self, health: StoreHealth) {
        let mut current = lock(&self.health);
        if !matches!(*current, StoreHealth::Poisoned(_)) {
            *current = health;
        }
    }

    /// Nothing is written any more.
    pub(crate) fn poison(&self, reason: &str) {
        self.set_health(StoreHealth::Poisoned(reason.to_owned()));
    }

    /// Compares what is free with the reserve.
    pub(crate) fn check_space(&self) {
        let Ok(free) = self.files.layer.free_bytes(&self.files.dir) else { return };
        let free = free.saturating_add(self.files.spare_bytes());
        let reserve = self.options.reserve_bytes;
        self.set_health(if free < reserve {
            StoreHealth::DiskNearlyFull(format!("{free} bytes are free, the reserve is {reserve}"))
        } else {
            StoreHealth::Ready
        });
    }

    pub(crate) fn wake_compactor(&self) {
        if self.compact.len() == 0 {
            let _ = self.compact.push((), 0);
        }
    }

    fn count(&self) -> LogCounters {
        let mut counters = self.counters.copy();
        {
            let index = self.index();
            counters.segments = index.segments.len() as u64;
            counters.segment_bytes = index.segments.values().map(|state| state.segment.len()).sum();
            counters.live_bytes = index.segments.values().map(|state| state.live).sum();
        }
        counters.queued_bytes = self.queue.bytes() as u64;
        counters.queued_reads = self.reads.len() as u64;
        counters
    }
}

fn spawn(name: String, dir: &Path, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    thread::Builder::new().name(name).spawn(work).map_err(|source| OpenError::Io {
        what: "starting the threads of the log in",
        path: dir.to_owned(),
        source,
    })
}

fn closed() -> StoreError {
    StoreError::Closed("the log was closed".into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
