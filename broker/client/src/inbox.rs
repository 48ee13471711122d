//! Where messages wait for the application.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{Error, Received};

/// A queue of messages. A consumer has one of its own unless its options name one; many consumers may share one, and clones are the same queue.
///
/// A message counts as taken, and gives its permit back, when it leaves the queue.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<VecDeque<Item>>,
    filled: Notify,
}

/// What the application finds in an [`Inbox`].
#[derive(Debug)]
pub enum Item {
    /// A message.
    Message(Received),
    /// A consumer that will get no more messages.
    Ended {
        /// The tag of the consumer, from its options.
        consumer: u64,
        /// Why.
        error: Error,
    },
}

impl Inbox {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the next item.
    pub async fn next(&self) -> Item {
        loop {
            let filled = self.0.filled.notified();
            if let Some(item) = self.try_next() {
                return item;
            }
            filled.await;
        }
    }

    /// The next item, if there is one.
    pub fn try_next(&self) -> Option<Item> {
        let item = {
            let mut queue = self.lock();
            let item = queue.pop_front();
            self.pass_on(&queue);
            item
        };
        item.inspect(Item::count)
    }

    /// Waits for at least one item and moves up to `limit` of them to the end of `into`.
    pub async fn next_many(&self, into: &mut Vec<Item>, limit: usize) {
        loop {
            let filled = self.0.filled.notified();
            if self.take_many(into, limit) > 0 {
                return;
            }
            filled.await;
        }
    }

    fn take_many(&self, into: &mut Vec<Item>, limit: usize) -> usize {
        let before = into.len();
        {
            let mut queue = self.lock();
            let count = limit.min(queue.len());
            into.extend(queue.drain(..count));
            self.pass_on(&queue);
        }
        into[before..].iter().for_each(Item::count);
        into.len() - before
    }

    /// Messages that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn push(&self, items: impl Iterator<Item = Item>) {
        let mut queue = self.lock();
        let was_empty = queue.is_empty();
        queue.extend(items);
        if was_empty && !queue.is_empty() {
            self.0.filled.notify_one();
        }
    }

    /// Throws away what waits for one consumer, and says how many messages that was.
    pub(crate) fn purge(&self, from: impl Fn(&Received) -> bool) -> u32 {
        let mut queue = self.lock();
        let before = queue.len();
        queue.retain(|item| !matches!(item, Item::Message(message) if from(message)));
        u32::try_from(before - queue.len()).unwrap_or(u32::MAX)
    }

    /// One wake-up is given per time the queue fills; who takes only part of it wakes the next.
    fn pass_on(&self, queue: &VecDeque<Item>) {
        if !queue.is_empty() {
            self.0.filled.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    fn count(&self) {
        if let Self::Message(message) = self {
            message.taken();
        }
    }
}
