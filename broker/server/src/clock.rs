//! A worker's clocks, read once a turn.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use topic::Now;

/// Milliseconds since the worker started, and since the epoch.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let monotonic_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { monotonic_ms, wall_ms: wall_ms() }
    }

    /// When a deadline on this clock is, for the runtime's timer.
    pub(crate) fn instant(&self, monotonic_ms: u64) -> Instant {
        self.start + std::time::Duration::from_millis(monotonic_ms)
    }
}

/// Milliseconds since the epoch; 0 before it.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
