//! Starting and stopping.

use std::path::PathBuf;
use std::time::Duration;

use super::amounts::milliseconds;
use super::forms::{Form, OptionalPath};
use super::table::settings;

settings! {
    /// Starting and stopping.
    pub struct Upkeep, "Upkeep" {
        /// Time for an orderly stop: topics are let go of and places written. What is not done by then is left to recovery.
        shutdown_timeout: Duration = "brokerShutdownTimeoutMs", milliseconds(0, 3_600_000), default Duration::from_secs(60);
        /// What is logged: error, warn, info, debug, trace or off, or levels per part as in info,server=debug. `--log-level` and
        /// PULSAR_LOG_LEVEL win over it at the start, a change while the broker runs wins over them.
        log_level: String = "logLevel", LogLevel, default "info".to_owned(), dynamic "at once";
        /// A file whose existence makes /status.html answer OK; take it away to take the broker out of a load balancer.
        status_file: Option<PathBuf> = "statusFilePath", OptionalPath, default None;
    }
}

/// A level, or levels by part.
#[derive(Clone, Copy)]
pub struct LogLevel;

impl Form for LogLevel {
    type Value = String;
    fn parse(&self, text: &str) -> Result<String, String> {
        crate::logging::check(text).map(|()| text.to_owned()).map_err(|_| String::new())
    }
    fn show(&self, value: &String) -> String {
        value.clone()
    }
    fn allowed(&self) -> String {
        "error, warn, info, debug, trace or off, or levels per part as in info,server=debug".to_owned()
    }
}
