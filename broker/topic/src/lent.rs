//! What a topic lends its subscriptions for one call.

use ledger::{CacheKey, ManagedLedger};
use wire::TopicName;

use crate::errand::Errands;
use crate::faults::Faults;
use crate::rate::Allowance;
use crate::{Now, TopicSettings};

/// The topic's side of a call into a subscription.
pub(crate) struct Lent<'a> {
    /// Messages that consumers may hold together; as many stop a Shared or Key_Shared subscription.
    pub(crate) max_held: u64,
    /// What one dispatch step may send.
    pub(crate) allowance: Allowance,
    pub(crate) topic: &'a TopicName,
    pub(crate) ledger: &'a ManagedLedger,
    pub(crate) settings: &'a TopicSettings,
    pub(crate) errands: &'a mut Errands,
    pub(crate) tally: &'a mut Tally,
    pub(crate) cache: CacheKey,
    pub(crate) faults: Faults,
}

/// Running totals of a topic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) messages_in: u64,
    pub(crate) bytes_in: u64,
    pub(crate) entries_in: u64,
    pub(crate) messages_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) storage_reads: u64,
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
