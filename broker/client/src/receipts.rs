//! The answers to publishes, for callers that send too much to wait for each one by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{Error, MessageId};

/// The answer to one publish.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The tag of the producer, from its options.
    pub producer: u64,
    /// What the sender gave along with the message.
    pub token: u64,
    /// The sequence id, of a batch its first one.
    pub sequence: u64,
    /// Where the message is stored, or why it is not (as far as this end knows).
    pub outcome: Result<MessageId, Error>,
}

/// Where receipts are collected. Many producers may share one; clones are the same place.
#[derive(Clone, Debug, Default)]
pub struct Receipts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Vec<Receipt>>,
    filled: Notify,
}

impl Receipts {
    /// An empty place.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for at least one receipt and moves all there are to the end of `into`. Receipts of a producer come in the order of its sends.
    pub async fn next(&self, into: &mut Vec<Receipt>) {
        loop {
            let filled = self.0.filled.notified();
            if self.take(into) {
                return;
            }
            filled.await;
        }
    }

    /// Moves all receipts there are to the end of `into`; returns whether there were any.
    pub fn take(&self, into: &mut Vec<Receipt>) -> bool {
        let mut queue = self.lock();
        let any = !queue.is_empty();
        into.append(&mut queue);
        any
    }

    pub(crate) fn push(&self, receipt: Receipt) {
        let mut queue = self.lock();
        queue.push(receipt);
        if queue.len() == 1 {
            self.0.filled.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Receipt>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
