//! Slots split evenly: shares differ by one slot at most, and only what a newcomer gets, or one that left had, changes hands.

use std::collections::BTreeMap;

use wire::hash::KEY_SLOTS;

use super::ranges::{Owned, append};
use crate::consumer::ConsumerIndex;

/// Who is there, in the order they joined.
#[derive(Debug, Default)]
pub(super) struct Even {
    members: Vec<ConsumerIndex>,
}

impl Even {
    /// A newcomer gets the lowest slots of each of the others, as many as those have too many now.
    pub(super) fn join(&mut self, owned: &[Owned], newcomer: ConsumerIndex) -> Vec<Owned> {
        let share = KEY_SLOTS / (count(&self.members) + 1);
        let mut surplus = shares(owned);
        for (member, target) in self.targets(&surplus, KEY_SLOTS - share) {
            let surplus = surplus.entry(member).or_default();
            *surplus = surplus.saturating_sub(target);
        }
        self.members.push(newcomer);
        let mut after = Vec::with_capacity(owned.len() + self.members.len());
        if owned.is_empty() {
            append(&mut after, 0, KEY_SLOTS, newcomer);
        }
        for (range, owner) in owned {
            let length = u32::from(range.last - range.first) + 1;
            let surplus = surplus.entry(*owner).or_default();
            let given = length.min(*surplus);
            *surplus -= given;
            append(&mut after, u32::from(range.first), given, newcomer);
            append(&mut after, u32::from(range.first) + given, length - given, *owner);
        }
        after
    }

    /// What one had that leaves goes to whoever has too few now: if it can be, to the owner of the slots just below, else to the one
    /// that joined first.
    pub(super) fn leave(&mut self, owned: &[Owned], leaver: ConsumerIndex) -> Vec<Owned> {
        self.members.retain(|member| *member != leaver);
        let shares = shares(owned);
        let mut wanted: BTreeMap<ConsumerIndex, u32> = BTreeMap::new();
        for (member, target) in self.targets(&shares, KEY_SLOTS) {
            wanted.insert(member, target.saturating_sub(shares.get(&member).copied().unwrap_or_default()));
        }
        let mut after: Vec<Owned> = Vec::with_capacity(owned.len());
        for (range, owner) in owned {
            let (mut first, end) = (u32::from(range.first), u32::from(range.last) + 1);
            if *owner != leaver {
                append(&mut after, first, end - first, *owner);
                continue;
            }
            while first < end {
                let wants = |member: &ConsumerIndex| wanted.get(member).is_some_and(|wanted| *wanted > 0);
                let below = after.last().map(|(_, owner)| *owner).filter(wants);
                let Some(heir) = below.or_else(|| self.members.iter().copied().find(wants)) else { break };
                let wanted = wanted.entry(heir).or_default();
                let length = (*wanted).min(end - first);
                *wanted -= length;
                append(&mut after, first, length, heir);
                first += length;
            }
        }
        after
    }

    /// How many slots each member is to have when they have so many in all; those that have more now get the odd ones.
    fn targets(&self, shares: &BTreeMap<ConsumerIndex, u32>, slots: u32) -> Vec<(ConsumerIndex, u32)> {
        let Some(each) = slots.checked_div(count(&self.members)) else { return Vec::new() };
        let odd = slots % count(&self.members);
        let mut members = self.members.clone();
        members.sort_by_key(|member| std::cmp::Reverse(shares.get(member).copied().unwrap_or_default()));
        members.into_iter().zip(0..).map(|(member, place)| (member, each + u32::from(place < odd))).collect()
    }

    #[cfg(test)]
    pub(super) fn of(members: Vec<ConsumerIndex>) -> Even {
        Even { members }
    }
}

fn count(members: &[ConsumerIndex]) -> u32 {
    u32::try_from(members.len()).unwrap_or(u32::MAX - 1)
}

fn shares(owned: &[Owned]) -> BTreeMap<ConsumerIndex, u32> {
    let mut shares = BTreeMap::new();
    for (range, owner) in owned {
        *shares.entry(*owner).or_default() += u32::from(range.last - range.first) + 1;
    }
    shares
}
