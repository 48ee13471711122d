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

/// How a Key_Shared subscription of the play splits its keys; with points on a ring, or evenly if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Over who is there.
    Auto(u32),
    /// The same, and keys need not stay in order when they move.
    Loose(u32),
    /// Two thirds of the slots to fixed consumers; the rest waits.
    Sticky,
}

impl Split {
    /// What a consumer asks for.
    pub(crate) fn policy(self, consumer: Index) -> KeySharedPolicy {
        let split = match self {
            Split::Auto(_) | Split::Loose(_) => KeySplit::Auto,
            Split::Sticky => {
                KeySplit::Sticky(sticky(consumer).iter().map(|(first, last)| HashRange { first: *first, last: *last }).collect())
            }
        };
        KeySharedPolicy { split, allow_out_of_order: self.is_loose() }
    }

    /// Whether keys may come out of order.
    pub(crate) fn is_loose(self) -> bool {
        matches!(self, Split::Loose(_))
    }
}

fn sticky(consumer: Index) -> Vec<(u16, u16)> {
    match consumer % 3 {
        0 => vec![(0, 9_999), (40_000, 65_535)],
        1 => vec![(10_000, 25_000)],
        _ => vec![(25_001, 30_000)],
    }
}

/// The name of a consumer. Two at a time share one.
pub(crate) fn name_of(consumer: Index) -> String {
    format!("c{}", consumer / 2)
}

/// Who owns which slots.
#[derive(Debug)]
pub(crate) struct Owners {
    split: Split,
    /// In the order they joined, each with the number it has among those of its name.
    members: Vec<(Index, u32)>,
    /// First and last slot, owner; in order. On a ring they are points, each with its owner's number.
    ranges: Vec<(u32, u32, Index)>,
}

const SLOTS: u32 = 65_536;

impl Owners {
    pub(crate) fn new(split: Split) -> Owners {
        Owners { split, members: Vec::new(), ranges: Vec::new() }
    }

    pub(crate) fn split(&self) -> Split {
        self.split
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Index> {
        let slot = u32::from(slot);
        match self.split {
            Split::Auto(points) | Split::Loose(points) if points > 0 => {
                // Of several points at one slot that of the first name counts, and of one name that of the first number.
                let turn = |(at, number, owner): &(u32, u32, Index)| ((SLOTS + at - slot) % SLOTS, owner / 2, *number);
                self.ranges.iter().min_by_key(|point| turn(point)).map(|(.., owner)| *owner)
            }
            _ => self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(.., owner)| *owner),
        }
    }

    pub(crate) fn join(&mut self, consumer: Index) {
        let same = || self.members.iter().filter(|(other, _)| name_of(*other) == name_of(consumer));
        let number = (0..).find(|number| same().all(|(_, other)| other != number)).expect("a free number");
        self.members.push((consumer, number));
        match self.split {
            Split::Sticky => {
                self.ranges.extend(sticky(consumer).iter().map(|(first, last)| (u32::from(*first), u32::from(*last), consumer)));
            }
            Split::Auto(0) | Split::Loose(0) => self.share_out(|owner, surplus| if surplus > 0 { Some(consumer) } else { Some(owner) }),
            Split::Auto(points) | Split::Loose(points) => {
                let at = |point| wire::hash::key_slot(format!("{}\0{number}\0{point}", name_of(consumer)).as_bytes());
                self.ranges.extend((0..points).map(|point| (u32::from(at(point)), number, consumer)));
            }
        }
    }

    pub(crate) fn leave(&mut self, consumer: Index) {
        self.members.retain(|(member, _)| *member != consumer);
        match self.split {
            Split::Auto(0) | Split::Loose(0) => self.share_out(|owner, _| (owner != consumer).then_some(owner)),
            _ => self.ranges.retain(|(.., owner)| *owner != consumer),
        }
    }

    /// Goes over all slots from the lowest one on. Each goes to the one that `keeper` tells, by its owner and how many more than its
    /// part that one still has; or, if it tells none, to the owner of the slot below, or the first to join, whoever lacks some.
    fn share_out(&mut self, keeper: impl Fn(Index, i64) -> Option<Index>) {
        let before = std::mem::take(&mut self.ranges);
        let Some(newest) = self.members.last().map(|(newest, _)| *newest) else { return };
        let before = if before.is_empty() { vec![(0, SLOTS - 1, newest)] } else { before };
        let mut surplus = self.surplus(&before);
        for (first, last, owner) in before {
            let mut slot = first;
            while slot <= last {
                let more = surplus.iter().find(|(member, _)| *member == owner).map_or(0, |(_, more)| *more);
                let lacks = |member: Index| surplus.iter().any(|(other, more)| *other == member && *more < 0);
                let below = self.ranges.last().map(|(.., below)| *below).filter(|below| lacks(*below));
                let first_to_lack = || self.members.iter().map(|(member, _)| *member).find(|member| lacks(*member));
                let keeper = keeper(owner, more);
                let to = keeper.or(below).or_else(first_to_lack).expect("somebody lacks slots");
                let of_to = surplus.iter().find(|(member, _)| *member == to).map_or(0, |(_, more)| *more);
                // As many at once as change nothing of all that.
                let alike = match keeper {
                    Some(keeper) if keeper == owner => SLOTS,
                    Some(_) => more as u32,
                    None => of_to.unsigned_abs() as u32,
                };
                let end = last.min(slot.saturating_add(alike - 1));
                if to != owner {
                    for (member, more) in &mut surplus {
                        let moved = i64::from(end - slot + 1);
                        *more += if *member == to {
                            moved
                        } else if *member == owner {
                            -moved
                        } else {
                            0
                        };
                    }
                }
                self.ranges.push((slot, end, to));
                slot = end + 1;
            }
        }
    }

    /// How many slots more than its part each member has. Who has most gets the odd ones; the newest comes last.
    fn surplus(&self, ranges: &[(u32, u32, Index)]) -> Vec<(Index, i64)> {
        let count = self.members.len() as u32;
        let has =
            |member: Index| ranges.iter().filter(|(.., owner)| *owner == member).map(|(first, last, _)| last - first + 1).sum::<u32>();
        let mut members: Vec<Index> = self.members.iter().map(|(member, _)| *member).collect();
        members.sort_by_key(|member| std::cmp::Reverse(has(*member)));
        let part = |place: u32| SLOTS / count + u32::from(place < SLOTS % count);
        members.into_iter().zip(0..).map(|(member, place)| (member, i64::from(has(member)) - i64::from(part(place)))).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.members.clear();
    }
}
