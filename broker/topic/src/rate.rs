//! Rates that are kept: so many messages and bytes in a time, in whole numbers and without drift.
//!
//! A bucket fills evenly while time passes, up to what one period brings, and whoever finds a whole token in it may take more than there
//! is: nobody knows beforehand how much a batch holds. What was taken too much is paid back before the next one gets anything, so over a
//! long time exactly the rate goes through.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Now;

/// A limit on messages and bytes; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Messages per period.
    pub messages: u64,
    /// Bytes per period.
    pub bytes: u64,
    /// The period, in milliseconds. What it brings may go through at once after a pause.
    pub period_ms: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { messages: 0, bytes: 0, period_ms: 1_000 }
    }
}

impl Rate {
    /// So much per second.
    #[must_use]
    pub fn per_second(messages: u64, bytes: u64) -> Rate {
        Rate { messages, bytes, ..Rate::default() }
    }

    /// Whether anything is limited.
    #[must_use]
    pub fn is_limited(self) -> bool {
        self.messages > 0 || self.bytes > 0
    }
}

/// How much may be taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Allowance {
    /// Where nothing is limited.
    pub(crate) const ANY: Allowance = Allowance { messages: u64::MAX, bytes: u64::MAX };

    pub(crate) fn is_none(self) -> bool {
        self.messages == 0 || self.bytes == 0
    }

    /// What both allow.
    pub(crate) fn and(self, other: Allowance) -> Allowance {
        Allowance { messages: self.messages.min(other.messages), bytes: self.bytes.min(other.bytes) }
    }
}

/// What a period brings, and how much a bucket holds. Levels are counted in parts of a token, as many to one as a period has
/// milliseconds: then a millisecond brings a whole number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    per_period: i64,
    parts: i64,
}

impl Flow {
    /// None for no limit. Rates and periods beyond these would only overflow.
    fn new(per_period: u64, period_ms: u64) -> Option<Flow> {
        let flow = Flow {
            per_period: i64::try_from(per_period.min(MOST_PER_PERIOD)).unwrap_or(i64::MAX),
            parts: i64::try_from(period_ms.clamp(1, LONGEST_PERIOD_MS)).unwrap_or(i64::MAX),
        };
        (per_period > 0).then_some(flow)
    }

    fn most(self) -> i64 {
        self.per_period.saturating_mul(self.parts)
    }

    fn gain(self, passed_ms: u64) -> i64 {
        i64::try_from(passed_ms).unwrap_or(i64::MAX).saturating_mul(self.per_period)
    }

    fn tokens(self, level: i64) -> u64 {
        u64::try_from(level / self.parts).unwrap_or(0)
    }

    fn cost(self, tokens: u64) -> i64 {
        i64::try_from(tokens).unwrap_or(i64::MAX).saturating_mul(self.parts)
    }

    /// How long it takes until there is a token.
    fn wait_ms(self, level: i64) -> u64 {
        let missing = self.parts.saturating_sub(level).max(0).unsigned_abs();
        missing.div_ceil(self.per_period.unsigned_abs())
    }
}

const MOST_PER_PERIOD: u64 = 1 << 40;
const LONGEST_PERIOD_MS: u64 = 1 << 22;

/// One bucket of one owner.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    flow: Flow,
    level: i64,
    filled_ms: u64,
}

impl Bucket {
    fn full(flow: Flow, now: Now) -> Bucket {
        Bucket { flow, level: flow.most(), filled_ms: now.monotonic_ms }
    }

    fn tokens(&mut self, now: Now) -> u64 {
        let passed = now.monotonic_ms.saturating_sub(self.filled_ms);
        if passed > 0 {
            self.filled_ms = now.monotonic_ms;
            self.level = self.level.saturating_add(self.flow.gain(passed)).min(self.flow.most());
        }
        self.flow.tokens(self.level)
    }

    fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(self.flow.cost(tokens));
    }

    fn opens_at(&self) -> u64 {
        self.filled_ms.saturating_add(self.flow.wait_ms(self.level))
    }
}

