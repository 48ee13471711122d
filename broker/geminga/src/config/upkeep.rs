//! Starting and stopping.

use std::path::PathBuf;
use std::time::Duration;

use super::amounts::milliseconds;
use super::forms::OptionalPath;
use super::table::settings;

settings! {
    /// Starting and stopping.
    pub struct Upkeep, "Upkeep" {
        /// Time for an orderly stop: topics are let go of and places written. What is not done by then is left to recovery.
        shutdown_timeout: Duration = "brokerShutdownTimeoutMs", milliseconds(0, 3_600_000), default Duration::from_secs(60);
        /// A file whose existence makes /status.html answer OK; take it away to take the broker out of a load balancer.
        status_file: Option<PathBuf> = "statusFilePath", OptionalPath, default None;
    }
}
