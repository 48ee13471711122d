//! Keys, and who owns them: told a second time, in the plainest way, to hold the topic against it.

use topic::{HashRange, KeySharedPolicy, KeySplit};

use super::mirror::Index;

/// The key of the entry that a producer begins at a sequence id. Few, so that they meet.
pub(crate) fn key_of(producer: usize, sequence: u64) -> String {
    format!("key-{}", (producer as u64 * 5 + sequence) % 13)
}

/// The slot of that key.
pub(crate) fn slot_of(producer: usize, sequence: u64) -> u16 {
    wire::hash::key_slot(key_of(producer, sequence).as_bytes())
}

/// How a Key_Shared subscription of the play splits its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Evenly over who is there.
    Auto,
    /// The same, and keys need not stay in order when they move.
    Loose,
    /// Two thirds of the slots to fixed consumers; the rest waits.
    Sticky,
}

impl Split {
    /// What a consumer asks for.
    pub(crate) fn policy(self, consumer: Index) -> KeySharedPolicy {
        let split = match self {
            Split::Auto | Split::Loose => KeySplit::Auto,
            Split::Sticky => KeySplit::Sticky(sticky(consumer)),
        };
        KeySharedPolicy { split, allow_out_of_order: self == Split::Loose }
    }
}

fn sticky(consumer: Index) -> Vec<HashRange> {
    let range = |first, last| HashRange { first, last };
    match consumer % 3 {
        0 => vec![range(0, 9_999), range(40_000, 65_535)],
        1 => vec![range(10_000, 25_000)],
        _ => vec![range(25_001, 30_000)],
    }
}

/// Who owns which slots.
#[derive(Debug)]
pub(crate) struct Owners {
    split: Split,
    /// First and last slot, owner.
    ranges: Vec<(u16, u16, Index)>,
}

impl Owners {
    pub(crate) fn new(split: Split) -> Owners {
        Owners { split, ranges: Vec::new() }
    }

    pub(crate) fn split(&self) -> Split {
        self.split
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Index> {
        self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(.., owner)| *owner)
    }

    pub(crate) fn join(&mut self, consumer: Index) {
        if self.split == Split::Sticky {
            self.ranges.extend(sticky(consumer).iter().map(|range| (range.first, range.last, consumer)));
            return;
        }
        let largest = self.ranges.iter().map(|(first, last, _)| last - first).max();
        match self.ranges.iter().position(|(first, last, _)| Some(last - first) == largest) {
            Some(place) => {
                let (first, last, _) = self.ranges[place];
                let middle = first + (last - first) / 2;
                self.ranges[place].0 = middle + 1;
                self.ranges.insert(place, (first, middle, consumer));
            }
            None => self.ranges.push((0, u16::MAX, consumer)),
        }
    }

    pub(crate) fn leave(&mut self, consumer: Index) {
        let place = self.ranges.iter().position(|(.., owner)| *owner == consumer);
        match place {
            Some(place) if self.split != Split::Sticky => {
                let (first, last, _) = self.ranges.remove(place);
                if place < self.ranges.len() {
                    self.ranges[place].0 = first;
                } else if let Some(before) = self.ranges.last_mut() {
                    before.1 = last;
                }
            }
            _ => self.ranges.retain(|(.., owner)| *owner != consumer),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }
}
