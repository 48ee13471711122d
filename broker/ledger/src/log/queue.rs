//! What waits for a thread of the log: pushed without waiting, taken all at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue with one taker or several.
///
/// It has no limit of its own: an event loop must never wait here. Whoever pushes bounds what it has outstanding
/// (publish budgets, one read in flight per reader), with [`bytes`](Self::bytes) as the measure.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    bytes: usize,
    parked: usize,
    nudged: bool,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue {
            state: Mutex::new(State { items: VecDeque::new(), bytes: 0, parked: 0, nudged: false, closed: false }),
            wake: Condvar::new(),
        }
    }

    /// Adds an item that holds `bytes`; gives it back if the queue is closed.
    pub(crate) fn push(&self, item: T, bytes: usize) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        state.bytes += bytes;
        // Waking costs a system call; a taker that is busy looks again by itself.
        if state.parked > 0 {
            drop(state);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Waits for items or a nudge. False once the queue is closed and empty.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.items.is_empty() && !state.nudged {
            if state.closed {
                return false;
            }
            state = self.park(state);
        }
        state.nudged = false;
        true
    }

    /// Has [`wait`](Self::wait) return although there may be no items.
    pub(crate) fn nudge(&self) {
        let mut state = self.lock();
        state.nudged = true;
        if state.parked > 0 {
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Takes what there is, without waiting, into an empty `out` whose memory is used for the next ones.
    pub(crate) fn take_now(&self, out: &mut VecDeque<T>) {
        std::mem::swap(&mut self.lock().items, out);
    }

    /// Waits for the oldest item. None once the queue is closed and empty.
    pub(crate) fn take_one(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.park(state);
        }
    }

    /// Waits until something is pushed or the queue is closed, at most for `longest`. True if it is closed.
    pub(crate) fn rest(&self, longest: Duration) -> bool {
        let state = self.lock();
        if state.closed {
            return true;
        }
        let (state, _) = self.wake.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner);
        state.closed
    }

    /// `bytes` of items taken earlier are done with.
    pub(crate) fn done(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// Bytes pushed and not done with.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Items pushed and not taken.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes nothing more; what is in it is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn park<'a>(&'a self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        state.parked += 1;
        let mut state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.parked -= 1;
        state
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
