//! Work that takes longer than a caller should have to wait: it goes on by itself, says how far it is, and can be called off.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use super::clock::now_ms;
use super::page::{Cell, Listing, columns};
use crate::Site;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;
use crate::rfc3339;

/// Operations that are remembered; those that ended go first.
const MOST: usize = 256;
/// The longest that a caller is kept waiting for one.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// What an operation tells of itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation {
    id: String,
    kind: &'static str,
    state: &'static str,
    progress: Progress,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip)]
    number: u64,
}

columns!(Operation, id, {
    "id" => |row| Cell::Text(&row.id),
    "kind" => |row| Cell::Text(row.kind),
    "state" => |row| Cell::Text(row.state),
    "startedAt" => |row| Cell::Text(&row.started_at),
});

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

const RUNNING: &str = "running";

/// All that are remembered.
#[derive(Default)]
pub(crate) struct Operations {
    next: AtomicU64,
    known: Mutex<VecDeque<Arc<Job>>>,
}

struct Job {
    told: watch::Sender<Operation>,
    cancelled: watch::Sender<bool>,
}

/// The hands of whoever carries it out.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Job>);

impl Reporter {
    pub(crate) fn progress(&self, done: usize, total: usize) {
        self.0.told.send_modify(|operation| operation.progress = Progress { done: done as u64, total: total as u64 });
    }

    /// Tells whoever listens how it is.
    fn tell(&self, site: &Site) {
        let operation = self.0.told.borrow().clone();
        if let Ok(event) = serde_json::to_value(&operation) {
            site.own.events.tell("ops", &event);
        }
    }

    fn end(&self, state: &'static str, result: Option<Value>, error: Option<String>) {
        self.0.told.send_modify(|operation| {
            operation.state = state;
            operation.result = result;
            operation.error = error;
            operation.ended_at = Some(rfc3339::from_ms(now_ms()));
        });
    }
}

impl Call {
    /// Begins an operation on this loop, and answers 202 with where it is; 200 with what came of it if it ends while the caller waits
    /// (`Prefer: wait=N`).
    ///
    /// # Errors
    /// 503 when as many are under way as may be.
    pub(crate) async fn operate<F>(&self, kind: &'static str, work: impl FnOnce(Reporter) -> F) -> Result<Reply, Refusal>
    where
        F: Future<Output = Result<Value, Refusal>> + 'static,
    {
        let job = self.site.own.operations.begin(kind)?;
        let reporter = Reporter(job.clone());
        let working = work(reporter.clone());
        let mut cancelled = job.cancelled.subscribe();
        let site = self.site.clone();
        tokio::task::spawn_local(async move {
            reporter.tell(&site);
            tokio::select! {
                outcome = working => match outcome {
                    Ok(result) => reporter.end("succeeded", Some(result), None),
                    Err(refusal) => reporter.end("failed", None, Some(refusal.reason)),
                },
                _ = cancelled.wait_for(|cancelled| *cancelled) => reporter.end("cancelled", None, None),
            }
            reporter.tell(&site);
        });
        let mut told = job.told.subscribe();
        if let Some(patience) = self.patience() {
            // A caller whose patience ends is answered like one that had none.
            let _ = timeout(patience, told.wait_for(|operation| operation.state != RUNNING)).await;
        }
        let operation = told.borrow().clone();
        let place = format!("/geminga/v1/operations/{}", operation.id);
        let reply = if operation.state == RUNNING { Reply::accepted(&operation)? } else { Reply::json(&operation)? };
        Ok(reply.at(&place))
    }

    /// How long the caller would like to wait.
    fn patience(&self) -> Option<Duration> {
        let prefer = self.headers.get("prefer")?.to_str().ok()?;
        let seconds = prefer.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait="))?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds).min(MOST_PATIENCE))
    }
}

impl Operations {
    fn begin(&self, kind: &'static str) -> Result<Arc<Job>, Refusal> {
        let mut known = self.lock();
        if known.len() >= MOST {
            match known.iter().position(|job| job.told.borrow().state != RUNNING) {
                Some(ended) => drop(known.remove(ended)),
                None => return Err(Refusal::busy(format!("{MOST} operations are under way, the most there may be"))),
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let operation = Operation {
            id: format!("{:x}-{number}", now_ms()),
            kind,
            state: RUNNING,
            progress: Progress::default(),
            result: None,
            error: None,
            started_at: rfc3339::from_ms(now_ms()),
            ended_at: None,
            number,
        };
        let job = Arc::new(Job { told: watch::Sender::new(operation), cancelled: watch::Sender::new(false) });
        known.push_back(job.clone());
        Ok(job)
    }

    /// All of them, the newest first.
    pub(crate) fn all(&self) -> Vec<Operation> {
        let mut all: Vec<_> = self.lock().iter().map(|job| job.told.borrow().clone()).collect();
        all.sort_by_key(|operation| std::cmp::Reverse(operation.number));
        all
    }

    fn find(&self, id: &str) -> Result<Arc<Job>, Refusal> {
        let found = self.lock().iter().find(|job| job.told.borrow().id == id).cloned();
        found.ok_or_else(|| Refusal::not_found(format!("There is no operation {id}, or it was forgotten")))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// GET: the operations that are remembered.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&Listing::read(&call.query)?.of(&call.site.own.operations.all())?)
}

/// GET: how far one is.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let job = call.site.own.operations.find(call.param("id"))?;
    let operation = job.told.borrow().clone();
    Reply::json(&operation)
}

/// DELETE: calls one off; what it has done stays done.
pub(crate) async fn cancel(call: Call) -> Result<Reply, Refusal> {
    let job = call.site.own.operations.find(call.param("id"))?;
    if job.told.borrow().state != RUNNING {
        return Err(Refusal::conflict("The operation has ended"));
    }
    job.cancelled.send_replace(true);
    let mut told = job.told.subscribe();
    let _ = timeout(MOST_PATIENCE, told.wait_for(|operation| operation.state != RUNNING)).await;
    let operation = told.borrow().clone();
    Reply::json(&operation)
}
