//! Which messages a compaction keeps: of each key the newest, if it has a value.
//!
//! The plan looks at all entries in order, counts messages, and remembers one bit for each: whether it stays. Keys are remembered only
//! while they are compared. When there are too many, the plan gives half of them up, by their hash, and looks at the entries once
//! more for those: so it takes a bounded room for keys however many there are.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

use super::messages::{Seen, Shape, look, without};

/// Larger messages of which the last part has not come yet, at most; beyond it their parts stay.
const MOST_UNFINISHED: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    keep_without_key: bool,
    most_keys: usize,
    hashers: (RandomState, RandomState),
    share: Share,
    /// Keys that are compared in a later pass.
    later: Vec<Share>,
    /// By key the number of its newest message.
    newest: HashMap<u128, u64>,
    /// By the number of the last part the numbers of the others.
    parts: HashMap<u64, Vec<u64>>,
    unfinished: HashMap<Box<[u8]>, (u128, Vec<u64>)>,
    kept: Bits,
    next: u64,
    gone: u64,
    seen: Vec<Seen>,
}

/// The keys whose hash leaves `rest` when divided by `of`, a power of two.
#[derive(Clone, Copy, Debug)]
struct Share {
    of: u128,
    rest: u128,
}

impl Share {
    fn has(self, key: u128) -> bool {
        key & (self.of - 1) == self.rest
    }
}

/// What is kept of each entry, asked in the order in which the plan saw them.
#[derive(Debug)]
pub(crate) struct Rewrite {
    kept: Bits,
    next: u64,
    /// Messages that were there.
    pub(crate) messages: u64,
    /// Messages that stay.
    pub(crate) stay: u64,
    seen: Vec<Seen>,
}

#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Plan {
    /// A plan that compares at most `most_keys` keys at a time.
    pub(crate) fn new(keep_without_key: bool, most_keys: usize) -> Plan {
        Plan {
            keep_without_key,
            most_keys: most_keys.max(1),
            hashers: (RandomState::new(), RandomState::new()),
            share: Share { of: 1, rest: 0 },
            later: Vec::new(),
            newest: HashMap::new(),
            parts: HashMap::new(),
            unfinished: HashMap::new(),
            kept: Bits::default(),
            next: 0,
            gone: 0,
            seen: Vec::new(),
        }
    }

    /// Looks at the next entry.
    pub(crate) fn look_at(&mut self, entry: &Bytes) {
        let mut seen = std::mem::take(&mut self.seen);
        let (first, second) = &self.hashers;
        let hash = |key: &[u8]| (u128::from(first.hash_one(key)) << 64) | u128::from(second.hash_one(key));
        look(entry, hash, &mut seen);
        for message in seen.drain(..) {
            let number = self.next;
            self.next += 1;
            self.take(number, message);
        }
        self.seen = seen;
    }

    fn take(&mut self, number: u64, message: Seen) {
        match message {
            Seen::Unread => self.kept.set(number),
            Seen::NoKey if self.keep_without_key => self.kept.set(number),
            Seen::NoKey => {}
            Seen::Gone => self.gone += 1,
            Seen::Keyed { key, .. } | Seen::Part { key, .. } if !self.share.has(key) => {}
            Seen::Keyed { key, has_value: true } => self.supersede(key, number),
            Seen::Keyed { key, has_value: false } => {
                if let Some(old) = self.newest.remove(&key) {
                    self.let_go(old);
                }
            }
            Seen::Part { key, uuid, is_first, is_last } => self.take_part(number, key, uuid, is_first, is_last),
        }
    }

    /// The parts of a larger message stay or go together; until the last one has come they stay.
    fn take_part(&mut self, number: u64, key: u128, uuid: Box<[u8]>, is_first: bool, is_last: bool) {
        let (_, mut before) = self.unfinished.remove(&uuid).unwrap_or_default();
        if is_first {
            // It was sent again from the beginning.
            before.drain(..).for_each(|old| self.kept.clear(old));
        }
        if is_last {
            self.parts.insert(number, before);
            return self.supersede(key, number);
        }
        self.kept.set(number);
        before.push(number);
        if self.unfinished.len() >= MOST_UNFINISHED {
            self.unfinished.clear();
        }
        self.unfinished.insert(uuid, (key, before));
    }

    fn supersede(&mut self, key: u128, number: u64) {
        self.kept.set(number);
        if let Some(old) = self.newest.insert(key, number) {
            self.let_go(old);
        }
        if self.newest.len() > self.most_keys {
            self.halve();
        }
    }

    fn let_go(&mut self, number: u64) {
        self.kept.clear(number);
        for part in self.parts.remove(&number).unwrap_or_default() {
            self.kept.clear(part);
        }
    }

    /// Leaves half of the keys to a later pass, as if nothing had been seen of them.
    fn halve(&mut self) {
        let Share { of, rest } = self.share;
        let Some(twice) = of.checked_mul(2) else { return };
        self.later.push(Share { of: twice, rest: rest + of });
        self.share = Share { of: twice, rest };
        let share = self.share;
        let left: Vec<u64> = self.newest.extract_if(|key, _| !share.has(*key)).map(|(_, number)| number).collect();
        left.into_iter().for_each(|number| self.let_go(number));
        let left: Vec<_> = self.unfinished.extract_if(|_, (key, _)| !share.has(*key)).collect();
        left.into_iter().flat_map(|(_, (_, parts))| parts).for_each(|part| self.kept.clear(part));
    }

    /// All entries were seen. Returns whether they must be seen once more, from the first one.
    #[must_use]
    pub(crate) fn end_pass(&mut self) -> bool {
        let Some(share) = self.later.pop() else { return false };
        self.share = share;
        self.newest.clear();
        self.parts.clear();
        self.unfinished.clear();
        self.next = 0;
        self.gone = 0;
        true
    }

    /// What comes of it.
    pub(crate) fn finish(self) -> Rewrite {
        let stay = self.kept.count();
        Rewrite { kept: self.kept, next: 0, messages: self.next - self.gone, stay, seen: self.seen }
    }
}

impl Rewrite {
    /// What is left of the next entry; none if nothing is.
    pub(crate) fn entry(&mut self, entry: &Bytes) -> Option<Bytes> {
        let shape = look(entry, |_| 0, &mut self.seen);
        let first = self.next;
        self.next += self.seen.len() as u64;
        let stays = |index: usize| self.kept.has(first + index as u64);
        let count = (0..self.seen.len()).filter(|index| stays(*index)).count();
        let there = self.seen.iter().filter(|message| **message != Seen::Gone).count();
        match shape {
            _ if count == 0 => None,
            Shape::Batch if count < there => match without(entry, stays) {
                Ok(left) => Some(left),
                // It could be read a moment ago. Better too much than too little.
                Err(_) => Some(entry.clone()),
            },
            Shape::Whole | Shape::Batch => Some(entry.clone()),
        }
    }
}

impl Bits {
    fn set(&mut self, number: u64) {
        let (word, bit) = Bits::place(number);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Bits::place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = Bits::place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn place(number: u64) -> (usize, u64) {
        (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests;
