//! How long to wait before trying again.

use std::time::Duration;

/// Waits that double from 100 ms up to a limit, each shortened by up to a fifth so that clients do not come back in step.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    limit: Duration,
}

const FIRST: Duration = Duration::from_millis(100);

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { next: FIRST.min(limit), limit }
    }

    /// The next wait.
    pub(crate) fn pause(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.limit);
        wait.mul_f64(1.0 - 0.2 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_stay_there() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let waits: Vec<_> = (0..8).map(|_| backoff.pause()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2);
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(1)));
        assert!(waits[7] >= Duration::from_millis(800));
    }
}
