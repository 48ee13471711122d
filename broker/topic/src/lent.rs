//! What a topic lends its subscriptions for one call.

use ledger::{CacheKey, ManagedLedger};
use wire::TopicName;

use crate::compaction::Compacted;
use crate::errand::Errands;
use crate::faults::Faults;
use crate::growth::{ENTRY_SIZES, Growth, Latencies, Sizes, WRITE_LATENCIES};
use crate::rate::Allowance;
use crate::stats::TopicRates;
use crate::{Now, TopicSettings};

/// The topic's side of a call into a subscription.
pub(crate) struct Lent<'a> {
    /// Messages that consumers may hold together; as many stop a Shared or Key_Shared subscription.
    pub(crate) max_held: u64,
    /// What one dispatch step may send.
    pub(crate) allowance: Allowance,
    pub(crate) topic: &'a TopicName,
    pub(crate) ledger: &'a ManagedLedger,
    /// What a compaction left.
    pub(crate) compacted: Option<Compacted>,
    pub(crate) settings: &'a TopicSettings,
    pub(crate) errands: &'a mut Errands,
    pub(crate) tally: &'a mut Tally,
    pub(crate) cache: CacheKey,
    pub(crate) faults: Faults,
}

/// Running totals of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) messages_in: u64,
    pub(crate) bytes_in: u64,
    pub(crate) entries_in: u64,
    pub(crate) messages_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) storage_reads: u64,
    pub(crate) sizes: Sizes,
    pub(crate) latencies: Latencies,
    growth: Growth<7>,
    sizes_growth: Growth<10>,
    latencies_growth: Growth<11>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            messages_in: 0,
            bytes_in: 0,
            entries_in: 0,
            messages_out: 0,
            bytes_out: 0,
            cache_hits: 0,
            cache_misses: 0,
            storage_reads: 0,
            sizes: Sizes::new(&ENTRY_SIZES),
            latencies: Latencies::new(&WRITE_LATENCIES),
            growth: Growth::default(),
            sizes_growth: Growth::default(),
            latencies_growth: Growth::default(),
        }
    }
}

impl Tally {
    /// A period of statistics has ended.
    pub(crate) fn period_ended(&mut self, seconds: f64) {
        let Self { messages_in, bytes_in, messages_out, bytes_out, cache_hits, cache_misses, storage_reads, .. } = *self;
        let totals = [messages_in, bytes_in, messages_out, bytes_out, cache_hits, cache_misses, storage_reads];
        self.growth.period_ended(totals, seconds);
        self.sizes_growth.period_ended(with_sum(self.sizes.counts, self.sizes.sum), seconds);
        self.latencies_growth.period_ended(with_sum(self.latencies.counts, self.latencies.sum), seconds);
    }

    /// What the last period was like.
    pub(crate) fn rates(&self) -> TopicRates {
        let [messages_in, bytes_in, messages_out, bytes_out, cache_hits, cache_misses, storage_reads] = self.growth.rates();
        let (entry_sizes, entry_size_sum) = without_sum(self.sizes_growth.by());
        let (write_latencies, write_latency_sum_us) = without_sum(self.latencies_growth.by());
        let of_entries = [entry_sizes.iter().sum::<u64>()];
        TopicRates {
            messages_in,
            bytes_in,
            messages_out,
            bytes_out,
            cache_hits,
            cache_misses,
            storage_reads,
            entries_in: self.growth.per_second(of_entries)[0],
            entry_sizes,
            entry_size_sum,
            write_latencies,
            write_latency_sum_us,
        }
    }
}

fn with_sum<const N: usize, const M: usize>(counts: [u64; N], sum: u64) -> [u64; M] {
    std::array::from_fn(|place| counts.get(place).copied().unwrap_or(sum))
}

fn without_sum<const N: usize, const M: usize>(counts: [u64; N]) -> ([u64; M], u64) {
    (std::array::from_fn(|place| counts.get(place).copied().unwrap_or(0)), counts.last().copied().unwrap_or(0))
}

/// Waits that double, from a first wait up to a longest one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    wait_ms: u64,
    until: Option<u64>,
}

impl BackOff {
    const FIRST_MS: u64 = 100;
    const LONGEST_MS: u64 = 5_000;

    /// Something failed; returns whether it is the first failure in a row.
    pub(crate) fn failed(&mut self, now: Now) -> bool {
        let first = self.wait_ms == 0;
        self.wait_ms = (self.wait_ms * 2).clamp(Self::FIRST_MS, Self::LONGEST_MS);
        self.until = Some(now.monotonic_ms + self.wait_ms);
        first
    }

    pub(crate) fn worked(&mut self) {
        *self = BackOff::default();
    }

    /// When to try again, if a wait is on.
    pub(crate) fn until(&self) -> Option<u64> {
        self.until
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a wait just ended; asked by timers.
    pub(crate) fn is_over(&mut self, now: Now) -> bool {
        let over = self.until.is_some_and(|until| until <= now.monotonic_ms);
        if over {
            self.until = None;
        }
        over
    }
}
