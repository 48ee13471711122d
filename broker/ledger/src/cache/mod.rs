//! The entry cache. For now a tail cache: the newest entries of each topic, oldest dropped first, one byte budget per worker.
//!
//! Beside it stands what decides better, not on the message path yet. To be read in this order: [`policy`], what a policy is asked, and
//! [`events`], what it is told; [`policies`], those that are built in, with their [`parameters`]; [`readers`], where cursors are; [`host`],
//! which owns bytes and limits and asks a policy. Then how they are compared: [`trace`], [`replay`], [`optimum`], [`scenarios`] and [`table`].

pub mod events;
pub mod host;
pub mod optimum;
pub mod parameters;
pub mod policies;
pub mod policy;
pub mod readers;
pub mod replay;
pub mod scenarios;
pub mod table;
pub mod trace;

mod books;

use std::collections::VecDeque;

use crate::{Entry, Position};

/// A topic's place in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey(pub u32);

/// The entries of all topics of one worker.
#[derive(Debug)]
pub struct EntryCache {
    budget: usize,
    bytes: usize,
    /// Entries held, of all topics.
    entries: usize,
    topics: Vec<Topic>,
    /// Places of closed topics.
    free: Vec<u32>,
    /// Every entry held, oldest insertion first, and some that were released since.
    queue: VecDeque<Ticket>,
}

#[derive(Debug, Default)]
struct Topic {
    open: bool,
    /// In growing order of position.
    entries: VecDeque<Entry>,
    /// How many entries left this place since the beginning; the number of the entry in front.
    first: u64,
}

/// One insertion: the entry is still held if its number is not below the topic's first.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    topic: u32,
    number: u64,
}

/// A topic without entries keeps room for this many; more is given back.
const IDLE_CAPACITY: usize = 64;

/// Tickets of released entries that are tolerated before they are swept out.
const STALE_TICKETS: usize = 1024;

impl EntryCache {
    /// A cache that holds at most `budget` bytes of entries; 0 keeps nothing.
    pub fn new(budget: usize) -> EntryCache {
        EntryCache { budget, bytes: 0, entries: 0, topics: Vec::new(), free: Vec::new(), queue: VecDeque::new() }
    }

    /// A place for a topic.
    pub fn open(&mut self) -> CacheKey {
        let place = self.free.pop().unwrap_or_else(|| {
            self.topics.push(Topic::default());
            (self.topics.len() - 1) as u32
        });
        if let Some(topic) = self.topics.get_mut(place as usize) {
            topic.open = true;
        }
        CacheKey(place)
    }

    /// Forgets a topic. Its key may be given to another one.
    pub fn close(&mut self, topic: CacheKey) {
        self.release(topic, Position::LATEST);
        if let Some(place) = self.topics.get_mut(topic.0 as usize).filter(|place| place.open) {
            place.open = false;
            place.entries = VecDeque::new();
            self.free.push(topic.0);
        }
    }

    /// Adds the newest entry of a topic; positions grow: one that is not beyond the last is not kept. Nor is an entry
    /// larger than the budget. What is over the budget goes, the oldest insertion of any topic first.
    pub fn insert(&mut self, topic: CacheKey, entry: Entry) {
        let size = entry.bytes.len();
        let Some(place) = self.topics.get_mut(topic.0 as usize).filter(|place| place.open) else { return };
        if size > self.budget || self.budget == 0 || place.entries.back().is_some_and(|last| last.at >= entry.at) {
            return;
        }
        let number = place.first + place.entries.len() as u64;
        place.entries.push_back(entry);
        self.queue.push_back(Ticket { topic: topic.0, number });
        self.entries += 1;
        self.bytes += size;
        while self.bytes > self.budget {
            self.drop_oldest();
        }
        self.sweep();
    }

    /// The entry at `at`.
    #[inline]
    pub fn get(&self, topic: CacheKey, at: Position) -> Option<&Entry> {
        self.topics.get(topic.0 as usize)?.get(at)
    }

    /// Drops the entries of a topic below `before`: no reader expects them.
    pub fn release(&mut self, topic: CacheKey, before: Position) {
        let Some(place) = self.topics.get_mut(topic.0 as usize) else { return };
        while let Some(entry) = place.entries.pop_front_if(|entry| entry.at < before) {
            place.first += 1;
            self.entries -= 1;
            self.bytes -= entry.bytes.len();
        }
        place.give_back_room();
        self.sweep();
    }

    /// Bytes of entries held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_oldest(&mut self) {
        let Some(ticket) = self.queue.pop_front() else { return };
        let Some(place) = self.topics.get_mut(ticket.topic as usize) else { return };
        // Insertion order is position order, so the oldest of a topic is the one in front.
        if ticket.number >= place.first
            && let Some(entry) = place.entries.pop_front()
        {
            place.first += 1;
            self.entries -= 1;
            self.bytes -= entry.bytes.len();
            place.give_back_room();
        }
    }

    /// Takes out the tickets of released entries: at the front at once, elsewhere when they are the majority.
    fn sweep(&mut self) {
        let topics = &self.topics;
        let stale = |ticket: &Ticket| topics.get(ticket.topic as usize).is_none_or(|place| ticket.number < place.first);
        while self.queue.pop_front_if(|ticket| stale(ticket)).is_some() {}
        if self.queue.len() > self.entries * 2 + STALE_TICKETS {
            self.queue.retain(|ticket| !stale(ticket));
        }
    }
}

impl Topic {
    fn get(&self, at: Position) -> Option<&Entry> {
        let (first, last) = (self.entries.front()?.at, self.entries.back()?.at);
        if at < first || at > last {
            return None;
        }
        // Entries follow each other but for ledger changes and what was not kept: try both ends before searching.
        let ahead = (at.ledger == first.ledger).then(|| (at.entry.0 - first.entry.0) as usize);
        let behind = (at.ledger == last.ledger).then(|| (last.entry.0 - at.entry.0) as usize);
        let behind = behind.and_then(|behind| (self.entries.len() - 1).checked_sub(behind));
        for index in [ahead, behind].into_iter().flatten() {
            if let Some(entry) = self.entries.get(index).filter(|entry| entry.at == at) {
                return Some(entry);
            }
        }
        let index = self.entries.binary_search_by_key(&at, |entry| entry.at).ok()?;
        self.entries.get(index)
    }

    fn give_back_room(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > IDLE_CAPACITY {
            self.entries.shrink_to(IDLE_CAPACITY);
        }
    }
}

#[cfg(test)]
mod tests;
