//! How a busy loop lets its turns grow: it rests a moment before the next one, so that more is read, written and synced at once.
//!
//! A message alone costs a wake-up, a system call for each of its ends and its share of a sync; a handful of them costs hardly more. While
//! a loop rests nobody has to wake it, and what becomes readable is found by one question to the kernel.

use std::time::{Duration, Instant};

use crate::bustle::Bustle;

/// A rest is worth it if so many letters are expected to come meanwhile, to all loops together. A few clients that wait for each answer
/// send fewer, and would only wait longer.
const WORTH: f32 = 16.0;
/// A loop that expects so many itself rests at once; any other one first waits for something to do.
const STEADY: f32 = 1.0;
/// Shorter rests are not taken: the kernel's timers are not finer.
const LEAST: Duration = Duration::from_micros(50);
/// Over how long the rate is averaged, in microseconds.
const MEMORY_US: f32 = 2000.0;

/// One loop's rhythm.
#[derive(Debug)]
pub(crate) struct Gather {
    /// From the beginning of a turn to that of the next, at least, while the loop is busy.
    interval: Duration,
    began: Instant,
    /// Letters per microsecond, here and everywhere.
    rate: f32,
    all: f32,
    letters: u32,
}

impl Gather {
    pub(crate) fn new(interval: Duration, now: Instant) -> Gather {
        Gather { interval, began: now, rate: 0.0, all: 0.0, letters: 0 }
    }

    /// From the next rest on.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// A letter came.
    pub(crate) fn count(&mut self) {
        self.letters += 1;
    }

    /// A turn of this loop begins.
    pub(crate) fn begin(&mut self, now: Instant, bustle: &Bustle, index: u16) {
        let passed = (now - self.began).as_secs_f32() * 1e6;
        let weight = (passed / MEMORY_US).min(1.0);
        let rate = std::mem::take(&mut self.letters) as f32 / passed.max(1.0);
        self.rate += (rate - self.rate) * weight;
        self.all = bustle.tell(index, self.rate, now);
        self.began = now;
    }

    /// Whether letters come so fast that they can be waited for.
    pub(crate) fn is_busy(&self) -> bool {
        self.all * self.interval.as_secs_f32() * 1e6 >= WORTH
    }

    /// Whether there will be something to do after a rest.
    pub(crate) fn is_steady(&self) -> bool {
        self.is_busy() && self.rate * self.interval.as_secs_f32() * 1e6 >= STEADY
    }

    /// How long to rest before the next turn.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        let left = self.interval.checked_sub(now - self.began)?;
        (self.is_busy() && left >= LEAST).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_micros(400);

    fn after(turns: u32, every: Duration, letters: u32) -> (Gather, Instant) {
        let mut now = Instant::now();
        let mut gather = Gather::new(INTERVAL, now);
        let bustle = Bustle::new(1, now);
        for _ in 0..turns {
            (0..letters).for_each(|_| gather.count());
            now += every;
            gather.begin(now, &bustle, 0);
        }
        (gather, now)
    }

    #[test]
    fn a_loop_with_little_to_do_does_not_rest() {
        let (gather, now) = after(100, Duration::from_micros(150), 5);
        assert_eq!(gather.rest(now), None);
    }

    #[test]
    fn a_busy_loop_rests_until_its_interval_is_over() {
        let (gather, now) = after(100, Duration::from_micros(100), 10);
        assert_eq!(gather.rest(now), Some(INTERVAL));
        assert_eq!(gather.rest(now + INTERVAL / 2), Some(INTERVAL / 2));
        assert_eq!(gather.rest(now + INTERVAL), None);
    }

    #[test]
    fn a_loop_that_was_busy_forgets_it_after_a_pause() {
        let (mut gather, now) = after(100, Duration::from_micros(100), 30);
        gather.count();
        gather.begin(now + Duration::from_millis(5), &Bustle::new(1, now), 0);
        assert_eq!(gather.rest(now + Duration::from_millis(5)), None);
    }

    #[test]
    fn among_busy_loops_one_with_little_to_do_rests_too_but_not_before_it_has_something_to_do() {
        let now = Instant::now();
        let (bustle, mut gather) = (Bustle::new(2, now), Gather::new(INTERVAL, now));
        bustle.tell(1, 0.5, now);
        gather.begin(now + INTERVAL, &bustle, 0);
        assert!(gather.is_busy() && !gather.is_steady());
        (0..8).for_each(|_| gather.count());
        gather.begin(now + 2 * INTERVAL, &bustle, 0);
        assert!(gather.is_steady());
    }
}
