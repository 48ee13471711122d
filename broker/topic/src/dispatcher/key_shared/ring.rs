//! Consistent hashing: each consumer has points on a ring of slots that follow from its name, and owns what lies between a point of its
//! own and the point before. So one that comes back under its name gets what it had.

use wire::hash::KEY_SLOTS;

use super::ranges::{Owned, append};
use crate::consumer::ConsumerIndex;

/// See the module.
#[derive(Debug)]
pub(super) struct Ring {
    /// Points of each consumer.
    points: u32,
    /// In the order they joined.
    members: Vec<Member>,
    /// In the order of the ring; of several at one slot the one that joined first counts.
    placed: Vec<(u16, ConsumerIndex)>,
}

#[derive(Debug)]
struct Member {
    consumer: ConsumerIndex,
    name: Box<str>,
    /// Which one of that name, the lowest number that was free.
    number: u32,
}

impl Ring {
    pub(super) fn new(points: u32) -> Ring {
        Ring { points, members: Vec::new(), placed: Vec::new() }
    }

    pub(super) fn join(&mut self, consumer: ConsumerIndex, name: &str) -> Vec<Owned> {
        let namesakes = || self.members.iter().filter(|member| &*member.name == name);
        let number = (0..).find(|number| namesakes().all(|member| member.number != *number)).unwrap_or_default();
        self.members.push(Member { consumer, name: name.into(), number });
        let points = (0..self.points).map(|point| wire::hash::key_slot(format!("{name}\0{number}\0{point}").as_bytes()));
        self.placed.extend(points.map(|slot| (slot, consumer)));
        // Stable: newcomers stay behind those who were there.
        self.placed.sort_by_key(|(slot, _)| *slot);
        self.owned()
    }

    pub(super) fn leave(&mut self, consumer: ConsumerIndex) -> Vec<Owned> {
        self.members.retain(|member| member.consumer != consumer);
        self.placed.retain(|(_, other)| *other != consumer);
        self.owned()
    }

    fn owned(&self) -> Vec<Owned> {
        let Some((_, first)) = self.placed.first() else { return Vec::new() };
        let mut owned = Vec::with_capacity(self.placed.len() + 1);
        let mut from = 0;
        for (slot, consumer) in &self.placed {
            let end = u32::from(*slot) + 1;
            append(&mut owned, from, end.saturating_sub(from), *consumer);
            from = from.max(end);
        }
        // Behind the last point the ring begins again.
        append(&mut owned, from, KEY_SLOTS - from, *first);
        owned
    }
}