/// A rate that one owner keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    rate: Rate,
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Limiter {
    /// One whose buckets are full; none for a rate without limits.
    pub(crate) fn new(rate: Rate, now: Now) -> Option<Limiter> {
        let bucket = |per_period| Flow::new(per_period, rate.period_ms).map(|flow| Bucket::full(flow, now));
        rate.is_limited().then(|| Limiter { rate, messages: bucket(rate.messages), bytes: bucket(rate.bytes) })
    }

    /// The same for another rate. It begins with what is left under the old one, so that changing rates again and again gains nothing.
    pub(crate) fn changed(before: Option<Limiter>, rate: Rate, now: Now) -> Option<Limiter> {
        let mut after = Limiter::new(rate, now)?;
        let Some(mut before) = before else { return Some(after) };
        if before.rate == rate {
            return Some(before);
        }
        before.allowance(now);
        let carry = |before: Option<Bucket>, after: &mut Option<Bucket>| {
            if let (Some(before), Some(after)) = (before, after.as_mut()) {
                let tokens = before.level.div_euclid(before.flow.parts);
                after.level = after.level.min(tokens.saturating_mul(after.flow.parts));
            }
        };
        carry(before.messages, &mut after.messages);
        carry(before.bytes, &mut after.bytes);
        Some(after)
    }

    /// What may be taken now.
    pub(crate) fn allowance(&mut self, now: Now) -> Allowance {
        let tokens = |bucket: &mut Option<Bucket>| bucket.as_mut().map_or(u64::MAX, |bucket| bucket.tokens(now));
        Allowance { messages: tokens(&mut self.messages), bytes: tokens(&mut self.bytes) }
    }

    pub(crate) fn is_open(&mut self, now: Now) -> bool {
        !self.allowance(now).is_none()
    }

    /// Whether both are as full as they get: nothing was taken of late.
    pub(crate) fn is_full(&mut self, now: Now) -> bool {
        self.allowance(now);
        [self.messages, self.bytes].into_iter().flatten().all(|bucket| bucket.level == bucket.flow.most())
    }

    /// Takes what went through, which may be more than there is.
    pub(crate) fn take(&mut self, messages: u64, bytes: u64) {
        for (bucket, tokens) in [(&mut self.messages, messages), (&mut self.bytes, bytes)] {
            if let Some(bucket) = bucket {
                bucket.take(tokens);
            }
        }
    }

    /// When something may be taken again, as of the last look.
    pub(crate) fn opens_at(&self) -> u64 {
        [self.messages, self.bytes].into_iter().flatten().map(|bucket| bucket.opens_at()).max().unwrap_or(0)
    }
}

/// A rate that all topics of a broker keep together. Each takes from it once per batch.
#[derive(Debug)]
pub struct SharedLimiter {
    messages: Option<SharedBucket>,
    bytes: Option<SharedBucket>,
    /// How many wait for it.
    waiting: AtomicU64,
    /// How many topics have it, and had.
    enrolled: AtomicU64,
}

/// Those that wait for a shared rate ask again within so many milliseconds for each other that waits, and at most.
const SPREAD_MS: u64 = 4;
const LONGEST_SPREAD_MS: u64 = 1_000;

/// Numbers that are as good as drawn.
#[derive(Debug, Default)]
pub(crate) struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// One of those who wait for a shared rate.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<SharedLimiter>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct SharedBucket {
    flow: Flow,
    level: AtomicI64,
    filled_ms: AtomicU64,
}

impl SharedLimiter {
    /// None for a rate without limits.
    #[must_use]
    pub fn new(rate: Rate) -> Option<SharedLimiter> {
        let bucket = |per_period| {
            let flow = Flow::new(per_period, rate.period_ms)?;
            Some(SharedBucket { flow, level: AtomicI64::new(flow.most()), filled_ms: AtomicU64::new(0) })
        };
        let (messages, bytes) = (bucket(rate.messages), bucket(rate.bytes));
        rate.is_limited().then(|| SharedLimiter { messages, bytes, waiting: AtomicU64::new(0), enrolled: AtomicU64::new(0) })
    }

    pub(crate) fn allowance(&self, now: Now) -> Allowance {
        let tokens = |bucket: &Option<SharedBucket>| bucket.as_ref().map_or(u64::MAX, |bucket| bucket.tokens(now));
        Allowance { messages: tokens(&self.messages), bytes: tokens(&self.bytes) }
    }

    pub(crate) fn take(&self, messages: u64, bytes: u64) {
        for (bucket, tokens) in [(&self.messages, messages), (&self.bytes, bytes)] {
            if let Some(bucket) = bucket {
                bucket.level.fetch_sub(bucket.flow.cost(tokens), Ordering::Relaxed);
            }
        }
    }

    /// The chances of one topic that has it.
    pub(crate) fn enrol(&self) -> Chance {
        Chance(self.enrolled.fetch_add(1, Ordering::Relaxed))
    }

    /// When one who waits asks again: at a time of its own, or the first would always be the first.
    pub(crate) fn turn_at(self: &Arc<SharedLimiter>, waiting: &mut Option<Waiting>, chance: &mut Chance, now: Now) -> u64 {
        waiting.get_or_insert_with(|| {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            Waiting(self.clone())
        });
        let others = self.waiting.load(Ordering::Relaxed).saturating_sub(1);
        self.opens_at(now) + chance.next() % (others * SPREAD_MS).clamp(1, LONGEST_SPREAD_MS)
    }

    /// When something may be taken again, if nobody else takes it.
    fn opens_at(&self, now: Now) -> u64 {
        let buckets = [&self.messages, &self.bytes].into_iter().flatten();
        let wait = buckets.map(|bucket| bucket.flow.wait_ms(bucket.level.load(Ordering::Relaxed))).max().unwrap_or(0);
        now.monotonic_ms.saturating_add(wait)
    }
}

