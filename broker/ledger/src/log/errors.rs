//! Why a log could not be opened.

use std::io;
use std::path::PathBuf;

use crate::LedgerId;

/// Why a log could not be opened; nothing in the directory was changed beyond what an opening always does.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer release wrote the directory: run that one, or take a copy made before the upgrade.
    #[error("{} has log format {found}, and this release knows formats up to {known}: a newer release wrote it", dir.display())]
    Newer {
        /// The log's directory.
        dir: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The directory is not a log, or its version file is damaged.
    #[error("{} is not a log this release can open: {reason}", dir.display())]
    NotALog {
        /// The log's directory.
        dir: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Durable data is damaged: restore a copy, or open with damage allowed and lose what is named here.
    #[error("{} is damaged at byte {offset}: {reason}; ledgers affected: {}", file.display(), names(ledgers))]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found.
        reason: String,
        /// The ledgers that are known to have lost something; empty when that cannot be told.
        ledgers: Vec<LedgerId>,
    },
    /// The options contradict each other.
    #[error("log options: {0}")]
    Options(String),
    /// The operating system refused.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn names(ledgers: &[LedgerId]) -> String {
    const SHOWN: usize = 20;
    if ledgers.is_empty() {
        return "unknown".into();
    }
    let shown: Vec<String> = ledgers.iter().take(SHOWN).map(ToString::to_string).collect();
    match ledgers.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}
