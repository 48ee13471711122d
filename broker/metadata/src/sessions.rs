//! The sessions of one store that are open.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Rejected, Session};

#[derive(Debug)]
pub(crate) struct Sessions {
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    next: u64,
    sessions: HashMap<u64, Session>,
}

impl Sessions {
    /// `epoch` must differ each time the store is opened, so that no id is given twice.
    pub(crate) fn new(epoch: u64) -> Sessions {
        Sessions { open: Mutex::new(Open { next: (epoch << 32) | 1, sessions: HashMap::new() }) }
    }

    pub(crate) fn open(&self, ttl: Duration, now: Instant) -> Session {
        let mut open = self.lock();
        let session = Session::new(open.next, ttl, now);
        open.next += 1;
        open.sessions.insert(session.id(), session.clone());
        session
    }

    pub(crate) fn is_open(&self, id: u64) -> bool {
        self.lock().sessions.contains_key(&id)
    }

    pub(crate) fn renew(&self, id: u64, now: Instant) -> Result<(), Rejected> {
        let extended = self.lock().sessions.get(&id).is_some_and(|session| session.extend(now));
        if extended { Ok(()) } else { Err(Rejected::SessionEnded { session: id }) }
    }

    /// Whether it was open.
    pub(crate) fn end(&self, id: u64) -> bool {
        let ended = self.lock().sessions.remove(&id);
        ended.iter().for_each(Session::end);
        ended.is_some()
    }

    /// Ends those whose deadline has passed.
    pub(crate) fn expire(&self, now: Instant) -> Vec<u64> {
        let mut open = self.lock();
        let mut ended: Vec<u64> = open.sessions.values().filter(|session| session.end_if_expired(now)).map(Session::id).collect();
        ended.sort_unstable();
        for id in &ended {
            open.sessions.remove(id);
        }
        ended
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
