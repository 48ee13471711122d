//! The log without threads, on files that crash, tear, fill up and lie: for tests of what survives.

mod files;
mod fuzz;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub use self::files::{Crash, SimFiles};
pub use self::fuzz::fuzz_recovery;

use super::compaction::Submit;
use super::files::FileLayer;
use super::group::Op;
use super::writer::Writer;
use super::{LogOptions, OpenError, Shared, SharedLog, lock};

/// A log that works only when told to, on the caller's thread, so that a run depends on nothing but its seed.
pub struct SteppedLog {
    log: SharedLog,
    writer: Mutex<Writer>,
}

impl SteppedLog {
    /// Opens the log in `dir` of `files`.
    ///
    /// # Errors
    /// As [`SharedLog::open`].
    pub fn open(files: &SimFiles, dir: &Path, options: LogOptions) -> Result<SteppedLog, OpenError> {
        let layer: Arc<dyn FileLayer> = Arc::new(files.clone());
        let (shared, writer, report) = Shared::open(&layer, dir, options)?;
        Ok(SteppedLog { log: SharedLog { shared, threads: Mutex::default(), report }, writer: Mutex::new(writer) })
    }

    /// The store to call; outcomes come in [`turn`](Self::turn).
    #[must_use]
    pub fn log(&self) -> &SharedLog {
        &self.log
    }

    /// Does everything asked for so far: one turn of the writer, then the reads.
    pub fn turn(&self) {
        let mut ops = VecDeque::new();
        self.log.shared.queue.take_now(&mut ops);
        lock(&self.writer).turn(&mut ops);
        let mut reads = VecDeque::new();
        self.log.shared.reads.take_now(&mut reads);
        for job in reads {
            self.log.shared.do_read(job);
        }
    }

    /// One step of the compactor; true if there may be more to do.
    pub fn compact(&self) -> bool {
        let mut wakes = VecDeque::new();
        self.log.shared.compact.take_now(&mut wakes);
        self.log.shared.compact_once(&mut ByHand(&self.writer), false)
    }

    /// Closes in order, as a drained broker does.
    pub fn close(self) {
        let mut ops = VecDeque::from([Op::Close]);
        self.turn();
        lock(&self.writer).turn(&mut ops);
    }
}

struct ByHand<'a>(&'a Mutex<Writer>);

impl Submit for ByHand<'_> {
    fn submit(&mut self, op: Op) {
        lock(self.0).turn(&mut VecDeque::from([op]));
    }
}
