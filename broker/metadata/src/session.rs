//! A session: ephemeral nodes live as long as it does. Its deadline is kept by the monotonic clock of whoever holds it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A handle on a session; clones are the same session.
///
/// The holder asks [`valid`](Session::valid) before it acts as owner of anything: past the deadline another may have taken over,
/// whether or not the store could say so.
#[derive(Clone, Debug)]
pub struct Session {
    id: u64,
    ttl: Duration,
    deadline: Arc<Mutex<Option<Instant>>>,
}

impl Session {
    /// For engines: a session that is valid until `now + ttl`.
    pub fn new(id: u64, ttl: Duration, now: Instant) -> Session {
        Session { id, ttl, deadline: Arc::new(Mutex::new(Some(now + ttl))) }
    }
    /// Unique for the life of the store, restarts included; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// How long a renewal lasts.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
    /// Whether the holder may still rely on its ephemeral nodes.
    pub fn valid(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| now < at)
    }
    /// When it ends unless renewed; none when it has ended.
    pub fn deadline(&self) -> Option<Instant> {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// For engines: moves the deadline to `now + ttl`; false when the session has ended or the deadline has passed, which is final.
    pub fn extend(&self, now: Instant) -> bool {
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = *deadline else { return false };
        if now >= at {
            return false;
        }
        *deadline = Some(at.max(now + self.ttl));
        true
    }
    /// For engines: ends it, if its deadline has passed at `now`; whether this call ended it.
    pub fn end_if_expired(&self, now: Instant) -> bool {
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let expired = deadline.is_some_and(|at| now >= at);
        if expired {
            *deadline = None;
        }
        expired
    }
    /// For engines: ends it now.
    pub fn end(&self) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
