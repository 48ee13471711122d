//! How much all loops together have to do. Whether a loop rests must not depend on how many others there are to share the work: a client
//! notices the same whichever loop it is on, and many loops with little to do each are as costly as one that is never allowed to rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a loop said longer ago does not count: it may be asleep.
const FRESH: Duration = Duration::from_millis(10);

/// Each loop's letters per microsecond, as it said last.
#[derive(Debug)]
pub(crate) struct Bustle {
    start: Instant,
    /// When, in milliseconds, and the rate's bits.
    told: Vec<AtomicU64>,
}

impl Bustle {
    pub(crate) fn new(loops: usize, now: Instant) -> Bustle {
        Bustle { start: now, told: (0..loops).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A loop says how much it has to do; returns how much all have.
    pub(crate) fn tell(&self, index: u16, rate: f32, now: Instant) -> f32 {
        // In 49 days the milliseconds begin anew: then one turn may be thought less busy than it is.
        let ms = (now - self.start).as_millis() as u32;
        if let Some(own) = self.told.get(usize::from(index)) {
            own.store((u64::from(ms) << 32) | u64::from(rate.to_bits()), Ordering::Relaxed);
        }
        self.told.iter().map(|told| fresh(told.load(Ordering::Relaxed), ms)).sum()
    }
}

fn fresh(told: u64, now_ms: u32) -> f32 {
    let (ms, rate) = ((told >> 32) as u32, f32::from_bits(told as u32));
    if u128::from(now_ms.saturating_sub(ms)) <= FRESH.as_millis() { rate } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_until_a_loop_has_said_nothing_for_a_while() {
        let now = Instant::now();
        let bustle = Bustle::new(3, now);
        assert_eq!(bustle.tell(0, 0.25, now), 0.25);
        assert_eq!(bustle.tell(1, 0.5, now + FRESH), 0.75);
        assert_eq!(bustle.tell(0, 0.125, now + FRESH), 0.625);
        assert_eq!(bustle.tell(2, 1.0, now + FRESH * 3), 1.0);
    }
}
