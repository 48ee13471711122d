//! How a log that is written to all the time lets its groups grow: it begins no group sooner than an interval after the one before.
//!
//! A sync costs the same for one block as for many. When blocks come fast, from many sources, the next ones are there within the interval;
//! a single source that waits for each receipt is never made to wait.

use std::time::{Duration, Instant};

/// A wait is worth it if so many blocks are expected to come meanwhile.
const WORTH: f32 = 3.0;
/// Shorter waits are not taken: the kernel's timers are not finer.
const LEAST: Duration = Duration::from_micros(50);
/// Over how long the rate is averaged, in microseconds.
const MEMORY_US: f32 = 2000.0;

/// The rhythm of one log's groups.
#[derive(Debug)]
pub(crate) struct Rhythm {
    interval: Duration,
    began: Instant,
    /// Blocks per microsecond.
    rate: f32,
    blocks: u32,
}

impl Rhythm {
    pub(crate) fn new(interval: Duration, now: Instant) -> Rhythm {
        Rhythm { interval, began: now, rate: 0.0, blocks: 0 }
    }

    /// A group of so many blocks begins.
    pub(crate) fn begin(&mut self, now: Instant, blocks: usize) {
        let passed = (now - self.began).as_secs_f32() * 1e6;
        let rate = std::mem::replace(&mut self.blocks, u32::try_from(blocks).unwrap_or(u32::MAX)) as f32 / passed.max(1.0);
        self.rate += (rate - self.rate) * (passed / MEMORY_US).min(1.0);
        self.began = now;
    }

    /// The group that began grows by so many blocks.
    pub(crate) fn go_on(&mut self, blocks: usize) {
        self.blocks = self.blocks.saturating_add(u32::try_from(blocks).unwrap_or(u32::MAX));
    }

    /// How long to wait before the next group.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let left = self.interval.checked_sub(now - self.began)?;
        (self.rate * self.interval.as_secs_f32() * 1e6 >= WORTH && left >= LEAST).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_micros(400);

    fn after(groups: u32, every: Duration) -> (Rhythm, Instant) {
        let mut now = Instant::now();
        let mut rhythm = Rhythm::new(INTERVAL, now);
        for _ in 0..groups {
            now += every;
            rhythm.begin(now, 1);
        }
        (rhythm, now)
    }

    #[test]
    fn one_source_that_waits_for_each_sync_is_not_made_to_wait_longer() {
        let (rhythm, now) = after(1000, Duration::from_micros(150));
        assert_eq!(rhythm.wait(now), None);
    }

    #[test]
    fn many_sources_are_gathered_until_the_interval_is_over() {
        let (rhythm, now) = after(1000, Duration::from_micros(60));
        assert_eq!(rhythm.wait(now), Some(INTERVAL));
        assert_eq!(rhythm.wait(now + INTERVAL / 2), Some(INTERVAL / 2));
        assert_eq!(rhythm.wait(now + INTERVAL), None);
    }
}
