//! The one door to metadata: a versioned tree, as ZooKeeper has it, with transactions, watches, sessions and sequences.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Expected, MetadataError, Session, Transaction, Watch, WatchEvent};

/// A node's value and how often it was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value; empty for a node that exists only as a parent.
    pub value: Vec<u8>,
    /// 0 when created, one more with each put. A node that is deleted and created again starts at 0.
    pub version: i64,
}

/// What a transaction came to: one number per operation, see [`Op`](crate::Op).
pub type Outcome = Result<Vec<i64>, MetadataError>;
/// What is told the outcome. Runs on the store's thread: it must not block and must not call a blocking method of the store.
pub type Done = Box<dyn FnOnce(Outcome) + Send>;
/// What is told of changes. Runs on the store's thread: it must not block and must not call a blocking method of the store.
pub type OnChange = Box<dyn Fn(WatchEvent) + Send + Sync>;

/// A store of the tree.
///
/// Transactions take effect one after the other in the order of submission; `done` is called in that order too, after the
/// transaction is durable and readable. Reads see every transaction whose `done` was called, and nothing that could still be lost.
pub trait MetadataStore: Send + Sync + 'static {
    /// The node's value and version; none if it does not exist.
    fn get(&self, path: &str) -> Result<Option<Versioned>, MetadataError>;

    /// Names of the direct children, sorted by byte; none for a node that does not exist.
    fn children(&self, path: &str) -> Result<Vec<String>, MetadataError>;

    /// Whether the node exists.
    fn exists(&self, path: &str) -> Result<bool, MetadataError>;

    /// Queues a transaction and returns at once. `done` is called exactly once, unless the process ends.
    fn submit(&self, transaction: Transaction, done: Done);

    /// Calls `on_change` for every change at or below `prefix` from now on, until the handle is dropped; a call that
    /// has begun by then may still finish. Changes of a transaction are told before its `done`.
    fn watch(&self, prefix: &str, on_change: OnChange) -> Result<Watch, MetadataError>;

    /// A new session that lasts until `now + ttl` unless renewed.
    fn open_session(&self, ttl: Duration, now: Instant) -> Result<Session, MetadataError>;

    /// Moves the session's deadline to `now + ttl`. Fails with `SessionEnded` once it has passed, and then for ever.
    fn renew_session(&self, session: &Session, now: Instant) -> Result<(), MetadataError>;

    /// Ends the session now; its ephemeral nodes are gone when this returns.
    fn close_session(&self, session: &Session) -> Result<(), MetadataError>;

    /// Ends every session of this store whose deadline has passed and submits the removal of their ephemeral nodes; does not
    /// wait for it. The owner of the store calls it from a timer. Returns the ids of the ended.
    fn expire_sessions(&self, now: Instant) -> Vec<u64>;

    /// [`submit`](Self::submit), and waits. Not from a completion or a watcher: that fails with `Reentrant`.
    fn commit(&self, transaction: Transaction) -> Outcome {
        if crate::delivery::on_store_thread() {
            return Err(crate::Rejected::Reentrant.into());
        }
        let (tell, told) = mpsc::sync_channel(1);
        self.submit(transaction, Box::new(move |outcome| drop(tell.send(outcome))));
        told.recv().unwrap_or_else(|_| Err(MetadataError::Unknown("the store went away".into())))
    }

    /// One put; returns the version the node has now.
    fn put(&self, path: &str, value: &[u8], expected: Expected) -> Result<i64, MetadataError> {
        self.commit(Transaction::new().put(path, value, expected)).map(|outcomes| first(&outcomes))
    }

    /// One delete; returns the version the node had.
    fn delete(&self, path: &str, expected: Expected) -> Result<i64, MetadataError> {
        self.commit(Transaction::new().delete(path, expected)).map(|outcomes| first(&outcomes))
    }

    /// The next number of a sequence: 0, 1, 2, ...; durable before it is returned and never given again.
    fn sequence(&self, path: &str) -> Result<i64, MetadataError> {
        self.commit(Transaction::new().reserve(path, 1)).map(|outcomes| first(&outcomes))
    }
}

fn first(outcomes: &[i64]) -> i64 {
    outcomes.first().copied().unwrap_or(-1)
}
