//! A worker's deadlines, in order: one for each of its topics at most.

use std::collections::BTreeSet;

/// Deadlines on the worker's monotonic clock, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(u64, u32, u32)>,
}

impl Timers {
    /// Sets a topic's deadline; `before` is the one it had, which no longer counts.
    pub(crate) fn arm(&mut self, before: Option<u64>, at: u64, slot: u32, generation: u32) {
        self.disarm(before, slot, generation);
        self.set.insert((at, slot, generation));
    }

    /// Takes a topic's deadline away.
    pub(crate) fn disarm(&mut self, at: Option<u64>, slot: u32, generation: u32) {
        if let Some(at) = at {
            self.set.remove(&(at, slot, generation));
        }
    }

    /// The next topic that is due, if any.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, u32, u32)> {
        let first = *self.set.first()?;
        if first.0 > now {
            return None;
        }
        self.set.pop_first()
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.set.first().map(|(at, _, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_armed_again_and_again_has_one_deadline() {
        let mut timers = Timers::default();
        for round in 0..1000 {
            timers.arm(None, 120_000, 1, 1);
            timers.arm(Some(120_000), 10 + round, 1, 1);
            assert_eq!(timers.due(10 + round), Some((10 + round, 1, 1)));
        }
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn deadlines_come_up_in_order_and_not_before_their_time() {
        let mut timers = Timers::default();
        timers.arm(None, 20, 1, 1);
        timers.arm(None, 10, 2, 1);
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.due(30), Some((10, 2, 1)));
        assert_eq!(timers.due(30), Some((20, 1, 1)));
        assert_eq!(timers.due(30), None);
    }
}
