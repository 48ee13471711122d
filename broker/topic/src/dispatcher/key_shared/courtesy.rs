//! When the next entry is for a consumer that has just used up its permits and gives many at a time, the next ones are on their way: it is
//! cheaper to wait for them a moment than to put aside what it takes right after. The others have enough to do meanwhile.

use crate::Now;

/// The longest wait, in milliseconds.
const LONGEST_MS: u64 = 10;
/// After a wait that brought nothing there is no other one for so long: then others are not held up for long by one that has stopped.
const AFTER_FAILURE_MS: u64 = 500;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Courtesy {
    until: Option<u64>,
    not_before: u64,
}

impl Courtesy {
    /// Whether to wait, or go on to.
    pub(super) fn waits(&mut self, now: Now) -> bool {
        let now = now.monotonic_ms;
        match self.until {
            Some(until) if now < until => true,
            Some(_) => {
                self.failed(now);
                false
            }
            None if now < self.not_before => false,
            None => {
                self.until = Some(now + LONGEST_MS);
                true
            }
        }
    }

    /// The wait, if there was one, brought the permits.
    pub(super) fn ended(&mut self) {
        self.until = None;
    }

    /// When the wait ends in any case.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.until
    }

    /// Returns whether a wait has just ended without success.
    pub(super) fn tick(&mut self, now: Now) -> bool {
        let is_over = self.until.is_some_and(|until| until <= now.monotonic_ms);
        if is_over {
            self.failed(now.monotonic_ms);
        }
        is_over
    }

    fn failed(&mut self, now: u64) {
        self.until = None;
        self.not_before = now + AFTER_FAILURE_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64) -> Now {
        Now { monotonic_ms, wall_ms: 0 }
    }

    #[test]
    fn whoever_comes_back_in_time_is_waited_for_again_and_who_does_not_is_not() {
        let mut courtesy = Courtesy::default();
        for start in (0..1_000).step_by(LONGEST_MS as usize) {
            assert!(courtesy.waits(at(start)) && courtesy.waits(at(start + LONGEST_MS - 1)));
            courtesy.ended();
        }
        assert!(courtesy.waits(at(1_000)));
        assert!(!courtesy.tick(at(1_009)) && courtesy.deadline() == Some(1_010));
        assert!(courtesy.tick(at(1_010)));
        assert!(!courtesy.waits(at(1_010)) && !courtesy.waits(at(1_509)) && courtesy.deadline().is_none());
        assert!(courtesy.waits(at(1_510)) && !courtesy.waits(at(1_520)) && !courtesy.waits(at(1_521)));
    }
}
