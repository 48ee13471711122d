//! Settings that make a broker worse on purpose, to measure what its disk costs. None is for messages that matter.

use std::num::NonZeroU64;
use std::time::Duration;

use ledger::log::Slowness;

use super::amounts::milliseconds;
use super::forms::{Flag, Number};
use super::table::settings;

settings! {
    /// For measurements only, never for messages that matter.
    pub struct Trial, "For measurements only" {
        /// Receipts are sent before messages are on the disk: a loss of power, or a crash of the system, loses messages that were acknowledged.
        no_sync: bool = "logUnsafeNoSync", Flag, default false;
        /// Added to each sync of the log, to stand for a slower disk.
        added_sync: Duration = "logTestSyncDelayMs", milliseconds(0, 60_000), default Duration::ZERO;
        /// Bytes per second that the log makes durable at most, to stand for a slower disk; 0 is no limit.
        write_limit: u64 = "logTestWriteLimitBytesPerSecond", Number(0, u64::MAX), default 0;
    }
}

impl Trial {
    /// What whoever starts the broker has to see.
    pub fn warning(&self) -> Option<&'static str> {
        if self.no_sync {
            Some("NOT DURABLE: with logUnsafeNoSync=true, a loss of power loses messages that were acknowledged.")
        } else if self.slowness() != Slowness::default() {
            Some("The disk is made slower by logTestSyncDelayMs or logTestWriteLimitBytesPerSecond, which are for measurements.")
        } else {
            None
        }
    }

    /// How much slower the disk shall be.
    pub fn slowness(&self) -> Slowness {
        Slowness { added_sync: self.added_sync, bytes_per_second: NonZeroU64::new(self.write_limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn a_broker_that_does_not_sync_says_so() {
        let mut trial = Config::default().trial;
        assert_eq!(trial.warning(), None);
        trial.write_limit = 1;
        assert!(trial.warning().is_some_and(|warning| warning.contains("slower")));
        trial.no_sync = true;
        assert!(trial.warning().is_some_and(|warning| warning.starts_with("NOT DURABLE")));
    }
}