impl SharedBucket {
    // Clocks of workers differ by when they were started, which does no harm: each millisecond is counted by the one who moves the mark.
    fn tokens(&self, now: Now) -> u64 {
        let filled = self.filled_ms.load(Ordering::Relaxed);
        if now.monotonic_ms > filled
            && self.filled_ms.compare_exchange(filled, now.monotonic_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let gain = self.flow.gain(now.monotonic_ms - filled);
            let filled = |level: i64| Some(level.saturating_add(gain).min(self.flow.most()));
            // It always takes the new level.
            let _ = self.level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, filled);
        }
        self.flow.tokens(self.level.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64) -> Now {
        Now { monotonic_ms, wall_ms: 0 }
    }

    /// Takes batches of `batch` messages whenever it may, for so long; returns how many messages.
    fn drain(limiter: &mut Limiter, batch: u64, from_ms: u64, millis: u64) -> u64 {
        let mut taken = 0;
        for ms in from_ms..from_ms + millis {
            while limiter.is_open(at(ms)) {
                limiter.take(batch, batch * 100);
                taken += batch;
            }
        }
        taken
    }

    #[test]
    fn over_a_long_time_exactly_the_rate_goes_through() {
        for rate in [1, 3, 7, 100, 999, 1_000, 1_001, 33_333] {
            let mut limiter = Limiter::new(Rate::per_second(rate, 0), at(5)).expect("limited");
            let hour = drain(&mut limiter, 1, 5, 3_600_000 / rate.max(60));
            let expected = rate + rate * (3_600_000 / rate.max(60) - 1) / 1_000;
            assert_eq!(hour, expected, "{rate}");
        }
    }

    #[test]
    fn a_batch_goes_whole_and_is_paid_for_afterwards() {
        let mut limiter = Limiter::new(Rate::per_second(10, 0), at(0)).expect("limited");
        let taken = drain(&mut limiter, 25, 0, 100_000);
        assert!((1_000..=1_010 + 25).contains(&taken), "{taken}");
        limiter.take(0, 0);
        let opens = limiter.opens_at();
        assert!(!limiter.is_open(at(opens - 1)) && limiter.is_open(at(opens)), "{opens}");
    }

    #[test]
    fn of_messages_and_bytes_the_scarcer_counts() {
        let mut limiter = Limiter::new(Rate::per_second(1_000, 1_000), at(0)).expect("limited");
        let taken = drain(&mut limiter, 1, 0, 10_000);
        assert!((100..=111).contains(&taken), "of 100 bytes each: {taken}");
    }

    #[test]
    fn a_pause_saves_up_no_more_than_a_period() {
        let mut limiter = Limiter::new(Rate { messages: 30, bytes: 0, period_ms: 3_000 }, at(0)).expect("limited");
        assert_eq!(drain(&mut limiter, 1, 0, 1), 30);
        assert_eq!(drain(&mut limiter, 1, 1_000_000, 1), 30);
        assert_eq!(limiter.opens_at(), 1_000_100);
        assert!(!limiter.is_full(at(1_000_001)));
        assert!(limiter.is_full(at(1_003_000)));
    }

    #[test]
    fn changing_the_rate_again_and_again_gains_nothing() {
        let mut limiter = Limiter::new(Rate::per_second(10, 0), at(0));
        let mut taken = 0;
        for ms in 0..10_000 {
            let rate = Rate::per_second(10 + ms % 2, 0);
            limiter = Limiter::changed(limiter, rate, at(ms));
            taken += drain(limiter.as_mut().expect("limited"), 1, ms, 1);
        }
        assert!(taken <= 11 + 110, "{taken}");
        assert!(Limiter::changed(limiter, Rate::default(), at(10_000)).is_none());
    }

    #[test]
    fn enormous_rates_and_debts_stay_numbers() {
        let mut limiter = Limiter::new(Rate::per_second(u64::MAX, u64::MAX), at(0)).expect("limited");
        limiter.take(u64::MAX, u64::MAX);
        assert!(!limiter.is_open(at(1)));
        limiter.take(u64::MAX, u64::MAX);
        assert!(limiter.opens_at() > 0);
        let mut slow = Limiter::new(Rate { messages: 1, bytes: 1, period_ms: u64::MAX }, at(0)).expect("limited");
        assert!(slow.is_open(at(0)));
        slow.take(1, 1);
        assert!(!slow.is_open(at(1)));
    }

    #[test]
    fn topics_of_all_workers_share_one_rate_exactly() {
        let shared = SharedLimiter::new(Rate::per_second(500, 0)).expect("limited");
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for worker in 0..3_u64 {
                let (shared, taken) = (&shared, &taken);
                scope.spawn(move || {
                    for ms in 0..20_000 {
                        // Their clocks are not the same.
                        let now = at(ms + worker * 7);
                        if !shared.allowance(now).is_none() {
                            shared.take(1, 0);
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let taken = taken.into_inner();
        // Each may take one more than there is, at the same moment.
        assert!(taken <= 500 + 500 * 20 + 7 + 3, "{taken}");
        while !shared.allowance(at(20_014)).is_none() {
            shared.take(1, 0);
        }
        assert!((20_015..=20_016).contains(&shared.opens_at(at(20_014))), "two milliseconds for a token, one of which may have passed");
    }
}
