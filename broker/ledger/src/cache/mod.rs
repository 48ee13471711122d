//! The entry cache. For now a tail cache: the newest entries of each topic, oldest dropped first, one byte budget per worker.

use crate::{Entry, Position};

/// A topic's place in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey(pub u32);

/// The entries of all topics of one worker.
#[derive(Debug)]
pub struct EntryCache {}

#[allow(missing_docs, unused_variables, clippy::todo, reason = "contract first, bodies next")]
impl EntryCache {
    /// A cache that holds at most `budget` bytes of entries; 0 keeps nothing.
    pub fn new(budget: usize) -> EntryCache {
        todo!()
    }
    /// A place for a topic.
    pub fn open(&mut self) -> CacheKey {
        todo!()
    }
    /// Forgets a topic.
    pub fn close(&mut self, topic: CacheKey) {
        todo!()
    }
    /// Adds the newest entry of a topic; positions grow.
    pub fn insert(&mut self, topic: CacheKey, entry: Entry) {
        todo!()
    }
    /// The entry at `at`.
    pub fn get(&self, topic: CacheKey, at: Position) -> Option<&Entry> {
        todo!()
    }
    /// Drops the entries of a topic below `before`: no reader expects them.
    pub fn release(&mut self, topic: CacheKey, before: Position) {
        todo!()
    }
    /// Bytes of entries held.
    pub fn bytes(&self) -> usize {
        todo!()
    }
}
