//! Starting, stopping and telling how it goes.

use std::path::PathBuf;
use std::time::Duration;

use super::amounts::{milliseconds, seconds};
use super::forms::OptionalPath;
use super::table::settings;

settings! {
    /// Starting, stopping and telling how it goes.
    pub struct Upkeep, "Upkeep" {
        /// Time for an orderly stop: topics are let go of and places written. What is not done by then is left to recovery.
        shutdown_timeout: Duration = "brokerShutdownTimeoutMs", milliseconds(0, 3_600_000), default Duration::from_secs(60);
        /// Rates and statistics are made anew this often. Scrape metrics at the same interval.
        stats_interval: Duration = "statsUpdateFrequencyInSecs", seconds(1, 3_600), default Duration::from_secs(60);
        /// Time until the first of them.
        stats_delay: Duration = "statsUpdateInitialDelayInSecs", seconds(0, 3_600), default Duration::from_secs(60);
        /// A file whose existence makes /status.html answer OK; take it away to take the broker out of a load balancer.
        status_file: Option<PathBuf> = "statusFilePath", OptionalPath, default None;
    }
}
