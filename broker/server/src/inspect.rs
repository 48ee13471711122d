//! Numbers, copied from their owners.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use ledger::{EntryId, LedgerId, ReadRange};
use tokio::sync::oneshot;
use topic::stats::TopicStats;
use wire::TopicName;

use crate::handle::{Handle, TopicError};
use crate::health::problem;
use crate::letter::{Letter, Opener};
use crate::loader::LoadError;
use crate::metrics::{ServerStats, WorkerStats};
use crate::shared::Shared;
use crate::worker::Worker;

pub(crate) async fn topic_stats(shared: &Arc<Shared>, name: TopicName) -> Result<TopicStats, TopicError> {
    let (tell, told) = oneshot::channel();
    let wanted = name.clone();
    let caller = Opener::Caller(Box::new(move |outcome| {
        let stats = match outcome {
            Ok((worker, key)) => worker.topics.get_mut(key.slot, key.generation).map(|h| h.topic.stats()).ok_or(TopicError::Gone),
            Err(error) => Err(not_loaded(wanted, &error)),
        };
        drop(tell.send(stats));
    }));
    shared.post(shared.owner(&name), Letter::Open { name, opener: caller });
    told.await.map_err(|_| TopicError::Gone)?
}

/// Why a caller cannot have a topic.
pub(crate) fn not_loaded(name: TopicName, error: &LoadError) -> TopicError {
    match error {
        LoadError::NotFound(_) | LoadError::NoSuchPartition { .. } | LoadError::Deleted(_) | LoadError::Partitioned(_) => {
            TopicError::NotFound(name)
        }
        LoadError::NoSuchNamespace(_) => TopicError::NoSuchNamespace(name.namespace()),
        LoadError::Draining => TopicError::Gone,
        error => TopicError::Storage(error.to_string()),
    }
}

pub(crate) async fn server_stats(shared: &Arc<Shared>, topics: bool) -> Result<ServerStats, TopicError> {
    let mut answers = Vec::new();
    for mailbox in &shared.mailboxes {
        let (tell, told) = oneshot::channel();
        mailbox.post(Letter::Call(Box::new(move |worker| drop(tell.send(worker_stats(worker, topics))))));
        answers.push(told);
    }
    let mut stats = ServerStats {
        connections_refused: shared.counters.connections_refused.load(Ordering::Relaxed),
        storage_problem: problem(&shared.store.health()),
        log: shared.store.counters(),
        ..ServerStats::default()
    };
    for answer in answers {
        let (worker, topics) = answer.await.map_err(|_| TopicError::Gone)?;
        stats.workers.push(worker);
        stats.topics.extend(topics);
    }
    stats.topics.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(stats)
}

fn worker_stats(worker: &mut Worker, topics: bool) -> (WorkerStats, Vec<(TopicName, TopicStats)>) {
    let counters = worker.counters();
    let topics = match topics {
        true => worker.topics.iter_mut().map(|(_, _, hosted)| (hosted.topic.name().clone(), hosted.topic.stats())).collect(),
        false => Vec::new(),
    };
    (counters, topics)
}

/// Reads stored entries; see [`Handle::entries`].
pub(crate) async fn entries(
    shared: &Shared,
    ledger: i64,
    entries: RangeInclusive<i64>,
    max_bytes: usize,
) -> Result<Vec<(i64, Bytes)>, TopicError> {
    let (tell, told) = oneshot::channel();
    let (from, last) = entries.into_inner();
    let range = ReadRange {
        ledger: LedgerId(ledger),
        from: EntryId(from),
        last: EntryId(last),
        max_entries: usize::try_from(last.saturating_sub(from).saturating_add(1)).unwrap_or(0),
        max_bytes,
    };
    shared.store.read(range, Box::new(move |read| drop(tell.send(read))));
    let read = told.await.map_err(|_| TopicError::Gone)?.map_err(|error| TopicError::Storage(error.to_string()))?;
    Ok(read.into_iter().map(|entry| (entry.id.0, entry.bytes)).collect())
}

/// Every worker answers, the log takes appends, metadata can be read.
pub(crate) async fn check_health(shared: &Arc<Shared>) -> Result<(), String> {
    let stats = server_stats(shared, false).await.map_err(|e| e.to_string())?;
    if let Some(problem) = stats.storage_problem {
        return Err(problem);
    }
    let handle = Handle { shared: shared.clone() };
    let read = handle.control(|metadata| metadata.exists(metadata::paths::CLUSTERS)).await.map_err(|e| e.to_string())?;
    read.map(drop).map_err(|e| format!("metadata: {e}"))
}
