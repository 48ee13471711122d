//! The writer thread: many transactions, one commit, one sync, then the answers in order.

use std::sync::atomic::Ordering;
use std::sync::{PoisonError, mpsc};

use redb::Durability;

use super::Shared;
use super::tables::{self, Executed, Tables};
use crate::delivery::delivering;
use crate::{Done, MetadataError, Transaction};

/// Something to be done, and whom to tell.
pub(super) struct Task {
    pub(super) work: Work,
    /// What it counts for in the queue.
    pub(super) bytes: usize,
    pub(super) done: Done,
}

pub(super) enum Work {
    Transaction(Transaction),
    EndSession(u64),
}

/// Runs until every sender is gone and the queue is empty.
pub(super) fn run(shared: &Shared, queue: &mpsc::Receiver<Task>) {
    while let Ok(first) = queue.recv() {
        let (work, done) = gather(shared, first, queue);
        let answers = match shared.healthy() {
            Ok(()) => commit(shared, work),
            Err(poisoned) => Err(poisoned),
        };
        match answers {
            Ok(answers) => tell(shared, answers, done),
            Err(failed) => fail(shared, &failed, done),
        }
    }
}

// The sync under way is the time in which the next group gathers; nothing waits for company.
fn gather(shared: &Shared, first: Task, queue: &mpsc::Receiver<Task>) -> (Vec<Work>, Vec<Done>) {
    let (mut work, mut done, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut next = Some(first);
    while let Some(task) = next {
        bytes += task.bytes;
        work.push(task.work);
        done.push(task.done);
        next = if work.len() < GROUP_TRANSACTIONS && bytes < GROUP_BYTES { queue.try_recv().ok() } else { None };
    }
    shared.queued.fetch_sub(bytes, Ordering::Relaxed);
    (work, done)
}

// Refusals wait for the commit too: they may rest on something written just before in the same commit.
fn commit(shared: &Shared, group: Vec<Work>) -> Result<Vec<Executed>, MetadataError> {
    let mut transaction = shared.database.begin_write().map_err(tables::unknown)?;
    transaction.set_durability(Durability::Immediate).map_err(tables::unknown)?;
    let mut executed = Vec::with_capacity(group.len());
    {
        let mut tables = Tables::open(&transaction).map_err(tables::unknown)?;
        for work in group {
            executed.push(match work {
                Work::Transaction(transaction) => tables.execute(&shared.sessions, transaction)?,
                Work::EndSession(session) => tables.end_session(session)?,
            });
        }
    }
    if executed.iter().any(|one| one.writes) {
        transaction.commit().map_err(tables::unknown)?;
        count(shared, &executed);
    } else {
        transaction.abort().map_err(tables::unknown)?;
    }
    Ok(executed)
}

fn count(shared: &Shared, executed: &[Executed]) {
    let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.commits += 1;
    counts.transactions += executed.iter().map(|one| u64::from(one.outcome.is_ok())).sum::<u64>();
}

fn tell(shared: &Shared, executed: Vec<Executed>, done: Vec<Done>) {
    delivering(|| {
        for (one, done) in executed.into_iter().zip(done) {
            one.changed.iter().for_each(|path| shared.watchers.changed(path));
            done(one.outcome.map_err(MetadataError::from));
        }
    });
}

fn fail(shared: &Shared, failed: &MetadataError, done: Vec<Done>) {
    let reason = match failed {
        MetadataError::Unknown(reason) => reason.clone(),
        MetadataError::Rejected(rejected) => rejected.to_string(),
    };
    let first = shared.poison.set(reason).is_ok();
    delivering(|| {
        if first {
            shared.watchers.resync();
        }
        done.into_iter().for_each(|done| done(Err(failed.clone())));
    });
}

/// Transactions in one commit at most.
const GROUP_TRANSACTIONS: usize = 4096;
/// Their bytes, after which no more are taken.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
