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
    /// By name and number, so that who is there alone settles who owns what.
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: Box<str>,
    /// Which one of that name, the lowest number that was free.
    number: u32,
    consumer: ConsumerIndex,
    points: Vec<u16>,
}

impl Ring {
    pub(super) fn new(points: u32) -> Ring {
        Ring { points, members: Vec::new() }
    }

    pub(super) fn join(&mut self, consumer: ConsumerIndex, name: &str) -> Vec<Owned> {
        let namesakes = || self.members.iter().filter(|member| &*member.name == name);
        let number = (0..).find(|number| namesakes().all(|member| member.number != *number)).unwrap_or_default();
        let point = |point| wire::hash::key_slot(format!("{name}\0{number}\0{point}").as_bytes());
        let member = Member { name: name.into(), number, consumer, points: (0..self.points).map(point).collect() };
        let place = self.members.partition_point(|other| (&other.name, other.number) < (&member.name, number));
        self.members.insert(place, member);
        self.owned()
    }

    pub(super) fn leave(&mut self, consumer: ConsumerIndex) -> Vec<Owned> {
        self.members.retain(|member| member.consumer != consumer);
        self.owned()
    }

    fn owned(&self) -> Vec<Owned> {
        let points = self.members.iter().flat_map(|member| member.points.iter().map(|slot| (*slot, member.consumer)));
        let mut points: Vec<(u16, ConsumerIndex)> = points.collect();
        // Stable: of several points at one slot that of the first member counts.
        points.sort_by_key(|(slot, _)| *slot);
        let Some((_, first)) = points.first().copied() else { return Vec::new() };
        let mut owned = Vec::with_capacity(points.len() + 1);
        let mut from = 0;
        for (slot, consumer) in points {
            let end = u32::from(slot) + 1;
            append(&mut owned, from, end.saturating_sub(from), consumer);
            from = from.max(end);
        }
        // Behind the last point the ring begins again.
        append(&mut owned, from, KEY_SLOTS - from, first);
        owned
    }
}
