//! The tree in one file on this machine's disk, by redb. One writer thread puts everything that waits into one durable commit;
//! readers take snapshots and wait for nobody.

mod file;
#[cfg(test)]
mod poison;
mod tables;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::{Database, ReadOnlyTable, ReadableDatabase};

use crate::delivery::{delivering, on_store_thread};
use crate::sessions::Sessions;
use crate::watch::Watchers;
use crate::{Done, MetadataError, MetadataStore, OnChange, OpenError, Rejected, Session, Transaction, Versioned, Watch, key};

use writer::{Task, Work};

/// How the store uses memory and checks itself.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of pages kept in memory. Too few: lookups of cold topics read the disk.
    pub cache_bytes: usize,
    /// Whether opening verifies the checksum of every page, which reads the whole file. Without it damage is found when it is
    /// stepped on. After a crash everything is verified anyway.
    pub verify_on_open: bool,
    /// Bytes of transactions that may wait for the disk; more are refused with [`Rejected::Overloaded`].
    pub queue_bytes: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        EmbeddedOptions { cache_bytes: 4 * 1024 * 1024, verify_on_open: true, queue_bytes: 64 * 1024 * 1024 }
    }
}

/// What the writer has done since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitCounts {
    /// Durable commits, one sync each.
    pub commits: u64,
    /// Transactions that took part in them, refused ones not counted.
    pub transactions: u64,
}

/// The embedded store.
///
/// A commit that fails poisons it: this transaction and every later call, reads included, fail as `Unknown`, and watchers are
/// told to resync. Only opening it again tells what is on the disk. Dropping it finishes what is queued.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    tasks: Option<mpsc::Sender<Task>>,
    writer: Option<JoinHandle<()>>,
    epoch: u64,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    sessions: Sessions,
    watchers: Arc<Watchers>,
    poison: OnceLock<String>,
    queued: AtomicUsize,
    queue_bytes: usize,
    counts: Mutex<CommitCounts>,
}

impl EmbeddedStore {
    /// Opens the file, or creates it. Ephemeral nodes of the last run are gone: its sessions ended with it.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<EmbeddedStore, OpenError> {
        let database = file::open(path, options)?;
        EmbeddedStore::start(database, options, path)
    }

    fn start(database: Database, options: EmbeddedOptions, path: &Path) -> Result<EmbeddedStore, OpenError> {
        let epoch = tables::prepare(&database, path)?;
        let shared = Arc::new(Shared {
            database,
            sessions: Sessions::new(epoch),
            watchers: Arc::default(),
            poison: OnceLock::new(),
            queued: AtomicUsize::new(0),
            queue_bytes: options.queue_bytes,
            counts: Mutex::default(),
        });
        let (tasks, queue) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("metadata-writer".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || writer::run(&shared, &queue)
            })
            .map_err(|error| OpenError::Io { path: path.to_owned(), error })?;
        Ok(EmbeddedStore { shared, tasks: Some(tasks), writer: Some(writer), epoch })
    }

    /// How many times this file has been opened; a copy that was opened elsewhere meanwhile differs.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Commits and transactions since it was opened.
    pub fn counts(&self) -> CommitCounts {
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, work: Work, bytes: usize, done: Done) {
        self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
        let task = Task { work, bytes, done };
        let refused = match &self.tasks {
            Some(tasks) => tasks.send(task).err().map(|unsent| unsent.0),
            None => Some(task),
        };
        if let Some(task) = refused {
            delivering(|| (task.done)(Err(MetadataError::Unknown("the writer of the store has ended".into()))));
        }
    }

    fn nodes(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>, MetadataError> {
        self.shared.healthy()?;
        let snapshot = self.shared.database.begin_read().map_err(tables::unknown)?;
        snapshot.open_table(tables::NODES).map_err(tables::unknown)
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        drop(self.tasks.take());
        // The last handle may be dropped by a completion: the writer cannot wait for itself, and ends on its own.
        if let Some(writer) = self.writer.take().filter(|writer| writer.thread().id() != thread::current().id()) {
            drop(writer.join());
        }
    }
}

impl Shared {
    fn healthy(&self) -> Result<(), MetadataError> {
        match self.poison.get() {
            None => Ok(()),
            Some(reason) => Err(MetadataError::Unknown(format!("an earlier commit failed: {reason}"))),
        }
    }
}

impl MetadataStore for EmbeddedStore {
    fn get(&self, path: &str) -> Result<Option<Versioned>, MetadataError> {
        key::check(path)?;
        let nodes = self.nodes()?;
        let found = nodes.get(key::key(path).as_slice()).map_err(tables::unknown)?;
        let record = found.map(|bytes| tables::decode(path, bytes.value())).transpose()?;
        Ok(record.map(|record| Versioned { value: record.value, version: record.version }))
    }

    fn children(&self, path: &str) -> Result<Vec<String>, MetadataError> {
        key::check_or_root(path)?;
        let nodes = self.nodes()?;
        let range = key::children(path);
        let mut names = Vec::new();
        for child in nodes.range::<&[u8]>(range.start.as_slice()..range.end.as_slice()).map_err(tables::unknown)? {
            let (key, _) = child.map_err(tables::unknown)?;
            names.push(key::name_of(tables::path_of(key.value())?).to_owned());
        }
        Ok(names)
    }

    fn exists(&self, path: &str) -> Result<bool, MetadataError> {
        key::check(path)?;
        Ok(self.nodes()?.get(key::key(path).as_slice()).map_err(tables::unknown)?.is_some())
    }

    fn submit(&self, transaction: Transaction, done: Done) {
        let queued = self.shared.queued.load(Ordering::Relaxed);
        if queued >= self.shared.queue_bytes {
            return delivering(|| done(Err(Rejected::Overloaded { queued }.into())));
        }
        let bytes = transaction.bytes();
        self.queue(Work::Transaction(transaction), bytes, done);
    }

    fn watch(&self, prefix: &str, on_change: OnChange) -> Result<Watch, MetadataError> {
        key::check_or_root(prefix)?;
        self.shared.healthy()?;
        Ok(self.shared.watchers.add(prefix, on_change))
    }

    fn open_session(&self, ttl: Duration, now: Instant) -> Result<Session, MetadataError> {
        self.shared.healthy()?;
        Ok(self.shared.sessions.open(ttl, now))
    }

    fn renew_session(&self, session: &Session, now: Instant) -> Result<(), MetadataError> {
        self.shared.healthy()?;
        Ok(self.shared.sessions.renew(session.id(), now)?)
    }

    fn close_session(&self, session: &Session) -> Result<(), MetadataError> {
        if on_store_thread() {
            return Err(Rejected::Reentrant.into());
        }
        if !self.shared.sessions.end(session.id()) {
            return Ok(());
        }
        let (tell, told) = mpsc::sync_channel(1);
        self.queue(Work::EndSession(session.id()), 0, Box::new(move |outcome| drop(tell.send(outcome))));
        let outcome = told.recv().unwrap_or_else(|_| Err(MetadataError::Unknown("the writer of the store has ended".into())));
        outcome.map(drop)
    }

    fn expire_sessions(&self, now: Instant) -> Vec<u64> {
        let ended = self.shared.sessions.expire(now);
        for session in &ended {
            self.queue(Work::EndSession(*session), 0, Box::new(|_| ()));
        }
        ended
    }
}
