//! What can go wrong. [`Rejected`] leaves the tree as it was; after [`MetadataError::Unknown`] nobody can say without reading again.

use std::path::PathBuf;

/// Why a read or a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The store looked and refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// An I/O failure: a write may or may not have happened. Read again (on a healthy store) before deciding anything.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl MetadataError {
    /// The refusal, if it is one.
    pub fn rejected(&self) -> Option<&Rejected> {
        match self {
            MetadataError::Rejected(why) => Some(why),
            MetadataError::Unknown(_) => None,
        }
    }
}

/// Why a transaction was refused. The first operation that cannot be done decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Someone else has written the node since it was read.
    #[error("{path} is at version {found}, not {expected}")]
    VersionConflict {
        /// The node.
        path: String,
        /// The version the caller had read.
        expected: i64,
        /// The version it has.
        found: i64,
    },
    /// The node does not exist.
    #[error("{path} does not exist")]
    NotFound {
        /// The node.
        path: String,
    },
    /// The node was to be absent and is there.
    #[error("{path} exists already")]
    Exists {
        /// The node.
        path: String,
    },
    /// The node has children: it cannot be deleted, or was to be empty.
    #[error("{path} has children")]
    NotEmpty {
        /// The node.
        path: String,
    },
    /// The path cannot name a node.
    #[error("bad path {path:?}: {reason}")]
    BadPath {
        /// As given.
        path: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The value is larger than a node may hold.
    #[error("value of {size} bytes for {path} is over the limit of {limit} bytes")]
    TooLarge {
        /// The node.
        path: String,
        /// Bytes given.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The session of an ephemeral node has ended.
    #[error("session {session:#x} has ended")]
    SessionEnded {
        /// The session's id.
        session: u64,
    },
    /// Too much is waiting for the disk already; try later.
    #[error("{queued} bytes of transactions are waiting already")]
    Overloaded {
        /// Bytes in the queue.
        queued: usize,
    },
    /// A blocking call was made from a completion or a watcher, where it would wait for itself.
    #[error("a blocking call from a completion would wait for itself")]
    Reentrant,
}

/// Why a store's file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer Geminga.
    #[error("{path} has format {found}; this version reads up to {known}. Start the newer version again, or restore a backup")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Format in the file.
        found: u64,
        /// Newest format this version knows.
        known: u64,
    },
    /// Written by an older version, in a format that this one does not read any more.
    #[error(
        "{path} has format {found}, which this version no longer reads (it reads {known}); upgrade in steps through an intermediate version"
    )]
    OlderFormat {
        /// The file.
        path: PathBuf,
        /// Format in the file.
        found: u64,
        /// Format this version writes.
        known: u64,
    },
    /// Not a metadata store at all.
    #[error("{path} is not a metadata store of Geminga: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Was a store, and is damaged.
    #[error("{path} is damaged: {reason}. Restore it from a backup; it was not changed")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The operating system refused.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Its error.
        error: std::io::Error,
    },
}
