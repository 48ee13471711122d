//! Compactions at work: on threads of their own, since they read, compare and write for as long as a topic is large.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::{BlockBuilder, EntryId, LedgerId, LedgerStore, Position, Purpose, ReadRange, StoreError, StoredEntry};
use topic::{CompactionJob, CompactionStorage, Tag};

use crate::letter::{Letter, TopicEvent, TopicRef};
use crate::loader::wait;
use crate::shared::Shared;

/// Compactions at the same time. They live on the same disk.
const AT_ONCE: usize = 2;
/// What one read asks for at most.
const READ_ENTRIES: usize = 1_000;
const READ_BYTES: usize = 1 << 20;
/// A block is handed to the log when it is this large, and then waited for: a compaction never fills the log's queue.
const FULL_BLOCK: usize = 256 * 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Compactions that wait for a thread. A thread is there only while there is work.
#[derive(Default)]
pub(crate) struct Compactions {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    threads: usize,
}

impl Compactions {
    fn run(shared: &Arc<Shared>, job: Job) {
        let mut queue = shared.compactions.lock();
        queue.waiting.push_back(job);
        if queue.threads == AT_ONCE {
            return;
        }
        queue.threads += 1;
        let of = shared.clone();
        let spawned = std::thread::Builder::new().name("geminga-compact".to_owned()).spawn(move || of.compactions.work());
        if let Err(error) = spawned {
            // Dropped, the job says that it was given up.
            queue.threads -= 1;
            let job = queue.waiting.pop_back();
            drop(queue);
            tracing::warn!(%error, "no thread for a compaction");
            drop(job);
        }
    }

    fn work(&self) {
        loop {
            let mut queue = self.lock();
            let Some(job) = queue.waiting.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            job();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins a compaction; its outcome goes to the topic by letter.
pub(crate) fn begin(shared: &Arc<Shared>, topic: TopicRef, tag: Tag, job: Box<CompactionJob>) {
    let mut answer = Answer { shared: shared.clone(), topic, tag, outcome: Err("the broker could not begin it".to_owned()) };
    let work = move || {
        let mut storage = Storage::new(answer.shared.clone());
        answer.outcome = job.run(&mut storage);
    };
    Compactions::run(shared, Box::new(work));
}

/// Tells the topic what came of it, whatever comes in between.
struct Answer {
    shared: Arc<Shared>,
    topic: TopicRef,
    tag: Tag,
    outcome: Result<topic::CompactionDone, String>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Err(String::new()));
        let event = TopicEvent::Compacted { tag: self.tag, outcome };
        self.shared.post(self.topic.worker, Letter::ToTopic { topic: self.topic, event });
    }
}

/// The store, as a compaction uses it.
struct Storage {
    shared: Arc<Shared>,
    block: BlockBuilder,
}

impl Storage {
    fn new(shared: Arc<Shared>) -> Storage {
        Storage { shared, block: BlockBuilder::new() }
    }

    fn store(&self) -> &dyn LedgerStore {
        &*self.shared.store
    }

    /// A broker that stops does not wait for compactions: what was compacted before stays in force.
    fn goes_on(&self) -> Result<(), StoreError> {
        match self.shared.draining.load(Ordering::Acquire) {
            true => Err(StoreError::Closed("the broker is shutting down".to_owned())),
            false => Ok(()),
        }
    }

    fn hand_over(&mut self) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = self.block.finish();
        let bytes = block.bytes.len();
        let room = &self.shared.log_room;
        room.take(bytes);
        let outcome = wait(|done| self.shared.store.append(block, done));
        for waiting in room.give(bytes) {
            self.shared.post(waiting, Letter::LogHasRoom);
        }
        outcome
    }
}

impl CompactionStorage for Storage {
    fn read(&mut self, ledger: LedgerId, from: EntryId, last: EntryId) -> Result<Vec<StoredEntry>, StoreError> {
        self.goes_on()?;
        let range = ReadRange { ledger, from, last, max_entries: READ_ENTRIES, max_bytes: READ_BYTES };
        wait(|done| self.store().read(range, done))
    }

    fn create(&mut self) -> Result<LedgerId, StoreError> {
        wait(|done| self.store().create(Purpose::Data, done))
    }

    fn append(&mut self, at: Position, bytes: &[u8]) -> Result<(), StoreError> {
        let limit = self.store().capabilities().max_entry_bytes;
        if bytes.len() > limit {
            return Err(StoreError::Io(format!("an entry of {} bytes is over the store's limit of {limit}", bytes.len())));
        }
        self.block.push(at, at.entry.0 - 1, bytes);
        if self.block.len() < FULL_BLOCK { Ok(()) } else { self.hand_over() }
    }

    fn finish(&mut self, ledger: LedgerId) -> Result<(), StoreError> {
        self.goes_on()?;
        self.hand_over()?;
        wait(|done| self.store().seal(ledger, done)).map(drop)
    }

    fn discard(&mut self, ledger: LedgerId) {
        self.store().delete(vec![ledger], Box::new(|_| ()));
    }
}
